"""Tables and figures of a section.

Each table includes its incomparable rows, which a report lists separately.
"""

from dataclasses import replace

import pytest

from lmms_egoplan.report.tables import Row


class Cells(dict):
    """A row's values by column key. Columns without any value are not in the table: None."""

    def __missing__(self, key):
        return None


def joined(section, key):
    """Return a table by key, with the rows of its table of incomparable runs appended, without
    their reasons.
    """
    (table,) = (table for table in section.tables if table.key == key)
    parts = [table, *(part for part in section.tables if part.key == f"{key}_apart")]
    columns = {column.key: column for part in parts for column in part.columns}
    why = columns.pop("why", None)
    rows = []
    for part in parts:
        for cells, row in zip(rows_of(part), part.rows, strict=True):
            reason = cells["why"] if why and part is not table else row.why
            values = tuple(cells[name] for name in columns)
            rows.append(Row(values, row.is_ours, reason or ""))
    return replace(table, columns=tuple(columns.values()), rows=tuple(rows))


def rows_of(table):
    """Return the rows by column key, with ``is_ours``."""
    keys = [column.key for column in table.columns]
    return [Cells(zip(keys, row.values, strict=True), is_ours=row.is_ours) for row in table.rows]


def rows(section, key):
    return rows_of(joined(section, key))


def run_rows(section, key):
    return [row for row in rows(section, key) if row["is_ours"]]


def figure(section, key):
    (match,) = (figure for figure in section.figures if figure.key == key)
    return match


def group_names(axes):
    """Return the names of the groups next to the vertical axis, without numbers of questions."""
    texts = [label.get_text().partition("\nn = ")[0] for label in axes.get_yticklabels()]
    return [text.replace("\n", " ") for text in texts]


def points_of(axes):
    """Return the values of each series with a label in a figure of points."""
    return {
        str(line.get_label()): [*line.get_xdata()]
        for line in axes.lines
        if not line.get_label().startswith("_")
    }


def near(value):
    """Return a value that equals results up to floating-point rounding.

    None equals None, in sequences, too.
    """
    if isinstance(value, tuple | list):
        return type(value)(map(near, value))
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
