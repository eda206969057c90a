"""The values of one question that several scorers log, and their aggregation over a run.

The main metric is ``acc``: the share of questions whose preferred choice is the right one. `rank`
says which choice a model prefers, `letter` which one it wrote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.aggregations import (
    Aggregations,
    Score,
    Value,
    Values,
    aggregate_details,
    count,
    score_value,
    tallied,
    the_same,
)
from lmms_egoplan.benchmarks.egoplan.records import (
    DOMAINS,
    EGO4D,
    EPIC_KITCHENS,
    READY_CLIPS,
    RENDERED,
)
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import RENDERED_SCENES, coverage_values, split_details
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.ranking.audits import RANKING, summarize

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


def accuracy(doc: Doc, score: float) -> Score:
    """Return the value of a question in an accuracy. Its cluster is the video.

    >>> accuracy({"video_id": "P01_01"}, True)
    {'cluster': 'P01_01', 'score': 1.0}
    """
    return score_value(score, doc["video_id"])


def prediction_value(doc: Doc, letter: str | None) -> dict[str, Any]:
    """Return the record of a prediction.

    >>> prediction_value({"sample_id": 7}, "B")
    {'sample_id': 7, 'prediction': 'B'}
    """
    return {"sample_id": doc["sample_id"], "prediction": letter}


def question_values(doc: Doc, split: ScoredSplit, *, scored: bool) -> Values:
    """Return the values of `coverage_values`.

    >>> doc = {"video_id": "P01_01", "split_size": 923, "question_set": "official"}
    >>> question_values(doc, EGOPLAN_VAL, scored=True)["coverage"]
    {'scored': True, 'of': 3355}
    """
    origin = RENDERED_SCENES if doc["video_id"].startswith(RENDERED) else None
    return coverage_values(doc, split.official, scored, origin)


def question_details(doc: Doc) -> dict[str, Any]:
    """Return ``num_questions`` and the entries of `split_details`.

    Also return ``media`` if the question is shown from a ready clip.

    >>> question_details({"sample_id": 7, "split_size": 923})
    {'num_questions': 1, 'split_size': 923}
    """
    details: dict[str, Any] = {"num_questions": 1, **split_details(doc)}
    if doc.get("clip_frames") is not None:
        details["media"] = doc.get("media") or READY_CLIPS
    return details


def details(values: Sequence[Value]) -> dict[str, Any]:
    """Aggregate the ``details`` of a question, whatever its scorer.

    >>> details([{"num_questions": 1, "ties": False}, {"num_questions": 1, "ties": True}])
    {'ties': 1, 'num_questions': 2}
    """
    return aggregate_details(values, _AGGREGATIONS)


def first_ids(sample_ids: Sequence[int | str | None]) -> str:
    """Return the sample ids, sorted; the first 20 of them.

    >>> first_ids([12, None, 7])
    '7, 12'
    >>> first_ids([None])
    'none'
    """
    present = sorted(sample_id for sample_id in sample_ids if sample_id is not None)
    if not present:
        return "none"
    texts = [str(sample_id) for sample_id in present[:_NAMED]]
    if len(present) > _NAMED:
        texts.append("...")
    return ", ".join(texts)


def num_predictions(predictions: Sequence[Mapping[str, Any]]) -> int:
    """Count the questions with a predicted letter.

    >>> num_predictions([{"sample_id": 1, "prediction": "B"}, {"sample_id": 2, "prediction": None}])
    1
    """
    return sum(prediction["prediction"] is not None for prediction in predictions)


_AGGREGATIONS: Aggregations = {
    "ties": count,
    "predictions": num_predictions,
    RANKING: summarize,
    "authors_fail": count,
    "authors_fail_ids": first_ids,
    "past_observation": count,
    "unknown_fields": tallied,
    "truncated_of": count,
    "media": tallied,
    "num_questions": count,
    "split_size": the_same,
    "without_partner": the_same,
}
