"""Compare the combination of ratings with a slow version."""

import random
from statistics import fmean, median

import numpy as np
import pytest

from lmms_egoplan.judging.panel import combine


def test_combined_ratings_equal_a_slow_version():
    chance = random.Random(1)
    for judges in (2, 3, 4, 5):
        ratings = [[chance.choice((0, 50, 100)) for _ in range(judges)] for _ in range(200)]
        combined = {
            name: values.tolist()
            for name, values in combine(np.array(ratings, dtype=float)).items()
        }
        for number, row in enumerate(ratings):
            majority = [rating for rating in {*row} if row.count(rating) > judges / 2]
            assert combined["mean"][number] == pytest.approx(fmean(row))
            assert combined["median"][number] == median(row)
            assert combined["spread"][number] == max(row) - min(row)
            assert [
                rating for rating in [combined["majority"][number]] if rating == rating
            ] == majority
