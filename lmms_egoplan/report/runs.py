"""Readers of runs that lmms-eval and lm-eval wrote (``--output_path DIR --log_samples``), with unique names."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic_core import from_json

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode
from lmms_egoplan.outputs import MANIFEST
from lmms_egoplan.report.benchmark import ReportedBenchmark
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.judged import holds_lines, read_judged
from lmms_egoplan.report.logged_samples import HOW_TO_LOG, SampleFile, model_name, sample_file, short_name, start_time
from lmms_egoplan.report.provenance import provenance_of
from lmms_egoplan.report.recompute import scoring_of, scorings
from lmms_egoplan.report.run import Run, Runs, TaskRun
from lmms_egoplan.report.task_versions import base_task, logged_version
from lmms_egoplan.storage import DataMissingError
from lmms_egoplan.validation import listing, shown

# Large parts of a sample that no table uses: prompts, raw responses, hashes, and lists that are equal in all samples.
_UNUSED = frozenset(
    ("arguments", "input", "resps", "token_counts", "doc_hash", "prompt_hash", "target_hash", "filter", "metrics")
)
_STDERR = re.compile(r".+_stderr(_\w+)?")
# Files of lmms-eval in the folder of --use_cache; other caches have no .json or .jsonl files.
_CACHE = re.compile(r"(cache|rank_\d+)\.audit\.jsonl")
_MOST_LINES = 10
_NO_SAMPLES = "no samples of a harness; give judged answers by their own path"


_Reader = Callable[[Path, dict[str, Any], Collection[SampleFile], list[str]], Run | None]
"""Reads a run from the path and content of its results file; appends skipped files to the list."""


class _UnusableError(ValueError):
    """A file is ignored; the message begins with its path."""


def read_runs(
    folders: Sequence[Path],
    names: Mapping[Path, str] = MappingProxyType({}),
    benchmarks: Iterable[ReportedBenchmark] = (),
) -> Runs:
    """Read all runs at or below some paths.

    Args:
        folders: results files, recognised by their content, and folders with such at any depth; files of judged answers
            (`read_judged`).
        benchmarks: their judged answers are read.
        names: of the runs at or below a path; the deepest path counts. Default: the last part of the model's name, for
            checkpoints the last two. Equal names get harness, time and folder, as far as needed.

    Raises:
        LmmsEgoplanError: a path does not exist, has a name but no run, or there is no run at all.
    """
    return _read(folders, names, benchmarks, _run, f"no run of the project's tasks; {HOW_TO_LOG}")


def read_scores(folders: Sequence[Path], benchmarks: Iterable[ReportedBenchmark] = ()) -> Runs:
    """Read runs as `read_runs` does, but only from the results files, without samples.

    Tasks of other projects are read, too, as `Run.others`.

    Raises:
        LmmsEgoplanError: a path does not exist, or there are no results at all.
    """
    return _read(folders, {}, benchmarks, _scores, "no results of a run")


def _read(
    folders: Sequence[Path],
    names: Mapping[Path, str],
    benchmarks: Iterable[ReportedBenchmark],
    read: _Reader,
    problem: str,
) -> Runs:
    """Read runs by a function; without any, the error states the problem."""
    judged: dict[Path, Run] = {}
    skipped: list[str] = []
    results: dict[Path, dict[str, Any]] = {}
    logs: dict[Path, SampleFile] = {}
    run_paths: dict[Path, list[Path]] = {}
    for folder in folders:
        if not folder.exists():
            raise LmmsEgoplanError(
                f"{folder}: no such file or folder; give the --output_path of a run, or its results file"
            )
        if holds_lines(folder):
            run_paths[folder] = [_resolved(folder)]
            try:
                judged[_resolved(folder)] = read_judged(folder, benchmarks)
            except DataMissingError as error:
                skipped.append(f"{folder}: no row, it needs the prepared data: {error}")
            continue
        contents = _results(folder, skipped)
        results |= contents
        run_paths[folder] = list(contents)
        lines_files = sorted(folder.rglob("*.jsonl") if folder.is_dir() else folder.parent.glob("*.jsonl"))
        named = {path: sample_file(_resolved(path)) for path in lines_files if not _CACHE.fullmatch(path.name)}
        files = [file for file in named.values() if file is not None]
        logs |= {file.path: file for file in files if folder.is_dir() or any(_belongs(file, path) for path in contents)}
        if folder.is_dir():
            others = [f"{path}: {_NO_SAMPLES}" for path, file in named.items() if file is None and path.is_file()]
            skipped += _first(others, folder, "JSONL files that are no samples of a harness")
    runs = {path: run for path, content in results.items() if (run := read(path, content, logs.values(), skipped))}
    runs |= judged
    skipped += _without_results(file for file in logs.values() if not any(_belongs(file, path) for path in results))
    lines = tuple(dict.fromkeys(skipped))
    if not runs:
        reasons = f"\n{listing(lines, _MOST_LINES)}" if lines else ""
        raise LmmsEgoplanError(f"{', '.join(map(str, folders))}: {problem}{reasons}")
    unique_names = names_of(runs, names)
    without = tuple(folder for folder, paths in run_paths.items() if runs.keys().isdisjoint(paths))
    return Runs(tuple(replace(run, name=unique_names[path]) for path, run in runs.items()), lines, without)


def _results(folder: Path, skipped: list[str]) -> dict[Path, dict[str, Any]]:
    """Read the results files at or below a path."""
    results: dict[Path, dict[str, Any]] = {}
    foreign: list[str] = []
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]:
        if path.name == MANIFEST or not path.is_file():
            continue
        try:
            content = decode(path.read_bytes())
        except OSError as error:
            skipped.append(f"{path}: cannot be read: {error.strerror}")
        except ValueError as error:
            skipped.append(f"{path}: no JSON: {error}; if a run was stopped while it wrote this, run again")
        else:
            parts = [content.get(name) for name in ("results", "configs")] if isinstance(content, dict) else [None]
            if all(isinstance(part, dict) for part in parts):
                results[_resolved(path)] = content
            elif not _is_report(content):
                foreign.append(f"{path}: no results of a run")
    skipped += _first(foreign, folder, "JSON files that are no results of a run")
    if folder.is_dir() and not results:
        skipped.append(f"{folder}: no results of a run below it")
    return results


def _is_report(content: Any) -> bool:
    """Recognise the ``report.json`` of an earlier report, which may be below the runs' folder."""
    package = content.get("package") if isinstance(content, dict) else None
    return isinstance(package, dict) and package.get("name") == "lmms-egoplan"


