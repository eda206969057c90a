"""Compare coefficients with slow versions of their definitions, and intervals with a plain
bootstrap.
"""

import itertools
import random
import warnings
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.stats.agreement import (
    MIN_ITEMS,
    RESAMPLES,
    Agreement,
    agreement,
    by_question,
    gaps,
    krippendorff_alpha,
    pooled,
)

LEVELS = (0.0, 0.5, 1.0)
rating = st.sampled_from(LEVELS)


def slow_pearson(first, second):
    mean_first, mean_second = fmean(first), fmean(second)
    covariance = sum(
        (a - mean_first) * (b - mean_second) for a, b in zip(first, second, strict=True)
    )
    spreads = [
        sum((a - mean) ** 2 for a in rated)
        for rated, mean in ((first, mean_first), (second, mean_second))
    ]
    return covariance / (spreads[0] * spreads[1]) ** 0.5


def distance(a, b):
    return abs(a - b)


def unequal(a, b):
    return float(a != b)


def slow_kappa(first, second, disagreement=distance):
    """Compute one minus observed over expected disagreement.

    The linear weight of two ratings is their distance.
    """
    observed = fmean(disagreement(a, b) for a, b in zip(first, second, strict=True))
    expected = fmean(disagreement(a, b) for a, b in itertools.product(first, second))
    return 1 - observed / expected


def slow_alpha(units, disagreement):
    """Compute one minus the mean disagreement within items over that of any two ratings.

    Each rating has weight 1.
    """
    several = [unit for unit in units if len(unit) > 1]
    every = [rating for unit in several for rating in unit]
    observed = sum(
        sum(disagreement(a, b) for a, b in itertools.permutations(unit, 2)) / (len(unit) - 1)
        for unit in several
    ) / len(every)
    expected = fmean(disagreement(a, b) for a, b in itertools.permutations(every, 2))
    return 1 - observed / expected


def correlated(count, seed=0, levels=LEVELS):
    source = random.Random(seed)
    first = [source.choice(levels) for _ in range(count)]
    return first, [rated if source.random() < 0.7 else source.choice(levels) for rated in first]


@settings(max_examples=60, deadline=None)
@given(
    st.data(),
    st.sampled_from([LEVELS, (0.0, 1.0), (0.0, 1.0, 2.0, 3.0), (0.0, 1.0, 2.0, 3.0, 4.0)]),
)
def test_coefficients_match_slow_definitions(data, levels):
    pairs = data.draw(
        st.lists(st.tuples(st.sampled_from(levels), st.sampled_from(levels)), max_size=25)
    )
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = agreement(first, second, levels)
    assert result.questions == len(pairs)
    if len(pairs) < MIN_ITEMS or len(set(first)) < 2 or len(set(second)) < 2:
        assert result == Agreement(len(pairs), None, None, None)
        return
    assert result.pearson.value == pytest.approx(slow_pearson(first, second), abs=1e-9)
    assert result.kappa_linear.value == pytest.approx(slow_kappa(first, second), abs=1e-9)
    assert result.kappa_unweighted.value == pytest.approx(
        slow_kappa(first, second, unequal), abs=1e-9
    )
    for estimate in (result.pearson, result.kappa_unweighted, result.kappa_linear):
        assert -1 - 1e-9 <= estimate.low <= estimate.high <= 1 + 1e-9
    assert 0 <= result.undefined_resamples < RESAMPLES


def test_intervals_are_percentiles_of_a_paired_bootstrap():
    first, second = correlated(40)
    source = random.Random(1)
    pearsons, kappas, unweighted = [], [], []
    for _ in range(800):
        drawn = [source.randrange(len(first)) for _ in first]
        sample = [first[index] for index in drawn], [second[index] for index in drawn]
        pearsons.append(slow_pearson(*sample))
        kappas.append(slow_kappa(*sample))
        unweighted.append(slow_kappa(*sample, unequal))
    result = agreement(first, second, LEVELS)
    assert result.undefined_resamples == 0
    estimates = (result.pearson, result.kappa_linear, result.kappa_unweighted)
    for estimate, resampled in zip(estimates, (pearsons, kappas, unweighted), strict=True):
        assert (estimate.low, estimate.high) == pytest.approx(
            np.percentile(resampled, (2.5, 97.5)), abs=0.03
        )
        assert estimate.low < estimate.value < estimate.high


def test_undefined_resamples_are_counted_and_excluded():
    # A resample is undefined if it misses the only question with rating 1: (29 / 30) ** 30 of them.
    first = [0.0] * 29 + [1.0]
    result = agreement(first, first, LEVELS)
    assert result.undefined_resamples / RESAMPLES == pytest.approx((29 / 30) ** 30, abs=0.04)
    for estimate in (result.pearson, result.kappa_unweighted, result.kappa_linear):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 1, 1))


def test_below_ten_questions_there_is_no_coefficient():
    first, second = correlated(MIN_ITEMS)
    assert agreement(first, second, LEVELS).pearson is not None
    assert agreement(first[1:], second[1:], LEVELS) == Agreement(MIN_ITEMS - 1, None, None, None)
    units = list(zip(first, second, strict=True))
    assert krippendorff_alpha(units, LEVELS, is_ordered=True) is not None
    assert krippendorff_alpha([*units[1:], (0.0,), ()], LEVELS, is_ordered=True) is None


