"""A section's tables and figures; a table includes the rows that do not compare, which are in a table of their own."""

from dataclasses import replace

import pytest

from lmms_egoplan.report.tables import Row


def joined(section, key):
    """Return a table by key, with the rows of its table of incomparable runs appended, without their reasons."""
    (table,) = (table for table in section.tables if table.key == key)
    beside = [table for table in section.tables if table.key == f"{key}_apart"]
    rows = list(table.rows)
    for apart in beside:
        names = [column.key for column in apart.columns]
        for row in apart.rows:
            values = dict(zip(names, row.values, strict=True))
            rows.append(Row(tuple(values.get(column.key) for column in table.columns), row.is_own, values["why"]))
    return replace(table, rows=tuple(rows))


def rows_of(table):
    """Rows by the keys of the columns, and whether each is of an own run."""
    keys = [column.key for column in table.columns]
    return [dict(zip(keys, row.values, strict=True)) | {"is_own": row.is_own} for row in table.rows]


def rows(section, key):
    return rows_of(joined(section, key))


def run_rows(section, key):
    return [row for row in rows(section, key) if row["is_own"]]


def figure(section, key):
    (match,) = (figure for figure in section.figures if figure.key == key)
    return match


def near(value):
    """Return a value that equals results up to floating-point rounding. None equals None, in sequences, too."""
    if isinstance(value, tuple | list):
        return type(value)(map(near, value))
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-12)
