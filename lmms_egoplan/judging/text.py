"""Read replies of endpoints and their ratings, and make answers safe for a judge's prompt."""

import functools
import re
import sys
import unicodedata
from collections.abc import Collection
from dataclasses import replace
from html.entities import html5
from typing import Any

from lmms_egoplan.jsonl import decode, decode_objects, repeated_keys
from lmms_egoplan.judging.judgement import Judgement, RatingScale
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text

# Finish reasons, and characters that look like brackets.
_TABLES = module_yaml(__file__)
# Finish reasons of OpenAI and others: the model, a token limit, a content filter or something else
# ended the reply.
_FINISH = {end: frozenset(reasons) for end, reasons in _TABLES["finish"].items()}
_LONGEST_ERROR = 300
_LONGEST_NAME = 120
_NAME_SIGNS = " -_.:/@+#=,()%~"
# Error of a completion whose message has no text, for example because a limit ended the model's
# thinking.
NO_TEXT = "it has no text"
# Types of the parts of a message that are text.
_TEXT_PARTS = ("text", "output_text")
# Codes of the refusals by a content filter: Azure's, OpenAI's and Alibaba's.
_FILTERS = (
    "content_filter",
    "ResponsibleAIPolicyViolation",
    "content_policy_violation",
    "moderation_blocked",
    "data_inspection_failed",
    "DataInspectionFailed",
)
_OUT_OF_CREDIT = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")

# Characters at the end of a reply that are searched for ratings.
_END = 1000
_NO_WORDS = re.compile(r"[\W_]+\Z")

# Invisible characters outside Unicode's format category: joiners, fillers and variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
_ROUND = str.maketrans(_TABLES["round"])
_BRACKETS = re.compile(r"[\[\]]")


def _lookalikes() -> dict[int, str]:
    """Return the square brackets for the characters that look like them."""
    table = {}
    for brackets, signs in _TABLES["lookalikes"].items():
        for sign in signs:
            table[ord(sign)] = brackets
    return table


_LOOKALIKES = _lookalikes()

# Base of the number in an escape, by the group of the pattern.
_BASES = {
    "decimal": 10,
    "octal": 8,
    "entity": 16,
    "braced": 16,
    "four": 16,
    "eight": 16,
    "two": 16,
    "css": 16,
    "url": 16,
}
# Brackets by their LaTeX names.
_LATEX_BRACKETS = {"lbrack": "[", "llbrack": "[[", "rbrack": "]", "rrbrack": "]]"}
# Nesting depth of escapes. In deeper ones, the characters that start an escape are removed.
_MOST_ROUNDS = 8

_FLAGS = re.IGNORECASE | re.MULTILINE | re.VERBOSE

# Parts of patterns. Whitespace in them is ignored.

# Names in marks of thinking: <think>, <mm:think>, <deepthinking>.
_THINKING_NAME = r"(?:[\w.-]{0,20}[:._-]|[a-z]{0,10}) think(?:ing)?"
# Names of reasons. Some judges put reasons after the rating, so a name of reasons marks thinking
# only at the start of a reply.
_REASONS_NAME = r"""
    (?:[\w.-]{0,20}[:._-])?
    (?:
        analysis | reasoning | reflection | thoughts? | scratchpad | rationale
        | chain[_-]of[_-]thought | cot
    )
"""
# Names in <|begin_of_thought|>, <think_start> and <|END_THINKING|>.
_THOUGHT = r"(?:think(?:ing)? | thoughts? | reasoning | analysis)"
_BEGIN_NAME = rf"""
    (?:
        (?:begin|start)[\ _\u2581-]? (?:of[\ _\u2581-])? {_THOUGHT}
        | {_THOUGHT}[\ _\u2581-](?:begin|start)
    )
"""
_END_NAME = rf"""
    (?:
        end[\ _\u2581-]? (?:of[\ _\u2581-])? {_THOUGHT}
        | {_THOUGHT}[\ _\u2581-]end
    )
"""
_BAR = r"\s{0,9} [|\uff5c]? \s{0,9}"
_ATTRIBUTES = r"""(?:\s{1,9} [\w:-]{1,30} \s?=\s? ["']?[^<>"'\n]{0,60}["']? )?"""


