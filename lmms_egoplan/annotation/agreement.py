"""Measure annotator agreement: percent, Cohen's kappa and Krippendorff's alpha."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from math import fsum
from statistics import fmean
from typing import Any

from lmms_egoplan.annotation.flow import Flow, Labelled, Scale
from lmms_egoplan.judging.agreement import MIN_ITEMS, krippendorff_alpha

Units = Sequence[Mapping[str, Any]]
"""For each item with two or more labels, the value by annotator."""
WHEN_UNDEFINED = (
    f"n/a: fewer than {MIN_ITEMS} items with two labels, or all labels are equal. Cohen's kappa skips pairs of "
    f"annotators that share fewer than {MIN_ITEMS} items, and pairs with an annotator who uses only one level."
)


@dataclass(frozen=True)
class Agreement:
    """Agreement on one scale. Undefined values are None.

    Attributes:
        items: Number of items with two or more labels. `percent` and `krippendorff` cover these.
        percent: Percentage of equal label pairs among all pairs on the same item, 0 to 100.
        krippendorff: Krippendorff's alpha for any number of labels: nominal, or interval for ordered scales. None below
            `MIN_ITEMS` items.
        low: Lower end of alpha's 95 % interval.
        high: Upper end of alpha's 95 % interval.
        cohen: Mean Cohen's kappa in [-1, 1] over pairs of annotators that share at least `MIN_ITEMS` items, weighted by
            the number of shared items.
        cohen_pairs: Number of pairs in that mean.
        cohen_smallest_overlap: Smallest number of items that one of these pairs shares. None without a pair.
        cohen_pairs_skipped: Number of pairs without kappa: they share too few items, or one annotator uses only one
            level on them.
        items_skipped: Number of items that at least one person skipped. Other people's labels of them count.
    """

    title: str
    items: int
    percent: float | None
    krippendorff: float | None
    low: float | None
    high: float | None
    cohen: float | None
    cohen_pairs: int
    cohen_smallest_overlap: int | None
    cohen_pairs_skipped: int
    items_skipped: int


def agreements(flow: Flow, labelled: Labelled) -> list[Agreement]:
    """Measure agreement on every scale of a flow, from the labels of its first stage."""
    stage = flow.stages[0].name
    skipped = len({skip.item for skip in labelled.skips if skip.stage == stage})
    labels = [labelled.of(item, stage) for item in labelled.items]
    return [
        measure(scale, [{label.person: scale.of(label.values) for label in item} for item in labels], skipped)
        for scale in flow.scales()
    ]


def measure(scale: Scale, labels: Units, items_skipped: int = 0) -> Agreement:
    """Measure the agreement of labels on one scale.

    Args:
        labels: For each item, the value by annotator. None means no value.
        scale: Scale of the values.
        items_skipped: See `Agreement`.

    >>> scale = Scale("Correct", (0, 1), dict.get)
    >>> measured = measure(scale, [{"A": 1, "B": 1}, {"A": 0, "B": 0}, {"A": 1, "B": 0}, {"A": 1}] * 4)
    >>> measured.items, round(measured.percent, 1), round(measured.cohen, 2), round(measured.krippendorff, 3)
    (12, 66.7, 0.4, 0.361)
    """
    units = [{name: value for name, value in unit.items() if value is not None} for unit in labels]
    units = [unit for unit in units if len(unit) > 1]
    pairs = [pair for unit in units for pair in combinations(unit.values(), 2)]
    percent = 100 * fmean(first == second for first, second in pairs) if pairs else None
    kappas, skipped = _cohen(scale, units)
    overlaps = [overlap for _, overlap in kappas]
    cohen = fsum(kappa * overlap for kappa, overlap in kappas) / sum(overlaps) if kappas else None
    alpha = krippendorff_alpha([list(unit.values()) for unit in units], scale.levels, is_ordered=scale.is_ordered)
    value, low, high = (None, None, None) if alpha is None else astuple(alpha)
    smallest = min(overlaps, default=None)
    return Agreement(
        scale.title, len(units), percent, value, low, high, cohen, len(kappas), smallest, skipped, items_skipped
    )


def _cohen(scale: Scale, units: Units) -> tuple[list[tuple[float, int]], int]:
    """Return kappa and shared item count of each defined pair, and the number of undefined pairs that share items."""
    from sklearn.metrics import cohen_kappa_score

    people = sorted({name for unit in units for name in unit})
    kappas, skipped = [], 0
    for first, second in combinations(people, 2):
        shared = [(unit[first], unit[second]) for unit in units if first in unit and second in unit]
        ranks = [[scale.levels.index(value) for value in values] for values in zip(*shared, strict=True)]
        if len(shared) >= MIN_ITEMS and min(len({*values}) for values in ranks) > 1:
            kappa = float(cohen_kappa_score(*ranks, labels=range(len(scale.levels))))
            kappas.append((kappa, len(shared)))
        elif shared:
            skipped += 1
    return kappas, skipped
