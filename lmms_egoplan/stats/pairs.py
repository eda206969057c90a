"""Measure the agreement of pairs of annotators, of whom each has labelled some of the items.

Labels are ranks on a scale, from 0; -1 means no label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmms_egoplan.stats.agreement import MIN_ITEMS, RESAMPLES

_SEED = 0


@dataclass(frozen=True)
class ItemEstimate:
    """A statistic of items with its bootstrap interval.

    Attributes:
        items: Number of items.
        value: The statistic; None if undefined.
        low: Lower end of its interval; None if undefined or below `MIN_ITEMS` items.
        high: Upper end of its interval.
    """

    items: int
    value: Any
    low: float | None
    high: float | None


def percent_equal(ranks: np.ndarray, other_ranks: np.ndarray) -> ItemEstimate | None:
    """Return the percentage of equal label pairs of an annotator with others.

    Args:
        ranks: The annotator's ranks, in one column; -1 for no label.
        other_ranks: Those of the others, with a column for each.

    Returns:
        None without shared items.

    >>> ranks = np.array([0, 1, 1, 0, -1] * 5)
    >>> others = np.array([[0, 0], [1, 0], [1, -1], [-1, -1], [1, 1]] * 5)
    >>> percent = percent_equal(ranks[:, None], others)
    >>> percent.items, percent.value
    (15, 80.0)
    """
    is_pair = (ranks >= 0) & (other_ranks >= 0)
    num_pairs = is_pair.sum(axis=1)
    num_equal = (is_pair & (ranks == other_ranks)).sum(axis=1)
    # Items with the same numbers of equal pairs and of pairs are of the same kind.
    kinds, counts = np.unique(
        np.stack([num_equal, num_pairs], axis=1)[num_pairs > 0], axis=0, return_counts=True
    )
    if not counts.size:
        return None
    return _resampled(kinds, counts, lambda sums: 100 * sums[:, 0] / sums[:, 1])


def cohen_kappa(ranks: np.ndarray, other_ranks: np.ndarray, num_levels: int) -> ItemEstimate:
    """Return Cohen's kappa of two annotators over the items that both labelled.

    It is None below `MIN_ITEMS` items, or if one of the two uses only one level. Such resamples are
    excluded from the interval.

    Args:
        ranks: The ranks of one annotator's labels; -1 for no label.
        other_ranks: Those of the other one.
        num_levels: Number of levels of the scale.

    >>> kappa = cohen_kappa(np.array([0, 1, 0, 1] * 5), np.array([0, 1, 0, 0] * 5), 2)
    >>> kappa.items, kappa.value
    (20, 0.5)
    """
    is_shared = (ranks >= 0) & (other_ranks >= 0)
    cells = (ranks * num_levels + other_ranks)[is_shared]
    num_cells = num_levels**2
    return _resampled(np.eye(num_cells), np.bincount(cells, minlength=num_cells), _kappas)


def _resampled(
    kinds: np.ndarray, counts: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]
) -> ItemEstimate:
    """Return a statistic of items with its bootstrap interval. Undefined values are None.

    Drawing items with replacement is drawing the number of items of each kind from a multinomial
    distribution.

    Args:
        kinds: Summands of an item of each kind.
        counts: Number of items of each kind.
        statistic: Function from sums over items, one sample per row, to one value per row; NaN if
            undefined.
    """
    items = int(counts.sum())
    (value,) = statistic(counts[None] @ kinds)
    if np.isnan(value):
        return ItemEstimate(items, None, None, None)
    if items < MIN_ITEMS:
        return ItemEstimate(items, float(value), None, None)
    drawn = np.random.default_rng(_SEED).multinomial(items, counts / items, RESAMPLES)
    low, high = np.nanpercentile(statistic(drawn @ kinds), (2.5, 97.5))
    return ItemEstimate(items, float(value), float(low), float(high))


def _kappas(counts: np.ndarray) -> np.ndarray:
    """Compute Cohen's kappa of flattened tables of two annotators' levels.

    NaN below `MIN_ITEMS` items, or if one annotator uses only one level.
    """
    size = round(counts.shape[1] ** 0.5)
    tables = counts.reshape(-1, size, size)
    items = counts.sum(axis=1)
    first = tables.sum(axis=2)
    second = tables.sum(axis=1)
    equal = np.trace(tables, axis1=1, axis2=2) / items
    expected = (first * second).sum(axis=1) / items**2
    # Whole numbers: the sum of a person's shares is not always exactly 1.
    is_defined = (first.max(axis=1) < items) & (second.max(axis=1) < items) & (items >= MIN_ITEMS)
    return np.divide(
        equal - expected, 1 - expected, out=np.full(len(tables), np.nan), where=is_defined
    )