def _first(lines: list[str], folder: Path, what: str) -> list[str]:
    """Return at most `_MOST_LINES` lines, then the number of the others below the folder."""
    more = f"{folder}: {len(lines) - _MOST_LINES} more {what}"
    return [*lines[:_MOST_LINES], more] if len(lines) > _MOST_LINES else lines


def _resolved(path: Path) -> Path:
    """Resolve all links except the last, whose name describes the file."""
    return path.parent.resolve() / path.name


def _belongs(file: SampleFile, results: Path) -> bool:
    """Return true if samples belong to these results; in lm-eval, only the time in their names is the same."""
    same_time = results.name == file.results.name or results.name.endswith(f"_{file.time}.json")
    return same_time and file.path.parent == results.parent


def _run(path: Path, content: dict[str, Any], logs: Collection[SampleFile], skipped: list[str]) -> Run | None:
    """Read a run with its samples; None if none of its tasks is the project's."""
    own, others = _tasks(content)
    files = {file.task: file for file in logs if _belongs(file, path)}
    tasks = {}
    for task, task_run in own.items():
        samples = None
        if task in files:
            try:
                samples = tuple(_samples(files[task].path, list(task_run.scoring.metrics if task_run.scoring else ())))
            except _UnusableError as error:
                skipped.append(str(error))
        tasks[task] = replace(task_run, samples=samples)
    if others:
        skipped.append(f"{path}: left out, of these tasks the report shows nothing: {', '.join(others)}")
    if unknown_tasks := [task for task, task_run in others.items() if _looks_own(task, task_run.metrics)]:
        names = ", ".join(unknown_tasks)
        skipped.append(f"{path}: to show {names}, add `benchmark: NAME` to the metadata of their YAML or their configs")
    if unknown := sorted(files.keys() - content["configs"].keys()):
        skipped.append(f"{path}: no results of {', '.join(unknown)}, of which there are samples; these are left out")
    if missing := [task for task in tasks if task not in files]:
        skipped.append(f"{path}: no samples of {', '.join(missing)}, so there are scores alone; {HOW_TO_LOG}")
    return _under_model(path, content, tasks, {}) if tasks else None


