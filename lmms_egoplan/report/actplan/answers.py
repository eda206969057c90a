"""Read the plans of ActPlan's runs, and compute their means."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, ClassVar, TypeGuard

from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES, INSTANCES, SETTINGS
from lmms_egoplan.benchmarks.actplan.metrics import BROKEN_DOWN, LENGTH_BINS, length_bin
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.jsonl import member
from lmms_egoplan.report.answers import logged
from lmms_egoplan.report.scores import Answer, Key, ScoredTask, in_percent, mean_of
from lmms_egoplan.report.tables import Value
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.text import counted

# Titles of the measures, in the order of the table of all scores.
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
GROUPS = {
    "setting": SETTINGS,
    "length": (*map(length_bin, LENGTH_BINS), length_bin(LENGTH_BINS[-1] + 1), length_bin(None)),
    "activity_type": ACTIVITY_TYPES,
}
BY_SETTING = ("lcs_norm", "lcs_norm_parsed", "form_validity", "plan_length", "bleurt_correct")

_TEXT_ONLY = "actplan_text_only"
# Tasks over one setting; their scores are not scores of the whole benchmark.
_PARTS = {f"actplan_{setting}": setting for setting in SETTINGS}
# Measures in steps. All others are shares.
_IN_STEPS = ("lcs", "lcs_gold_2", "lcs_best", "lcs_parsed", "plan_length")
# For each measure, the harness's metric that counts its plans, if one exists.
_COUNTS = {
    "lcs_norm": "num_gold_1",
    "lcs": "num_gold_1",
    "lcs_norm_parsed": "num_gold_1",
    "lcs_parsed": "num_gold_1",
    "lcs_norm_gold_2": "num_gold_2",
    "lcs_gold_2": "num_gold_2",
    "lcs_norm_best": "num_plans",
    "lcs_best": "num_plans",
    "plan_length": "num_plans",
    "bleurt_correct": "num_plans",
    "empty": "num_plans",
    "unparsed": "num_plans",
    "truncated": "truncated_of",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """A scored plan, with gold plans 1 and 2 in `golds`."""

    score: PlanScore
    golds: tuple[list[str], list[str]]


@dataclass(frozen=True)
class Planned(ScoredTask):
    """One task of a run.

    An answer's record is a `Plan`, its cluster the activity, and its groups are in `GROUPS`.
    """

    largest: ClassVar[float] = 1

    @property
    def is_text_only(self) -> bool:
        """True if the model saw no images."""
        return self.task_run.task.startswith(_TEXT_ONLY)

    @property
    def part(self) -> str | None:
        """The setting that the task covers; None for both."""
        return _PARTS.get(self.task_run.task)

    @property
    def official(self) -> float | None:
        """Number of the paper's instances for the task.

        For instances that are not the benchmark's, the number of prepared ones.
        """
        return self._instances if self.is_official else self.number("split_size")

    @property
    def _instances(self) -> int:
        return INSTANCES[self.part] if self.part else sum(INSTANCES.values())

    @property
    def objections(self) -> tuple[str, ...]:
        """Reasons why scores are not comparable with the published ones.

        There are none if all official instances were asked.
        """
        if not self.is_official:
            return super().objections
        asked = self.number("num_plans")
        if asked == self._instances:
            return ()
        num_asked = "unknown" if asked is None else f"{asked:,}"
        return (f"{num_asked} of {counted(self._instances, 'instances')}",)

    @property
    def conditions(self) -> dict[str, str | None]:
        """The conditions of every task, and the sentence encoder."""
        return super().conditions | {"sentence encoders": PurePath(self.text("encoder") or "").name}

    @cached_property
    def means(self) -> dict[str, Mean]:
        """Means over all plans, by measure."""
        if self.answers is None:
            return {name: self.logged_mean(name) for name in MEASURES}
        answers = list(self.answers.values())
        return {measure: _mean(answers, measure) for measure in MEASURES}

    def logged_mean(self, measure: str) -> Mean:
        """Return the harness's mean, and the number of its plans if the harness reports it."""
        return Mean(self.number(measure), questions=self.count(_COUNTS.get(measure, "")))

    @cached_property
    def groups(self) -> dict[str, dict[str, dict[str, Mean]]]:
        """Means by breakdown, then by existing group, then by measure.

        The breakdowns are ``setting``, ``length`` and ``activity_type``.
        """
        answers = list((self.answers or {}).values())
        if not answers:
            return {by: self._groups_without_answers(by) for by in GROUPS}
        return {by: self._groups_with_answers(answers, by) for by in GROUPS}

    def _groups_with_answers(
        self, answers: Sequence[Answer], by: str
    ) -> dict[str, dict[str, Mean]]:
        """Return means over the answers of each group."""
        measures = BY_SETTING if by == "setting" else ("lcs", *BROKEN_DOWN)
        groups: dict[str, dict[str, Mean]] = {}
        for group in GROUPS[by]:
            members = [answer for answer in answers if answer.groups[by] == group]
            if members:
                groups[group] = {measure: _mean(members, measure) for measure in measures}
        return groups

    def _groups_without_answers(self, by: str) -> dict[str, dict[str, Mean]]:
        """Return means from the harness's breakdowns, which have four decimals."""
        breakdown = member(self.task_run.metrics, "breakdown", by) or {}
        groups: dict[str, dict[str, Mean]] = {}
        for group in GROUPS[by]:
            if group not in breakdown:
                continue
            groups[group] = {}
            for measure in BROKEN_DOWN:
                value = _finite(breakdown[group].get(measure))
                # The harness does not count the plans that the classifier judged.
                plans = None if measure == "bleurt_correct" else breakdown[group]["plans"]
                groups[group][measure] = Mean(value, questions=plans)
        return groups

    def group_mean(self, by: str, group: str, measure: str) -> Mean:
        """Return the mean of a measure in a group."""
        return self.groups[by].get(group, {}).get(measure, Mean())

    @property
    def main(self) -> Mean:
        """The normalised LCS."""
        return self.means["lcs_norm"]

    @property
    def coverage(self) -> float | None:
        """Fraction of the official instances that the main score covers."""
        return self.covered(self.main)

    def covered(self, mean: Mean) -> float | None:
        """Return the fraction of the paper's instances that a score covers, at most 1."""
        if mean.questions is None or not self.official:
            return None
        return min(1.0, mean.questions / self.official)

    def shares(self, mean: Mean) -> dict[str, Value]:
        """Return the plans, coverage and truncation of a score, for the columns next to it."""
        return {
            "plans": mean.questions,
            "coverage": in_percent(self.covered(mean)),
            "truncated": self.percent("truncated"),
        }


