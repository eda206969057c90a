r"""Read a written answer: find the three fields in JSON, tags, tables or labelled lines (sec. 4).

    fields = fields of the best source (object, tags, table or lines), completed from the other
    sources

The paper does not say how replies are read: the rules are this project's. Each kind of source has a
module.

Objects are often not quite valid JSON. Only the fields' keys and strings are searched for, so
errors elsewhere do no harm. Repairing the whole object would mean guessing where strings end. The
text is read in one pass, in linear time for any input.

Most patterns have the flag ASCII, which restricts case rules to ASCII: in Unicode's, a dotless i is
an i.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_PROMPT, V1_PROMPT
from lmms_egoplan.benchmarks.egointent.reply.lines import read_lines
from lmms_egoplan.benchmarks.egointent.reply.names import SHORT_NAME, Values, short_fields
from lmms_egoplan.benchmarks.egointent.reply.objects import STRING_ENDS, FoundObject, read_objects
from lmms_egoplan.benchmarks.egointent.reply.tables import read_tables
from lmms_egoplan.benchmarks.egointent.reply.tags import read_tags
from lmms_egoplan.jsonl import decode
from lmms_egoplan.text import clean_text

# Values that mark a missing value, as words: "N/A" is "n a".
_NO_ANSWER = frozenset(
    {
        "n a",
        "na",
        "none",
        "null",
        "nil",
        "unknown",
        "undefined",
        "not applicable",
        "not available",
        "tbd",
        "true",
        "false",
        "nan",
        "string",
        "text",
    }
)

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FULL_WIDTH |= {0x3001: ord(","), 0x3000: ord(" ")}
_WORD = re.compile(r"[^\W_]+")


# A short name as a key of JSON.
_SHORT_KEY = re.compile(
    rf"""(?P<quote>["']) (?P<name>{SHORT_NAME}) (?P=quote) (?=\s?:)""",
    re.VERBOSE | re.IGNORECASE,
)


def read_reply(text: str) -> dict[str, str]:
    """Read the fields of a reply, in the order of `FIELDS`; a missing field is absent.

    These sources are read: JSON objects (`read_objects`) and, outside of them, tags
    (`read_tags`), tables (`read_tables`) and labelled lines (`read_lines`). Rules if a reply has
    several sources:

    - The source with the most fields is used. On a tie, it is the first one in the order objects,
      tags, tables, lines.
    - Its missing fields are taken from the other sources in the same order.
    - If a field occurs more than once in a source, the first value is used.
    - Of several objects with all fields, the first one is used. One that follows directly, or after
      words such as "revised answer" or a heading, replaces the one before.
    - Text after ``Final answer:`` (or revised, corrected, updated), ``On second thought`` or a
      similar phrase has priority over everything else.
    - If the prompt follows an answer with all fields, nothing after it is read.
    - If the reply contains an initial guess or a draft, the last source is used on a tie, and a
      field's last value.

    A value is text of the reply, unescaped. Runs of white space become one blank, and the items of
    a list are joined by ``; ``. A value counts as missing if it is not a text, has no letter, only
    marks a missing value (``N/A``, ``none``, ``unknown``), or is a piece of the prompt. If the
    reply ends within a field, its text up to there is used. This applies to JSON as well as to
    lines, where the end of the text is not marked.

    If fields are missing, full-width punctuation is read as ASCII, also within values. If no field
    is found by its name, JSON with the keys local, global and next, or what, why and next, is read.

    Args:
        text: A model's reply without its thinking, of any content.
    """
    text = _first_answer(_shorten_space(text.strip()))
    fields = _read(text)
    if len(fields) < len(FIELDS):
        half_width = text.translate(_FULL_WIDTH)
        if half_width != text:
            fields = max(fields, _read(half_width), key=len)
    if not fields:
        fields = _read_short_keys(text)
    return {field: fields[field] for field in FIELDS if field in fields}


def _shorten_space(text: str) -> str:
    """Replace each run of white space by one blank or line break.

    An empty line becomes two line breaks.
    """

    def shortened(run: re.Match[str]) -> str:
        line_breaks = min(run[0].count("\n"), 2)
        return "\n" * line_breaks or " "

    return re.sub(r"\s\s+|[^\S ]", shortened, text)


def _read_short_keys(text: str) -> dict[str, str]:
    """Read JSON with short names as keys; no field if they do not count."""
    field_by_key = short_fields({key["name"].lower() for key in _SHORT_KEY.finditer(text)})
    if not field_by_key:
        return {}

    def with_full_name(key: re.Match[str]) -> str:
        return f'"{field_by_key.get(key["name"].lower(), key["name"])}"'

    return _read(_SHORT_KEY.sub(with_full_name, text))


# The beginnings of both prompts.
_QUESTION = re.compile(
    r"^ (?: step[ ]id: | you[ ]see[ ]first-person[ ]footage[ ]of[ ])",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


def _first_answer(text: str) -> str:
    """Return the text up to a prompt that follows an answer with all fields."""
    for question in islice(_QUESTION.finditer(text), 2):
        before = text[: question.start()]
        if len(_read(before)) == len(FIELDS):
            return before
    return text


# Marks of the answer that counts, and of one that does not.
_FINAL_WORDS = r"""
    (?:
        (?: final | revised | corrected | updated | refined )
        (?:
            [\s_-]
            (?: answer | prediction | output | response | reply | result | version | guess | json
            | intent )s?
        )?
    )
"""
_FINAL = re.compile(
    rf"""
    # "Final answer:", a heading, or the words before an object, but not "not a final answer:"
    (?<![\w"'-]) (?<!not[ ]) (?<!not[ ]the[ ]) (?<!not[ ]my[ ]) (?<!not[ ]a[ ])
    {_FINAL_WORDS} [\s*_`)\]]{{0,6}} (?: [:\uff1a] | \n | (?=\{{) )
    # a key of JSON, or a tag
    | ["'] {_FINAL_WORDS} ["'] \s? : \s? (?=\{{)
    | < {_FINAL_WORDS} >
    # second thoughts
    | (?<![\w"'-]) on[ ]second[ ]thoughts? \b
    | (?<=\n) [*_#>\s-]{{0,6}} (?:
        (?: wait | actually | correction | scratch[ ]that | on[ ]reflection | sorry | hmm
        | better ) \s? [,.!:\uff0c\uff1a\u2026-]
        | i[ ] (?: made[ ]a[ ]mistake | was[ ]wrong ) \b
        | (?: let[ ]me | i'll ) [ ] (?: correct | revise | reconsider | rethink ) \b
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FIRST = re.compile(
    r"""
    (?<![\w"'-]) (?: initial | first | draft | preliminary | tentative | rough )
    (?: [ ] (?: guess | answer | prediction | attempt | thoughts? | draft | version | idea ) )?
    [\s*_`)\]]{0,6} [:\uff1a]
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _read(text: str) -> dict[str, str]:
    fields = _read_part(text, last_first=_FIRST.search(text) is not None)
    finals = list(_FINAL.finditer(text))
    with suppress(ValueError):
        decode(text)
        # In valid JSON, only a key can mark the final answer. Other matches are inside strings.
        finals = [final for final in finals if final[0][0] in STRING_ENDS]
    if finals:
        fields |= _read_part(text[finals[-1].end() :])
    return fields


def _read_part(text: str, *, last_first: bool = False) -> dict[str, str]:
    objects, around = read_objects(text)
    tables, around = read_tables(around)
    tags = read_tags(around)
    lines = [] if tags else read_lines(around)
    sources = [
        *_last_complete(text, objects),
        *(found_object.values for found_object in objects),
        tags,
        *tables,
        lines,
    ]
    if last_first:
        sources = [source[::-1] for source in reversed(sources)]
    answers = [_answered(source) for source in sources]
    fields: dict[str, str] = {}
    for answer in sorted(answers, key=len, reverse=True):
        fields = answer | fields
    return fields


# The only words between two answers of which the second one replaces the first: a heading, tags,
# and words of this kind.
_MISLEADING = r"""
    (?: \b (?: wrong | incorrect | bad | false | invalid | example | instead | alternative | other
    | not | avoid | never | draft | initial ) )
"""
_REPLACING = re.compile(
    rf"""
    (?<=\n) \#{{1,6}} [ ] (?! [^\n]{{0,80}} {_MISLEADING} ) [^\n{{}}]{{1,80}} (?=\n)
    | < /? [a-z_]{{1,20}} >
    | \b (?: json | here | is | are | my | the | a | so | again | it | in | as | code | final
    | revised | corrected | updated | refined | answer | prediction | output | response | reply
    | result | version | object ) s? \b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _last_complete(text: str, objects: Sequence[FoundObject]) -> list[Values]:
    """Return the object with all fields that counts, if there is one.

    It is the last that replaces the one before.
    """
    complete = [candidate for candidate in objects if _has_all_fields(candidate.values)]
    if not complete:
        return []
    last = complete[0]
    for following in complete[1:]:
        between = _REPLACING.sub(" ", text[last.end : following.start])
        if last.end > following.start or _WORD.search(between):
            break
        last = following
    return [last.values]


def _has_all_fields(values: Values) -> bool:
    return len(_answered(values)) == len(FIELDS)


def _answered(values: Values) -> dict[str, str]:
    """Return the first text of each field."""
    answered: dict[str, str] = {}
    for field, raw in values:
        value = " ".join(clean_text(raw).split())
        if not _is_missing(value):
            answered.setdefault(field, value)
    return answered


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


_PROMPT_WORDS = f" {_words(V1_PROMPT)} | {_words(RELEASE_PROMPT)} "


def _is_missing(value: str) -> bool:
    words = _words(value)
    if words in _NO_ANSWER or f" {words} " in _PROMPT_WORDS:
        return True
    return not any(character.isalpha() for character in words)
