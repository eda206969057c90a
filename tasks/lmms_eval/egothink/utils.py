"""Adapt EgoThink to lmms-eval, with the functions that the YAML files of this folder name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset
from PIL import Image

from lmms_egoplan.benchmarks.egothink.answers import Answer
from lmms_egoplan.benchmarks.egothink.conditions import shown_image
from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME, DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.judge import DEFAULT_JUDGE, OTHERWISE, grade, probe_form
from lmms_egoplan.benchmarks.egothink.marks import explained
from lmms_egoplan.benchmarks.egothink.metrics import mean_over_dimensions  # noqa: F401
from lmms_egoplan.benchmarks.egothink.presets import chosen_judge_protocol, preset_block
from lmms_egoplan.benchmarks.egothink.prompts import (
    block_by_model_type,
    block_of_model,
    model_blocks,
    prompt_messages,
    prompt_text,
    prompts_name,
    read_reply,
)
from lmms_egoplan.benchmarks.presets import reject_former_variable
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.harnesses.lmms_eval.filters import JudgedFilter
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import loaded_model
from lmms_egoplan.judging.probe import announce_judge
from lmms_egoplan.memory_ahead import reserve_for

_DIMENSIONS = {dimension.name.upper(): dimension.name for dimension in DIMENSIONS}
_PLANNING = {"GENERAL_PROMPTS": False, "PLANNING_PROMPTS": True}

# lmms-eval's name of the backend that runs checkpoints of any family.
_ANY_CHECKPOINT = "hf_vlm"


def __getattr__(name: str) -> Any:
    """Return folders and fingerprints of prepared dimensions, and prompts.

    Called on loading, not on listing tasks.
    """
    reject_former_variable()
    if name.removeprefix("PHYSBRAIN_") in _PLANNING:
        return _prompts_of_models(name)
    start, _, value = name.partition("_")
    if start not in _DIMENSIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    dimension = _DIMENSIONS[start]
    split = dimension
    if value.startswith("MARKED"):
        split = f"{dimension}_marked"
        value = value.removeprefix("MARKED").removeprefix("_")
    if not value:
        chosen_judge_protocol()  # end the run early if the judge's protocol is unknown
        return str(EGOTHINK.folder(split))
    if value == "DATA":
        return EGOTHINK.fingerprint(split)
    if value == "PROMPTS":
        is_planning = BY_NAME[dimension].capability == "planning"
        return _prompts_of_models("PLANNING_PROMPTS" if is_planning else "GENERAL_PROMPTS")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _prompts_of_models(name: str) -> dict[str, Any]:
    """Return the prompts of each model. With PHYSBRAIN in the name, return PhysBrain's for all."""
    form = name.removeprefix("PHYSBRAIN_")
    is_planning = _PLANNING[form]
    blocks = model_blocks(planning=is_planning)
    if form != name:
        return {"default": blocks["physbrain"]}
    return {**blocks, _ANY_CHECKPOINT: block_by_model_type(planning=is_planning)}


def doc_to_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the image of the question."""
    image = shown_image(doc)
    reserve_for([image])
    return [image.convert("RGB")]


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the model's prompt with the question, for backends without chat messages."""
    return prompt_text(doc["question"], _prompts(lmms_eval_specific_kwargs, doc["id"]))


def doc_to_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the model's prompt as messages, for chat backends, and for this package's with a
    system prompt.
    """
    prompts = _prompts(lmms_eval_specific_kwargs, doc["id"])
    return prompt_messages(doc["question"], *doc_to_visual(doc), prompts)


def blind_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the prompt of `doc_to_text` without the position of an image."""
    return doc_to_text(doc, lmms_eval_specific_kwargs).replace("<image>", "")


def blind_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the messages of `doc_to_messages` without an image."""
    prompts = _prompts(lmms_eval_specific_kwargs, doc["id"])
    messages = prompt_messages(doc["question"], None, prompts)
    return [
        turn | {"content": [part for part in turn["content"] if part["type"] == "text"]}
        for turn in messages
    ]


def marked_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the prompt of `doc_to_text` with a sentence that explains the marks before the
    question.
    """
    return doc_to_text(explained(doc), lmms_eval_specific_kwargs)


def marked_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the messages of `doc_to_messages` with a sentence that explains the marks before the
    question.
    """
    return doc_to_messages(explained(doc), lmms_eval_specific_kwargs)


def _prompts(settings: Mapping[str, Any], question_id: str) -> Mapping[str, str]:
    """Return the prompts of the task's preset, or those for the loaded checkpoint."""
    if "preset" in settings:
        return preset_block(settings["preset"], dimension_of(question_id))
    model = loaded_model(_ANY_CHECKPOINT)
    return block_of_model(settings, model and model.model_type)


class Judged(JudgedFilter):
    """Judge all answers of a task together; return them as text (`JudgedAnswer.to_text`).

    Args:
        preset: The task's preset, whose protocol is the judge's default; "" for none.
    """

    DEFAULT_JUDGE = DEFAULT_JUDGE
    OTHERWISE = OTHERWISE

    def __init__(self, preset: str = "") -> None:
        self._preset = preset
        announce_judge(DEFAULT_JUDGE, OTHERWISE, partial(probe_form, preset=preset))

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        texts = docs.select_columns(["id", "question", "answer"])
        model = self.model()
        is_system_turn = self.asks_in_messages() if model is None else model.has_system_turn
        answers = []
        for response in self.responses(resps):
            doc = texts[response.doc_id]
            prompts = _prompts(self.settings(), doc["id"])
            answers.append(
                Answer(
                    doc["id"],
                    doc["question"],
                    doc["answer"],
                    read_reply(response.text, prompts),
                    response.truncated,
                    prompts_name(prompts, is_system_turn=is_system_turn),
                )
            )
        judged = grade(answers, self.judge(), self._preset)
        return [answer.to_text() for answer in judged]
