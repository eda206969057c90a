"""Runs as lmms-eval and lm-eval leave them on the disk (``--output_path DIR --log_samples``)."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from lmms_egoplan.checking import listing, shown
from lmms_egoplan.logged_samples import HOW_TO_LOG, SampleFile, sample_file
from lmms_egoplan.report.contents import ReportError
from lmms_egoplan.report.names import names_of
from lmms_egoplan.report.recompute import aggregations, former_names
from lmms_egoplan.task_versions import logged_version

# What is heavy in a sample and in no table: prompts, raw responses, hashes, and lists that are the same in all.
_LEFT_OUT = frozenset(
    ("arguments", "input", "resps", "token_counts", "doc_hash", "prompt_hash", "target_hash", "filter", "metrics")
)
_STDERR = re.compile(r".+_stderr(_\w+)?")
_TIME = re.compile(r"(?:(?P<first>.+)_results|.+_(?P<last>\d{4}-\d\d-\d\dT[\d.-]+))\.json")
_TIME_FORMATS = ("%Y%m%d_%H%M%S", "%Y-%m-%dT%H-%M-%S.%f", "%Y-%m-%dT%H-%M-%S")
_LISTED = 10
_NO_SAMPLES = "no samples of a harness; lmms-egoplan agreement compares judged files"


@dataclass(frozen=True)
class TaskRun:
    """One task of a run.

    metrics: the harness's own values by the metric's present name (`former_names`), without standard errors.
    config: the task's, as the harness logs it.
    samples: one for each question, as logged, but metrics under their present names, without prompts, raw responses,
        token counts and hashes; with the question itself, as ``doc``, in lm-eval alone. None where there are none that
        can be read.
    version: of the task, see `logged_version`.
    """

    task: str
    metrics: dict[str, Any]
    config: dict[str, Any]
    samples: tuple[dict[str, Any], ...] | None
    version: str | None = None


@dataclass(frozen=True)
class Run:
    """What one results file tells, and the samples beside it.

    name: different from those of the other runs read with it.
    folder: where the files are.
    model: as the harness names it.
    time: of the run, as ``2026-01-31 12:00:00`` in the harness's time zone; as it stands where that is no time.
    tasks: those of this project by name, at least one; groups of tasks are left out.
    """

    name: str
    folder: Path
    harness: Literal["lmms-eval", "lm-eval"]
    model: str
    time: str
    tasks: dict[str, TaskRun]


@dataclass(frozen=True)
class Runs:
    """What was read.

    runs: in the order of the paths that were given; below a folder by path.
    skipped: what was left out or is missing, and why; a line each, which begins with the path.
    """

    runs: tuple[Run, ...]
    skipped: tuple[str, ...]


class _UnusableError(ValueError):
    """A file is to be left out; the message begins with its path."""


def read_runs(folders: Sequence[Path], names: Mapping[Path, str] = MappingProxyType({})) -> Runs:
    """All runs at or below some paths.

    Args:
        folders: results files, which are told by what is in them, and folders with such at any depth.
        names: of the runs at or below a path; the deepest path counts. The others are named after the last part of
            their model's name. What is the same for several runs gets harness, time and folder, as far as needed.

    Raises:
        ReportError: a path does not exist, has a name but no run, or there is no run at all.
    """
    skipped: list[str] = []
    results: dict[Path, dict[str, Any]] = {}
    logs: dict[Path, SampleFile] = {}
    for given in folders:
        if not given.exists():
            raise ReportError(f"{given}: no such file or folder; give the --output_path of a run, or its results file")
        found = _results(given, skipped)
        results |= found
        beside = sorted(given.rglob("*.jsonl") if given.is_dir() else given.parent.glob("*.jsonl"))
        named = {path: sample_file(_place(path)) for path in beside}
        files = [file for file in named.values() if file is not None]
        logs |= {file.path: file for file in files if given.is_dir() or any(_belongs(file, path) for path in found)}
        if given.is_dir():
            others = [f"{path}: {_NO_SAMPLES}" for path, file in named.items() if file is None and path.is_file()]
            skipped += _first(others, given, "JSONL files that are no samples of a harness")
    drafts = [(path, _run(path, content, logs.values(), skipped)) for path, content in results.items()]
    runs = {path: run for path, run in drafts if run is not None}
    skipped += _without_results(file for file in logs.values() if not any(_belongs(file, path) for path in results))
    lines = tuple(dict.fromkeys(skipped))
    if not runs:
        told = f"\n{listing(lines, _LISTED)}" if lines else ""
        raise ReportError(f"{', '.join(map(str, folders))}: no run of the project's tasks; {HOW_TO_LOG}{told}")
    found = names_of(runs, names)
    return Runs(tuple(replace(run, name=found[path]) for path, run in runs.items()), lines)


def _results(given: Path, skipped: list[str]) -> dict[Path, dict[str, Any]]:
    """The content of the results files at or below a path."""
    found: dict[Path, dict[str, Any]] = {}
    foreign: list[str] = []
    for path in sorted(given.rglob("*.json")) if given.is_dir() else [given]:
        if not path.is_file():
            continue
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            skipped.append(f"{path}: cannot be read: {error.strerror}")
        except (ValueError, RecursionError) as error:
            skipped.append(f"{path}: no JSON: {error}; if a run was stopped while it wrote this, run again")
        else:
            parts = [content.get(name) for name in ("results", "configs")] if isinstance(content, dict) else [None]
            if all(isinstance(part, dict) for part in parts):
                found[_place(path)] = content
            else:
                foreign.append(f"{path}: no results of a run")
    skipped += _first(foreign, given, "JSON files that are no results of a run")
    if given.is_dir() and not found:
        skipped.append(f"{given}: no results of a run below it")
    return found


def _first(lines: list[str], given: Path, what: str) -> list[str]:
    """At most `_LISTED` lines, then how many more there are below the path."""
    more = f"{given}: {len(lines) - _LISTED} more {what}"
    return [*lines[:_LISTED], more] if len(lines) > _LISTED else lines


def _place(path: Path) -> Path:
    """The same for one file however it is reached; a link keeps its name, which tells what is in it."""
    return path.parent.resolve() / path.name


def _belongs(file: SampleFile, results: Path) -> bool:
    """Whether samples are of the run with these results, which lm-eval may have given another name before the time."""
    same_time = results.name == file.results.name or results.name.endswith(f"_{file.time}.json")
    return same_time and file.path.parent == results.parent


def _run(path: Path, content: dict[str, Any], logs: Collection[SampleFile], skipped: list[str]) -> Run | None:
    """The run under its model's name; None if none of its tasks are the project's."""
    files = {file.task: file for file in logs if _belongs(file, path)}
    tasks, foreign = {}, []
    for task, entry in content["results"].items():
        config = content["configs"].get(task)
        if config is None:
            continue  # A group of tasks.
        lists, former = (aggregations(config), former_names(config)) if isinstance(config, dict) else (None, {})
        metrics = _metrics(entry, former)
        if not lists or list(lists)[-1] not in metrics:
            foreign.append(task)
            continue
        samples = None
        if task in files:
            try:
                samples = tuple(_samples(files[task].path, list(lists), former))
            except _UnusableError as error:
                skipped.append(str(error))
        tasks[task] = TaskRun(task, metrics, config, samples, logged_version(content, task))
    if foreign:
        skipped.append(f"{path}: left out, of these tasks the report shows nothing: {', '.join(foreign)}")
    if unknown := sorted(files.keys() - content["configs"].keys()):
        skipped.append(f"{path}: no results of {', '.join(unknown)}, of which there are samples; these are left out")
    if missing := [task for task in tasks if task not in files]:
        skipped.append(f"{path}: no samples of {', '.join(missing)}, so there are scores alone; {HOW_TO_LOG}")
    if not tasks:
        return None
    harness = "lmms-eval" if "lmms_eval_version" in content else "lm-eval"
    model = _model(path, content)
    return Run(model.rpartition("/")[2], path.parent, harness, model, _time(path), tasks)


def _metrics(entry: Any, former: Mapping[str, str]) -> dict[str, Any]:
    """By bare present name; ``acc,none`` is the metric ``acc`` behind the filter ``none``."""
    named = entry.items() if isinstance(entry, dict) else ()
    bare = ((*name.partition(","), value) for name, value in named)
    return {
        former.get(metric, metric): value for metric, comma, _, value in bare if comma and not _STDERR.fullmatch(metric)
    }


def _samples(path: Path, metrics: Sequence[str], former: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The logged lines; the last of the metrics has a value in each."""
    number = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _sample(f"{path}, line {number}", line, metrics, former)
    except OSError as error:
        raise _UnusableError(f"{path}: left out, cannot be read: {error.strerror}") from error
    if not number:
        raise _UnusableError(f"{path}: left out, there are no samples in it; run again")


