"""ActPlan-1K for lm-eval: the classes and functions that this folder's YAML files refer to."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan
from lmms_egoplan.benchmarks.actplan.prompts import prompt_text
from lmms_egoplan.benchmarks.actplan.scoring import load_scorers, score_plans
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.harnesses.lm_eval.lazy_images import (
    IMAGE_PLACEHOLDER,
    LazyImages,
    images_name,
    stored_images,
)
from lmms_egoplan.harnesses.lm_eval.task import Answered, TogetherScoredTask
from lmms_egoplan.storage import without_images


class Plans(TogetherScoredTask):
    """Generate plans for household activities.

    The task's YAML sets ``encoder`` and ``bleurt`` in ``metadata``.
    """

    PREPARED = ACTPLAN
    FILTER = "scored"

    def prepare_scoring(self) -> None:
        """Load encoder and classifier, to report errors before the model runs."""
        metadata = self.config.metadata
        self._encoder, self._classifier = load_scorers(metadata["encoder"], metadata["bleurt"])

    def documents(self, rows: Dataset) -> Dataset:
        return without_images(rows, "images")

    def score(self, answers: Sequence[Answered]) -> list[str]:
        plans = [GeneratedPlan.of_reply(a.doc, a.text, truncated=a.truncated) for a in answers]
        scores = score_plans(plans, self._encoder, self._classifier)
        return [score.to_text() for score in scores]


def doc_to_image(doc: Mapping[str, Any]) -> LazyImages:
    """Return the views of the environment, or of the partner's."""
    source = doc.get("partner") or doc
    load = partial(stored_images, ACTPLAN, "test", doc["data"], source["row"], "images")
    return LazyImages(images_name("ActPlan-1K", doc, source["id"]), load)


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """Return the placeholders of the views, followed by the task description as released."""
    return IMAGE_PLACEHOLDER * (doc.get("partner") or doc)["num_images"] + prompt_text(doc)
