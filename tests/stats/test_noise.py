"""Compare judge noise with slow versions of the definitions."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.stats.agreement import noise, noise_of_average

rating = st.sampled_from([0.0, 0.5, 1.0, None])


def mean(values):
    return sum(values) / len(values)


def sd(values):
    return sqrt(sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1))


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(rating, min_size=n, max_size=n), max_size=12)
    )
)
def test_noise_matches_slow_definitions(ratings):
    result = noise(ratings)
    rated = [repeats for repeats in ratings if None not in repeats]
    assert (result.answers, result.left_out) == (len(rated), len(ratings) - len(rated))
    if not rated:
        assert result.scores == ()
        assert {result.score, result.score_sd, result.changed, result.rating_sd} == {None}
        return
    scores = [mean(repeat) for repeat in zip(*rated, strict=True)]
    assert result.scores == pytest.approx(scores)
    assert result.score == pytest.approx(mean(scores))
    assert result.score_sd == pytest.approx(sd(scores), abs=1e-9)
    assert result.changed == pytest.approx(
        mean([max(repeats) != min(repeats) for repeats in rated])
    )
    assert result.rating_sd == pytest.approx(mean([sd(repeats) for repeats in rated]), abs=1e-9)


def test_scores_average_parts_and_other_values_average_answers():
    parts = [noise([[100.0, 0.0]]), noise([[50.0, 50.0], [50.0, 50.0], [0.0, 100.0], [None, 1.0]])]
    result = noise_of_average(parts)
    assert result.scores == pytest.approx(((100 + 100 / 3) / 2, (0 + 200 / 3) / 2))
    assert (result.answers, result.left_out, result.changed) == (4, 1, 0.5)
    assert noise_of_average([*parts, noise([[None, 0.0]])]).scores == ()


def test_invalid_shapes_are_rejected():
    for ratings in ([[1.0]], [[1.0, 0.0], [1.0, 0.0, 1.0]]):
        with pytest.raises(ValueError, match="same number of ratings"):
            noise(ratings)
