"""Provide EgoIntent's tasks for lm-eval: the class and functions that this folder's YAML files
name.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egointent.frames import TEXT_ONLY, num_shown, step_images
from lmms_egoplan.benchmarks.egointent.judge import DEFAULT_JUDGE, OTHERWISE, Prediction, grade
from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER, RELEASE
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_PROMPT, v1_prompt_text
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name
from lmms_egoplan.harnesses.lm_eval.task import Answered, JudgedTask

# A clip is shown as a video by model classes that take one.
_MEDIA = ("clip", "frames")


class Steps(JudgedTask):
    """The task egointent: infer what, why and next for steps cut off before their outcome."""

    PREPARED = EGOINTENT
    COUNTS = ("max_frames",)
    REQUESTS = len(FIELDS)
    SETTINGS = ("media",)
    DEFAULT_JUDGE = DEFAULT_JUDGE
    OTHERWISE = OTHERWISE
    PROTOCOL = RELEASE

    def resolve_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        if (media := metadata.get("media", _MEDIA[0])) not in _MEDIA:
            raise LmmsEgoplanError(
                f"{self.config.task}: --metadata media={media}: one of {', '.join(_MEDIA)}"
            )
        return metadata

    def score(self, answers: Sequence[Answered]) -> list[str]:
        predictions = [
            Prediction.of_reply(
                answer.doc,
                answer.text,
                truncated=answer.truncated,
                frames_shown=num_shown(answer.doc, answer.doc["shown"]),
                media=answer.media if num_shown(answer.doc, answer.doc["shown"]) else TEXT_ONLY,
            )
            for answer in answers
        ]
        steps = grade(predictions, self.judge(), self.PROTOCOL)
        return [step.to_text() for step in steps]


class PaperSteps(Steps):
    """The task egointent_v1, with the paper's names and definitions of the fields."""

    PROTOCOL = PAPER


def doc_to_image(doc: Mapping[str, Any]) -> LazyImages:
    """Return the step's frames up to its truncation point."""
    settings = doc["shown"]
    condition = f", {doc['shortcut']}" if "shortcut" in doc else ""
    description = (
        f"step {doc['step_id']}, {settings['max_frames']} frames as {settings['media']}{condition}"
    )
    return LazyImages(
        images_name("EgoIntent", doc, description),
        partial(step_images, doc, settings),
        is_clip=settings["media"] == "clip",
    )


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """Return the request for the three fields, after the step's images."""
    return IMAGE_PLACEHOLDER * num_shown(doc, doc["shown"]) + v1_prompt_text(doc)


def doc_to_release_text(doc: Mapping[str, Any]) -> str:
    """Return the request with the names and definitions of the release of August 2026; see
    `doc_to_text`.
    """
    return IMAGE_PLACEHOLDER * num_shown(doc, doc["shown"]) + RELEASE_PROMPT