def _scores(path: Path, content: dict[str, Any], *_: object) -> Run | None:
    """Read a run without samples; None if no task has a metric."""
    tasks, others = _tasks(content)
    has_metrics = any(task_run.metrics for task_run in (*tasks.values(), *others.values()))
    return _under_model(path, content, tasks, others) if has_metrics else None


def _under_model(path: Path, content: dict[str, Any], tasks: dict[str, TaskRun], others: dict[str, TaskRun]) -> Run:
    harness = "lmms-eval" if "lmms_eval_version" in content else "lm-eval"
    model = model_name(path, content)
    time = start_time(path, content)
    origin = provenance_of(content, model, harness, time, path.parent)
    return Run(short_name(model), path.parent, harness, model, time, tasks, others, origin)


def _tasks(content: dict[str, Any]) -> tuple[dict[str, TaskRun], dict[str, TaskRun]]:
    """Return the project's tasks, and all others, without samples."""
    own: dict[str, TaskRun] = {}
    others: dict[str, TaskRun] = {}
    for task, entry in content["results"].items():
        config = content["configs"].get(task)
        if config is None:
            continue  # A group of tasks.
        metrics = _metrics(entry)
        scoring = scoring_of(task, config, metrics)
        is_own = scoring is not None and scoring.last in metrics
        version = logged_version(content, task)
        (own if is_own else others)[task] = TaskRun(task, metrics, config, None, version, scoring if is_own else None)
    return own, others


def _looks_own(task: str, metrics: Mapping[str, Any]) -> bool:
    """Return true for a task with an unknown name and all metrics of one of this project's tasks."""
    return base_task(task) is None and any(scoring.metrics.keys() <= metrics.keys() for scoring in scorings())


def _metrics(entry: Any) -> dict[str, Any]:
    """Return metrics by bare name; ``acc,none`` is the metric ``acc`` after the filter ``none``."""
    named = entry.items() if isinstance(entry, dict) else ()
    bare = ((*name.partition(","), value) for name, value in named)
    return {metric: value for metric, comma, _, value in bare if comma and not _STDERR.fullmatch(metric)}


