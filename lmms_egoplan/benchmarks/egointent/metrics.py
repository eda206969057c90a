"""Compute EgoIntent's metrics (sec. 4.1, Table 3): values per step, and means over a run.

- A field that is missing in the reply scores 0. The paper does not mention this case; the
  leaderboard of the public release (2026-08) says that missing predictions receive zero.
- A field that no judge has rated is neither right nor wrong. It only lowers the coverage.

A score is therefore the fraction of fields found in the replies, times the mean rating of the
judged ones. The main metric is ``overall``, over all fields.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.aggregations import (
    Aggregations,
    Value,
    Values,
    aggregate_details,
    count,
    judge_tokens,
    names,
    score_value,
    tallied,
    the_same,
)
from lmms_egoplan.benchmarks.egointent.judge import GradedStep, JudgedStep
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.coverage import coverage_values, split_details


def score_step(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one step.

    Args:
        doc: A row of the prepared dataset.
        responses: One text from `GradedStep`.

    Returns:
        Values by name:

        - Each of `FIELDS`, with a score (0..100) only if it has a rating, and ``missing``, whether
          the reply lacks it.
        - ``overall``: with the mean of the three ratings as score if all fields have one; also
          ``ratings`` and ``missing``, the names of missing fields. ``indoor`` or ``outdoor``, if
          known: the same.
        - ``parsed``, ``judge_coverage``, ``suspect``: numbers of fields.
        - ``truncated``, ``unverified``: 1 or 0; without a score if unknown.
        - The values of `coverage_values`.
        - ``details``: ``step``, all fields of `GradedStep`, the step's video, environment and
          group, and ``missing``; the ratings by ``scenario`` or ``category``; ``judge_model``, the
          entries of `judge_tokens`, ``truncated_of``, ``media``, ``num_steps``, and those of
          `split_details`.

    Raises:
        ValueError: There is not exactly one response, it is not a graded step, or it belongs to
            another step.

    >>> from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER
    >>> from lmms_egoplan.benchmarks.egointent.judge import Prediction, grade
    >>> from lmms_egoplan.judging.settings import JudgeSettings
    >>> references = {
    ...     "local_intent": "cut the bread",
    ...     "global_intent": "make toast",
    ...     "next_step_plan": "spread butter",
    ... }
    >>> answer = Prediction(
    ...     step_id="P01/3",
    ...     fields={"local_intent": "cut bread", "global_intent": "make toast"},  # no next step
    ...     truncated=False,
    ...     frames_shown=8,
    ...     frames_sampled=30,
    ...     references=references,
    ... )
    >>> (step,) = grade([answer], JudgeSettings("demo"), PAPER)
    >>> doc = {
    ...     "step_id": "P01/3",
    ...     "video_id": "P01",
    ...     "environment": "indoor",
    ...     "scenario": "cooking",
    ...     "unverified": False,
    ...     "split_size": 300,
    ... }
    >>> values = score_step(doc, [step.to_text()])
    >>> {field: values[field]["score"] for field in FIELDS}
    {'local_intent': 50.0, 'global_intent': 100.0, 'next_step_plan': 0.0}
    >>> values["overall"]["score"], values["overall"]["missing"]
    (50.0, ['next_step_plan'])
    """
    (text,) = responses
    step = GradedStep.from_text(text)
    values = values_of(step, doc, "overall")
    overall_value = {**values["overall"], "ratings": step.ratings, "missing": step.missing}
    values["overall"] = overall_value
    environment = doc["environment"]
    if environment in ENVIRONMENTS:
        values[environment] = overall_value
    group_name = _group_name(doc)
    group = {"ratings": step.ratings, "missing": step.missing, group_name: doc[group_name]}
    values["details"] = {**values["details"], group_name: group}
    values["unverified"] = score_value(doc["unverified"], doc["video_id"])
    return values


