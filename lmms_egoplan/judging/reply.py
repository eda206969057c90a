"""What an endpoint sends back, read from its body."""

import re
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.jsonl import decode, decode_objects, repeated_keys
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.text import clean_text

# Marks of thinking: tags, Mistral's brackets, Kimi's triangles, Cohere's and Gemma's tokens, and gpt-oss' channels
# before the one that is shown; decoded without special tokens, these are words that run into the text.
_THINKING = re.compile(
    r"^[ \t]*(?:<\s*(?:think(?:ing)?|seed:think)\s*>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?!final))|\A\s*(?-i:analysis(?=[^\Wa-z_]))",
    re.IGNORECASE | re.MULTILINE,
)
_END_OF_THINKING = re.compile(
    r"<\s*/\s*(?:think(?:ing)?|seed:think)\s*>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<channel\|>"
    r"|<\|channel\|>final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"|\A\s*(?-i:analysis(?=[^\Wa-z_])(?s:.*)assistantfinal)",
    re.IGNORECASE,
)
# A judge may put its reasons between such tags behind its rating, so they mark thinking at the beginning alone.
_REASONS = re.compile(r"\s*<\s*(analysis|reasoning|reflection|thoughts?)\s*>", re.IGNORECASE)
# The reasons for which replies end, as OpenAI and others tell them: by the model, at a limit on tokens, or stopped.
_FINISH = {how: frozenset(reasons) for how, reasons in yaml_beside(__file__).items()}
_LONGEST_ERROR = 300
_OUT_OF_CREDIT = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")


@dataclass(frozen=True)
class Reply:
    """One reply of a chat endpoint.

    text: the message's content; None if there is none.
    problem: why there is no text; None if there is.
    model: as the endpoint names it; None where it does not.
    prompt_tokens, completion_tokens: as the endpoint counts them; None where it does not.
    finish: why the reply ends there, as the endpoint says it (``finish_reason``); "" where it does not.
    """

    text: str | None
    problem: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish: str = ""


def read_reply(body: str) -> Reply:
    """Read the body of a chat completion, whatever it holds; nothing in it is taken for granted."""
    try:
        completion = decode_objects(body)
    except ValueError:
        return Reply(None, f"the body is not JSON: {clean_text(body[:80])!r}")
    if keys := repeated_keys(completion):
        return Reply(None, f"its body repeats the keys {clean_text(', '.join(keys))[:80]}")
    choice = _get(_get(completion, "choices"), 0)
    if error := _get(completion, "error") or _get(choice, "error"):
        words = _get(error, "message") or error
        return Reply(None, f"it has an error: {clean_text(str(words))[:_LONGEST_ERROR]}")
    text = _get(_get(choice, "message"), "content")
    if isinstance(text, list):  # of parts; others are a model's thinking
        parts = [_get(part, "text") for part in text if _get(part, "type") in ("text", "output_text")]
        text = "".join(parts) if parts and all(isinstance(part, str) for part in parts) else None
    model, usage, finish = _get(completion, "model"), _get(completion, "usage"), _get(choice, "finish_reason")
    problem = "no choices in it" if choice is None else "no text in it"
    return Reply(
        text=clean_text(text) if isinstance(text, str) else None,
        problem=None if isinstance(text, str) else problem,
        model=clean_text(model) if model and isinstance(model, str) else None,
        prompt_tokens=_count(_get(usage, "prompt_tokens")),
        completion_tokens=_count(_get(usage, "completion_tokens")),
        finish=clean_text(finish) if isinstance(finish, str) else "",
    )


def is_cut(finish: str) -> bool:
    """Return whether a limit on tokens ended the reply, by its finish reason."""
    return _plain(finish) in _FINISH["at_limit"]


def is_ended(finish: str) -> bool | None:
    """Return whether the model ended the reply, by its finish reason; None for an unknown reason.

    True, too, where the endpoint gives no reason.
    """
    reason = _plain(finish)
    if not reason or reason in _FINISH["ended"]:
        return True
    return False if reason in _FINISH["at_limit"] | _FINISH["stopped"] else None


def _plain(finish: str) -> str:
    return finish.strip().lower().replace("-", "_").replace(" ", "_").removeprefix("finish_reason_")


def without_thinking(reply: str) -> str | None:
    """Return a reply without the model's thinking, ``<think>...</think>``; None if the thinking does not end.

    The opening mark may be missing: chat templates that open the thinking leave it out of the reply. It opens nothing
    in the middle of a line, where it is quoted from an answer.
    """
    ends = list(_END_OF_THINKING.finditer(reply))
    verdict = reply[ends[-1].end() :] if ends else reply
    while reasons := _REASONS.match(verdict):
        end = re.search(rf"<\s*/\s*{reasons[1]}\s*>", verdict, re.IGNORECASE)
        if end is None:
            return None
        verdict = verdict[end.end() :]
    return None if _THINKING.search(verdict) else verdict


def is_out_of_credit(body: str) -> bool:
    """Return whether an error's code or type says that the account has no credit, so that waiting is useless.

    What the message says does not count: some endpoints tell of a quota that is for a minute in the same words.
    """
    try:
        error = _get(decode(body), "error")
    except ValueError:
        return False
    return any(_get(error, name) in _OUT_OF_CREDIT for name in ("code", "type"))


def _get(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
