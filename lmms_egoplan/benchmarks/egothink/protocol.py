r"""What a model is asked: the inference prompts of each model family (appendix C, Tables 5 and 6).

A printed ``\n`` is a newline and the spaces around it are as printed; the tables' placeholders for the question
(``{question}``, ``{prompt}``, ``{}``, ``{instruction}``, ``instruction``, ``question``) are all ``{question}``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.paths import yaml_beside

_QUESTION = "{question}"
_IMAGE = "<image>"


@dataclass(frozen=True)
class PromptFamily:
    """One row of Tables 5 and 6.

    name: of the family, as in the tables.
    backends: lmms-eval's names of the backends that run its models; ``default`` for all without a family.
    model_types: those of its checkpoints in transformers; none where transformers has no such model.
    general, planning: prompts of Table 5 (all dimensions but planning) and Table 6.
    is_system: the prompts are system prompts; the user's turn is the question alone.
    """

    name: str
    backends: Sequence[str]
    general: str
    planning: str
    is_system: bool = False
    model_types: Sequence[str] = ()


FAMILIES = tuple(PromptFamily(**row) for row in yaml_beside(__file__))

# The entry of a block that has a block for each model type instead of prompts.
_BY_MODEL_TYPE = "by_model_type"
_DEFAULT = "default"


def model_blocks(*, planning: bool) -> dict[str, dict[str, str]]:
    """Return lmms-eval's ``lmms_eval_specific_kwargs``: a block for each backend of a family, and ``default``.

    Args:
        planning: Use Table 6 instead of Table 5.

    Returns:
        Fresh dicts with ``prompt`` (the user's turn with ``{question}``, and ``<image>`` where the paper places the
        image) and, for LLaVA, ``system``.
    """
    return {backend: _block(family, planning=planning) for family in FAMILIES for backend in family.backends}


def block_by_model_type(*, planning: bool) -> dict[str, dict[str, dict[str, str]]]:
    """Return the block of a backend that runs checkpoints of any family; `block_of_model` selects the prompts."""
    blocks = {model_type: _block(family, planning=planning) for family in FAMILIES for model_type in family.model_types}
    return {_BY_MODEL_TYPE: blocks | {_DEFAULT: model_blocks(planning=planning)[_DEFAULT]}}


def block_of_model(settings: Mapping[str, Any], model_type: str | None) -> Mapping[str, str]:
    """Return the prompts for a checkpoint; settings without model types are for any checkpoint.

    Args:
        settings: `block_by_model_type`, one of `model_blocks`, or a user's own block.
        model_type: of the checkpoint, as transformers has it; None where it is not known.
    """
    blocks = settings.get(_BY_MODEL_TYPE)
    return settings if blocks is None else blocks.get(model_type, blocks[_DEFAULT])


def backend_of_model_type(model_type: str | None) -> str:
    """Return the key in `model_blocks` of the prompts for a model type: ``default`` for most."""
    return next((family.backends[0] for family in FAMILIES if model_type in family.model_types), _DEFAULT)


def prompts_name(settings: Mapping[str, str], *, is_system_turn: bool) -> str:
    """Name the family whose prompts these are, for results.

    Args:
        settings: ``prompt`` and, for some, ``system``.
        is_system_turn: Whether the model gets ``system`` in a separate turn.

    Returns:
        The family's name in the tables, or ``own`` for a user's; behind it, where there is a system prompt, its place.
    """
    own = {name: settings[name] for name in ("prompt", "system") if name in settings}
    names = (family.name for family in FAMILIES for kind in (False, True) if _block(family, planning=kind) == own)
    name = next(names, "own")
    if "system" not in settings:
        return name
    return f"{name}, {'system turn' if is_system_turn else 'in the user turn'}"


def _block(family: PromptFamily, *, planning: bool) -> dict[str, str]:
    text = family.planning if planning else family.general
    return {"system": text, "prompt": _QUESTION} if family.is_system else {"prompt": text}


def prompt_text(question: str, settings: Mapping[str, Any]) -> str:
    """Return the prompt as one text, for backends that take no chat messages.

    They have no system turn: a system prompt, a newline and the question stand in the user's turn, which is not the
    paper's placement. ``<image>`` stays in the text as printed; backends that know no such mark show it to the model.

    Args:
        question: of the record.
        settings: ``prompt`` and, for some, ``system``.
    """
    prompt = _filled(settings["prompt"], question)
    return f"{settings['system']}\n{prompt}" if "system" in settings else prompt


def prompt_messages(question: str, image: Any, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the prompt as chat messages in lmms-eval's protocol, with the image at ``<image>``, else first.

    Args:
        question: of the record.
        image: passed on under ``url``.
        settings: ``prompt`` and, for some, ``system``.
    """
    before, placeholder, after = settings["prompt"].rpartition(_IMAGE)
    content = [_text(_filled(before, question)), {"type": "image", "url": image}, _text(_filled(after, question))]
    user = {"role": "user", "content": content if placeholder else content[1:]}
    return [{"role": "system", "content": [_text(settings["system"])]}, user] if "system" in settings else [user]


def _filled(prompt: str, question: str) -> str:
    return prompt.replace(_QUESTION, question)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
