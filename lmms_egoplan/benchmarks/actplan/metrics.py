"""Compute ActPlan-1K's metrics (sec. 4.2, Table 4): values per plan, means and breakdowns.

The main metric is ``lcs_norm``: the longest common subsequence of a plan and gold plan 1, divided
by the longer one's length (`lcs.lcs_norm`).

A measure that is undefined for a plan (no such gold plan, no step) is excluded from the mean. The
number of plans in the mean is reported with it.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.actplan.classifier import BLEURT_VARIABLE
from lmms_egoplan.benchmarks.actplan.instances import official_instances
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.benchmarks.aggregations import (
    Aggregations,
    Value,
    Values,
    aggregate_details,
    count,
    names,
    score_value,
    the_same,
)
from lmms_egoplan.coverage import coverage_values, split_details

# Upper ends of the bins of gold plan 1's length, in steps. The bins of Fig. 5 are not legible.
LENGTH_BINS = (10, 20, 30, 40, 50)
BREAKDOWNS = ("setting", "length", "activity_type")
BROKEN_DOWN = ("lcs_norm", "lcs_norm_parsed", "bleurt_correct")
"""The measures with a mean for each group."""


def length_bin(steps: int | None) -> str:
    """Name the bin of a gold plan's length.

    The bins are ``1-10``, ``11-20``, ... ``51+``, and ``unknown`` without a gold plan.

    >>> length_bin(12), length_bin(51), length_bin(None)
    ('11-20', '51+', 'unknown')
    """
    if steps is None:
        return "unknown"
    bin_index = bisect_left(LENGTH_BINS, steps)
    start = (0, *LENGTH_BINS)[bin_index] + 1
    if bin_index == len(LENGTH_BINS):
        return f"{start}+"
    return f"{start}-{LENGTH_BINS[bin_index]}"


def score_plan(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one plan.

    Args:
        doc: A row of the prepared dataset.
        responses: A single text written by `PlanScore.to_text`.

    Returns:
        Values by metric:

        - each of `PlanScore.measures`, with a score only if it is defined
        - ``bleurt_correct`` and ``bleurt_truncated``, only with a classifier
        - ``empty``, ``unparsed``, ``truncated``: 1 or 0; without a score if unknown
        - the values of `coverage_values`
        - ``details``: ``plan``, all fields of `PlanScore`, ``setting``, ``activity``,
          ``activity_type`` and both gold plans; ``breakdown``, the plan's group by `BREAKDOWNS`
          and its measures; ``truncated_of``, ``num_gold_1``,
          ``num_gold_2``, ``encoder``, ``bleurt_model``, ``num_plans``, and those of
          `split_details`

    Raises:
        ValueError: There is not exactly one response, or it is not a scored plan, or it belongs to
            another instance.

    >>> plan = ["walk_to(table)", "grab(cup)"]
    >>> gold = ["walk_to(table)", "open(box)", "grab(cup)"]
    >>> score = PlanScore(
    ...     id="clean_table/1",
    ...     official=plan,
    ...     parsed=plan,
    ...     reference_lengths=[3, None],
    ...     lcs_each=[2, None],
    ...     lcs_parsed_each=[2, None],
    ...     form_validity=1.0,
    ...     truncated=False,
    ...     bleurt=None,
    ...     bleurt_probability=None,
    ...     bleurt_truncated=None,
    ...     encoder="all-MiniLM-L6-v2",
    ...     classifier=None,
    ... )
    >>> doc = {
    ...     "id": "clean_table/1",
    ...     "setting": "normal",
    ...     "activity": "clean_table",
    ...     "activity_type": "cleaning",
    ...     "gold_plan_1": gold,
    ...     "gold_plan_2": [],
    ...     "split_size": 1187,
    ... }
    >>> values = score_plan(doc, [score.to_text()])
    >>> values["lcs"]["score"], round(values["lcs_norm"]["score"], 3), values["lcs_gold_2"]
    (2.0, 0.667, {'cluster': 'clean_table'})
    """
    (text,) = responses
    score = PlanScore.from_text(text)
    if score.id != doc["id"]:
        raise ValueError(f"instance {doc['id']} got the scored plan of {score.id}")
    cluster = doc["activity"]
    measures = score.measures()
    flags: dict[str, bool | None] = {}
    if score.bleurt is not None:
        measures["bleurt_correct"] = float(score.bleurt)
        flags["bleurt_truncated"] = score.bleurt_truncated
    flags["empty"] = not score.official
    flags["unparsed"] = not score.parsed
    flags["truncated"] = score.truncated
    values: Values = {}
    for name, value in (measures | flags).items():
        values[name] = score_value(value, cluster)
    values |= coverage_values(doc, official_instances(doc), measures["lcs_norm"] is not None)
    values["details"] = _details(doc, score, measures)
    return values


