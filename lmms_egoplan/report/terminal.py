"""Print runs, their scores and tables on a terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from textwrap import wrap
from typing import Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report import tables
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.compact import compact_table
from lmms_egoplan.report.comparable_runs import ComparableRuns
from lmms_egoplan.report.document import DEMO_NOTE, Section
from lmms_egoplan.report.result_table import (
    ResultCell,
    ResultTable,
    formatted,
    result_table,
)
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.sections import scores_section
from lmms_egoplan.report.summary import demo_runs, section_table
from lmms_egoplan.report.tables import Table, clean, show

# Largest width of a run's column in a terminal. Longer names and cells are wrapped.
_WIDEST = 26
# Smallest width of a benchmark's column. Its title is wrapped.
_NARROWEST = 9
_LOOKS: dict[str, Any] = {
    "box": box.SIMPLE_HEAD,
    "show_edge": False,
    "pad_edge": False,
    "collapse_padding": True,
}
Reports = Sequence[tuple[ComparableRuns, BenchmarkReport[Any]]]
Form = Literal["text", "md", "latex", "csv"]
"""How the table of results is printed: for the terminal, or in another form."""


def print_runs(runs: Sequence[Run], console: Console, benchmarks: Iterable[Benchmark]) -> None:
    """Print the scores of runs without their samples, see `print_scores`."""
    print_scores(runs, list(read_reports(runs, benchmarks)), console)


def print_scores(
    runs: Sequence[Run], reports: Reports, console: Console, *, with_main: bool = True
) -> None:
    """Print the times of the runs, and the scores of each benchmark and of all other tasks.

    A table has one column per run. If the columns do not fit the console, the rows are repeated for
    further runs. Versions of a task have separate tables.

    Args:
        runs: runs with or without samples.
        reports: reports of these runs.
        console: console to print to.
        with_main: see `BenchmarkReport.compact_table`.

    Raises:
        LmmsEgoplanError: a run's results do not have the form of the project's tasks.
    """
    tables = [
        table for report in reports for table in _compact_tables(*report, with_main=with_main)
    ]
    unsupported = other_tasks(runs)
    for run in runs:
        _print_line(f"{run.name}: {run.harness}, {run.time}", console)
    printed: set[str] = set()
    for table in [*tables, *([unsupported] if unsupported else [])]:
        _print_side_by_side(table, console)
        for note in table.notes:
            if note not in printed:
                _print_line(note, console)
        printed |= {*table.notes}


def other_tasks(runs: Sequence[Run]) -> tables.Table | None:
    """Make a table of other projects' tasks.

    Their metrics are numbers or short texts. None without such tasks.
    """
    with_other_tasks = [run for run in runs if run.other_tasks]
    if not with_other_tasks:
        return None
    blocks: dict[str, dict[str, dict[str, str]]] = {}
    for task in dict.fromkeys(task for run in with_other_tasks for task in run.other_tasks):
        metrics_of_runs = {}
        for run in with_other_tasks:
            if task in run.other_tasks:
                metrics_of_runs[run.name] = run.other_tasks[task].metrics
        blocks[tables.clean(task)] = _metric_lines(metrics_of_runs) or {"no metric": {}}
    return tables.side_by_side(
        "others", "Other tasks", [run.name for run in with_other_tasks], blocks
    )


def _metric_lines(metrics_of_runs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the texts of each metric that is a number or a text in a run, by run."""
    lines = {}
    for metric in dict.fromkeys(chain.from_iterable(metrics_of_runs.values())):
        values = {run: metrics.get(metric) for run, metrics in metrics_of_runs.items()}
        if not all(isinstance(value, dict | list | None) for value in values.values()):
            texts = {run: _text(value) for run, value in values.items()}
            lines[tables.clean(metric)] = texts
    return lines


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return tables.name_of(value) if isinstance(value, str) else tables.NOT_AVAILABLE
    return tables.number(value, 4 if isinstance(value, float) else None)


def sections_of(reports: Reports) -> list[Section]:
    """Return the reports' sections with only their scores.

    Raises:
        LmmsEgoplanError: a run's results do not have the form of the project's tasks.
    """
    sections = []
    for part, report in reports:
        if report.tasks:
            with _readable(part):
                sections.append(part.section(scores_section(report)))
    return sections


