"""How far annotators agree: percent, Cohen's, Fleiss' and Krippendorff's coefficients."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from statistics import fmean
from typing import Any

from lmms_egoplan.annotation.flow import Flow, Labelled, Scale
from lmms_egoplan.judging.agreement import fleiss_kappa

Units = Sequence[Mapping[str, Any]]
"""For each item with two or more labels, the annotators' values."""


@dataclass(frozen=True)
class Agreement:
    """Agreement on a scale; None where it is undefined.

    items: with two or more labels.
    percent: of pairs of labels of one item, those that are equal; 0 to 100.
    cohen: mean of Cohen's kappa over pairs of annotators, each weighted by the items that the two share; in [-1, 1].
        Pairs that share none, or give one and the same level to all that they share, are left out: kappa is undefined
        there.
    cohen_pairs: how many pairs that are.
    cohen_smallest_overlap: items that the pair shares that shares fewest; None without a pair.
    fleiss: Fleiss' kappa, of items with equally many labels, three or more.
    krippendorff: Krippendorff's alpha (2011), for any number of labels: nominal, or interval where the scale is
        ordered.
    """

    title: str
    items: int
    percent: float | None
    cohen: float | None
    cohen_pairs: int
    cohen_smallest_overlap: int | None
    fleiss: float | None
    krippendorff: float | None


def agreements(flow: Flow, labelled: Labelled) -> list[Agreement]:
    """Agreement on every scale of a flow, by the labels of its first stage."""
    stage = flow.stages[0].name
    return [
        measure(
            scale,
            [{label.person: scale.of(label.values) for label in labelled.of(item, stage)} for item in labelled.items],
        )
        for scale in flow.scales().values()
    ]


def measure(scale: Scale, labels: Units) -> Agreement:
    """Agreement of labels on one scale.

    Args:
        labels: of each item, by annotator, the value; None for none.

    >>> scale = Scale("Correct", (0, 1), dict.get)
    >>> found = measure(scale, [{"A": 1, "B": 1}, {"A": 0, "B": 0}, {"A": 1, "B": 0}, {"A": 1}])
    >>> found.items, round(found.percent, 1), round(found.cohen, 2), round(found.krippendorff, 3)
    (3, 66.7, 0.4, 0.444)
    """
    units = [{name: value for name, value in unit.items() if value is not None} for unit in labels]
    units = [unit for unit in units if len(unit) > 1]
    pairs = [pair for unit in units for pair in combinations(unit.values(), 2)]
    percent = 100 * fmean(one == other for one, other in pairs) if pairs else None
    kappas = _cohen(scale, units)
    overlaps = [overlap for _, overlap in kappas]
    cohen = fmean((kappa for kappa, _ in kappas), overlaps) if kappas else None
    fleiss, alpha = _fleiss(scale, units), krippendorff(scale, units)
    smallest = min(overlaps, default=None)
    return Agreement(scale.title, len(units), percent, cohen, len(kappas), smallest, fleiss, alpha)


def krippendorff(scale: Scale, units: Units) -> float | None:
    """Krippendorff's alpha: 1 less observed disagreement over that expected by chance.

    Args:
        units: each with two or more values.

    Returns:
        At most 1; None where all values are equal, or there is none.
    """
    coincidences: Counter[tuple[Any, Any]] = Counter()
    for unit in units:
        for pair in permutations(unit.values(), 2):
            coincidences[pair] += 1 / (len(unit) - 1)
    totals: Counter[Any] = Counter()
    for (value, _), count in coincidences.items():
        totals[value] += count
    whole = sum(totals.values())
    distance = (lambda a, b: float(a - b) ** 2) if scale.is_ordered else (lambda a, b: float(a != b))
    expected = sum(totals[a] * totals[b] * distance(a, b) for a in totals for b in totals)
    if not expected:
        return None
    observed = sum(count * distance(*pair) for pair, count in coincidences.items())
    return 1 - (whole - 1) * observed / expected


def _cohen(scale: Scale, units: Units) -> list[tuple[float, int]]:
    """Of each pair for which it is defined, kappa and the number of items that the two share."""
    from sklearn.metrics import cohen_kappa_score

    people = sorted({name for unit in units for name in unit})
    found = []
    for one, other in combinations(people, 2):
        shared = [(unit[one], unit[other]) for unit in units if one in unit and other in unit]
        ranks = [[scale.levels.index(value) for value in values] for values in zip(*shared, strict=True)]
        if ranks and len({*ranks[0], *ranks[1]}) > 1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kappa = float(cohen_kappa_score(*ranks, labels=range(len(scale.levels))))
            found.append((kappa, len(shared)))
    return found


def _fleiss(scale: Scale, units: Units) -> float | None:
    sizes = {len(unit) for unit in units}
    if len(sizes) != 1 or min(sizes) < 3:
        return None
    # Fleiss' kappa does not ask who gave which label.
    ranks = [[scale.levels.index(value) for value in unit.values()] for unit in units]
    estimate = fleiss_kappa(list(zip(*ranks, strict=True)), range(len(scale.levels)))
    return None if estimate is None else estimate.value
