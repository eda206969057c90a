"""Measure how far raters agree with each other, and one judge with itself.

Raters: Pearson's r and Cohen's kappa of pairs, Krippendorff's alpha of any number of raters.

Every coefficient has a bootstrap interval. It depends neither on the order of the items nor on that of the raters.
Below `MIN_ITEMS` items there is no coefficient.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from krippendorff import alpha

MIN_ITEMS = 10
RESAMPLES = 2000
_SEED = 0
_PERCENTILES = (2.5, 97.5)

# Rater, then question, then rating; None where the rater has the question but gave no rating.
Ratings = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class Estimate:
    """A coefficient in [-1, 1] with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree on some questions.

    questions: how many both have rated.
    pearson: None for fewer than `MIN_ITEMS` questions, and where it is undefined: ratings of one rater are all equal.
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


def gaps(ratings: Ratings) -> dict[str, tuple[int, int]]:
    """Count for each rater how many of all raters' questions it lacks, and how many it has without a rating.

    >>> gaps({"gpt-4o": {"1": 1.0, "2": 0.5, "3": None}, "human": {"1": 0.5, "3": 1.0}})
    {'gpt-4o': (0, 1), 'human': (1, 0)}
    """
    everything = {question for rated in ratings.values() for question in rated}
    return {
        rater: (len(everything) - len(rated), sum(rating is None for rating in rated.values()))
        for rater, rated in ratings.items()
    }


def pooled(ratings: Ratings) -> dict[str, float | None]:
    """Treat several raters as one: the mean of their ratings of each question that at least two have rated.

    None where fewer have. Means of three raters over 50 answers are what arXiv 2311.15596 prints in Table 10.

    >>> pooled({"Ann": {"1": 1.0, "2": 0.5}, "Bo": {"1": 0.5, "2": None}})
    {'1': 0.75, '2': None}
    """
    return {question: fmean(given) if len(given) > 1 else None for question, given in by_question(ratings).items()}


def by_question(ratings: Ratings) -> dict[str, list[float]]:
    """Return the ratings of each question.

    >>> by_question({"gpt-4o": {"1": 1.0, "2": 0.5, "3": None}, "human": {"1": 0.5, "3": 1.0}})
    {'1': [1.0, 0.5], '2': [0.5], '3': [1.0]}
    """
    questions = dict.fromkeys(question for rated in ratings.values() for question in rated)
    return {
        question: [rating for rated in ratings.values() if (rating := rated.get(question)) is not None]
        for question in questions
    }


