"""Decide whether two runs are different, equal within a margin, or undecided.

Both claims share one error rate.

"Different" is the exact test of `statistics.compare`. "Equal within the margin" is two one-sided
tests (Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987), see `equality_p_value`. The claims of all
pairs that are decided together are corrected by Holm's method. A difference of 0 and one of at
least the margin exclude each other, so at most one of a pair's two null hypotheses is true
(Shaffer, J. Am. Stat. Assoc. 81, 1986).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, pearson3, t

from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS, Comparison, Scores, compare, holm, paired

MARGIN = 1.0
"""Default margin, in per cent of the highest possible score."""

ERROR_RATE = 0.05
"""Probability of at least one wrong claim among all pairs that are decided together."""

POWER = 0.8
"""Probability of the claim for which `Verdict.needed` counts questions."""


@dataclass(frozen=True)
class Evidence:
    """Two runs' scores on shared questions.

    All numbers except the comparison are for a highest possible score of 1.

    comparison: difference, interval and exact test.
    first, second: mean score of each run.
    margin: the margin.
    p_equal: p-value of the hypothesis that the true difference is at least the margin.
    variance: variance of the difference.
    pseudo: sum of differences of the pseudo-cluster.

    The last three are from `equality_p_value`, and NaN for fewer than `FEWEST_CLUSTERS` clusters.
    """

    comparison: Comparison
    first: float
    second: float
    margin: float
    p_equal: float
    variance: float
    pseudo: float


def weigh(
    first: Scores, second: Scores, clusters: Mapping[str, str], margin: float, largest: float
) -> Evidence | None:
    """Compare two runs over the questions for which both have scores.

    None if there are no such questions.

    Args:
        first, second: scores by question.
        clusters: the cluster of each question.
        margin: margin in per cent of the highest possible score.
        largest: the highest possible score. The lowest one is 0.

    Raises:
        ValueError: a question has no cluster, or the margin is not between 0 and 100.
    """
    if not 0 < margin < 100:
        raise ValueError(f"the margin must be above 0 and below 100, got {margin:g}")
    comparison = compare(first, second, clusters)
    if comparison is None:
        return None
    pairs, names = paired(first, second, clusters)
    pairs /= largest
    differences = pairs[:, 0] - pairs[:, 1]
    _, indices, sizes = np.unique(names, return_inverse=True, return_counts=True)
    p_equal = math.nan
    variance = math.nan
    pseudo = math.nan
    if len(sizes) >= FEWEST_CLUSTERS:
        sums = np.bincount(indices, differences)
        changes = np.bincount(indices, np.abs(differences))
        test = equality_p_value(sums, changes, sizes, margin / 100)
        p_equal, variance, pseudo = (float(value) for value in test)
    first_mean, second_mean = pairs.mean(axis=0)
    return Evidence(
        comparison,
        first=float(first_mean),
        second=float(second_mean),
        margin=margin / 100,
        p_equal=p_equal,
        variance=variance,
        pseudo=pseudo,
    )


def equality_p_value(
    sums: np.ndarray, changes: np.ndarray, sizes: np.ndarray, margin: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Test the hypothesis that the mean difference over questions is at least the margin in size.

    The p-value is the larger one of two one-sided tests. Both use the jackknife variance over
    clusters, and both add a pseudo-cluster that differs in the unfavourable direction: two runs
    that agree on 100 questions do not show that they differ in less than 1 % of all questions. The
    pseudo-cluster has the typical size sum n² / sum n, for clusters of n questions. It adds a
    difference, but no questions. Its share of changes is a mean over the clusters with changes and
    one cluster that changes completely. For the former, the share is that in the cluster of an
    average change.

    Each one-sided test takes the larger p-value of two distributions:

    * Student's t with (sum n)² / sum n² - 1 degrees of freedom;
    * Pearson's type III with twice the skewness of the mean, since the standard deviation in the
      denominator depends on the mean. For single questions that all change in one direction, this
      is the exact Poisson test of rare events (compare Fay and Feuer, Stat. Med. 16, 1997).

    Args:
        sums: sum of differences of each cluster, shape (..., clusters). The largest possible
            difference is 1.
        changes: sum of the sizes of differences of each cluster, same shape.
        sizes: number of questions of each cluster, shape (clusters,).
        margin: the margin, above 0.

    Returns:
        p-value, jackknife variance of the mean, and sum of the pseudo-cluster, each of shape (...).

    >>> for count in (100, 300):  # complete agreement
    ...     nothing = np.zeros(count)
    ...     p_value, *_ = equality_p_value(nothing, nothing, np.ones(count), margin=0.01)
    ...     print(round(float(p_value), 3))
    0.5
    0.05
    """
    total = sizes.sum()
    count = len(sizes)
    typical = (sizes**2).sum() / total
    pseudo = _pseudo_cluster(changes, sizes, typical)
    mean = sums.sum(axis=-1) / total
    extra = pseudo / total
    residuals = (sums - mean[..., None] * sizes) / (total - sizes)
    variance = (count - 1) / count * (residuals**2).sum(axis=-1)
    deviation = np.sqrt(variance + extra**2)
    freedom = total / typical - 1
    third_moment = (residuals**3).sum(axis=-1)
    p_values = []
    for sign in (1, -1):
        distance = (margin - sign * mean - extra) / deviation
        skewness = (sign * third_moment + extra**3) / deviation**3
        p_values.append(t.sf(distance, freedom))
        p_values.append(pearson3.sf(distance, 2 * skewness))
    return np.max(p_values, axis=0), variance, pseudo


