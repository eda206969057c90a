"""Measure the agreement between raters, and the noise of one judge over repeats.

For two raters: Pearson's r and Cohen's kappa. For any number of raters: Krippendorff's alpha.

Every coefficient has a bootstrap interval, which does not depend on the order of items or raters.
Coefficients require at least `MIN_ITEMS` items.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, stdev
from typing import Any

import numpy as np
from krippendorff import alpha

MIN_ITEMS = 10
RESAMPLES = 2000
_SEED = 0
_PERCENTILES = (2.5, 97.5)

# Rater -> question -> rating; None if the rater saw the question but gave no rating.
Ratings = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class Estimate:
    """A coefficient in [-1, 1] with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of two raters.

    Attributes:
        questions: Number of questions that both rated.
        pearson: Pearson's r. None for fewer than `MIN_ITEMS` questions, or if all ratings of one
            rater are equal.
        kappa_unweighted: Cohen's kappa without weights. None if `pearson` is None or ratings are
            means.
        kappa_linear: Cohen's kappa with linear weights. None in the same cases.
        undefined_resamples: Number of bootstrap samples, of `RESAMPLES`, in which all ratings of
            one rater are equal. The intervals exclude them.
    """

    questions: int
    pearson: Estimate | None
    kappa_unweighted: Estimate | None
    kappa_linear: Estimate | None
    undefined_resamples: int = 0


def gaps(ratings: Ratings) -> dict[str, tuple[int, int]]:
    """Count the gaps of each rater.

    These are the questions that only other raters saw, and its own questions without a rating.

    >>> gaps({"gpt-4o": {"1": 1.0, "2": 0.5, "3": None}, "human": {"1": 0.5, "3": 1.0}})
    {'gpt-4o': (0, 1), 'human': (1, 0)}
    """
    num_questions = len(by_question(ratings))
    counts = {}
    for rater, rated in ratings.items():
        num_unseen = num_questions - len(rated)
        num_unrated = list(rated.values()).count(None)
        counts[rater] = (num_unseen, num_unrated)
    return counts


def pooled(ratings: Ratings) -> dict[str, float | None]:
    """Combine several raters into one with the mean rating of each question.

    The rating is None for questions with fewer than two ratings. Table 10 of arXiv 2311.15596
    reports such means of three raters over 50 answers.

    >>> pooled({"Ann": {"1": 1.0, "2": 0.5}, "Bo": {"1": 0.5, "2": None}})
    {'1': 0.75, '2': None}
    """
    means: dict[str, float | None] = {}
    for question, values in by_question(ratings).items():
        if len(values) > 1:
            means[question] = fmean(values)
        else:
            means[question] = None
    return means


def by_question(ratings: Ratings) -> dict[str, list[float]]:
    """Return the ratings of each question, without missing ones.

    >>> by_question({"gpt-4o": {"1": 1.0, "2": 0.5, "3": None}, "human": {"1": 0.5, "3": 1.0}})
    {'1': [1.0, 0.5], '2': [0.5], '3': [1.0]}
    """
    questions: dict[str, list[float]] = {}
    for rated in ratings.values():
        for question, rating in rated.items():
            values = questions.setdefault(question, [])
            if rating is not None:
                values.append(rating)
    return questions


def agreement(
    first: Sequence[float], second: Sequence[float], levels: Sequence[float] | None
) -> Agreement:
    """Measure the agreement of two raters on the same questions.

    Intervals are percentiles of a paired bootstrap over questions with a fixed seed.

    Args:
        first: the first rater's rating of each question, from `levels`.
        second: the second rater's rating of each question, from `levels`.
        levels: the scale, evenly spaced, lowest first. None if ratings are means; then only
            Pearson's r is computed.

    Raises:
        ValueError: the raters have different numbers of ratings, or a rating is off the scale.

    >>> first, second = [0, 0, 0.5, 1, 1, 1] * 2, [0, 0.5, 0.5, 0.5, 1, 1] * 2
    >>> result = agreement(first, second, levels=(0, 0.5, 1))
    >>> round(result.pearson.value, 3)
    0.766
    >>> round(result.kappa_unweighted.value, 3), round(result.kappa_linear.value, 3)
    (0.52, 0.625)
    >>> -1 <= result.pearson.low <= result.pearson.value <= result.pearson.high <= 1
    True
    """
    if len(first) != len(second):
        raise ValueError(
            f"expected the same number of ratings from both raters, got {len(first)} and "
            f"{len(second)}"
        )
    if levels is not None:
        _check_scale({*first, *second}, levels)
    is_constant = len(set(first)) < 2 or len(set(second)) < 2
    if len(first) < MIN_ITEMS or is_constant:
        return Agreement(
            questions=len(first), pearson=None, kappa_unweighted=None, kappa_linear=None
        )

    def coefficients(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _coefficients_of_two(a, b, levels)

    samples = _ordered_pairs(first, second)
    values = coefficients(*samples).tolist()
    estimates, undefined = _estimates(values, coefficients, samples)
    if levels is None:
        (pearson,) = estimates
        unweighted = None
        linear = None
    else:
        pearson, unweighted, linear = estimates
    return Agreement(
        questions=len(first),
        pearson=pearson,
        kappa_unweighted=unweighted,
        kappa_linear=linear,
        undefined_resamples=undefined,
    )


def _ordered_pairs(
    first: Sequence[float], second: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Sort questions and raters, because resamples must not depend on their order."""
    pairs = sorted(zip(first, second, strict=True))
    swapped_pairs = sorted(zip(second, first, strict=True))
    ratings_a, ratings_b = zip(*min(pairs, swapped_pairs), strict=True)
    return np.array(ratings_a), np.array(ratings_b)


