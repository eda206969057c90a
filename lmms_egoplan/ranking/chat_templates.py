"""Require a chat template, and detect its abilities from what it renders.

The model's name does not matter.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Message = dict[str, Any]
Render = Callable[[Sequence[Message]], str]

NO_TEMPLATE = "none"
NOT_APPLIED = "not applied"
"""Marks of a run without a chat template, as ``chat_template`` in the metadata of its tasks.

NO_TEMPLATE: the model has no chat template. Its family never had one, or it is a base model.
NOT_APPLIED: the model or its family has one.
"""

WITHOUT_TEMPLATE = frozenset(
    {
        "blip",
        "blip-2",
        "chameleon",
        "fuyu",
        "git",
        "idefics",
        "instructblip",
        "instructblipvideo",
        "kosmos-2",
        "kosmos-2.5",
        "paligemma",
    }
)
"""Types (``model_type``) of decoder models that were published without a chat template."""

_SYSTEM = "systemprobe"
_QUESTION = "questionprobe"
_ITEM = "itemprobe"


def may_lack_template(config: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint needs no chat template.

    These are encoder-decoder models and the types in `WITHOUT_TEMPLATE`.

    Args:
        config: The content of its ``config.json``.
    """
    parts = (config, config.get("text_config") or {})
    return config.get("model_type") in WITHOUT_TEMPLATE or any(
        part.get("is_encoder_decoder") for part in parts
    )


def uses_template(config: Mapping[str, Any], processor: Any) -> bool:
    """Return whether a chat template must render the questions.

    It must if there is one, or if models of the family have one.

    The templates of a tokenizer alone do not count for families without one: their text models may
    have been chat models.

    Args:
        config: The content of the checkpoint's ``config.json``.
        processor: Its processor.
    """
    return bool(getattr(processor, "chat_template", None)) or not may_lack_template(config)


def use_template_of_tokenizer(processor: Any) -> None:
    """Let a processor without a chat template use that of its tokenizer.

    Some programs store it there.
    """
    if not getattr(processor, "chat_template", None):
        processor.chat_template = processor.tokenizer.chat_template


def template_problem(name: str | None, render: Render) -> str | None:
    """Return why a chat template cannot render questions with images, and the remedy.

    None if it can.

    Args:
        name: Name of the template in the message; None if there is no template.
        render: The template, which renders messages as text. Unused if there is none.
    """
    remedy = "copy chat_template.jinja from the model that the checkpoint was tuned from"
    if name is None:
        return f"no chat template; {remedy}"
    problem = _image_problem(render)
    return (
        problem and f"the chat template {name} has no placeholder for images: {problem}; {remedy}"
    )


def _image_problem(render: Render) -> str | None:
    """Return what a template does instead of printing an image's placeholder.

    None if it prints one.
    """
    image = {"type": "image", _ITEM: _ITEM}
    text = {"type": "text", "text": _QUESTION}
    try:
        without, with_image = (
            str(render([{"role": "user", "content": content}]))
            for content in ([text], [image, text])
        )
    except Exception as error:
        return f"it fails ({' '.join(str(error).split()) or type(error).__name__})"
    if _ITEM in with_image:
        return "it prints the list of images and texts"
    if _QUESTION not in with_image.casefold():
        return "it omits the text after an image"
    return "it prints nothing for an image" if without == with_image else None


def has_system_turn(render: Render, user: str | None = None) -> bool:
    """Return whether a template supports a system message before a question with an image.

    False if the template raises, drops the message, or renders it like a user's or an assistant's.
    A template that puts the message at the start of the user's turn (Gemma 3) supports it.

    Args:
        render: The template, which renders messages as text.
        user: The question, for templates whose contents are text instead of lists of items.
    """
    question: Any
    content: Any
    if user is None:
        question = [{"type": "image"}, {"type": "text", "text": _QUESTION}]
        content = [{"type": "text", "text": _SYSTEM}]
    else:
        question = user
        content = _SYSTEM

    def render_as(role: str) -> str | None:
        return _rendered(
            render, [{"role": role, "content": content}, {"role": "user", "content": question}]
        )

    system = render_as("system")
    if system is None or system.count(_SYSTEM) != 1:
        return False
    if "'type'" in system:  # the template prints the list of items
        return False
    return system not in (render_as("user"), render_as("assistant"))


def has_video(render: Render) -> bool:
    """Return whether the template renders anything for a video. Contents are lists of items."""
    video = {"type": "video", "video": ""}
    text = {"type": "text", "text": _QUESTION}
    return _distinguishes(render, [video, text], [text])


def keeps_order(render: Render) -> bool:
    """Return whether the template keeps the order of a turn's texts and images.

    Otherwise, it renders all images first.
    """
    image = {"type": "image"}
    mark = {"type": "text", "text": _SYSTEM}
    text = {"type": "text", "text": _QUESTION}
    return _distinguishes(render, [mark, image, text], [image, mark, text])


def _distinguishes(render: Render, *contents: Sequence[dict[str, str]]) -> bool:
    """Return whether the template renders two contents of a user's turn, and differently."""
    first, second = (
        _rendered(render, [{"role": "user", "content": content}]) for content in contents
    )
    return None not in (first, second) and first != second


def _rendered(render: Render, messages: Sequence[Message]) -> str | None:
    """Render messages; return None if the template raises any error."""
    try:
        return str(render(messages))
    except Exception:
        return None
