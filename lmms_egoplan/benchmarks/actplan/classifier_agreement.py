"""Measure the classifier's agreement with people (sec. 5.4, Table 5)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from lmms_egoplan.benchmarks.actplan.classifier import PlanClassifier, Verdict, joined
from lmms_egoplan.benchmarks.actplan.plans import (
    MODELS,
    LabelledInstance,
    read_activities,
    read_labelled_plans,
)
from lmms_egoplan.errors import LmmsEgoplanError


@dataclass(frozen=True, slots=True)
class PlanPair:
    """An input of the classifier with the expected verdict.

    gold: A gold plan, with steps joined by one blank.
    candidate: Another plan, in the same form.
    correct: The expected verdict.
    source: The model that wrote the candidate; for a training pair, ``positive``, ``wrong`` or
    ``shuffled``.
    equals_gold: True if the candidate has the words of one of its instance's gold plans, which need
    not be `gold`.
    """

    gold: str
    candidate: str
    correct: bool
    source: str
    equals_gold: bool = False


@dataclass(frozen=True)
class SourceScores:
    """Verdicts on a model's plans, compared with human labels.

    plans: Number of plans.
    accuracy: Share of right verdicts, in [0, 1].
    majority: Accuracy of always giving the more frequent label, in [0.5, 1].
    mcc: Matthews correlation, in [-1, 1]; None if all labels or all verdicts are the same.
    true_correct: Number of plans rightly called correct.
    false_correct: Number of plans wrongly called correct.
    false_wrong: Number of plans wrongly called wrong.
    true_wrong: Number of plans rightly called wrong.
    truncated: Number of pairs that the classifier saw only in part.
    equal_to_gold: Accuracy, in [0, 1], of calling exactly those plans correct that equal one of
        their instance's gold plans; None if that is unknown.
    equal_to_paired_gold: The same with only the gold plan that the classifier sees.
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
    equal_to_gold: float | None = None
    equal_to_paired_gold: float | None = None


def in_split(
    instances: Sequence[LabelledInstance], activities: Mapping[str, str], split: str
) -> list[LabelledInstance]:
    """Return the instances of a split's activities, in the given order."""
    return [instance for instance in instances if activities.get(instance.id.activity) == split]


def unknown_activities(
    instances: Sequence[LabelledInstance], activities: Mapping[str, str]
) -> dict[str, int]:
    """Count the instances of each activity without a split."""
    names = [instance.id.activity for instance in instances]
    return dict(Counter(name for name in names if name not in activities))


def labelled_pairs(instances: Sequence[LabelledInstance]) -> list[PlanPair]:
    """Pair every labelled plan with the gold plan that was not written from that model's plan.

    GPT-4V's plans are paired with gold plan 2 and Gemini's with gold plan 1, or with the other one
    if that is missing.
    """
    pairs = []
    for instance in instances:
        golds = [joined(gold) for gold in instance.golds]
        for plan in instance.plans:
            gold = golds[-1 if plan.model == "GPT-4V" else 0]
            candidate = joined(plan.text)
            pairs.append(
                PlanPair(gold, candidate, plan.correct, plan.model, equals_gold=candidate in golds)
            )
    return pairs


def evaluate_bleurt(
    classifier: PlanClassifier, plans: Path, activities: Path, split: str
) -> tuple[dict[str, SourceScores], dict[str, int]]:
    """Classify a split's labelled plans.

    The gold plan comes first, regardless of how the classifier was trained.

    Args:
        classifier: The trained classifier.
        plans: File read by `read_labelled_plans`.
        activities: File read by `read_activities`.
        split: ``val`` or ``test``.

    Returns:
        The scores by model; and the number of instances by activity, for activities without a
        split.

    Raises:
        LmmsEgoplanError: One of the files cannot be read or has another format, or the split has no
            plans.
    """
    instances = read_labelled_plans(plans)
    splits = read_activities(activities)
    pairs = labelled_pairs(in_split(instances, splits, split))
    if not pairs:
        names = [instance.id.activity for instance in instances]
        available = {splits[name] for name in names if name in splits}
        raise LmmsEgoplanError(
            f"{plans}: contains no labelled plans of the split {split}; splits with instances: "
            f"{', '.join(sorted(available)) or 'none'}"
        )
    verdicts = classifier.judge([(pair.gold, pair.candidate) for pair in pairs])
    return score_by_source(pairs, verdicts), unknown_activities(instances, splits)


def score_by_source(
    pairs: Sequence[PlanPair], verdicts: Sequence[Verdict]
) -> dict[str, SourceScores]:
    """Score verdicts by model in Table 5's order, omitting models without plans."""
    scores: dict[str, SourceScores] = {}
    for model in MODELS:
        judged = [
            (pair, verdict)
            for pair, verdict in zip(pairs, verdicts, strict=True)
            if pair.source == model
        ]
        if not judged:
            continue
        labels = [pair.correct for pair, _ in judged]
        scores[model] = replace(
            score_verdicts(labels, [verdict for _, verdict in judged]),
            equal_to_gold=fmean(pair.correct == pair.equals_gold for pair, _ in judged),
            equal_to_paired_gold=fmean(
                pair.correct == (pair.candidate == pair.gold) for pair, _ in judged
            ),
        )
    return scores


def score_verdicts(labels: Sequence[bool], verdicts: Sequence[Verdict]) -> SourceScores:
    """Compare verdicts (at least one) with the labels in the same order."""
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