def read_reply(body: str, model: str) -> Judgement:
    """Read the body of a chat completion. Accepts any content.

    Args:
        body: the body of the response.
        model: the requested model; the judge's name if the endpoint reports none.

    Returns:
        Judgement without a rating; with an `error` if the body has no text. `finish` is None if it
        is no completion.
    """
    unread = Judgement(None, None, model)
    try:
        completion = decode_objects(body)
    except ValueError:
        return replace(unread, error=f"its body is not JSON: {clean_text(body[:80])!r}")
    choice = _get(_get(completion, "choices"), 0)
    usage = _get(completion, "usage")
    unread = replace(
        unread,
        prompt_tokens=_count(_get(usage, "prompt_tokens")),
        completion_tokens=_reply_tokens(usage),
        stated_tokens=_count(_get(usage, "completion_tokens")),
    )
    keys = repeated_keys(completion)
    if keys:
        error = f"its body repeats the keys {clean_text(', '.join(keys))[:80]}"
        return replace(unread, error=error, finish=None if choice is None else "")
    stated_error = _get(completion, "error") or _get(choice, "error")
    if stated_error:
        message = str(_get(stated_error, "message") or stated_error)
        return replace(unread, error=f"it has an error: {clean_text(message)[:_LONGEST_ERROR]}")
    return _read_choice(choice, replace(unread, judge=_text(_get(completion, "model")) or model))


def _read_choice(choice: Any, unread: Judgement) -> Judgement:
    """Return the judgement with the text and the finish reason of a completion's first choice."""
    if choice is None:
        return replace(unread, error="it has no choices")
    finish = _get(choice, "finish_reason")
    if not isinstance(finish, str | None):  # nobody knows whether the reply ended
        error = f"its finish_reason is no text: {clean_text(repr(finish))[:80]}"
        return replace(unread, error=error, finish="")
    unread = replace(unread, finish=_text(finish) or "")
    message = _get(choice, "message")
    if not isinstance(message, dict):
        return replace(unread, error="it has no message")
    text = _message_text(message)
    if text is None:
        return replace(unread, error=NO_TEXT)
    return replace(unread, reply=clean_text(text))


