"""Calibration of probabilities from ranked candidates, risk by coverage, and conformal sets, for questions of videos.

A question's probabilities are the softmax of its candidates' scores, divided by a temperature. Arguments that the
functions share:

    scores: score of each candidate that ranks, such as the mean log-probability per token; shape (questions,
        candidates), finite.
    gold: index of each question's right candidate, shape (questions,).
    clusters: the cluster of each question, such as its video. Only questions of different clusters are independent.
    confidence, is_right: see `choices`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaincinv, log_softmax, softmax, stdtrit

from lmms_egoplan.report.scores import Mean
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES

BINS = 10
"""Number of bins with equally many questions. This project's choice, like `FOLDS` and `TEMPERATURES`."""
FOLDS = 5
"""Number of parts of the videos. Each part's questions use a temperature and a threshold of the other parts."""
TEMPERATURES = (0.01, 100.0)
"""Limits of the temperature. At a limit, the best temperature is beyond it."""

_SEED = 0
_FARTHEST = 1e3
_BATCHES = 20

Array = np.ndarray
Clusters = Sequence[Any] | Array


def choices(scores: Array, gold: Array, temperature: float | Array = 1.0) -> tuple[Array, Array]:
    """Return the probability of each question's best candidate, and true if that is the right one.

    If several candidates are equally good, the first one counts.

    >>> confidence, is_right = choices(np.log([[0.75, 0.25], [0.5, 0.5]]), np.array([1, 0]))
    >>> confidence.round(2).tolist(), is_right.tolist()
    ([0.75, 0.5], [False, True])
    """
    return softmax(scores / np.reshape(temperature, (-1, 1)), axis=1).max(1), scores.argmax(1) == gold


def losses(scores: Array, gold: Array, temperature: float | Array = 1.0) -> Array:
    """Return each question's negative log-likelihood (nats) and Brier score, shape (2, questions).

    The Brier score is the sum of squared errors over all candidates, 0 to 2 (Brier 1950).

    >>> losses(np.log([[0.75, 0.25]]), np.array([1])).round(3).tolist()
    [[1.386], [1.125]]
    """
    logs = log_softmax(scores / np.reshape(temperature, (-1, 1)), axis=1)
    errors = np.exp(logs) - np.eye(scores.shape[1])[gold]
    return np.stack([-logs[np.arange(len(gold)), gold], (errors**2).sum(1)])


def fit_temperature(scores: Array, gold: Array) -> float:
    """Fit the temperature with the highest likelihood (Guo et al. 2017, arXiv 1706.04599), within `TEMPERATURES`.

    Above 1, the scores are overconfident. Scores without information about the right candidate have a very high one.

    >>> scores, gold = np.log([[0.9, 0.1]] * 4), np.array([0, 0, 0, 1])  # right in 75 %, with a confidence of 90 %
    >>> round(fit_temperature(scores, gold), 3)
    2.0
    """
    best = minimize_scalar(lambda x: losses(scores, gold, np.exp(x))[0].mean(), bounds=np.log(TEMPERATURES))
    return float(np.exp(best.x))


def folds_of(clusters: Clusters) -> Array:
    """Assign each question to one of `FOLDS` parts, whole clusters at random. The order of questions has no influence.

    >>> parts = folds_of(["a", "b", "c", "d", "e", "a"]).tolist()
    >>> sorted(parts[:5]), parts[5] == parts[0]
    ([0, 1, 2, 3, 4], True)
    """
    names, indices = np.unique(clusters, return_inverse=True)
    return np.random.default_rng(_SEED).permutation(len(names))[indices] % FOLDS


def cross_fitted(scores: Array, gold: Array, clusters: Clusters) -> Array:
    """Return each question's temperature, fitted to the clusters of the other parts (`folds_of`), two or more.

    >>> scores, gold = np.log([[0.9, 0.1]] * 40), np.array([0, 0, 0, 1] * 10)
    >>> set(cross_fitted(scores, gold, [f"video {number // 4}" for number in range(40)]).round(3).tolist())
    {2.0}
    """
    folds = folds_of(clusters)
    return np.array([fit_temperature(scores[folds != fold], gold[folds != fold]) for fold in range(FOLDS)])[folds]


def bins_of(confidence: Array) -> Array:
    """Return each question's bin, from 0 for the least confident to `BINS` - 1, with equally many questions each.

    Equal confidences are in one bin, so sizes may differ, and bins may be empty.

    >>> bins_of(np.linspace(0.3, 0.9, 20)).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    """
    return np.searchsorted(np.quantile(confidence, np.arange(1, BINS) / BINS), confidence, side="right")


