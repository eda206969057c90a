"""Make texts from models and untrusted files safe to send, store and open."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

# A spreadsheet reads a cell with this beginning as a formula, even after blanks.
_FORMULA = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20]|[\t\r\n]")
_HALF = re.compile("[\ud800-\udfff]")
# Tab and newline are no part of it.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


class MediaMarker(str):
    """A text of a prompt that marks the image or video after it.

    It must stay directly before this image or video.
    """


def clean_text(text: str) -> str:
    """Repair halves of surrogate pairs.

    JSON files may contain them, but they cannot be sent or stored. Two halves in a row become their
    character. A single half becomes ``?``.

    >>> clean_text(chr(0xD83D) + chr(0xDE00) + chr(0xD83D))
    '😀?'
    """
    if text.isascii():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _HALF.sub("?", joined)


def strip_controls(text: str, *, keep_lines: bool = False) -> str:
    r"""Remove control characters from a text that a person wrote, and unify its whitespace.

    Whitespace becomes one space. Removes the characters of categories C0 and C1, bidirectional
    embeddings, overrides and isolates, and U+FEFF. Characters that scripts and emoji need, such as
    joiners and directional marks, stay.

    Args:
        keep_lines: Keep tabs and spaces, and make all line breaks newlines.

    >>> strip_controls("a\x1b\u202eb \t c\r\nd\u200de")
    'ab c d\u200de'
    >>> strip_controls("a\tb\x00\r\nc", keep_lines=True)
    'a\tb\nc'
    """
    lines = _CONTROLS.sub("", "\n".join(text.splitlines()))
    return lines if keep_lines else " ".join(lines.split())


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    r"""Format rows as CSV that is safe to open in a spreadsheet.

    A text that a spreadsheet would read as a formula gets the prefix ``'``, which `cell_text`
    removes. Formulas begin with ``=``, ``+``, ``-`` or ``@`` and are not numbers, or begin with a
    tab or a line break. Halves of surrogate pairs are replaced, and line breaks are ``\n``.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def join_list(names: Sequence[str], most: int | None = None) -> str:
    """Join names as in a sentence: the first `most` names, then the number of others.

    >>> join_list(["a", "b", "c"]), join_list(["a", "b", "c"], most=1), join_list(["a"])
    ('a, b and c', 'a and 2 more', 'a')
    """
    parts = [*names[:most]]
    if most and len(names) > most:
        parts.append(f"{len(names) - most} more")
    first = ", ".join(parts[:-1])
    last = parts[-1] if parts else ""
    if first and last:
        return f"{first} and {last}"
    return first or last


def numbered(texts: Iterable[str]) -> str:
    """Join texts as numbered lines, from 1.

    >>> print(numbered(["open the door", "close it"]))
    1. open the door
    2. close it
    """
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def cell_text(cell: str) -> str:
    """Return a cell of a CSV file without the ``'`` that `csv_text` adds to formulas."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell) else cell


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # A lone carriage return would end the row.
    text = clean_text(value).replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if _is_formula(text) else text


def _is_formula(text: str) -> bool:
    """Recognise a formula after any number of ``'``.

    Without this, `cell_text` would not restore every text.
    """
    bare = text.lstrip("'")
    return _FORMULA.match(bare) is not None and _NUMBER.fullmatch(bare) is None


def counted(count: int, unit: str) -> str:
    """Format a number with a unit, which is passed in the plural.

    >>> counted(1, "questions"), counted(3355, "videos"), counted(1, "activities")
    ('1 question', '3,355 videos', '1 activity')
    """
    singular = f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")
    return f"{count:,} {singular if count == 1 else unit}"


def percent(share: float) -> str:
    """Format a fraction as per cent with one decimal.

    Only exactly 0 and 1 (or more) become "0 %" and "100 %".

    >>> [percent(share).replace(chr(0x202F), " ") for share in (0, 1 / 3355, 0.98301, 0.99999, 1)]
    ['0 %', '< 0.1 %', '98.3 %', '> 99.9 %', '100 %']
    """
    share = min(share, 1)
    if share in (0, 1):
        return f"{share:.0%}".replace("%", "\u202f%")
    if share < 0.0005:
        return "< 0.1\u202f%"
    return "> 99.9\u202f%" if share >= 0.9995 else f"{100 * share:.1f}\u202f%"
