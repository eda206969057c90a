"""Tables and figures as files for papers, READMEs and spreadsheets, and on a terminal; ``report.json``."""

import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from lmms_egoplan import __version__
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.outputs import delete
from lmms_egoplan.report.benchmark import BenchmarkReport, ReportedBenchmark, read_reports
from lmms_egoplan.report.document import DEMO_NOTE, Figure, Group, Headline, Section
from lmms_egoplan.report.provenance import task_provenance
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.summary import card_table, cards, demo_runs, other_tasks
from lmms_egoplan.report.tables import Table, clean, show
from lmms_egoplan.report.versions import Part
from lmms_egoplan.text import csv_text

SCHEMA = 1
"""Of ``report.json``, see ``docs/report-json.md``."""

# Enough for a column of a paper.
_DPI = 200
_OWN = "▸ "
_MARKS = {"best": "**{}**", "second": "<u>{}</u>", None: "{}"}
# Width of a run's column on a terminal; longer names and cells are wrapped.
_WIDEST = 26
_LOOKS: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "collapse_padding": True}

Reports = Sequence[tuple[Part, BenchmarkReport[Any]]]


def write_files(
    out: Path, sections: Iterable[Section], progress: Callable[[str, int, int], None], more: Sequence[Table] = ()
) -> None:
    """Write ``tables/<key>.csv``, ``tables/<key>.md``, ``figures/<key>.svg`` and ``figures/<key>.png``.

    Delete files of these kinds of an earlier report (`outputs.delete`).

    Args:
        more: tables of no section.

    Raises:
        OSError: the folder cannot be written.
    """
    sections = list(sections)
    tables = [*more, *(table for section in sections for table in section.tables)]
    for table in tables:
        write_whole(out / "tables" / f"{table.key}.csv", csv_of(table))
        write_whole(out / "tables" / f"{table.key}.md", markdown_of(table))
    figures = [figure for section in sections for figure in section.figures]
    _delete_others(out / "tables", {table.key for table in tables}, (".csv", ".md"))
    _delete_others(out / "figures", {figure.key for figure in figures}, (".svg", ".png"))
    for done, figure in enumerate(figures, 1):
        write_figure(out / "figures", figure)
        progress("figure files", done, len(figures))


def csv_of(table: Table) -> str:
    """Format a table as CSV: all digits, empty fields for missing values, and a last column ``own`` for runs."""
    rows = [
        [
            *("" if value is None else clean(value) if isinstance(value, str) else value for value in row.values),
            row.is_own,
        ]
        for row in table.rows
    ]
    return csv_text([[*(column.key for column in table.columns), "own"], *rows])


def markdown_of(table: Table) -> str:
    """Format a table as Markdown, with title and notes; best values are bold, second best underlined."""
    marks = table.marks()
    lines = [f"**{_plain(table.title)}**", ""]
    lines.append(_line(_plain(column.title) for column in table.columns))
    lines.append(_line("---:" if is_number else "---" for is_number in table.numbers()))
    for index, row in enumerate(table.rows):
        cells = [
            _MARKS[marks.get((index, place))].replace("{}", _plain(show(value, column.decimals, column.key)))
            for place, (value, column) in enumerate(zip(row.values, table.columns, strict=True))
        ]
        lines.append(_line([(_OWN if row.is_own else "") + cells[0], *cells[1:]]))
    own = [f"{_OWN.strip()}: own run."] if any(row.is_own for row in table.rows) else []
    remarks = [text for text in (table.source, *table.notes, *own) if text]
    return "\n".join([*lines, "", *(f"{_plain(text)}  " for text in remarks), ""])


def write_figure(folder: Path, figure: Figure) -> None:
    """Write a figure as SVG, with its text as text, and as PNG.

    Raises:
        OSError: the folder cannot be written.
    """
    picture = io.BytesIO()
    figure.drawing.savefig(picture, format="png", dpi=_DPI)
    write_whole(folder / f"{figure.key}.svg", figure.svg)
    write_whole(folder / f"{figure.key}.png", picture.getvalue())


