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
from lmms_egoplan.benchmarks.aggregations import Value, Values, names
from lmms_egoplan.coverage import coverage_fields

# Upper ends of the bins of gold plan 1's length, in steps. The bins of Fig. 5 are not legible.
LENGTH_BINS = (10, 20, 30, 40, 50)
BREAKDOWNS = ("setting", "length", "activity_type")


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

        - each of `PlanScore.measures`, with ``score`` only if it is defined
        - ``lcs_norm`` also has all fields of `PlanScore`, its `PlanScore.diagnostics`, ``setting``,
          ``activity``, ``activity_type`` and both gold plans
        - ``by_setting``, ``by_length``, ``by_activity_type``: the normalised LCS with its group;
          ``parsed_by_...`` for the parsed reading; ``plans_by_...`` as ``by_...``
        - only with a classifier: ``bleurt_correct``, ``bleurt_truncated`` and ``bleurt_by_...``
        - ``empty``, ``unparsed``, ``truncated``, ``truncated_of``, ``num_gold_1``, ``num_gold_2``,
          ``encoder``, ``bleurt_model``, ``num_plans`` and the values of `coverage_fields`

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
    (2, 0.667, {'activity': 'clean_table'})
    """
    (text,) = responses
    score = PlanScore.from_text(text)
    if score.id != doc["id"]:
        raise ValueError(f"instance {doc['id']} got the scored plan of {score.id}")
    labels = {name: doc[name] for name in ("setting", "activity", "activity_type")}
    groups = labels | {"length": length_bin(score.reference_lengths[0])}
    cluster = {"activity": doc["activity"]}
    values: dict[str, dict[str, Any]] = {}
    for name, value in score.measures().items():
        values[name] = dict(cluster)
        if value is not None:
            values[name]["score"] = value
    if score.bleurt is not None:
        values["bleurt_correct"] = cluster | {
            "score": float(score.bleurt),
            "truncated": score.bleurt_truncated,
        }
        values["bleurt_truncated"] = {"truncated": score.bleurt_truncated}
    values |= _values_by_group(values, groups)
    golds = {"gold_plan_1": doc["gold_plan_1"], "gold_plan_2": doc["gold_plan_2"]}
    values["lcs_norm"] = values["lcs_norm"] | asdict(score) | score.diagnostics() | labels | golds
    return values | {
        "empty": {"is": not score.official},
        "unparsed": {"is": not score.parsed},
        "truncated": {"truncated": score.truncated},
        "truncated_of": {"truncated": score.truncated},
        "num_gold_1": {"is": score.reference_lengths[0] is not None},
        "num_gold_2": {"is": score.reference_lengths[1] is not None},
        "encoder": {"name": score.encoder},
        "bleurt_model": {"name": score.classifier},
        "num_plans": {"id": score.id},
        **coverage_fields(doc, official_instances(doc), "score" in values["lcs_norm"]),
    }


# Measures with breakdowns, by the prefix of the breakdowns' names.
_MEASURES_BY_PREFIX = {
    "by": "lcs_norm",
    "plans_by": "lcs_norm",
    "parsed_by": "lcs_norm_parsed",
    "bleurt_by": "bleurt_correct",
}


def _values_by_group(
    values: Mapping[str, Mapping[str, Any]], groups: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return a plan's values for the breakdowns of measures: its group, and the measure."""
    grouped: dict[str, dict[str, Any]] = {}
    for prefix, measure in _MEASURES_BY_PREFIX.items():
        if measure not in values:
            continue
        for name in BREAKDOWNS:
            value: dict[str, Any] = {"group": groups[name]}
            if "score" in values[measure]:
                value["mean_of"] = values[measure]["score"]
            grouped[f"{prefix}_{name}"] = value
    return grouped


def mean_by_group(values: Sequence[Value]) -> dict[str, float]:
    """Return the mean of every group, to four decimals.

    The mean is NaN if the measure is undefined for all plans of a group.

    Args:
        values: Records with ``group`` and, if the measure is defined, ``mean_of``.

    >>> values = [
    ...     {"group": "11-20", "mean_of": 0.25},
    ...     {"group": "1-10", "mean_of": 0.5},
    ...     {"group": "11-20"},
    ... ]
    >>> mean_by_group(values)
    {'1-10': 0.5, '11-20': 0.25}
    """
    means: dict[str, float] = {}
    for group, members in by_group(values).items():
        numbers = [member["mean_of"] for member in members if "mean_of" in member]
        means[group] = round(fmean(numbers), 4) if numbers else math.nan
    return means


def plans_by_group(values: Sequence[Value]) -> dict[str, int]:
    """Count the plans with a defined measure in every group.

    >>> values = [
    ...     {"group": "11-20", "mean_of": 0.25},
    ...     {"group": "1-10", "mean_of": 0.5},
    ...     {"group": "11-20"},
    ... ]
    >>> plans_by_group(values)
    {'1-10': 1, '11-20': 1}
    """
    counts: dict[str, int] = {}
    for group, members in by_group(values).items():
        counts[group] = sum("mean_of" in member for member in members)
    return counts


def by_group(values: Sequence[Value], field: str = "group") -> dict[str, list[Value]]:
    """Group records by a field; groups are sorted by length, or alphabetically.

    >>> list(by_group([{"group": "51+"}, {"group": "1-10"}, {"group": "51+"}]))
    ['1-10', '51+']
    """
    groups: dict[str, list[Value]] = {}
    for value in values:
        groups.setdefault(value[field], []).append(value)
    return {group: groups[group] for group in sorted(groups, key=_by_length)}


def classifier_names(values: Sequence[Value]) -> str:
    """Name the classifiers; without one, say why ``bleurt_correct`` is missing.

    >>> classifier_names([{"name": None}])
    'none: LMMS_EGOPLAN_BLEURT is not set'
    """
    return names(values, f"none: {BLEURT_VARIABLE} is not set")


def _by_length(group: str) -> tuple[int, str]:
    """Return a key that sorts bins of `length_bin` by length, and other groups by name."""
    start = group.rstrip("+").partition("-")[0]
    return int(start) if start.isdecimal() else 0, group
