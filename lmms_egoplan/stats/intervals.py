"""Compute intervals of scores and tests of differences, for questions in clusters.

A cluster is, for example, all questions about one video.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit
from scipy.stats import DegenerateDataWarning, binomtest, bootstrap, permutation_test

from lmms_egoplan.text import counted

RESAMPLES = 2000
PERMUTATIONS = 9999
EXACT_UP_TO = 13
"""Largest number of sums for which all sign flips are tried.

These are 2**13 flips, fewer than `PERMUTATIONS`.
"""

FEWEST_CLUSTERS = 10
"""Smallest number of clusters for an interval; for a compact run, of questions.

See ``perf/intervals.py``.
"""

_SEED = 0
_BATCH = 500
_DIGITS = 12
_ROUNDING = 1e-12
"""Relative size of rounding errors: smaller shares and variances count as 0."""

Interval = tuple[float, float] | None
Design = Mapping[str, Any] | None
Statistic = Callable[[np.ndarray], np.ndarray]

Scores = Mapping[str, float | None]
"""Scores by question. None, NaN and infinities count as missing."""


@dataclass(frozen=True)
class Comparison:
    """The difference of two runs on the questions for which both have scores.

    difference: mean of first minus second over the questions, in the scores' unit.
    low, high: 95 % interval of `bootstrap_interval`; None for fewer than `FEWEST_CLUSTERS`
    clusters.
    p_value: two-sided p-value of the hypothesis that there is no difference.
    test: the test of `p_value`.
    questions, clusters: their numbers.

    The test is ``McNemar`` (exact) if all scores are 0 or 1 and each question is a cluster. Under
    the hypothesis, a question that only one run answered correctly is equally likely to be won by
    either. The test assumes independent questions: for clusters with similar answers, it would find
    differences that do not exist.

    Otherwise, the test is ``permutation``. Under the hypothesis, each cluster's sum of differences
    is equally likely to have the other sign. If at most `EXACT_UP_TO` sums are not 0, all sign
    flips are tried. Otherwise, the observed signs and `PERMUTATIONS` random flips count.
    """

    difference: float
    low: float | None
    high: float | None
    p_value: float
    test: Literal["McNemar", "permutation"]
    questions: int
    clusters: int


def bootstrap_interval(values: Sequence[float | None], clusters: Sequence[str]) -> Interval:
    """Compute the 95 % percentile interval of the mean over questions.

    The bootstrap draws whole clusters.

    For differences and other values without bounds; `score_interval` is for scores. The mean of a
    resample is the sum over its questions divided by their number, which varies. See
    `interval_of_sums`. If all clusters have the same mean, both ends are equal.

    Args:
        values: one value per question. None, NaN and infinities are ignored.
        clusters: the cluster of each question.

    Returns:
        The interval; None for fewer than `FEWEST_CLUSTERS` clusters with values.

    Raises:
        ValueError: the numbers of clusters and values differ.

    >>> low, high = bootstrap_interval([1, -1] * 12, [f"P01_{video:02}" for video in range(12)] * 2)
    >>> -1 <= low < 0 < high <= 1
    True
    >>> two_videos = ["P01_01", "P01_01", "P01_02", "P01_02"]
    >>> bootstrap_interval([1, 0, 1, 0], two_videos) is None
    True
    """
    rows, finite_clusters = _mean_rows(values, clusters)
    return interval_of_sums(rows, finite_clusters, _mean_of_sums)


def interval_of_sums(
    rows: np.ndarray, clusters: Sequence[str] | np.ndarray, statistic: Statistic
) -> Interval:
    """Compute the 95 % percentile interval of a statistic of sums.

    The bootstrap draws whole clusters.

    A resample has as many clusters as the data, drawn with replacement, each with all of its
    questions. The interval's ends are the 2.5th and 97.5th percentile over `RESAMPLES` resamples,
    interpolated linearly. The result is reproducible and does not depend on the order of the
    questions.

    Args:
        rows: summands of each question, shape (questions, ...).
        clusters: the cluster of each question.
        statistic: function from sums of rows, shape (resamples, ...), to one value per resample.

    Returns:
        The interval; None for fewer than `FEWEST_CLUSTERS` clusters, or if the statistic is NaN in
        a resample.

    >>> rows = np.array([[gain, 1] for gain in [1, -1] * 12])  # differences, and questions
    >>> videos = [f"P01_{video:02}" for video in range(12)] * 2
    >>> low, high = interval_of_sums(rows, videos, lambda sums: sums[..., 0] / sums[..., 1])
    >>> -1 <= low < 0 < high <= 1
    True
    """
    sums, _ = _cluster_sums(rows, clusters)
    if len(sums) < FEWEST_CLUSTERS:
        return None

    def statistic_of_drawn(drawn: np.ndarray, axis: int) -> np.ndarray:
        positive_axis = drawn.ndim + axis
        total = sums[drawn].sum(positive_axis)
        return statistic(total)

    numbers = np.arange(len(sums))
    with warnings.catch_warnings():
        # SciPy warns of NaN in a resample. The result is then None.
        warnings.simplefilter("ignore", DegenerateDataWarning)
        interval = _percentiles((numbers,), statistic_of_drawn, _BATCH)
    return _if_finite(interval)


def score_interval(
    values: Sequence[float | None],
    clusters: Sequence[str],
    top: float,
    design: Design = None,
) -> Interval:
    """Compute the 95 % interval of a mean score over questions in clusters, see `wilson_interval`.

    Args:
        values: one score per question, from 0 to `top`. None, NaN and infinities are ignored.
        clusters: the cluster of each question.
        top: the highest possible score.
        design: see `score_interval_of_sums`. Questions without a score count as not asked.

    Returns:
        The interval, within 0 and `top`; None for fewer than `FEWEST_CLUSTERS` clusters with
        scores.

    Raises:
        ValueError: the numbers of clusters and values differ, or a score is below 0 or above `top`,
            by more than a rounding error.

    >>> videos = [f"P01_{video:02}" for video in range(12)] * 2
    >>> [round(end, 1) for end in score_interval([0] * 24, videos, top=100)]  # no right answer
    [0.0, 28.8]
    """
    rows, finite_clusters = _mean_rows(values, clusters)
    scores = rows[:, 0]
    _check_scores(scores, top)
    rows[:, 0] = scores.clip(0, top)
    if design and len(rows):
        design = {**design, "asked": design["asked"] * len(rows) / len(values)}
    return score_interval_of_sums(rows, finite_clusters, _mean_of_sums, top, design)


def _check_scores(scores: np.ndarray, top: float) -> None:
    """Raise an error if a score is below 0 or above `top`, by more than a rounding error."""
    if not len(scores):
        return
    lowest = scores.min()
    highest = scores.max()
    error = top * _ROUNDING
    if not -error <= lowest <= highest <= top + error:
        raise ValueError(f"scores must be from 0 to {top:g}, got {lowest:g} to {highest:g}")


def score_interval_of_sums(
    rows: np.ndarray,
    clusters: Sequence[str] | np.ndarray,
    statistic: Statistic,
    top: float,
    design: Design = None,
) -> Interval:
    """Compute the 95 % interval of a score that is a statistic of sums over questions.

    See `wilson_interval`.

    Args:
        rows: summands of each question, shape (questions, ...).
        clusters: the cluster of each question.
        statistic: function from sums of rows, shape (clusters, ...), to one score per sum, from 0
            to `top`.
        top: the highest possible score.
        design: design of a compact run, see `benchmarks.subset.draw`. Its questions are a random
            sample of all prepared ones, whatever their clusters. So each question counts as a
            cluster, and the interval is for the score over all prepared questions.

    Returns:
        The interval; None for fewer than `FEWEST_CLUSTERS` clusters, or if the statistic is NaN
        without one of them.
    """
    units = np.arange(len(rows)) if design else clusters
    sums, sizes = _cluster_sums(rows, units)
    if len(sums) < FEWEST_CLUSTERS:
        return None
    asked = design["asked"] / design["of"] if design else 0.0
    low, high = wilson_interval(sums, sizes, lambda part: statistic(part) / top, asked)
    return _if_finite((float(top * low), float(top * high)))


def _if_finite(interval: tuple[float, float]) -> Interval:
    """Return an interval; None if one of its ends is NaN or infinite."""
    return interval if np.isfinite(interval).all() else None


def wilson_interval(
    sums: np.ndarray, sizes: np.ndarray, statistic: Statistic, asked: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the 95 % interval of a share from sums over clusters.

    The variance is the jackknife's over clusters, times (k / (k - 1))² for k clusters, since it is
    too small for few. The interval is Wilson's (1927) for the number of independent answers that
    has this variance, with Student's t. The degrees of freedom are those of the variance by
    Satterthwaite (1946), from the fourth moments of the jackknife's deviations: few large or few
    differing clusters have few. Since these moments are uncertain themselves, they are at least a
    quarter of the effective number of clusters, (sum n)² / sum n² for clusters of n questions, and
    at most the number of clusters minus one.

    If all answers have the same score, the number of independent answers is the effective number of
    clusters.

    Args:
        sums: sums of rows of each cluster, shape (clusters, ...). Further dimensions before those
            of a row are separate data sets.
        sizes: number of questions of each cluster, shape (clusters,) or (clusters, data sets).
        statistic: function from sums to a share, 0 to 1.
        asked: the share of all questions that was asked, if the interval is for the share over all
            of them.

    Returns:
        Low and high ends, within 0 and 1; NaN if the statistic is NaN without one of the clusters.

    >>> # right answers, and questions
    >>> sums = np.array([[6, 10], [4, 10], [5, 10], [7, 10], [3, 10]])
    >>> ends = wilson_interval(sums, sums[:, 1], lambda sums: sums[..., 0] / sums[..., 1])
    >>> [round(float(end), 3) for end in ends]
    [0.28, 0.72]
    """
    count = len(sums)
    share, without = _jackknifed(sums, statistic)
    changes = without - share
    deviations = changes - changes.mean(axis=0)
    squares = (deviations**2).sum(axis=0)
    unseen = max(_ROUNDING, 1 - asked)
    variance = unseen * count / (count - 1) * squares
    effective = sizes.sum(axis=0) ** 2 / (sizes**2).sum(axis=0)
    least_freedom = np.maximum(1, effective / 4)
    freedom = np.clip(_degrees_of_freedom(deviations), least_freedom, count - 1)
    return _wilson(share, variance, effective / unseen, freedom)


