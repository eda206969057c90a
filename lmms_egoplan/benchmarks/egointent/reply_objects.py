"""The fields in JSON objects as models write them, which often are not quite JSON.

Only the fields' keys and their strings are looked for, so that nothing wrong elsewhere in an object spoils it. The
text is gone through once: time is linear, whatever it holds.
"""

import re

from lmms_egoplan.benchmarks.egointent.reply_labels import FLAGS, NAME, Values, field_of

# A string's first mark, then the marks that may end it.
_QUOTES = {
    '"': '"',
    "'": "'",
    **dict.fromkeys("\u201c\u201d\u201e", '\u201c\u201d"'),
    **dict.fromkeys("\u2018\u2019", "\u2018\u2019'"),
}
_QUOTE = f"[{''.join(_QUOTES)}]"
_COMMENT = r"(?: // | /\* | (?<=\s)\# )"
_KEY = rf"(?: {_QUOTE}[\s\d.*]{{0,4}}(?P<key>{NAME})[\s*]{{0,4}}(?:\([^()\n]{{0,60}}\))?{_QUOTE}\s?:\s? )"
_BARE_KEY = r"(?: \w[\w\\ -]{0,40}: )"
# The brace may be missing.
_OPENING = re.compile(rf"[{{] | {_KEY}", FLAGS)
_TOKEN = re.compile(
    rf"""
    {_KEY}
    | (?: (?<=[{{,\n]) | (?<=[{{,]\s) ) (?P<bare>{NAME})\s?:\s?
    | (?: (?<=[{{\[,:]) | (?<=[{{\[,:]\s) ) (?P<quote>{_QUOTE})
    | (?P<brace>[{{}}])
    | // [^\n]* | (?<=\s)\# [^\n]* | /\* (?: .*?\*/ | .* )
    """,
    FLAGS | re.DOTALL,
)
# What follows a mark that ends a string; any other belongs to the text.
_AFTER = re.compile(
    rf"""
    \n | \s? (?: \Z | [}}\]:] | ``` | {_COMMENT} | {_KEY}
    | ,\s? (?: \Z | [{{}}\[\]\d-] | {_QUOTE} | {_COMMENT} | (?:true|false|null)\b | {_BARE_KEY} ) )
    """,
    FLAGS,
)
# Where a string ends that no mark ends.
_UNENDED = re.compile(rf"\n?{_KEY} | \n(?: [}}\]] | ``` )", FLAGS)
_STOP = {first: re.compile(rf"\\.|[\n{last}]", re.DOTALL) for first, last in _QUOTES.items()}
_BARE_END = re.compile(rf"[\n}}] | \Z | ,\s?(?: {_QUOTE} | {_BARE_KEY} )", FLAGS)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(?:u[0-9a-fA-F]{0,3})?\Z|(.))", re.DOTALL)
_CHARS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", None: ""}


def read_objects(text: str) -> tuple[list[Values], str]:
    """Read the objects that contain a field's key, at any depth, and the text around them.

    An object begins at ``{``, or at a key in quotation marks where that is missing. A key may have any quotation marks,
    or none behind ``{``, a comma or a line's end. A value is a string, which may
    hold unescaped quotation marks; a list of strings, joined by ``; ``; or bare text up to the next key. A string or
    an object that does not end goes as far as the text does, so that a truncated reply's last field is what there is
    of it.

    Args:
        text: with runs of white space as `reply.read_reply` shortens them.

    Returns:
        What each object holds; values that are no text are empty. And the text without the outermost of these objects.
    """
    objects: list[Values] = []
    around: list[str] = []
    position = 0
    while opening := _OPENING.search(text, position):
        inside, end = _read_object(text, opening.start())
        objects += inside
        around.append(text[position : opening.start() if inside else end])
        position = end
    return objects, "\n".join([*around, text[position:]])


def _read_object(text: str, start: int) -> tuple[list[Values], int]:
    """Read the object that begins here and those inside it that contain a field; return where it ends."""
    objects: list[Values] = []
    open_objects: list[Values] = [] if text[start] == "{" else [[]]
    position = start
    while token := _TOKEN.search(text, position):
        position = token.end()
        name = token["key"] or token["bare"]
        if name is not None:
            if not open_objects[-1]:
                objects.append(open_objects[-1])
            value, position = _read_value(text, position)
            open_objects[-1].append((field_of(name), value))
        elif token["quote"] is not None:
            _, position = _read_string(text, token.start("quote"))
        elif token["brace"] == "{":
            open_objects.append([])
        elif token["brace"] == "}":
            open_objects.pop()
            if not open_objects:
                return objects, position
    return objects, len(text)


def _read_value(text: str, position: int) -> tuple[str, int]:
    first = text[position : position + 1]
    if first in _STOP:
        return _read_string(text, position)
    if first == "[":
        return _read_list(text, position + 1)
    if first == "{":  # an object, which is read next
        return "", position
    end = _BARE_END.search(text, position)
    assert end is not None  # it matches the end of the text
    return text[position : end.start()], end.start()


def _read_list(text: str, position: int) -> tuple[str, int]:
    items: list[str] = []
    while True:
        while text[position : position + 1] in (" ", "\n", ","):
            position += 1
        if text[position : position + 1] not in _STOP:
            return "; ".join(items), position
        item, position = _read_string(text, position)
        items.append(item)


def _read_string(text: str, start: int) -> tuple[str, int]:
    for stop in _STOP[text[start]].finditer(text, start + 1):
        if stop[0][0] == "\\":
            continue
        if _UNENDED.match(text, stop.start()):
            return _unescape(text[start + 1 : stop.start()].rstrip(" \n,")), stop.start()
        if stop[0] != "\n" and _AFTER.match(text, stop.end()):
            return _unescape(text[start + 1 : stop.start()]), stop.end()
    return _unescape(text[start + 1 :]), len(text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else _CHARS.get(escape[2], escape[2]), text)
