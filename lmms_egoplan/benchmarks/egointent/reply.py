"""How a written answer is read: the three fields from JSON or from labelled lines, in whatever shape they come."""

import re

from lmms_egoplan.benchmarks.egointent.fields import FIELDS
from lmms_egoplan.benchmarks.egointent.labelled import Values, read_lines
from lmms_egoplan.benchmarks.egointent.loose_objects import read_objects
from lmms_egoplan.benchmarks.egointent.prompt import PROMPT

_WORD = re.compile(r"[^\W_]+")
# By their words: "N/A" is "n a".
_NO_ANSWER = {"n a", "na", "none", "null", "nil", "unknown", "undefined", "not applicable", "not available", "tbd"}
_NO_ANSWER |= {"true", "false", "nan", "string", "text"}


def read_reply(text: str) -> dict[str, str]:
    """The fields that a reply holds, of `FIELDS` and in their order; a field that is missing is absent.

    Read are JSON objects (`loose_objects.read_objects`) and, outside them, labelled lines (`labelled.read_lines`).
    Where there are several, the one with the most fields counts, of equals the first, and what it lacks is taken from
    the others in the same order; of a field that is there twice, the first counts. Objects come before lines.

    A value is text of the reply, unescaped, with runs of white space made one blank, and with ``; `` between the
    items of a list. It is missing if it is no text, has no letter, only stands for a missing one (``N/A``, ``none``,
    ``unknown``), or is a piece of the prompt. A field that is cut off where the reply ends is found as far as it goes,
    in JSON as in lines, where nothing would tell a cut from an end: what the model wrote is what is scored.

    Args:
        text: a model's reply without its thinking, of any content; time is linear in its length.
    """
    objects, around = read_objects(_shorten(text))
    found: dict[str, str] = {}
    for source in sorted(map(_answered, [*objects, read_lines(around)]), key=len, reverse=True):
        found = source | found
    return {field: found[field] for field in FIELDS if field in found}


def _shorten(text: str) -> str:
    """Runs of white space as one blank, a line's end, or two of them for an empty line."""
    return re.sub(r"\s\s+|[^\S ]", lambda run: "\n" * min(run[0].count("\n"), 2) or " ", text.strip())


def _answered(values: Values) -> dict[str, str]:
    answered: dict[str, str] = {}
    for field, raw in values:
        value = " ".join(_joined_halves(raw).split())
        if not _is_missing(value):
            answered.setdefault(field, value)
    return answered


def _joined_halves(text: str) -> str:
    """With the characters that halves of surrogate pairs make, and U+FFFD for a half alone, which no file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


_PROMPT_WORDS = f" {_words(PROMPT)} "


def _is_missing(value: str) -> bool:
    words = _words(value)
    return words in _NO_ANSWER or f" {words} " in _PROMPT_WORDS or not any(map(str.isalpha, words))