def calibration_error(confidence: Array, is_right: Array, clusters: Clusters) -> tuple[float, Mean]:
    """Return the plain expected calibration error (ECE) over `bins_of`, and an estimate without its upward bias.

    The plain ECE is the sum over bins of |share of right choices - mean confidence|, weighted by questions. Noise adds
    to it: that of a perfectly calibrated model is above 0. So the estimate is the true ECE for which half of all
    repetitions have a larger plain ECE than the observed one, and 0 if there is none. The bins share the true ECE as
    they share the observed one. The interval ends where 2.5 % have a larger or a smaller one. Its ends assume the
    divisions to which noise adds most and least: the lower one, that the bin with the largest difference has all;
    the upper one, that all bins have the same share, with the signs of their differences or of the sum. Repetitions
    are `RESAMPLES` resamples of whole clusters.

    >>> rng = np.random.default_rng(1)
    >>> confidence = rng.uniform(0.3, 0.9, 500)
    >>> plain, estimate = calibration_error(confidence, rng.random(500) < confidence, range(500))
    >>> plain > estimate.value >= estimate.interval[0] == 0, estimate.interval[1] < 0.1
    (True, True)
    """
    rows = np.eye(BINS + 1)[bins_of(confidence)] * (is_right - confidence)[:, None]
    rows[:, BINS] = 1
    indices, weights = _resamples(clusters)
    sums = np.zeros((weights.shape[1], BINS + 1))
    np.add.at(sums, indices, rows)
    differences, drawn = (total[..., :BINS] / total[..., BINS:] for total in (sums.sum(0), weights @ sums))
    # Student's t instead of a normal distribution, with the number of equal clusters that vary as much.
    num_equal = max(2, len(rows) ** 2 / (sums[:, BINS] ** 2).sum())
    noise = (drawn - differences) * stdtrit(num_equal - 1, 0.975) / stdtrit(np.inf, 0.975)
    sizes = np.abs(differences)
    plain, signs = float(sizes.sum()), np.where(differences < 0, -1, 1)

    def solve(share: float, division: Array) -> float:
        def excess(error: float) -> float:
            totals = np.abs(error * division / np.abs(division).sum() + noise).sum(1)
            return float(np.quantile(totals, share)) - plain

        return brentq(excess, 0, _FARTHEST, xtol=1e-5) if excess(0) < 0 else 0.0

    value, low = solve(0.5, differences), solve(0.975, signs * (sizes == sizes.max()))
    high = max(solve(0.025, signs), solve(0.025, np.ones(BINS) * np.where(differences.sum() < 0, -1, 1)))
    interval = (min(low, value), max(high, value)) if len(sums) >= FEWEST_CLUSTERS else None
    return plain, Mean(value, interval, len(rows), len(sums))


def _resamples(clusters: Clusters) -> tuple[Array, Array]:
    """Return each question's index of its cluster, and each cluster's weight in each of `RESAMPLES` resamples."""
    names, indices = np.unique(clusters, return_inverse=True)
    shares = np.full(len(names), 1 / len(names))
    return indices, np.random.default_rng(_SEED).multinomial(len(names), shares, RESAMPLES)


def risks(confidence: Array, is_right: Array, weights: Array) -> tuple[Array, Array]:
    """Return coverage and risk: the share of questions at least as confident as each one, and the error rate in it.

    weights: how often each question counts, shape (..., questions).

    >>> coverage, risk = risks(np.array([0.9, 0.5, 0.7]), np.array([True, False, False]), np.ones(3))
    >>> coverage.round(2).tolist(), risk.round(2).tolist()
    ([0.33, 1.0, 0.67], [0.0, 0.67, 0.5])
    """
    order = np.argsort(-confidence, kind="stable")
    least = np.searchsorted(-confidence[order], -confidence, side="right") - 1
    answered, wrong = (np.cumsum(x[..., order], -1)[..., least] for x in (weights, weights * ~is_right))
    return answered / answered.max(-1, keepdims=True), wrong / np.maximum(answered, 1)


