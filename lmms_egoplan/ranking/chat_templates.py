"""Detect the abilities of a chat template from what it renders, not from the model's name."""

from collections.abc import Callable, Sequence
from typing import Any

Message = dict[str, Any]
Render = Callable[[Sequence[Message]], str]

_SYSTEM, _QUESTION = "systemprobe", "questionprobe"


def has_system_turn(render: Render, user: str | None = None) -> bool:
    """Return whether a template supports a system message before a question with an image.

    False if the template raises, drops the message, or renders it like a user's or an assistant's. A template that
    puts the message at the start of the user's turn (Gemma 3) supports it.

    Args:
        render: The template, which renders messages as text.
        user: The question, for templates whose contents are text instead of lists of items.
    """
    question = user if user is not None else [{"type": "image"}, {"type": "text", "text": _QUESTION}]
    content = _SYSTEM if user is not None else [{"type": "text", "text": _SYSTEM}]

    def rendered(role: str) -> str | None:
        return _rendered(render, [{"role": role, "content": content}, {"role": "user", "content": question}])

    system = rendered("system")
    if system is None or system.count(_SYSTEM) != 1 or "'type'" in system:  # the template prints the list of items
        return False
    return system not in (rendered("user"), rendered("assistant"))


def has_video(render: Render) -> bool:
    """Return whether the template renders anything for a video. Contents are lists of items."""
    video, text = {"type": "video", "video": ""}, {"type": "text", "text": _QUESTION}
    return _distinguishes(render, [video, text], [text])


def keeps_order(render: Render) -> bool:
    """Return whether the template renders texts and images of a turn in their order, not all images first."""
    image, mark, text = {"type": "image"}, {"type": "text", "text": _SYSTEM}, {"type": "text", "text": _QUESTION}
    return _distinguishes(render, [mark, image, text], [image, mark, text])


def _distinguishes(render: Render, *contents: Sequence[dict[str, str]]) -> bool:
    """Return whether the template renders two contents of a user's turn, and differently."""
    first, second = (_rendered(render, [{"role": "user", "content": content}]) for content in contents)
    return None not in (first, second) and first != second


def _rendered(render: Render, messages: Sequence[Message]) -> str | None:
    """Render messages; return None if the template raises any error."""
    try:
        return str(render(messages))
    except Exception:
        return None
