"""The benchmark's tasks in the runs, with what each says of its plans."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lmms_egoplan.benchmarks.actplan.activities import ACTIVITY_TYPES, SETTINGS
from lmms_egoplan.benchmarks.actplan.metrics import LENGTH_BINS, length_bin
from lmms_egoplan.benchmarks.actplan.prepare import PAPER
from lmms_egoplan.benchmarks.actplan.report.plans import MEASURES, Mean, Plan, mean_of, read_plan
from lmms_egoplan.report.by_question import by_question
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.run import Run, TaskRun

_TASK, _TEXT_ONLY = "actplan", "actplan_text_only"
# Tasks that ask for one part of the activities, which is no score of the benchmark.
_PARTS = {f"actplan_{setting}": setting for setting in SETTINGS}
INSTANCES = {setting: PAPER[f"{setting}_instances"] for setting in SETTINGS}
# How many plans a measure is over, where the harness tells.
_COUNTS = {
    **dict.fromkeys(("lcs_norm", "lcs", "lcs_norm_parsed", "lcs_parsed"), "num_gold_1"),
    **dict.fromkeys(("lcs_norm_gold_2", "lcs_gold_2"), "num_gold_2"),
    **dict.fromkeys(("plan_length", "bleurt_correct", "empty", "unparsed"), "num_plans"),
    "truncated": "truncated_of",
}
GROUPS = {
    "setting": SETTINGS,
    "length": (*map(length_bin, LENGTH_BINS), length_bin(LENGTH_BINS[-1] + 1), length_bin(None)),
    "activity_type": ACTIVITY_TYPES,
}
_GROUPED = {"lcs_norm": "by", "lcs_norm_parsed": "parsed_by", "bleurt_correct": "bleurt_by"}
BY_SETTING = ("lcs_norm", "lcs_norm_parsed", "form_validity", "plan_length", "bleurt_correct")


@dataclass(frozen=True)
class Planned:
    """One task of a run; plans: None without samples."""

    name: str
    run: Run
    task_run: TaskRun
    plans: dict[str, Plan] | None

    @property
    def is_text_only(self) -> bool:
        return self.task_run.task.startswith(_TEXT_ONLY)

    @property
    def part(self) -> str | None:
        """The setting that the task is about; None for both."""
        return _PARTS.get(self.task_run.task)

    @property
    def official(self) -> int:
        """Instances that the paper has for the task."""
        return INSTANCES[self.part] if self.part else sum(INSTANCES.values())

    @property
    def compares(self) -> bool:
        """Whether the task's official instances were all asked."""
        return (self.number("num_plans") or 0) >= self.official

    def number(self, metric: str) -> float | None:
        """The harness's own; None for NaN and for what is not there."""
        return self.task_run.number(metric)

    def percent(self, metric: str) -> float | None:
        return in_percent(self.number(metric))

    @cached_property
    def means(self) -> dict[str, Mean]:
        """Of all plans, by measure."""
        if self.plans is not None:
            return {measure: mean_of(self.plans.values(), measure) for measure in MEASURES}
        return {name: Mean(self.number(name), None, self.number(_COUNTS.get(name, ""))) for name in MEASURES}

    @cached_property
    def groups(self) -> dict[str, dict[str, dict[str, Mean]]]:
        """By ``setting``, ``length`` or ``activity_type``, then by group, where the run has it, then by measure."""
        return {by: self._groups_with_samples(by) if self.plans else self._groups_without(by) for by in GROUPS}

    def _groups_with_samples(self, by: str) -> dict[str, dict[str, Mean]]:
        members: dict[str, list[Plan]] = {group: [] for group in GROUPS[by]}
        for plan in self.plans.values():
            members[plan.group(by)].append(plan)
        measures = BY_SETTING if by == "setting" else ("lcs", *_GROUPED)
        return {
            group: {measure: mean_of(plans, measure) for measure in measures}
            for group, plans in members.items()
            if plans
        }

    def _groups_without(self, by: str) -> dict[str, dict[str, Mean]]:
        """From the harness's own breakdowns, which have four decimals."""
        metrics = self.task_run.metrics
        found = {prefix: metrics.get(f"{prefix}_{by}") or {} for prefix in (*_GROUPED.values(), "plans_by")}
        groups = [group for group in GROUPS[by] if group in found["by"]]
        return {
            group: {
                measure: Mean(
                    finite(found[prefix].get(group)),
                    plans=None if prefix == "bleurt_by" else found["plans_by"].get(group),
                )
                for measure, prefix in _GROUPED.items()
            }
            for group in groups
        }

    def of(self, by: str, group: str, measure: str) -> Mean:
        return self.groups[by].get(group, {}).get(measure, Mean())

    def shares(self, mean: Mean) -> dict[str, Value]:
        """By column of `SHARES`, for a score over these plans."""
        coverage = None if mean.plans is None else min(1.0, mean.plans / self.official)
        return {"plans": mean.plans, "coverage": in_percent(coverage), "truncated": self.percent("truncated")}


def read_planned(runs: Iterable[Run]) -> list[Planned]:
    """The tasks in these runs.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the tasks log, or an instance is there twice.
    """
    found = []
    for run in runs:
        for task_run in run.tasks.values():
            if shared_file(task_run.config) == "actplan":
                name = run.name if task_run.task == _TASK else f"{run.name} ({task_run.task})"
                plans = None
                if task_run.samples is not None:
                    read = (read_plan(run, task_run, sample) for sample in task_run.samples)
                    keyed = ((plan.key, plan) for plan in read)
                    plans = by_question(run, task_run, keyed, lambda key: f"instance {json.loads(key)[0]}")
                found.append(Planned(name, run, task_run, plans))
    return found


def finite(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def in_percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