def area_under_risk(confidence: Array, is_right: Array, clusters: Clusters) -> Mean:
    """Return the area under the risk-coverage curve (AURC; Geifman et al. 2019, arXiv 1805.08206): the mean risk.

    The interval has the percentiles over `RESAMPLES` resamples of whole clusters.

    >>> area_under_risk(np.array([0.9, 0.5, 0.7]), np.array([True, False, False]), ["a", "b", "c"]).cells("aurc")
    {'aurc': 0.38888888888888884, 'low': None, 'high': None}
    """
    indices, drawn = _resamples(clusters)
    batches = np.array_split(drawn, _BATCHES)
    areas = [np.average(risks(confidence, is_right, x[:, indices])[1], -1, x[:, indices]) for x in batches]
    low, high = np.percentile(np.concatenate(areas), (2.5, 97.5))
    interval = (float(low), float(high)) if drawn.shape[1] >= FEWEST_CLUSTERS else None
    area = risks(confidence, is_right, np.ones(len(indices)))[1].mean()
    return Mean(float(area), interval, len(indices), drawn.shape[1])


def gaps_of(scores: Array, gold: Array) -> Array:
    """Return how far the right candidate's score is below the best one's: 0 or more, in the scores' unit.

    >>> gaps_of(np.array([[-1.0, -1.5], [-1.0, -1.5]]), np.array([0, 1])).tolist()
    [0.0, 0.5]
    """
    return scores.max(1) - scores[np.arange(len(gold)), gold]


def conformal_threshold(gaps: Array, clusters: Clusters, level: float) -> float:
    """Return the threshold of conformal sets: candidates that are at most so far below the best one.

    If clusters are exchangeable, the set of a random question of a new cluster contains the right candidate with a
    probability of at least `level`, on average over calibrations and clusters. Questions of a cluster may depend on
    each other in any way: each cluster has the same weight, and the new one counts as infinitely far (Lee, Barber and
    Willett 2023, arXiv 2306.06342).

    Args:
        gaps: gaps of the right candidates, see `gaps_of`.
        level: above 0 and below 1.

    Returns:
        The threshold; infinite for fewer than level / (1 - level) clusters.

    >>> conformal_threshold(np.array([0, 0, 0.2, 0.6]), ["a", "b", "c", "d"], 0.6)
    0.2
    """
    names, indices, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    order = np.argsort(gaps)
    reached = np.cumsum(1 / counts[indices][order] / (len(names) + 1))
    return float(np.append(gaps[order], np.inf)[np.searchsorted(reached, level - 1e-9)])


def conformal_sets(scores: Array, gold: Array, clusters: Clusters, level: float) -> tuple[Mean, float, float]:
    """Test conformal sets: the threshold of each part's questions is from the other parts' clusters (`folds_of`).

    Returns:
        Means over clusters: the share of questions whose set contains the right candidate, with its interval; the
        number of candidates in a set; and the share of questions whose set has several candidates.

    >>> scores, gold = np.log([[0.7, 0.3]] * 40), np.array([0, 0, 0, 1] * 10)
    >>> coverage, size, asks = conformal_sets(scores, gold, [f"video {number // 4}" for number in range(40)], 0.7)
    >>> coverage.value, size, asks
    (1.0, 2.0, 1.0)
    """
    gaps, folds, videos = gaps_of(scores, gold), folds_of(clusters), np.asarray(clusters)
    masks = [folds != fold for fold in range(FOLDS)]
    limits = np.array([conformal_threshold(gaps[part], videos[part], level) for part in masks])[folds]
    sizes = (scores.max(1, keepdims=True) - scores <= limits[:, None]).sum(1)
    names, indices, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    covered, size, asks = (np.bincount(indices, x) / counts for x in (gaps <= limits, sizes, sizes > 1))
    interval = _interval_of_share(covered) if len(names) >= FEWEST_CLUSTERS else None
    return Mean(float(covered.mean()), interval, len(gaps), len(names)), float(size.mean()), float(asks.mean())


def _interval_of_share(shares: Array) -> tuple[float, float]:
    """Return the 95 % interval of a mean of shares: the exact binomial one for as many questions as vary equally.

    It is Korn and Graubard's (1998) for surveys. Unlike a bootstrap, it holds for means near 1.
    """
    mean, variance, count = shares.mean(), shares.var(ddof=1) / len(shares), len(shares)
    equal = mean * (1 - mean) / variance if variance else count
    equal *= (stdtrit(np.inf, 0.975) / stdtrit(count - 1, 0.975)) ** 2
    hits, misses = equal * mean, equal * (1 - mean)
    low, high = betaincinv([hits, hits + 1], [misses + 1, misses], [0.025, 0.975])
    return float(np.nan_to_num(low)), float(np.nan_to_num(high, nan=1.0))
