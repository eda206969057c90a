"""Coefficients against slow versions of their definitions, intervals against a plain bootstrap."""

import itertools
import random
import warnings
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.judging.agreement import (
    RESAMPLES,
    Agreement,
    agreement,
    fleiss_kappa,
    gaps,
    pairwise,
    pooled,
    rated_by_all,
)

LEVELS = (0.0, 0.5, 1.0)
rating = st.sampled_from(LEVELS)


def slow_pearson(first, second):
    mean_first, mean_second = fmean(first), fmean(second)
    covariance = sum((a - mean_first) * (b - mean_second) for a, b in zip(first, second, strict=True))
    spreads = [sum((a - mean) ** 2 for a in rated) for rated, mean in ((first, mean_first), (second, mean_second))]
    return covariance / (spreads[0] * spreads[1]) ** 0.5


def distance(a, b):
    return abs(a - b)


def unequal(a, b):
    return float(a != b)


def slow_kappa(first, second, disagreement=distance):
    """One minus observed over expected disagreement; the linear weight of two ratings is their distance."""
    observed = fmean(disagreement(a, b) for a, b in zip(first, second, strict=True))
    expected = fmean(disagreement(a, b) for a, b in itertools.product(first, second))
    return 1 - observed / expected


def slow_fleiss(columns):
    """Observed agreement of two raters of a question, drawn at random, against that of two ratings drawn from all."""
    observed = fmean(a == b for question in zip(*columns, strict=True) for a, b in itertools.permutations(question, 2))
    ratings = [rating for column in columns for rating in column]
    expected = fmean(a == b for a, b in itertools.product(ratings, repeat=2))
    return (observed - expected) / (1 - expected)


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
        assert found == Agreement(len(pairs), None, None, None)
        return
    assert found.pearson.value == pytest.approx(slow_pearson(first, second), abs=1e-9)
    assert found.kappa_linear.value == pytest.approx(slow_kappa(first, second), abs=1e-9)
    assert found.kappa_unweighted.value == pytest.approx(slow_kappa(first, second, unequal), abs=1e-9)
    for estimate in (found.pearson, found.kappa_unweighted, found.kappa_linear):
        assert -1 - 1e-9 <= estimate.low <= estimate.high <= 1 + 1e-9
    assert 0 <= found.undefined_resamples < RESAMPLES


def test_intervals_are_percentiles_of_a_paired_bootstrap():
    first, second = correlated(40)
    source = random.Random(1)
    pearsons, kappas, unweighted = [], [], []
    for _ in range(1500):
        drawn = [source.randrange(len(first)) for _ in first]
        sample = [first[index] for index in drawn], [second[index] for index in drawn]
        pearsons.append(slow_pearson(*sample))
        kappas.append(slow_kappa(*sample))
        unweighted.append(slow_kappa(*sample, unequal))
    found = agreement(first, second, LEVELS)
    assert found.undefined_resamples == 0
    estimates = (found.pearson, found.kappa_linear, found.kappa_unweighted)
    for estimate, resampled in zip(estimates, (pearsons, kappas, unweighted), strict=True):
        assert (estimate.low, estimate.high) == pytest.approx(np.percentile(resampled, (2.5, 97.5)), abs=0.03)
        assert estimate.low < estimate.value < estimate.high


def test_undefined_resamples_are_counted_and_left_out():
    # A resample is undefined where it misses the one question that is rated 1: (29 / 30) ** 30 of them.
    first = [0.0] * 29 + [1.0]
    found = agreement(first, first, LEVELS)
    assert found.undefined_resamples / RESAMPLES == pytest.approx((29 / 30) ** 30, abs=0.04)
    for estimate in (found.pearson, found.kappa_unweighted, found.kappa_linear):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 1, 1))


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(2, 5))
def test_other_scales(data, count):
    levels = tuple(map(float, range(count)))
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(levels), st.sampled_from(levels)), min_size=5, max_size=15))
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    found = agreement(first, second, levels)
    if found.kappa_linear is not None:
        assert found.kappa_linear.value == pytest.approx(slow_kappa(first, second), abs=1e-9)
        assert found.kappa_linear.low - 1e-9 <= found.kappa_linear.high


def test_resampled_kappa_is_the_same_statistic():
    """The interval's ends are kappas of resamples; with three questions there are few."""
    first, second = [0.0, 0.5, 1.0], [0.0, 1.0, 1.0]
    possible = set()
    for drawn in itertools.product(range(3), repeat=3):
        sample = [first[index] for index in drawn], [second[index] for index in drawn]
        if len(set(sample[0])) > 1 and len(set(sample[1])) > 1:
            possible.add(round(slow_kappa(*sample), 9))
    found = agreement(first, second, LEVELS)
    assert {round(found.kappa_linear.low, 9), round(found.kappa_linear.high, 9)} <= possible


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
    assert found["a", "c"].kappa_linear.value == 1


def test_means_of_several_raters_have_pearson_alone():
    first, second = [0.0, 0.833, 1.0, 0.5], [0.0, 0.5, 1.0, 1.0]
    found = agreement(first, second, None)
    assert found.pearson.value == pytest.approx(slow_pearson(first, second))
    assert found.kappa_unweighted is found.kappa_linear is None
    ratings = {name: dict(enumerate(rated)) for name, rated in (("people", first), ("a", second), ("b", second))}
    pairs = {pair[:2]: pair[2] for pair in pairwise(ratings, range(4), LEVELS, means={"people"})}
    assert pairs["people", "a"] == found
    assert pairs["a", "b"].kappa_unweighted.value == 1


def test_several_raters_as_one():
    ratings = {
        "a": {"q1": 1.0, "q2": 0.0, "q3": None, "q4": 1.0},
        "b": {"q1": 1.0, "q2": 0.5, "q3": 1.0},
        "c": {"q3": 1.0, "q2": 0.5, "q1": 0.5},
    }
    assert pooled(ratings) == {"q1": pytest.approx(5 / 6), "q2": pytest.approx(1 / 3), "q3": None}


# How many of 14 raters put each of ten subjects into each of five categories, and the kappa that Fleiss (1971) gives.
FLEISS_1971 = (
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
)  # fmt: skip


def test_fleiss_kappa_of_a_known_example():
    subjects = [[category for category in range(5) for _ in range(row[category])] for row in FLEISS_1971]
    found = fleiss_kappa(list(zip(*subjects, strict=True)), range(5))
    assert found.value == pytest.approx(0.210, abs=0.0005)
    assert found.low < found.value < found.high


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 5).flatmap(lambda count: st.lists(st.tuples(*[rating] * count), max_size=12)))
def test_fleiss_kappa_is_that_of_the_definition(rows):
    columns = [[row[place] for row in rows] for place in range(len(rows[0]) if rows else 3)]
    found = fleiss_kappa(columns, LEVELS)
    if len(rows) < 2 or len({value for row in rows for value in row}) < 2:
        assert found is None
    else:
        assert found.value == pytest.approx(slow_fleiss(columns), abs=1e-9)
        assert -1 - 1e-9 <= found.low <= found.high <= 1 + 1e-9


def test_wrong_ratings_of_three():
    for columns in ([[1.0], [0.0]], [[1.0], [0.0], []]):
        with pytest.raises(ValueError, match="three or more raters"):
            fleiss_kappa(columns, LEVELS)
    with pytest.raises(ValueError, match="among"):
        fleiss_kappa([[0.3], [0.0], [0.0]], LEVELS)
