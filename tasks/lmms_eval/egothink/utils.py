"""Adapt EgoThink to lmms-eval, with the functions that the YAML files of this folder name."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from PIL import Image

from lmms_egoplan.benchmarks.egothink.answers import Answer
from lmms_egoplan.benchmarks.egothink.conditions import shown_image
from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME, DIMENSIONS
from lmms_egoplan.benchmarks.egothink.judge import DEFAULT_JUDGE, OTHERWISE, grade, probe_form
from lmms_egoplan.benchmarks.egothink.marks import explained
from lmms_egoplan.benchmarks.egothink.metrics import mean_over_dimensions  # noqa: F401
from lmms_egoplan.benchmarks.egothink.presets import Preset, chosen_judge_protocol, chosen_preset
from lmms_egoplan.benchmarks.egothink.prompts import (
    block_by_model_type,
    block_of_model,
    model_blocks,
    prompt_messages,
    prompt_text,
    prompts_name,
    read_reply,
)
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.harnesses.lmms_eval.filters import JudgedFilter
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import loaded_model
from lmms_egoplan.memory_ahead import reserve_for

_DIMENSIONS = {dimension.name.upper(): dimension.name for dimension in DIMENSIONS}
_PLANNING = {"GENERAL_PROMPTS": False, "PLANNING_PROMPTS": True}

# lmms-eval's name of the backend that runs checkpoints of any family.
_ANY_CHECKPOINT = "hf_vlm"


def __getattr__(name: str) -> Any:
    """Return folders and fingerprints of prepared dimensions, prompts, and what a preset changes.

    Called on loading, not on listing tasks.
    """
    preset = chosen_preset()
    if name.removeprefix("PHYSBRAIN_") in _PLANNING:
        return _prompts_of_models(name)
    if name == "PRESET":
        return preset and preset.name
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
        return _prompts_of_dimension(dimension, preset)
    if value == "DECODING":
        return {"default": dict(preset.of_dimension("decoding", dimension))} if preset else {}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _prompts_of_models(name: str) -> dict[str, Any]:
    """Return the prompts of each model. With PHYSBRAIN in the name, return PhysBrain's for all."""
    form = name.removeprefix("PHYSBRAIN_")
    is_planning = _PLANNING[form]
    blocks = model_blocks(planning=is_planning)
    if form != name:
        return {"default": blocks["physbrain"]}
    return {**blocks, _ANY_CHECKPOINT: block_by_model_type(planning=is_planning)}


def _prompts_of_dimension(dimension: str, preset: Preset | None) -> dict[str, Any]:
    """Return the preset's prompts for a dimension, or those for each model."""
    if preset:
        return {"default": preset.block(dimension)}
    if BY_NAME[dimension].capability == "planning":
        return _prompts_of_models("PLANNING_PROMPTS")
    return _prompts_of_models("GENERAL_PROMPTS")


def doc_to_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the image of the question."""
    image = shown_image(doc)
    reserve_for([image])
    return [image.convert("RGB")]


def no_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return no image."""
    return []


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the model's prompt with the question, for backends without chat messages."""
    return prompt_text(doc["question"], _prompts(lmms_eval_specific_kwargs))


def doc_to_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the model's prompt as messages, for chat backends, and for this package's with a
    system prompt.
    """
    return prompt_messages(
        doc["question"], *doc_to_visual(doc), _prompts(lmms_eval_specific_kwargs)
    )


def blind_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the prompt of `doc_to_text` without the position of an image."""
    return doc_to_text(doc, lmms_eval_specific_kwargs).replace("<image>", "")


def blind_messages(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the messages of `doc_to_messages` without an image."""
    messages = prompt_messages(doc["question"], None, _prompts(lmms_eval_specific_kwargs))
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


def _prompts(settings: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the prompts for the loaded checkpoint."""
    model = loaded_model(_ANY_CHECKPOINT)
    return block_of_model(settings, model and model.model_type)


class Judged(JudgedFilter):
    """Judge all answers of a task together; return them as text (`JudgedAnswer.to_text`)."""

    DEFAULT_JUDGE = DEFAULT_JUDGE
    OTHERWISE = OTHERWISE
    PROBE_FORM = staticmethod(probe_form)

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        texts = docs.select_columns(["id", "question", "answer"])
        model = self.model()
        is_system_turn = self.asks_in_messages() if model is None else model.has_system_turn
        settings = _prompts(self.settings())
        prompts = prompts_name(settings, is_system_turn=is_system_turn)
        answers = []
        for response in self.responses(resps):
            doc = texts[response.doc_id]
            question = (doc["id"], doc["question"], doc["answer"])
            answers.append(
                Answer(*question, read_reply(response.text, settings), response.truncated, prompts)
            )
        judged = grade(answers, self.judge())
        return [answer.to_text() for answer in judged]
