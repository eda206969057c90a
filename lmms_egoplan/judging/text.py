"""Read replies of endpoints and their ratings, and make answers safe for a judge's prompt."""

import functools
import re
import unicodedata
from dataclasses import replace
from html.entities import html5
from typing import Any

from lmms_egoplan.jsonl import decode, decode_objects, repeated_keys
from lmms_egoplan.judging.judgement import Judgement, RatingScale
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text, compile_patterns

_TABLES = module_yaml(__file__)
# Finish reasons of OpenAI and others: ended by the model, cut at a token limit, or stopped.
_FINISH = {how: frozenset(reasons) for how, reasons in _TABLES["finish"].items()}
_RE = compile_patterns(_TABLES["patterns"], re.IGNORECASE | re.MULTILINE | re.VERBOSE)
_LONGEST_ERROR = 300
_LONGEST_NAME = 120
_NAME_SIGNS = " -_.:/@+#=,()%~"
# Error of a completion whose message has no text, for example because a limit ended the model's
# thinking.
NO_TEXT = "it has no text"
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

_LOOKALIKES = str.maketrans(
    {sign: brackets for brackets, signs in _TABLES["lookalikes"].items() for sign in signs}
)

_BASES = {
    "decimal": 10,
    "octal": 8,
    **dict.fromkeys(("entity", "braced", "four", "eight", "two", "css", "url"), 16),
}
# Nesting depth of escapes. In deeper ones, the characters that start an escape are removed.
_MOST_ROUNDS = 8


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
    choice, usage = _get(_get(completion, "choices"), 0), _get(completion, "usage")
    unread = replace(
        unread,
        prompt_tokens=_count(_get(usage, "prompt_tokens")),
        completion_tokens=_reply_tokens(usage),
        stated_tokens=_count(_get(usage, "completion_tokens")),
    )
    if keys := repeated_keys(completion):
        error = f"its body repeats the keys {clean_text(', '.join(keys))[:80]}"
        return replace(unread, error=error, finish=None if choice is None else "")
    if error := _get(completion, "error") or _get(choice, "error"):
        words = _get(error, "message") or error
        return replace(unread, error=f"it has an error: {clean_text(str(words))[:_LONGEST_ERROR]}")
    text = _get(_get(choice, "message"), "content")
    if isinstance(text, list):  # parts of other types are the model's thinking
        parts = [
            _get(part, "text") for part in text if _get(part, "type") in ("text", "output_text")
        ]
        text = "".join(parts) if parts and all(isinstance(part, str) for part in parts) else None
    problem = "it has no choices" if choice is None else NO_TEXT
    if choice is not None and not isinstance(_get(choice, "message"), dict):
        problem = "it has no message"
    finish = _get(choice, "finish_reason")
    if not isinstance(finish, str | None):  # nobody knows whether the reply ended
        problem, text = f"its finish_reason is no text: {clean_text(repr(finish))[:80]}", None
    return replace(
        unread,
        reply=_text(text),
        error=None if isinstance(text, str) else problem,
        judge=_text(_get(completion, "model")) or model,
        finish=None if choice is None else _text(finish) or "",
    )


def judge_name(name: str) -> str:
    r"""Return an endpoint's name of its model, safe to print in a terminal, a table, Markdown or
    HTML.

    Letters, digits, marks of letters, blanks and the signs of model names remain. Everything else
    becomes ``?``, such as control characters, marks of the writing direction, brackets and pipes. A
    name has at most 120 characters.

    >>> judge_name("org/Judge-7B:free (v1.5)"), judge_name("judge\x1b[31m<b>[red]a|b")
    ('org/Judge-7B:free (v1.5)', 'judge?31m?b?red?a?b')
    """
    characters = (
        char if char.isalnum() or char in _NAME_SIGNS or _is_mark(char) else "?" for char in name
    )
    return re.sub(r"\?+", "?", "".join(characters)).strip()[:_LONGEST_NAME] or "?"


def _is_mark(char: str) -> bool:
    """Return whether a character is a visible part of a letter, such as a vowel sign."""
    return unicodedata.category(char) in ("Mn", "Mc") and not _INVISIBLE.match(char)