def _coefficients_of_two(
    a: np.ndarray, b: np.ndarray, levels: Sequence[float] | None
) -> np.ndarray:
    """Return Pearson's r and, on a scale, kappa without and with weights, one row each.

    Args:
        a, b: The ratings, one resample per row.
        levels: The scale, or None.
    """
    from scipy.stats import pearsonr

    coefficients = [pearsonr(a, b, axis=-1).statistic]
    if levels is not None:
        coefficients.append(_kappas(a, b, levels, longest=1))
        coefficients.append(_kappas(a, b, levels, longest=len(levels)))
    return np.stack(coefficients)


def krippendorff_alpha(
    units: Iterable[Sequence[Any]], levels: Sequence[Any], *, is_ordered: bool
) -> Estimate | None:
    """Compute Krippendorff's alpha (2011) of any number of raters.

    The interval is from a bootstrap over items.

    Args:
        units: the ratings of each item, from `levels`. Items with fewer than two ratings are
            skipped.
        levels: the scale.
        is_ordered: True for the interval metric, if levels are numbers; False for the nominal
            metric.

    Returns:
        None for fewer than `MIN_ITEMS` items with two ratings, or if all ratings are equal.

    Raises:
        ValueError: a rating is off the scale.

    >>> units = [[0, 0, 0], [1, 1, 1], [1, 1], [0, 1, 0]] * 3
    >>> round(krippendorff_alpha(units, levels=(0, 1), is_ordered=False).value, 3)
    0.644
    """
    rated_units = [list(unit) for unit in units if len(unit) > 1]
    _check_scale({*chain.from_iterable(rated_units)}, levels)
    if len(rated_units) < MIN_ITEMS:
        return None
    counts = _counts(rated_units, levels)
    is_used = counts.sum(axis=0) > 0
    if is_used.sum() < 2:
        return None
    if is_ordered:
        metric = "interval"
        domain = np.asarray(levels, dtype=float)
        distances = (domain[:, None] - domain) ** 2
    else:
        metric = "nominal"
        domain = np.arange(len(levels), dtype=float)
        distances = 1 - np.eye(len(levels))

    # The disagreement within each item.
    distances_within = (counts @ distances * counts).sum(axis=1)
    observed = distances_within / (counts.sum(axis=1) - 1)

    def alphas(observed: np.ndarray, *counts: np.ndarray) -> np.ndarray:
        return _alphas(observed, counts, distances)

    value = alpha(None, counts, domain, metric)
    estimates, _ = _estimates([value], alphas, (observed, *counts.T))
    return estimates[0]


