"""Compare two runs: the verdict on each shared task, and the settings that differ."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import ReportedBenchmark
from lmms_egoplan.report.comparability import NOT_COMPARABLE, named, unequal, unknown_prompts
from lmms_egoplan.report.comparisons import scaled, verdict_note, weighed
from lmms_egoplan.report.document import DEMO_NOTE
from lmms_egoplan.report.equivalence import Evidence, decide
from lmms_egoplan.report.run import Run, changed_settings, flat_settings, member
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.scores import ScoredTask, check, is_score
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS
from lmms_egoplan.report.tables import Column, Table, Value, table_of_runs
from lmms_egoplan.text import join_list

_MOST_NAMES = 3
_LONGEST = 400


def read_run(
    path: Path, name: str, benchmarks: Iterable[ReportedBenchmark]
) -> tuple[Run, tuple[str, ...]]:
    """Read the single run at or below a path. Return it with the lines of `Runs.skipped`.

    Args:
        path: see `read_runs`.
        name: name for the run.
        benchmarks: see `read_runs`.

    Raises:
        LmmsEgoplanError: there is no run or several, or the samples contradict the harness's own
            scores.
    """
    read = read_runs([path], benchmarks=benchmarks)
    if len(read.runs) > 1:
        runs = join_list(
            [f"{run.folder} ({run.model}, {run.time})" for run in read.runs], _MOST_NAMES
        )
        raise LmmsEgoplanError(
            f"{path}: expected one run; pass the folder or the results file of one of {runs}"
        )
    (run,) = read.runs
    for task_run in run.tasks.values():
        check(run, task_run)
    return replace(run, name=name), read.skipped


def compare_tasks(
    first: Run, second: Run, benchmarks: Iterable[ReportedBenchmark], margin: float
) -> tuple[Table, tuple[str, ...]]:
    """Compare two runs over all tasks that both have, with one row per task.

    All verdicts share one error rate.

    Args:
        first, second: the runs, with different names.
        benchmarks: the benchmarks whose tasks are compared.
        margin: margin in per cent of the highest possible score.

    Returns:
        The table, and the names of the tasks that are not comparable. Its notes name what differs.

    Raises:
        LmmsEgoplanError: the runs have no task in common, or a sample does not have the form that
            the tasks log.
    """
    rows: list[dict[str, Value]] = []
    remarks: list[str] = []
    comparable: list[tuple[dict[str, Value], Evidence]] = []
    incomparable: list[str] = []
    demo: set[str] = set()
    for benchmark in benchmarks:
        report = benchmark.load_report()([first, second])
        tasks: dict[str, list[ScoredTask]] = {}
        for task in sorted(report.tasks, key=lambda task: task.run is second):
            tasks.setdefault(task.task, []).append(task)
        for name, pair in tasks.items():
            if len(pair) == 1:
                remarks.append(f"{name}: only in {pair[0].run.name}.")
                continue
            one, other = pair
            demo |= {task.run.name for task in pair if task.is_demo}
            problems = "; ".join(_objections(one, other))
            if problems:
                incomparable.append(name)
                remarks.append(f"{name} is not comparable: {problems}.")
            remarks += [
                f"{name}: {remark}." for remark in _remarks(one, other, report.SPEC.measure)
            ]
            rows.append(
                {"task": name, "questions": 0, "verdict": NOT_COMPARABLE if problems else "none"}
            )
            evidence = weighed(one, other, report.SPEC.measure, margin)
            if evidence is not None:
                rows[-1] |= {"first": 100 * evidence.first, "second": 100 * evidence.second}
                rows[-1] |= scaled(evidence.comparison, 100 / one.largest)
                rows[-1]["questions"] = evidence.comparison.questions
                comparable += [] if problems else [(rows[-1], evidence)]
    if not rows:
        raise LmmsEgoplanError(
            f"{first.folder} and {second.folder}: no task in common: {' '.join(remarks)}"
        )
    for (row, evidence), verdict in zip(
        comparable, decide([pair[1] for pair in comparable]), strict=True
    ):
        row |= {"p_value": evidence.comparison.p_value, "verdict": verdict or "none"}
    remarks += [f"{DEMO_NOTE} {join_list(sorted(demo))}."] if demo else []
    columns = (
        Column("task", "Task"),
        Column("questions", "Questions"),
        Column("first", "A", decimals=2),
        Column("second", "B", decimals=2),
        Column("difference", "A \u2212 B", decimals=2),
        Column("low", "Low", decimals=2),
        Column("high", "High", decimals=2),
        Column("p_value", "p", decimals=4),
        Column("verdict", "Verdict"),
    )
    notes = [
        *remarks,
        (
            "A, B: mean over the questions for which both runs have scores, in per cent of "
            "the highest possible score. A point is 1 %. Low, high: 95 % interval of the "
            "difference. p: exact test of a difference. No interval and no verdict for "
            f"fewer than {FEWEST_CLUSTERS} clusters, such as videos."
        ),
        verdict_note(margin),
    ]
    table = table_of_runs("two_runs", "Tasks of both runs", columns, rows, notes)
    return table, tuple(incomparable)


def _objections(first: ScoredTask, second: ScoredTask) -> Iterator[str]:
    """Describe what excludes a comparison of two runs."""
    yield from (part.text for part in unequal(first, second))
    yield from (
        f"{task.run.name}: {task.ranking_flaw}" for task in (first, second) if task.ranking_flaw
    )


def _remarks(first: ScoredTask, second: ScoredTask, measure: str) -> Iterator[str]:
    """Name the questions of a task that are not compared, and those whose prompts are unknown."""
    without = [task.run.name for task in (first, second) if task.answers is None]
    if without:
        yield f"no samples in {join_list(without)}; log them with --log_samples"
        return
    unknown = unknown_prompts(first, second)
    if unknown:
        yield unknown
    for task, other in ((first, second), (second, first)):
        answers = task.answers or {}
        counts = {
            "only in": [
                answer.id for key, answer in answers.items() if key not in (other.answers or {})
            ],
            "without a score in": [
                answer.id for answer in answers.values() if not is_score(answer.scores[measure])
            ],
            "without a logged prompt in": [
                answer.id for answer in answers.values() if answer.prompt is None
            ],
        }
        yield from (
            f"{named(names)} {problem} {task.run.name}"
            for problem, names in counts.items()
            if names
        )


def compare_settings(first: Run, second: Run) -> list[str]:
    """Describe the settings in which the runs differ, and those of the tasks that both have.

    Long lines are shortened. If a run has no record of the processor's settings, and of tokens and
    images per question, a line says so.
    """
    runs = (first, second)
    without = [run.name for run in (first, second) if not run.record]
    records = [{}, {}] if without else [_recorded(first, second), _recorded(second, first)]
    settings = (run.provenance | record for run, record in zip(runs, records, strict=True))
    lines: dict[str, list[str]] = {line: [] for line in changed_settings(*settings)}
    for task in [task for task in first.tasks if task in second.tasks]:
        counts = [{}, {}] if without else [_per_question(run, task) for run in runs]
        configs = (
            flat_settings(run.tasks[task].config) | count
            for run, count in zip(runs, counts, strict=True)
        )
        for line in changed_settings(*configs):
            lines.setdefault(line, []).append(task)
    if without:
        lines[
            (
                "processor's settings, tokens and images per question: not recorded in "
                f"{join_list(without)}"
            )
        ] = []
    ends = {
        line: f" ({join_list(tasks, _MOST_NAMES)})" if tasks else ""
        for line, tasks in lines.items()
    }
    return [shorten(line, _LONGEST, placeholder=" \u2026") + end for line, end in ends.items()]


def _recorded(run: Run, other: Run) -> dict[str, str]:
    """Return the recorded settings by dotted name.

    Parts that are a text in the other run, "not known", are "known".
    """
    parts = {
        name: "known"
        if isinstance(value, Mapping) and isinstance(other.record.get(name), str)
        else value
        for name, value in run.record.items()
    }
    return flat_settings({"record": parts})


def _per_question(run: Run, task: str) -> dict[str, str]:
    """Describe the recorded tokens and images per question of a task."""
    texts = {}
    for kind in ("tokens", "images"):
        counts = member(run.record, "tasks", task, kind)
        mean = _number(counts, "mean")
        low = _number(counts, "minimum")
        high = _number(counts, "maximum")
        unknown = _number(counts, "not_known")
        parts = []
        if mean is not None and low == high:
            parts.append(str(low))
        elif mean is not None:
            parts.append(f"mean {mean:.1f}, {low} to {high}")
        if unknown:
            parts.append(f"not known: {unknown}")
        texts[f"{kind} per question"] = "; ".join(parts)
    return texts


def _number(counts: Any, name: str) -> float | None:
    value = member(counts, name)
    return value if isinstance(value, int | float) else None
