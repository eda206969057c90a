"""Correct a judge's mean rating with people's ratings of a random sample of the answers.

Prediction-powered inference for a mean (Angelopoulos et al., Science 2023, arXiv 2301.09633) with
power tuning (PPI++, Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453), and weights by inverse
probability. `perf/correction.py` simulates the coverage of the intervals.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.special import stdtrit

from lmms_egoplan.judging.agreement import MIN_ITEMS, Estimate

FEWEST_RATED = 30
"""Smallest number of answers rated by people for which `perf/correction.py` shows the coverage of the intervals."""

# If a share p of all answers differs, none of n does with a probability of about exp(-n p): 0.025
# for p = 3.7 / n.
_UNSEEN = -np.log(0.025)
# Variances up to this are rounding errors.
_CONSTANT = 1e-12

Column = Sequence[float | None]


class Correction(NamedTuple):
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
    >>> round(result.raw, 3), round(result.corrected.value, 3), result.corrected.low < 0.5 < result.corrected.high
    (0.625, 0.5, True)
    >>> round(result.error.value, 3), round(result.tuning, 2), result.rated, result.judged
    (-0.125, 0.58, 40, 200)
    """
    weights = [1] * len(judge) if weights is None else weights
    table = np.array([judge, people, probabilities, weights], dtype=float)
    ratings, graded, chances, weighing = table[:, ~np.isnan(table[0])]
    is_rated = ~np.isnan(graded)
    f, y, chances = ratings[is_rated], graded[is_rated], chances[is_rated]
    total, n = len(ratings), len(f)
    if n < MIN_ITEMS:
        raise ValueError(
            f"expected at least {MIN_ITEMS} answers rated by judge and people, got {n}"
        )
    if (
        not (np.abs(2 * np.r_[ratings, y, chances] - 1) <= 1).all()
        or not (np.r_[chances, weighing] > 0).all()
    ):
        raise ValueError(
            "ratings and probabilities must be from 0 to 1, and probabilities and weights above 0"
        )
    shares = weighing / weighing.sum()
    sample = weighing[is_rated] / chances
    sample /= sample.sum()
    raw = shares @ ratings
    y_off, f_off = y - sample @ y, f - sample @ f
    covariance, spread = (
        sample @ (y_off * f_off),
        shares @ (ratings - raw) ** 2 * total / (total - 1),
    )
    # PPI++, with N = total - n unlabelled answers: 1 + n / N = total / N.
    unlabelled = 1 - n / total
    tuning = float(np.clip(unlabelled * covariance / spread, 0, 1)) if spread > _CONSTANT else 0.0
    # lambda times the mean over N is slope times the mean over all answers, less the same over the
    # sample.
    slope = tuning / unlabelled if unlabelled else 0.0

    def estimate(
        rectified: np.ndarray, slope: float, differing: np.ndarray, freedom: int
    ) -> Estimate:
        """Return the mean of `rectified` over the sample, plus `slope` times the judge's mean over
        all answers.
        """
        mean = sample @ rectified
        influence = slope * shares * (ratings - raw)
        influence[is_rated] += sample * (rectified - mean)
        quantile, squares = stdtrit(freedom, 0.975), influence @ influence
        # Half of Cornish and Fisher's term for skewness, which moves only one end: enough in the
        # simulation.
        skewed = (1 + 2 * quantile**2) / 12 * (influence**3).sum() / squares if squares > 0 else 0.0
        # Small differences say little about large ones: below 0.58, a difference counts in part.
        seen = np.minimum(1, 3 * differing**2).sum()
        half = np.hypot(quantile * np.sqrt(squares * n / freedom), _UNSEEN / n * np.exp(-seen))
        value = mean + slope * raw
        return Estimate(
            float(value), float(value + min(0, skewed) - half), float(value + max(0, skewed) + half)
        )

    only = estimate(y, 0, y - np.median(y), n - 1)
    both = estimate(y - slope * f, slope, y - f, n - 2)
    error = estimate(y - f, 0, y - f, n - 1)
    scale = np.sqrt((sample @ y_off**2) * (sample @ f_off**2))
    correlation = float(np.clip(covariance / scale, -1, 1)) if scale > _CONSTANT else None
    return Correction(float(raw), only, both, error, tuning, n, total, correlation)


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
    drawn, total, carried, chance = [], len(strata), order[0], 0
    # Chances in parts of `total`: those of neighbours are pooled, until they are enough to draw one
    # of the two.
    for position, random in zip(order, generator.random(total).tolist(), strict=True):
        chance += count
        if chance < total:
            carried = carried if random * chance < chance - count else position
        else:
            keeps = random * (2 * total - chance) < total - count
            drawn.append(carried if keeps else position)
            carried, chance = position if keeps else carried, chance - total
    return sorted(drawn)