def score_release_step(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of `score_step` under the names in `RELEASE_NAMES`.

    ``overall_missing_zero`` is added.

    >>> from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER
    >>> from lmms_egoplan.benchmarks.egointent.judge import Prediction, grade
    >>> from lmms_egoplan.judging.settings import JudgeSettings
    >>> references = {
    ...     "local_intent": "cut the bread",
    ...     "global_intent": "make toast",
    ...     "next_step_plan": "spread butter",
    ... }
    >>> answer = Prediction(
    ...     step_id="P01/3",
    ...     fields={"global_intent": "make toast"},
    ...     truncated=False,
    ...     frames_shown=8,
    ...     frames_sampled=30,
    ...     references=references,
    ... )
    >>> (step,) = grade([answer], JudgeSettings("demo"), PAPER)
    >>> doc = {
    ...     "step_id": "P01/3",
    ...     "video_id": "P01",
    ...     "environment": "indoor",
    ...     "scenario": "cooking",
    ...     "unverified": False,
    ...     "split_size": 300,
    ... }
    >>> values = score_release_step(doc, [step.to_text()])
    >>> values["procedural_intent"]["score"], values["overall_missing_zero"]["split_size"]
    (100.0, 300)
    """
    values: Values = {}
    for name, value in score_step(doc, responses).items():
        release_name = RELEASE_NAMES.get(name, name)
        values[release_name] = value
    overall_value = values["overall"]
    values["overall_missing_zero"] = {
        "ratings": overall_value["ratings"],
        "missing": overall_value["missing"],
        "split_size": doc["split_size"],
    }
    return values


def values_of(step: JudgedStep, doc: Mapping[str, Any], mean: str) -> Values:
    """Return the values that `GradedStep` and `Diagnosis` have in common.

    Args:
        step: The judged record.
        doc: A row of the prepared dataset.
        mean: Name of the value whose score is the mean of the ratings.

    Raises:
        ValueError: The record belongs to another step.

    >>> from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER
    >>> from lmms_egoplan.benchmarks.egointent.judge import Prediction, grade
    >>> answer = Prediction(
    ...     step_id="P01/3",
    ...     fields={"global_intent": "make toast"},
    ...     truncated=False,
    ...     frames_shown=8,
    ...     frames_sampled=30,
    ...     references={},
    ... )
    >>> (step,) = grade([answer], None, PAPER)  # without a judge
    >>> doc = {
    ...     "step_id": "P01/3",
    ...     "video_id": "P01",
    ...     "environment": "indoor",
    ...     "scenario": "tea",
    ...     "split_size": 300,
    ... }
    >>> values = values_of(step, doc, "overall")
    >>> values["local_intent"], values["global_intent"]
    ({'cluster': 'P01', 'score': 0.0, 'missing': True}, {'cluster': 'P01', 'missing': False})
    """
    if step.step_id != doc["step_id"]:
        raise ValueError(f"step {doc['step_id']}: the judged answer belongs to step {step.step_id}")
    cluster = doc["video_id"]
    ratings = _known_ratings(step)
    is_rated = len(ratings) == len(step.rated)
    values: Values = {}
    for name in step.rated:
        rating = score_value(ratings.get(name), cluster)
        values[name] = {**rating, "missing": name in step.missing}
    values[mean] = score_value(fmean(ratings.values()) if is_rated else None, cluster)
    values["parsed"] = {"found": len(step.fields)}
    values["judge_coverage"] = {
        "found": len(step.askable(step.fields)),
        "judged": len(step.judged),
    }
    values["truncated"] = score_value(step.truncated, cluster)
    values["suspect"] = {"found": len(step.fields), "suspect": len(step.suspect)}
    values |= coverage_values(
        doc,
        official=EGOINTENT.official["test"],
        scored=len(ratings) / len(step.rated),
        origin=origin_of(doc),
    )
    values["details"] = _details(step, doc)
    return values


def _known_ratings(step: JudgedStep) -> dict[str, float]:
    """Return the ratings of a step, without missing ones."""
    return {name: rating for name, rating in step.rated.items() if rating is not None}


def _details(step: JudgedStep, doc: Mapping[str, Any]) -> dict[str, Any]:
    record = asdict(step)
    record["missing"] = step.missing
    record["video_id"] = doc["video_id"]
    record["environment"] = doc["environment"]
    record |= group_of(doc)
    return {
        "step": record,
        "judge_model": [step.judges[name] for name in step.judged],
        **judge_tokens(step.judge_prompt_tokens, step.judge_reply_tokens),
        "truncated_of": int(step.truncated is not None),
        "media": step.media,
        "num_steps": 1,
        **split_details(doc),
    }


def field_score(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the score of one field (Table 3), 0..100.

    It is the mean rating if all found fields are judged. Return NaN if there are no values, or if
    fields were found but none is judged.

    >>> field_score([{"score": 80.0, "missing": False}, {"score": 0.0, "missing": True}])
    40.0
    >>> unjudged = {"missing": False}
    >>> field_score([{"score": 80.0, "missing": False}, unjudged])
    80.0
    """
    found_ratings = [value.get("score") for value in values if not value["missing"]]
    return _score(found_ratings, len(values))


def overall(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean of the three fields' scores.

    This is Overall in Table 3, or Indoor or Outdoor if `values` contains only such steps.

    Args:
        values: Records with ``ratings`` and ``missing``.

    Returns:
        0..100; NaN if a field has no score.

    >>> ratings = {"local_intent": 90.0, "global_intent": 60.0, "next_step_plan": 30.0}
    >>> overall([{"ratings": ratings, "missing": []}])
    60.0
    """
    return mean_of_ratings(values, "ratings", FIELDS)


def overall_missing_zero(values: Sequence[Mapping[str, Any]]) -> float:
    """Return `overall` as on the release's leaderboard.

    It is the mean over the file's steps, with 0 for steps that were not asked.

    Args:
        values: Records with ``ratings``, ``missing`` and ``split_size``, one for each step that the
            model was asked.

    Returns:
        0..100; NaN if a found field is not judged, because it does not count as missing.

    >>> ratings = {"local_intent": 90.0, "global_intent": 60.0, "next_step_plan": 30.0}
    >>> overall_missing_zero([{"ratings": ratings, "missing": [], "split_size": 2}])
    30.0
    """
    for value in values:
        if None in value["ratings"].values():
            return math.nan
    (split_size,) = {value["split_size"] for value in values}
    return overall(values) * len(values) / split_size


def mean_of_ratings(values: Sequence[Mapping[str, Any]], key: str, names: Collection[str]) -> float:
    """Return the mean of several ratings' scores; NaN if one of them has none.

    Args:
        values: Records with the ratings under `key`, and ``missing``.
        key: Key of the ratings.
        names: Names of the ratings.

    >>> step = {"scores": {"gf": 80.0, "hic": 40.0}, "missing": []}
    >>> mean_of_ratings([step], "scores", ("gf", "hic"))
    60.0
    """
    scores: list[float] = []
    for name in names:
        found_in = [value for value in values if name not in value["missing"]]
        found_ratings = [value[key][name] for value in found_in]
        scores.append(_score(found_ratings, len(values)))
    return fmean(scores)


def group_scores(values: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return `overall` for each scenario (as in the paper's Fig. 7) or goal category.

    The lowest score is first. Groups without a score come last.

    >>> ratings = {"local_intent": 90.0, "global_intent": 60.0, "next_step_plan": 30.0}
    >>> values = [
    ...     {"ratings": ratings, "missing": [], "scenario": "cooking"},
    ...     {"ratings": dict.fromkeys(ratings, 40.0), "missing": [], "scenario": "gardening"},
    ... ]
    >>> group_scores(values)
    {'gardening': 40.0, 'cooking': 60.0}
    >>> group_scores([{"ratings": ratings, "missing": [], "category": "COOKING:MAKE_OMELET"}])
    {'COOKING:MAKE_OMELET': 60.0}
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for value in values:
        group = value[_group_name(value)]
        groups.setdefault(group, []).append(value)
    scores = {group: overall(steps) for group, steps in groups.items()}

    def rank(group: str) -> tuple[bool, float, str]:
        score = scores[group]
        return math.isnan(score), score, group

    return {group: scores[group] for group in sorted(scores, key=rank)}


def group_of(doc: Mapping[str, Any]) -> dict[str, str]:
    """Return a step's group with its name: ``scenario``, or ``category`` for a Goal-Step step.

    >>> group_of({"scenario": "cooking"})
    {'scenario': 'cooking'}
    """
    name = _group_name(doc)
    return {name: doc[name]}


def _group_name(doc: Mapping[str, Any]) -> str:
    if doc.get("category") is None:
        return "scenario"
    return "category"


def origin_of(doc: Mapping[str, Any]) -> str | None:
    """Return the origin of a step; None for a step of the benchmark.

    A step of the benchmark is verified and has no category.

    >>> origin_of({"category": None, "unverified": True}), origin_of({"scenario": "cooking"})
    ('unverified steps', None)
    """
    if doc.get("category") is not None:
        return GOALSTEP_STEPS
    if doc.get("origin"):
        return doc["origin"]
    if doc.get("unverified"):
        return "unverified steps"
    return None


def details(values: Sequence[Value]) -> dict[str, Any]:
    """Aggregate the ``details`` of a step or of its diagnosis.

    >>> details([{"num_steps": 1, "media": "video"}, {"num_steps": 1, "media": "video"}])
    {'media': 'video', 'num_steps': 2}
    """
    return aggregate_details(values, _AGGREGATIONS)


_AGGREGATIONS: Aggregations = {
    "scenario": group_scores,
    "category": group_scores,
    "judge_model": names,
    "judge_prompt_tokens": count,
    "judge_reply_tokens": count,
    "judge_tokens_of": count,
    "truncated_of": count,
    "media": tallied,
    "num_steps": count,
    "split_size": the_same,
    "without_partner": the_same,
}


def parsed_share(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the fraction, 0..1, of fields that were found in the replies, out of three per step.

    >>> parsed_share([{"found": 3}, {"found": 0}])
    0.5
    """
    mean_found = fmean(value["found"] for value in values)
    return mean_found / len(FIELDS)


def _score(found_ratings: Sequence[float | None], num_fields: int) -> float:
    """Compute the fraction of found fields, times the mean rating of the judged ones.

    Args:
        found_ratings: The ratings of fields that were found; None for one that is not judged.
        num_fields: Number of fields, found or missing.

    Returns:
        NaN if there are no fields, or if fields were found but none is judged.
    """
    if num_fields == 0:
        return math.nan
    if not found_ratings:
        return 0.0
    judged_ratings = [rating for rating in found_ratings if rating is not None]
    if not judged_ratings:
        return math.nan
    return len(found_ratings) / num_fields * fmean(judged_ratings)
