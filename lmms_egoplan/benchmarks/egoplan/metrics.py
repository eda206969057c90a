"""The values of one question that several scorers log, and their aggregation over a run.

The main metric is ``acc``: the share of questions whose preferred choice is the right one. `rank`
says which choice a model prefers, `letter` which one it wrote.

A question's values are records, not numbers. An accuracy is ``{"score": 0.0 or 1.0, "video_id":
...}``, from which a harness can cluster its standard errors by video. The record of a count
contains the counted item, such as a sample id, so that the harness computes no standard error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.aggregations import Value, Values
from lmms_egoplan.benchmarks.egoplan.records import (
    DOMAINS,
    EGO4D,
    EPIC_KITCHENS,
    READY_CLIPS,
    RENDERED,
)
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import RENDERED_SCENES, coverage_fields
from lmms_egoplan.media.sampling import Doc

# The most questions that a metric names.
_NAMED = 20
# Accuracy over the questions of one source. Table 3: EgoPlan-IT was made from Epic-Kitchens; Ego4D
# is out of domain.
SOURCE_METRIC = {EPIC_KITCHENS: "acc_epic_kitchens", EGO4D: "acc_ego4d"}
# Accuracy over the questions of one domain of EgoPlan-Bench2.
DOMAIN_METRIC = {domain: f"acc_{domain.lower().replace(' ', '_')}" for domain in DOMAINS}


@dataclass(frozen=True)
class ScoredSplit:
    """What scoring needs to know about a split.

    Attributes:
        official: Number of questions in the paper.
        part_field: Field of a question that names its part.
        part_metrics: Accuracy over the questions of a part, by the part's name.
        has_answers: Whether the right choices are public.
    """

    official: int
    part_field: str
    part_metrics: Mapping[str, str]
    has_answers: bool = True

    def part_metric(self, doc: Doc) -> str:
        """Return the accuracy of the question's part."""
        return self.part_metrics[doc[self.part_field]]


EGOPLAN_VAL = ScoredSplit(
    official=EGOPLAN.official["val"],
    part_field="video_source",
    part_metrics=SOURCE_METRIC,
)
EGOPLAN_TEST = ScoredSplit(
    official=EGOPLAN.official["test"],
    part_field="video_source",
    part_metrics=SOURCE_METRIC,
    has_answers=False,
)
EGOPLAN_BENCH2_TEST = ScoredSplit(
    official=EGOPLAN_BENCH2.official["test"],
    part_field="domain",
    part_metrics=DOMAIN_METRIC,
)


def score_value(doc: Doc, score: float) -> dict[str, Any]:
    """Return the record of an accuracy.

    >>> score_value({"video_id": "P01_01"}, True)
    {'score': 1.0, 'video_id': 'P01_01'}
    """
    return {"score": float(score), "video_id": doc["video_id"]}


def prediction_value(doc: Doc, letter: str | None) -> dict[str, Any]:
    """Return the record of a prediction.

    >>> prediction_value({"sample_id": 7}, "B")
    {'sample_id': 7, 'prediction': 'B'}
    """
    return {"sample_id": doc["sample_id"], "prediction": letter}


def count_values(doc: Doc, split: ScoredSplit, *, scored: bool) -> Values:
    """Return the values of `coverage_fields`, and ``num_questions``.

    Also return ``media`` if the question is shown from a ready clip.

    >>> doc = {"sample_id": 7, "video_id": "P01_01", "split_size": 923, "question_set": "official"}
    >>> values = count_values(doc, EGOPLAN_VAL, scored=True)
    >>> values["coverage"], values["num_questions"]
    ({'scored': True, 'of': 3355}, {'sample_id': 7})
    """
    origin = RENDERED_SCENES if doc["video_id"].startswith(RENDERED) else None
    counts = {
        **coverage_fields(doc, split.official, scored, origin),
        "num_questions": {"sample_id": doc["sample_id"]},
    }
    if doc.get("clip_frames") is not None:
        counts["media"] = {"media": doc.get("media") or READY_CLIPS}
    return counts


def first_ids(values: Sequence[Value]) -> str:
    """Return the sample ids in all records, sorted; the first 20 of them.

    >>> first_ids([{"sample_id": 12}, {"sample_id": None}, {"sample_id": 7}])
    '7, 12'
    >>> first_ids([{"sample_id": None}])
    'none'
    """
    ids = sorted(value["sample_id"] for value in values if value["sample_id"] is not None)
    if not ids:
        return "none"
    texts = [str(sample_id) for sample_id in ids[:_NAMED]]
    if len(ids) > _NAMED:
        texts.append("...")
    return ", ".join(texts)


def num_predictions(values: Sequence[Value]) -> int:
    """Count the questions with a predicted letter.

    >>> num_predictions([{"sample_id": 1, "prediction": "B"}, {"sample_id": 2, "prediction": None}])
    1
    """
    return sum(value["prediction"] is not None for value in values)