def _pseudo_cluster(changes: np.ndarray, sizes: np.ndarray, typical: float) -> np.ndarray:
    """Return the sum of differences of the pseudo-cluster, see `equality_p_value`.

    Args:
        changes, sizes: see `equality_p_value`.
        typical: number of questions of a typical cluster.
    """
    changed = np.count_nonzero(changes, axis=-1)
    # No division by 0 without changes.
    all_changes = np.maximum(changes.sum(axis=-1), np.finfo(float).tiny)
    share = (changes**2 / sizes).sum(axis=-1) / all_changes
    return typical * (changed * share + 1) / (changed + 1)


def decide(pairs: Sequence[Evidence]) -> list[str | None]:
    """Decide on all pairs together, at one `ERROR_RATE` for all claims.

    Pairs with few clusters have no verdict.

    Without a claim, a pair is undecided. Its verdict states an approximate number of questions for
    a claim with a probability of `POWER`, if questions and clusters are like those at hand. If the
    observed difference is within the margin, that is the claim of equality, and the true difference
    is taken to be 0. Otherwise, it is the claim of a difference, and the true difference is taken
    to be the observed one. Numbers up to that of the shared questions are omitted.

    >>> first = {str(number): 1 for number in range(500)}
    >>> second = {str(number): number % 50 > 0 for number in range(500)}
    >>> clusters = {question: question for question in first}
    >>> [decide([weigh(first, second, clusters, margin, 1)]) for margin in (1, 5)]
    [['different'], ['different, but equal within 5 points']]
    """
    usable = [pair for pair in pairs if pair.comparison.clusters >= FEWEST_CLUSTERS]
    corrected = family_p_values([(pair.comparison.p_value, pair.p_equal) for pair in usable])
    verdicts: dict[int, str] = {}
    for pair, (p_different, p_equal) in zip(usable, corrected, strict=True):
        claims = []
        if p_different <= ERROR_RATE:
            claims.append("different")
        if p_equal <= ERROR_RATE:
            claims.append(f"equal within {_points(pair.margin)}")
        if claims:
            verdict = ", but ".join(claims)
        else:
            verdict = "undecided" + _needed(pair, ERROR_RATE / len(usable))
        verdicts[id(pair)] = verdict
    return [verdicts.get(id(pair)) for pair in pairs]


def _points(margin: float) -> str:
    points = 100 * margin
    unit = "point" if points == 1 else "points"
    return f"{points:g} {unit}"


def family_p_values(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, ...]]:
    """Correct the p-values of both claims about each pair: "different" and "equal".

    A claim's corrected p-value is that of Holm's method over this claim and, for each other pair,
    the claim with the larger p-value: only one of the other pair's two null hypotheses can be true.

    >>> family_p_values([(0.03, 0.9)]), family_p_values([(0.01, 0.9), (0.04, 0.02)])
    ([(0.03, 0.9)], [(0.02, 0.9), (0.08, 0.04)])
    """
    larger = [max(pair) for pair in pairs]
    corrected: list[tuple[float, ...]] = []
    for index, (p_different, p_equal) in enumerate(pairs):
        others = larger[:index] + larger[index + 1 :]
        corrected_different = holm([p_different, *others])[0]
        corrected_equal = holm([p_equal, *others])[0]
        corrected.append((corrected_different, corrected_equal))
    return corrected


def _needed(pair: Evidence, level: float) -> str:
    """State the number of questions for a claim at this level.

    It has two significant digits; see `decide`. Return "" if the runs share as many already.
    """
    difference = abs(pair.first - pair.second)
    if difference > pair.margin:
        count = _needed_for_difference(pair, difference, level)
    else:
        count = _needed_for_equality(pair, level)
    rounded = int(float(f"{count:.1e}"))
    if rounded <= pair.comparison.questions:
        return ""
    return f"; about {rounded:,} questions would be needed"


def _needed_for_difference(pair: Evidence, difference: float, level: float) -> float:
    """Return the number of questions for the claim "different"."""
    quantile = norm.isf(level / 2) + norm.ppf(POWER)
    return pair.comparison.questions * pair.variance * (quantile / difference) ** 2


def _needed_for_equality(pair: Evidence, level: float) -> float:
    """Return the number of questions for the claim "equal".

    Solve margin - pseudo / n = quantile * sqrt(questions * variance / n + pseudo**2 / n**2) for n.
    """
    quantile = norm.isf(level) + norm.ppf((1 + POWER) / 2)
    shift = pair.margin * pair.pseudo
    half = pair.comparison.questions * pair.variance * quantile**2 / 2 + shift
    root = math.sqrt(half**2 + shift**2 * (quantile**2 - 1))
    return (half + root) / pair.margin**2