def agreement(first: Sequence[float], second: Sequence[float], levels: Sequence[float] | None) -> Agreement:
    """Measure the agreement of two raters on the same questions.

    The intervals are percentiles of a paired bootstrap over questions, always with the same seed.

    Args:
        first, second: a rating for each question, all of them among `levels`.
        levels: the scale, evenly spaced, lowest first; None where a rater's ratings are means, for Pearson's r alone.

    Raises:
        ValueError: not the same number of ratings, or a rating off the scale.

    >>> found = agreement([0, 0, 0.5, 1, 1, 1] * 2, [0, 0.5, 0.5, 0.5, 1, 1] * 2, levels=(0, 0.5, 1))
    >>> round(found.pearson.value, 3), round(found.kappa_unweighted.value, 3), round(found.kappa_linear.value, 3)
    (0.766, 0.52, 0.625)
    >>> -1 <= found.pearson.low <= found.pearson.value <= found.pearson.high <= 1
    True
    """
    from scipy.stats import pearsonr
    from sklearn.metrics import cohen_kappa_score

    if len(first) != len(second):
        raise ValueError(f"expected as many ratings of both raters, got {len(first)} and {len(second)}")
    if levels is not None:
        _check_scale({*first, *second}, levels)
    if len(first) < MIN_ITEMS or min(len(set(first)), len(set(second))) < 2:
        return Agreement(len(first), None, None, None)
    # The same resamples in any order of questions and raters.
    first, second = zip(
        *min(sorted(zip(first, second, strict=True)), sorted(zip(second, first, strict=True))), strict=True
    )

    def coefficients(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        kappas = [] if levels is None else [_kappas(a, b, levels), _linear_kappas(a, b, levels)]
        return np.stack([pearsonr(a, b, axis=-1).statistic, *kappas])

    values = [pearsonr(first, second).statistic]
    if levels is not None:
        ranks = [[levels.index(rating) for rating in ratings] for ratings in (first, second)]
        values += [
            cohen_kappa_score(*ranks, labels=range(len(levels)), weights=weights) for weights in (None, "linear")
        ]
    estimates, undefined = _estimates(values, coefficients, (first, second))
    pearson, unweighted, linear = (*estimates, None, None)[:3]
    return Agreement(len(first), pearson, unweighted, linear, undefined)


def krippendorff_alpha(units: Iterable[Sequence[Any]], levels: Sequence[Any], *, is_ordered: bool) -> Estimate | None:
    """Compute Krippendorff's alpha (2011) of any number of raters, with a bootstrap interval over items.

    Args:
        units: for each item the ratings that there are, all of them among `levels`; those with one or none are skipped.
        levels: the scale.
        is_ordered: whether levels are numbers, whose distance counts (interval); else they are equal or not (nominal).

    Returns:
        None for fewer than `MIN_ITEMS` items with two ratings, and where it is undefined: ratings are all equal.

    Raises:
        ValueError: a rating off the scale.

    >>> units = [[0, 0, 0], [1, 1, 1], [1, 1], [0, 1, 0]] * 3
    >>> round(krippendorff_alpha(units, levels=(0, 1), is_ordered=False).value, 3)
    0.644
    """
    several = [unit for unit in units if len(unit) > 1]
    _check_scale({rating for unit in several for rating in unit}, levels)
    # The same resamples in any order of items.
    counts = np.array(sorted([unit.count(level) for level in levels] for unit in map(list, several)))
    if len(several) < MIN_ITEMS or (counts.sum(axis=0) > 0).sum() < 2:
        return None
    domain = np.asarray(levels if is_ordered else range(len(levels)), dtype=float)
    distances = (domain[:, None] - domain) ** 2 if is_ordered else 1 - np.eye(len(domain))
    observed = (counts @ distances * counts).sum(axis=1) / (counts.sum(axis=1) - 1)

    def alphas(observed: np.ndarray, *counts: np.ndarray) -> np.ndarray:
        totals = np.stack([count.sum(axis=-1) for count in counts])
        expected = np.einsum("i...,ij,j...->...", totals, distances, totals) / (totals.sum(axis=0) - 1)
        # Where all ratings of a resample are equal, alpha is 1 - 0 / 0.
        return np.stack([1 - observed.sum(axis=-1) / np.where(expected > 0, expected, np.nan)])

    value = alpha(None, counts, domain, "interval" if is_ordered else "nominal")
    ((estimate,), _) = _estimates([value], alphas, (observed, *counts.T))
    return estimate


def _check_scale(ratings: Collection[float], levels: Sequence[float]) -> None:
    if off_scale := {*ratings} - {*levels}:
        raise ValueError(f"ratings must be among {tuple(levels)}, got {sorted(off_scale)}")


def _estimates(
    values: Sequence[float], statistic: Callable[..., np.ndarray], samples: Sequence[Sequence[float]]
) -> tuple[list[Estimate], int]:
    """Return the values with their intervals, and how many resamples are undefined, by the first coefficient.

    Args:
        statistic: of resamples, each in a row; returns a row of values for each coefficient.
        samples: of items, which are drawn together.
    """
    from scipy.stats import ConstantInputWarning

    items = len(samples[0])
    drawn = np.random.default_rng(_SEED).integers(0, items, (RESAMPLES, items))
    with warnings.catch_warnings():
        # Resamples in which a rater is constant: their coefficients are NaN, and they are left out below.
        warnings.simplefilter("ignore", ConstantInputWarning)
        resampled = statistic(*(np.asarray(sample)[drawn] for sample in samples))
    defined = resampled[:, np.isfinite(resampled[0])]
    lows, highs = np.percentile(defined, _PERCENTILES, axis=1)
    estimates = [Estimate(*map(float, estimate)) for estimate in zip(values, lows, highs, strict=True)]
    return estimates, RESAMPLES - defined.shape[1]


def _kappas(a: np.ndarray, b: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Compute the unweighted kappa of many resamples at once, hundreds in the time of one by scikit-learn."""
    expected = sum((a == level).mean(axis=-1) * (b == level).mean(axis=-1) for level in levels)
    # Without any expected disagreement both raters are constant: left out with the other undefined ones.
    return ((a == b).mean(axis=-1) - expected) / (1 - expected + (expected == 1))


def _linear_kappas(a: np.ndarray, b: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Compute the kappa with linear weights of many resamples at once.

    A linear weight counts the steps of the scale between two ratings, so disagreement is summed over the steps:
    observed where the step lies between a question's two ratings, expected where it would by chance.
    """
    observed = expected = np.zeros(())
    for level in levels[:-1]:
        low_a, low_b = a <= level, b <= level
        share_a, share_b = low_a.mean(axis=-1), low_b.mean(axis=-1)
        observed = observed + (low_a != low_b).mean(axis=-1)
        expected = expected + (share_a + share_b - 2 * share_a * share_b)
    # As above.
    return 1 - observed / (expected + (expected == 0))


@dataclass(frozen=True)
class Noise:
    """Ratings of the same answers in several repeats.

    scores: of each repeat, over the answers with a rating in all of them; empty where there are none.
    answers: how many these are.
    left_out: how many lack a rating in some repeat.
    changed: share in [0, 1] of the answers whose ratings are not all the same; None without answers.
    rating_sd: mean over the answers of the standard deviation of their ratings; None without answers.
    """

    scores: tuple[float, ...]
    answers: int
    left_out: int
    changed: float | None
    rating_sd: float | None

    @property
    def score(self) -> float | None:
        """Mean score; None without answers."""
        return fmean(self.scores) if self.scores else None

    @property
    def score_sd(self) -> float | None:
        """Sample standard deviation of the scores; None without answers."""
        return stdev(self.scores) if self.scores else None


def noise(ratings: Sequence[Sequence[float | None]]) -> Noise:
    """Measure the noise of some answers; their score is the mean rating.

    Args:
        ratings: of each answer, as many as there are repeats, at least two; None where there is none.

    Raises:
        ValueError: fewer than two repeats, or not as many for each answer.

    >>> found = noise([(1.0, 1.0), (0.5, 0.0), (1.0, None)])
    >>> found.scores, found.answers, found.left_out, found.changed
    ((0.75, 0.5), 2, 1, 0.5)
    """
    if len({len(repeated) for repeated in ratings}) > 1 or any(len(repeated) < 2 for repeated in ratings):
        raise ValueError("expected as many ratings of each answer, at least two")
    rated = [[rating for rating in repeated if rating is not None] for repeated in ratings if None not in repeated]
    return Noise(
        scores=tuple(fmean(repeat) for repeat in zip(*rated, strict=True)),
        answers=len(rated),
        left_out=len(ratings) - len(rated),
        changed=fmean(len(set(repeated)) > 1 for repeated in rated) if rated else None,
        rating_sd=fmean(stdev(repeated) for repeated in rated) if rated else None,
    )


def noise_of_average(parts: Sequence[Noise]) -> Noise:
    """Measure the noise of the mean over the scores of several parts; other values are over all their answers.

    Parts without answers have no score, and then neither has the average.

    >>> average = noise_of_average([noise([(1.0, 1.0), (0.5, 0.0)]), noise([(0.0, 1.0)])])
    >>> average.scores, average.answers
    ((0.375, 0.75), 3)
    """
    answers = sum(part.answers for part in parts)
    is_whole = bool(parts) and all(part.answers for part in parts)

    def mean(values: Iterable[float | None]) -> float | None:
        weighted = ((value or 0) * part.answers for value, part in zip(values, parts, strict=True))
        return sum(weighted) / answers if answers else None

    return Noise(
        scores=tuple(map(fmean, zip(*(part.scores for part in parts), strict=True))) if is_whole else (),
        answers=answers,
        left_out=sum(part.left_out for part in parts),
        changed=mean(part.changed for part in parts),
        rating_sd=mean(part.rating_sd for part in parts),
    )
