"""Correct a judge's mean rating with people's ratings of a random sample of the answers.

Prediction-powered inference for a mean (Angelopoulos et al., Science 2023, arXiv 2301.09633) with
power tuning (PPI++, Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453), and weights by inverse
probability. `perf/correction.py` simulates the coverage of the intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from scipy.special import stdtrit

from lmms_egoplan.stats.agreement import MIN_ITEMS, Estimate

FEWEST_RATED = 30
"""Smallest number of rated answers for which `perf/correction.py` shows the intervals' coverage."""

# If a share p of all answers differs, none of n does with a probability of about exp(-n p): 0.025
# for p = 3.7 / n.
_UNSEEN = -np.log(0.025)
# Variances up to this are rounding errors.
_CONSTANT = 1e-12

Column = Sequence[float | None]


@dataclass(frozen=True)
class Correction:
    """A judge's mean rating, corrected by people.

    Means are 0 to 1, with 95 % intervals, which may exceed this range.

    Attributes:
        raw: Weighted mean of the judge's ratings.
        people: Mean of the people's ratings alone.
        corrected: Mean that people would give to all answers, estimated from both.
        error: Mean of the people's ratings minus the judge's, over the sample; -1 to 1.
        tuning: Weight of the judge's ratings, lambda of PPI++, 0 to 1.
        rated: Number of answers with both ratings, n.
        judged: Number of answers with a judge's rating, n + N. All other answers are excluded.
        correlation: Pearson's r of judge and people in the sample; None if all ratings of either
            are equal.
    """

    raw: float
    people: Estimate
    corrected: Estimate
    error: Estimate
    tuning: float
    rated: int
    judged: int
    correlation: float | None


def corrected(
    judge: Column, people: Column, probabilities: Column, weights: Column | None = None
) -> Correction:
    """Correct the mean of a judge's ratings.

    Intervals cover the choice of questions and of the sample. They use Student's t with n - 2
    degrees of freedom (n - 1 without lambda), and are wider in two cases: if the answers are
    skewed, in the direction of the rare values; and if fewer than about three of the sampled
    answers differ (judge from people, or people from their median), since more of the others may.
    If none differs, the interval reaches at least 3.7 / n to both sides.

    Args:
        judge: The judge's rating of each answer, 0 to 1; None or NaN if it is not judged.
        people: The people's mean rating of each answer, 0 to 1; None or NaN if it is not rated.
        probabilities: Probability of each answer to be in the sample, above 0 and at most 1. May be
            None or NaN for unrated answers.
        weights: Weight of each answer in the mean, positive. Default: equal weights.

    Raises:
        ValueError: The lengths differ, a value is out of range or missing, or fewer than
            `MIN_ITEMS` answers have both ratings.

    >>> judge = [1.0, 0.5, 1.0, 0.0] * 50
    >>> people = [0.5, 0.5, 1.0, 0.0] * 10 + [None] * 160
    >>> result = corrected(judge, people, [40 / 200] * 200)
    >>> round(result.raw, 3), round(result.corrected.value, 3)
    (0.625, 0.5)
    >>> result.corrected.low < 0.5 < result.corrected.high
    True
    >>> round(result.error.value, 3), round(result.tuning, 2), result.rated, result.judged
    (-0.125, 0.58, 40, 200)
    """
    weights = [1] * len(judge) if weights is None else weights
    table = np.array([judge, people, probabilities, weights], dtype=float)
    answers = _Answers(*table[:, ~np.isnan(table[0])])
    y = answers.people
    f = answers.judge_of_rated
    n = len(y)
    tuning, slope = answers.tuning()
    return Correction(
        raw=float(answers.raw),
        people=answers.estimate(y, 0, y - np.median(y), n - 1),
        corrected=answers.estimate(y - slope * f, slope, y - f, n - 2),
        error=answers.estimate(y - f, 0, y - f, n - 1),
        tuning=tuning,
        rated=n,
        judged=len(answers.judge),
        correlation=answers.correlation(),
    )


