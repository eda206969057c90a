"""Adapt Toy to lm-eval, with the classes and functions that the YAML files of this folder name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.splits import TOY
from lmms_egoplan.benchmarks.toy.judge import DEFAULT_JUDGE, grade
from lmms_egoplan.benchmarks.toy.prompts import short_question
from lmms_egoplan.harnesses.lm_eval.lazy_images import (
    IMAGE_PLACEHOLDER,
    LazyImages,
    images_name,
    stored_images,
)
from lmms_egoplan.harnesses.lm_eval.task import Answered, JudgedTask, RankedTask
from lmms_egoplan.storage import without_images


class Answers(JudgedTask):
    """Answer in words."""

    PREPARED = TOY
    DEFAULT_JUDGE = DEFAULT_JUDGE

    def documents(self, rows: Dataset) -> Dataset:
        return without_images(rows, "image")

    def score(self, answers: Sequence[Answered]) -> list[str]:
        docs = [answer.doc for answer in answers]
        judged = grade(docs, [answer.text for answer in answers], self.judge())
        return [answer.to_text() for answer in judged]


class Ranking(RankedTask):
    """Rank the choices."""

    PREPARED = TOY

    def documents(self, rows: Dataset) -> Dataset:
        return without_images(rows, "image")


def doc_to_image(doc: Mapping[str, Any]) -> LazyImages:
    """Return the picture of the question."""
    load = partial(stored_images, TOY, "test", doc["data"], doc["row"], "image")
    return LazyImages(images_name("Toy", doc, doc["id"]), load)


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """Return the question for an answer in words, after its picture."""
    return IMAGE_PLACEHOLDER + short_question(doc)


def doc_to_ranked_text(doc: Mapping[str, Any]) -> str:
    """Return the question after its picture."""
    return IMAGE_PLACEHOLDER + doc["question"]
