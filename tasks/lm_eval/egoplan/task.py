"""EgoPlan in lm-eval's shape: the classes and functions that this folder's YAML files name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egoplan.protocol import lettered_question, narrated_question  # noqa: F401
from lmms_egoplan.benchmarks.egoplan.splits import PREPARED
from lmms_egoplan.benchmarks.egoplan.visuals import num_uniform_images, visual_input
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name
from lmms_egoplan.harnesses.lm_eval.task import Answered, RankedTask, TogetherScoredTask

Doc = Mapping[str, Any]


class BlindRanking(RankedTask):
    """The candidates ranked behind a text alone."""

    PREPARED = PREPARED


class Ranking(BlindRanking):
    """The candidates ranked behind frames and question."""

    COUNTS = ("num_frames",)


class Replies(TogetherScoredTask):
    """Letters, written after frames and question."""

    PREPARED = PREPARED
    COUNTS = ("num_frames",)
    FILTER = "none"

    def score(self, answers: Sequence[Answered]) -> list[str]:
        return [answer.text for answer in answers]


def doc_to_image(doc: Doc) -> LazyImages:
    """Evenly spaced frames of the progress, the observation last."""
    settings = {"media": "frames", **doc["shown"]}
    shown = images_name("EgoPlan", doc, f"sample {doc['sample_id']}, {settings['num_frames']} frames")
    return LazyImages(shown, partial(visual_input, doc, settings))


def doc_to_text(doc: Doc) -> str:
    """The question behind its images."""
    return _images(doc) + doc["question"]


def doc_to_lettered_text(doc: Doc) -> str:
    """The question with lettered choices behind its images."""
    return _images(doc) + lettered_question(doc)


def _images(doc: Doc) -> str:
    return IMAGE_PLACEHOLDER * num_uniform_images(doc, doc["shown"]["num_frames"])
