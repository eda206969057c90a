"""Pairs of a gold plan and another plan, and those that the classifier is measured on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.actplan.labelled_plans import LabelledInstance


@dataclass(frozen=True)
class PlanPair:
    """The classifier's input and what it should say.

    gold, candidate: plans, their steps joined by one blank.
    source: the model that wrote the candidate; of a training pair ``positive``, ``wrong`` or ``shuffled``.
    """

    gold: str
    candidate: str
    correct: bool
    source: str


def joined(plan: str) -> str:
    """A plan in the classifier's form: its steps joined by one blank."""
    return " ".join(plan.split())


def in_split(
    instances: Sequence[LabelledInstance], activities: Mapping[str, str], split: str
) -> list[LabelledInstance]:
    """The instances of a split's activities, in their order."""
    return [instance for instance in instances if activities.get(instance.activity) == split]


def unknown_activities(instances: Sequence[LabelledInstance], activities: Mapping[str, str]) -> dict[str, int]:
    """Activities without a split and the number of their instances, which belong to no split."""
    return dict(Counter(instance.activity for instance in instances if instance.activity not in activities))


def labelled_pairs(instances: Sequence[LabelledInstance]) -> list[PlanPair]:
    """Every labelled plan with the gold plan that was not made from that model's plan.

    GPT-4V's with gold plan 2, Gemini's with gold plan 1; with the other one where that is missing.
    """
    return [
        PlanPair(joined(gold), joined(plan.text), plan.correct, plan.model)
        for instance in instances
        for plan in instance.plans
        for gold in [instance.golds[-1 if plan.model == "GPT-4V" else 0]]
    ]
