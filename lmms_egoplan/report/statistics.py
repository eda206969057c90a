"""Intervals of scores and tests of differences, for questions in clusters, such as those of one video."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit
from scipy.stats import DegenerateDataWarning, binomtest, bootstrap, permutation_test

from lmms_egoplan.report.tables import counted

RESAMPLES = 2000
PERMUTATIONS = 9999
EXACT_UP_TO = 13
"""Largest number of sums for which all sign flips are tried: 2**13 flips, fewer than `PERMUTATIONS`."""

FEWEST_CLUSTERS = 10
"""Smallest number of clusters for an interval. With fewer clusters, bootstrap intervals are far too narrow."""

FEWEST_DRAWN = 5
"""Smallest number of drawn videos for an interval of a compact run."""

_SEED = 0
_BATCH = 500
_DIGITS = 12

Interval = tuple[float, float] | None
Statistic = Callable[[np.ndarray], np.ndarray]

Scores = Mapping[str, float | None]
"""Scores by question. None, NaN and infinities count as missing."""


@dataclass(frozen=True)
class Comparison:
    """The difference of two runs on the questions for which both have scores.

    difference: mean of first minus second over the questions, in the scores' unit.
    low, high: 95 % interval of `bootstrap_interval`; None for fewer than `FEWEST_CLUSTERS` clusters.
    p_value: two-sided p-value of the hypothesis that there is no difference.
    test: ``McNemar`` (exact) if all scores are 0 or 1 and each question is a cluster. Under the hypothesis, a question
        that only one run answered correctly is equally likely to be won by either. The test assumes independent
        questions: for clusters with similar answers, it would find differences that do not exist.
        Otherwise ``permutation``: under the hypothesis, each cluster's sum of differences is equally likely to have the
        other sign. If at most `EXACT_UP_TO` sums are not 0, all sign flips are tried. Otherwise, the observed signs and
        `PERMUTATIONS` random flips count.
    """

    difference: float
    low: float | None
    high: float | None
    p_value: float
    test: Literal["McNemar", "permutation"]
    questions: int
    clusters: int


def bootstrap_interval(values: Sequence[float | None], clusters: Sequence[str], design: Any = None) -> Interval:
    """Compute the 95 % percentile interval of the mean over questions, by a bootstrap of whole clusters.

    The mean of a resample is the sum over its questions divided by their number, which varies. See
    `interval_of_sums`. If all clusters have the same mean, both ends are equal.

    Args:
        values: one value per question. None, NaN and infinities are ignored.
        clusters: the cluster of each question.
        design: see `interval_of_sums`.

    Returns:
        The interval; None for fewer than `FEWEST_CLUSTERS` clusters with values.

    Raises:
        ValueError: the numbers of clusters and values differ.

    >>> low, high = bootstrap_interval([1, 0] * 12, [f"P01_{video:02}" for video in range(12)] * 2)
    >>> 0 <= low < 0.5 < high <= 1
    True
    >>> bootstrap_interval([1, 0, 1, 0], ["P01_01", "P01_01", "P01_02", "P01_02"]) is None  # two videos
    True
    """
    if len(values) != len(clusters):
        raise ValueError(f"expected a cluster for each value, got {len(clusters)} for {len(values)}")
    numbers = np.array(values, dtype=float)
    is_finite = np.isfinite(numbers)
    rows = np.stack([numbers[is_finite], np.ones(is_finite.sum())], axis=-1)
    return interval_of_sums(rows, np.asarray(clusters)[is_finite], lambda sums: sums[..., 0] / sums[..., 1], design)


def interval_of_sums(
    rows: np.ndarray, clusters: Sequence[str] | np.ndarray, statistic: Statistic, design: Any = None
) -> Interval:
    """Compute the 95 % percentile interval of a statistic of sums, by a bootstrap of whole clusters.

    A resample has as many clusters as the data, drawn with replacement, each with all of its questions. The interval's
    ends are the 2.5th and 97.5th percentile over `RESAMPLES` resamples, interpolated linearly. The result is
    reproducible and does not depend on the order of the questions.

    Args:
        rows: summands of each question, shape (questions, ...).
        clusters: the cluster of each question.
        statistic: function from sums of rows, shape (resamples, ...), to one value per resample.
        design: design of a compact run, whose clusters are a sample: the numbers of ``videos`` and of ``drawn`` ones,
            ``spread`` as in `benchmarks.subset.draw`, and ``top``, the highest possible value (default 100; the lowest
            is 0). Then the interval is that of `subset_interval`, for the value over all clusters.

    Returns:
        The interval; None for fewer than `FEWEST_CLUSTERS` clusters, or if the statistic is NaN in a resample.

    >>> rows = np.array([[right, 1] for right in [1, 0] * 12])  # right answers, and questions
    >>> videos = [f"P01_{video:02}" for video in range(12)] * 2
    >>> low, high = interval_of_sums(rows, videos, lambda sums: sums[..., 0] / sums[..., 1])
    >>> 0 <= low < 0.5 < high <= 1
    True
    """
    names, indices = np.unique(clusters, return_inverse=True)
    if len(names) < (FEWEST_DRAWN if design else FEWEST_CLUSTERS):
        return None
    sums = np.zeros((len(names), *rows.shape[1:]))
    np.add.at(sums, indices, rows)
    if design:
        return subset_interval(sums, np.bincount(indices), statistic, design)

    def of_drawn(drawn: np.ndarray, axis: int) -> np.ndarray:
        return statistic(sums[drawn].sum(drawn.ndim + axis))

    with warnings.catch_warnings():
        # SciPy warns of NaN in a resample. The result is then None.
        warnings.simplefilter("ignore", DegenerateDataWarning)
        low, high = _percentiles((np.arange(len(names)),), of_drawn, _BATCH)
    return (low, high) if np.isfinite([low, high]).all() else None


def subset_interval(sums: np.ndarray, sizes: np.ndarray, statistic: Statistic, design: Mapping[str, Any]) -> Interval:
    """Compute the 95 % interval of a statistic of all videos from a random sample of them.

    The jackknife variance over the drawn videos has a finite population correction. If their numbers of questions vary
    less than those of all videos, the variance is enlarged by the ratio of the spreads. The interval is Wilson's (1927)
    for the number of independent answers with this variance, and Student's t with the effective number of videos minus
    one as degrees of freedom. The strata only balance the sample: the interval does not assume that they differ.

    Args:
        sums: sums of rows of each drawn video with questions, shape (videos, ...).
        sizes: number of questions of each of them.
        statistic, design: see `interval_of_sums`.

    Returns:
        The interval; None if the statistic is NaN without one of the videos.

    >>> sums = np.array([[6, 10], [4, 10], [5, 10], [7, 10], [3, 10]])  # right answers, and questions
    >>> design = {"videos": 50, "drawn": 5, "spread": 1, "top": 1}
    >>> interval = subset_interval(sums, sums[:, 1], lambda sums: sums[..., 0] / sums[..., 1], design)
    >>> [round(end, 3) for end in interval]
    [0.289, 0.711]
    """
    top, drawn = design.get("top", 100), design["drawn"]
    unseen, spread = max(1e-12, 1 - drawn / design["videos"]), (sizes**2).mean() / sizes.mean() ** 2
    with np.errstate(invalid="ignore"):
        share, without = (statistic(part) / top for part in (sums.sum(0), sums.sum(0) - sums))
    squares = ((without - share) ** 2).sum() - (without - share).sum() ** 2 / drawn
    variance = unseen * drawn / (drawn - 1) * squares * max(1, design["spread"] / spread)
    answers = share * (1 - share) / variance if variance > 0 and 0 < share < 1 else len(sizes) / unseen
    loss = stdtrit(max(1, len(sizes) / spread - 1), 0.975) ** 2 / answers
    half = np.sqrt(loss * share * (1 - share) + loss**2 / 4)
    low, high = (float(top * (share + loss / 2 + side) / (1 + loss)) for side in (-half, half))
    return (low, high) if np.isfinite(without).all() else None


def stratified_interval(strata: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Compute the 95 % percentile interval of the mean of the strata's means, by a bootstrap within each stratum.

    All strata have the same weight. A resample has as many values of each stratum as the data.

    Args:
        strata: the values of each stratum, finite numbers.

    Returns:
        The interval; None if a stratum has fewer than two values, or all strata together have fewer than
        `FEWEST_CLUSTERS`.

    >>> low, high = stratified_interval([[0, 50, 100] * 2, [50, 100, 100, 100]])
    >>> 0 <= low < 68.75 < high <= 100
    True
    """
    if min(map(len, strata), default=0) < 2 or sum(map(len, strata)) < FEWEST_CLUSTERS:
        return None

    def mean_of_means(*drawn: np.ndarray, axis: int) -> np.ndarray:
        return np.mean([stratum.mean(axis) for stratum in drawn], axis=0)

    return _percentiles(strata, mean_of_means)


