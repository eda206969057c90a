"""Texts that models and other people's files bring, made fit to be sent, stored and opened."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

# A spreadsheet takes a cell that begins so for a formula; blanks may stand before it.
_FORMULA = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def clean_text(text: str) -> str:
    """The text as it can be sent and stored: with ``?`` for halves of surrogate pairs, which JSON files may hold.

    Two halves that make a pair become its character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "replace").decode("utf-8")
    return text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV that may be opened in a spreadsheet.

    A text that a spreadsheet would take for a formula (it begins with ``=``, ``+``, ``-`` or ``@``, and is no number,
    or with a tab or a line break) gets ``'`` before it; `cell_text` takes that away. Halves of surrogate pairs are
    replaced, and line breaks are ``\\n``.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def join_list(names: Sequence[str], most: int | None = None) -> str:
    """Join names as in a sentence: at most so many, then how many more there are.

    >>> join_list(["a", "b", "c"]), join_list(["a", "b", "c"], most=1), join_list(["a"])
    ('a, b and c', 'a and 2 more', 'a')
    """
    parts = [*names[:most], *([f"{len(names) - most} more"] if most and len(names) > most else [])]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def cell_text(cell: str) -> str:
    """A cell of a CSV file without the ``'`` that `csv_text` sets before what looks like a formula."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = clean_text(value).replace("\r\n", "\n").replace("\r", "\n")  # a lone return would end the row
    return f"'{text}" if _is_formula(text) else text


def _is_formula(text: str) -> bool:
    """Whether it looks like one behind any number of ``'``, so that `cell_text` gives back every text."""
    bare = text.lstrip("'")
    return _FORMULA.match(bare) is not None and _NUMBER.fullmatch(bare) is None
