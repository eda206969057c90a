"""EgoIntent's metrics: per step what a harness collects, and the aggregations over a run.

A step's values are records, as a harness logs them. A field that is missing in the reply scores 0. The paper is silent
about it; the leaderboard of its public release (2026-08) says that missing predictions receive zero. A field that no
judge has rated is neither right nor wrong, and counts only against the coverage: a score is the share of the fields
that were found times the mean rating of those that are judged, however many these are.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.aggregations import Values
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep, JudgedStep
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.coverage import covered


def score_step(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one step.

    Args:
        doc: a row of the prepared dataset.
        responses: one text of `GradedStep`.

    Returns:
        Each of `FIELDS`, with ``score`` (0..100) only where there is a rating; ``overall``, with all fields of
        `GradedStep`, ``missing`` (fields), ``video_id``, ``environment``, ``scenario`` or, of a Goal-Step step,
        ``category`` and, only where all three fields have a rating, their mean as ``score``; ``indoor`` or
        ``outdoor``, if known; one of ``scenario`` and ``category``; ``parsed``, ``judge_coverage``, ``truncated``,
        ``truncated_of``, ``suspect``, ``judge_model``, ``media``, ``unverified``, ``num_steps`` and those of `covered`.

    Raises:
        ValueError: not one response, one that is no graded step, or the answer to another step.

    >>> from lmms_egoplan.benchmarks.egointent.scoring import Prediction, grade
    >>> from lmms_egoplan.judging.settings import JudgeSettings
    >>> references = {"local_intent": "cut the bread", "global_intent": "make toast", "next_step_plan": "spread butter"}
    >>> fields = {"local_intent": "cut bread", "global_intent": "make toast"}  # no next step was found in the reply
    >>> answer = Prediction(
    ...     step_id="P01/3", fields=fields, truncated=False, frames_shown=8, frames_sampled=30, references=references
    ... )
    >>> (step,) = grade([answer], JudgeSettings("demo"))
    >>> doc = {
    ...     "step_id": "P01/3", "video_id": "P01", "environment": "indoor", "scenario": "cooking", "unverified": False,
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
    values, group = values_of(step, doc, "overall"), group_of(doc)
    ratings = {"ratings": step.ratings, "missing": step.missing}
    return values | {
        **({doc["environment"]: ratings} if doc["environment"] in ENVIRONMENTS else {}),
        **dict.fromkeys(group, ratings | group),
        "unverified": {"unverified": doc["unverified"]},
    }


def score_release_step(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of `score_step` under `RELEASE_NAMES`, and ``overall_missing_zero``.

    >>> from lmms_egoplan.benchmarks.egointent.scoring import Prediction, grade
    >>> from lmms_egoplan.judging.settings import JudgeSettings
    >>> references = {"local_intent": "cut the bread", "global_intent": "make toast", "next_step_plan": "spread butter"}
    >>> answer = Prediction(
    ...     step_id="P01/3", fields={"global_intent": "make toast"}, truncated=False, frames_shown=8, frames_sampled=30,
    ...     references=references,
    ... )
    >>> (step,) = grade([answer], JudgeSettings("demo"))
    >>> doc = {
    ...     "step_id": "P01/3", "video_id": "P01", "environment": "indoor", "scenario": "cooking", "unverified": False,
    ...     "split_size": 300,
    ... }
    >>> values = score_release_step(doc, [step.to_text()])
    >>> values["procedural_intent"]["score"], values["overall_missing_zero"]["split_size"]
    (100.0, 300)
    """
    values = score_step(doc, responses)
    whole = {name: values["overall"][name] for name in ("ratings", "missing")}
    return {RELEASE_NAMES.get(name, name): value for name, value in values.items()} | {
        "overall_missing_zero": whole | {"split_size": doc["split_size"]}
    }


def values_of(step: JudgedStep, doc: Mapping[str, Any], mean: str) -> Values:
    """Return the values that every judged record of a step has.

    Args:
        step: The judged record.
        doc: A row of the prepared dataset.
        mean: Name of the value with the mean of the ratings and the whole record.

    Raises:
        ValueError: the record is of another step.

    >>> from lmms_egoplan.benchmarks.egointent.scoring import Prediction, grade
    >>> fields = {"global_intent": "make toast"}
    >>> answer = Prediction(
    ...     step_id="P01/3", fields=fields, truncated=False, frames_shown=8, frames_sampled=30, references={}
    ... )
    >>> (step,) = grade([answer], None)  # without a judge
    >>> doc = {"step_id": "P01/3", "video_id": "P01", "environment": "indoor", "scenario": "tea", "split_size": 300}
    >>> values = values_of(step, doc, "overall")
    >>> values["local_intent"], values["global_intent"]
    ({'missing': True, 'video_id': 'P01', 'score': 0.0}, {'missing': False, 'video_id': 'P01'})
    """
    if step.step_id != doc["step_id"]:
        raise ValueError(f"step {doc['step_id']} got the judged answer to {step.step_id}")
    place = {name: doc[name] for name in ("video_id", "environment")} | group_of(doc)
    known = {name: rating for name, rating in step.rated.items() if rating is not None}
    whole = asdict(step) | {"missing": step.missing} | place
    if len(known) == len(step.rated):
        whole["score"] = fmean(known.values())
    by_rating = {
        name: {"missing": name in step.missing, "video_id": doc["video_id"]}
        | ({"score": known[name]} if name in known else {})
        for name in step.rated
    }
    return by_rating | {
        mean: whole,
        "parsed": {"found": len(step.fields)},
        "judge_coverage": {"found": len(step.askable(step.fields)), "judged": len(step.judged)},
        "truncated": {"truncated": step.truncated},
        "truncated_of": {"truncated": step.truncated},
        "suspect": {"found": len(step.fields), "suspect": len(step.suspect)},
        "judge_model": {"judges": [step.judges[name] for name in step.judged]},
        "media": {"media": step.media},
        "num_steps": {"step_id": step.step_id},
        **covered(doc, EGOINTENT.official["test"], len(known) / len(step.rated), origin_of(doc)),
    }