def _percentiles(data: Sequence[Any], statistic: Callable, batch: int | None = None) -> tuple[float, float]:
    """Compute the ends of a 95 % percentile interval by SciPy's bootstrap."""
    options = {"vectorized": True, "n_resamples": RESAMPLES, "batch": batch, "method": "percentile"}
    interval = bootstrap(data, statistic, **options, rng=np.random.default_rng(_SEED)).confidence_interval
    return float(interval.low), float(interval.high)


def compare(first: Scores, second: Scores, clusters: Mapping[str, str]) -> Comparison | None:
    """Compare two runs over the questions for which both have scores; None if there are no such questions.

    Raises:
        ValueError: a question has no cluster.

    >>> first, second = {"1": 1, "2": 1, "3": 0, "4": 1}, {"1": 0, "2": 1, "3": 0, "4": 0, "5": None}
    >>> comparison = compare(first, second, clusters={"1": "a", "2": "b", "3": "c", "4": "d"})
    >>> comparison.difference, comparison.test, comparison.p_value, comparison.questions
    (0.5, 'McNemar', 0.5, 4)
    """
    pairs, question_clusters = paired(first, second, clusters)
    if not question_clusters:
        return None
    names, indices = np.unique(question_clusters, return_inverse=True)
    differences = pairs[:, 0] - pairs[:, 1]
    low, high = bootstrap_interval(differences, question_clusters) or (None, None)
    is_mcnemar = bool(np.isin(pairs, (0, 1)).all()) and len(names) == len(pairs)
    p_value = _mcnemar(differences) if is_mcnemar else sign_flips(np.bincount(indices, differences))
    test: Literal["McNemar", "permutation"] = "McNemar" if is_mcnemar else "permutation"
    return Comparison(float(differences.mean()), low, high, p_value, test, len(pairs), len(names))


