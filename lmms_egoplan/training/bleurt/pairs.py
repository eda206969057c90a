"""Draw the training pairs of the classifier: a gold plan and another plan (sec. 4.2.2)."""

import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import factorial, prod

from lmms_egoplan.benchmarks.actplan.classifier import Positives, Shuffled, joined
from lmms_egoplan.benchmarks.actplan.classifier_agreement import PlanPair
from lmms_egoplan.benchmarks.actplan.plans import LabelledInstance
from lmms_egoplan.benchmarks.actplan.reply import one_per_line

# Probabilities of trying a kind of pair first. The remainder is for shuffled gold plans.
POSITIVE_SHARE = 0.3
WRONG_SHARE = 0.5

_KINDS = ("positive", "wrong", "shuffled")

_Steps = tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """Settings of training (sec. 4.2.2). The defaults are the paper's, if it states them.

    Attributes:
        epochs: Number of epochs.
        learning_rate: None for the paper's (`training.paper_learning_rate`).
        batch_size: Pairs per update.
        max_length: Tokens per pair; no more than the encoder's positions.
        seed: Random seed for the head's weights, the pairs, their order and dropout.
        positives: ``mixed`` pairs any two correct plans in any order, since "gold plans and correct
            plans are mixed to form positive sentence pairs". ``gold-first`` puts a gold plan first,
            since "x is a sentence for gold plan". Sec. 4.2.2 has both sentences.
        shuffled: Source of the gold plans that are shuffled for negative pairs: all training
            instances of the same ``activity`` ("randomly shuffled gold plan with same activity"),
            or only the same ``instance``.
    """

    epochs: int = 70
    learning_rate: float | None = None
    batch_size: int = 12
    max_length: int = 512
    seed: int = 0
    positives: Positives = "mixed"
    shuffled: Shuffled = "activity"


class TrainingPairs:
    """Training instances. Each gives one pair per epoch (sec. 4.2.2).

    - With probability 0.3: a positive pair of two different plans. They come from the gold plans
      and both models' correct plans. With `Recipe.positives` ``gold-first``, the first is a gold
      plan.
    - With probability 0.5: a gold plan with a wrong plan.
    - Otherwise: a gold plan with a shuffled one. Its steps are those of a gold plan of the same
      activity or instance (`Recipe.shuffled`). Their order differs from all of these gold plans and
      from the instance's correct plans.

    If an instance lacks a kind, the first available one of wrong, shuffled and positive replaces
    it. Equal plans count once. A draw depends on the seed, the epoch and the instance. Plans
    shuffled within an activity also depend on the activity's other instances.

    An activity is a name and a setting: the paper's 153 activities are 100 normal and 53
    counterfactual ones.

    Attributes:
        without_pair: IDs of the skipped instances, which allow no pair: they have one plan, whose
            steps are all equal.
    """

    def __init__(self, instances: Sequence[LabelledInstance], recipe: Recipe) -> None:
        pools: dict[Hashable, list[_Steps]] = {}
        for instance in instances:
            pools.setdefault(_pool(instance, recipe), []).extend(map(_steps, instance.golds))
        # Make the draws independent of the order of instances in the file.
        if recipe.shuffled == "activity":
            pools = {key: sorted(set(pool)) for key, pool in pools.items()}
        sources = [
            _Plans(instance, pools[_pool(instance, recipe)], recipe) for instance in instances
        ]
        self._sources = [source for source in sources if source.kinds]
        self._seed = recipe.seed
        self.without_pair = [source.id for source in sources if not source.kinds]

    def __len__(self) -> int:
        return len(self._sources)

    def epoch(self, epoch: int) -> list[PlanPair]:
        """Return an epoch's pairs in the order of the instances. Epochs are counted from 0."""
        return [
            source.draw(random.Random(f"{self._seed}/{epoch}/{source.id}"))
            for source in self._sources
        ]


class _Plans:
    """An instance's plans by their use.

    Args:
        pool: The gold plans that may be shuffled for the instance.
    """

    def __init__(self, instance: LabelledInstance, pool: Sequence[_Steps], recipe: Recipe) -> None:
        self.id = str(instance.id)
        self._recipe = recipe
        golds = instance.golds
        correct = [*golds, *(plan.text for plan in instance.plans if plan.correct)]
        self._golds = _different(golds)
        self._correct = _different(correct)
        self._wrong = _different([plan.text for plan in instance.plans if not plan.correct])
        self._in_order = {*pool, *map(_steps, correct)}
        self._sequences = [steps for steps in pool if self._can_be_shuffled(steps)]
        is_available = (len(self._correct) > 1, bool(self._wrong), bool(self._sequences))
        self.kinds = {
            kind for kind, available in zip(_KINDS, is_available, strict=True) if available
        }

    def draw(self, generator: random.Random) -> PlanPair:
        number = generator.random()
        if number < POSITIVE_SHARE:
            drawn = "positive"
        elif number < POSITIVE_SHARE + WRONG_SHARE:
            drawn = "wrong"
        else:
            drawn = "shuffled"
        choices = (drawn, "wrong", "shuffled", "positive")
        kind = next(kind for kind in choices if kind in self.kinds)
        if kind == "positive":
            gold, candidate = self._positive(generator)
        elif kind == "wrong":
            gold = generator.choice(self._golds)
            candidate = generator.choice(self._wrong)
        else:
            gold, candidate = self._shuffled(generator)
        return PlanPair(gold, candidate, kind == "positive", kind)

    def _positive(self, generator: random.Random) -> Sequence[str]:
        if self._recipe.positives == "mixed":
            return generator.sample(self._correct, 2)
        gold = generator.choice(self._golds)
        return gold, generator.choice([plan for plan in self._correct if plan != gold])

    def _shuffled(self, generator: random.Random) -> tuple[str, str]:
        first = generator.choice(self._golds) if self._recipe.shuffled == "activity" else None
        steps = generator.choice(self._sequences)
        order = list(steps)
        while tuple(order) in self._in_order:
            generator.shuffle(order)
        return first or " ".join(steps), " ".join(order)

    def _can_be_shuffled(self, steps: _Steps) -> bool:
        orders = factorial(len(steps)) // prod(map(factorial, Counter(steps).values()))
        return orders > sum(sorted(other) == sorted(steps) for other in self._in_order)


def _pool(instance: LabelledInstance, recipe: Recipe) -> Hashable:
    """Return the key of the instances that share gold plans for shuffling."""
    return (
        (instance.id.activity, instance.id.setting)
        if recipe.shuffled == "activity"
        else instance.id
    )


def _steps(plan: str) -> _Steps:
    return tuple(step for step in map(joined, one_per_line(plan).splitlines()) if step)


def _different(plans: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(map(joined, plans)))
