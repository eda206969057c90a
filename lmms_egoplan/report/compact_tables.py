"""What the benchmarks' compact tables share: a row for each measure, the runs side by side."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, Protocol, TypeVar

from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.page import percent, show
from lmms_egoplan.report.run import Run, TaskRun

NOT_AVAILABLE = "n/a"
DEMO_NOTE = f"The judge '{DEMO}' only compares words: its scores mean nothing."
COVERAGE_NOTE = "In parentheses: coverage, the share of the benchmark's official questions that the score is over."
_PATH = re.compile(r"\.{0,2}/|~|[A-Za-z]:[\\/]|\\\\")


class _HasTask(Protocol):
    task_run: TaskRun


_Entry = TypeVar("_Entry", bound=_HasTask)


class Line(NamedTuple):
    """A measure; cells: its value as shown, by the name of each run that has the task."""

    label: str
    cells: Mapping[str, str]


def compact_table(
    key: str, title: str, runs: Iterable[str], blocks: Mapping[str, Sequence[Line]], notes: Sequence[str] = ()
) -> Table:
    """A table whose first column holds labels, and the others a run each.

    Args:
        runs: names, each a column.
        blocks: the rows by heading; "" is a block without one. An empty cell is of a run without the task.
    """
    names = list(runs)
    rows = []
    for heading, lines in blocks.items():
        if heading:
            rows.append(Row((heading, *("" for _ in names)), is_own=True))
        indent = "  " if heading else ""
        for line in lines:
            rows.append(Row((indent + line.label, *(line.cells.get(name, "") for name in names)), is_own=True))
    columns = (Column("measure", ""), *(Column(f"run_{number}", name) for number, name in enumerate(names, 1)))
    return Table(key, title, columns, tuple(rows), notes=tuple(notes))


def by_task(entries: Sequence[_Entry], lines: Callable[[Sequence[_Entry]], list[Line]]) -> dict[str, list[Line]]:
    """The blocks of a table with one for each task.

    Args:
        entries: a task of a run each.
        lines: of the entries of one task.
    """
    tasks = dict.fromkeys(entry.task_run.task for entry in entries)
    return {task: lines([entry for entry in entries if entry.task_run.task == task]) for task in tasks}


def number(value: float | None, decimals: int | None = None) -> str:
    """``n/a`` for None, NaN and infinities."""
    return show(value, decimals) if value is not None and math.isfinite(value) else NOT_AVAILABLE


def share(value: float | None) -> str:
    """In per cent; "0%" and "100%" only where it is exactly none or all."""
    return percent(value).replace("\u202f", "") if value is not None and math.isfinite(value) else NOT_AVAILABLE


def scored(value: float | None, decimals: int, coverage: float | None) -> str:
    """A score with what it is over, see `COVERAGE_NOTE`."""
    return f"{number(value, decimals)} ({share(coverage)})"


def name_of(value: Any) -> str:
    """A metric that is a text, such as a judge's name; of paths the last part alone."""
    if not isinstance(value, str) or not value.strip():
        return NOT_AVAILABLE
    parts = (clean(part.strip()) for part in value.split(","))
    return ", ".join(PurePath(part.replace("\\", "/")).name if _PATH.match(part) else part for part in parts)


def other_tasks(runs: Sequence[Run]) -> Table | None:
    """All metrics that are numbers or short texts, of the tasks that the report does not know; None without any."""
    own = [run for run in runs if run.others]
    if not own:
        return None
    blocks: dict[str, list[Line]] = {}
    for task in dict.fromkeys(task for run in own for task in run.others):
        having = {run.name: run.others[task].metrics for run in own if task in run.others}
        lines = [
            Line(clean(metric), {name: _shown(metrics.get(metric)) for name, metrics in having.items()})
            for metric in dict.fromkeys(metric for metrics in having.values() for metric in metrics)
            if not all(isinstance(metrics.get(metric), dict | list | None) for metrics in having.values())
        ]
        blocks[clean(task)] = lines or [Line("no metric", {})]
    return compact_table("others", "Other tasks", [run.name for run in own], blocks)


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return name_of(value) if isinstance(value, str) else NOT_AVAILABLE
    return number(value, 4 if isinstance(value, float) else None)
