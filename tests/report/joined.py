"""Tables and figures of a section.

Each table includes its incomparable rows, which a report lists separately.
"""

from dataclasses import replace

import pytest

from lmms_egoplan.report.tables import Row


def joined(section, key):
    """Return a table by key, with the rows of its table of incomparable runs appended, without
    their reasons.
    """
    (table,) = (table for table in section.tables if table.key == key)
    incomparable_tables = [table for table in section.tables if table.key == f"{key}_apart"]
    rows = list(table.rows)
    for incomparable in incomparable_tables:
        names = [column.key for column in incomparable.columns]
        for row in incomparable.rows:
            values = dict(zip(names, row.values, strict=True))
            rows.append(
                Row(
                    tuple(values.get(column.key) for column in table.columns),
                    row.is_ours,
                    values["why"],
                )
            )
    return replace(table, rows=tuple(rows))


def rows_of(table):
    """Return the rows by column key, with ``is_ours``."""
    keys = [column.key for column in table.columns]
    return [
        dict(zip(keys, row.values, strict=True)) | {"is_ours": row.is_ours} for row in table.rows
    ]


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
