"""How far raters agree: Pearson's r and Cohen's kappa of pairs, Fleiss' kappa of three and more, each rater's mean.

Every coefficient has a bootstrap interval.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
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

    pearson: None where it is undefined: for fewer than two questions, or ratings of one rater that are all equal.
    kappa_unweighted, kappa_linear: Cohen's, without weights and with linear ones; None where Pearson's r is, and for
        ratings that are means.
    undefined_resamples: how many of the `RESAMPLES` samples of the bootstrap are undefined in that way; the
        intervals leave them out.
    """

    questions: int
    pearson: Estimate | None
    kappa_unweighted: Estimate | None
    kappa_linear: Estimate | None
    undefined_resamples: int = 0


def rated_by_all(ratings: Ratings) -> list[str]:
    """Questions that every rater has rated, in the first rater's order.

    >>> rated_by_all({"gpt-4o": {"1": 1.0, "2": 0.5, "3": None}, "human": {"1": 0.5, "3": 1.0}})
    ['1']
    """
    first, *others = ratings.values()
    return [
        question
        for question, rating in first.items()
        if rating is not None and all(other.get(question) is not None for other in others)
    ]


def gaps(ratings: Ratings) -> dict[str, tuple[int, int]]:
    """For each rater, how many of all raters' questions it does not have, and how many it has without a rating.

    >>> gaps({"gpt-4o": {"1": 1.0, "2": 0.5, "3": None}, "human": {"1": 0.5, "3": 1.0}})
    {'gpt-4o': (0, 1), 'human': (1, 0)}
    """
    everything = {question for rated in ratings.values() for question in rated}
    return {
        rater: (len(everything) - len(rated), sum(rating is None for rating in rated.values()))
        for rater, rated in ratings.items()
    }


def pooled(ratings: Ratings) -> dict[str, float | None]:
    """Several raters as one: the mean of their ratings of each question that all of them have.

    None where one of them gave no rating. Means of three raters over 50 answers are what arXiv 2311.15596 prints in
    Table 10.

    >>> pooled({"Ann": {"1": 1.0, "2": 0.5}, "Bo": {"1": 0.5, "2": None}})
    {'1': 0.75, '2': None}
    """
    first, *others = ratings.values()
    columns = {
        question: [rated[question] for rated in (first, *others)]
        for question in first
        if all(question in rated for rated in others)
    }
    return {question: None if None in column else fmean(column) for question, column in columns.items()}


def pairwise(
    ratings: Ratings, questions: Sequence[str], levels: Sequence[float], means: Collection[str] = ()
) -> Iterator[tuple[str, str, Agreement]]:
    """Every pair of raters, in the order of `ratings`, with their agreement on `questions`.

    Args:
        ratings: at least two raters.
        questions: each rated by all of them, as `rated_by_all` finds them.
        levels: as for `agreement`.
        means: raters whose ratings are means of several raters', not `levels`; they have no kappa.

    Raises:
        ValueError: as for `agreement`.

    >>> ratings = {"gpt-4o": {"1": 1.0, "2": 0.0, "3": 0.5}, "human": {"1": 1.0, "2": 0.0, "3": 0.5}}
    >>> [(*pair, found.questions) for *pair, found in pairwise(ratings, ["1", "2", "3"], levels=(0, 0.5, 1))]
    [('gpt-4o', 'human', 3)]
    """
    columns = {rater: [rated[question] for question in questions] for rater, rated in ratings.items()}
    for first, second in combinations(columns, 2):
        scale = None if first in means or second in means else levels
        yield first, second, agreement(columns[first], columns[second], scale)


def agreement(first: Sequence[float], second: Sequence[float], levels: Sequence[float] | None) -> Agreement:
    """Agreement of two raters on the same questions.

    The intervals are percentiles of a paired bootstrap over questions, always with the same seed.

    Args:
        first, second: a rating for each question, all of them among `levels`.
        levels: the scale, evenly spaced, lowest first; None where a rater's ratings are means, for Pearson's r alone.

    Raises:
        ValueError: not the same number of ratings, or a rating off the scale.

    >>> found = agreement([0, 0, 0.5, 1, 1, 1], [0, 0.5, 0.5, 0.5, 1, 1], levels=(0, 0.5, 1))
    >>> round(found.pearson.value, 3), round(found.kappa_unweighted.value, 3), round(found.kappa_linear.value, 3)
    (0.766, 0.52, 0.625)
    >>> -1 <= found.pearson.low <= found.pearson.value <= found.pearson.high <= 1
    True
    """
    import numpy as np
    from scipy.stats import pearsonr
    from sklearn.metrics import cohen_kappa_score

    if len(first) != len(second):
        raise ValueError(f"expected as many ratings of both raters, got {len(first)} and {len(second)}")
    if levels is not None:
        _check_scale({*first, *second}, levels)
    if min(len(set(first)), len(set(second))) < 2:
        return Agreement(len(first), None, None, None)

    def coefficients(a: "np.ndarray", b: "np.ndarray", axis: int) -> "np.ndarray":
        kappas = [] if levels is None else [_kappas(a, b, levels, axis), _linear_kappas(a, b, levels, axis)]
        return np.stack([pearsonr(a, b, axis=axis).statistic, *kappas])

    values = [pearsonr(first, second).statistic]
    if levels is not None:
        ranks = [[levels.index(rating) for rating in ratings] for ratings in (first, second)]
        values += [
            cohen_kappa_score(*ranks, labels=range(len(levels)), weights=weights) for weights in (None, "linear")
        ]
    estimates, undefined = _estimates(values, coefficients, (first, second))
    pearson, unweighted, linear = (*estimates, None, None)[:3]
    return Agreement(len(first), pearson, unweighted, linear, undefined)