class _Answers:
    """The answers with a judge's rating, and the sample of them that people rated.

    Attributes:
        judge: The judge's ratings of all answers.
        people: The people's ratings of the sample, y.
        judge_of_rated: The judge's ratings of the sample, f.
        raw: Weighted mean of the judge's ratings.

    Raises:
        ValueError: see `corrected`.
    """

    def __init__(
        self,
        judge: np.ndarray,
        people: np.ndarray,
        probabilities: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self.judge = judge
        self._is_rated = ~np.isnan(people)
        self.people = people[self._is_rated]
        self.judge_of_rated = judge[self._is_rated]
        self._chances = probabilities[self._is_rated]
        self._weights = weights
        self._check()
        # Shares of all answers, and of the sample by inverse probability, which add up to 1.
        self._shares = weights / weights.sum()
        sample = weights[self._is_rated] / self._chances
        self._sample = sample / sample.sum()
        self.raw = self._shares @ judge

    def _check(self) -> None:
        """Raise ValueError for too few answers, or for a value out of range or missing."""
        n = len(self.people)
        if n < MIN_ITEMS:
            raise ValueError(
                f"expected at least {MIN_ITEMS} answers rated by judge and people, got {n}"
            )
        fractions = np.concatenate([self.judge, self.people, self._chances])
        positive = np.concatenate([self._chances, self._weights])
        # A comparison with NaN is false.
        are_fractions = (np.abs(2 * fractions - 1) <= 1).all()
        if not are_fractions or not (positive > 0).all():
            raise ValueError(
                "ratings and probabilities must be from 0 to 1, and probabilities and weights "
                "above 0"
            )

    def tuning(self) -> tuple[float, float]:
        """Return lambda of PPI++, and the slope by which the judge's mean counts.

        With N = total - n unlabelled answers: 1 + n / N = total / N. Lambda is the covariance of
        judge and people in the sample, divided by the variance of the judge over all answers and by
        1 + n / N, from 0 to 1. Lambda times the mean over N is slope times the mean over all
        answers, less the same over the sample.
        """
        total = len(self.judge)
        unlabelled = 1 - len(self.people) / total
        spread = self._shares @ (self.judge - self.raw) ** 2 * total / (total - 1)
        tuning = 0.0
        if spread > _CONSTANT:
            tuning = float(np.clip(unlabelled * self._covariance() / spread, 0, 1))
        slope = tuning / unlabelled if unlabelled else 0.0
        return tuning, slope

    def _covariance(self) -> float:
        """Return the covariance of judge and people in the sample."""
        return self._sample @ (
            self._deviations(self.people) * self._deviations(self.judge_of_rated)
        )

    def _deviations(self, ratings: np.ndarray) -> np.ndarray:
        """Return the deviations of ratings of the sample from their mean."""
        return ratings - self._sample @ ratings

    def correlation(self) -> float | None:
        """Return Pearson's r of judge and people; None if all ratings of either are equal."""
        variance_of_people = self._sample @ self._deviations(self.people) ** 2
        variance_of_judge = self._sample @ self._deviations(self.judge_of_rated) ** 2
        scale = np.sqrt(variance_of_people * variance_of_judge)
        if scale <= _CONSTANT:
            return None
        return float(np.clip(self._covariance() / scale, -1, 1))

    def estimate(
        self, rectified: np.ndarray, slope: float, differing: np.ndarray, freedom: int
    ) -> Estimate:
        """Estimate a mean: that of `rectified` over the sample, plus `slope` times the judge's.

        Args:
            rectified: Values of the sample.
            slope: Factor of the judge's mean over all answers.
            differing: Differences in the sample. The interval is wider if few of them differ.
            freedom: Degrees of freedom.
        """
        n = len(self.people)
        mean = self._sample @ rectified
        influence = slope * self._shares * (self.judge - self.raw)
        influence[self._is_rated] += self._sample * (rectified - mean)
        quantile = stdtrit(freedom, 0.975)
        squares = influence @ influence
        # Half of Cornish and Fisher's term for skewness, which moves only one end: enough in the
        # simulation.
        skewed = 0.0
        if squares > 0:
            skewed = (1 + 2 * quantile**2) / 12 * (influence**3).sum() / squares
        # Small differences say little about large ones: below 0.58, a difference counts in part.
        seen = np.minimum(1, 3 * differing**2).sum()
        half = np.hypot(quantile * np.sqrt(squares * n / freedom), _UNSEEN / n * np.exp(-seen))
        value = mean + slope * self.raw
        return Estimate(
            value=float(value),
            low=float(value + min(0, skewed) - half),
            high=float(value + max(0, skewed) + half),
        )


def draw(strata: Sequence[Any], count: int) -> list[int]:
    """Draw a stratified sample.

    The probability of each answer is `count` divided by the number of answers.

    Ordered pivotal sampling (Deville and Tillé, Biometrika 1998): the answers are sorted by
    stratum, in random order within it, and one of every N / `count` neighbours is drawn. So each
    stratum has its share of the sample, give or take less than 2. A constant step would round in
    the same direction in strata of equal size. The seed follows from the strata, so the same strata
    give the same sample.

    Args:
        strata: Stratum of each answer; sortable. Sort the answers by id to make the sample
            independent of their order.
        count: Size of the sample.

    Returns:
        The positions of the drawn answers, ascending.

    Raises:
        ValueError: `count` is below 1 or above the number of answers.

    >>> strata = ["wrong"] * 60 + ["right"] * 40
    >>> [strata[position] for position in draw(strata, 5)].count("wrong")
    3
    """
    if not 1 <= count <= len(strata):
        raise ValueError(f"expected a sample of 1 to {len(strata)} answers, got {count}")
    # A constant seed would favour the same answers in all studies.
    generator = np.random.default_rng(crc32(repr(strata).encode()))
    order = sorted(
        generator.permutation(len(strata)).tolist(), key=lambda position: strata[position]
    )
    total = len(strata)
    drawn = []
    carried = order[0]
    chance = 0
    # Chances in parts of `total`: those of neighbours are pooled, until they are enough to draw one
    # of the two.
    for position, random in zip(order, generator.random(total).tolist(), strict=True):
        chance += count
        if chance < total:
            if random * chance >= chance - count:
                carried = position
        elif random * (2 * total - chance) < total - count:
            drawn.append(carried)
            carried = position
            chance -= total
        else:
            drawn.append(position)
            chance -= total
    return sorted(drawn)
