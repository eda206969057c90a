"""Measure annotator agreement: percent, Cohen's kappa and Krippendorff's alpha."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from lmms_egoplan.annotation.flow import Flow, Labelled, Scale
from lmms_egoplan.judging.agreement import MIN_ITEMS, RESAMPLES, krippendorff_alpha

_SEED = 0

Units = Sequence[Mapping[str, Any]]
"""For each item with two or more labels, the value by annotator."""
WHEN_UNDEFINED = (
    f"n/a: fewer than {MIN_ITEMS} items with two labels, or all labels are equal. Cohen's kappa "
    "skips pairs of "
    f"annotators that share fewer than {MIN_ITEMS} items, and pairs with an annotator who uses "
    "only one level."
)


@dataclass(frozen=True)
class Agreement:
    """Agreement on one scale. Undefined values are None.

    Attributes:
        items: Number of items with two or more labels. `percent` and `krippendorff` cover these.
        percent: Percentage of equal label pairs among all pairs on the same item, 0 to 100.
        krippendorff: Krippendorff's alpha for any number of labels: nominal, or interval for
            ordered scales. None below `MIN_ITEMS` items.
        low: Lower end of alpha's 95 % interval.
        high: Upper end of alpha's 95 % interval.
        cohen: Mean Cohen's kappa in [-1, 1] over pairs of annotators that share at least
            `MIN_ITEMS` items, weighted by the number of shared items.
        cohen_pairs: Number of pairs in that mean.
        cohen_smallest_overlap: Smallest number of items that one of these pairs shares. None
            without a pair.
        cohen_pairs_skipped: Number of pairs without kappa: they share too few items, or one
            annotator uses only one level on them.
        items_skipped: Number of items that at least one person skipped. Other people's labels of
            them count.
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


@dataclass(frozen=True)
class PeopleAgreement:
    """Agreement of one annotator with all others, or of two annotators. Undefined values are None.

    Intervals are 95 % percentiles of a bootstrap over items. They need at least `MIN_ITEMS` items.

    Attributes:
        first: Name of the annotator.
        second: Name of the other annotator; "" for all others together.
        items: Number of items that both labelled, or that the annotator and at least one other
            labelled.
        percent: Percentage of equal label pairs on these items, 0 to 100.
        percent_low: Lower end of its interval.
        percent_high: Upper end of its interval.
        kappa: Cohen's kappa of the two, in [-1, 1]. None for all others together, below `MIN_ITEMS`
            items, or if one of the two uses only one level on these items.
        kappa_low: Lower end of its interval. Resamples in which one of the two uses only one level
            are excluded.
        kappa_high: Upper end of its interval.
    """

    scale: str
    first: str
    second: str
    items: int
    percent: float
    percent_low: float | None
    percent_high: float | None
    kappa: float | None = None
    kappa_low: float | None = None
    kappa_high: float | None = None


def agreements(
    flow: Flow, labelled: Labelled, people: Sequence[PeopleAgreement] | None = None
) -> list[Agreement]:
    """Measure agreement on every scale of a flow, from the labels of its `Flow.agreement_stage`.

    Args:
        people: Result of `people_agreements`, if known.
    """
    stage = flow.agreement_stage or flow.stages[0].name
    skipped = len({skip.item for skip in labelled.skips if skip.stage == stage})
    return [measure(scale, units, skipped, people) for scale, units in _scales(flow, labelled)]


def people_agreements(flow: Flow, labelled: Labelled) -> list[PeopleAgreement]:
    """Measure the agreement of every annotator and every pair on every scale, from the same labels
    as `agreements`.
    """
    return [row for scale, units in _scales(flow, labelled) for row in measure_people(scale, units)]


def _scales(flow: Flow, labelled: Labelled) -> Iterator[tuple[Scale, Units]]:
    stage = flow.agreement_stage or flow.stages[0].name
    labels = [labelled.of(item, stage) for item in labelled.items]
    for scale in flow.scales():
        yield scale, [{label.person: scale.of(label.values) for label in item} for item in labels]


