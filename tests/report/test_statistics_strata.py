"""Intervals of means over strata against a slow version of their definition."""

import random
from statistics import fmean

import numpy as np
import pytest

from lmms_egoplan.report import statistics
from lmms_egoplan.report.statistics import bootstrap_interval, stratified_interval


def strata():
    """Of several sizes; the largest has the highest level, so that it matters what weighs."""
    source = random.Random(0)
    return [[source.gauss(level, 1) for _ in range(size)] for level, size in ((0, 5), (2, 11), (9, 60))]


def test_interval_is_that_of_a_slow_bootstrap_within_strata():
    source = random.Random(1)
    means = [fmean(fmean(source.choices(each, k=len(each))) for each in strata()) for _ in range(4000)]
    low, high = np.percentile(means, (2.5, 97.5))
    found = stratified_interval(strata())
    assert found == pytest.approx((low, high), abs=0.1 * (high - low))
    together = [value for each in strata() for value in each]
    pooled = bootstrap_interval(together, [str(place) for place in range(len(together))])
    assert found[1] < pooled[0]


def test_the_same_seed_gives_the_same_interval(monkeypatch):
    interval = stratified_interval(strata())
    assert stratified_interval(strata()) == interval
    monkeypatch.setattr(statistics, "_SEED", 1)
    assert stratified_interval(strata()) != interval


def test_a_single_stratum_has_the_interval_of_its_mean():
    (_, values, _) = strata()
    low, high = bootstrap_interval(values, [*"abcdefghijk"])
    assert stratified_interval([values]) == pytest.approx((low, high), abs=0.1 * (high - low))


def test_strata_without_spread_have_an_interval_without_width():
    assert stratified_interval([[0.2] * 3, [0.8] * 40]) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(
    "few", [[], [[]], [[1.0]], [[1.0, 0.0], [1.0]], [[1.0, 0.0], []], [[1.0, 0.0, 0.0], [1.0] * 6]]
)
def test_a_stratum_of_fewer_than_two_values_or_few_in_all_give_no_interval(few):
    assert stratified_interval(few) is None
