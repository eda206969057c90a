"""A plan as a run logs it, its measures, and their means over some plans."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.actplan.activities import ACTIVITY_TYPES, SETTINGS
from lmms_egoplan.benchmarks.actplan.metrics import length_bin
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.report.by_question import unreadable
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.statistics import bootstrap_interval

MEASURES = {
    "lcs_norm": "Norm. LCS",
    "lcs": "LCS, steps",
    "lcs_norm_gold_2": "Norm. LCS, gold plan 2",
    "lcs_gold_2": "LCS, gold plan 2, steps",
    "lcs_norm_best": "Norm. LCS, better of the two",
    "lcs_best": "LCS, better of the two, steps",
    "lcs_norm_parsed": "Norm. LCS, parsed",
    "lcs_parsed": "LCS, parsed, steps",
    "form_validity": "Form validity",
    "plan_length": "Plan length, steps",
    "bleurt_correct": "Correct by classifier",
    "empty": "Empty",
    "unparsed": "Without a step",
    "truncated": "Truncated",
}


@dataclass(frozen=True)
class Plan:
    """golds: gold plans 1 and 2; doc: the prepared row, which lm-eval alone logs."""

    score: PlanScore
    setting: str
    activity: str
    activity_type: str
    golds: tuple[list[str], list[str]]
    doc: Mapping[str, Any] | None

    @property
    def key(self) -> str:
        """Tells the instance from those of other releases with the same id."""
        return instance_key(self.score.id, self.golds)

    @cached_property
    def values(self) -> dict[str, float | None]:
        """By name of the measure."""
        score = self.score
        shares = {
            "bleurt_correct": score.bleurt,
            "empty": not score.official,
            "unparsed": not score.parsed,
            "truncated": score.truncated,
        }
        return {name: None if x is None else float(x) for name, x in (score.measures() | shares).items()}

    def group(self, by: str) -> str:
        groups = {"setting": self.setting, "activity_type": self.activity_type}
        return length_bin(self.score.reference_lengths[0]) if by == "length" else groups[by]


@dataclass(frozen=True)
class Mean:
    """A measure over some plans: those for which it is defined; None is what is not known or not there."""

    value: float | None = None
    interval: tuple[float, float] | None = None
    plans: int | None = None
    activities: int | None = None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        return self.interval or (None, None)


def read_plan(run: Run, task_run: TaskRun, sample: Mapping[str, Any]) -> Plan:
    record, doc = sample.get("lcs_norm", {}), sample.get("doc")
    told = {field.name: record[field.name] for field in fields(PlanScore) if field.name in record}
    try:
        score = PlanScore.from_text(json.dumps(told))
        golds = (record.get("gold_plan_1"), record.get("gold_plan_2"))
        places = [record.get(name) for name in ("setting", "activity", "activity_type")]
        if places[0] not in SETTINGS or not isinstance(places[1], str) or places[2] not in ACTIVITY_TYPES:
            raise ValueError(f"{score.id}: no setting, activity and type of activity of the benchmark: {places}")
        if not all(isinstance(gold, list) and all(isinstance(step, str) for step in gold) for gold in golds):
            raise ValueError(f"{score.id}: gold plans must be lists of steps")
    except ValueError as error:
        raise unreadable(run, task_run, error) from error
    return Plan(score, *places, golds, doc if isinstance(doc, dict) else None)


def instance_key(instance: str, golds: Sequence[Sequence[str]]) -> str:
    return json.dumps([instance, *golds])


def mean_of(plans: Iterable[Plan], measure: str) -> Mean:
    chosen = [plan for plan in plans if plan.values[measure] is not None]
    if not chosen:
        return Mean(plans=0, activities=0)
    values, activities = [plan.values[measure] for plan in chosen], [plan.activity for plan in chosen]
    return Mean(fmean(values), bootstrap_interval(values, activities), len(chosen), len(set(activities)))