def print_results(result: ResultTable, console: Console) -> None:
    """Print the table of results with its notes.

    Each cell has the interval below the score. If the columns do not fit the console, the rows are
    repeated for further columns.
    """
    models = [clean(row.model) for row in result.rows]
    heads = []
    columns = []
    widths = []
    for position, column in enumerate(result.columns):
        cells = [_result_cell(row.cells[position]) for row in result.rows]
        lines = [line for cell in cells for line in cell.splitlines()]
        head = wrap(clean(column.head), max(_NARROWEST, *map(len, lines)))
        heads.append("\n".join(head))
        columns.append(cells)
        widths.append(max(map(len, [*head, *lines])))
    first = min(max(map(len, ["Model", *models])), max(_WIDEST, console.width // 3))
    for number, positions in enumerate(_column_groups(widths, console.width - first - 2)):
        part = RichTable(RichColumn("Model", width=first, overflow="fold"), **_LOOKS)
        for position in positions:
            part.add_column(
                Text(heads[position]), width=widths[position], justify="right", overflow="fold"
            )
        for index, model in enumerate(models):
            part.add_row(Text(model), *(Text(columns[position][index]) for position in positions))
        if number:
            console.print()
        console.print(part)
    console.print()
    for note in result.notes():
        _print_line(note, console)


def _result_cell(cell: ResultCell | None) -> str:
    """Format a score with its marks, and the interval on a second line."""
    if cell is None:
        return show(None, None)
    score = f"{cell.score} {cell.marks}".rstrip()
    return f"{score}\n{cell.interval}" if cell.interval else score


def print_summary(sections: Sequence[Section], console: Console) -> None:
    """Print each benchmark's finding, and the table of results."""
    for section in sections:
        for sentence in section.finding:
            _print_line(sentence, console)
    result = result_table(sections)
    if result is not None:
        console.print()
        print_results(result, console)


def print_details(sections: Sequence[Section], console: Console) -> None:
    """Print each benchmark's finding, and all of its scores with intervals."""
    for section in sections:
        for sentence in section.finding:
            _print_line(sentence, console)
    for section in sections:
        table = section_table(section)
        print_table(table, console)
        for note in table.notes:
            _print_line(note, console)
    demo = demo_runs(sections)
    if demo:
        _print_line(f"\n{DEMO_NOTE} {', '.join(demo)}.", console)


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title."""
    _print_line(f"\n{table.title}", console)
    heads = []
    for position, (column, is_number) in enumerate(
        zip(table.columns, table.numbers(), strict=True)
    ):
        names = [len(str(row.values[position])) for row in table.rows] if position == 0 else []
        heads.append(
            RichColumn(
                column.title,
                overflow="fold",
                no_wrap=is_number,
                justify="right" if is_number else "left",
                min_width=min(_WIDEST, max(names, default=0)),
            )
        )
    printed = RichTable(*heads, **_LOOKS)
    for row in table.rows:
        cells = zip(row.values, table.columns, strict=True)
        printed.add_row(
            *(Text(clean(show(value, column.decimals, column.key))) for value, column in cells)
        )
    console.print(printed)


def print_formatted(sections: Sequence[Section], form: Literal["md", "latex", "csv"]) -> None:
    """Print the table of results as Markdown, LaTeX or CSV."""
    result = result_table(sections)
    if result is None:
        typer.echo("No scores of the project's tasks.", err=True)
    else:
        typer.echo(formatted(result, form), nl=False)


def _compact_tables(
    part: ComparableRuns, report: BenchmarkReport[Any], *, with_main: bool
) -> tuple[Table, ...]:
    if not report.tasks:
        return ()
    with _readable(part):
        table = compact_table(report, with_main=with_main)
    return part.section(Section(part.benchmark, table.title, "", tables=(table,))).tables


@contextmanager
def _readable(part: ComparableRuns) -> Iterator[None]:
    """Name the folders of results that do not have the form of the project's tasks.

    Raises:
        LmmsEgoplanError: a library or Python raised an error about a value.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        folders = ", ".join(sorted({str(run.folder) for run in part.runs}))
        raise LmmsEgoplanError(
            f"{folders}: the results of {part.benchmark} cannot be read: {type(error).__name__}: "
            f"{error}. If they were edited, run the tasks again"
        ) from error


def _print_side_by_side(table: Table, console: Console) -> None:
    labels, *names = (clean(column.title) for column in table.columns)
    rows = []
    for table_row in table.rows:
        rows.append([clean(str(value)) for value in table_row.values])
    first = max(len(row[0]) for row in rows)
    widths = []
    for index, name in enumerate(names, 1):
        cells = [name, *(row[index] for row in rows)]
        widths.append(min(_WIDEST, max(map(len, cells))))
    _print_line(f"\n{table.title}", console)
    for number, indices in enumerate(_column_groups(widths, console.width - first - 2)):
        part = RichTable(RichColumn(labels, width=first, overflow="fold"), **_LOOKS)
        for index in indices:
            part.add_column(
                Text(names[index]), width=widths[index], justify="right", overflow="fold"
            )
        rows_of_group = []
        for row in rows:
            rows_of_group.append((row[0], *(row[index + 1] for index in indices)))
        for filled in _filled(rows_of_group):
            part.add_row(*map(Text, filled))
        if number:
            console.print()
        console.print(part)


def _column_groups(widths: Sequence[int], available: int) -> Iterator[list[int]]:
    """Split the columns into groups that fit into the available width.

    Two blanks separate columns.
    """
    group: list[int] = []
    used = 0
    for index, width in enumerate(widths):
        if group and used + width + 2 > available:
            yield group
            group = []
            used = 0
        group.append(index)
        used += width + 2
    if group:
        yield group


def _filled(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows with a nonempty cell of a run, and the headings above them."""
    filled: list[tuple[str, ...]] = []
    for row in reversed(rows):
        is_heading = bool(filled) and filled[-1][0].startswith(" ") and not row[0].startswith(" ")
        if any(row[1:]) or is_heading:
            filled.append(row)
    return filled[::-1]


def _print_line(text: str, console: Console) -> None:
    console.print(Text(clean(text)), highlight=False)