def _jackknifed(sums: np.ndarray, statistic: Statistic) -> tuple[np.ndarray, np.ndarray]:
    """Return the statistic of all clusters, and that without each of them."""
    total = sums.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return statistic(total), statistic(total - sums)


def _degrees_of_freedom(deviations: np.ndarray) -> np.ndarray:
    """Return Satterthwaite's degrees of freedom of a sum of squares.

    Infinity if all squares are equal.
    """
    squares = (deviations**2).sum(axis=0)
    fourth_powers = (deviations**4).sum(axis=0)
    spread = fourth_powers - squares**2 / len(deviations)
    with np.errstate(divide="ignore", invalid="ignore"):
        is_spread = spread > _ROUNDING * squares**2
        freedom = 2 * squares**2 / spread
    return np.where(is_spread, freedom, np.inf)


def _wilson(
    share: np.ndarray, variance: np.ndarray, answers: np.ndarray, freedom: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval.

    Args:
        share: the estimate, 0 to 1.
        variance: its variance.
        answers: number of independent answers if the variance is 0.
        freedom: degrees of freedom of Student's t.
    """
    binomial = share * (1 - share)
    has_variance = (variance > _ROUNDING**2) & (binomial > _ROUNDING)
    with np.errstate(divide="ignore", invalid="ignore"):
        answers_of_variance = binomial / variance
    answers = np.where(has_variance | np.isnan(variance), answers_of_variance, answers)
    loss = stdtrit(freedom, 0.975) ** 2 / answers
    half = np.sqrt(loss * binomial + loss**2 / 4)
    middle = share + loss / 2
    low = (middle - half) / (1 + loss)
    high = (middle + half) / (1 + loss)
    return np.maximum(0, low), np.minimum(1, high)


def stratified_score_interval(strata: Sequence[Sequence[float]], top: float) -> Interval:
    """Compute the 95 % interval of the mean of the strata's mean scores, all with the same weight.

    Like `wilson_interval`, with single scores as clusters. The variance is the sum of the strata's
    own variances, and has Welch's (1947) degrees of freedom, but at least a quarter of all that the
    strata have together.

    Args:
        strata: the scores of each stratum, finite, from 0 to `top`, or from -`top` if a score is
            negative.
        top: the highest possible score.

    Returns:
        The interval; None if a stratum has fewer than two scores, or all strata together have fewer
        than `FEWEST_CLUSTERS`.

    >>> low, high = stratified_score_interval([[0, 50, 100] * 2, [50, 100, 100, 100]], top=100)
    >>> 0 <= low < 68.75 < high <= 100
    True
    """
    sizes = np.array([len(stratum) for stratum in strata])
    if min(sizes, default=0) < 2 or sizes.sum() < FEWEST_CLUSTERS:
        return None
    lowest = -top if min(map(min, strata)) < 0 else 0.0
    unit = top - lowest
    shares = [(np.array(stratum, dtype=float) - lowest) / unit for stratum in strata]
    means = [stratum.mean() for stratum in shares]
    variances = np.array([stratum.var(ddof=1) for stratum in shares])
    parts = variances / sizes / len(sizes) ** 2
    answers = len(sizes) ** 2 / (1 / sizes).sum()
    freedom = _welch_freedom(parts, sizes)
    low, high = _wilson(np.mean(means), parts.sum(), answers, freedom)
    return float(lowest + low * unit), float(lowest + high * unit)


def _welch_freedom(parts: np.ndarray, sizes: np.ndarray) -> float:
    """Return Welch's degrees of freedom of a sum of variances.

    Args:
        parts: the summed variances, one of each stratum.
        sizes: number of scores of each stratum.
    """
    most = sizes.sum() - len(sizes)
    variance = parts.sum()
    if variance > 0:
        welch = variance**2 / (parts**2 / (sizes - 1)).sum()
        return max(most / 4, welch)
    return most


def stratified_interval(strata: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Compute the 95 % percentile interval of the mean of the strata's means.

    The bootstrap draws within each stratum.

    All strata have the same weight. A resample has as many values of each stratum as the data.

    Args:
        strata: the values of each stratum, finite numbers.

    Returns:
        The interval; None if a stratum has fewer than two values, or all strata together have fewer
        than `FEWEST_CLUSTERS`.

    >>> low, high = stratified_interval([[0, 50, 100] * 2, [50, 100, 100, 100]])
    >>> 0 <= low < 68.75 < high <= 100
    True
    """
    sizes = [len(stratum) for stratum in strata]
    if min(sizes, default=0) < 2 or sum(sizes) < FEWEST_CLUSTERS:
        return None

    def mean_of_means(*drawn: np.ndarray, axis: int) -> np.ndarray:
        means = [stratum.mean(axis) for stratum in drawn]
        return np.mean(means, axis=0)

    return _percentiles(strata, mean_of_means)


def _mean_rows(
    values: Sequence[float | None], clusters: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return value and 1 of each question with a finite value, and the questions' clusters."""
    if len(values) != len(clusters):
        raise ValueError(
            f"expected a cluster for each value, got {len(clusters)} for {len(values)}"
        )
    numbers = np.array(values, dtype=float)
    is_finite = np.isfinite(numbers)
    finite = numbers[is_finite]
    rows = np.stack([finite, np.ones_like(finite)], axis=-1)
    return rows, np.asarray(clusters)[is_finite]


def _mean_of_sums(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def _cluster_sums(
    rows: np.ndarray, clusters: Sequence[str] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of rows of each cluster, and the numbers of rows."""
    names, indices = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(names), *rows.shape[1:]))
    np.add.at(sums, indices, rows)
    return sums, np.bincount(indices, minlength=len(names))


def _percentiles(
    data: Sequence[Any], statistic: Callable, batch: int | None = None
) -> tuple[float, float]:
    """Compute the ends of a 95 % percentile interval by SciPy's bootstrap."""
    result = bootstrap(
        data,
        statistic,
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=batch,
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    interval = result.confidence_interval
    return float(interval.low), float(interval.high)


def compare(first: Scores, second: Scores, clusters: Mapping[str, str]) -> Comparison | None:
    """Compare two runs over the questions for which both have scores.

    None if there are no such questions.

    Raises:
        ValueError: a question has no cluster.

    >>> first = {"1": 1, "2": 1, "3": 0, "4": 1}
    >>> second = {"1": 0, "2": 1, "3": 0, "4": 0, "5": None}
    >>> comparison = compare(first, second, clusters={"1": "a", "2": "b", "3": "c", "4": "d"})
    >>> comparison.difference, comparison.test, comparison.p_value, comparison.questions
    (0.5, 'McNemar', 0.5, 4)
    """
    pairs, question_clusters = paired(first, second, clusters)
    if not question_clusters:
        return None
    differences = pairs[:, 0] - pairs[:, 1]
    low, high = bootstrap_interval(differences, question_clusters) or (None, None)
    test, p_value = difference_test(pairs, question_clusters)
    return Comparison(
        difference=float(differences.mean()),
        low=low,
        high=high,
        p_value=p_value,
        test=test,
        questions=len(pairs),
        clusters=len(set(question_clusters)),
    )


def difference_test(
    pairs: np.ndarray, clusters: Sequence[str]
) -> tuple[Literal["McNemar", "permutation"], float]:
    """Test whether two runs have different scores. Return the test's name and its p-value.

    Args:
        pairs: Scores of both runs, shape (questions, 2), all finite.
        clusters: The cluster of each question.

    >>> difference_test(np.array([[1, 0], [1, 1], [0, 0], [1, 0]]), ["a", "b", "c", "d"])
    ('McNemar', 0.5)
    """
    names, indices = np.unique(clusters, return_inverse=True)
    differences = pairs[:, 0] - pairs[:, 1]
    is_binary = bool(np.isin(pairs, (0, 1)).all())
    if is_binary and len(names) == len(pairs):
        return "McNemar", _mcnemar(differences)
    return "permutation", sign_flips(np.bincount(indices, differences))


def paired(
    first: Scores, second: Scores, clusters: Mapping[str, str]
) -> tuple[np.ndarray, list[str]]:
    """Return two runs' scores on the questions for which both have one.

    Also return the questions' clusters.

    Returns:
        Scores of shape (questions, 2), and one cluster per question, in the order of the questions'
        names.

    Raises:
        ValueError: a question has no cluster.

    >>> first, second = {"1": 1, "2": 0}, {"2": 1, "1": 1, "3": 0}
    >>> scores, names = paired(first, second, clusters={"1": "a", "2": "b"})
    >>> scores.tolist(), names
    ([[1.0, 1.0], [0.0, 1.0]], ['a', 'b'])
    """
    shared = sorted(first.keys() & second.keys())
    scores = [(first[question], second[question]) for question in shared]
    pairs = np.array(scores, dtype=float).reshape(-1, 2)
    is_scored = np.isfinite(pairs).all(axis=1)
    compared = list(compress(shared, is_scored))
    unclustered = [question for question in compared if question not in clusters]
    if unclustered:
        raise ValueError(
            f"{len(unclustered)} questions have no cluster, such as {unclustered[0]!r}"
        )
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
    """Correct the p-values of a family by Holm's step-down method.

    Return them in the same order.

    Raises:
        ValueError: a p-value is below 0 or above 1.

    >>> [round(p_value, 2) for p_value in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    if not all(0 <= p_value <= 1 for p_value in p_values):
        raise ValueError(f"p-values must be from 0 to 1, got {list(p_values)}")
    order = np.argsort(p_values, kind="stable")
    ascending = np.array(p_values)[order]
    num_remaining = np.arange(len(p_values), 0, -1)
    corrected = np.minimum(1, np.maximum.accumulate(num_remaining * ascending))
    original_order = np.argsort(order)
    return corrected[original_order].tolist()


def _mcnemar(differences: np.ndarray) -> float:
    discordant = int(np.count_nonzero(differences))
    if discordant == 0:
        return 1.0
    won = int(np.count_nonzero(differences > 0))
    return float(binomtest(won, discordant).pvalue)


def sign_flips(sums: np.ndarray) -> float:
    """Return the two-sided p-value of a test that flips the signs of independent sums.

    See `Comparison`.

    Sums of 0 are ignored, since they have no sign. A single sum has the same size with either sign,
    so its p-value is 1.

    >>> # Of the 8 combinations of signs, two are as extreme.
    >>> sign_flips(np.array([1.0, 2.0, 3.0, 0.0]))
    0.25
    """
    signed = sums[sums != 0]
    if len(signed) < 2:
        return 1.0
    scale = np.abs(signed).sum()

    def total(flipped: np.ndarray, axis: int) -> np.ndarray:
        # Totals that differ only in floating-point rounding must count as equal.
        return np.round(flipped.sum(axis) / scale, _DIGITS)

    # SciPy 1.15 computes the number of permutations as a float, which may overflow.
    with np.errstate(over="ignore"):
        test = permutation_test(
            (signed,),
            total,
            permutation_type="samples",
            vectorized=True,
            n_resamples=PERMUTATIONS,
            batch=_BATCH,
            rng=np.random.default_rng(_SEED),
        )
    return float(test.pvalue)