def _delete_others(folder: Path, keys: set[str], suffixes: tuple[str, ...]) -> None:
    delete(path for path in folder.glob("*") if path.suffix in suffixes and path.stem not in keys)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Put a text on one line of a Markdown table."""
    return " ".join(clean(text).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def json_of(sections: Sequence[Section], runs: Sequence[Run], skipped: Sequence[str], questions: int) -> str:
    """Format the file; unknown values are null, without NaN and infinities.

    Args:
        questions: their number in the gallery.
    """
    content = {
        "schema": SCHEMA,
        "package": {"name": "lmms-egoplan", "version": __version__},
        "made": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "questions": questions,
        "runs": [_run(run) for run in runs],
        "benchmarks": [_section(section) for section in sections],
        "skipped": skipped,
    }
    return json.dumps(_known(content), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _run(run: Run) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in ("name", "model", "harness", "time", "provenance")},
        "tasks": {name: task_provenance(task) for name, task in run.tasks.items()},
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        **{name: getattr(section, name) for name in ("key", "title", "unit", "finding", "remarks")},
        "scores": [_with_ends(line) | {"beside": dict(line.beside)} for line in section.headlines],
        "differences": [asdict(pair) for pair in section.differences],
        "reference": None if section.reference is None else asdict(section.reference),
        "slices": [
            {"attribute": part.attribute, "groups": [_with_ends(group) for group in part.groups]}
            for part in section.slices
        ],
        "changes": [asdict(change) for change in section.changes],
        "tables": [_table(table) for table in section.tables],
        "figures": [
            {"key": figure.key, "title": figure.title, "caption": figure.caption} for figure in section.figures
        ],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        **{name: getattr(table, name) for name in ("key", "title", "role", "source", "notes")},
        "columns": [asdict(column) for column in table.columns],
        "rows": [{"values": row.values, "own": row.is_own} for row in table.rows],
    }


def _with_ends(scored: Headline | Group) -> dict[str, Any]:
    low, high = scored.interval or (None, None)
    return {name: value for name, value in asdict(scored).items() if name != "interval"} | {"low": low, "high": high}


def _known(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _known(one) for key, one in value.items()}
    return [_known(one) for one in value] if isinstance(value, (list, tuple)) else value


def print_runs(runs: Sequence[Run], console: Console, benchmarks: Iterable[ReportedBenchmark]) -> None:
    """Print runs by their results alone, see `print_scores`."""
    print_scores(runs, list(read_reports(runs, benchmarks)), console)


def print_scores(runs: Sequence[Run], reports: Reports, console: Console, *, with_main: bool = True) -> None:
    """Print the times of the runs, and the scores of each benchmark and of all other tasks.

    A table has a column for each run; if these do not fit the console, the rows are repeated for the other runs.
    Versions of a task have separate tables.

    Args:
        runs: with or without samples.
        reports: of these runs.
        with_main: see `BenchmarkReport.compact_table`.

    Raises:
        LmmsEgoplanError: a run's results do not have the form of the project's tasks.
    """
    tables = [table for report in reports for table in _compact_tables(*report, with_main=with_main)]
    others = other_tasks(runs)
    for run in runs:
        _print_line(f"{run.name}: {run.harness}, {run.time}", console)
    printed: set[str] = set()
    for table in [*tables, *([others] if others else [])]:
        _print_side_by_side(table, console)
        for note in table.notes:
            if note not in printed:
                _print_line(note, console)
        printed |= {*table.notes}


def sections_of(reports: Reports) -> list[Section]:
    """Return the reports' sections with their scores alone."""
    return [part.section(report.scores_section()) for part, report in reports if report.tasks]


def print_summary(sections: Sequence[Section], console: Console) -> None:
    """Print each benchmark's finding and its scores with intervals."""
    for section in sections:
        for sentence in section.finding:
            _print_line(sentence, console)
    for card in cards(sections):
        table = card_table(card)
        _print_line(f"\n{table.title}", console)
        sides = zip(table.columns, table.numbers(), strict=True)
        heads = [RichColumn(c.title, overflow="fold", justify="right" if right else "left") for c, right in sides]
        printed = RichTable(*heads, **_LOOKS)
        for row in table.rows:
            cells = zip(row.values, table.columns, strict=True)
            printed.add_row(*(Text(clean(show(value, column.decimals))) for value, column in cells))
        console.print(printed)
    if demo := demo_runs(sections):
        _print_line(f"\n{DEMO_NOTE} {', '.join(demo)}.", console)


def _compact_tables(part: Part, report: BenchmarkReport[Any], *, with_main: bool) -> tuple[Table, ...]:
    if not report.tasks:
        return ()
    try:
        table = report.compact_table(with_main=with_main)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        folders = ", ".join(sorted({str(run.folder) for run in part.runs}))
        raise LmmsEgoplanError(
            f"{folders}: the results of {part.benchmark} cannot be read: {type(error).__name__}: {error}; were they "
            "changed? Run again"
        ) from error
    return part.section(Section(part.benchmark, table.title, "", tables=(table,))).tables


def _print_side_by_side(table: Table, console: Console) -> None:
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
