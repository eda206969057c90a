"""Read the plans of ActPlan's runs, and compute their means."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, ClassVar, NamedTuple

from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES, INSTANCES, SETTINGS
from lmms_egoplan.benchmarks.actplan.metrics import LENGTH_BINS, length_bin
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report.scores import Answer, Key, Mean, ScoredTask, in_percent, logged, mean_of
from lmms_egoplan.report.tables import Value, counted

_DATA = module_yaml(__file__)
MEASURES: dict[str, str] = _DATA["measures"]
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
# For each measure, the harness's metric that counts its plans.
_COUNTS: dict[str, str] = _DATA["counts"]
_GROUPED = {"lcs_norm": "by", "lcs_norm_parsed": "parsed_by", "bleurt_correct": "bleurt_by"}


class Plan(NamedTuple):
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
        """Number of the paper's instances for the task, or of prepared instances if they are not
        the benchmark's.
        """
        return self._instances if self.is_official else self.number("split_size")

    @property
    def _instances(self) -> int:
        return INSTANCES[self.part] if self.part else sum(INSTANCES.values())

    @property
    def objections(self) -> tuple[str, ...]:
        """Why scores are not comparable with the published ones; () if all official instances were
        asked.
        """
        asked = self.number("num_plans")
        if not self.is_official:
            return super().objections
        if asked == self._instances:
            return ()
        return (
            (
                f"{'unknown' if asked is None else f'{asked:,}'} of "
                f"{counted(self._instances, 'instances')}"
            ),
        )

    @property
    def conditions(self) -> dict[str, str | None]:
        """The conditions of every task, and the sentence encoder."""
        return super().conditions | {"sentence encoders": PurePath(self.text("encoder") or "").name}

    @cached_property
    def means(self) -> dict[str, Mean]:
        """Means over all plans, by measure."""
        if self.answers is not None:
            means = {measure: _mean([*self.answers.values()], measure) for measure in MEASURES}
            if all(answer.record.score.goal is None for answer in self.answers.values()):
                # Runs of task versions before 1.2 have no goal check.
                means["goal_conditions_coverage"] = Mean()
            return means
        return {name: self.logged_mean(name) for name in MEASURES}

    def logged_mean(self, measure: str) -> Mean:
        """Return the harness's mean, and the number of its plans if the harness reports it."""
        return Mean(self.number(measure), questions=self.count(_COUNTS.get(measure, "")))

    @cached_property
    def groups(self) -> dict[str, dict[str, dict[str, Mean]]]:
        """Means by ``setting``, ``length`` or ``activity_type``, then by existing group, then by
        measure.
        """
        answers = list((self.answers or {}).values())
        return {
            by: self._groups_with(answers, by) if answers else self._groups_without(by)
            for by in GROUPS
        }

    def _groups_with(self, answers: Sequence[Answer], by: str) -> dict[str, dict[str, Mean]]:
        measures = BY_SETTING if by == "setting" else ("lcs", *_GROUPED)
        return {
            group: {measure: _mean(plans, measure) for measure in measures}
            for group in GROUPS[by]
            if (plans := [answer for answer in answers if answer.groups[by] == group])
        }

    def _groups_without(self, by: str) -> dict[str, dict[str, Mean]]:
        """Return means from the harness's breakdowns, which have four decimals."""
        metrics = self.task_run.metrics
        breakdowns = {
            prefix: metrics.get(f"{prefix}_{by}") or {}
            for prefix in (*_GROUPED.values(), "plans_by")
        }
        return {
            group: {
                measure: Mean(
                    _finite(breakdowns[prefix].get(group)),
                    questions=None if prefix == "bleurt_by" else breakdowns["plans_by"].get(group),
                )
                for measure, prefix in _GROUPED.items()
            }
            for group in GROUPS[by]
            if group in breakdowns["by"]
        }

    def of(self, by: str, group: str, measure: str) -> Mean:
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
        return (
            min(1.0, mean.questions / self.official)
            if mean.questions is not None and self.official
            else None
        )

    def shares(self, mean: Mean) -> dict[str, Value]:
        """Return the plans, coverage and truncation of a score, for the columns next to it."""
        coverage = in_percent(self.covered(mean))
        return {
            "plans": mean.questions,
            "coverage": coverage,
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
    record, doc = sample.get("lcs_norm", {}), sample.get("doc")
    score = logged(PlanScore, record)
    golds = (record.get("gold_plan_1"), record.get("gold_plan_2"))
    setting, activity, kind = labels = [
        record.get(name) for name in ("setting", "activity", "activity_type")
    ]
    if setting not in SETTINGS or not isinstance(activity, str) or kind not in ACTIVITY_TYPES:
        raise ValueError(
            f"{score.id}: expected setting, activity and activity_type of the benchmark, "
            f"found {labels}"
        )
    if not all(
        isinstance(gold, list) and all(isinstance(step, str) for step in gold) for gold in golds
    ):
        raise ValueError(f"{score.id}: gold plans must be lists of steps")
    scores = score.measures() | {
        "bleurt_correct": score.bleurt,
        "empty": not score.official,
        "unparsed": not score.parsed,
        "truncated": score.truncated,
        **score.diagnostics(),
    }
    return Answer(
        key=key_of(score.id, *golds),
        id=score.id,
        name=f"instance {score.id}",
        record=Plan(score, golds),
        scores={name: None if x is None else float(x) for name, x in scores.items()},
        cluster=activity,
        groups={
            "setting": setting,
            "length": length_bin(score.reference_lengths[0]),
            "activity_type": kind,
        },
        doc=doc if isinstance(doc, dict) else None,
    )


def _mean(plans: Sequence[Answer], measure: str) -> Mean:
    return mean_of(plans, measure, top=None if measure in _IN_STEPS else 1)


def _finite(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None
