r"""Read a written answer: find the three fields in JSON, tags, tables or labelled lines.

    fields = fields of the best source (object, tags, table or lines), completed from the other
    sources

Objects are often not quite valid JSON. Only the fields' keys and strings are searched for, so
errors elsewhere do no harm. Repairing the whole object would mean guessing where strings end. The
text is read in one pass, in linear time for any input.

Most patterns have the flag ASCII, which restricts case rules to ASCII: in Unicode's, a dotless i is
an i.
"""

import html
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice, takewhile

from lmms_egoplan.benchmarks.egointent.prompts import ALIASES, FIELDS, PROMPT, RELEASE_PROMPT
from lmms_egoplan.jsonl import decode
from lmms_egoplan.text import clean_text

# Short names also occur in other texts, so they count only together.
_SHORT_NAMES = (
    {
        "local": "local_intent",
        "global": "global_intent",
        "procedural": "global_intent",
        "next": "next_step_plan",
    },
    {"what": "local_intent", "why": "global_intent", "next": "next_step_plan"},
)

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

_FIELD_BY_NAME = {name.replace("_", ""): field for name, field in ALIASES.items()}
_FIELD_BY_NAME |= {field.replace("_", ""): field for field in FIELDS}

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_FULL_WIDTH |= {0x3001: ord(","), 0x3000: ord(" ")}

# Names of the fields and their other names, in any style of key.
_GAP = r"[\s_\\\u2010-\u2015-]{0,2}"
_NAME = rf"""
    (?: procedural{_GAP}intent | next{_GAP}step{_GAP}plan | global{_GAP}intent
    | local{_GAP}intent | next{_GAP}plan | next{_GAP}step )
"""
_SHORT_NAME = "(?: local | global | procedural | next | what | why )"

# A key in quotation marks.
_QUOTE = """["'\u201c\u201d\u201e\u2018\u2019]"""
_KEY = rf"""
    (?: {_QUOTE}
    [\s\d.*]{{0,4}} (?P<key>{_NAME}) [\s*]{{0,4}} (?: \([^()\n]{{0,60}}\) )?
    {_QUOTE} \s?:\s? )
"""

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W_]+")

_Values = list[tuple[str, str]]
"""Pairs of a field and its text, in the order of the reply."""


@dataclass
class _Object:
    """An object of the reply: its values, and the places where it starts and ends."""

    start: int
    end: int
    values: _Values


# A short name as a key of JSON.
_SHORT_KEY = re.compile(
    rf"""(?P<quote>["']) (?P<name>{_SHORT_NAME}) (?P=quote) (?=\s?:)""",
    re.VERBOSE | re.IGNORECASE,
)


def read_reply(text: str) -> dict[str, str]:
    """Read the fields of a reply, in the order of `FIELDS`; a missing field is absent.

    These sources are read: JSON objects (`_read_objects`) and, outside of them, tags
    (`_read_tags`), tables (`_read_tables`) and labelled lines (`_read_lines`). Rules if a reply has
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
    field_by_key = _short_fields({key["name"].lower() for key in _SHORT_KEY.finditer(text)})
    if not field_by_key:
        return {}

    def with_full_name(key: re.Match[str]) -> str:
        return f'"{field_by_key.get(key["name"].lower(), key["name"])}"'

    return _read(_SHORT_KEY.sub(with_full_name, text))


# The beginning of the prompt.
_QUESTION = re.compile(r"^ step[ ]id:", re.VERBOSE | re.IGNORECASE | re.MULTILINE)


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
        finals = [final for final in finals if final[0][0] in _STOP]
    if finals:
        fields |= _read_part(text[finals[-1].end() :])
    return fields


def _read_part(text: str, *, last_first: bool = False) -> dict[str, str]:
    objects, around = _read_objects(text)
    tables, around = _read_tables(around)
    tags = _read_tags(around)
    lines = [] if tags else _read_lines(around)
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


def _last_complete(text: str, objects: Sequence[_Object]) -> list[_Values]:
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


def _has_all_fields(values: _Values) -> bool:
    return len(_answered(values)) == len(FIELDS)


def _answered(values: _Values) -> dict[str, str]:
    """Return the first text of each field."""
    answered: dict[str, str] = {}
    for field, raw in values:
        value = " ".join(clean_text(raw).split())
        if not _is_missing(value):
            answered.setdefault(field, value)
    return answered


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


_PROMPT_WORDS = f" {_words(PROMPT)} | {_words(RELEASE_PROMPT)} "


def _is_missing(value: str) -> bool:
    words = _words(value)
    if words in _NO_ANSWER or f" {words} " in _PROMPT_WORDS:
        return True
    return not any(character.isalpha() for character in words)


def _field_of(name: str) -> str:
    """Return the field for a text that matches `_NAME` or `_SHORT_NAME`."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    if letters in _FIELD_BY_NAME:
        return _FIELD_BY_NAME[letters]
    return next(fields[letters] for fields in _SHORT_NAMES if letters in fields)


