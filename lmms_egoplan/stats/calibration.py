"""Measure calibration of probabilities, and conformal sets.

Probabilities come from ranked candidates of questions about videos.

A question's probabilities are the softmax of its candidates' scores, divided by a temperature.
Arguments that the functions share:

    scores: score of each candidate that ranks, such as the mean log-probability per token; shape
        (questions, candidates), finite.
    gold: index of each question's right candidate, shape (questions,).
    clusters: the cluster of each question, such as its video. Only questions of different clusters
    are independent. confidence, is_right: see `choices`.

Intervals are for 10 clusters or more (`statistics.FEWEST_CLUSTERS`); with fewer, they are far too
narrow.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import softmax, stdtrit
from scipy.stats import binomtest

from lmms_egoplan.stats.intervals import RESAMPLES, bootstrap_interval, score_interval
from lmms_egoplan.stats.means import Mean

BINS = 10
"""Number of bins with equally many questions. This project's choice, like `FOLDS`."""
FOLDS = 5
"""Number of parts of the videos.

Each part's questions use a temperature and a threshold of the other parts.
"""

_LOWEST_TEMPERATURE = 0.01
_HIGHEST_TEMPERATURE = 100.0
_ROUNDING = 1e-9
_SEED = 0

Array = np.ndarray
Clusters = Sequence[Any] | Array


def choices(scores: Array, gold: Array, temperature: float | Array = 1.0) -> tuple[Array, Array]:
    """Return the probability of each question's best candidate, and true if that is the right one.

    If several candidates are equally good, the first one counts.

    >>> confidence, is_right = choices(np.log([[0.75, 0.25], [0.5, 0.5]]), np.array([1, 0]))
    >>> confidence.round(2).tolist(), is_right.tolist()
    ([0.75, 0.5], [False, True])
    """
    confidence = _probabilities(scores, temperature).max(axis=1)
    chosen = scores.argmax(axis=1)
    return confidence, chosen == gold


def _probabilities(scores: Array, temperature: float | Array) -> Array:
    """Return the probability of each candidate; one temperature for all, or one per question."""
    column = np.reshape(temperature, (-1, 1))
    return softmax(scores / column, axis=1)


def brier_score(scores: Array, gold: Array, temperature: float | Array, clusters: Clusters) -> Mean:
    """Return the mean Brier score, from 0 to 2 (Brier 1950).

    It is the sum of squared errors over all candidates.

    >>> brier_score(np.log([[0.75, 0.25]]), np.array([1]), 1.0, ["a"]).value
    1.125
    """
    num_candidates = scores.shape[1]
    ideal = np.eye(num_candidates)[gold]
    squares = (_probabilities(scores, temperature) - ideal) ** 2
    errors = squares.sum(axis=1)
    interval = bootstrap_interval(errors, list(clusters))
    return Mean(float(errors.mean()), interval)


def fit_temperature(scores: Array, gold: Array) -> float:
    """Fit the temperature with the highest likelihood, from 0.01 to 100.

    Source: Guo et al. 2017, arXiv 1706.04599.

    The limits are this project's choice. At a limit, the best temperature is beyond it.

    Above 1, the scores are overconfident. Scores without information about the right candidate have
    a very high one.

    >>> # right in 75 %, with a confidence of 90 %
    >>> scores, gold = np.log([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1])
    >>> round(fit_temperature(scores, gold), 3)
    2.0
    """
    differences = scores - _gold_scores(scores, gold)[:, None]
    lowest, highest = np.log([_LOWEST_TEMPERATURE, _HIGHEST_TEMPERATURE])

    # The likelihood rises with the logarithm of the temperature where this is positive. It has a
    # single maximum.
    def slope(logarithm: float) -> float:
        probabilities = softmax(scores / np.exp(logarithm), axis=1)
        expected_differences = (probabilities * differences).sum(axis=1)
        return float(expected_differences.mean())

    if slope(highest) >= 0:
        return _HIGHEST_TEMPERATURE
    if slope(lowest) <= 0:
        return _LOWEST_TEMPERATURE
    best = brentq(slope, lowest, highest)
    return float(np.exp(best))


def _gold_scores(scores: Array, gold: Array) -> Array:
    """Return the score of each question's right candidate."""
    questions = np.arange(len(gold))
    return scores[questions, gold]


def folds_of(clusters: Clusters) -> Array:
    """Assign each question to one of `FOLDS` parts, whole clusters at random.

    The order of questions has no influence.

    >>> parts = folds_of(["a", "b", "c", "d", "e", "a"]).tolist()
    >>> sorted(parts[:5]), parts[5] == parts[0]
    ([0, 1, 2, 3, 4], True)
    """
    names, indices = np.unique(clusters, return_inverse=True)
    shuffled = np.random.default_rng(_SEED).permutation(len(names))
    return shuffled[indices] % FOLDS