def _details(
    doc: Mapping[str, Any], score: PlanScore, measures: Mapping[str, float | None]
) -> dict[str, Any]:
    labels = {name: doc[name] for name in ("setting", "activity", "activity_type")}
    golds = {"gold_plan_1": doc["gold_plan_1"], "gold_plan_2": doc["gold_plan_2"]}
    groups = {
        "setting": doc["setting"],
        "length": length_bin(score.reference_lengths[0]),
        "activity_type": doc["activity_type"],
    }
    measures_by_group = {name: measures[name] for name in BROKEN_DOWN if name in measures}
    return {
        "plan": asdict(score) | labels | golds,
        "breakdown": {"groups": groups, "measures": measures_by_group},
        "truncated_of": int(score.truncated is not None),
        "num_gold_1": int(score.reference_lengths[0] is not None),
        "num_gold_2": int(score.reference_lengths[1] is not None),
        "encoder": score.encoder,
        "bleurt_model": score.classifier,
        "num_plans": 1,
        **split_details(doc),
    }


def details(values: Sequence[Value]) -> dict[str, Any]:
    """Aggregate the ``details`` of `score_plan`.

    >>> details([{"num_plans": 1, "num_gold_2": 0}, {"num_plans": 1, "num_gold_2": 1}])
    {'num_gold_2': 1, 'num_plans': 2}
    """
    return aggregate_details(values, _AGGREGATIONS)


def broken_down(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the plans and the means of each group of each breakdown.

    Args:
        entries: Records with ``groups``, by breakdown, and ``measures``; None for a measure that is
            undefined for the plan.

    Returns:
        For each breakdown and group, ``plans``, the number of plans with a normalised LCS, and the
        mean of each measure, to four decimals; NaN if it is undefined for all plans of the group.

    >>> groups = {"setting": "normal", "length": "11-20", "activity_type": "cleaning"}
    >>> entries = [
    ...     {"groups": groups, "measures": {"lcs_norm": 0.25}},
    ...     {"groups": groups | {"length": "1-10"}, "measures": {"lcs_norm": 0.5}},
    ...     {"groups": groups, "measures": {"lcs_norm": None}},
    ... ]
    >>> broken_down(entries)["length"]
    {'1-10': {'plans': 1, 'lcs_norm': 0.5}, '11-20': {'plans': 1, 'lcs_norm': 0.25}}
    """
    breakdowns: dict[str, dict[str, dict[str, float]]] = {}
    for breakdown in BREAKDOWNS:
        records = [{"group": entry["groups"][breakdown], **entry["measures"]} for entry in entries]
        breakdowns[breakdown] = {
            group: _means(members) for group, members in by_group(records).items()
        }
    return breakdowns


def _means(members: Sequence[Value]) -> dict[str, float]:
    """Return the entry of one group, see `broken_down`."""
    means: dict[str, float] = {
        "plans": sum(member.get("lcs_norm") is not None for member in members)
    }
    for measure in BROKEN_DOWN:
        if not any(measure in member for member in members):
            continue
        numbers = [member[measure] for member in members if member.get(measure) is not None]
        means[measure] = round(fmean(numbers), 4) if numbers else math.nan
    return means


def by_group(values: Sequence[Value], field: str = "group") -> dict[str, list[Value]]:
    """Group records by a field; groups are sorted by length, or alphabetically.

    >>> list(by_group([{"group": "51+"}, {"group": "1-10"}, {"group": "51+"}]))
    ['1-10', '51+']
    """
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(value[field], []).append(value)
    return {group: groups[group] for group in sorted(groups, key=_by_length)}


def classifier_names(entries: Sequence[str | None]) -> str:
    """Name the classifiers; without one, say why ``bleurt_correct`` is missing.

    >>> classifier_names([None])
    'none: LMMS_EGOPLAN_BLEURT is not set'
    """
    return names(entries, f"none: {BLEURT_VARIABLE} is not set")


_AGGREGATIONS: Aggregations = {
    "breakdown": broken_down,
    "truncated_of": count,
    "num_gold_1": count,
    "num_gold_2": count,
    "encoder": names,
    "bleurt_model": classifier_names,
    "num_plans": count,
    "split_size": the_same,
    "without_partner": the_same,
}


def _by_length(group: str) -> tuple[int, str]:
    """Return a key that sorts bins of `length_bin` by length, and other groups by name."""
    start = group.rstrip("+").partition("-")[0]
    return int(start) if start.isdecimal() else 0, group
