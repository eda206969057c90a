"""Read a file of judged answers as a run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.benchmarks.file_kinds import kind_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, parse_record, read_lines
from lmms_egoplan.model_names import short_name
from lmms_egoplan.report.identity import is_known
from lmms_egoplan.report.recompute import recompute
from lmms_egoplan.report.run import Run, TaskRun, scoring_of
from lmms_egoplan.report.samples import JudgedSample, Origin
from lmms_egoplan.validation import listing, read_as


def holds_lines(path: Path) -> bool:
    """Return true for files of JSON lines.

    `read_judged` reads them, or refuses them with an explanation.
    """
    if not path.is_file() or ".jsonl" in path.suffixes:
        return path.is_file()
    try:
        with path.open("rb") as lines:
            first = decode(lines.readline())
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and {"rating", "ratings"} & first.keys() != set()


def is_judged(path: Path) -> bool:
    """Return true if the first line of a file is a judged answer."""
    try:
        with path.open("rb") as lines:
            kind = kind_of(decode(lines.readline()))
    except (OSError, ValueError):
        return False
    return kind is not None and bool(kind.judged)


def has_repeats(path: Path) -> bool:
    """Return true if the answers in a file were judged several times."""
    return any('"repeats"' in line for _, line in read_lines(path)[:1])


def judged_samples(benchmark: str, path: Path) -> Iterator[JudgedSample]:
    """Read a file of judged answers, in order, and score them like a harness's task.

    Args:
        benchmark: The benchmark's name. Only those with a `FileKind` of judged answers have such
            files.
        path: The file.

    Raises:
        LmmsEgoplanError: A line is not a judged answer, or its question is not prepared.
        ValueError: The benchmark has no such files.
    """
    if benchmark == "egothink":
        from lmms_egoplan.report.egothink import answers as egothink

        return egothink.judged_samples(path)
    if benchmark == "egointent":
        from lmms_egoplan.report.egointent import answers as egointent

        return egointent.judged_samples(path)
    raise ValueError(f"no judged answers of a benchmark {benchmark!r}")


def read_judged(path: Path, benchmarks: Iterable[Benchmark]) -> Run:
    """Read a file of judged answers as a run.

    Score it with the functions that score a harness's answers.

    For a file with repeats, the first judgement counts. An answer is unrated unless every repeat
    has a rating.

    Raises:
        LmmsEgoplanError: the file has other content, answers of several runs, or answers to
            questions that are not in the benchmark's prepared data. For other content, the message
            says what it looks like.
    """
    records = [(where, parse_record(where, line)) for where, line in read_lines(path)]
    if not records or not isinstance(records[0][1], dict):
        raise LmmsEgoplanError(
            f"{path}: no judged answers; pass a run's folder, or a file from lmms-egoplan judge"
        )
    first = records[0][1]
    kind = kind_of(first)
    if kind is None:
        keys = ", ".join([*first][:5])
        raise LmmsEgoplanError(
            f"{path}: this looks like objects with {keys}, neither a run nor judged answers"
        )
    if kind.judged not in {benchmark.name for benchmark in benchmarks}:
        raise LmmsEgoplanError(f"{path}: this looks like {kind.name.format(path=path)}")
    tasks: dict[str, TaskRun] = {}
    samples: dict[str, list[dict[str, Any]]] = {}
    origins: list[Origin | None] = []
    judged = judged_samples(kind.judged, path)
    for (where, record), sample in zip(records, judged, strict=True):
        origin = None
        if record.get("run") is not None:
            origin = read_as(Origin, where, record["run"])
        origins.append(origin)
        task_run = _judged_task(kind.judged, sample, origin)
        tasks.setdefault(task_run.task, task_run)
        samples.setdefault(task_run.task, []).append(sample.values)
    scored: dict[str, TaskRun] = {}
    for name, task_run in tasks.items():
        complete = replace(task_run, samples=tuple(samples[name]))
        scored[name] = replace(complete, metrics=recompute(complete))
    return _judged_run(path, scored, origins)


def _judged_task(benchmark: str, sample: JudgedSample, origin: Origin | None) -> TaskRun:
    """Return the task of a judged answer, without samples and metrics.

    Args:
        benchmark: The benchmark's name.
        sample: The answer.
        origin: The run that wrote the answer; None if it is unknown.
    """
    name = sample.task
    run_config: Mapping[str, Any] = {}
    version = None
    if origin is not None:
        name = origin.task
        run_config = origin.config
        version = origin.version
    metadata = {
        **(run_config.get("metadata") or {}),
        **sample.config.get("metadata", {}),
        "benchmark": benchmark,
    }
    config = {**run_config, **sample.config, "metadata": metadata}
    return TaskRun(name, {}, config, (), version, scoring_of(name, config, sample.values))


def _judged_run(path: Path, tasks: dict[str, TaskRun], origins: Sequence[Origin | None]) -> Run:
    """Return the run of judged answers; the newest of several runs of one model."""
    runs: dict[tuple[str, str, str] | None, Origin | None] = {}
    for origin in origins:
        runs[(origin.model, origin.harness, origin.time) if origin else None] = origin
    identities = [origin.identity if origin else {} for origin in runs.values()]
    is_one_model = is_known(identities[0]) and all(
        identity == identities[0] for identity in identities
    )
    if len(runs) > 1 and not is_one_model:
        models = [run[0] if run else "an unknown model" for run in runs]
        raise LmmsEgoplanError(
            f"{path}: answers of several runs:\n{listing(models, 5)}\nJudge each run separately."
        )
    newest = max(runs, key=lambda run: run[2] if run else "")
    model, harness, time = newest or (path.stem, "answers without a run", "time unknown")
    provenance = {"model": model, "harness": harness, "started": time, "judged answers": str(path)}
    return Run(
        short_name(model),
        path.parent,
        f"{harness}, judged later",
        model,
        time,
        tasks,
        provenance=provenance,
        identity=identities[0],
    )
