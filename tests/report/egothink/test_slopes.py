"""Compare slopes with the least-squares problem that they solve."""

from statistics import fmean

import numpy as np
import pytest

from lmms_egoplan.report.egothink.slopes import slope_rows


def slow_slope(values, scores, groups):
    """Solve the least-squares problem with a dummy variable for each group."""
    columns = [[float(group == name) for group in groups] for name in dict.fromkeys(groups)]
    return np.linalg.lstsq(
        np.array([values, *columns], dtype=float).T, np.array(scores, dtype=float)
    )[0][0]


def test_slope_equals_least_squares_with_a_mean_for_each_group():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 30, 100).astype(str)
    values = rng.integers(0, 2, 100)
    for scores in rng.choice([0.0, 50.0, 100.0], (3, 100)):
        above, below, _ = slope_rows(values, scores, groups).sum(axis=0)
        assert above / below == pytest.approx(slow_slope(values, scores, groups.tolist()))


def test_slope_on_a_kind_is_the_mean_difference_within_groups():
    rng = np.random.default_rng(2)
    groups, is_kind = (
        np.repeat(np.arange(40), 5).astype(str),
        np.tile([True, True, False, False, False], 40),
    )
    scores = rng.normal(0, 10, 200)
    above, below, used = slope_rows(is_kind, scores, groups).sum(axis=0)
    differences = [fmean(row[:2]) - fmean(row[2:]) for row in scores.reshape(40, 5).tolist()]
    assert above / below == pytest.approx(fmean(differences))
    assert used == 200
    alone = slope_rows(np.ones(200), scores, groups)
    assert not alone[:, 1:].any()
