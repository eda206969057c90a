"""Adapt EgoThink to lm-eval, with the classes and functions that the YAML files of this folder
name.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.egothink.answers import Answer
from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME, dimension_of
from lmms_egoplan.benchmarks.egothink.judge import DEFAULT_JUDGE, OTHERWISE, grade, probe_form
from lmms_egoplan.benchmarks.egothink.marks import explained
from lmms_egoplan.benchmarks.egothink.presets import (
    LM_EVAL_NAMES,
    chosen_judge_protocol,
    load_presets,
    preset_block,
    preset_of_prompts,
    prompts_of,
)
from lmms_egoplan.benchmarks.egothink.prompts import (
    backend_of_model_type,
    model_blocks,
    prompt_text,
    prompts_name,
    read_reply,
)
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.checkpoint import model_type
from lmms_egoplan.harnesses.lm_eval.lazy_images import (
    IMAGE_PLACEHOLDER,
    LazyImages,
    images_name,
    stored_images,
)
from lmms_egoplan.harnesses.lm_eval.task import (
    Answered,
    JudgedTask,
    SystemPromptTask,
)
from lmms_egoplan.judging.probe import announce_judge
from lmms_egoplan.storage import without_images

# Value of ``--metadata prompts`` that selects prompts by the checkpoint's type.
_BY_MODEL_TYPE = "model_type"


class General(SystemPromptTask, JudgedTask):
    """A dimension with answers of a few words (prompts of Table 5)."""

    PREPARED = EGOTHINK
    SETTINGS = ("prompts",)
    DEFAULT_JUDGE = DEFAULT_JUDGE
    OTHERWISE = OTHERWISE
    PLANNING = False

    @property
    def _dimension(self) -> str:
        return self.config.test_split.removesuffix("_marked")

    @property
    def _preset(self) -> str:
        return self.config.metadata.get("asked_as", "")

    def prepare_scoring(self) -> None:
        """Test the judge, under the preset's protocol."""
        announce_judge(DEFAULT_JUDGE, OTHERWISE, partial(probe_form, preset=self._preset))

    def resolve_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Check the judge's protocol, and replace the rule for prompts by the name of the prompts
        that it selects.
        """
        chosen_judge_protocol()
        prompts = metadata.get("prompts")
        preset = metadata.get("asked_as")
        if preset is not None:
            if prompts != prompts_of(preset):
                raise LmmsEgoplanError(
                    f"{self.config.task}: --metadata prompts={prompts} contradicts {preset}"
                )
            # Cached answers are bound to the preset's numbers; lm-eval has changed 0 to 0.0.
            decoding = load_presets()[preset].of_dimension(self._dimension).decoding
            for name, value in decoding.items():
                self.config.generation_kwargs[LM_EVAL_NAMES.get(name, name)] = value
            return metadata
        if prompts == _BY_MODEL_TYPE:
            return metadata | {"prompts": backend_of_model_type(model_type(metadata))}
        if prompts is not None and prompts not in (names := model_blocks(planning=self.PLANNING)):
            choices = ", ".join([*names, _BY_MODEL_TYPE])
            raise LmmsEgoplanError(
                f"{self.config.task}: --metadata prompts={prompts} is unknown; use one of {choices}"
            )
        return metadata

    def documents(self, rows: Dataset) -> Dataset:
        return without_images(rows, "image")

    def system_prompt(self, doc: Mapping[str, Any]) -> str | None:
        return _block(doc["shown"]["prompts"], self._dimension).get("system")

    def score(self, answers: Sequence[Answered]) -> list[str]:
        block = _block(self.config.metadata["prompts"], self._dimension)
        prompts = prompts_name(block, is_system_turn=self.used_system_turn)
        replies = [
            Answer(
                a.doc["id"],
                a.doc["question"],
                a.doc["answer"],
                read_reply(a.text, block),
                a.truncated,
                prompts,
            )
            for a in answers
        ]
        return [judged.to_text() for judged in grade(replies, self.judge(), self._preset)]


class Planning(General):
    """A dimension with detailed plans as answers (prompts of Table 6)."""

    PLANNING = True


def doc_to_image(doc: Mapping[str, Any], suffix: str = "") -> LazyImages:
    """Return the image of the question, or of its partner.

    The suffix is the end of the split's name.
    """
    source = doc.get("partner") or doc
    load = partial(
        stored_images,
        EGOTHINK,
        dimension_of(doc["id"]) + suffix,
        doc["data"],
        source["row"],
        "image",
    )
    return LazyImages(images_name("EgoThink", doc, source["id"]), load)


def marked_image(doc: Mapping[str, Any]) -> LazyImages:
    """Return the image of the question with marks."""
    return doc_to_image(doc, "_marked")


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """Return the prompt of the model's family or of the preset, with the image and the question.

    lm-eval knows an image only by ``<image>``, so a prompt with this text has the image there.
    """
    block = _block(doc["shown"]["prompts"], dimension_of(doc["id"]))
    if doc.get(SystemPromptTask.SYSTEM_TURN):
        block = {name: text for name, text in block.items() if name != "system"}
    text = prompt_text(doc["question"], block)
    if IMAGE_PLACEHOLDER in prompt_text("", block):
        return text
    return (
        text + IMAGE_PLACEHOLDER if "after" in block.get("media", "") else IMAGE_PLACEHOLDER + text
    )


def marked_text(doc: Mapping[str, Any]) -> str:
    """Return the prompt of `doc_to_text` with a sentence that explains the marks before the
    question.
    """
    return doc_to_text(explained(doc))


def blind_text(doc: Mapping[str, Any]) -> str:
    """Return the prompt of `doc_to_text` without the image."""
    return doc_to_text(doc).replace(IMAGE_PLACEHOLDER, "")


def _block(prompts: str, dimension: str) -> Mapping[str, str]:
    """Return the prompts of a dimension by their name: those of a preset, or of a family."""
    preset = preset_of_prompts(prompts)
    if preset:
        return preset_block(preset, dimension)
    return model_blocks(planning=BY_NAME[dimension].capability == "planning")[prompts]
