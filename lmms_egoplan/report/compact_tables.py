"""Compact tables of benchmarks: a row for each measure, the runs side by side."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.report.document import DEMO_NOTE, Column, Row, Table
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.numbers import percent, show
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Scored

NOT_AVAILABLE = "n/a"
_DEMO_NOTE = f"The judge '{DEMO}' only compares words: its scores mean nothing."
_COVERAGE_NOTE = "In parentheses: coverage, the share of the benchmark's official questions that the score is over."
_PATH = re.compile(r"\.{0,2}/|~|[A-Za-z]:[\\/]|\\\\")


Cell = Callable[[Any], str]
"""Formats a task of a run for a compact table."""

_Cells = Mapping[str, str]
"""By the name of the run; "" or nothing for a run without the measure."""


def compact_table(
    key: str,
    title: str,
    tasks: Sequence[Scored],
    measures: Callable[[Sequence[Any]], Mapping[str, Cell]],
    notes: Sequence[str] = (),
    heading: Callable[[Any], str] = lambda task: task.task_run.task,
) -> Table:
    """Make a table with labels in its first column and a run in each other column.

    Args:
        measures: of the tasks in one block, by label; those without any cell are omitted.
        heading: of a task's block; "" for none.
    """
    names = list(dict.fromkeys(task.run.name for task in tasks))
    blocks = {}
    for head in dict.fromkeys(map(heading, tasks)):
        block = [task for task in tasks if heading(task) == head]
        cells = {label: {task.run.name: cell(task) for task in block} for label, cell in measures(block).items()}
        blocks[head] = {label: of_runs for label, of_runs in cells.items() if any(of_runs.values())}
    return _table(key, title, names, blocks, notes)


def score_notes(tasks: Sequence[Scored]) -> list[str]:
    """Return notes on cells by `scored`: the demo's judge, and the meaning of parentheses."""
    demo = dict.fromkeys(task.run.name for task in tasks if task.is_demo)
    return [
        *([_DEMO_NOTE] if any(task.is_by_demo for task in tasks) else []),
        *([f"{DEMO_NOTE} {', '.join(demo)}."] if demo else []),
        _COVERAGE_NOTE,
        *dict.fromkeys(f"{task.name}: {task.asked_of}" for task in tasks if task.asked_of),
    ]


def _table(
    key: str, title: str, names: Sequence[str], blocks: Mapping[str, Mapping[str, _Cells]], notes: Sequence[str] = ()
) -> Table:
    columns = (Column("measure", ""), *(Column(f"run_{number}", name) for number, name in enumerate(names, 1)))
    rows = []
    for heading, lines in blocks.items():
        rows += [(heading, *("" for _ in names))] if heading else []
        indent = "  " if heading else ""
        rows += [(indent + label, *(cells.get(name, "") for name in names)) for label, cells in lines.items()]
    return Table(key, title, columns, tuple(Row(row, is_own=True) for row in rows), notes=tuple(notes))


def number(value: float | None, decimals: int | None = None) -> str:
    """Format a number; ``n/a`` for None, NaN and infinities."""
    return show(value, decimals) if value is not None and math.isfinite(value) else NOT_AVAILABLE


def share(value: float | None) -> str:
    """Format a fraction in per cent; "0%" and "100%" only for exactly none or all."""
    return percent(value).replace("\u202f", "") if value is not None and math.isfinite(value) else NOT_AVAILABLE


def scored(value: float | None, decimals: int, coverage: float | None) -> str:
    """Format a score with its coverage, see `score_notes`."""
    return f"{number(value, decimals)} ({share(coverage)})"


def name_of(value: Any) -> str:
    """Format a metric that is a text, such as a judge's name; only the last part of paths."""
    if not isinstance(value, str) or not value.strip():
        return NOT_AVAILABLE
    parts = (clean(part.strip()) for part in value.split(","))
    return ", ".join(PurePath(part.replace("\\", "/")).name if _PATH.match(part) else part for part in parts)


def score_cell(metric: str, decimals: int | None = None) -> Cell:
    """Return the cell of a metric that is a number."""
    return lambda task: number(task.number(metric), decimals)


def share_cell(metric: str) -> Cell:
    """Return the cell of a metric that is a fraction."""
    return lambda task: share(task.number(metric))


def other_tasks(runs: Sequence[Run]) -> Table | None:
    """Make a table of the metrics of unknown tasks that are numbers or short texts; None without any."""
    own = [run for run in runs if run.others]
    if not own:
        return None
    blocks: dict[str, dict[str, _Cells]] = {}
    for task in dict.fromkeys(task for run in own for task in run.others):
        of_runs = {run.name: run.others[task].metrics for run in own if task in run.others}
        lines: dict[str, _Cells] = {
            clean(metric): {name: _text(metrics.get(metric)) for name, metrics in of_runs.items()}
            for metric in dict.fromkeys(metric for metrics in of_runs.values() for metric in metrics)
            if not all(isinstance(metrics.get(metric), dict | list | None) for metrics in of_runs.values())
        }
        blocks[clean(task)] = lines or {"no metric": {}}
    return _table("others", "Other tasks", [run.name for run in own], blocks)


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return name_of(value) if isinstance(value, str) else NOT_AVAILABLE
    return number(value, 4 if isinstance(value, float) else None)
