"""Judged answers in files, as the ``judge`` commands write them, read like the runs of a harness."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.file_kinds import kind_of
from lmms_egoplan.jsonl import decode, parse_record, read_lines
from lmms_egoplan.report.benchmark import ReportedBenchmark
from lmms_egoplan.report.logged_samples import Origin, short_name
from lmms_egoplan.report.recompute import recompute, scoring_of
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scored import Record, logged
from lmms_egoplan.validation import listing, read_as


def holds_lines(path: Path) -> bool:
    """Return whether a file holds JSON lines, of judged answers or of something that `read_judged` names."""
    if not path.is_file() or ".jsonl" in path.suffixes:
        return path.is_file()
    try:
        with path.open("rb") as lines:
            first = decode(lines.readline())
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and {"rating", "ratings"} & first.keys() != set()


def judged_record(kind: type[Record], where: str, record: dict[str, Any]) -> Record:
    """Read a judged answer whose fields are among others.

    Raises:
        LmmsEgoplanError: it is something else.
    """
    try:
        return logged(kind, record)
    except ValueError as error:
        raise LmmsEgoplanError(f"{where}: {error}; was the file changed? Judge the answers again") from error


def has_repeats(path: Path) -> bool:
    """Return whether answers were judged several times."""
    return any('"repeats"' in line for _, line in read_lines(path)[:1])


def read_judged(path: Path, benchmarks: Iterable[ReportedBenchmark]) -> Run:
    """Read a file of judged answers as a run: samples and metrics by the functions that score a harness's answers.

    The row of a file with repeats is of the first judging, and an answer without a rating in each repeat is unrated.

    Raises:
        LmmsEgoplanError: the file holds something else (the message says what it looks like), or answers of several
            runs, or answers that the benchmark's prepared data do not have.
    """
    records = [(where, parse_record(where, line)) for where, line in read_lines(path)]
    if not records or not isinstance(records[0][1], dict):
        raise LmmsEgoplanError(f"{path}: no judged answers in it; give a run's folder, or a file of lmms-egoplan judge")
    first = records[0][1]
    kind = kind_of(first)
    report = next((each.load_report() for each in benchmarks if each.name == kind.get("judged")), None)
    if report is None:
        other = f"objects with {', '.join([*first][:5])}, neither a run nor judged answers"
        raise LmmsEgoplanError(f"{path}: this looks like {kind.get('name', other).format(path=path)}")
    tasks: dict[str, TaskRun] = {}
    samples: dict[str, list[dict[str, Any]]] = {}
    origins: list[Origin | None] = []
    for (where, record), (task, config, sample) in zip(records, report.judged_samples(path), strict=True):
        origin = read_as(Origin, where, record["run"]) if record.get("run") is not None else None
        origins.append(origin)
        name, of_run, version = (origin.task, origin.config, origin.version) if origin else (task, {}, None)
        metadata = {**(of_run.get("metadata") or {}), **config.get("metadata", {}), "benchmark": report.NAME}
        config = {**of_run, **config, "metadata": metadata}
        tasks.setdefault(name, TaskRun(name, {}, config, (), version, scoring_of(name, config, sample)))
        samples.setdefault(name, []).append(sample)
    whole = {name: replace(task_run, samples=tuple(samples[name])) for name, task_run in tasks.items()}
    return _run(path, {name: replace(x, metrics=recompute(x)) for name, x in whole.items()}, origins)


def _run(path: Path, tasks: dict[str, TaskRun], origins: Sequence[Origin | None]) -> Run:
    runs = dict.fromkeys((origin.model, origin.harness, origin.time) if origin else None for origin in origins)
    if len(runs) > 1:
        models = [run[0] if run else "an unknown model" for run in runs]
        raise LmmsEgoplanError(f"{path}: answers of several runs: {listing(models, 5)}\nJudge each run by itself.")
    model, harness, time = next(iter(runs)) or (path.stem, "answers without a run", "time unknown")
    provenance = {"model": model, "harness": harness, "started": time, "judged answers": str(path)}
    return Run(short_name(model), path.parent, f"{harness}, judged later", model, time, tasks, {}, provenance)
