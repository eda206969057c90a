"""Compare the correction of a judge by people with slow versions, with ppi-python, and with
simulated truths.
"""

import importlib.util
import math
import random
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pytest
from scipy.stats import skew, t

from lmms_egoplan.stats.correction import FEWEST_RATED, corrected, draw

LEVELS = (0.0, 0.5, 1.0)


def rated_answers(total, rated, seed, agreeing=0.8):
    """Return a judge's ratings, and people's of the first answers.

    The judge repeats a share `agreeing` of them.
    """
    chance = random.Random(seed)
    people = chance.choices(LEVELS, (3, 2, 5), k=total)
    judge = [rating if chance.random() < agreeing else chance.choice(LEVELS) for rating in people]
    return judge, [rating if number < rated else None for number, rating in enumerate(people)]


def slow(judge, people, probabilities, weights):
    """PPI++ for a mean, as in arXiv 2311.01453: labelled and unlabelled answers are separate, each
    with weights.

    Returns the estimate, the tuned lambda, and the interval's half width and extension for
    skewness. Differences that the sample does not contain are ignored.
    """
    labelled = [number for number, rating in enumerate(people) if rating is not None]
    n, total = len(labelled), len(judge)
    shares = {number: weights[number] / probabilities[number] for number in labelled}
    shares = {number: share / sum(shares.values()) for number, share in shares.items()}
    everyone = [weight / sum(weights) for weight in weights]
    of_people = sum(share * people[number] for number, share in shares.items())
    of_judge = sum(share * judge[number] for number, share in shares.items())
    of_all = sum(share * rating for share, rating in zip(everyone, judge, strict=True))
    covariance = sum(s * (people[k] - of_people) * (judge[k] - of_judge) for k, s in shares.items())
    variance = (
        sum(s * (rating - of_all) ** 2 for s, rating in zip(everyone, judge, strict=True))
        * total
        / (total - 1)
    )
    tuning = min(1, max(0, covariance / ((1 + n / (total - n)) * variance)))
    # The mean over the unlabelled answers is what the mean over all has beyond the labelled ones.
    slope = tuning * total / (total - n)
    estimate = of_people + slope * (of_all - of_judge)
    squares = cubes = 0
    for number, share in enumerate(everyone):
        part = slope * share * (judge[number] - of_all)
        if number in shares:
            residual = people[number] - slope * judge[number] - (of_people - slope * of_judge)
            part += shares[number] * residual
        squares += part**2
        cubes += part**3
    quantile = t.ppf(0.975, n - 2)
    half = quantile * math.sqrt(squares * n / (n - 2))
    return estimate, tuning, half, (1 + 2 * quantile**2) / 12 * cubes / squares


@pytest.mark.parametrize("is_weighted", [False, True])
def test_estimates_match_a_slow_version(is_weighted):
    judge, people = rated_answers(300, 60, 1)
    chance = random.Random(2)
    probabilities = [chance.uniform(0.1, 0.4) if is_weighted else 0.2 for _ in judge]
    weights = [chance.choice((1, 2)) if is_weighted else 1 for _ in judge]
    result = corrected(judge, people, probabilities, weights)
    estimate, tuning, half, skewed = slow(judge, people, probabilities, weights)
    assert result.corrected.value == pytest.approx(estimate)
    assert result.tuning == pytest.approx(tuning)
    assert result.corrected.high - estimate == pytest.approx(half + max(0, skewed), rel=0.005)
    assert estimate - result.corrected.low == pytest.approx(half - min(0, skewed), rel=0.005)
    assert result.raw == pytest.approx(np.average(judge, weights=weights))
    shares = [w / p for w, p in zip(weights, probabilities, strict=True)][:60]
    assert result.people.value == pytest.approx(np.average(people[:60], weights=shares))
    errors = [a - b for a, b in zip(people[:60], judge[:60], strict=True)]
    assert result.error.value == pytest.approx(np.average(errors, weights=shares))
    assert (result.rated, result.judged) == (60, 300)
    if not is_weighted:
        assert result.correlation == pytest.approx(np.corrcoef(people[:60], judge[:60])[0, 1])
        half = t.ppf(0.975, 59) * np.std(people[:60], ddof=1) / math.sqrt(60)
        skewed = (1 + 2 * t.ppf(0.975, 59) ** 2) / 12 * skew(people[:60]) * np.std(people[:60]) / 60
        assert skewed < 0
        assert result.people.high - result.people.value == pytest.approx(half, rel=0.005)
        assert result.people.value - result.people.low == pytest.approx(half - skewed, rel=0.005)