def _reply_tokens(usage: Any) -> int | None:
    """Return the tokens of a reply that are paid for, with those of its reasoning; None if not
    reported.

    OpenAI counts reasoning in ``completion_tokens``. xAI counts it in ``reasoning_tokens`` and
    ``total_tokens`` only, and Gemini's OpenAI-compatible endpoint in ``total_tokens`` only. So
    every token of the total that is not the prompt's counts. Without such a total, more tokens of
    reasoning than of the completion cannot be part of it.
    """
    sent, stated, total = (
        _count(_get(usage, f"{name}_tokens")) for name in ("prompt", "completion", "total")
    )
    if sent is not None and total is not None and total > sent + (stated or 0):
        return total - sent
    details = _get(usage, "completion_tokens_details")
    reasoning = (
        _count(_get(details, "reasoning_tokens")) or _count(_get(usage, "reasoning_tokens")) or 0
    )
    return _count(stated + reasoning) if stated is not None and reasoning > stated else stated


def is_cut(finish: str | None) -> bool:
    """Return whether a token limit ended the reply, according to its finish reason."""
    return _plain(finish) in _FINISH["at_limit"]


def is_ended(finish: str | None) -> bool | None:
    """Return whether the model ended the reply, according to its finish reason.

    An empty or missing reason counts as ended. Returns None for an unknown reason.
    """
    reason = _plain(finish)
    if not reason or reason in _FINISH["ended"]:
        return True
    return False if reason in _FINISH["at_limit"] | _FINISH["stopped"] else None


def _plain(finish: str | None) -> str:
    return (
        (finish or "")
        .strip()
        .lower()
        .replace("-", "_")
        .replace(" ", "_")
        .removeprefix("finish_reason_")
    )


def without_thinking(reply: str) -> str | None:
    """Return a reply without the model's thinking, ``<think>...</think>``; None if the thinking
    does not end.

    The opening mark may be missing, because some chat templates already contain it. In the middle
    of a line, it counts as a quotation from an answer and opens nothing. A mark is recognized by
    the word in its name, such as ``think`` in ``<mm:think>`` and ``thought`` in
    ``<|begin_of_thought|>``.

    >>> without_thinking("<mm:think>A or B?</mm:think>B"), without_thinking("<|begin_of_thought|>A or B?")
    ('B', None)
    """
    ends = list(_RE.end_of_thinking.finditer(reply))
    verdict = reply[ends[-1].end() :] if ends else reply
    while reasons := _RE.reasons.match(verdict):
        end = re.search(rf"<\s*/\s*{re.escape(reasons[1])}\s*>", verdict, re.IGNORECASE)
        if end is None:
            return None
        verdict = verdict[end.end() :]
    return None if _RE.thinking.search(verdict) else verdict


def without_reasons(text: str) -> str | None:
    """Return a text without the elements that contain a model's reasons; None if one does not end.

    >>> without_reasons("<caption>A cup.</caption> <reasoning>A or B?</reasoning> B"), without_reasons("B <thought>or")
    ('<caption>A cup.</caption>  B', None)
    """
    pieces: list[str] = []
    opened = ""
    position = 0
    for tag in _RE.reasons_tag.finditer(text):
        name = tag["name"].lower()
        if not opened and not tag["end"]:
            pieces.append(text[position : tag.start()])
            opened = name
        elif tag["end"] and name == opened:
            position = tag.end()
            opened = ""
    return None if opened else "".join([*pieces, text[position:]])


def is_out_of_credit(body: str) -> bool:
    """Return whether an error's code or type means that the account has no credit.

    Then waiting is useless.

    The message is ignored, because some endpoints use the same words for a quota per minute.
    """
    try:
        error = _get(decode(body), "error")
    except ValueError:
        return False
    return any(_get(error, name) in _OUT_OF_CREDIT for name in ("code", "type"))


def _get(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    return (
        value[key]
        if isinstance(value, list) and isinstance(key, int) and key < len(value)
        else None
    )


def _text(value: Any) -> str | None:
    return clean_text(value) if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        else None
    )


