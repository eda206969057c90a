"""Tables and figures as files for papers, READMEs and spreadsheets; ``report.json`` with all numbers."""

import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lmms_egoplan import __version__
from lmms_egoplan.files import write_whole
from lmms_egoplan.outputs import delete
from lmms_egoplan.report.document import Figure, Group, Headline, Section, Table
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.numbers import show
from lmms_egoplan.report.provenance import task_provenance
from lmms_egoplan.report.run import Run
from lmms_egoplan.text import csv_text

SCHEMA = 1
"""Of ``report.json``, see ``docs/report-json.md``."""

# Enough for a column of a paper.
_DPI = 200
_OWN = "▸ "
_MARKS = {"best": "**{}**", "second": "<u>{}</u>", None: "{}"}


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
