"""The ranking of a question's choices against a slow, obvious one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egoplan.metrics import rank
from lmms_egoplan.ranking.loglikelihood import Loglikelihood

CHOICES = ["put", "take cereal bag", "éplucher l'oignon", "open cupboard"]


def slow_ranking(losses, tokens):
    """Best choice by mean, sum and bytes; the first of equals."""
    best = [0, 0, 0]
    for index, (loss, number, text) in enumerate(zip(losses, tokens, CHOICES, strict=True)):
        for position, better in enumerate(
            [
                loss < losses[best[0]],
                -loss * number > -losses[best[1]] * tokens[best[1]],
                -loss * number / len(text.encode("utf-8"))
                > -losses[best[2]] * tokens[best[2]] / len(CHOICES[best[2]].encode("utf-8")),
            ]
        ):
            if better:
                best[position] = index
    return tuple(best)


FOUR_LOSSES = st.lists(st.floats(0, 50) | st.sampled_from([0.5, 1.0]), min_size=4, max_size=4)
FOUR_COUNTS = st.lists(st.integers(1, 30), min_size=4, max_size=4)


@given(FOUR_LOSSES, FOUR_COUNTS)
def test_rank_equals_slow_ranking(losses, tokens):
    ranking = rank([Loglikelihood(*pair) for pair in zip(losses, tokens, strict=True)], CHOICES)
    assert (ranking.by_mean, ranking.by_sum, ranking.by_bytes) == slow_ranking(losses, tokens)
    assert ranking.tied == (sorted(losses)[0] == sorted(losses)[1])


def test_wrong_number_of_responses():
    with pytest.raises(ValueError, match="each of 4 choices, got 3"):
        rank([Loglikelihood(1.0)] * 3, CHOICES)