def _sample(where: str, line: bytes, metrics: Sequence[str], former: Mapping[str, str]) -> dict[str, Any]:
    try:
        sample = json.loads(line)
    except (ValueError, RecursionError) as error:
        stopped = "was the run stopped while it wrote? Run again"
        raise _UnusableError(f"{where}: the file is left out: no JSON: {error}; {stopped}") from error
    if not isinstance(sample, dict):
        raise _UnusableError(f"{where}: the file is left out: expected an object, found {shown(sample)}")
    # On several processes lm-eval logs None for a metric that the question does not have.
    sample = {name: value for name, value in sample.items() if value is not None or name not in (*former, *metrics)}
    for metric in (*former, *metrics):
        if not isinstance(sample.get(metric, None if metric == metrics[-1] else {}), dict):
            found = shown(sample.get(metric))
            raise _UnusableError(f"{where}: the file is left out: {metric}: expected an object, found {found}")
    return {former.get(name, name): value for name, value in sample.items() if name not in _LEFT_OUT}


def _without_results(files: Iterable[SampleFile]) -> list[str]:
    tasks: dict[Path, list[str]] = {}
    for file in files:
        tasks.setdefault(file.results, []).append(file.task)
    return [
        f"{path}: {'cannot be used' if path.exists() else 'is not there'}, so the samples of {', '.join(named)} beside "
        "it are left out; was the run stopped while it wrote? Run again"
        for path, named in tasks.items()
    ]


def _model(path: Path, content: Mapping[str, Any]) -> str:
    config = content.get("config")
    backend = config.get("model") if isinstance(config, dict) else None
    found = (content.get("model_name"), backend, path.parent.name)
    return next((name.strip().rstrip("/") for name in found if isinstance(name, str) and name.strip(" /")), "model")


def _time(path: Path) -> str:
    match = _TIME.fullmatch(path.name)
    time = (match["first"] or match["last"]) if match else path.stem
    for pattern in _TIME_FORMATS:
        try:
            return datetime.strptime(time, pattern).isoformat(sep=" ", timespec="seconds")
        except ValueError:
            continue
    return time
