"""How a written answer is read: the three fields from JSON, tags, tables or labelled lines, however they come."""

import re

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, PROMPT, RELEASE_PROMPT
from lmms_egoplan.benchmarks.egointent.reply_labels import SHORT_NAME, Values, read_lines, short_names
from lmms_egoplan.benchmarks.egointent.reply_markup import read_tables, read_tags
from lmms_egoplan.benchmarks.egointent.reply_objects import read_objects
from lmms_egoplan.text import clean_text

_WORD = re.compile(r"[^\W_]+")
# By their words: "N/A" is "n a".
_NO_ANSWER = {"n a", "na", "none", "null", "nil", "unknown", "undefined", "not applicable", "not available", "tbd"}
_NO_ANSWER |= {"true", "false", "nan", "string", "text"}


# What announces the answer that counts, and one that does not.
_FINAL_WORDS = r"""
    (?: final | revised | corrected | updated | refined )
    (?: [\s_-] (?: answer | prediction | output | response | reply | result | version | guess | json | intent )s? )?
"""
_FINAL = re.compile(
    rf"""
    (?<![\w"'-]) {_FINAL_WORDS} [\s*_`)\]]{{0,6}} (?: [:\uff1a] | \n | (?=\{{) )
    | ["'] {_FINAL_WORDS} ["'] \s? : \s? (?=\{{) | < {_FINAL_WORDS} >
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FIRST = re.compile(
    r"(?<![\w\"'-])(?:initial|first|draft|preliminary|tentative|rough)"
    r"(?: (?:guess|answer|prediction|attempt|thoughts?|draft|version|idea))?[\s*_`)\]]{0,6}[:\uff1a]",
    re.IGNORECASE,
)
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord("\u3001"): ord(","),
    ord("\u3000"): ord(" "),
}
_SHORT_KEY = re.compile(rf"(?P<quote>[\"'])(?P<name>{SHORT_NAME})(?P=quote)(?=\s?:)", re.IGNORECASE)


def read_reply(text: str) -> dict[str, str]:
    """Read the fields of a reply, of `FIELDS` and in their order; a missing field is absent.

    Read are JSON objects (`read_objects`) and, outside them, tags and tables (`read_tags`, `read_tables`) and labelled
    lines (`read_lines`). Where there are several, the one with the most fields counts, of equals the first, and what
    it lacks is taken from the others in the same order; of a field that is there twice, the first counts.
    Objects come before tags, these before tables and lines. Behind ``Final answer:`` (or revised, corrected, updated)
    what stands there comes before all else; where something is called an initial guess or a draft, the last of equals
    counts, and the last of a field that is there twice.

    A value is text of the reply, unescaped, with runs of white space made one blank, and with ``; `` between the
    items of a list. It is missing if it is no text, has no letter, only stands for a missing one (``N/A``, ``none``,
    ``unknown``), or is a piece of the prompt. A field that is cut off where the reply ends is found as far as it goes,
    in JSON as in lines, where nothing would tell a cut from an end: what the model wrote is what is scored.

    A reply with full-width punctuation around its fields is read with that of ASCII, also in their texts; JSON with
    the keys local, global and next, or what, why and next, is read where there is no field under its own name.

    Args:
        text: a model's reply without its thinking, of any content; time is linear in its length.
    """
    text = _shorten(text)
    fields = _read(text)
    if len(fields) < len(FIELDS) and (plain := text.translate(_FULL_WIDTH)) != text:
        fields = max(fields, _read(plain), key=len)
    if not fields and (keys := short_names({key["name"].lower() for key in _SHORT_KEY.finditer(text)})):
        fields = _read(_SHORT_KEY.sub(lambda key: f'"{keys.get(key["name"].lower(), key["name"])}"', text))
    return {field: fields[field] for field in FIELDS if field in fields}


def _read(text: str) -> dict[str, str]:
    whole = _read_part(text, last_first=_FIRST.search(text) is not None)
    starts = [final.end() for final in _FINAL.finditer(text)]
    return whole | _read_part(text[starts[-1] :]) if starts else whole


def _read_part(text: str, *, last_first: bool = False) -> dict[str, str]:
    objects, around = read_objects(text)
    tables, around = read_tables(around)
    tags = read_tags(around)
    sources = [*objects, tags, *tables, [] if tags else read_lines(around)]
    if last_first:
        sources = [source[::-1] for source in reversed(sources)]
    fields: dict[str, str] = {}
    for source in sorted(map(_answered, sources), key=len, reverse=True):
        fields = source | fields
    return fields


def _shorten(text: str) -> str:
    """Shorten runs of white space to one blank, a line's end, or two of them for an empty line."""
    return re.sub(r"\s\s+|[^\S ]", lambda run: "\n" * min(run[0].count("\n"), 2) or " ", text.strip())


def _answered(values: Values) -> dict[str, str]:
    answered: dict[str, str] = {}
    for field, raw in values:
        value = " ".join(clean_text(raw, "\ufffd").split())
        if not _is_missing(value):
            answered.setdefault(field, value)
    return answered


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


_PROMPT_WORDS = f" {_words(PROMPT)} | {_words(RELEASE_PROMPT)} "


def _is_missing(value: str) -> bool:
    words = _words(value)
    return words in _NO_ANSWER or f" {words} " in _PROMPT_WORDS or not any(map(str.isalpha, words))