def _counts(units: Sequence[list[Any]], levels: Sequence[Any]) -> np.ndarray:
    """Return how often each level (column) is a rating of each item (row).

    Rows are sorted, because resamples must not depend on the order of items.
    """
    rows = []
    for unit in units:
        rows.append([unit.count(level) for level in levels])
    return np.array(sorted(rows))


def _alphas(
    observed: np.ndarray, counts: Sequence[np.ndarray], distances: np.ndarray
) -> np.ndarray:
    """Compute alpha, 1 - observed / expected disagreement, of many resamples.

    Args:
        observed: Disagreement within each item, one resample per row.
        counts: For each level, how often it is a rating of each item, one resample per row.
        distances: The distance of any two levels.

    Returns:
        One row. NaN for resamples whose ratings are all equal.
    """
    totals = np.stack([count.sum(axis=-1) for count in counts])
    distances_of_any_two = np.einsum("i...,ij,j...->...", totals, distances, totals)
    expected = distances_of_any_two / (totals.sum(axis=0) - 1)
    # If all ratings of a resample are equal, alpha is undefined (1 - 0 / 0).
    expected_or_nan = np.where(expected > 0, expected, np.nan)
    values = 1 - observed.sum(axis=-1) / expected_or_nan
    return np.stack([values])


def _check_scale(ratings: Collection[float], levels: Sequence[float]) -> None:
    """Raise ValueError for a rating off the scale."""
    off_scale = {*ratings} - {*levels}
    if off_scale:
        raise ValueError(f"ratings must be among {tuple(levels)}, got {sorted(off_scale)}")


def _estimates(
    values: Sequence[float],
    statistic: Callable[..., np.ndarray],
    samples: Sequence[np.ndarray],
) -> tuple[list[Estimate], int]:
    """Return the values with their intervals, and the number of undefined resamples.

    The first coefficient of an undefined resample has no value.

    Args:
        values: the coefficients of the full sample.
        statistic: computes coefficients of resamples (one per row); returns one row of values per
            coefficient.
        samples: arrays over the same items, resampled together.
    """
    from scipy.stats import ConstantInputWarning

    num_items = len(samples[0])
    source = np.random.default_rng(_SEED)
    drawn = source.integers(0, num_items, (RESAMPLES, num_items))
    resamples = [sample[drawn] for sample in samples]
    with warnings.catch_warnings():
        # If a rater is constant in a resample, the coefficients are NaN and excluded below.
        warnings.simplefilter("ignore", ConstantInputWarning)
        resampled = statistic(*resamples)
    is_defined = np.isfinite(resampled[0])
    defined = resampled[:, is_defined]
    lows, highs = np.percentile(defined, _PERCENTILES, axis=1)
    estimates = []
    for value, low, high in zip(values, lows, highs, strict=True):
        estimates.append(Estimate(float(value), float(low), float(high)))
    num_undefined = RESAMPLES - defined.shape[1]
    return estimates, num_undefined


def _kappas(a: np.ndarray, b: np.ndarray, levels: Sequence[float], longest: int) -> np.ndarray:
    """Compute the kappa of many resamples, hundreds of times faster than scikit-learn.

    Kappa is 1 - d / e. The weight of a disagreement is its number of steps on the scale, at most
    `longest`. d is the mean weight of the pairs of ratings, and e the mean weight if the raters'
    ratings were independent.

    Args:
        a, b: The ratings, one resample per row.
        levels: The scale.
        longest: Largest number of steps on the scale that counts as disagreement: 1 for kappa
            without weights, or the length of the scale for linear weights.
    """
    ranks_a = np.searchsorted(levels, a)
    ranks_b = np.searchsorted(levels, b)
    all_ranks = np.arange(len(levels))
    steps = abs(all_ranks[:, None] - all_ranks)
    weights = np.minimum(steps, longest)
    observed = weights[ranks_a, ranks_b].mean(axis=-1)
    shares_a = _shares(ranks_a, all_ranks)
    shares_b = _shares(ranks_b, all_ranks)
    expected = np.einsum("...i,ij,...j->...", shares_a, weights, shares_b)
    # If no disagreement is expected, both raters are constant. The caller excludes these resamples.
    expected_or_one = np.where(expected == 0, 1, expected)
    return 1 - observed / expected_or_one


