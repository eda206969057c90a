"""A section's table with its rows that do not compare, which stand in a table of their own."""

from dataclasses import replace

from lmms_egoplan.report.document import Row


def joined(section, key):
    """The table of this key; behind its rows those of the one beside it, whose own column of reasons is left out."""
    (table,) = (table for table in section.tables if table.key == key)
    beside = [table for table in section.tables if table.key == f"{key}_apart"]
    rows = list(table.rows)
    for apart in beside:
        names = [column.key for column in apart.columns]
        for row in apart.rows:
            values = dict(zip(names, row.values, strict=True))
            rows.append(Row(tuple(values.get(column.key) for column in table.columns), row.is_own, values["why"]))
    return replace(table, rows=tuple(rows))
