"""Read the fields in JSON objects, which need not be valid."""

import re
from dataclasses import dataclass

from lmms_egoplan.benchmarks.egointent.reply.names import KEY, NAME, QUOTE, Values, field_of


@dataclass
class FoundObject:
    """An object of the reply: its values, and the places where it starts and ends."""

    start: int
    end: int
    values: Values


# An object begins with a brace, which may be missing.
_OPENING = re.compile(rf"[{{] | {KEY}", re.VERBOSE | re.ASCII | re.IGNORECASE)


def read_objects(text: str) -> tuple[list[FoundObject], str]:
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
    objects: list[FoundObject] = []
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
    {KEY}
    | (?: (?<=[{{,;\n]) | (?<=[{{,;]\s) ) (?P<bare>{NAME}) \s?:\s?    # a key without quotes
    | (?: (?<=[{{\[,:]) | (?<=[{{\[,:]\s) ) (?P<quote>{QUOTE})        # a string
    | (?P<brace>[{{}}])
    | // [^\n]* | (?<=\s)\# [^\n]* | /\* (?: .*?\*/ | .* )             # a comment
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.DOTALL,
)


def _read_object(text: str, start: int) -> tuple[list[FoundObject], int]:
    """Read the object that starts here, and the objects inside it that contain a field.

    Returns:
        The objects, and the end of the outermost one.
    """
    objects: list[FoundObject] = []
    open_objects: list[FoundObject] = []
    if text[start] != "{":
        open_objects.append(FoundObject(start, len(text), []))
    position = start
    token = _TOKEN.search(text, position)
    while token:
        position = token.end()
        name = token["key"] or token["bare"]
        if name:
            if not open_objects[-1].values:
                objects.append(open_objects[-1])
            value, position = _read_value(text, position)
            open_objects[-1].values.append((field_of(name), value))
        elif token["quote"]:
            _, position = _read_string(text, token.start("quote"))
        elif token["brace"] == "{":
            open_objects.append(FoundObject(token.start("brace"), len(text), []))
        elif token["brace"] == "}":
            open_objects.pop().end = position
            if not open_objects:
                return objects, position
        token = _TOKEN.search(text, position)
    return objects, len(text)


# A key without quotation marks.
_BARE_KEY = r"(?: \w [\w\\ -]{0,40} : )"
_BARE_END = re.compile(
    rf"[\n}}] | \Z | [,;]\s? (?: {QUOTE} | {_BARE_KEY} )",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)


def _read_value(text: str, position: int) -> tuple[str, int]:
    first = text[position : position + 1]
    if first in STRING_ENDS:
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
        if text[position : position + 1] not in STRING_ENDS:
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
STRING_ENDS = {
    first: re.compile(rf"\\.|[\n{last}]", re.DOTALL) for first, last in _END_QUOTES.items()
}
# Text after a mark that ends a string. Any other mark belongs to the text.
_COMMENT = r"(?: // | /\* | (?<=\s)\# )"
_AFTER = re.compile(
    rf"""
    \n
    | \s? (?:
        \Z | [}}\]:] | ``` | {_COMMENT} | {KEY}
        | [,;]\s? (?:
            \Z | [{{}}\[\]\d-] | {QUOTE} | {_COMMENT} | (?: true | false | null )\b | {_BARE_KEY}
        )
    )
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
# The end of a string without an end mark.
_UNENDED = re.compile(rf"\n? {KEY} | \n (?: [}}\]] | ``` )", re.VERBOSE | re.ASCII | re.IGNORECASE)


def _read_string(text: str, start: int) -> tuple[str, int]:
    for stop in STRING_ENDS[text[start]].finditer(text, start + 1):
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