def paired(first: Scores, second: Scores, clusters: Mapping[str, str]) -> tuple[np.ndarray, list[str]]:
    """Return two runs' scores on the questions for which both have one, and the questions' clusters.

    Returns:
        Scores of shape (questions, 2), and one cluster per question, in the order of the questions' names.

    Raises:
        ValueError: a question has no cluster.

    >>> scores, names = paired({"1": 1, "2": 0}, {"2": 1, "1": 1, "3": 0}, clusters={"1": "a", "2": "b"})
    >>> scores.tolist(), names
    ([[1.0, 1.0], [0.0, 1.0]], ['a', 'b'])
    """
    shared = sorted(first.keys() & second.keys())
    pairs = np.array([(first[question], second[question]) for question in shared], dtype=float).reshape(-1, 2)
    is_scored = np.isfinite(pairs).all(axis=1)
    compared = [question for question, is_usable in zip(shared, is_scored, strict=True) if is_usable]
    if unclustered := [question for question in compared if question not in clusters]:
        raise ValueError(f"{len(unclustered)} questions have no cluster, such as {unclustered[0]!r}")
    return pairs[is_scored], [clusters[question] for question in compared]


def why_no_interval(clusters: int | None, unit: str) -> str:
    """Return the reason to print after "no interval".

    Args:
        clusters: number of clusters; None without samples.
        unit: plural noun for the clusters.

    >>> why_no_interval(1, "videos"), why_no_interval(None, "videos")
    ('1 video, fewer than 10', 'no samples')
    """
    if clusters is None:
        return "no samples"
    if clusters >= FEWEST_CLUSTERS:
        return "too few questions of one kind"
    return f"{counted(clusters, unit)}, fewer than {FEWEST_CLUSTERS}"


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of a family by Holm's step-down method, and return them in the same order.

    Raises:
        ValueError: a p-value is below 0 or above 1.

    >>> [round(p_value, 2) for p_value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    if not all(0 <= p_value <= 1 for p_value in p_values):
        raise ValueError(f"p-values must be from 0 to 1, got {list(p_values)}")
    order = np.argsort(p_values, kind="stable")
    corrected = np.minimum(1, np.maximum.accumulate(np.arange(len(p_values), 0, -1) * np.array(p_values)[order]))
    return corrected[np.argsort(order)].tolist()


def _mcnemar(differences: np.ndarray) -> float:
    discordant = int(np.count_nonzero(differences))
    if discordant == 0:
        return 1.0
    return float(binomtest(int(np.count_nonzero(differences > 0)), discordant).pvalue)


def sign_flips(sums: np.ndarray) -> float:
    """Return the two-sided p-value of a test that flips the signs of independent sums, see `Comparison`.

    Sums of 0 are ignored, since they have no sign. A single sum has the same size with either sign, so its p-value
    is 1.

    >>> sign_flips(np.array([1.0, 2.0, 3.0, 0.0]))  # of the 8 combinations of signs, two are as extreme
    0.25
    """
    sums = sums[sums != 0]
    if len(sums) < 2:
        return 1.0
    scale = np.abs(sums).sum()

    def total(flipped: np.ndarray, axis: int) -> np.ndarray:
        # Totals that differ only in floating-point rounding must count as equal.
        return np.round(flipped.sum(axis) / scale, _DIGITS)

    with np.errstate(over="ignore"):  # SciPy 1.15 computes the number of permutations as a float, which may overflow.
        options = {"permutation_type": "samples", "vectorized": True, "n_resamples": PERMUTATIONS, "batch": _BATCH}
        test = permutation_test((sums,), total, **options, rng=np.random.default_rng(_SEED))
    return float(test.pvalue)
