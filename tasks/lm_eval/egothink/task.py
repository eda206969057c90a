"""EgoThink in lm-eval's shape: the classes and functions that this folder's YAML files name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.egothink.grading import DEFAULT_JUDGE, OTHERWISE, Answer, grade
from lmms_egoplan.benchmarks.egothink.prepared import PREPARED
from lmms_egoplan.benchmarks.egothink.prompts import model_blocks, prompt_text
from lmms_egoplan.lm_eval_adapter.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name, stored_images
from lmms_egoplan.lm_eval_adapter.task import Answered, JudgedTask, TaskSettingsError, without_images
from lmms_egoplan.processes import is_first_process


class General(JudgedTask):
    """A dimension that is answered in a few words (Table 5's prompts)."""

    PREPARED = PREPARED
    SETTINGS = ("prompts",)
    DEFAULT_JUDGE = DEFAULT_JUDGE
    OTHERWISE = OTHERWISE
    PLANNING = False

    def documents(self, rows: Dataset) -> Dataset:
        blocks = model_blocks(planning=self.PLANNING)
        if (family := self.config.metadata["prompts"]) not in blocks:
            raise TaskSettingsError(f"{self.config.task}: --metadata prompts={family}: one of {', '.join(blocks)}")
        return without_images(rows, "image")

    def score(self, answers: Sequence[Answered]) -> list[str]:
        given = [Answer(a.doc["id"], a.doc["question"], a.doc["answer"], a.text, None) for a in answers]
        return [answer.to_text() for answer in grade(given, self.judge(), show_progress=is_first_process())]


class Planning(General):
    """A dimension that is answered by a detailed plan (Table 6's prompts)."""

    PLANNING = True


def doc_to_image(doc: Mapping[str, Any]) -> LazyImages:
    """The question's one image."""
    dimension, _, _ = doc["id"].partition("/")
    load = partial(stored_images, PREPARED, dimension, doc["data"], doc["row"], "image")
    return LazyImages(images_name("EgoThink", doc, doc["id"]), load)


def doc_to_general_text(doc: Mapping[str, Any]) -> str:
    """The question behind its image, in the prompt of the model's family."""
    return _text(doc, planning=False)


def doc_to_planning_text(doc: Mapping[str, Any]) -> str:
    """The question behind its image, in the prompt of the model's family for plans."""
    return _text(doc, planning=True)


def _text(doc: Mapping[str, Any], planning: bool) -> str:
    block = model_blocks(planning=planning)[doc["shown"]["prompts"]]
    text = prompt_text(doc["question"], block)
    return text if IMAGE_PLACEHOLDER in prompt_text("", block) else IMAGE_PLACEHOLDER + text