def cross_fitted(scores: Array, gold: Array, clusters: Clusters) -> Array:
    """Return each question's temperature, fitted to the clusters of the other parts.

    `folds_of` makes the parts, two or more.

    >>> scores, gold = np.log([[0.9, 0.1]] * 40), np.array([0, 0, 0, 1] * 10)
    >>> videos = [f"video {number // 4}" for number in range(40)]
    >>> set(cross_fitted(scores, gold, videos).round(3).tolist())
    {2.0}
    """
    folds = folds_of(clusters)
    temperatures = []
    for fold in range(FOLDS):
        others = folds != fold
        temperature = fit_temperature(scores[others], gold[others])
        temperatures.append(temperature)
    return np.array(temperatures)[folds]


def bins_of(confidence: Array) -> Array:
    """Return each question's bin, from 0 for the least confident to `BINS` - 1.

    All bins have equally many questions.

    Equal confidences are in one bin, so sizes may differ, and bins may be empty.

    >>> bins_of(np.linspace(0.3, 0.9, 20)).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    """
    inner_shares = np.arange(1, BINS) / BINS
    limits = np.quantile(confidence, inner_shares)
    return np.searchsorted(limits, confidence, side="right")


def reliability(
    confidence: Array, is_right: Array, clusters: Clusters
) -> list[dict[str, float | None]]:
    """Return the points of the reliability diagram, one per bin, most confident first.

    ``confidence``, ``right``: mean confidence and share of right choices in the bin, %. ``low``,
    ``high``: ends of the 95 % interval of this share, over the bin's clusters (`score_interval`);
    None for fewer than ten. ``questions``: number of questions.

    >>> points = reliability(np.array([0.9, 0.5]), np.array([True, False]), ["a", "b"])
    >>> [(point["confidence"], point["right"], point["low"]) for point in points]
    [(90.0, 100.0, None), (50.0, 0.0, None)]
    """
    points = []
    names = np.asarray(clusters)
    bins = bins_of(confidence)
    most_confident_first = np.unique(bins)[::-1]
    for number in most_confident_first:
        is_in_bin = bins == number
        shares = 100.0 * is_right[is_in_bin]
        interval = score_interval(shares.tolist(), names[is_in_bin].tolist(), top=100)
        right = Mean(_per_cent(is_right[is_in_bin]), interval)
        point = {
            "confidence": _per_cent(confidence[is_in_bin]),
            **right.cells("right"),
            "questions": int(is_in_bin.sum()),
        }
        points.append(point)
    return points


def _per_cent(shares: Array) -> float:
    """Return the mean of shares or flags, in per cent."""
    return 100 * float(shares.mean())


def calibration_error(confidence: Array, is_right: Array, clusters: Clusters) -> Mean:
    """Return the expected calibration error (ECE) over `bins_of`, with an interval of the true one.

    The ECE is the sum over bins of |share of right choices - mean confidence|, weighted by
    questions. Noise adds to it: that of a perfectly calibrated model is above 0. Percentiles of a
    resampled ECE have this bias twice. Instead, the interval uses two bounds that hold for each
    bin: with a true difference d of sign s and a noise n, |d + n| is at most |d| + |n|, and at
    least |d| + s n. So the lower end subtracts the 97.5th percentile of the sum of |n|, and the
    upper end the 2.5th percentile of the sum of s n. The signs are those of the bins, or that of
    their sum for all, whichever gives the higher end. Noise is the deviation of `RESAMPLES`
    resamples of whole clusters.

    >>> rng = np.random.default_rng(1)
    >>> confidence = rng.uniform(0.3, 0.9, 500)
    >>> error = calibration_error(confidence, rng.random(500) < confidence, range(500))
    >>> error.value > error.interval[0] == 0, error.interval[1] < 0.15
    (True, True)
    """
    sums = _sums_by_bin(confidence, is_right, clusters)
    differences = _mean_differences(sums.sum(axis=0))
    noise = _bin_noise(sums, differences)
    error = np.abs(differences).sum()

    sizes_of_noise = np.abs(noise).sum(axis=1)
    low = error - np.quantile(sizes_of_noise, 0.975)

    sign_of_sum = np.full(BINS, differences.sum())
    signs = np.sign([differences, sign_of_sum])
    signed_noise = noise @ signs.T
    high = error - np.quantile(signed_noise, 0.025, axis=0).min()

    interval = (float(max(0, low)), float(min(1, high)))
    return Mean(float(error), interval)


def _sums_by_bin(confidence: Array, is_right: Array, clusters: Clusters) -> Array:
    """Sum right choices minus confidences by cluster and bin.

    Returns:
        Shape (clusters, `BINS` + 1); the last column has the number of questions.
    """
    differences = is_right - confidence
    rows = np.eye(BINS + 1)[bins_of(confidence)] * differences[:, None]
    rows[:, BINS] = 1
    names, indices = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(names), BINS + 1))
    np.add.at(sums, indices, rows)
    return sums


