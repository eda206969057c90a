"""Report scores by shortcut condition: one table and one figure, for any benchmark.

Both contain the tasks with a `ScoredTask.shortcut`, and the own task of the same run to compare
them with.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.shortcuts import SHORTCUTS, Shortcut
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.charts import draw_lines, spoken
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.scores import Mean, ScoredTask
from lmms_egoplan.report.tables import Table, Value, columns_of, table_of_runs

_TEXTS = module_yaml(__file__)

Conditions = dict[str | None, Shortcut]
"""The conditions by name, in order; None for the benchmark's own task."""


def condition_table(report: BenchmarkReport[Any]) -> Table | None:
    """Build the table of scores by condition; None if no run has a shortcut condition."""
    conditions, series = _by_series(report)
    rows: list[dict[str, Value]] = []
    for shortcut, task, usual in (
        (name, task, tasks.get(None)) for tasks in series for name, task in tasks.items()
    ):
        pair = (
            report.difference(task, usual)
            if shortcut and usual and not (task.inexact or usual.inexact)
            else None
        )
        row = (
            vars(conditions[shortcut])
            | {"run": task.run.name, "task": task.task}
            | task.main.cells("score")
        )
        row |= {"questions": task.main.questions, "without_partner": task.count("without_partner")}
        rows.append(
            row | ({f"pair_{name}": value for name, value in vars(pair).items()} if pair else {})
        )
    spec, key, title = report.SPEC, *_names(report)
    notes = [text.format(clusters=spec.clusters) for text in _TEXTS["notes"]]
    columns = [
        replace(x, decimals=x.decimals and spec.decimals) for x in columns_of(_TEXTS["columns"])
    ]
    return table_of_runs(key, title, columns, rows, notes) if rows else None


def condition_figure(report: BenchmarkReport[Any], chance: float | None = None) -> Figure | None:
    """Draw the scores by condition; None if no run has a shortcut condition.

    Args:
        chance: Score of random answers, marked by a line.
    """
    conditions, series = _by_series(report)
    spec, used = (
        report.SPEC,
        [name for name in conditions if any(name in tasks for tasks in series)],
    )
    labels, means = [conditions[name].label for name in used], {}
    for tasks in series:
        means[next(iter(tasks.values())).name] = [
            tasks[name].main if name in tasks else Mean() for name in used
        ]
    looks, unit = (
        {name: {"linestyle": "none"} for name in means},
        spec.metric + ", %" * (spec.scale == 100),
    )
    draw = partial(draw_lines, labels, means, unit, "", spec.top / 2, looks, chance)
    caption = _TEXTS["caption"].format(clusters=spec.clusters)
    return (
        Figure(*_names(report), caption, draw, spoken(labels, means, spec.decimals))
        if series
        else None
    )


def _names(report: BenchmarkReport[Any]) -> tuple[str, str]:
    return f"{report.SPEC.name}_conditions", f"{report.SPEC.metric.capitalize()} by condition"


def _by_series(
    report: BenchmarkReport[Any],
) -> tuple[Conditions, list[dict[str | None, ScoredTask]]]:
    """Return the conditions, and for each run and own task with shortcut conditions, the tasks by
    condition, in order.

    Conditions of other versions of this package have only their name.
    """
    conditions: dict[str | None, Shortcut] = {None: Shortcut("as asked", "nothing")}
    conditions.update(SHORTCUTS.items())
    asked = [*report.own_tasks, *report.shortcuts]
    for name in sorted({str(task.shortcut) for task in asked if task.shortcut not in conditions}):
        conditions[name] = Shortcut(name, "unknown to this version")
    series: dict[tuple[str, str], dict[str | None, ScoredTask]] = {}
    for task in sorted(asked, key=lambda task: [*conditions].index(task.shortcut)):
        base = task.task.replace(f"_{task.shortcut}", "").removesuffix(
            "_bench"
        )  # the end of a group's own name
        series.setdefault((task.run.name, base), {})[task.shortcut] = task
    return conditions, [tasks for tasks in series.values() if any(tasks)]