def _samples(path: Path, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the logged lines; the last of the metrics has a value in each."""
    number = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _sample(f"{path}, line {number}", line, metrics)
    except OSError as error:
        raise _UnusableError(f"{path}: left out, cannot be read: {error.strerror}") from error
    if not number:
        raise _UnusableError(f"{path}: left out, there are no samples in it; run again")


def _sample(where: str, line: bytes, metrics: Sequence[str]) -> dict[str, Any]:
    try:
        sample = _decode(line)
    except ValueError as error:
        stopped = "was the run stopped while it wrote? Run again"
        raise _UnusableError(f"{where}: the file is left out: no JSON: {error}; {stopped}") from error
    if not isinstance(sample, dict):
        raise _UnusableError(f"{where}: the file is left out: expected an object, found {shown(sample)}")
    # On several processes lm-eval logs None for a metric that the question does not have.
    sample = {name: value for name, value in sample.items() if value is not None or name not in metrics}
    for metric in metrics:
        if not isinstance(sample.get(metric, None if metric == metrics[-1] else {}), dict):
            value = shown(sample.get(metric))
            raise _UnusableError(f"{where}: the file is left out: {metric}: expected an object, found {value}")
    sent = {"prompt": _prompt(sample), "tokens": _tokens(sample)}
    return {name: value for name, value in sample.items() if name not in _UNUSED} | {
        name: value for name, value in sent.items() if value is not None
    }


def _prompt(sample: Mapping[str, Any]) -> str | None:
    """Return the prompt: lmms-eval logs it, lm-eval the arguments of each request, with equal prompts."""
    arguments = sample.get("arguments")
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    sent = first.get("arg_0") if isinstance(first, dict) else sample.get("input")
    return sent if isinstance(sent, str) and sent.strip() else None


def _tokens(sample: Mapping[str, Any]) -> tuple[int, int] | None:
    """Sum the tokens of prompts and answers over a question's requests; None unless all are counted."""
    counts = sample.get("token_counts")
    names = ("input_tokens", "output_tokens")
    if not isinstance(counts, list) or not counts or not all(isinstance(count, dict) for count in counts):
        return None
    values = [[count.get(name) for count in counts] for name in names]
    if not all(isinstance(value, int) for of_name in values for value in of_name):
        return None
    return sum(values[0]), sum(values[1])


def _decode(line: bytes) -> Any:
    """Decode a line by pydantic, which keeps equal short texts once in memory; else as `decode` does."""
    try:
        return from_json(line)
    except ValueError:  # It refuses halves of surrogate pairs, which a harness may log.
        return decode(line)


def _without_results(files: Iterable[SampleFile]) -> list[str]:
    tasks: dict[Path, list[str]] = {}
    for file in files:
        tasks.setdefault(file.results, []).append(file.task)
    return [
        f"{path}: {'cannot be used' if path.exists() else 'is not there'}, so the samples of {', '.join(named)} beside "
        "it are left out; was the run stopped while it wrote? Run again"
        for path, named in tasks.items()
    ]


def names_of(runs: Mapping[Path, Run], chosen: Mapping[Path, str]) -> dict[Path, str]:
    """Give each run a unique name; chosen names stay unless two are equal.

    Args:
        runs: by results file.
        chosen: names of the runs at or below a path; the deepest path counts. Default: the run's own name.

    Raises:
        LmmsEgoplanError: a path with a chosen name has no run.
    """
    by_path = {path.resolve(): name for path, name in chosen.items()}
    named: dict[Path, str] = {}
    without_run = set(by_path)
    for path in runs:
        above = [folder for folder in (path.resolve(), path, *path.parents) if folder in by_path]
        without_run -= set(above)
        if above:
            named[path] = by_path[above[0]]
    if without_run:
        paths = ", ".join(sorted(map(str, without_run)))
        raise LmmsEgoplanError(f"{paths}: has a name, but no run. Name a path that is given, or a path below it")
    names = _distinct({path: _ladder(path, clean(name), runs[path]) for path, name in named.items()}, ())
    others = {path: _ladder(path, clean(run.name), run) for path, run in runs.items() if path not in named}
    return names | _distinct(others, names.values())


def _ladder(path: Path, name: str, run: Run) -> tuple[str, ...]:
    """Return names for a run, each more specific than the one before."""
    details = [run.harness, run.time, str(run.folder), path.name]
    return (name, *(f"{name} ({', '.join(details[:count])})" for count in range(1, len(details) + 1)))


def _distinct(ladders: Mapping[Path, Sequence[str]], taken: Collection[str]) -> dict[Path, str]:
    """Choose the first of each run's names, or a later one if another run has the same."""
    names = {path: ladder[0] for path, ladder in ladders.items()}
    for step in range(1, max(map(len, ladders.values()), default=0)):
        counts = Counter((*names.values(), *taken))
        names = {path: ladders[path][step] if counts[name] > 1 else name for path, name in names.items()}
    return names
