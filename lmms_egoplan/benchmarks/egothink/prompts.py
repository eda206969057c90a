r"""Define the inference prompts of each model family (appendix C, Tables 5 and 6).

PhysBrain's prompts are included.

A printed ``\n`` is a newline here; the spaces around it are unchanged. The tables have several
placeholders for the question (``{question}``, ``{prompt}``, ``{}``, ``{instruction}``,
``instruction``, ``question``). Here, all of them are ``{question}``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.paths import module_yaml

_QUESTION = "{question}"
_IMAGE = "<image>"


@dataclass(frozen=True, slots=True)
class PromptFamily:
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

    def block(self, *, planning: bool) -> dict[str, str]:
        """Return the prompts as lmms-eval's settings: ``prompt`` and, for LLaVA, ``system``."""
        text = self.planning if planning else self.general
        if self.is_system:
            return {"system": text, "prompt": _QUESTION}
        return {"prompt": text}


def _read_family(row: Mapping[str, Any]) -> PromptFamily:
    return PromptFamily(
        name=row["name"],
        backends=row["backends"],
        general=row["general"],
        planning=row["planning"],
        is_system=row.get("is_system", False),
        model_types=row.get("model_types", ()),
    )


FAMILIES = tuple(_read_family(row) for row in module_yaml(__file__))

# Key of a block that contains a block for each model type instead of prompts.
_BY_MODEL_TYPE = "by_model_type"
_DEFAULT = "default"


def model_blocks(*, planning: bool) -> dict[str, dict[str, str]]:
    """Return lmms-eval's ``lmms_eval_specific_kwargs``.

    It has a block for each backend with a family, and ``default``. A family without backends has a
    block under its own name.

    Args:
        planning: Use Table 6 instead of Table 5.

    Returns:
        New dicts with ``prompt`` and, for LLaVA, ``system``. ``prompt`` is the user's turn with
        ``{question}``, and with ``<image>`` at the paper's position of the image.
    """
    blocks: dict[str, dict[str, str]] = {}
    for family in FAMILIES:
        for name in family.backends or [family.name]:
            blocks[name] = family.block(planning=planning)
    return blocks


def block_by_model_type(*, planning: bool) -> dict[str, dict[str, dict[str, str]]]:
    """Return the block for a backend that runs checkpoints of any family.

    `block_of_model` selects the prompts.
    """
    blocks: dict[str, dict[str, str]] = {}
    for family in FAMILIES:
        for model_type in family.model_types:
            blocks[model_type] = family.block(planning=planning)
    blocks[_DEFAULT] = model_blocks(planning=planning)[_DEFAULT]
    return {_BY_MODEL_TYPE: blocks}


def block_of_model(settings: Mapping[str, Any], model_type: str | None) -> Mapping[str, str]:
    """Return the prompts for a checkpoint. Settings without model types apply to all checkpoints.

    Args:
        settings: `block_by_model_type`, one of `model_blocks`, or a user's own block.
        model_type: The checkpoint's ``model_type`` in transformers; None if unknown.
    """
    blocks = settings.get(_BY_MODEL_TYPE)
    if blocks is None:
        return settings
    return blocks.get(model_type, blocks[_DEFAULT])


def backend_of_model_type(model_type: str | None) -> str:
    """Return the key in `model_blocks` for a model type; ``default`` for most."""
    for family in FAMILIES:
        if model_type in family.model_types:
            return family.backends[0]
    return _DEFAULT


def prompts_name(settings: Mapping[str, str], *, is_system_turn: bool) -> str:
    """Return the name of the family with these prompts, for results.

    Args:
        settings: ``prompt`` and optionally ``system``.
        is_system_turn: True if the model gets ``system`` in a separate turn.

    Returns:
        The family's name in the tables, or ``own`` for a user's prompts. With a system prompt, its
        position follows.
    """
    name = settings.get("name") or _family_name(settings) or "own"
    if "system" not in settings:
        return name
    if is_system_turn:
        return f"{name}, system turn"
    return f"{name}, in the user turn"


def _family_name(settings: Mapping[str, str]) -> str | None:
    """Return the name of the first family with these prompts; None without one."""
    block = {name: settings[name] for name in ("prompt", "system") if name in settings}
    for family in FAMILIES:
        if block in (family.block(planning=False), family.block(planning=True)):
            return family.name
    return None


def prompt_text(question: str, settings: Mapping[str, Any]) -> str:
    """Return the prompt as one text, for backends without chat messages.

    These backends have no system turn. The user's turn therefore contains the system prompt, a
    newline and the question, unlike in the paper. ``<image>`` stays in the text as printed, and
    some backends show it to the model.

    Args:
        question: Text of the question.
        settings: ``prompt`` and optionally ``system``.
    """
    prompt = _insert_question(settings["prompt"], question)
    if "system" in settings:
        return f"{settings['system']}\n{prompt}"
    return prompt


def prompt_messages(question: str, image: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the prompt as chat messages in lmms-eval's protocol.

    The image replaces ``<image>``, or comes first.

    Args:
        question: Text of the question.
        image: Value for ``url``.
        settings: ``prompt`` and optionally ``system``. With ``media`` (``image``, ``image before
            the text`` or ``image after the text``), ``<image>`` is text.
    """
    messages = [{"role": "user", "content": _user_content(question, image, settings)}]
    if "system" in settings:
        messages.insert(0, {"role": "system", "content": [_text_part(settings["system"])]})
    return messages


def _user_content(question: str, image: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return texts and image of the user's turn in their order."""
    image_part = {"type": "image", "url": image}
    prompt = settings["prompt"]
    if "media" in settings:
        text_part = _text_part(_insert_question(prompt, question))
        if "after" in settings["media"]:
            return [text_part, image_part]
        return [image_part, text_part]
    before, placeholder, after = prompt.rpartition(_IMAGE)
    after_part = _text_part(_insert_question(after, question))
    if not placeholder:
        return [image_part, after_part]
    return [_text_part(_insert_question(before, question)), image_part, after_part]


def read_reply(reply: str, settings: Mapping[str, str]) -> str:
    """Return the part of a reply that is judged.

    Args:
        reply: The model's reply.
        settings: Optionally ``parser``, the text after which the answer begins. It ends at the next
            one.

    >>> read_reply("Short Answer: red. Short Answer: blue", {"parser": "Short Answer: "})
    'red. '
    >>> read_reply("red", {})
    'red'
    """
    start = settings.get("parser", "")
    if not start or start not in reply:
        return reply
    return reply.split(start)[1]


def _insert_question(prompt: str, question: str) -> str:
    return prompt.replace("{stripped_question}", question.strip()).replace(_QUESTION, question)


def _text_part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
