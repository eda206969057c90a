"""ActPlan-1K's metrics: the values of a plan that a harness collects, aggregations over a run, and
breakdowns.

A measure that is undefined for a plan (no such gold plan, no step) is excluded from the mean. The
number of plans in the mean is reported with it.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.actplan.bleurt import BLEURT_VARIABLE
from lmms_egoplan.benchmarks.actplan.instances import official_instances
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.benchmarks.aggregations import Value, Values, names
from lmms_egoplan.coverage import covered

# Upper ends of the bins of gold plan 1's length, in steps. The bins of Fig. 5 are not legible.
LENGTH_BINS = (10, 20, 30, 40, 50)
BREAKDOWNS = ("setting", "length", "activity_type")


def length_bin(steps: int | None) -> str:
    """Name the bin of a gold plan's length:
    ``1-10``, ``11-20``, ... ``51+``; ``unknown`` without a gold plan.

    >>> length_bin(12), length_bin(51), length_bin(None)
    ('11-20', '51+', 'unknown')
    """
    if steps is None:
        return "unknown"
    bin_of = bisect_left(LENGTH_BINS, steps)
    start = (0, *LENGTH_BINS)[bin_of] + 1
    return f"{start}-{LENGTH_BINS[bin_of]}" if bin_of < len(LENGTH_BINS) else f"{start}+"


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
          ``encoder``, ``bleurt_model``, ``num_plans`` and the values of `covered`

    Raises:
        ValueError: There is not exactly one response, or it is not a scored plan, or it belongs to
            another instance.

    >>> plan, gold = ["walk_to(table)", "grab(cup)"], ["walk_to(table)", "open(box)", "grab(cup)"]
    >>> score = PlanScore(
    ...     "clean_table/1", plan, plan, reference_lengths=[3, None], lcs_each=[2, None], lcs_parsed_each=[2, None],
    ...     form_validity=1.0, truncated=False, bleurt=None, bleurt_probability=None, bleurt_truncated=None,
    ...     encoder="all-MiniLM-L6-v2", classifier=None,
    ... )
    >>> doc = {
    ...     "id": "clean_table/1", "setting": "normal", "activity": "clean_table", "activity_type": "cleaning",
    ...     "gold_plan_1": gold, "gold_plan_2": [], "split_size": 1187,
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
    values = {
        name: cluster | ({} if value is None else {"score": value})
        for name, value in score.measures().items()
    }
    if score.bleurt is not None:
        values["bleurt_correct"] = cluster | {
            "score": float(score.bleurt),
            "truncated": score.bleurt_truncated,
        }
        values["bleurt_truncated"] = {"truncated": score.bleurt_truncated}
    measured = {
        "by": "lcs_norm",
        "plans_by": "lcs_norm",
        "parsed_by": "lcs_norm_parsed",
        "bleurt_by": "bleurt_correct",
    }
    for prefix, measure in measured.items():
        if measure in values:
            mean_of = {"mean_of": values[measure]["score"]} if "score" in values[measure] else {}
            values |= {
                f"{prefix}_{name}": {"group": groups[name], **mean_of} for name in BREAKDOWNS
            }
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
        **covered(doc, official_instances(doc), "score" in values["lcs_norm"]),
    }


def mean_by_group(values: Sequence[Value]) -> dict[str, float]:
    """Return the mean of every group, to four decimals; NaN if the measure is undefined for all
    plans of a group.

    Args:
        values: Records with ``group`` and, if the measure is defined, ``mean_of``.

    >>> values = [{"group": "11-20", "mean_of": 0.25}, {"group": "1-10", "mean_of": 0.5}, {"group": "11-20"}]
    >>> mean_by_group(values)
    {'1-10': 0.5, '11-20': 0.25}
    """
    groups = by_group(values).items()
    defined = {
        group: [member["mean_of"] for member in members if "mean_of" in member]
        for group, members in groups
    }
    return {
        group: round(fmean(numbers), 4) if numbers else math.nan
        for group, numbers in defined.items()
    }


def plans_by_group(values: Sequence[Value]) -> dict[str, int]:
    """Count the plans with a defined measure in every group.

    >>> values = [{"group": "11-20", "mean_of": 0.25}, {"group": "1-10", "mean_of": 0.5}, {"group": "11-20"}]
    >>> plans_by_group(values)
    {'1-10': 1, '11-20': 1}
    """
    return {
        group: sum("mean_of" in member for member in members)
        for group, members in by_group(values).items()
    }


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
    start = group.rstrip("+").partition("-")[0]
    return (int(start), group) if start.isdecimal() else (0, group)