@pytest.mark.parametrize(("rated", "total"), [(60, 700), (2000, 20_000)])
def test_estimates_match_ppi_python(rated, total):
    ppi_py = pytest.importorskip(
        "ppi_py", reason="ppi-python is not installed; pip install ppi-python"
    )
    judge, people = rated_answers(total, rated, 3)
    result = corrected(judge, people, [rated / total] * total)
    split = [np.array(values) for values in (people[:rated], judge[:rated], judge[rated:])]
    (estimate,) = ppi_py.ppi_mean_pointestimate(*split)
    (low,), (high,) = ppi_py.ppi_mean_ci(*split, alpha=0.05)
    # Its lambda has the same degrees of freedom, so estimates agree to rounding.
    assert result.corrected.value == pytest.approx(estimate, abs=1e-12)
    (same,) = ppi_py.ppi_mean_pointestimate(*split, lam=result.tuning)
    assert same == pytest.approx(estimate, abs=1e-12)
    # Its intervals use the normal distribution and divide variances by n. These use t and n - 2,
    # and one end is farther away for skewness.
    freedom = t.ppf(0.975, rated - 2) / 1.959964 * math.sqrt(rated / (rated - 2))
    halves = sorted((result.corrected.high - estimate, estimate - result.corrected.low))
    assert halves[0] == pytest.approx(freedom * (high - low) / 2, rel=0.005)
    assert halves[1] == pytest.approx(halves[0], rel=0.02)


def test_a_judge_equal_to_people_is_left_unchanged_and_few_differences_widen_the_intervals():
    judge, _ = rated_answers(400, 0, 4)
    people = judge[:40] + [None] * 360
    same = corrected(judge, people, [0.1] * 400)
    assert same.error.value == 0
    # With 3.7 of 40 differences on average, a sample has none in 2.5 % of the cases.
    assert same.error.high == pytest.approx(3.7 / 40, rel=0.01)
    one = corrected(judge, [1 - judge[0], *people[1:]], [0.1] * 400)
    half = t.ppf(0.975, 39) * abs(1 - 2 * judge[0]) / 40
    ends = sorted((one.error.high - one.error.value, one.error.value - one.error.low))
    assert ends[0] == pytest.approx(math.hypot(half, 3.7 / 40 / math.e), rel=0.02)
    assert ends[1] > 1.2 * ends[0]


@pytest.mark.parametrize("kind", ["constant", "opposite"])
def test_a_useless_judge_leaves_the_people_alone(kind):
    _, people = rated_answers(200, 50, 5)
    judge = [1.0] * 200 if kind == "constant" else [1 - (rating or 0) for rating in people]
    result = corrected(judge, people, [0.25] * 200)
    assert result.tuning == 0
    assert result.corrected.value == pytest.approx(result.people.value)
    assert result.corrected.high - result.corrected.low >= result.people.high - result.people.value
    assert (result.correlation is None) == (kind == "constant")


def test_unjudged_answers_are_excluded_and_complete_samples_need_no_judge():
    judge, people = rated_answers(200, 40, 6)
    without = [None if number in (0, 1, 150) else rating for number, rating in enumerate(judge)]
    result = corrected(without, people, [0.2] * 40 + [None] * 160)
    judged = [number for number in range(200) if without[number] is not None]
    expected = corrected([judge[k] for k in judged], [people[k] for k in judged], [0.2] * 197)
    assert result == expected
    assert (result.rated, result.judged) == (38, 197)
    everyone = corrected(judge[:40], people[:40], [1.0] * 40)
    assert everyone.corrected.value == pytest.approx(fmean(people[:40]))


