"""Read the fields in Markdown tables."""

import re
from collections.abc import Sequence
from itertools import groupby

from lmms_egoplan.benchmarks.egointent.reply.names import (
    NAME,
    SHORT_NAME,
    Values,
    field_of,
    short_fields,
)

_LETTER = re.compile(r"[^\W\d_]")


# The line below the head of a Markdown table.
_RULE = re.compile(r"[\s|:+=-]+")


def read_tables(text: str) -> tuple[list[Values], str]:
    """Read the fields in tables.

    A field's text follows its name in the row, or is in the cell below its name.

    If several cells after a name contain letters, the header of the table must name the column of
    the answers.

    Returns:
        The values of each table, and the text without the rows of tables that name a field.
    """
    tables: list[Values] = []
    around: list[str] = []
    for has_bars, group in groupby([*text.split("\n"), ""], lambda line: "|" in line):
        lines = list(group)
        values: Values = []
        if has_bars:
            values = _read_table([_cells(line) for line in lines if not _RULE.fullmatch(line)])
        if values:
            tables.append(values)
        else:
            around += lines
    return tables, "\n".join(around)


def _read_table(rows: Sequence[Sequence[str]]) -> Values:
    fields = _fields_in_cells(rows)
    for number, row_fields in enumerate(fields):
        is_header = sum(field is not None for field in row_fields) > 1
        if is_header:
            below = rows[number + 1] if number + 1 < len(rows) else ()
            return [(field, cell) for field, cell in zip(row_fields, below, strict=False) if field]
    answer_column = _answer_column(rows)
    values: Values = []
    for row, row_fields in zip(rows, fields, strict=True):
        for column, field in enumerate(row_fields):
            if field:
                text = _text_after(row, column, answer_column)
                if text is not None:
                    values.append((field, text))
                break
    return values


# A cell that names a field, with a number, emphasis or remark.
_NAME_CELL = re.compile(
    rf"""
    [^a-z]{{0,12}} (?P<name> {NAME} | {SHORT_NAME} )
    [^a-z]{{0,6}} (?: \([^()]{{0,60}}\) )? [^a-z]{{0,6}}
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_FULL_NAME = re.compile(NAME, re.VERBOSE | re.ASCII | re.IGNORECASE)


def _fields_in_cells(rows: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Return the field that each cell names; None for other cells."""
    names: list[list[str]] = []
    for row in rows:
        matches = [_NAME_CELL.fullmatch(cell) for cell in row]
        names.append([match["name"].lower() if match else "" for match in matches])
    words = {name for row_names in names for name in row_names if name}
    field_by_word = {word: field_of(word) for word in words if _FULL_NAME.fullmatch(word)}
    field_by_word |= short_fields(words, set(field_by_word.values()))
    fields: list[list[str | None]] = []
    for row_names in names:
        fields.append([field_by_word.get(name) for name in row_names])
    return fields


# The header of the column of the answers.
_ANSWERS = re.compile(
    r"""
    \W* (?: (?: my | the | your | predicted | model ) \s )?
    (?: answer | value | prediction | response | output | content | result | text )s? \W*
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)


def _answer_column(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the number of the column of the answers; None if the header names none."""
    header = rows[0] if rows else ()
    for column, cell in enumerate(header):
        if _ANSWERS.fullmatch(cell):
            return column
    return None


def _text_after(row: Sequence[str], column: int, answer_column: int | None) -> str | None:
    """Return the text for the name in a column; None if it is unclear."""
    if answer_column is not None and column < answer_column < len(row):
        return row[answer_column]
    text_cells = [cell for cell in row[column + 1 :] if _LETTER.search(cell)]
    return text_cells[0] if len(text_cells) == 1 else None


_CELL_END = re.compile(r"(?<!\\)\|")


def _cells(row: str) -> list[str]:
    cells = _CELL_END.split(row.strip().strip("|"))
    return [cell.replace(r"\|", "|").strip(' *_`"') for cell in cells]