def field_score(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the score of one field (Table 3), 0..100: the mean rating if all fields are judged; NaN as `overall`.

    >>> field_score([{"score": 80.0, "missing": False}, {"score": 0.0, "missing": True}])
    40.0
    >>> field_score([{"score": 80.0, "missing": False}, {"missing": False}])  # the second is not judged
    80.0
    """
    return _score([(value.get("score"), value["missing"]) for value in values])


def overall(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean of the three fields' scores: Table 3's Overall, and its Indoor or Outdoor over such steps.

    Args:
        values: records with ``ratings`` and ``missing``.

    Returns:
        0..100; NaN if a field has no score.

    >>> ratings = {"local_intent": 90.0, "global_intent": 60.0, "next_step_plan": 30.0}
    >>> overall([{"ratings": ratings, "missing": []}])
    60.0
    """
    return mean_of_ratings(values, "ratings", FIELDS)


def overall_missing_zero(values: Sequence[Mapping[str, Any]]) -> float:
    """Return `overall` by the rule of the release's leaderboard: over all steps of the file, 0 without a prediction.

    Args:
        values: records with ``ratings``, ``missing`` and ``split_size``, of the steps that were asked about.

    Returns:
        0..100; NaN if the judge has not rated all of what was found: a prediction without a rating is not missing.

    >>> ratings = {"local_intent": 90.0, "global_intent": 60.0, "next_step_plan": 30.0}
    >>> overall_missing_zero([{"ratings": ratings, "missing": [], "split_size": 2}])
    30.0
    """
    if any(None in value["ratings"].values() for value in values):
        return math.nan
    (size,) = {value["split_size"] for value in values}
    return overall(values) * len(values) / size


def mean_of_ratings(values: Sequence[Mapping[str, Any]], key: str, names: Collection[str]) -> float:
    """Return the mean of several ratings' scores; NaN if one of them has none.

    Args:
        values: records with the ratings under `key`, and ``missing``.
        names: of the ratings.

    >>> mean_of_ratings([{"scores": {"gf": 80.0, "hic": 40.0}, "missing": []}], "scores", ("gf", "hic"))
    60.0
    """
    return fmean(_score([(value[key][name], name in value["missing"]) for value in values]) for name in names)


def group_scores(values: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return `overall` of each scenario (Fig. 7) or goal category, lowest first; those without a score last.

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
        (group,) = group_of(value).values()
        groups.setdefault(group, []).append(value)
    scores = {group: overall(steps) for group, steps in groups.items()}
    return dict(sorted(scores.items(), key=lambda item: (math.isnan(item[1]), item[1], item[0])))


def group_of(doc: Mapping[str, Any]) -> dict[str, str]:
    """Return the ``scenario`` of a step, or the ``category`` of a Goal-Step step, by its name.

    >>> group_of({"scenario": "cooking"})
    {'scenario': 'cooking'}
    """
    name = "scenario" if doc.get("category") is None else "category"
    return {name: doc[name]}


def origin_of(doc: Mapping[str, Any]) -> str | None:
    """Return where a step comes from if it is not the benchmark's, whose steps are verified and have no category.

    >>> origin_of({"category": None, "unverified": True}), origin_of({"scenario": "cooking"})
    ('unverified steps', None)
    """
    if doc.get("category") is not None:
        return GOALSTEP_STEPS
    return doc.get("origin") or ("unverified steps" if doc.get("unverified") else None)


def parsed_share(values: Sequence[Mapping[str, Any]]) -> float:
    """Return the share in [0, 1] of the fields, three for each step, that were found in the replies.

    >>> parsed_share([{"found": 3}, {"found": 0}])
    0.5
    """
    return fmean(value["found"] for value in values) / len(FIELDS)


def _score(ratings: Sequence[tuple[float | None, bool]]) -> float:
    """Score ratings, each with whether its field is missing; NaN without any, or if no found field is judged."""
    found = [rating for rating, missing in ratings if not missing]
    judged = [rating for rating in found if rating is not None]
    if not ratings or (found and not judged):
        return math.nan
    return len(found) / len(ratings) * fmean(judged) if judged else 0.0
