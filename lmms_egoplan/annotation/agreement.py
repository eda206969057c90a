"""Measure annotator agreement: percent, Cohen's kappa and Krippendorff's alpha."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from lmms_egoplan.annotation.flow import Flow, Label, Labelled, Scale
from lmms_egoplan.stats.agreement import MIN_ITEMS, krippendorff_alpha
from lmms_egoplan.stats.pairs import cohen_kappa, percent_equal

Units = Sequence[Mapping[str, Any]]
"""For each item with two or more labels, the value by annotator."""
WHEN_UNDEFINED = (
    f"n/a: fewer than {MIN_ITEMS} items with two labels, or all labels are equal. Cohen's kappa "
    f"skips pairs of annotators that share fewer than {MIN_ITEMS} items, and pairs with an "
    "annotator who uses only one level."
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
    items_skipped = len({skip.item for skip in labelled.skips if skip.stage == stage})
    return [
        measure(scale, units, items_skipped, people) for scale, units in _scales(flow, labelled)
    ]


def people_agreements(flow: Flow, labelled: Labelled) -> list[PeopleAgreement]:
    """Measure the agreement of every annotator and every pair on every scale.

    Uses the same labels as `agreements`.
    """
    measured = []
    for scale, units in _scales(flow, labelled):
        measured += measure_people(scale, units)
    return measured


def _scales(flow: Flow, labelled: Labelled) -> Iterator[tuple[Scale, Units]]:
    """Yield each scale of a flow with the values on it."""
    stage = flow.agreement_stage or flow.stages[0].name
    labels_by_item = [labelled.labels_of(item, stage) for item in labelled.items]
    for scale in flow.scales(labelled):
        yield scale, [_values_by_person(scale, labels) for labels in labels_by_item]


def _values_by_person(scale: Scale, labels: Sequence[Label]) -> dict[str, Any]:
    """Return the value of each label on a scale, by annotator."""
    return {label.person: scale.value_of(label.values) for label in labels}


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
    >>> labels = [{"A": 1, "B": 1}, {"A": 0, "B": 0}, {"A": 1, "B": 0}, {"A": 1}] * 4
    >>> measured = measure(scale, labels)
    >>> measured.items, round(measured.percent, 1)
    (12, 66.7)
    >>> round(measured.cohen, 2), round(measured.krippendorff, 3)
    (0.4, 0.361)
    """
    units = _with_two_labels(labels)
    if people is None:
        people = measure_people(scale, units)
    pairs = [row for row in people if row.second and row.scale == scale.title]
    cohen = _mean_kappa(pairs)
    alpha = krippendorff_alpha(
        [list(unit.values()) for unit in units], scale.levels, is_ordered=scale.is_ordered
    )
    return Agreement(
        title=scale.title,
        items=len(units),
        percent=_percent_equal(units),
        krippendorff=alpha.value if alpha else None,
        low=alpha.low if alpha else None,
        high=alpha.high if alpha else None,
        cohen=cohen.kappa,
        cohen_pairs=cohen.pairs,
        cohen_smallest_overlap=cohen.smallest_overlap,
        cohen_pairs_skipped=len(pairs) - cohen.pairs,
        items_skipped=items_skipped,
    )


def _with_two_labels(labels: Units) -> list[dict[str, Any]]:
    """Return the values of items with at least two of them."""
    units = []
    for unit in labels:
        values = {name: value for name, value in unit.items() if value is not None}
        if len(values) > 1:
            units.append(values)
    return units


def _percent_equal(units: Units) -> float | None:
    """Return the percentage of equal pairs of labels on the same item; None without pairs."""
    are_equal = []
    for unit in units:
        are_equal += [first == second for first, second in combinations(unit.values(), 2)]
    return 100 * fmean(are_equal) if are_equal else None


@dataclass(frozen=True)
class _MeanKappa:
    """Cohen's kappa over pairs of annotators; see the attributes of `Agreement`."""

    kappa: float | None
    pairs: int
    smallest_overlap: int | None


def _mean_kappa(pairs: Sequence[PeopleAgreement]) -> _MeanKappa:
    """Average the kappas of pairs, weighted by the number of items that they share."""
    kappas = []
    overlaps = []
    for pair in pairs:
        if pair.kappa is not None:
            kappas.append(pair.kappa)
            overlaps.append(pair.items)
    if not kappas:
        return _MeanKappa(None, 0, None)
    return _MeanKappa(float(np.average(kappas, weights=overlaps)), len(kappas), min(overlaps))


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
    >>> pairs = [row for row in measure_people(scale, units) if row.second]
    >>> [(row.first, row.second, round(row.kappa, 2)) for row in pairs]
    [('A', 'B', 1.0), ('A', 'C', -0.5), ('B', 'C', -0.5)]
    """
    people = sorted({name for unit in labels for name in unit})
    ranks = _rank_table(scale, labels, people)
    rows = []
    for number, name in enumerate(people):
        others = np.delete(ranks, number, axis=1)
        percent = percent_equal(ranks[:, [number]], others)
        if percent is not None:
            rows.append(
                PeopleAgreement(
                    scale=scale.title,
                    first=name,
                    second="",
                    items=percent.items,
                    percent=percent.value,
                    percent_low=percent.low,
                    percent_high=percent.high,
                )
            )
    for first, second in combinations(range(len(people)), 2):
        percent = percent_equal(ranks[:, [first]], ranks[:, [second]])
        if percent is not None:
            kappa = cohen_kappa(ranks[:, first], ranks[:, second], len(scale.levels))
            rows.append(
                PeopleAgreement(
                    scale=scale.title,
                    first=people[first],
                    second=people[second],
                    items=percent.items,
                    percent=percent.value,
                    percent_low=percent.low,
                    percent_high=percent.high,
                    kappa=kappa.value,
                    kappa_low=kappa.low,
                    kappa_high=kappa.high,
                )
            )
    return rows


def _rank_table(scale: Scale, labels: Units, people: Sequence[str]) -> np.ndarray:
    """Return the ranks of labels on a scale, by item and annotator; -1 for no label."""
    ranks = {level: rank for rank, level in enumerate(scale.levels)}
    ranks[None] = -1
    table = np.empty((len(labels), len(people)), dtype=int)
    for row, unit in enumerate(labels):
        for column, name in enumerate(people):
            table[row, column] = ranks[unit.get(name)]
    return table