def measure(
    scale: Scale,
    labels: Units,
    items_skipped: int = 0,
    people: Sequence[PeopleAgreement] | None = None,
) -> Agreement:
    """Measure the agreement of labels on one scale.

    Args:
        labels: For each item, the value by annotator. None means no value.
        scale: Scale of the values.
        items_skipped: See `Agreement`.
        people: Result of `measure_people` on this scale and others, if known.

    >>> scale = Scale("Correct", (0, 1), dict.get)
    >>> measured = measure(scale, [{"A": 1, "B": 1}, {"A": 0, "B": 0}, {"A": 1, "B": 0}, {"A": 1}] * 4)
    >>> measured.items, round(measured.percent, 1), round(measured.cohen, 2), round(measured.krippendorff, 3)
    (12, 66.7, 0.4, 0.361)
    """
    units = [{name: value for name, value in unit.items() if value is not None} for unit in labels]
    units = [unit for unit in units if len(unit) > 1]
    pairs = [pair for unit in units for pair in combinations(unit.values(), 2)]
    percent = 100 * fmean(first == second for first, second in pairs) if pairs else None
    measured = measure_people(scale, units) if people is None else people
    rated = [row for row in measured if row.second and row.scale == scale.title]
    kappas = [(row.kappa, row.items) for row in rated if row.kappa is not None]
    overlaps = [overlap for _, overlap in kappas]
    cohen = float(np.average([kappa for kappa, _ in kappas], weights=overlaps)) if kappas else None
    alpha = krippendorff_alpha(
        [list(unit.values()) for unit in units], scale.levels, is_ordered=scale.is_ordered
    )
    value, low, high = (None, None, None) if alpha is None else astuple(alpha)
    smallest = min(overlaps, default=None)
    skipped = len(rated) - len(kappas)
    return Agreement(
        scale.title,
        len(units),
        percent,
        value,
        low,
        high,
        cohen,
        len(kappas),
        smallest,
        skipped,
        items_skipped,
    )


def measure_people(scale: Scale, labels: Units) -> list[PeopleAgreement]:
    """Measure each annotator's agreement with all others, then that of each pair.

    Skip those without shared items.

    Args:
        labels: For each item, the value by annotator. None means no value.
        scale: Scale of the values.

    >>> scale = Scale("Correct", (0, 1), dict.get)
    >>> units = [{"A": 1, "B": 1, "C": 0}, {"A": 0, "B": 0, "C": 1}, {"A": 1, "B": 1, "C": 1}] * 8
    >>> [(row.first, round(row.percent)) for row in measure_people(scale, units) if not row.second]
    [('A', 67), ('B', 67), ('C', 33)]
    >>> [(row.first, row.second, round(row.kappa, 2)) for row in measure_people(scale, units) if row.second]
    [('A', 'B', 1.0), ('A', 'C', -0.5), ('B', 'C', -0.5)]
    """
    people = sorted({name for unit in labels for name in unit})
    ranks = {level: rank for rank, level in enumerate(scale.levels)} | {None: -1}
    table = np.array([[ranks[unit.get(name)] for name in people] for unit in labels]).reshape(
        len(labels), len(people)
    )
    size, numbers = len(scale.levels), range(len(people))
    rows = []
    for first, second in [*((number, None) for number in numbers), *combinations(numbers, 2)]:
        ranked, rest = (
            table[:, [first]],
            np.delete(table, first, axis=1) if second is None else table[:, [second]],
        )
        shared = ((ranked >= 0) & (rest >= 0)).sum(axis=1)
        equal = ((ranked >= 0) & (ranked == rest)).sum(axis=1)
        kinds, counts = np.unique(
            np.stack([equal, shared], 1)[shared > 0], axis=0, return_counts=True
        )
        if not counts.size:
            continue
        measured = _resampled(kinds, counts, lambda sums: 100 * sums[:, 0] / sums[:, 1])
        if second is not None:
            levels = np.bincount((ranked * size + rest)[shared > 0, 0], minlength=size**2)
            measured += _resampled(np.eye(size**2), levels, _kappas)
        names = people[first], "" if second is None else people[second]
        rows.append(PeopleAgreement(scale.title, *names, int(counts.sum()), *measured))
    return rows


def _resampled(
    kinds: np.ndarray, counts: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> tuple[Any, ...]:
    """Return a statistic of items with its bootstrap interval. Undefined values are None.

    Drawing items with replacement is drawing the number of items of each kind from a multinomial
    distribution.

    Args:
        kinds: Summands of an item of each kind.
        counts: Number of items of each kind.
        statistic: Function from sums over items, one sample per row, to one value per row; NaN if
            undefined.
    """
    (value,), items = statistic(counts[None] @ kinds), counts.sum()
    if items < MIN_ITEMS or np.isnan(value):
        return None if np.isnan(value) else float(value), None, None
    drawn = np.random.default_rng(_SEED).multinomial(items, counts / items, RESAMPLES)
    low, high = np.nanpercentile(statistic(drawn @ kinds), (2.5, 97.5))
    return float(value), float(low), float(high)


def _kappas(counts: np.ndarray) -> np.ndarray:
    """Compute Cohen's kappa of flattened tables of two annotators' levels.

    See `PeopleAgreement` for NaN.
    """
    size = round(counts.shape[1] ** 0.5)
    tables, items = counts.reshape(-1, size, size), counts.sum(axis=1)
    first, second = tables.sum(axis=2), tables.sum(axis=1)
    equal, expected = (
        np.trace(tables, axis1=1, axis2=2) / items,
        (first * second).sum(axis=1) / items**2,
    )
    # Whole numbers: the sum of a person's shares is not always exactly 1.
    is_defined = (first.max(axis=1) < items) & (second.max(axis=1) < items) & (items >= MIN_ITEMS)
    return np.divide(
        equal - expected, 1 - expected, out=np.full(len(tables), np.nan), where=is_defined
    )
