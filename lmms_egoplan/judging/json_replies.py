"""Request JSON from language models, to build benchmarks and for judges that reply in JSON.

Punctuation and quotation marks of replies are repaired. Values are never changed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import json_repair

from lmms_egoplan.jsonl import decode, decode_objects, repetition
from lmms_egoplan.judging.judge import complete_all
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import is_ended, is_filtered, without_thinking
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import quoted

NO_REPLY = "no reply"
WRONG_FORM = "reply of another form than asked for"
CUT_OFF = "reply that was cut off"
FILTERED = "prompt or reply that was filtered"
NOT_JSON = "reply that is not JSON"
SEVERAL = "reply with different JSON values"
REPEATED_KEY = "reply with a key given more than once"

_LITERALS = {"True": "true", "False": "false", "None": "null"}
_ESCAPES = {'"': '\\"', "\\'": "'"}
_FLAGS = re.VERBOSE | re.DOTALL
# For some longer texts, json-repair takes minutes.
_LONGEST_REPAIR = 1_000_000


Convert = Callable[[str, Any], Any]
"""Convert the JSON of a reply, given the prompt's name. Raises ValueError for a wrong format."""


@dataclass(frozen=True)
class JsonReplies:
    """The replies to some prompts.

    Attributes:
        values: The results of `read`, see `ask_json`, by prompt name.
        rejections: A `Rejection` for each prompt without a usable reply.
        models: The model that replied, by prompt name.
    """

    values: dict[str, Any]
    rejections: list[Rejection]
    models: dict[str, str]


@dataclass(frozen=True)
class _JsonReader:
    """How replies are read.

    Attributes:
        step: See `Rejection`.
        kind: See `read_json_reply`.
        convert: See `ask_json`.
    """

    step: str
    kind: type
    convert: Convert

    def value(self, name: str, reply: Judgement) -> Any:
        """Read a reply; return a `Rejection` for an unusable reply."""
        detail = reply.error or f"finish_reason {reply.finish!r}"
        if is_filtered(reply.finish):
            return Rejection(self.step, FILTERED, name, detail)
        if is_ended(reply.finish) is not True:
            return Rejection(self.step, CUT_OFF, name, detail)
        if reply.error is not None:
            return Rejection(self.step, NO_REPLY, name, reply.error)
        try:
            return self.convert(name, read_json_reply(reply.reply or "", self.kind))
        except UnreadableReplyError as error:
            return Rejection(self.step, error.reason, name, str(error))
        except ValueError as error:
            return Rejection(self.step, WRONG_FORM, name, str(error))

    def is_readable(self, name: str, reply: Judgement) -> bool:
        """Return whether a reply can be used."""
        return not isinstance(self.value(name, reply), Rejection)


@dataclass(frozen=True)
class _JsonReply:
    """The value of a reply, or its `Rejection`, and whether the reply is from the cache."""

    value: Any
    is_cached: bool


def _unchanged(_: str, value: Any) -> Any:
    return value


def _repeated(prompt: Prompt, _: str) -> Prompt:
    return replace(prompt, repeat=prompt.repeat + 1)


