"""Pairs of a gold plan and another plan: those that the classifier learns from, and those it is measured on."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.actplan.plans import one_per_line
from lmms_egoplan.benchmarks.actplan.published import PublishedInstance

# Shares of the kinds of training pairs that are tried first; the rest is shuffled gold plans.
POSITIVE_SHARE = 0.3
WRONG_SHARE = 0.5

_KINDS = ("positive", "wrong", "shuffled")


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
    instances: Sequence[PublishedInstance], activities: Mapping[str, str], split: str
) -> list[PublishedInstance]:
    """The instances of a split's activities, in their order."""
    return [instance for instance in instances if activities.get(instance.activity) == split]


def unknown_activities(instances: Sequence[PublishedInstance], activities: Mapping[str, str]) -> dict[str, int]:
    """Activities without a split and the number of their instances, which belong to no split."""
    return dict(Counter(instance.activity for instance in instances if instance.activity not in activities))


def labelled_pairs(instances: Sequence[PublishedInstance]) -> list[PlanPair]:
    """Every labelled plan with the gold plan that was not made from that model's plan.

    GPT-4V's with gold plan 2, Gemini's with gold plan 1; with the other one where that is missing.
    """
    pairs = []
    for instance in instances:
        for plan in instance.plans:
            golds = (instance.gold_1, instance.gold_2)
            gold = next(gold for gold in (golds[::-1] if plan.model == "GPT-4V" else golds) if gold is not None)
            pairs.append(PlanPair(joined(gold), joined(plan.text), plan.correct, plan.model))
    return pairs


class TrainingPairs:
    """Training instances, each of which gives one pair per epoch (sec. 4.2.2).

    With probability 0.3 that is a positive pair: two different plans out of the gold plans and both models' correct
    plans. With 0.5 it is a gold plan with a wrong plan, else a gold plan with its own steps in another order. What an
    instance does not have gives way to the next of wrong, shuffled and positive. Equal plans count as one. A draw
    depends on seed, epoch and the instance's id only.

    without_pair: ids of the instances that have none: one plan, of equal steps. They are left out.
    """

    def __init__(self, instances: Sequence[PublishedInstance], seed: int) -> None:
        sources = [_Plans(instance) for instance in instances]
        self._sources = [source for source in sources if source.kinds]
        self._seed = seed
        self.without_pair = [source.id for source in sources if not source.kinds]

    def __len__(self) -> int:
        return len(self._sources)

    def pair(self, epoch: int, index: int) -> PlanPair:
        """The pair of an instance in an epoch, both counted from 0."""
        source = self._sources[index]
        return source.draw(random.Random(f"{self._seed}/{epoch}/{source.id}"))

    def epoch(self, epoch: int) -> list[PlanPair]:
        """An epoch's pairs in the order of the instances."""
        return [self.pair(epoch, index) for index in range(len(self))]


class _Plans:
    """An instance's plans by what they serve for."""

    def __init__(self, instance: PublishedInstance) -> None:
        self.id = instance.id
        golds = [gold for gold in (instance.gold_1, instance.gold_2) if gold is not None]
        self._golds = _different(golds)
        self._correct = _different([*golds, *(plan.text for plan in instance.plans if plan.correct)])
        self._wrong = _different([plan.text for plan in instance.plans if not plan.correct])
        steps = ([step for step in map(joined, one_per_line(gold).splitlines()) if step] for gold in golds)
        self._sequences = [sequence for sequence in steps if len(set(sequence)) > 1]
        serves = (len(self._correct) > 1, bool(self._wrong), bool(self._sequences))
        self.kinds = {kind for kind, there in zip(_KINDS, serves, strict=True) if there}

    def draw(self, generator: random.Random) -> PlanPair:
        number = generator.random()
        first = 0 if number < POSITIVE_SHARE else 1 if number < POSITIVE_SHARE + WRONG_SHARE else 2
        kind = next(kind for kind in (_KINDS[first], "wrong", "shuffled", "positive") if kind in self.kinds)
        if kind == "positive":
            gold, candidate = generator.sample(self._correct, 2)
        elif kind == "wrong":
            gold, candidate = generator.choice(self._golds), generator.choice(self._wrong)
        else:
            steps = generator.choice(self._sequences)
            order = list(steps)
            while order == steps:
                generator.shuffle(order)
            gold, candidate = " ".join(steps), " ".join(order)
        return PlanPair(gold, candidate, kind == "positive", kind)


def _different(plans: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(joined, plans)))