def test_the_interval_does_not_depend_on_order():
    """All pages must show the same interval, in any order of questions and raters."""
    first, second = correlated(40)
    expected = agreement(first, second, LEVELS)
    assert agreement(second, first, LEVELS) == expected
    assert agreement(first[::-1], second[::-1], LEVELS) == expected
    means = [0.5 * (a + b) for a, b in zip(first, second, strict=True)]
    assert agreement(first, means, None) == agreement(means[::-1], first[::-1], None)
    units = [
        [a, b, b][: 2 + number % 2] for number, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    shuffled = [unit[::-1] for unit in reversed(units)]
    assert krippendorff_alpha(units, LEVELS, is_ordered=True) == krippendorff_alpha(
        shuffled, LEVELS, is_ordered=True
    )


def test_wrong_ratings():
    with pytest.raises(ValueError, match="got 1 and 2"):
        agreement([0.0], [0.0, 1.0], LEVELS)
    with pytest.raises(ValueError, match=r"among \(0.0, 0.5, 1.0\), got \[0.7\]"):
        agreement([0.0, 0.7], [0.0, 1.0], LEVELS)
    with pytest.raises(ValueError, match="among"):
        krippendorff_alpha([[0.3, 0.0]], LEVELS, is_ordered=True)


def test_gaps_of_raters():
    ratings = {
        "a": {"q2": 1.0, "q1": 0.0, "q3": None, "q4": 0.5},
        "b": {"q1": 0.5, "q2": 0.0, "q3": 1.0},
        "c": {"q1": 1.0, "q2": 0.0, "q4": 1.0, "q5": 1.0},
    }
    assert gaps(ratings) == {"a": (1, 1), "b": (2, 0), "c": (1, 0)}
    assert by_question(ratings) == {
        "q2": [1.0, 0.0, 0.0], "q1": [0.0, 0.5, 1.0], "q3": [1.0], "q4": [0.5, 1.0], "q5": [1.0]
    }  # fmt: skip


def test_means_of_several_raters_have_only_pearson():
    first, second = [0.0, 0.833, 1.0, 0.5] * 3, [0.0, 0.5, 1.0, 1.0] * 3
    result = agreement(first, second, None)
    assert result.pearson.value == pytest.approx(slow_pearson(first, second))
    assert result.kappa_unweighted is result.kappa_linear is None


def test_several_raters_are_combined_into_one():
    ratings = {
        "a": {"q1": 1.0, "q2": 0.0, "q3": None, "q4": 1.0},
        "b": {"q1": 1.0, "q2": 0.5, "q3": 1.0},
        "c": {"q3": 1.0, "q2": 0.5, "q1": 0.5},
    }
    assert pooled(ratings) == {
        "q1": pytest.approx(5 / 6),
        "q2": pytest.approx(1 / 3),
        "q3": 1.0,
        "q4": None,
    }


# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: four observers,
# twelve units.
OBSERVERS = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)


@pytest.mark.parametrize(("is_ordered", "value"), [(False, 0.743), (True, 0.849)])
def test_krippendorffs_published_example(is_ordered, value):
    units = [
        [int(cell) for cell in column if cell != "."]
        for column in zip(*map(str.split, OBSERVERS), strict=True)
    ]
    result = krippendorff_alpha(units, (1, 2, 3, 4, 5), is_ordered=is_ordered)
    assert result.value == pytest.approx(value, abs=5e-4)
    assert result.low < result.value <= result.high <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(rating, max_size=4), max_size=25), st.booleans())
def test_alpha_matches_a_slow_definition(units, is_ordered):
    result = krippendorff_alpha(units, LEVELS, is_ordered=is_ordered)
    several = [unit for unit in units if len(unit) > 1]
    if len(several) < MIN_ITEMS or len({rating for unit in several for rating in unit}) < 2:
        assert result is None
    else:
        disagreement = (lambda a, b: (a - b) ** 2) if is_ordered else unequal
        assert result.value == pytest.approx(slow_alpha(units, disagreement), abs=1e-9)
        assert result.low <= result.high <= 1 + 1e-9


def test_the_interval_of_alpha_is_a_bootstrap_over_items():
    source = random.Random(1)
    units = [
        unit[: 2 + source.randrange(2)]
        for unit in zip(*correlated(40), correlated(40, 2)[1], strict=True)
    ]
    values = [slow_alpha(source.choices(units, k=len(units)), unequal) for _ in range(250)]
    result = krippendorff_alpha(units, LEVELS, is_ordered=False)
    assert (result.low, result.high) == pytest.approx(np.percentile(values, (2.5, 97.5)), abs=0.05)


def test_nominal_levels_may_be_anything():
    units = [["yes", "yes"], ["no", "no"], ["yes", "no"], ["no", "no", "no"]] * 4
    numbers = [[float(level == "yes") for level in unit] for unit in units]
    result = krippendorff_alpha(units, ("yes", "no"), is_ordered=False)
    assert result.value == pytest.approx(slow_alpha(numbers, unequal))