def _short_fields(names: Collection[str], named_fields: Collection[str] = ()) -> dict[str, str]:
    """Return the fields of the short names that are read.

    At least two names of one set are needed, or one name for the only field that is not in the text
    under another name.

    Args:
        names: Short names in the text, in lower case.
        named_fields: Fields in the text under other names.
    """
    needed = 1 if len(named_fields) == len(FIELDS) - 1 else 2
    for fields in _SHORT_NAMES:
        matching_fields = {
            name: field
            for name, field in fields.items()
            if name in names and field not in named_fields
        }
        if len(matching_fields) >= needed:
            return matching_fields
    return {}


# An object begins with a brace, which may be missing.
_OPENING = re.compile(rf"[{{] | {_KEY}", re.VERBOSE | re.ASCII | re.IGNORECASE)


def _read_objects(text: str) -> tuple[list[_Object], str]:
    """Read the objects that contain a field's key, at any depth, and the text around them.

    An object begins at ``{``, or at a key in quotation marks if the brace is missing. A key may
    have any quotation marks, or none after ``{``, a comma or a line break. A value is a string,
    which may contain unescaped quotation marks; a list of strings, joined by ``; ``; or bare text
    up to the next key. A string or an object without an end reaches to the end of the text, so the
    last field of a truncated reply is kept.

    Returns:
        The objects that have fields, with empty values for values that are not texts, and the text
        outside of the outermost objects that contain fields.
    """
    objects: list[_Object] = []
    around: list[str] = []
    position = 0
    opening = _OPENING.search(text)
    while opening:
        inside, end = _read_object(text, opening.start())
        objects += inside
        around.append(text[position : opening.start() if inside else end])
        position = end
        opening = _OPENING.search(text, position)
    around.append(text[position:])
    return objects, "\n".join(around)