def fleiss_kappa(ratings: Sequence[Sequence[float]], levels: Sequence[float]) -> Estimate | None:
    """Fleiss' kappa (1971) of three or more raters, with a bootstrap interval over questions.

    Args:
        ratings: of each rater, a rating for each question, all of them among `levels`.
        levels: the scale; Fleiss' kappa knows no order of it.

    Returns:
        None where it is undefined: for fewer than two questions, or ratings that are all equal.

    Raises:
        ValueError: fewer than three raters, not the same number of ratings, or a rating off the scale.

    >>> ratings = [[0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 0, 0]]
    >>> round(fleiss_kappa(ratings, levels=(0, 1)).value, 3)
    0.333
    """
    import numpy as np

    if len(ratings) < 3 or len({len(column) for column in ratings}) > 1:
        raise ValueError(
            f"expected three or more raters with as many ratings each, got {[len(column) for column in ratings]}"
        )
    _check_scale({rating for column in ratings for rating in column}, levels)
    if len(ratings[0]) < 2 or len({rating for column in ratings for rating in column}) < 2:
        return None
    given = np.asarray(ratings)
    counts = np.stack([(given == level).sum(axis=0) for level in levels]).astype(float)
    agreeing = (counts * (counts - 1)).sum(axis=0) / (len(ratings) * (len(ratings) - 1))

    def kappas(agreeing: "np.ndarray", *counts: "np.ndarray", axis: int) -> "np.ndarray":
        expected = sum((count.mean(axis) / len(ratings)) ** 2 for count in counts)
        # Where all ratings of a resample are equal, kappa is 0 / 0.
        return np.stack([(agreeing.mean(axis) - expected) / np.where(expected < 1, 1 - expected, np.nan)])

    ((estimate,), _) = _estimates(kappas(agreeing, *counts, axis=0), kappas, (agreeing, *counts))
    return estimate


def _check_scale(ratings: Collection[float], levels: Sequence[float]) -> None:
    if off_scale := {*ratings} - {*levels}:
        raise ValueError(f"ratings must be among {tuple(levels)}, got {sorted(off_scale)}")


def _estimates(
    values: Sequence[float], statistic: "Callable[..., np.ndarray]", samples: Sequence[Sequence[float]]
) -> tuple[list[Estimate], int]:
    """The values with their intervals, and how many resamples are undefined, by the first coefficient."""
    import numpy as np
    from scipy.stats import ConstantInputWarning, DegenerateDataWarning, bootstrap

    with warnings.catch_warnings():
        # Resamples in which a rater is constant: their coefficients are NaN, and they are left out below.
        warnings.simplefilter("ignore", ConstantInputWarning)
        warnings.simplefilter("ignore", DegenerateDataWarning)
        resampled = bootstrap(
            samples,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            method="percentile",
            rng=np.random.default_rng(_SEED),
        ).bootstrap_distribution
    defined = resampled[:, np.isfinite(resampled[0])]
    lows, highs = np.percentile(defined, _PERCENTILES, axis=1)
    estimates = [Estimate(*map(float, estimate)) for estimate in zip(values, lows, highs, strict=True)]
    return estimates, RESAMPLES - defined.shape[1]


def _kappas(a: "np.ndarray", b: "np.ndarray", levels: Sequence[float], axis: int) -> "np.ndarray":
    """Unweighted kappa of many resamples at once: scikit-learn computes one in the time this takes for hundreds."""
    expected = sum((a == level).mean(axis) * (b == level).mean(axis) for level in levels)
    # Without any expected disagreement both raters are constant: left out with the other undefined ones.
    return ((a == b).mean(axis) - expected) / (1 - expected + (expected == 1))


def _linear_kappas(a: "np.ndarray", b: "np.ndarray", levels: Sequence[float], axis: int) -> "np.ndarray":
    """Kappa with linear weights of many resamples at once.

    A linear weight counts the steps of the scale between two ratings, so disagreement is summed over the steps:
    observed where the step lies between a question's two ratings, expected where it would by chance.
    """
    observed, expected = 0.0, 0.0
    for level in levels[:-1]:
        low_a, low_b = a <= level, b <= level
        share_a, share_b = low_a.mean(axis), low_b.mean(axis)
        observed += (low_a != low_b).mean(axis)
        expected += share_a + share_b - 2 * share_a * share_b
    # As above.
    return 1 - observed / (expected + (expected == 0))