def key_of(instance: str, first: list[str], second: list[str]) -> Key:
    """Return a key of id and gold plans, because another release may use the same id."""
    return instance, json.dumps([first, second])


def answer_of(sample: Mapping[str, Any]) -> Answer:
    """Read one logged sample.

    Raises:
        ValueError: The sample has no setting, activity and type of the benchmark, or malformed gold
            plans.
    """
    record: Mapping[str, Any] = member(sample, DETAILS, "plan") or {}
    doc = sample.get("doc")
    score = logged(PlanScore, record)
    setting = record.get("setting")
    activity = record.get("activity")
    type_of_activity = record.get("activity_type")
    if (
        setting not in SETTINGS
        or not isinstance(activity, str)
        or type_of_activity not in ACTIVITY_TYPES
    ):
        raise ValueError(
            f"{score.id}: expected setting, activity and activity_type of the benchmark, "
            f"found {[setting, activity, type_of_activity]}"
        )
    gold_1 = record.get("gold_plan_1")
    gold_2 = record.get("gold_plan_2")
    if not _are_steps(gold_1) or not _are_steps(gold_2):
        raise ValueError(f"{score.id}: gold plans must be lists of steps")
    scores = score.measures() | {
        "bleurt_correct": score.bleurt,
        "empty": not score.official,
        "unparsed": not score.parsed,
        "truncated": score.truncated,
    }
    return Answer(
        key=key_of(score.id, gold_1, gold_2),
        id=score.id,
        name=f"instance {score.id}",
        record=Plan(score, (gold_1, gold_2)),
        scores={name: None if value is None else float(value) for name, value in scores.items()},
        cluster=activity,
        groups={
            "setting": setting,
            "length": length_bin(score.reference_lengths[0]),
            "activity_type": type_of_activity,
        },
        doc=doc if isinstance(doc, dict) else None,
    )


def _are_steps(gold: Any) -> TypeGuard[list[str]]:
    """Return True for a list of texts."""
    return isinstance(gold, list) and all(isinstance(step, str) for step in gold)


def _mean(plans: Sequence[Answer], measure: str) -> Mean:
    return mean_of(plans, measure, top=None if measure in _IN_STEPS else 1)


def _finite(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None
