"""Compare two runs: the verdict on each shared task, and the settings that differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.comparability import NOT_COMPARABLE, named, unequal, unknown_prompts
from lmms_egoplan.report.document import DEMO_NOTE
from lmms_egoplan.report.pairs import scaled, verdict_note, weighed
from lmms_egoplan.report.run import Run, changed_settings, flat_settings
from lmms_egoplan.report.scores import ScoredTask, is_score
from lmms_egoplan.report.tables import Column, Table, Value, table_of_runs
from lmms_egoplan.stats.equivalence import Evidence, decide
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS
from lmms_egoplan.text import join_list

_MOST_NAMES = 3
_LONGEST = 400


def compare_tasks(
    first: Run, second: Run, benchmarks: Iterable[Benchmark], margin: float
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
    compared: list[_ComparedTask] = []
    remarks: list[str] = []
    for benchmark in benchmarks:
        report = report_class(benchmark.name)([first, second])
        for name, tasks in _tasks_by_name(report.tasks, second).items():
            if len(tasks) == 1:
                remarks.append(f"{name}: only in {tasks[0].run.name}.")
                continue
            one, other = tasks
            task = _compared(one, other, report.SPEC.measure, margin)
            compared.append(task)
            remarks += task.remarks
    if not compared:
        raise LmmsEgoplanError(
            f"{_folders(first)} and {_folders(second)}: no task in common: {' '.join(remarks)}"
        )
    demo_runs: set[str] = set()
    for task in compared:
        demo_runs |= task.demo_runs
    if demo_runs:
        remarks.append(f"{DEMO_NOTE} {join_list(sorted(demo_runs))}.")
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
    rows = _rows_with_verdicts(compared)
    table = table_of_runs("two_runs", "Tasks of both runs", columns, rows, notes)
    return table, tuple(task.name for task in compared if task.is_incomparable)


def _folders(run: Run) -> str:
    return ", ".join(map(str, run.folders))


@dataclass(frozen=True)
class _ComparedTask:
    """A task that both runs have.

    name: name of the task.
    is_incomparable: true if the runs' scores of the task are not comparable.
    remarks: what excludes the comparison, and which questions are not compared.
    evidence: both runs' scores; None without shared questions.
    largest: the highest possible score of an answer.
    demo_runs: names of the runs whose scores are meaningless.
    """

    name: str
    is_incomparable: bool
    remarks: tuple[str, ...]
    evidence: Evidence | None
    largest: float
    demo_runs: frozenset[str]


def _tasks_by_name(tasks: Iterable[ScoredTask], second: Run) -> dict[str, list[ScoredTask]]:
    """Return the tasks of two runs by name, those of the second run last."""
    by_name: dict[str, list[ScoredTask]] = {}
    for task in sorted(tasks, key=lambda task: task.run is second):
        by_name.setdefault(task.task, []).append(task)
    return by_name


def _compared(first: ScoredTask, second: ScoredTask, measure: str, margin: float) -> _ComparedTask:
    name = first.task
    remarks = []
    problems = "; ".join(_objections(first, second))
    if problems:
        remarks.append(f"{name} is not comparable: {problems}.")
    for remark in _remarks(first, second, measure):
        remarks.append(f"{name}: {remark}.")
    return _ComparedTask(
        name=name,
        is_incomparable=bool(problems),
        remarks=tuple(remarks),
        evidence=weighed(first, second, measure, margin),
        largest=first.largest,
        demo_runs=frozenset(task.run.name for task in (first, second) if task.is_demo),
    )


def _rows_with_verdicts(tasks: Iterable[_ComparedTask]) -> list[dict[str, Value]]:
    """Return the rows of the table. All comparable tasks are decided together."""
    rows = []
    comparable: list[tuple[dict[str, Value], Evidence]] = []
    for task in tasks:
        row = _row(task)
        rows.append(row)
        if task.evidence is not None and not task.is_incomparable:
            comparable.append((row, task.evidence))
    verdicts = decide([evidence for _, evidence in comparable])
    for (row, evidence), verdict in zip(comparable, verdicts, strict=True):
        row["p_value"] = evidence.comparison.p_value
        row["verdict"] = verdict or "none"
    return rows


def _row(task: _ComparedTask) -> dict[str, Value]:
    """Return the row of a task, without p-value and verdict."""
    row: dict[str, Value] = {
        "task": task.name,
        "questions": 0,
        "verdict": NOT_COMPARABLE if task.is_incomparable else "none",
    }
    evidence = task.evidence
    if evidence is not None:
        row["questions"] = evidence.comparison.questions
        row["first"] = 100 * evidence.first
        row["second"] = 100 * evidence.second
        row |= scaled(evidence.comparison, 100 / task.largest)
    return row


def _objections(first: ScoredTask, second: ScoredTask) -> Iterator[str]:
    """Describe what excludes a comparison of two runs."""
    for difference in unequal(first, second):
        yield difference.text
    for task in (first, second):
        if task.ranking_flaw:
            yield f"{task.run.name}: {task.ranking_flaw}"


def _remarks(first: ScoredTask, second: ScoredTask, measure: str) -> Iterator[str]:
    """Name the questions of a task that are not compared, and those whose prompts are unknown."""
    without = [task.run.name for task in (first, second) if task.answers is None]
    if without:
        yield f"no samples in {join_list(without)}; log them with --log_samples"
        return
    unknown = unknown_prompts(first, second)
    if unknown:
        yield unknown
    yield from _incomplete(first, second, measure)
    yield from _incomplete(second, first, measure)


def _incomplete(task: ScoredTask, other: ScoredTask, measure: str) -> Iterator[str]:
    """Name the questions that only one run has, and those without a score or a prompt."""
    other_answers = other.answers or {}
    unshared = []
    unscored = []
    unlogged = []
    for key, answer in (task.answers or {}).items():
        if key not in other_answers:
            unshared.append(answer.id)
        if not is_score(answer.scores[measure]):
            unscored.append(answer.id)
        if answer.prompt is None:
            unlogged.append(answer.id)
    run = task.run.name
    if unshared:
        yield f"{named(unshared)} only in {run}"
    if unscored:
        yield f"{named(unscored)} without a score in {run}"
    if unlogged:
        yield f"{named(unlogged)} without a logged prompt in {run}"


def compare_settings(first: Run, second: Run) -> list[str]:
    """Describe the settings in which the runs differ, and those of the tasks that both have.

    Long lines are shortened. If a run has no record of the processor's settings, and of tokens and
    images per question, a line says so.
    """
    without_record = [run.name for run in (first, second) if not run.record]
    first_settings = dict(first.provenance)
    second_settings = dict(second.provenance)
    if not without_record:
        first_settings |= _recorded(first, second)
        second_settings |= _recorded(second, first)
    # The tasks of each line; none for lines about the runs.
    lines: dict[str, list[str]] = {}
    for line in changed_settings(first_settings, second_settings):
        lines[line] = []
    for task in first.tasks:
        if task in second.tasks:
            with_counts = not without_record
            first_task = _settings_of_task(first, task, with_counts=with_counts)
            second_task = _settings_of_task(second, task, with_counts=with_counts)
            for line in changed_settings(first_task, second_task):
                lines.setdefault(line, []).append(task)
    if without_record:
        missing = "processor's settings, tokens and images per question"
        lines[f"{missing}: not recorded in {join_list(without_record)}"] = []
    return [_with_tasks(line, tasks) for line, tasks in lines.items()]


def _with_tasks(line: str, tasks: Sequence[str]) -> str:
    """Shorten a line, and add the names of the tasks that it is about."""
    shortened = shorten(line, _LONGEST, placeholder=" \u2026")
    if not tasks:
        return shortened
    return f"{shortened} ({join_list(tasks, _MOST_NAMES)})"


def _settings_of_task(run: Run, task: str, *, with_counts: bool) -> dict[str, str]:
    """Return a task's settings, with its tokens and images per question if wanted."""
    settings = flat_settings(run.tasks[task].config)
    if with_counts:
        settings |= _per_question(run, task)
    return settings


def _recorded(run: Run, other: Run) -> dict[str, str]:
    """Return the recorded settings by dotted name.

    Parts that are a text in the other run, "not known", are "known".
    """
    parts = {}
    for name, value in run.record.items():
        is_unknown_in_other = isinstance(other.record.get(name), str)
        if isinstance(value, Mapping) and is_unknown_in_other:
            parts[name] = "known"
        else:
            parts[name] = value
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
