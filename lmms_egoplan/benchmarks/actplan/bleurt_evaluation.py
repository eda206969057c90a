"""Agreement of the classifier with people, by the model that wrote the plans (sec. 5.4, Table 5)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.bleurt import PlanClassifier, Verdict, joined
from lmms_egoplan.benchmarks.actplan.labelled_plans import (
    MODELS,
    LabelledInstance,
    read_activities,
    read_labelled_plans,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.published import load_table

# Rows of Table 5 by classifier and the model that wrote the plans: MCC on val, accuracies in percent.
TABLE_5 = {
    classifier: {str(row["vlm"]): row for row in rows}
    for classifier, rows in groupby(load_table("actplan", "table5").rows, key=itemgetter("model"))
}


@dataclass(frozen=True)
class PlanPair:
    """The classifier's input and the right verdict.

    gold, candidate: Plans, their steps joined by one blank.
    source: The model that wrote the candidate; of a training pair ``positive``, ``wrong`` or ``shuffled``.
    """

    gold: str
    candidate: str
    correct: bool
    source: str


@dataclass(frozen=True)
class SourceScores:
    """Verdicts on a model's plans, against people's labels.

    plans: Number of plans.
    accuracy: Share of right verdicts, in [0, 1].
    majority: Accuracy of always giving the more frequent label, in [0.5, 1].
    mcc: Matthews correlation, in [-1, 1]; None if all labels or all verdicts are the same.
    true_correct, false_correct, false_wrong, true_wrong: Plans called correct that are and are not, and plans called
        wrong that are not and are.
    truncated: Pairs of which the classifier saw only a part.
    """

    plans: int
    accuracy: float
    majority: float
    mcc: float | None
    true_correct: int
    false_correct: int
    false_wrong: int
    true_wrong: int
    truncated: int


def in_split(
    instances: Sequence[LabelledInstance], activities: Mapping[str, str], split: str
) -> list[LabelledInstance]:
    """Return the instances of a split's activities, in their order."""
    return [instance for instance in instances if activities.get(instance.id.activity) == split]


def unknown_activities(instances: Sequence[LabelledInstance], activities: Mapping[str, str]) -> dict[str, int]:
    """Count the instances of each activity without a split."""
    return dict(Counter(instance.id.activity for instance in instances if instance.id.activity not in activities))


def labelled_pairs(instances: Sequence[LabelledInstance]) -> list[PlanPair]:
    """Pair every labelled plan with the gold plan that was not made from that model's plan.

    GPT-4V's with gold plan 2, Gemini's with gold plan 1; with the other one if that is missing.
    """
    return [
        PlanPair(
            joined(instance.golds[-1 if plan.model == "GPT-4V" else 0]), joined(plan.text), plan.correct, plan.model
        )
        for instance in instances
        for plan in instance.plans
    ]


def evaluate_bleurt(
    classifier: PlanClassifier, plans: Path, activities: Path, split: str
) -> tuple[dict[str, SourceScores], dict[str, int]]:
    """Classify a split's labelled plans, each with a gold plan, which comes first however the classifier was trained.

    Args:
        plans: Read by `read_labelled_plans`.
        activities: Read by `read_activities`.
        split: ``val`` or ``test``.

    Returns:
        The scores by model, and the activities without a split with the number of their instances.

    Raises:
        LmmsEgoplanError: One of the files cannot be read or has another form, or the split has no plans.
    """
    instances, splits = read_labelled_plans(plans), read_activities(activities)
    pairs = labelled_pairs(in_split(instances, splits, split))
    if not pairs:
        known = sorted({splits[instance.id.activity] for instance in instances if instance.id.activity in splits})
        raise LmmsEgoplanError(
            f"{plans}: no labelled plans of the split {split} in it; it has instances of {', '.join(known) or 'none'}"
        )
    verdicts = classifier.judge([(pair.gold, pair.candidate) for pair in pairs])
    return score_by_source(pairs, verdicts), unknown_activities(instances, splits)


def score_by_source(pairs: Sequence[PlanPair], verdicts: Sequence[Verdict]) -> dict[str, SourceScores]:
    """Score verdicts by model, in Table 5's order, without models that have no plans."""
    scores: dict[str, SourceScores] = {}
    for model in MODELS:
        judged = [
            (pair.correct, verdict) for pair, verdict in zip(pairs, verdicts, strict=True) if pair.source == model
        ]
        if judged:
            scores[model] = score_verdicts([label for label, _ in judged], [verdict for _, verdict in judged])
    return scores


def score_verdicts(labels: Sequence[bool], verdicts: Sequence[Verdict]) -> SourceScores:
    """Score at least one verdict against the labels in the same order."""
    from sklearn.metrics import accuracy_score, confusion_matrix, matthews_corrcoef

    called = [verdict.correct for verdict in verdicts]
    counts = confusion_matrix(labels, called, labels=[True, False])
    defined = counts.any(axis=0).all() and counts.any(axis=1).all()
    return SourceScores(
        plans=len(labels),
        accuracy=float(accuracy_score(labels, called)),
        majority=float(counts.sum(axis=1).max() / len(labels)),
        mcc=float(matthews_corrcoef(labels, called)) if defined else None,
        true_correct=int(counts[0, 0]),
        false_correct=int(counts[1, 0]),
        false_wrong=int(counts[0, 1]),
        true_wrong=int(counts[1, 1]),
        truncated=sum(verdict.truncated for verdict in verdicts),
    )
