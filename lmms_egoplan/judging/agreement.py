"""How far raters agree: Pearson's r and Cohen's kappa of every pair of them, with bootstrap intervals.

EgoThink gives Pearson's r between judges and humans (Table 9) and kappa among humans (sec. 5.2).
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 2000
_SEED = 0
_PERCENTILES = (2.5, 97.5)

Ratings = Mapping[str, Mapping[str, float | None]]
"""Rater, then question, then rating; None where the rater has the question but gave no rating."""


@dataclass(frozen=True)
class Estimate:
    """A coefficient in [-1, 1] with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree on some questions.

    pearson, kappa: None where they are undefined: for fewer than two questions, or ratings of one rater that
        are all equal.
    undefined_resamples: how many of the `RESAMPLES` samples of the bootstrap are undefined in that way; the
        intervals leave them out.
    """

    questions: int
    pearson: Estimate | None
    kappa: Estimate | None
    undefined_resamples: int = 0


def rated_by_all(ratings: Ratings) -> list[str]:
    """Questions that every rater has rated, in the first rater's order."""
    first, *others = ratings.values()
    return [
        question
        for question, rating in first.items()
        if rating is not None and all(other.get(question) is not None for other in others)
    ]


def gaps(ratings: Ratings) -> dict[str, tuple[int, int]]:
    """For each rater, how many of all raters' questions it does not have, and how many it has without a rating."""
    everything = {question for rated in ratings.values() for question in rated}
    return {
        rater: (len(everything) - len(rated), sum(rating is None for rating in rated.values()))
        for rater, rated in ratings.items()
    }


def pairwise(
    ratings: Ratings, questions: Sequence[str], levels: Sequence[float]
) -> Iterator[tuple[str, str, Agreement]]:
    """Every pair of raters, in the order of `ratings`, with their agreement on `questions`.

    Args:
        ratings: at least two raters.
        questions: each rated by all of them, as `rated_by_all` finds them.
        levels: as for `agreement`.

    Raises:
        ValueError: as for `agreement`.
    """
    columns = {rater: [rated[question] for question in questions] for rater, rated in ratings.items()}
    for first, second in combinations(columns, 2):
        yield first, second, agreement(columns[first], columns[second], levels)


def agreement(first: Sequence[float], second: Sequence[float], levels: Sequence[float]) -> Agreement:
    """Agreement of two raters on the same questions.

    The intervals are percentiles of a paired bootstrap over questions, always with the same seed.

    Args:
        first, second: a rating for each question, all of them among `levels`.
        levels: the scale, evenly spaced, lowest first. Kappa's weights are linear over it.

    Raises:
        ValueError: not the same number of ratings, or a rating off the scale.
    """
    import numpy as np
    from scipy.stats import ConstantInputWarning, DegenerateDataWarning, bootstrap, pearsonr
    from sklearn.metrics import cohen_kappa_score

    if len(first) != len(second):
        raise ValueError(f"expected as many ratings of both raters, got {len(first)} and {len(second)}")
    off_scale = ({*first} | {*second}) - {*levels}
    if off_scale:
        raise ValueError(f"ratings must be among {tuple(levels)}, got {sorted(off_scale)}")
    if min(len(set(first)), len(set(second))) < 2:
        return Agreement(len(first), None, None)

    def coefficients(a: "np.ndarray", b: "np.ndarray", axis: int) -> "np.ndarray":
        return np.stack([pearsonr(a, b, axis=axis).statistic, _kappas(a, b, levels, axis)])

    with warnings.catch_warnings():
        # Resamples in which a rater is constant: their Pearson is NaN, and they are left out below.
        warnings.simplefilter("ignore", ConstantInputWarning)
        warnings.simplefilter("ignore", DegenerateDataWarning)
        resampled = bootstrap(
            (first, second),
            coefficients,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        ).bootstrap_distribution
    defined = resampled[:, np.isfinite(resampled[0])]
    lows, highs = np.percentile(defined, _PERCENTILES, axis=1)
    ranks = [[levels.index(rating) for rating in ratings] for ratings in (first, second)]
    values = (
        pearsonr(first, second).statistic,
        cohen_kappa_score(*ranks, labels=range(len(levels)), weights="linear"),
    )
    estimates = [Estimate(*map(float, estimate)) for estimate in zip(values, lows, highs, strict=True)]
    return Agreement(len(first), *estimates, undefined_resamples=RESAMPLES - defined.shape[1])


def _kappas(a: "np.ndarray", b: "np.ndarray", levels: Sequence[float], axis: int) -> "np.ndarray":
    """Kappa of many resamples at once: scikit-learn computes one in the time this takes for hundreds.

    A linear weight counts the steps of the scale between two ratings, so disagreement is summed over the steps:
    observed where the step lies between a question's two ratings, expected where it would by chance.
    """
    observed, expected = 0.0, 0.0
    for level in levels[:-1]:
        low_a, low_b = a <= level, b <= level
        share_a, share_b = low_a.mean(axis), low_b.mean(axis)
        observed += (low_a != low_b).mean(axis)
        expected += share_a + share_b - 2 * share_a * share_b
    # Without any expected disagreement both raters are constant: left out with the other undefined ones.
    return 1 - observed / (expected + (expected == 0))
