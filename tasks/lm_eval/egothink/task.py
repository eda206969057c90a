"""Adapt EgoThink to lm-eval, with the classes and functions that the YAML files of this folder name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.benchmarks.egothink.protocol import backend_of_model_type, model_blocks, prompt_text, prompts_name
from lmms_egoplan.benchmarks.egothink.scoring import DEFAULT_JUDGE, OTHERWISE, Answer, grade
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.checkpoint import model_type
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name, stored_images
from lmms_egoplan.harnesses.lm_eval.task import Answered, JudgedTask, SystemPromptTask, without_images
from lmms_egoplan.judging.settings import chosen_protocol

# Value of ``--metadata prompts`` that selects prompts by the checkpoint's type.
_BY_MODEL_TYPE = "model_type"


class General(SystemPromptTask, JudgedTask):
    """A dimension with answers of a few words (prompts of Table 5)."""

    PREPARED = EGOTHINK
    SETTINGS = ("prompts",)
    DEFAULT_JUDGE = DEFAULT_JUDGE
    OTHERWISE = OTHERWISE
    PLANNING = False

    def settled(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Check the judge's protocol, and replace the rule for prompts by the name of the prompts that it selects."""
        chosen_protocol(PROTOCOLS)
        prompts = metadata.get("prompts")
        if prompts == _BY_MODEL_TYPE:
            return metadata | {"prompts": backend_of_model_type(model_type(metadata))}
        if prompts is not None and prompts not in (names := model_blocks(planning=self.PLANNING)):
            choices = ", ".join([*names, _BY_MODEL_TYPE])
            raise LmmsEgoplanError(f"{self.config.task}: --metadata prompts={prompts} is unknown; use one of {choices}")
        return metadata

    def documents(self, rows: Dataset) -> Dataset:
        return without_images(rows, "image")

    def system_prompt(self, doc: Mapping[str, Any]) -> str | None:
        return model_blocks(planning=self.PLANNING)[doc["shown"]["prompts"]].get("system")

    def score(self, answers: Sequence[Answered]) -> list[str]:
        block = model_blocks(planning=self.PLANNING)[self.config.metadata["prompts"]]
        prompts = prompts_name(block, is_system_turn=self.used_system_turn)
        replies = [Answer(a.doc["id"], a.doc["question"], a.doc["answer"], a.text, None, prompts) for a in answers]
        return [judged.to_text() for judged in grade(replies, self.judge())]


class Planning(General):
    """A dimension with detailed plans as answers (prompts of Table 6)."""

    PLANNING = True


def doc_to_image(doc: Mapping[str, Any]) -> LazyImages:
    """Return the image of the question."""
    load = partial(stored_images, EGOTHINK, dimension_of(doc["id"]), doc["data"], doc["row"], "image")
    return LazyImages(images_name("EgoThink", doc, doc["id"]), load)


def doc_to_general_text(doc: Mapping[str, Any]) -> str:
    """Return the prompt of the model's family with the image and the question."""
    return _text(doc, planning=False)


def doc_to_planning_text(doc: Mapping[str, Any]) -> str:
    """Return the planning prompt of the model's family with the image and the question."""
    return _text(doc, planning=True)


def _text(doc: Mapping[str, Any], planning: bool) -> str:
    block = model_blocks(planning=planning)[doc["shown"]["prompts"]]
    if doc.get(SystemPromptTask.SYSTEM_TURN):
        block = {name: text for name, text in block.items() if name != "system"}
    text = prompt_text(doc["question"], block)
    return text if IMAGE_PLACEHOLDER in prompt_text("", block) else IMAGE_PLACEHOLDER + text