_TOKEN = re.compile(
    rf"""
    {_KEY}
    | (?: (?<=[{{,;\n]) | (?<=[{{,;]\s) ) (?P<bare>{_NAME}) \s?:\s?    # a key without quotes
    | (?: (?<=[{{\[,:]) | (?<=[{{\[,:]\s) ) (?P<quote>{_QUOTE})        # a string
    | (?P<brace>[{{}}])
    | // [^\n]* | (?<=\s)\# [^\n]* | /\* (?: .*?\*/ | .* )             # a comment
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.DOTALL,
)


def _read_object(text: str, start: int) -> tuple[list[_Object], int]:
    """Read the object that starts here, and the objects inside it that contain a field.

    Returns:
        The objects, and the end of the outermost one.
    """
    objects: list[_Object] = []
    open_objects: list[_Object] = []
    if text[start] != "{":
        open_objects.append(_Object(start, len(text), []))
    position = start
    token = _TOKEN.search(text, position)
    while token:
        position = token.end()
        name = token["key"] or token["bare"]
        if name:
            if not open_objects[-1].values:
                objects.append(open_objects[-1])
            value, position = _read_value(text, position)
            open_objects[-1].values.append((_field_of(name), value))
        elif token["quote"]:
            _, position = _read_string(text, token.start("quote"))
        elif token["brace"] == "{":
            open_objects.append(_Object(token.start("brace"), len(text), []))
        elif token["brace"] == "}":
            open_objects.pop().end = position
            if not open_objects:
                return objects, position
        token = _TOKEN.search(text, position)
    return objects, len(text)


# A key without quotation marks.
_BARE_KEY = r"(?: \w [\w\\ -]{0,40} : )"
_BARE_END = re.compile(
    rf"[\n}}] | \Z | [,;]\s? (?: {_QUOTE} | {_BARE_KEY} )",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)


def _read_value(text: str, position: int) -> tuple[str, int]:
    first = text[position : position + 1]
    if first in _STOP:
        return _read_string(text, position)
    if first == "[":
        return _read_list(text, position + 1)
    if first == "{":  # an object: the caller reads it next
        return "", position
    end_match = _BARE_END.search(text, position)
    end = end_match.start() if end_match else len(text)
    return text[position:end], end


def _read_list(text: str, position: int) -> tuple[str, int]:
    items: list[str] = []
    while True:
        while text[position : position + 1] in (" ", "\n", ","):
            position += 1
        if text[position : position + 1] not in _STOP:
            return "; ".join(items), position
        item, position = _read_string(text, position)
        items.append(item)


# The marks that may end a string, by its first mark.
_END_QUOTES = {
    '"': '"',
    "'": "'",
    "\u201c": '\u201c\u201d"',
    "\u201d": '\u201c\u201d"',
    "\u201e": '\u201c\u201d"',
    "\u2018": "\u2018\u2019'",
    "\u2019": "\u2018\u2019'",
}
# The places where a string may end, by its first mark; and escapes, which are skipped.
_STOP = {first: re.compile(rf"\\.|[\n{last}]", re.DOTALL) for first, last in _END_QUOTES.items()}
# Text after a mark that ends a string. Any other mark belongs to the text.
_COMMENT = r"(?: // | /\* | (?<=\s)\# )"
_AFTER = re.compile(
    rf"""
    \n
    | \s? (?:
        \Z | [}}\]:] | ``` | {_COMMENT} | {_KEY}
        | [,;]\s? (?:
            \Z | [{{}}\[\]\d-] | {_QUOTE} | {_COMMENT} | (?: true | false | null )\b | {_BARE_KEY}
        )
    )
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
# The end of a string without an end mark.
_UNENDED = re.compile(rf"\n? {_KEY} | \n (?: [}}\]] | ``` )", re.VERBOSE | re.ASCII | re.IGNORECASE)


def _read_string(text: str, start: int) -> tuple[str, int]:
    for stop in _STOP[text[start]].finditer(text, start + 1):
        if stop[0][0] == "\\":
            continue
        if _UNENDED.match(text, stop.start()):
            return _unescape(text[start + 1 : stop.start()].rstrip(" \n,")), stop.start()
        if stop[0] != "\n" and _AFTER.match(text, stop.end()):
            return _unescape(text[start + 1 : stop.start()]), stop.end()
    return _unescape(text[start + 1 :]), len(text)