def _mean_differences(sums: Array) -> Array:
    """Divide the sums of the bins by the number of all questions, see `_sums_by_bin`."""
    by_bin = sums[..., :BINS]
    questions = sums[..., BINS:]
    return by_bin / questions


def _bin_noise(sums: Array, differences: Array) -> Array:
    """Return how far the bins of `RESAMPLES` resamples of whole clusters are from `differences`.

    The resamples are widened by Student's t instead of a normal distribution, with the number of
    equal clusters that vary as much.

    Returns:
        Shape (`RESAMPLES`, `BINS`).
    """
    count = len(sums)
    weights = np.random.default_rng(_SEED).multinomial(count, np.full(count, 1 / count), RESAMPLES)
    drawn = _mean_differences(weights @ sums)
    sizes = sums[:, BINS]
    num_equal = max(2, sizes.sum() ** 2 / (sizes**2).sum())
    return (drawn - differences) * stdtrit(num_equal - 1, 0.975) / stdtrit(np.inf, 0.975)


def gaps_of(scores: Array, gold: Array) -> Array:
    """Return how far the right candidate's score is below the best one's.

    The gap is 0 or more, in the scores' unit.

    >>> gaps_of(np.array([[-1.0, -1.5], [-1.0, -1.5]]), np.array([0, 1])).tolist()
    [0.0, 0.5]
    """
    return scores.max(axis=1) - _gold_scores(scores, gold)


def conformal_threshold(gaps: Array, clusters: Clusters, level: float) -> float:
    """Return the threshold of conformal sets.

    A set has all candidates that are at most so far below the best one.

    If clusters are exchangeable, the set of a random question of a new cluster contains the right
    candidate with a probability of at least `level`, on average over calibrations and clusters.
    Questions of a cluster may depend on each other in any way: each cluster has the same weight,
    and the new one counts as infinitely far (Lee, Barber and Willett 2023, arXiv 2306.06342).

    Args:
        gaps: gaps of the right candidates, see `gaps_of`.
        level: above 0 and below 1.

    Returns:
        The threshold; infinite for fewer than level / (1 - level) clusters.

    >>> conformal_threshold(np.array([0, 0, 0.2, 0.6]), ["a", "b", "c", "d"], 0.6)
    0.2
    """
    names, indices, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    cluster_sizes = counts[indices]
    order = np.argsort(gaps)
    weights = 1 / cluster_sizes[order] / (len(names) + 1)
    reached = np.cumsum(weights)
    thresholds = np.append(gaps[order], np.inf)
    return float(thresholds[np.searchsorted(reached, level - _ROUNDING)])


def conformal_sets(
    scores: Array, gold: Array, clusters: Clusters, level: float
) -> dict[str, float | None]:
    """Test conformal sets.

    The threshold of each part's questions is from the other parts' clusters (`folds_of`).

    The interval is the exact binomial one (Clopper and Pearson 1934) for as many questions as
    clusters. It is rather too wide: a cluster's share varies at most as much as one question.
    Unlike a bootstrap, it holds for means near 1.

    Returns:
        Means over clusters: ``covered``, the share of questions whose set contains the right
        candidate, with the interval ``low`` to ``high``; ``size``, the number of candidates in a
        set; and ``asks``, the share of questions whose set has several candidates. Shares and
        ``level`` are in %.

    >>> scores, gold = np.log([[0.7, 0.3]] * 40), np.array([0, 0, 0, 1] * 10)
    >>> sets = conformal_sets(scores, gold, [f"video {number // 4}" for number in range(40)], 0.7)
    >>> sets["covered"], sets["size"], sets["asks"]
    (100.0, 2.0, 100.0)
    """
    gaps = gaps_of(scores, gold)
    folds = folds_of(clusters)
    videos = np.asarray(clusters)
    thresholds = []
    for fold in range(FOLDS):
        others = folds != fold
        thresholds.append(conformal_threshold(gaps[others], videos[others], level))
    limits = np.array(thresholds)[folds]

    distances = scores.max(axis=1, keepdims=True) - scores
    sizes = (distances <= limits[:, None]).sum(axis=1)
    covered = _cluster_means(gaps <= limits, clusters)
    size = _cluster_means(sizes, clusters)
    asks = _cluster_means(sizes > 1, clusters)

    interval = binomtest(round(covered.sum()), len(covered)).proportion_ci()
    coverage = Mean(float(covered.mean()), (interval.low, interval.high))
    return coverage.cells("covered", scale=100) | {
        "level": 100 * level,
        "size": float(size.mean()),
        "asks": _per_cent(asks),
    }


def _cluster_means(values: Array, clusters: Clusters) -> Array:
    """Return the mean of a value per question over each cluster."""
    _, indices, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    return np.bincount(indices, values) / counts