@pytest.mark.parametrize(
    "change",
    [
        {"judge": [2.0] * 40},
        {"judge": [math.inf] * 40},
        {"people": [-0.5] * 40},
        {"probabilities": [0.0] * 40},
        {"probabilities": [None] * 40},
        {"weights": [1.0] * 39 + [0.0]},
        {"weights": [1.0] * 39 + [math.nan]},
        {"people": [1.0] * 9 + [None] * 31},
        {"people": [1.0] * 39},
    ],
)
def test_invalid_values_are_refused(change):
    values = {"judge": [0.5] * 40, "people": [1.0] * 40, "probabilities": [0.5] * 40}
    corrected(**values)
    with pytest.raises(ValueError, match=r"expected|must be|shape"):
        corrected(**values | change)


def test_each_stratum_has_its_share_and_the_sample_is_fixed():
    strata = [
        (name, rating)
        for name, size in (("a", 50), ("b", 100), ("c", 7))
        for rating in (0, 1)
        for _ in range(size)
    ]
    positions = draw(strata, 60)
    assert positions == sorted(set(positions))
    assert len(positions) == 60
    counts, sizes = Counter(strata[position] for position in positions), Counter(strata)
    for stratum, size in sizes.items():
        assert abs(counts[stratum] - 60 * size / len(strata)) < 2
    assert positions == draw(strata, 60)
    assert draw(strata, len(strata)) == list(range(len(strata)))
    # Each answer has the same chance, also if the sample's step divides the strata's size; rounding
    # differs by stratum.
    draws = [
        draw([(study, number // 10, number % 10 > 4) for number in range(60)], 30)
        for study in range(2000)
    ]
    chances = Counter(position for positions in draws for position in positions)
    assert all(abs(chances[position] / len(draws) - 0.5) < 0.05 for position in range(60))
    assert np.std([sum(position % 10 > 4 for position in positions) for positions in draws]) < 2
    # Within a stratum, the order is random.
    assert 0 < median(draw([0] * 1000, 100)) < 999
    assert len(set(np.diff(draw([0] * 1000, 100)))) > 10
    for count in (0, len(strata) + 1):
        with pytest.raises(ValueError, match=str(len(strata))):
            draw(strata, count)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("population", "judge", "size", "tolerance"),
    [
        ("middling", "noise, r = 0.8", 60, 0.05),
        ("high", "rare large errors, down", FEWEST_RATED, None),
    ],
)
def test_corrected_intervals_contain_the_truth(population, judge, size, tolerance):
    simulation = simulated()
    row = simulation.simulate(simulation.Scenario(population, judge, True), size)
    assert row["corrected"] >= simulation.LEAST
    assert row["error"] >= simulation.LEAST
    if tolerance:
        assert row["formula"] == pytest.approx(math.sqrt(1 - 0.64 * 640 / 700), rel=0.005)
        assert row["width"] == pytest.approx(row["formula"], rel=tolerance)


def simulated():
    path = Path(__file__).parents[2] / "perf" / "correction.py"
    spec = importlib.util.spec_from_file_location("perf_correction", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_large_errors_are_covered_among_small_differences_of_several_raters():
    """People's means are in sixths. 15 % differ from the judge by 1/6, and 4 % by much more."""
    source, studies, covered = np.random.default_rng(1), 1000, np.zeros(2)
    truth = 0.81 * 0.85 + 0.15 * (0.1 / 6 + 0.1 / 3 + 0.8 * 5 / 6) + 0.04 * 0.2
    for _ in range(studies):
        judge, chance = source.choice(LEVELS, 700, p=(0.1, 0.1, 0.8)), source.random(700)
        people = np.where(
            chance < 0.15, abs(judge - 1 / 6), np.where(chance < 0.19, judge < 1, judge)
        )
        result = corrected(judge, np.where(np.arange(700) < 60, people, np.nan), [60 / 700] * 700)
        both = ((result.corrected, truth), (result.error, truth - 0.85))
        covered += [estimate.low <= value <= estimate.high for estimate, value in both]
    assert (covered / studies > 0.93 - 2 * math.sqrt(0.93 * 0.07 / studies)).all()
