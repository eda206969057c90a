r"""Define the inference prompts of each model family (appendix C, Tables 5 and 6), and those of
PhysBrain.

A printed ``\n`` is a newline here; the spaces around it are unchanged. The tables have several
placeholders for the question (``{question}``, ``{prompt}``, ``{}``, ``{instruction}``,
``instruction``, ``question``). Here, all of them are ``{question}``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lmms_egoplan.paths import module_yaml

_QUESTION = "{question}"
_IMAGE = "<image>"


class PromptFamily(NamedTuple):
    """One row of Tables 5 and 6.

    Attributes:
        name: Name of the family in the tables.
        backends: lmms-eval's names for the family's backends; ``default`` for all models without a
            family. Empty for prompts of others, which are selected by the family's name.
        general: Prompt of Table 5, for all dimensions except planning.
        planning: Prompt of Table 6, for planning.
        is_system: True if the prompts are system prompts. The user's turn is then only the
            question.
        model_types: ``model_type`` of the family's checkpoints in transformers; empty if
            transformers has none.
    """

    name: str
    backends: Sequence[str]
    general: str
    planning: str
    is_system: bool = False
    model_types: Sequence[str] = ()


FAMILIES = tuple(PromptFamily(**row) for row in module_yaml(__file__))

# Key of a block that contains a block for each model type instead of prompts.
_BY_MODEL_TYPE = "by_model_type"
_DEFAULT = "default"


def model_blocks(*, planning: bool) -> dict[str, dict[str, str]]:
    """Return lmms-eval's ``lmms_eval_specific_kwargs``: a block for each backend with a family, and
    ``default``.

    A family without backends has a block under its own name.

    Args:
        planning: Use Table 6 instead of Table 5.

    Returns:
        New dicts with ``prompt`` and, for LLaVA, ``system``. ``prompt`` is the user's turn with
        ``{question}``, and with ``<image>`` at the paper's position of the image.
    """
    return {
        name: _block(family, planning=planning)
        for family in FAMILIES
        for name in family.backends or [family.name]
    }


def block_by_model_type(*, planning: bool) -> dict[str, dict[str, dict[str, str]]]:
    """Return the block for a backend that runs checkpoints of any family.

    `block_of_model` selects the prompts.
    """
    blocks = {
        model_type: _block(family, planning=planning)
        for family in FAMILIES
        for model_type in family.model_types
    }
    return {_BY_MODEL_TYPE: blocks | {_DEFAULT: model_blocks(planning=planning)[_DEFAULT]}}


def block_of_model(settings: Mapping[str, Any], model_type: str | None) -> Mapping[str, str]:
    """Return the prompts for a checkpoint. Settings without model types apply to all checkpoints.

    Args:
        settings: `block_by_model_type`, one of `model_blocks`, or a user's own block.
        model_type: The checkpoint's ``model_type`` in transformers; None if unknown.
    """
    blocks = settings.get(_BY_MODEL_TYPE)
    return settings if blocks is None else blocks.get(model_type, blocks[_DEFAULT])


def backend_of_model_type(model_type: str | None) -> str:
    """Return the key in `model_blocks` for a model type; ``default`` for most."""
    return next(
        (family.backends[0] for family in FAMILIES if model_type in family.model_types), _DEFAULT
    )


def prompts_name(settings: Mapping[str, str], *, is_system_turn: bool) -> str:
    """Return the name of the family with these prompts, for results.

    Args:
        settings: ``prompt`` and optionally ``system``.
        is_system_turn: True if the model gets ``system`` in a separate turn.

    Returns:
        The family's name in the tables, or ``own`` for a user's prompts. With a system prompt, its
        position follows.
    """
    block = {name: settings[name] for name in ("prompt", "system") if name in settings}
    names = (
        family.name
        for family in FAMILIES
        for kind in (False, True)
        if _block(family, planning=kind) == block
    )
    turn = ", system turn" if is_system_turn else ", in the user turn"
    return (settings.get("name") or next(names, "own")) + (turn if "system" in settings else "")


def _block(family: PromptFamily, *, planning: bool) -> dict[str, str]:
    text = family.planning if planning else family.general
    return {"system": text, "prompt": _QUESTION} if family.is_system else {"prompt": text}


def prompt_text(question: str, settings: Mapping[str, Any]) -> str:
    """Return the prompt as one text, for backends without chat messages.

    These backends have no system turn. The user's turn therefore contains the system prompt, a
    newline and the question, unlike in the paper. ``<image>`` stays in the text as printed, and
    some backends show it to the model.

    Args:
        question: Text of the question.
        settings: ``prompt`` and optionally ``system``.
    """
    prompt = _filled(settings["prompt"], question)
    return f"{settings['system']}\n{prompt}" if "system" in settings else prompt


def prompt_messages(question: str, image: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the prompt as chat messages in lmms-eval's protocol.

    The image replaces ``<image>``, or comes first.

    Args:
        question: Text of the question.
        image: Value for ``url``.
        settings: ``prompt`` and optionally ``system``. With ``media`` (``image``, ``image before
            the text`` or ``image after the text``), ``<image>`` is text.
    """
    before, mark, after = (
        ("", "", settings["prompt"])
        if "media" in settings
        else settings["prompt"].rpartition(_IMAGE)
    )
    content = [
        _text(_filled(before, question)),
        {"type": "image", "url": image},
        _text(_filled(after, question)),
    ]
    content = content if mark else content[1:]
    user = {
        "role": "user",
        "content": content[::-1] if "after" in settings.get("media", "") else content,
    }
    return (
        [{"role": "system", "content": [_text(settings["system"])]}, user]
        if "system" in settings
        else [user]
    )


def read_reply(reply: str, settings: Mapping[str, str]) -> str:
    """Return the part of a reply that is judged.

    Args:
        reply: The model's reply.
        settings: Optionally ``parser``, the text after which the answer begins. It ends at the next
            one.

    >>> read_reply("Short Answer: red. Short Answer: blue", {"parser": "Short Answer: "}), read_reply("red", {})
    ('red. ', 'red')
    """
    start = settings.get("parser", "")
    return reply.split(start)[1] if start and start in reply else reply


def _filled(prompt: str, question: str) -> str:
    return prompt.replace("{stripped_question}", question.strip()).replace(_QUESTION, question)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
