"""Request JSON from language models, to build benchmarks and for judges that reply in JSON.

Punctuation and quotation marks of replies are repaired. Values are never changed.
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
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import quoted

NO_REPLY = "no reply"
WRONG_FORM = "reply of another form than asked for"
CUT_OFF = "reply that was cut off"
NOT_JSON = "reply that is not JSON"
SEVERAL = "reply with different JSON values"
REPEATED_KEY = "reply with a key given more than once"

_PATTERNS = {
    name: re.compile(pattern, re.VERBOSE | re.DOTALL)
    for name, pattern in module_yaml(__file__).items()
}
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_ESCAPES = {'"': '\\"', "\\'": "'"}
# For some longer texts, json-repair takes minutes.
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
    once_more: Callable[[Prompt, str], Prompt] = lambda prompt, _: replace(
        prompt, repeat=prompt.repeat + 1
    ),
) -> tuple[dict[str, Any], list[Rejection]]:
    """Request JSON from a language model, with one repeat after an unusable reply.

    The repeat has its own cache key. Cached replies are read by the same rules as new ones.
    `settings.asking` counts all prompts and those without a usable reply, and records the models
    that replied. With its `retry_rejected`, rejected replies from the cache are requested again.

    Args:
        step: see `Rejection`.
        prompts: see `complete_all`. May be empty.
        settings: the language model.
        title: see `complete_all`.
        kind: see `read_json_reply`.
        schema: JSON schema of the reply, for endpoints that support one.
        read: converts the JSON of a reply, given the prompt's name. Raises ValueError for an
            unexpected format.
        once_more: makes the second prompt from the first one and the problem. By default, the
            prompt is repeated.

    Returns:
        The results of `read` by prompt name, and a `Rejection` for each prompt without a usable
        reply.

    Raises:
        JudgeError: the language model cannot be reached or refuses.
    """
    requests = {
        name: replace(prompt if isinstance(prompt, Prompt) else Prompt(prompt), schema=schema)
        for name, prompt in prompts.items()
    }

    def is_readable(name: str, reply: Judgement) -> bool:
        return not isinstance(_value(step, name, reply, kind, read), Rejection)

    def ask_twice(
        batch: Mapping[str, Prompt], title: str, settings: JudgeSettings
    ) -> dict[str, tuple[Any, bool]]:
        results: dict[str, tuple[Any, bool]] = {}
        for attempt in (title, f"{title}, second attempt"):
            replies = complete_all(
                batch, settings, title=attempt, step=step, is_readable=is_readable
            )
            settings.asking.models |= {
                name: reply.judge for name, reply in replies.items() if reply.reply is not None
            }
            values = {
                name: _value(step, name, reply, kind, read) for name, reply in replies.items()
            }
            results |= {name: (values[name], reply.cached) for name, reply in replies.items()}
            batch = {
                name: once_more(batch[name], f"{value.reason}: {value.detail}")
                for name, value in values.items()
                if isinstance(value, Rejection) and value.reason != NO_REPLY
            }
        return results

    results = ask_twice(requests, title, settings)
    if settings.asking.retry_rejected:
        stale = {
            name: requests[name]
            for name, (value, cached) in results.items()
            if cached and isinstance(value, Rejection)
        }
        results |= ask_twice(
            stale, f"{title}, rejected earlier", replace(settings, ignores_cache=True)
        )
    rejections = [value for value, _ in results.values() if isinstance(value, Rejection)]
    settings.asking.asked += len(results)
    settings.asking.lost += len(rejections)
    return {
        name: value for name, (value, _) in results.items() if not isinstance(value, Rejection)
    }, rejections


def _value(
    step: str, name: str, reply: Judgement, kind: type, read: Callable[[str, Any], Any]
) -> Any:
    """Read a reply; return a `Rejection` for an unusable reply."""
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
    """A reply does not contain exactly one JSON value.

    `reason` is one of the constants of this module.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_json_reply(reply: str, kind: type = dict) -> Any:
    r"""Read the only JSON object or array of a reply, ignoring text and code fences around it.

    Equal values count as one. A single object inside an array is read as the object. Malformed JSON
    is repaired: comments are dropped, quotation marks are converted, and json-repair may change
    commas but nothing else.

    Args:
        reply: the text of the reply.
        kind: ``dict`` for an object, ``list`` for an array.

    Raises:
        UnreadableError: the reply has no such value or several, duplicates a key, or ends too
            early.

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
            inner = (
                [item for item in value if isinstance(item, dict)]
                if isinstance(value, list)
                else []
            )
            for candidate in inner if kind is dict and inner else [value]:
                if isinstance(candidate, kind):
                    values[json.dumps(candidate, sort_keys=True)] = candidate
    except RecursionError as error:
        raise UnreadableError(NOT_JSON, "nested too deeply") from error
    if not values:
        raise UnreadableError(
            NOT_JSON, f"no JSON {'object' if kind is dict else 'array'}: {quoted(text.strip())}"
        )
    if len(values) > 1:
        raise UnreadableError(SEVERAL, "; ".join(map(quoted, values)))
    return values.popitem()[1]


def _read(text: str, start: int) -> tuple[int, Any]:
    """Read the object or array at `start`; return its end and its value."""
    raw_tokens = _tokens(text, start)
    end = raw_tokens[-1].end()
    try:
        tokens = [*map(_as_json, raw_tokens)]
        strict = "".join(tokens)
        try:
            return end, decode_objects(strict)
        except ValueError:
            if len(strict) > _LONGEST_REPAIR:
                raise
        value = json_repair.loads(strict, skip_json_loads=True)
        if _without_commas(map(_as_json, _tokens(json.dumps(value), 0))) != _without_commas(tokens):
            raise ValueError("invalid JSON, even after its commas are repaired")
    except ValueError as error:
        raise UnreadableError(NOT_JSON, f"{error}: {quoted(text[start:end])}") from error
    return end, value


def _tokens(text: str, start: int) -> list[re.Match[str]]:
    """Split the object or array at `start` into tokens, without whitespace and comments."""
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
    raise UnreadableError(CUT_OFF, f"the JSON does not end: {quoted(text[start:])}")


def _as_json(token: re.Match[str]) -> str:
    """Convert a token to strict JSON. Raises ValueError for an invalid token."""
    if token.lastgroup == "mark":
        return token[0]
    if token.lastgroup == "key":
        return f'"{token[0]}"'
    word = _LITERALS.get(token[0], token[0])
    if token.lastgroup == "text":
        inside = _PATTERNS["escape"].sub(lambda match: _ESCAPES.get(match[0], match[0]), word[1:-1])
        word = f'"{inside}"'
    return json.dumps(decode(word, strict=False), ensure_ascii=False, allow_nan=False)


def _without_commas(tokens: Iterable[str]) -> list[str]:
    return [token for token in tokens if token != ","]
