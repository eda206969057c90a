"""Compact tables of runs on a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import ReportedBenchmark
from lmms_egoplan.report.compact_tables import other_tasks
from lmms_egoplan.report.document import DEMO_NOTE, Section, Table
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.numbers import percent, show
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.summary import cards, demo_runs, rank_text, score_text
from lmms_egoplan.report.versions import parts_of

# Width of a run's column; longer names and cells are wrapped.
_WIDEST = 26
_LOOKS: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "collapse_padding": True}


def print_runs(runs: Sequence[Run], console: Console, benchmarks: Sequence[ReportedBenchmark]) -> None:
    """Print the times of the runs, and the main scores of each benchmark and of all other tasks.

    A table has a column for each run; if these do not fit the console, the rows are repeated for the other runs.
    Versions of a task have separate tables.

    Args:
        runs: with or without samples.
        benchmarks: in the order of their tables.

    Raises:
        LmmsEgoplanError: a run's results do not have the form of the project's tasks.
    """
    tables = list(compact_tables(runs, benchmarks))
    for run in runs:
        _print_line(f"{run.name}: {run.harness}, {run.time}", console)
    printed: set[str] = set()
    for table in tables:
        _print_table(table, console)
        for note in table.notes:
            if note not in printed:
                _print_line(note, console)
        printed |= {*table.notes}


def print_summary(sections: Sequence[Section], console: Console) -> None:
    """Print each benchmark's finding and its scores with intervals."""
    for section in sections:
        for sentence in section.finding:
            _print_line(sentence, console)
    for card in cards(sections):
        _print_line(f"\n{card.section.title}: {card.metric} ({card.task})", console)
        table = RichTable(
            RichColumn("Run", overflow="fold"), RichColumn("Score, 95 % interval", overflow="fold"),
            RichColumn("Rank"), RichColumn("Questions", justify="right"), RichColumn("Coverage", justify="right"),
            **_LOOKS,
        )  # fmt: skip
        for line in card.lines:
            score = score_text(line)
            if why := card.not_compared(line):
                score += f"; {why}"
            covered = "unknown" if line.coverage is None else percent(line.coverage)
            cells = (line.run, score, rank_text(line) or "\u2013", show(line.questions, None), covered)
            table.add_row(*(Text(clean(cell)) for cell in cells))
        console.print(table)
    if demo := demo_runs(sections):
        _print_line(f"\n{DEMO_NOTE} {', '.join(demo)}.", console)


def sections_of(runs: Sequence[Run], benchmarks: Sequence[ReportedBenchmark]) -> list[Section]:
    """Make the sections of a report of these runs.

    Raises:
        LmmsEgoplanError: see `BenchmarkReport`.
    """
    return [
        part.section(report.scores_section())
        for benchmark in benchmarks
        for part in parts_of(benchmark.name, runs)
        if (report := benchmark.load_report()(part.runs)).tasks
    ]


def compact_tables(runs: Sequence[Run], benchmarks: Sequence[ReportedBenchmark]) -> Iterator[Table]:
    """Make the tables for `print_runs`.

    Raises:
        LmmsEgoplanError: see `print_runs`.
    """
    for benchmark in benchmarks:
        for part in parts_of(benchmark.name, runs):
            try:
                report = benchmark.load_report()(part.runs)
                table = report.compact_table() if report.tasks else None
            except LmmsEgoplanError:
                raise
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                folders = ", ".join(sorted({str(run.folder) for run in part.runs}))
                raise LmmsEgoplanError(
                    f"{folders}: the results of {benchmark.name} cannot be read: {type(error).__name__}: {error}; were "
                    "they changed? Run again"
                ) from error
            if table is not None:
                yield from part.section(Section(benchmark.name, table.title, "", tables=(table,))).tables
    others = other_tasks(runs)
    if others is not None:
        yield others


def _print_table(table: Table, console: Console) -> None:
    labels, *names = (clean(column.title) for column in table.columns)
    rows = [[clean(str(value)) for value in row.values] for row in table.rows]
    first = max(len(row[0]) for row in rows)
    widths = [
        min(_WIDEST, max(len(cell) for cell in (name, *(row[place] for row in rows))))
        for place, name in enumerate(names, 1)
    ]
    _print_line(f"\n{table.title}", console)
    for number, places in enumerate(_fitting(widths, console.width - first - 2)):
        part = RichTable(
            RichColumn(labels, width=first, overflow="fold"),
            *(
                RichColumn(Text(names[place]), width=widths[place], justify="right", overflow="fold")
                for place in places
            ),
            **_LOOKS,
        )
        for cells in _filled([(row[0], *(row[place + 1] for place in places)) for row in rows]):
            part.add_row(*map(Text, cells))
        if number:
            console.print()
        console.print(part)


def _fitting(widths: Sequence[int], available: int) -> Iterator[list[int]]:
    """Group the columns, by number, so that each group fits; two blanks separate columns."""
    group: list[int] = []
    used = 0
    for place, width in enumerate(widths):
        if group and used + width + 2 > available:
            yield group
            group, used = [], 0
        group.append(place)
        used += width + 2
    if group:
        yield group


def _filled(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows with a cell for one of the runs, and the headings above them."""
    filled: list[tuple[str, ...]] = []
    for row in reversed(rows):
        is_heading = bool(filled) and filled[-1][0].startswith(" ") and not row[0].startswith(" ")
        if any(row[1:]) or is_heading:
            filled.append(row)
    return filled[::-1]


def _print_line(text: str, console: Console) -> None:
    console.print(Text(clean(text)), highlight=False)
