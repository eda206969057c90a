"""What an endpoint sends back, read from its body."""

import json
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.text import clean_text

_THINK, _END_OF_THINKING = "<think>", "</think>"
_OUT_OF_CREDIT = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")


@dataclass(frozen=True)
class Reply:
    """One reply of a chat endpoint.

    text: the message's content; None if there is none.
    problem: why there is no text; None if there is.
    model: as the endpoint names it; None where it does not.
    prompt_tokens, completion_tokens: as the endpoint counts them; None where it does not.
    """

    text: str | None
    problem: str | None = None
    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def read_reply(body: str) -> Reply:
    """Read the body of a chat completion, whatever it holds; nothing in it is taken for granted."""
    try:
        completion = json.loads(body)
    except (ValueError, RecursionError):
        return Reply(None, f"the body is not JSON: {clean_text(body[:80])!r}")
    choice = _get(_get(completion, "choices"), 0)
    text = _get(_get(choice, "message"), "content")
    model, usage = _get(completion, "model"), _get(completion, "usage")
    problem = "no choices in it" if choice is None else "no text in it"
    return Reply(
        text=clean_text(text) if isinstance(text, str) else None,
        problem=None if isinstance(text, str) else problem,
        model=clean_text(model) if model and isinstance(model, str) else None,
        prompt_tokens=_count(_get(usage, "prompt_tokens")),
        completion_tokens=_count(_get(usage, "completion_tokens")),
    )


def without_thinking(reply: str) -> str | None:
    """What a reply says behind the model's thinking, ``<think>...</think>``; None if the thinking does not end.

    The opening mark may be missing: chat templates that open the thinking leave it out of the reply. It opens nothing
    in the middle of a text, where it is quoted from an answer.
    """
    verdict = reply.rpartition(_END_OF_THINKING)[2]
    return None if verdict.lstrip().startswith(_THINK) else verdict


def is_out_of_credit(body: str) -> bool:
    """Whether an error's body says, by its code or type, that the account has no credit, which no waiting mends.

    What the message says does not count: some endpoints tell of a quota that is for a minute in the same words.
    """
    try:
        error = _get(json.loads(body), "error")
    except (ValueError, RecursionError):
        return False
    return any(_get(error, name) in _OUT_OF_CREDIT for name in ("code", "type"))


def _get(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None
