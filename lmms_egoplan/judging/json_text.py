"""Find the one JSON value in a model's text. Punctuation and quotation marks are repaired, values never."""

import json
import re
from collections.abc import Iterable
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
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_ESCAPES = {'"': '\\"', "\\'": "'"}
# json-repair takes minutes for some longer texts.
_LONGEST_REPAIR = 1_000_000


class UnreadableError(ValueError):
    """A reply without exactly one JSON value. `reason` is one of the constants above."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_json_reply(reply: str, kind: type = dict) -> Any:
    r"""Read the only JSON object, or array, of a reply; text and code fences around it are ignored.

    Equal values count as one. An array around a single object is read as this object. Where JSON is malformed, comments
    are dropped, quotation marks are made those of JSON, and json-repair may change commas, and nothing else.

    Args:
        kind: ``dict`` for an object, ``list`` for an array.

    Raises:
        UnreadableError: the reply has no such value or several, a key occurs twice, or the text ends too early.

    >>> read_json_reply("Sure, {name}! ```json\n{'place': 'kitchen',}\n```")
    {'place': 'kitchen'}
    """
    text = without_thinking(reply)
    if text is None:
        raise UnreadableError(CUT_OFF, "the model's thinking does not end")
    values: dict[str, Any] = {}
    position = 0
    try:
        while start := _PATTERNS["start"].search(text, position):
            position, value = _read(text, start.start())
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


def _read(text: str, start: int) -> tuple[int, Any]:
    """Read the object or array that begins at `start`; also return its end."""
    found = _tokens(text, start)
    end = found[-1].end()
    try:
        tokens = [*map(_as_json, found)]
        strict = "".join(tokens)
        try:
            return end, decode_objects(strict)
        except ValueError:
            if len(strict) > _LONGEST_REPAIR:
                raise
        value = json_repair.loads(strict, skip_json_loads=True)
        if _without_commas(map(_as_json, _tokens(json.dumps(value), 0))) != _without_commas(tokens):
            raise ValueError("no repair of commas makes it JSON")
    except ValueError as error:
        raise UnreadableError(NOT_JSON, f"{error}: {shown(text[start:end])}") from error
    return end, value


def _tokens(text: str, start: int) -> list[re.Match[str]]:
    """Split the object or array that begins at `start`; blanks and comments are no tokens."""
    tokens = []
    depth = 0
    for token in _PATTERNS["token"].finditer(text, start):
        if token.lastgroup == "open":
            break
        if token.lastgroup != "gap":
            tokens.append(token)
            depth += (token[0] in "{[") - (token[0] in "}]")
            if not depth:
                return tokens
    raise UnreadableError(CUT_OFF, f"the JSON does not end: {shown(text[start:])}")


def _as_json(token: re.Match[str]) -> str:
    """Spell a token as `json.dumps` does; raises ValueError if it is none of JSON."""
    if token.lastgroup == "mark":
        return token[0]
    if token.lastgroup == "key":
        return f'"{token[0]}"'
    word = _LITERALS.get(token[0], token[0])
    if token.lastgroup == "text":
        inside = _PATTERNS["escape"].sub(lambda found: _ESCAPES.get(found[0], found[0]), word[1:-1])
        word = f'"{inside}"'
    return json.dumps(decode(word, strict=False), ensure_ascii=False, allow_nan=False)


def _without_commas(tokens: Iterable[str]) -> list[str]:
    return [token for token in tokens if token != ","]