def ask_json(
    step: str,
    prompts: Mapping[str, str | Prompt],
    settings: JudgeSettings,
    title: str,
    *,
    kind: type = dict,
    schema: Mapping[str, Any] | None = None,
    read: Convert = _unchanged,
    once_more: Callable[[Prompt, str], Prompt] = _repeated,
) -> JsonReplies:
    """Request JSON from a language model, with one repeat after an unusable reply.

    The repeat has its own cache key. Cached replies are read by the same rules as new ones.
    `settings.usage` counts all prompts and those without a usable reply. With the option
    `retry_rejected`, prompts whose cached replies are rejected are asked anew, again with one
    repeat.

    Args:
        step: name of the construction step, for `Rejection`.
        prompts: see `complete_all`. May be empty.
        settings: the language model.
        title: see `complete_all`.
        kind: the type of a reply's JSON, `dict` or `list`.
        schema: JSON schema of the reply, for endpoints that support one.
        read: converts the JSON of a reply, given the prompt's name. Raises ValueError for an
            unexpected format.
        once_more: makes the second prompt from the first one and the problem. By default, the
            prompt is repeated.

    Raises:
        JudgeError: the language model cannot be reached or refuses.
    """
    requests = {}
    for name, prompt in prompts.items():
        if not isinstance(prompt, Prompt):
            prompt = Prompt(prompt)
        requests[name] = replace(prompt, schema=schema)
    reader = _JsonReader(step, kind, read)
    results, models = _ask_twice(requests, settings, title, reader, once_more)
    if settings.options.retry_rejected:
        rejected_earlier = {}
        for name, result in results.items():
            if result.is_cached and isinstance(result.value, Rejection):
                rejected_earlier[name] = requests[name]
        without_cache = replace(settings, ignores_cache=True)
        new_results, new_models = _ask_twice(
            rejected_earlier, without_cache, f"{title}, rejected earlier", reader, once_more
        )
        results |= new_results
        models |= new_models
    values = {}
    rejections = []
    for name, result in results.items():
        if isinstance(result.value, Rejection):
            rejections.append(result.value)
        else:
            values[name] = result.value
    settings.usage.asked += len(results)
    settings.usage.lost += len(rejections)
    return JsonReplies(values, rejections, models)


def _ask_twice(
    prompts: Mapping[str, Prompt],
    settings: JudgeSettings,
    title: str,
    reader: _JsonReader,
    once_more: Callable[[Prompt, str], Prompt],
) -> tuple[dict[str, _JsonReply], dict[str, str]]:
    """Ask prompts, and once more after a reply that cannot be used.

    Returns the last results and the models that replied, by prompt name.
    """
    results: dict[str, _JsonReply] = {}
    models: dict[str, str] = {}
    for attempt in (title, f"{title}, second attempt"):
        replies = complete_all(
            prompts,
            settings,
            title=attempt,
            step=reader.step,
            is_readable=reader.is_readable,
        )
        unusable: dict[str, Prompt] = {}
        for name, reply in replies.items():
            if reply.reply is not None:
                models[name] = reply.judge
            value = reader.value(name, reply)
            results[name] = _JsonReply(value, reply.cached)
            if isinstance(value, Rejection) and value.reason != NO_REPLY:
                problem = f"{value.reason}: {value.detail}"
                unusable[name] = once_more(prompts[name], problem)
        prompts = unusable
    return results, models