_ESCAPE = re.compile(
    r"""
    \\ (?:
        u([0-9a-fA-F]{4})
        | (?: u[0-9a-fA-F]{0,3} )? \Z    # the text ends within the escape
        | (.)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
# Meanings of letters after a backslash.
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescape(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        if escape[1]:
            return chr(int(escape[1], 16))
        return _ESCAPES.get(escape[2], escape[2] or "")

    return _ESCAPE.sub(character, text)


_TAG = re.compile(
    rf"""
    < (?:
        (?P<tag>{_NAME}) (?P<attributes> \s [^<>]{{0,200}} )?
        # a tag with the name in an attribute
        | [a-z]\w{{0,30}} \s [^<>]{{0,100}}? ["'] (?P<named>{_NAME}) ["'] (?P<more> [^<>]{{0,200}} )
    ) >
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_CLOSING = re.compile(r"</ [a-z] [\w\s-]{0,40} >", re.VERBOSE | re.ASCII | re.IGNORECASE)
_FIELD_CLOSING = re.compile(rf"</ \s? {_NAME} \s? >", re.VERBOSE | re.ASCII | re.IGNORECASE)
_EMPHASIS = re.compile(r"</? [a-z]{1,10} >", re.VERBOSE | re.ASCII | re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""\b (?: value | text | content | answer ) \s?=\s? (?: "([^"]*)" | '([^']*)' )""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
# A tag that surrounds the text inside the field's tag.
_INNER_TAG = re.compile(
    r"\s* (?: <!\[CDATA\[ | < [a-z] [^<>]{0,100} > )", re.VERBOSE | re.ASCII | re.IGNORECASE
)


def _read_tags(text: str) -> _Values:
    """Read the text in every tag that is named after a field.

    For example, this is the text in ``<local_intent>...</local_intent>``. The field's name may also
    be in an attribute. If no such tag is closed, no value is read. A last tag that is not closed
    reaches to the end of the text.
    """
    tags = list(_TAG.finditer(text))
    ends = [tag.start() for tag in tags[1:]] + [len(text)]
    values: _Values = []
    has_closed = False
    for tag, end in zip(tags, ends, strict=False):
        field = _field_of(tag["tag"] or tag["named"])
        attributes = tag["attributes"] or tag["more"] or ""
        if attributes.rstrip().endswith("/"):
            attribute = _ATTRIBUTE.search(attributes)
            if attribute:
                values.append((field, html.unescape(attribute[1] or attribute[2] or "")))
                has_closed = True
            continue
        value, is_closed = _tag_text(text, tag.end(), end)
        has_closed |= is_closed
        if is_closed or end == len(text):
            values.append((field, value))
    return values if has_closed else []


def _tag_text(text: str, start: int, end: int) -> tuple[str, bool]:
    """Return the text of a tag, and true if the tag is closed.

    Args:
        text: The reply.
        start: End of the opening tag.
        end: Start of the next field's tag, or the end of the reply.
    """
    inner = _INNER_TAG.match(text, start, end)
    while inner:
        start = inner.end()
        inner = _INNER_TAG.match(text, start, end)
    closing = _FIELD_CLOSING.search(text, start, end) or _CLOSING.search(text, start, end)
    if closing:
        end = closing.start()
    value = _EMPHASIS.sub("", text[start:end])
    return html.unescape(value).removesuffix("]]>"), closing is not None


# The line below the head of a Markdown table.
_RULE = re.compile(r"[\s|:+=-]+")


def _read_tables(text: str) -> tuple[list[_Values], str]:
    """Read the fields in tables.

    A field's text follows its name in the row, or is in the cell below its name.

    If several cells after a name contain letters, the header of the table must name the column of
    the answers.

    Returns:
        The values of each table, and the text without the rows of tables that name a field.
    """
    tables: list[_Values] = []
    around: list[str] = []
    for has_bars, group in groupby([*text.split("\n"), ""], lambda line: "|" in line):
        lines = list(group)
        values: _Values = []
        if has_bars:
            values = _read_table([_cells(line) for line in lines if not _RULE.fullmatch(line)])
        if values:
            tables.append(values)
        else:
            around += lines
    return tables, "\n".join(around)


def _read_table(rows: Sequence[Sequence[str]]) -> _Values:
    fields = _fields_in_cells(rows)
    for number, row_fields in enumerate(fields):
        is_header = sum(field is not None for field in row_fields) > 1
        if is_header:
            below = rows[number + 1] if number + 1 < len(rows) else ()
            return [(field, cell) for field, cell in zip(row_fields, below, strict=False) if field]
    answer_column = _answer_column(rows)
    values: _Values = []
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
    [^a-z]{{0,12}} (?P<name> {_NAME} | {_SHORT_NAME} )
    [^a-z]{{0,6}} (?: \([^()]{{0,60}}\) )? [^a-z]{{0,6}}
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_FULL_NAME = re.compile(_NAME, re.VERBOSE | re.ASCII | re.IGNORECASE)


def _fields_in_cells(rows: Sequence[Sequence[str]]) -> list[list[str | None]]:
    """Return the field that each cell names; None for other cells."""
    names: list[list[str]] = []
    for row in rows:
        matches = [_NAME_CELL.fullmatch(cell) for cell in row]
        names.append([match["name"].lower() if match else "" for match in matches])
    words = {name for row_names in names for name in row_names if name}
    field_by_word = {word: _field_of(word) for word in words if _FULL_NAME.fullmatch(word)}
    field_by_word |= _short_fields(words, set(field_by_word.values()))
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


# Characters before a name at the start of a line or sentence: numbers, bullets, emphasis and emoji,
# but no letters.
_BEFORE = r"""
    (?: ^ | (?<=[.;,!?*]\s) | (?<=[\u3002\uff1b\uff0c\uff01\uff1f\u3001]) )
    (?u: [^\w\n|<{}] | [\d_] | [\u2160-\u217f\u2460-\u24ff\u2776-\u2793] ){0,12}
"""
# A remark, a separator or the end of the line after a name.
_AFTER_NAME = r"""
    [*_`"')\]]{0,4} (?: \s?[(\uff08] [^()\n\uff08\uff09]{0,60} [)\uff09] )? [*_`"']{0,4}
    (?:
        \s? (?: [-=]> | [:=\uff1a\uff1d\ufe55\u2192\u27a1] )
        | \s[\u2013\u2014-]{1,2}\s
        | [\]\u3011\u300d\u300f] (?=\s?\S)
        | (?P<end> \s?\n | \Z )
    )
"""
_LABEL = re.compile(
    rf"{_BEFORE} (?P<name>{_NAME}) {_AFTER_NAME}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)
# Start of a YAML block: the text is on the lines below.
_BLOCK = re.compile(r"\s* [|>] [+-]?\d?[+-]? \s* (?: \#.* )?", re.VERBOSE)


def _read_lines(text: str) -> _Values:
    """Read the text after the name of each field.

    This is the rest of the line, up to the name of another field. If the rest is empty or marks a
    YAML block, the next paragraph is read. Its lines are joined by a blank, or by ``; `` if all are
    bullets. The text may be empty. For the short names (Local, Global or Procedural, Next; What,
    Why, Next), see `_short_fields`.
    """
    labels = _line_labels(text)
    ends = [label.start() for label in labels[1:]] + [len(text)]
    values: _Values = []
    for label, end in zip(labels, ends, strict=False):
        following = text[label.end() : end]
        first_line = following.partition("\n")[0]
        if _BLOCK.fullmatch(first_line):
            following = following[len(first_line) :]
            first_line = ""
        line = "" if _ends_line(label) else _plain(first_line)
        values.append((_field_of(label["name"]), line or _paragraph(following)))
    return values


def _ends_line(label: re.Match[str]) -> bool:
    """Return whether a label is all of its line's end, like a heading, without a separator."""
    return label.groupdict().get("end") is not None


def _line_labels(text: str) -> list[re.Match[str]]:
    """List the labels of fields, in their order.

    A label that ends its line must also begin it. In a line that names all three fields, their
    labels count wherever they are in the line, and no other label of that line does.
    """
    inner_labels = _inner_labels(text)
    lines_with_all = {_line_of(label) for label in inner_labels}
    labels = [
        label for label in _LABEL.finditer(text) if not _ends_line(label) or _opens_line(label)
    ]
    labels += _short_labels(text, labels)
    outer_labels = [label for label in labels if _line_of(label) not in lines_with_all]
    return sorted([*outer_labels, *inner_labels], key=re.Match.start)


# A label anywhere in a line. Such labels count if a line has all three.
_INNER_BEFORE = r"""
    (?: ^ | (?<=[\s|/]) ) [|/*_>\u2022(\[\u2013\u2014-]{0,6} \s? (?: \d{1,2}[.):]{1,2} \s? )?
    [*_`"'(\[]{0,4}
"""
_INNER_AFTER = r"""
    [*_`"')\]]{0,4} (?: \s?[(\uff08] [^()\n\uff08\uff09]{0,60} [)\uff09] )? [*_`"']{0,4}
    \s? [:=\uff1a\uff1d] [*_]{0,4}
"""
_INNER_LABEL = re.compile(
    rf"{_INNER_BEFORE} (?P<name>{_NAME}) {_INNER_AFTER}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)
_SHORT_INNER_LABEL = re.compile(
    rf"{_INNER_BEFORE} (?P<name>{_SHORT_NAME}) {_INNER_AFTER}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)


def _inner_labels(text: str) -> list[re.Match[str]]:
    """List the labels in lines that have the labels of all fields.

    The labels may be anywhere in the line.
    """
    labels: list[re.Match[str]] = []
    for line in _by_line(_INNER_LABEL.finditer(text)):
        if {_field_of(label["name"]) for label in line} == set(FIELDS):
            labels += line
    for line in _by_line(_SHORT_INNER_LABEL.finditer(text)):
        fields = _short_fields({label["name"].lower() for label in line})
        if set(fields.values()) == set(FIELDS):
            labels += [label for label in line if label["name"].lower() in fields]
    return labels


def _by_line(labels: Iterable[re.Match[str]]) -> list[list[re.Match[str]]]:
    return [list(line) for _, line in groupby(labels, key=_line_of)]


def _line_of(label: re.Match[str]) -> int:
    """Return the place where the line of a label's name begins."""
    return label.string.rfind("\n", 0, label.end("name"))


_SHORT_LABEL = re.compile(
    rf"{_BEFORE} (?P<name>{_SHORT_NAME}) {_AFTER_NAME}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)


def _short_labels(text: str, labels: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """List the short names that `_short_fields` accepts.

    They are at the start of lines, before a separator or as headings.
    """
    labelled_lines = {_line_of(label) for label in labels}
    openings = [
        label
        for label in _SHORT_LABEL.finditer(text)
        if _opens_line(label)
        and _is_separated_or_heading(label)
        and _line_of(label) not in labelled_lines
    ]
    fields = _short_fields(
        {label["name"].lower() for label in openings},
        {_field_of(label["name"]) for label in labels},
    )
    return [label for label in openings if label["name"].lower() in fields]


def _opens_line(label: re.Match[str]) -> bool:
    return label.start() == 0 or label.string[label.start() - 1] == "\n"


def _is_separated_or_heading(label: re.Match[str]) -> bool:
    is_separated = label["end"] is None
    return is_separated or label[0].lstrip().startswith(("#", "**"))


_BULLET = re.compile(r"(?: [-*+\u2022] | \d{1,2}[.)] ) \s", re.VERBOSE)


def _paragraph(text: str) -> str:
    lines = text.strip().partition("\n\n")[0].split("\n")
    lines = list(takewhile(_is_text, lines))
    if all(_BULLET.match(line) for line in lines):
        return "; ".join(_plain(_BULLET.sub("", line, count=1)) for line in lines)
    return _plain(" ".join(lines))


def _is_text(line: str) -> bool:
    """Return false for a heading, a fence, a brace, and the end of a YAML document."""
    return not line.startswith(("#", "```", "{", "}")) and line not in ("---", "...")


# Emphasis and punctuation around a text.
_MARKUP = " *_`,;\uff0c\uff1b\u3001\u3002"
# Marks that surround a text in pairs.
_PAIRED = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}


def _plain(line: str) -> str:
    """Remove surrounding emphasis, quotation marks and commas."""
    plain = line.strip(_MARKUP)
    if len(plain) > 1 and _PAIRED.get(plain[0]) == plain[-1]:
        return plain[1:-1]
    return plain
