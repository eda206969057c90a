"""Report scores by shortcut condition: one table and one figure, for any benchmark.

Both contain the tasks with a `ScoredTask.shortcut`, and the own task of the same run to compare
them with.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.conditions import SHORTCUTS, Shortcut
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.charts import looks_of
from lmms_egoplan.report.document import Difference, Figure
from lmms_egoplan.report.plots import draw_points, spoken
from lmms_egoplan.report.scores import ScoredTask
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.means import Mean


@dataclass(frozen=True)
class _ByCondition:
    """The tasks by condition.

    Attributes:
        conditions: The conditions by name, in order; None for the benchmark's own task. Conditions
            of other versions of this package have only their name.
        series: The tasks by condition, in order, of each run and own task that has shortcut
            conditions.
    """

    conditions: dict[str | None, Shortcut]
    series: list[dict[str | None, ScoredTask]]


def condition_table(report: BenchmarkReport[Any]) -> Table | None:
    """Build the table of scores by condition; None if no run has a shortcut condition."""
    spec = report.SPEC
    by_condition = _tasks_by_condition(report)
    rows: list[dict[str, Value]] = []
    for tasks in by_condition.series:
        for shortcut, task in tasks.items():
            condition = by_condition.conditions[shortcut]
            row: dict[str, Value] = {
                "run": task.run.name,
                "task": task.task,
                "label": condition.label,
                "missing": condition.missing,
                "questions": task.main.questions,
                "without_partner": task.count("without_partner"),
            }
            row |= task.main.cells("score")
            pair = _difference_from_own(report, task, tasks.get(None))
            if pair is not None:
                row["pair_value"] = pair.value
                row["pair_low"] = pair.low
                row["pair_high"] = pair.high
                row["pair_questions"] = pair.questions
            rows.append(row)
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("label", "Condition"),
        Column("missing", "What is missing"),
        Column("score", "Score", spec.decimals),
        *interval_columns("score", spec.decimals),
        Column("pair_value", "Minus own task", spec.decimals),
        *interval_columns("pair_value", spec.decimals, label="(difference)", prefix="pair_"),
        Column("pair_questions", "Questions of the difference"),
        Column("questions", "Questions"),
        Column(
            "without_partner",
            "Without partner",
            note=(
                "Without partner: questions that were not asked, as no other question has media "
                "for this condition, or as their image has no marks."
            ),
        ),
    )
    notes = [
        (
            "Each condition takes one kind of information from the questions. If a score barely "
            "drops, the model did not need it. The conditions are this project's."
        ),
        (
            "Minus own task: the condition minus the same run's own task, over the questions for "
            "which both have a score; none if the run lacks this task or its samples, or if one of "
            f"them is inexact. All intervals are 95 %, over the {spec.clusters}."
        ),
    ]
    return table_of_runs(f"{spec.name}_conditions", _title(report), columns, rows, notes)


def _difference_from_own(
    report: BenchmarkReport[Any], task: ScoredTask, own_task: ScoredTask | None
) -> Difference | None:
    """Compare a condition with the same run's own task; None if they are not comparable."""
    if own_task is None or task is own_task or task.ranking_flaw or own_task.ranking_flaw:
        return None
    return report.difference(task, own_task)


def condition_figure(report: BenchmarkReport[Any], chance: float | None = None) -> Figure | None:
    """Draw the scores by condition; None if no run has a shortcut condition.

    Args:
        report: The benchmark's report.
        chance: Score of random answers, marked by a line.
    """
    spec = report.SPEC
    by_condition = _tasks_by_condition(report)
    if not by_condition.series:
        return None
    asked: dict[str | None, Shortcut] = {}
    for name, condition in by_condition.conditions.items():
        if any(name in tasks for tasks in by_condition.series):
            asked[name] = condition
    labels = [condition.label for condition in asked.values()]
    means: dict[str, list[Mean | None]] = {}
    runs: dict[str, str | None] = {}
    for tasks in by_condition.series:
        first = next(iter(tasks.values()))
        means[first.name] = [tasks[name].main if name in tasks else None for name in asked]
        runs[first.name] = first.run.name
    unit = f"{spec.metric}, %" if spec.scale == 100 else spec.metric
    caption = (
        "Scores of each run by condition, with 95 % intervals over the "
        f'{spec.clusters}. "As asked" is the benchmark\'s own task. '
        "The table of the same name states what each condition lacks."
    )
    return Figure(
        f"{spec.name}_conditions",
        _title(report),
        caption,
        partial(
            draw_points,
            labels,
            means,
            looks_of(runs, report.models),
            unit,
            spec.top,
            decimals=spec.decimals,
            chance=chance,
        ),
        spoken(labels, means, spec.decimals),
    )


def _title(report: BenchmarkReport[Any]) -> str:
    return f"{report.SPEC.metric.capitalize()} by condition"


def _tasks_by_condition(report: BenchmarkReport[Any]) -> _ByCondition:
    """Group the tasks of a report by run, own task and condition."""
    tasks = [*report.own_tasks, *report.shortcuts]
    conditions: dict[str | None, Shortcut] = {None: Shortcut("as asked", "nothing")}
    conditions.update(SHORTCUTS.items())
    unknown = {str(task.shortcut) for task in tasks if task.shortcut not in conditions}
    for name in sorted(unknown):
        conditions[name] = Shortcut(name, "unknown to this version")
    order = [*conditions]
    series: dict[tuple[str, str], dict[str | None, ScoredTask]] = {}
    for task in sorted(tasks, key=lambda task: order.index(task.shortcut)):
        own_task = task.condition_of or task.task
        series.setdefault((task.run.name, own_task), {})[task.shortcut] = task
    return _ByCondition(conditions, [tasks for tasks in series.values() if any(tasks)])