def read_rating(scale: RatingScale, reply: str | None, finish: str | None) -> float | None:
    """Read the rating in a complete reply, ignoring the model's thinking.

    Args:
        scale: reads the rating.
        reply: the raw text of the reply, or None.
        finish: the endpoint's finish reason, "" if it reports none. If the reason is unknown or was
            not stored (None), a rating counts only at the very end of the reply.
    """
    verdict = _verdict(reply, finish)
    rating = None if verdict is None else scale.read(verdict)
    if rating is None or (finish is not None and is_ended(finish)):
        return rating
    return rating if _ends_with_rating(scale, verdict or "") else None


def is_unclear(scale: RatingScale, reply: str | None, finish: str | None) -> bool:
    """Return whether a complete reply has no clear rating."""
    verdict = _verdict(reply, finish)
    return verdict is not None and scale.read(verdict) is None


def _verdict(reply: str | None, finish: str | None) -> str | None:
    """Return the reply after the model's thinking; None if the reply or the thinking did not end."""
    return (
        None
        if reply is None or (finish is not None and is_ended(finish) is False)
        else without_thinking(reply)
    )


def _ends_with_rating(scale: RatingScale, verdict: str) -> bool:
    """Return whether no word follows the last rating."""
    end = verdict[-_END:]
    without_signs = _NO_WORDS.sub("", end)
    for start in range(len(end) - 1, -1, -1):
        if scale.read(end[start:]) is not None:
            return scale.read(without_signs[start:]) is None
    return False


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

    Characters that look like square brackets (``⟦1⟧``, ``【【1】】``) count as such if that makes the
    answer suspect.

    Returns:
        The text to show, and whether the answer is suspect. The text is the answer itself. If it is
        suspect or has any square bracket, the text is the copy with all these brackets replaced by
        round ones.
    """
    copy, is_nested = _unescaped(answer)
    marked = _RE.marks.search(copy) is not None
    bracketed = with_square_brackets(copy)
    suspect = is_nested or marked or _RE.suspect.search(bracketed) is not None
    if not suspect and _BRACKETS.search(copy) is None:
        return answer, False
    return _BRACKETS.sub(
        lambda bracket: bracket[0].translate(_ROUND), without_marks(bracketed)
    ), suspect


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
    """Replace the brackets of thinking tags and chat-template marks by round ones; change nothing
    else.

    >>> without_marks("walk_to[table] <|im_end|>")
    'walk_to[table] (|im_end|)'
    """
    while _RE.marks.search(text):  # the rest of one may be part of the next: "<|>"
        text = _RE.marks.sub(lambda mark: mark[0].translate(_ROUND), text)
    return text


def _unescaped(text: str) -> tuple[str, bool]:
    """Return the normalised copy, and whether its escapes are nested too deeply to decode."""
    copy = normalised(text)
    for _ in range(_MOST_ROUNDS):
        unescaped = _RE.escape.sub(_character, copy)
        if unescaped == copy:
            return copy, False
        copy = normalised(unescaped)
    return re.sub(r"[&\\%]", " ", copy), True


def _character(escape: re.Match[str]) -> str:
    """Return the character of an escape, or the escape itself if it has none."""
    if escape["named"]:
        return html5.get(escape["named"], html5.get(escape["named"].lower(), escape[0]))
    if escape["unended"] or escape["latex"]:
        latex = escape["latex"] or ""
        sign = "[" if (escape["unended"] or latex)[0].lower() == "l" else "]"
        return sign * (2 if latex.lower().startswith(("ll", "rr")) else 1)
    if escape["name"]:
        try:
            return unicodedata.lookup(escape["name"])
        except KeyError:
            return escape[0]
    numbers = ((escape[group], base) for group, base in _BASES.items())
    code = next(int(digits, base) for digits, base in numbers if digits)
    return escape[0] if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def normalised(text: str) -> str:
    """Return a text in Unicode's form NFKC, without invisible characters."""
    return _visible(unicodedata.normalize("NFKC", _visible(text)))


def _visible(text: str) -> str:
    return "".join(filter(_is_visible, text))


@functools.cache
def _is_visible(char: str) -> bool:
    return char.isspace() or not (
        unicodedata.category(char) in ("Cc", "Cf") or _INVISIBLE.match(char)
    )
