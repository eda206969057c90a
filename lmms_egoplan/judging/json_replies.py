"""Ask language models for JSON: for what benchmarks are made of, and for judges that answer in JSON.

Punctuation and quotation marks of a reply are repaired, values never.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import json_repair

from lmms_egoplan.jsonl import decode, decode_objects, repetition
from lmms_egoplan.judging.judge import complete_all
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import is_ended, without_thinking
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import shown

NO_REPLY = "no reply"
WRONG_FORM = "reply of another form than asked for"
CUT_OFF = "reply that was cut off"
NOT_JSON = "reply that is not JSON"
SEVERAL = "reply with different JSON values"
REPEATED_KEY = "reply with a key given more than once"

_PATTERNS = {name: re.compile(pattern, re.VERBOSE | re.DOTALL) for name, pattern in yaml_beside(__file__).items()}
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_ESCAPES = {'"': '\\"', "\\'": "'"}
# json-repair takes minutes for some longer texts.
_LONGEST_REPAIR = 1_000_000


def ask_json(
    step: str,
    prompts: Mapping[str, str | Prompt],
    settings: JudgeSettings,
    title: str,
    *,
    kind: type = dict,
    schema: Mapping[str, Any] | None = None,
    read: Callable[[str, Any], Any] = lambda _, value: value,
    once_more: Callable[[Prompt, str], Prompt] = lambda prompt, _: replace(prompt, repeat=prompt.repeat + 1),
) -> tuple[dict[str, Any], list[Rejection]]:
    """Ask a language model for JSON, and once more where the reply cannot be used.

    The second request has a cache key of its own.
    Replies in the cache are read by the same rules as new ones. `settings.asking` counts the prompts and those without
    a usable reply, and names the models that answered. Its `retry_rejected` requests rejected replies again that were
    in the cache.

    Args:
        step: see `Rejection`.
        prompts, title: see `complete_all`; without prompts, nothing is asked.
        kind: see `read_json_reply`.
        schema: JSON schema of the reply, for endpoints that support one.
        read: Convert a reply's JSON, given the prompt's name; raises ValueError if it has another form.
        once_more: Make the second prompt from the first one and the problem; by default, the prompt is repeated.

    Returns:
        By the prompts' names, what `read` returned; and a `Rejection` for each prompt without a usable reply.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    whole = {
        name: replace(prompt if isinstance(prompt, Prompt) else Prompt(prompt), schema=schema)
        for name, prompt in prompts.items()
    }

    def ask_twice(some: Mapping[str, Prompt], title: str, settings: JudgeSettings) -> dict[str, tuple[Any, bool]]:
        found: dict[str, tuple[Any, bool]] = {}
        for words in (title, f"{title}, once more"):
            replies = complete_all(some, settings, title=words)
            settings.asking.models |= {name: reply.judge for name, reply in replies.items() if reply.reply is not None}
            new = {name: _value(step, name, reply, kind, read) for name, reply in replies.items()}
            found |= {name: (new[name], reply.cached) for name, reply in replies.items()}
            some = {
                name: once_more(some[name], f"{value.reason}: {value.detail}")
                for name, value in new.items()
                if isinstance(value, Rejection) and value.reason != NO_REPLY
            }
        return found

    found = ask_twice(whole, title, settings)
    if settings.asking.retry_rejected:
        stale = {
            name: whole[name] for name, (value, cached) in found.items() if cached and isinstance(value, Rejection)
        }
        found |= ask_twice(stale, f"{title}, rejected before", replace(settings, is_afresh=True))
    rejections = [value for value, _ in found.values() if isinstance(value, Rejection)]
    settings.asking.asked += len(found)
    settings.asking.lost += len(rejections)
    return {name: value for name, (value, _) in found.items() if not isinstance(value, Rejection)}, rejections


def _value(step: str, name: str, reply: Judgement, kind: type, read: Callable[[str, Any], Any]) -> Any:
    """Read a reply, or say why it cannot be used."""
    if is_ended(reply.finish) is not True:
        return Rejection(step, CUT_OFF, name, reply.error or f"finish_reason {reply.finish!r}")
    if reply.error is not None:
        return Rejection(step, NO_REPLY, name, reply.error)
    try:
        return read(name, read_json_reply(reply.reply or "", kind))
    except ValueError as error:
        reason = error.reason if isinstance(error, UnreadableError) else WRONG_FORM
        return Rejection(step, reason, name, str(error))


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
