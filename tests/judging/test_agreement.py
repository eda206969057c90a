"""Coefficients against slow versions of their definitions, intervals against a plain bootstrap."""

import itertools
import random
import warnings
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.judging.agreement import RESAMPLES, Agreement, agreement, gaps, pairwise, rated_by_all

LEVELS = (0.0, 0.5, 1.0)
rating = st.sampled_from(LEVELS)


def slow_pearson(first, second):
    mean_first, mean_second = fmean(first), fmean(second)
    covariance = sum((a - mean_first) * (b - mean_second) for a, b in zip(first, second, strict=True))
    spreads = [sum((a - mean) ** 2 for a in rated) for rated, mean in ((first, mean_first), (second, mean_second))]
    return covariance / (spreads[0] * spreads[1]) ** 0.5


def slow_kappa(first, second):
    """One minus observed over expected disagreement; the disagreement of two ratings is their distance."""
    observed = fmean(abs(a - b) for a, b in zip(first, second, strict=True))
    expected = fmean(abs(a - b) for a, b in itertools.product(first, second))
    return 1 - observed / expected


def correlated(count, seed=0, levels=LEVELS):
    source = random.Random(seed)
    first = [source.choice(levels) for _ in range(count)]
    return first, [rated if source.random() < 0.7 else source.choice(levels) for rated in first]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(rating, rating), max_size=25))
def test_coefficients_are_those_of_the_definitions(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = agreement(first, second, LEVELS)
    assert found.questions == len(pairs)
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert found == Agreement(len(pairs), None, None)
        return
    assert found.pearson.value == pytest.approx(slow_pearson(first, second), abs=1e-9)
    assert found.kappa.value == pytest.approx(slow_kappa(first, second), abs=1e-9)
    for estimate in (found.pearson, found.kappa):
        assert -1 - 1e-9 <= estimate.low <= estimate.high <= 1 + 1e-9
    assert 0 <= found.undefined_resamples < RESAMPLES


def test_intervals_are_percentiles_of_a_paired_bootstrap():
    first, second = correlated(80)
    source = random.Random(1)
    pearsons, kappas = [], []
    for _ in range(1500):
        drawn = [source.randrange(len(first)) for _ in first]
        sample = [first[index] for index in drawn], [second[index] for index in drawn]
        pearsons.append(slow_pearson(*sample))
        kappas.append(slow_kappa(*sample))
    found = agreement(first, second, LEVELS)
    assert found.undefined_resamples == 0
    for estimate, resampled in ((found.pearson, pearsons), (found.kappa, kappas)):
        assert (estimate.low, estimate.high) == pytest.approx(np.percentile(resampled, (2.5, 97.5)), abs=0.03)
        assert estimate.low < estimate.value < estimate.high


def test_undefined_resamples_are_counted_and_left_out():
    # A resample is undefined where it misses the one question that is rated 1: (29 / 30) ** 30 of them.
    first = [0.0] * 29 + [1.0]
    found = agreement(first, first, LEVELS)
    assert found.undefined_resamples / RESAMPLES == pytest.approx((29 / 30) ** 30, abs=0.04)
    for estimate in (found.pearson, found.kappa):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 1, 1))


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(2, 5))
def test_other_scales(data, count):
    levels = tuple(map(float, range(count)))
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(levels), st.sampled_from(levels)), min_size=5, max_size=15))
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found = agreement(first, second, levels)
    if found.kappa is not None:
        assert found.kappa.value == pytest.approx(slow_kappa(first, second), abs=1e-9)
        assert found.kappa.low - 1e-9 <= found.kappa.high


def test_resampled_kappa_is_the_same_statistic():
    """The interval's ends are kappas of resamples; with three questions there are few."""
    first, second = [0.0, 0.5, 1.0], [0.0, 1.0, 1.0]
    possible = set()
    for drawn in itertools.product(range(3), repeat=3):
        sample = [first[index] for index in drawn], [second[index] for index in drawn]
        if len(set(sample[0])) > 1 and len(set(sample[1])) > 1:
            possible.add(round(slow_kappa(*sample), 9))
    found = agreement(first, second, LEVELS)
    assert {round(found.kappa.low, 9), round(found.kappa.high, 9)} <= possible


def test_intervals_are_the_same_each_time():
    assert agreement(*correlated(40), LEVELS) == agreement(*correlated(40), LEVELS)


def test_wrong_ratings():
    with pytest.raises(ValueError, match="got 1 and 2"):
        agreement([0.0], [0.0, 1.0], LEVELS)
    with pytest.raises(ValueError, match=r"among \(0.0, 0.5, 1.0\), got \[0.7\]"):
        agreement([0.0, 0.7], [0.0, 1.0], LEVELS)


def test_questions_in_common():
    ratings = {
        "a": {"q2": 1.0, "q1": 0.0, "q3": None, "q4": 0.5},
        "b": {"q1": 0.5, "q2": 0.0, "q3": 1.0},
        "c": {"q1": 1.0, "q2": 0.0, "q4": 1.0, "q5": 1.0},
    }
    assert rated_by_all(ratings) == ["q2", "q1"]
    assert gaps(ratings) == {"a": (1, 1), "b": (2, 0), "c": (1, 0)}


def test_every_pair_once():
    first, second = correlated(20)
    ratings = {
        rater: {str(number): value for number, value in enumerate(rated)}
        for rater, rated in {"a": first, "b": second, "c": first}.items()
    }
    found = {(one, other): result for one, other, result in pairwise(ratings, list(map(str, range(20))), LEVELS)}
    assert found.keys() == {("a", "b"), ("a", "c"), ("b", "c")}
    assert found["a", "b"] == agreement(first, second, LEVELS)
    assert found["a", "c"].kappa.value == 1