class UnreadableReplyError(ValueError):
    """A reply does not contain exactly one JSON value.

    `reason` is one of the constants of this module.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


# The start of an object, or of an array of strings or objects. "{x}" and "[1]" in prose do not
# match. The length of comments before the first key is limited, because an unlimited search takes
# quadratic time.
_START = re.compile(
    r"""
    \{ (?: \s | //[^\n]{,200}\n | /\*[^*]{,200}\*/ | \#[^\n]{,200}\n )*
        (?: ["'“}] | [A-Za-z_$][\w$-]*\s*: )
    | \[ \s* (?: ["'“\]] | \{ )
    """,
    _FLAGS,
)


def read_json_reply(reply: str, kind: type = dict) -> Any:
    r"""Read the only JSON object or array of a reply, ignoring text and code fences around it.

    Equal values count as one. A single object inside an array is read as the object. Malformed JSON
    is repaired: comments are dropped, quotation marks are converted, and json-repair may change
    commas but nothing else.

    Args:
        reply: the text of the reply.
        kind: ``dict`` for an object, ``list`` for an array.

    Raises:
        UnreadableReplyError: the reply has no such value or several, duplicates a key, or ends too
            early.

    >>> read_json_reply("Sure, {name}! ```json\n{'place': 'kitchen',}\n```")
    {'place': 'kitchen'}
    """
    text = without_thinking(reply)
    if text is None:
        raise UnreadableReplyError(CUT_OFF, "the model's thinking does not end")
    try:
        values = _values(text, kind)
    except RecursionError as error:
        raise UnreadableReplyError(NOT_JSON, "nested too deeply") from error
    if not values:
        name = "object" if kind is dict else "array"
        raise UnreadableReplyError(NOT_JSON, f"no JSON {name}: {quoted(text.strip())}")
    if len(values) > 1:
        raise UnreadableReplyError(SEVERAL, "; ".join(map(quoted, values)))
    return values.popitem()[1]


def _values(text: str, kind: type) -> dict[str, Any]:
    """Return all different values of this kind in a text, by their JSON."""
    values: dict[str, Any] = {}
    start = _START.search(text)
    while start:
        position, value = _read(text, start.start())
        problem = repetition(value)
        if problem:
            raise UnreadableReplyError(REPEATED_KEY, problem)
        for candidate in _candidates(value, kind):
            values[json.dumps(candidate, sort_keys=True)] = candidate
        start = _START.search(text, position)
    return values


def _candidates(value: Any, kind: type) -> list[Any]:
    """Return a value of this kind, or the objects of an array if objects are requested."""
    if kind is dict and isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return [value] if isinstance(value, kind) else []


def _read(text: str, start: int) -> tuple[int, Any]:
    """Read the object or array at `start`; return its end and its value."""
    raw_tokens = _tokens(text, start)
    end = raw_tokens[-1].end()
    try:
        tokens = [_as_json(token) for token in raw_tokens]
        strict = "".join(tokens)
        try:
            return end, decode_objects(strict)
        except ValueError:
            if len(strict) > _LONGEST_REPAIR:
                raise
        value = json_repair.loads(strict, skip_json_loads=True)
        repaired = [_as_json(token) for token in _tokens(json.dumps(value), 0)]
        if _without_commas(repaired) != _without_commas(tokens):
            raise ValueError("invalid JSON, even after its commas are repaired")
    except ValueError as error:
        raise UnreadableReplyError(NOT_JSON, f"{error}: {quoted(text[start:end])}") from error
    return end, value


# What follows a quotation mark that ends a string: a sign of JSON, a comment or the end.
_AFTER_STRING = r"""\s* (?: [,:{}\[\]"'“\#] | // | /\* | \Z )"""
# A string ends at its quotation mark. It may contain a quoted part: the first inner mark follows
# whitespace, and neither inner mark precedes a character that ends a string.
_TOKEN = re.compile(
    rf"""
    (?P<gap> \s+ | //[^\n]* | /\*.*?(?:\*/|\Z) | \#[^\n]* )
    | (?P<mark> [{{}}\[\],:] )
    | (?P<text>
        (?P<quote> ["'] )
        (?:
            \\. | (?! (?P=quote) | \\ ) .
            | (?<=\s) (?P=quote) (?! {_AFTER_STRING} )
              (?: (?! (?P=quote) | \\ ) . )*
              (?P=quote) (?! {_AFTER_STRING} )
        )*
        (?P=quote)
        | “ (?: \\. | [^”"\\] )* [”"]
      )
    | (?P<key> [A-Za-z_$][\w$-]* (?= \s*: ) )
    | (?P<bare>
        (?: (?! // | /\* ) [^\s{{}}\[\],:"'“\#] )
        (?: (?! // | /\* ) [^\s{{}}\[\],:"\#] )*
      )
    | (?P<open> . )  # an unterminated string
    """,
    _FLAGS,
)


def _tokens(text: str, start: int) -> list[re.Match[str]]:
    """Split the object or array at `start` into tokens, without whitespace and comments."""
    tokens = []
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token.lastgroup == "open":
            break
        if token.lastgroup == "gap":
            continue
        tokens.append(token)
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
        if depth == 0:
            return tokens
    raise UnreadableReplyError(CUT_OFF, f"the JSON does not end: {quoted(text[start:])}")


# Escapes and quotation marks inside a string.
_ESCAPE = re.compile(r'\\. | "', _FLAGS)


def _as_json(token: re.Match[str]) -> str:
    """Convert a token to strict JSON. Raises ValueError for an invalid token."""
    if token.lastgroup == "mark":
        return token[0]
    if token.lastgroup == "key":
        return f'"{token[0]}"'
    word = _LITERALS.get(token[0], token[0])
    if token.lastgroup == "text":
        inside = _ESCAPE.sub(lambda match: _ESCAPES.get(match[0], match[0]), word[1:-1])
        word = f'"{inside}"'
    return json.dumps(decode(word, strict=False), ensure_ascii=False, allow_nan=False)


def _without_commas(tokens: Iterable[str]) -> list[str]:
    return [token for token in tokens if token != ","]