def _message_text(message: Any) -> str | None:
    """Return the text of a message; None if it has none."""
    content = _get(message, "content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    # Parts of other types are the model's thinking.
    parts = [_get(part, "text") for part in content if _get(part, "type") in _TEXT_PARTS]
    if parts and all(isinstance(part, str) for part in parts):
        return "".join(parts)
    return None


def judge_name(name: str) -> str:
    r"""Return an endpoint's name of its model, safe to print anywhere.

    That includes terminals, tables, Markdown and HTML. Letters, digits, marks of letters, blanks
    and the signs of model names remain. Everything else becomes ``?``, such as control characters,
    marks of the writing direction, brackets and pipes. A name has at most 120 characters.

    >>> judge_name("org/Judge-7B:free (v1.5)"), judge_name("judge\x1b[31m<b>[red]a|b")
    ('org/Judge-7B:free (v1.5)', 'judge?31m?b?red?a?b')
    """
    characters = (char if _is_safe_in_name(char) else "?" for char in name)
    safe_name = re.sub(r"\?+", "?", "".join(characters))
    return safe_name.strip()[:_LONGEST_NAME] or "?"


def _is_safe_in_name(char: str) -> bool:
    """Return whether a character may stay in the name of a model."""
    return char.isalnum() or char in _NAME_SIGNS or _is_mark(char)


def _is_mark(char: str) -> bool:
    """Return whether a character is a visible part of a letter, such as a vowel sign."""
    return unicodedata.category(char) in ("Mn", "Mc") and not _INVISIBLE.match(char)


def _reply_tokens(usage: Any) -> int | None:
    """Return the tokens of a reply that are paid for; None if not reported.

    They include the tokens of the reply's reasoning.

    OpenAI counts reasoning in ``completion_tokens``. xAI counts it in ``reasoning_tokens`` and
    ``total_tokens`` only, and Gemini's OpenAI-compatible endpoint in ``total_tokens`` only. So
    every token of the total that is not the prompt's counts. Without such a total, more tokens of
    reasoning than of the completion cannot be part of it.
    """
    sent = _count(_get(usage, "prompt_tokens"))
    stated = _count(_get(usage, "completion_tokens"))
    total = _count(_get(usage, "total_tokens"))
    if sent is not None and total is not None and total > sent + (stated or 0):
        return total - sent
    details = _get(usage, "completion_tokens_details")
    reasoning = _count(_get(details, "reasoning_tokens"))
    if not reasoning:
        reasoning = _count(_get(usage, "reasoning_tokens")) or 0
    if stated is not None and reasoning > stated:
        return _count(stated + reasoning)
    return stated


def is_cut(finish: str | None) -> bool:
    """Return whether a token limit ended the reply, according to its finish reason."""
    return _plain(finish) in _FINISH["at_limit"]


def is_filtered(finish: str | None) -> bool:
    """Return whether a content filter stopped the reply, according to its finish reason."""
    return _plain(finish) in _FINISH["filtered"]


def is_ended(finish: str | None) -> bool | None:
    """Return whether the model ended the reply, according to its finish reason.

    An empty or missing reason counts as ended. Returns None for an unknown reason.
    """
    reason = _plain(finish)
    if not reason or reason in _FINISH["ended"]:
        return True
    if reason in _FINISH["at_limit"] | _FINISH["filtered"] | _FINISH["stopped"]:
        return False
    return None


def _plain(finish: str | None) -> str:
    """Return a finish reason in the spelling of the table."""
    words = (finish or "").strip().lower()
    return words.replace("-", "_").replace(" ", "_").removeprefix("finish_reason_")


# Marks of thinking: tags and tokens with the names above, Mistral's brackets, Kimi's triangles,
# Gemma's tokens, and gpt-oss' channels before the final one. Decoded without special tokens, these
# channels are words joined to the text.
_BEGIN_OF_THINKING = re.compile(
    rf"""
    ^[ \t]* (?:
        < {_BAR} (?: {_THINKING_NAME} {_ATTRIBUTES} | {_BEGIN_NAME} ) {_BAR} >
        | \[THINK\]
        | ◁think▷
        | <\|channel>
        | (?:<\|start\|>assistant)?<\|channel\|>(?!final)
    )
    | \A\s*(?-i:analysis(?=[^\Wa-z_]))
    """,
    _FLAGS,
)
_END_OF_THINKING = re.compile(
    rf"""
    < {_BAR} (?: /\s* {_THINKING_NAME} | {_END_NAME} ) {_BAR} >
    | \[/THINK\]
    | ◁/think▷
    | <channel\|>
    | <\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>
    | \A\s*(?-i:analysis(?=[^\Wa-z_])(?s:.*)assistantfinal)
    """,
    _FLAGS,
)
# The tag that opens a model's reasons.
_REASONS = re.compile(rf"\s* < \s* ({_REASONS_NAME}) \s* >", _FLAGS)


def without_thinking(reply: str) -> str | None:
    """Return a reply without the model's thinking; None if the thinking does not end.

    Thinking is enclosed in marks such as ``<think>...</think>``.

    The opening mark may be missing, because some chat templates already contain it. In the middle
    of a line, it counts as a quotation from an answer and opens nothing. A mark is recognized by
    the word in its name, such as ``think`` in ``<mm:think>`` and ``thought`` in
    ``<|begin_of_thought|>``.

    >>> without_thinking("<mm:think>A or B?</mm:think>B")
    'B'
    >>> without_thinking("<|begin_of_thought|>A or B?") is None
    True
    """
    verdict = reply
    for end in _END_OF_THINKING.finditer(reply):
        verdict = reply[end.end() :]
    reasons = _REASONS.match(verdict)
    while reasons:
        end_of_reasons = rf"<\s*/\s*{re.escape(reasons[1])}\s*>"
        end_tag = re.search(end_of_reasons, verdict, re.IGNORECASE)
        if end_tag is None:
            return None
        verdict = verdict[end_tag.end() :]
        reasons = _REASONS.match(verdict)
    if _BEGIN_OF_THINKING.search(verdict):
        return None
    return verdict


# A tag that opens or closes a model's reasons.
_REASONS_TAG = re.compile(rf"< \s* (?P<end>/)? \s* (?P<name>{_REASONS_NAME}) \s* >", _FLAGS)


def without_reasons(text: str) -> str | None:
    """Return a text without the elements that contain a model's reasons; None if one does not end.

    >>> without_reasons("<caption>A cup.</caption> <reasoning>A or B?</reasoning> B")
    '<caption>A cup.</caption>  B'
    >>> without_reasons("B <thought>or") is None
    True
    """
    pieces: list[str] = []
    opened = ""
    position = 0
    for tag in _REASONS_TAG.finditer(text):
        name = tag["name"].lower()
        if not opened and not tag["end"]:
            pieces.append(text[position : tag.start()])
            opened = name
        elif tag["end"] and name == opened:
            position = tag.end()
            opened = ""
    if opened:
        return None
    pieces.append(text[position:])
    return "".join(pieces)


def is_out_of_credit(body: str) -> bool:
    """Return whether an error's code or type means that the account has no credit.

    Then waiting is useless.

    The message is ignored, because some endpoints use the same words for a quota per minute.
    """
    return _has_code(body, _OUT_OF_CREDIT)


def is_filter_refusal(body: str) -> bool:
    """Return whether an error's code or type means that a content filter refuses the prompt."""
    return _has_code(body, _FILTERS)


def _has_code(body: str, codes: Collection[str]) -> bool:
    """Return whether the code or type of the error in a body is one of these."""
    try:
        error = _get(decode(body), "error")
    except ValueError:
        return False
    return any(_get(error, name) in codes for name in ("code", "type"))


def _get(value: Any, key: str | int) -> Any:
    """Return a value of an object or a list; None if it is missing, or `value` is neither."""
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return None


def _text(value: Any) -> str | None:
    """Return a clean text; None for other values."""
    if isinstance(value, str):
        return clean_text(value)
    return None


def _count(value: Any) -> int | None:
    """Return a count that fits into the database; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**63 else None


def read_rating(scale: RatingScale, reply: str | None, finish: str | None) -> float | None:
    """Read the rating in a complete reply, ignoring the model's thinking.

    Args:
        scale: reads the rating.
        reply: the raw text of the reply, or None.
        finish: the endpoint's finish reason, "" if it reports none. If the reason is unknown or was
            not stored (None), a rating counts only at the very end of the reply.
    """
    verdict = _verdict(reply, finish)
    if verdict is None:
        return None
    rating = scale.read(verdict)
    if rating is None or (finish is not None and is_ended(finish)):
        return rating
    return rating if _ends_with_rating(scale, verdict) else None


def is_unclear(scale: RatingScale, reply: str | None, finish: str | None) -> bool:
    """Return whether a complete reply has no clear rating."""
    verdict = _verdict(reply, finish)
    return verdict is not None and scale.read(verdict) is None


def _verdict(reply: str | None, finish: str | None) -> str | None:
    """Return the reply after the model's thinking; None if either of them did not end."""
    if reply is None:
        return None
    if finish is not None and is_ended(finish) is False:
        return None
    return without_thinking(reply)


def _ends_with_rating(scale: RatingScale, verdict: str) -> bool:
    """Return whether no word follows the last rating."""
    end = verdict[-_END:]
    without_signs = _NO_WORDS.sub("", end)
    for start in range(len(end) - 1, -1, -1):
        if scale.read(end[start:]) is not None:
            return scale.read(without_signs[start:]) is None
    return False


# Tags of a model's thinking and marks of chat templates.
_MARKS = re.compile(
    rf"""
    [<〈⟨\u2039❬❰◁] {_BAR} (?:/\s*)?
    (?: {_THINKING_NAME} {_ATTRIBUTES} | analysis | {_BEGIN_NAME} | {_END_NAME} )
    {_BAR} [>〉⟩\u203a❭❱▷]

    | <\|
    | \|>
    """,
    _FLAGS,
)
_SUSPECT = re.compile(
    r"""
    # the brackets of a rating
    \[ \s* \[ | \] \s* \]

    # a number in brackets
    | \[ [\s.,/%+-]* \d [\s\d.,/%+-]* \]

    # a lone bracket at an end, next to a number
    | \A \s* \[ [\s.,/%+-]* \d [^\[\]]* \Z
    | \A [^\[\]]* \d [.%]? \s* \] \s* \Z

    # a delimiter of a prompt
    | \[ [^\[\]]* (?:
        answer | reference | instruction | question | start | \bend(?:s|ing)?\b
    )

    # a chat template's mark
    | \[ \s* (?: /\s* )? inst\b
    """,
    _FLAGS,
)


def sanitize(answer: str) -> tuple[str, bool]:
    r"""Make an answer safe for a judge's prompt, and return whether it is suspect.

    The checks run on an NFKC-normalised copy. Invisible characters are removed from it, and escapes
    (``&#91;``, ``&lbrack;``, ``\u005b``, ``\x5b``, ``%5B``) are decoded. An answer is suspect if
    the copy has one of these:

    - double square brackets;
    - a number in square brackets;
    - a square bracket before the words of a prompt's delimiters;
    - a tag of a model's thinking (``</think>``, ``<analysis>``);
    - a mark of a chat template (``<|``, ``|>``, ``[INST]``).

    Characters that look like square brackets (``⟦1⟧``, ``【【1】】``) count as such if that makes
    the answer suspect.

    Returns:
        The text to show, and whether the answer is suspect. The text is the answer itself. If it is
        suspect or has any square bracket, the text is the copy with all these brackets replaced by
        round ones.
    """
    copy, is_nested = _unescaped(answer)
    bracketed = with_square_brackets(copy)
    is_marked = _MARKS.search(copy) is not None
    is_suspect = is_nested or is_marked or _SUSPECT.search(bracketed) is not None
    if not is_suspect and _BRACKETS.search(copy) is None:
        return answer, False
    unmarked = without_marks(bracketed)
    return _BRACKETS.sub(_as_round, unmarked), is_suspect


def _as_round(brackets: re.Match[str]) -> str:
    """Return brackets of other forms as round ones."""
    return brackets[0].translate(_ROUND)


def with_square_brackets(text: str) -> str:
    """Replace characters that look like square brackets, and doubled corner brackets.

    >>> with_square_brackets("⟦1⟧ 「「1」」")
    '[[1]] [[1]]'
    """
    plain = text.translate(_LOOKALIKES)
    for corners, brackets in _TABLES["doubled_corners"].items():
        plain = plain.replace(corners, brackets)
    return plain


def without_marks(text: str) -> str:
    """Replace the brackets of thinking tags and chat-template marks by round ones.

    Nothing else changes.

    >>> without_marks("walk_to[table] <|im_end|>")
    'walk_to[table] (|im_end|)'
    """
    while _MARKS.search(text):  # the rest of one may be part of the next: "<|>"
        text = _MARKS.sub(_as_round, text)
    return text


# An escaped character of HTML, JSON, Python, LaTeX or a URL. The first character of the escape may
# itself be escaped.
_ESCAPE = re.compile(
    r"""
    # HTML
    & (?: amp; | \#0*38; | \#x0*26; )* (?:
        \#0* (?P<decimal>\d{1,9}) ;?
        | \#x0* (?P<entity>[0-9a-f]{1,8}) ;?
        | (?P<named>[a-z]{2,31};)
        | (?P<unended>[lr](?:brack|sqb))
    )

    # JSON, Python, CSS and LaTeX
    | (?<!\\)\\+ (?:
        (?:u|x)\{ (?P<braced>[0-9a-f]{1,8}) \}
        | (?-i:U) (?P<eight>[0-9a-f]{8})
        | u (?P<four>[0-9a-f]{4})
        | x (?P<two>[0-9a-f]{2})
        | (?P<octal>13[35])
        | 0*(?P<css>5[bd])(?![0-9a-z])
        | N\{ (?P<name>[a-z][a-z0-9 -]{1,80}) \}
        | (?P<latex>l?lbrack(?:et)? | r?rbrack(?:et)?)(?![a-z])
    )

    # a URL
    | % (?:25)* (?P<url>5[bd]|3[ce]|7c)
    """,
    _FLAGS,
)


def _unescaped(text: str) -> tuple[str, bool]:
    """Return the normalised copy, and whether its escapes are nested too deeply to decode."""
    copy = normalised(text)
    for _ in range(_MOST_ROUNDS):
        unescaped = _ESCAPE.sub(_character, copy)
        if unescaped == copy:
            return copy, False
        copy = normalised(unescaped)
    return re.sub(r"[&\\%]", " ", copy), True


def _character(escape: re.Match[str]) -> str:
    """Return the character of an escape, or the escape itself if it has none."""
    if escape["unended"] or escape["latex"]:
        return _named_bracket(escape)
    if escape["named"]:
        return html5.get(escape["named"], html5.get(escape["named"].lower(), escape[0]))
    if escape["name"]:
        try:
            return unicodedata.lookup(escape["name"])
        except KeyError:
            return escape[0]
    code = _code_point(escape)
    is_surrogate = 0xD800 <= code < 0xE000
    if code == 0 or code > sys.maxunicode or is_surrogate:
        return escape[0]
    return chr(code)


def _named_bracket(escape: re.Match[str]) -> str:
    """Return the brackets that HTML without a semicolon or LaTeX names."""
    if escape["latex"]:
        return _LATEX_BRACKETS[escape["latex"].lower().removesuffix("et")]
    return "[" if escape["unended"][0].lower() == "l" else "]"


def _code_point(escape: re.Match[str]) -> int:
    """Return the number in an escape."""
    for group, base in _BASES.items():
        if escape[group]:
            return int(escape[group], base)
    raise AssertionError(f"an escape without a number: {escape[0]!r}")


def normalised(text: str) -> str:
    """Return a text in Unicode's form NFKC, without invisible characters."""
    return _visible(unicodedata.normalize("NFKC", _visible(text)))


def _visible(text: str) -> str:
    """Return a text without invisible characters."""
    return "".join(filter(_is_visible, text))


@functools.cache
def _is_visible(char: str) -> bool:
    """Return whether a character is shown. Whitespace counts as shown."""
    if char.isspace():
        return True
    is_control = unicodedata.category(char) in ("Cc", "Cf")
    return not (is_control or _INVISIBLE.match(char))