def _shares(ranks: np.ndarray, all_ranks: np.ndarray) -> np.ndarray:
    """Return the fraction of each rank among a rater's ratings, one resample per row."""
    is_rank = ranks[..., None] == all_ranks
    return is_rank.mean(axis=-2)


@dataclass(frozen=True)
class Noise:
    """Statistics of repeated ratings of the same answers.

    Attributes:
        scores: Score of each repeat, over the answers with a rating in every repeat; empty without
            such answers.
        answers: Number of answers with a rating in every repeat.
        left_out: Number of answers that lack a rating in some repeat.
        changed: Fraction in [0, 1] of `answers` whose ratings are not all equal; None without
            answers.
        rating_sd: Mean over `answers` of the standard deviation of their ratings; None without
            answers.
    """

    scores: tuple[float, ...]
    answers: int
    left_out: int
    changed: float | None
    rating_sd: float | None

    @property
    def score(self) -> float | None:
        """Mean score; None without answers."""
        if not self.scores:
            return None
        return fmean(self.scores)

    @property
    def score_sd(self) -> float | None:
        """Sample standard deviation of the scores; None without answers."""
        if not self.scores:
            return None
        return stdev(self.scores)


def noise(ratings: Sequence[Sequence[float | None]]) -> Noise:
    """Measure the noise of repeated ratings. The score of a repeat is the mean rating.

    Args:
        ratings: for each answer, one rating per repeat, at least two; None for a missing rating.

    Raises:
        ValueError: fewer than two repeats, or different numbers of repeats.

    >>> result = noise([(1.0, 1.0), (0.5, 0.0), (1.0, None)])
    >>> result.scores, result.answers, result.left_out, result.changed
    ((0.75, 0.5), 2, 1, 0.5)
    """
    num_repeats = {len(repeated) for repeated in ratings}
    if len(num_repeats) > 1 or (num_repeats and min(num_repeats) < 2):
        raise ValueError("expected the same number of ratings for each answer, at least two")
    complete = [_known(repeated) for repeated in ratings if None not in repeated]
    if not complete:
        return Noise(scores=(), answers=0, left_out=len(ratings), changed=None, rating_sd=None)
    is_changed = [len(set(repeated)) > 1 for repeated in complete]
    deviations = [stdev(repeated) for repeated in complete]
    by_repeat = zip(*complete, strict=True)
    return Noise(
        scores=tuple(fmean(repeat) for repeat in by_repeat),
        answers=len(complete),
        left_out=len(ratings) - len(complete),
        changed=fmean(is_changed),
        rating_sd=fmean(deviations),
    )


def _known(ratings: Sequence[float | None]) -> list[float]:
    """Return the ratings that are not missing."""
    return [rating for rating in ratings if rating is not None]


def noise_of_average(parts: Sequence[Noise]) -> Noise:
    """Measure the noise of the mean score over several parts.

    The other values are computed over the answers of all parts. If a part has no answers, the
    average has no score.

    >>> average = noise_of_average([noise([(1.0, 1.0), (0.5, 0.0)]), noise([(0.0, 1.0)])])
    >>> average.scores, average.answers
    ((0.375, 0.75), 3)
    """
    scores: tuple[float, ...] = ()
    if parts and all(part.answers for part in parts):
        by_repeat = zip(*[part.scores for part in parts], strict=True)
        scores = tuple(fmean(repeat) for repeat in by_repeat)
    sizes = [part.answers for part in parts]
    return Noise(
        scores=scores,
        answers=sum(sizes),
        left_out=sum(part.left_out for part in parts),
        changed=_weighted_mean([part.changed for part in parts], sizes),
        rating_sd=_weighted_mean([part.rating_sd for part in parts], sizes),
    )


def _weighted_mean(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    """Return the mean of values, or None if all weights are 0. A missing value has weight 0."""
    total = sum(weights)
    if not total:
        return None
    products = []
    for value, weight in zip(values, weights, strict=True):
        if value is not None:
            products.append(value * weight)
    return sum(products) / total
