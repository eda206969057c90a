"""Find the one JSON value in a model's text. Punctuation and quotation marks are repaired, values never."""

import json
import math
import re
from typing import Any

import json_repair

from lmms_egoplan.jsonl import decode, decode_objects, repetition
from lmms_egoplan.judging.reply import without_thinking
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.validation import shown

CUT_OFF = "reply that was cut off"
NOT_JSON = "reply that is not JSON"
SEVERAL = "reply with different JSON values"
REPEATED_KEY = "reply with a key given more than once"

_PATTERNS = {name: re.compile(pattern, re.VERBOSE | re.DOTALL) for name, pattern in yaml_beside(__file__).items()}
# json-repair takes seconds for longer texts.
_LONGEST_REPAIR = 100_000
_LITERALS = {"True": "true", "False": "false", "None": "null"}


class UnreadableError(ValueError):
    """A reply without exactly one JSON value. `reason` is one of the constants above."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_json_reply(reply: str, kind: type = dict) -> Any:
    """Read the only JSON object, or array, of a reply; text and code fences around it are ignored.

    Equal values count as one. An array around a single object is read as this object. Where JSON is malformed,
    json-repair may change punctuation, comments and quotation marks, and nothing else.

    Args:
        kind: ``dict`` for an object, ``list`` for an array.

    Raises:
        UnreadableError: the reply has no such value or several, a key occurs twice, or the text ends too early.

    >>> read_json_reply("Sure, {name}! ```json\\n{'place': 'kitchen',}\\n```")
    {'place': 'kitchen'}
    """
    text = without_thinking(reply)
    if text is None:
        raise UnreadableError(CUT_OFF, "the model's thinking does not end")
    values: dict[str, Any] = {}
    position = 0
    try:
        while start := _PATTERNS["start"].search(text, position):
            position, stream, clean = _scan(text, start.start())
            value = _read(text[start.start() : position], stream, clean)
            if problem := repetition(value):
                raise UnreadableError(REPEATED_KEY, problem)
            inner = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
            for found in inner if kind is dict and inner else [value]:
                if isinstance(found, kind):
                    values[json.dumps(found, sort_keys=True)] = found
    except RecursionError as error:
        raise UnreadableError(NOT_JSON, "nested too deeply") from error
    if not values:
        raise UnreadableError(NOT_JSON, f"no JSON {'object' if kind is dict else 'array'}: {shown(text.strip())}")
    if len(values) > 1:
        raise UnreadableError(SEVERAL, "; ".join(map(shown, values)))
    return values.popitem()[1]


def _scan(text: str, start: int) -> tuple[int, list[str], str]:
    """Find the end of the object or array that begins at `start`.

    Returns:
        The end; brackets and scalars in order, texts after a quotation mark and others after ``=``; and what is there
        without comments and with JSON's literals in place of Python's.
    """
    stream: list[str] = []
    clean: list[str] = []
    depth, position = 0, start
    while token := _PATTERNS["token"].match(text, position):
        position = token.end()
        word = _LITERALS.get(token[0], token[0])
        clean.append(" " if token.lastgroup == "gap" else word)
        if token.lastgroup == "quote":
            is_quoting = False
            for end in _PATTERNS[f"end of {token[0]}"].finditer(text, position):
                if end[0][0] == "\\":
                    continue
                if _PATTERNS["after text"].match(text, end.end()):
                    break
                if not is_quoting and not text[end.start() - 1].isspace():
                    raise UnreadableError(
                        NOT_JSON, f"no comma or colon after a text: {shown(text[start : end.end()][-80:])}"
                    )
                is_quoting = not is_quoting
            else:
                break
            stream.append('"' + _PATTERNS["spelling"].sub("", text[position : end.start()]))
            clean.append(text[position : end.end()])
            position = end.end()
        elif token.lastgroup == "bare":
            stream.append(('"' if _PATTERNS["key"].match(text, token.start()) else "=") + word)
        elif token.lastgroup == "mark" and token[0] not in ",:":
            stream.append(token[0])
            depth += 1 if token[0] in "{[" else -1
            if not depth:
                return position, stream, "".join(clean)
    raise UnreadableError(CUT_OFF, f"the JSON does not end: {shown(text[start:])}")


def _read(text: str, stream: list[str], clean: str) -> Any:
    """Decode one object or array; `stream` and `clean` are what `_scan` found in it."""
    try:
        return decode_objects(text, parse_float=_finite, parse_constant=_finite, strict=False)
    except ValueError as error:
        failure = error
    if len(text) > _LONGEST_REPAIR:
        raise UnreadableError(NOT_JSON, f"{failure}: {shown(text)}")
    try:
        for index, item in enumerate(stream):
            if item.startswith("="):
                literal = decode(item[1:], parse_float=_finite, parse_constant=_finite)
                stream[index] = f"={json.dumps(literal)}"
        # Dumped and decoded, since json-repair leaves escaped surrogate pairs in halves.
        value = decode(json.dumps(json_repair.loads(clean, skip_json_loads=True)))
        if _stream(value) == stream:
            return value
    except Exception as error:  # on some texts, json-repair fails in ways that it does not document
        failure = error
    raise UnreadableError(NOT_JSON, f"{failure}: {shown(text)}")


def _stream(value: Any) -> list[str]:
    """A value's brackets and scalars, as `_scan` lists those of a text."""
    if isinstance(value, dict):
        return ["{", *(item for pair in value.items() for part in pair for item in _stream(part)), "}"]
    if isinstance(value, list):
        return ["[", *(item for part in value for item in _stream(part)), "]"]
    dumped = json.dumps(value)
    return [f'"{_PATTERNS["spelling"].sub("", dumped[1:-1])}' if isinstance(value, str) else f"={dumped}"]


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is no JSON number")
    return value
