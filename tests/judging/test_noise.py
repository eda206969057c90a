"""Judge noise against the definitions, computed slowly."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.judging.agreement import noise, noise_of_average

rating = st.sampled_from([0.0, 0.5, 1.0, None])


def mean(values):
    return sum(values) / len(values)


def sd(values):
    return sqrt(sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1))


@given(st.integers(2, 5).flatmap(lambda n: st.lists(st.lists(rating, min_size=n, max_size=n), max_size=12)))
def test_is_that_of_the_definitions(ratings):
    found = noise(ratings)
    rated = [repeats for repeats in ratings if None not in repeats]
    assert (found.answers, found.left_out) == (len(rated), len(ratings) - len(rated))
    if not rated:
        assert found.scores == ()
        assert {found.score, found.score_sd, found.changed, found.rating_sd} == {None}
        return
    scores = [mean(repeat) for repeat in zip(*rated, strict=True)]
    assert found.scores == pytest.approx(scores)
    assert found.score == pytest.approx(mean(scores))
    assert found.score_sd == pytest.approx(sd(scores), abs=1e-9)
    assert found.changed == pytest.approx(mean([max(repeats) != min(repeats) for repeats in rated]))
    assert found.rating_sd == pytest.approx(mean([sd(repeats) for repeats in rated]), abs=1e-9)


def test_the_average_is_over_the_parts_and_the_rest_over_the_answers():
    parts = [noise([[100.0, 0.0]]), noise([[50.0, 50.0], [50.0, 50.0], [0.0, 100.0], [None, 1.0]])]
    found = noise_of_average(parts)
    assert found.scores == pytest.approx(((100 + 100 / 3) / 2, (0 + 200 / 3) / 2))
    assert (found.answers, found.left_out, found.changed) == (4, 1, 0.5)
    assert noise_of_average([*parts, noise([[None, 0.0]])]).scores == ()


def test_other_shapes():
    for ratings in ([[1.0]], [[1.0, 0.0], [1.0, 0.0, 1.0]]):
        with pytest.raises(ValueError, match="as many ratings"):
            noise(ratings)
