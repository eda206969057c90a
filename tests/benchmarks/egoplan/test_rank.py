"""Check the ranking of choices, and the values of single ranked questions."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egoplan.scored import CHOICES, encode, make_doc
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_TEST, EGOPLAN_VAL, num_predictions
from lmms_egoplan.benchmarks.egoplan.rank import rank, score_ranking
from lmms_egoplan.coverage import coverage as share_covered
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText


def slow_ranking(losses, tokens):
    """Return the best choice by mean, sum and bytes; on a tie, the first one."""
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


def test_each_score_may_prefer_another_choice():
    values = score_ranking(make_doc(), encode([2.0, 0.5, 0.6, 0.6]), EGOPLAN_VAL)
    scores = {name: value["score"] for name, value in values.items() if "score" in value}
    assert scores == {"acc": 1.0, "acc_sum": 0.0, "acc_bytes": 0.0, "acc_epic_kitchens": 1.0}
    assert values["details"]["predictions"]["prediction"] == "B"
    assert values["details"]["predictions"]["choices"][1] == {
        "loss": 0.5,
        "logprob": -1.5,
        "num_tokens": 3,
        "is_greedy": False,
    }


def test_tie_goes_to_the_first_choice():
    values = score_ranking(make_doc(), encode([2.0, 0.5, 0.5, 0.6]), EGOPLAN_VAL)
    assert values["details"]["ties"] is True
    assert values["acc"]["score"] == 1.0


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_question_with_a_loss_that_is_not_finite_is_not_scored(loss):
    values = score_ranking(make_doc(), encode([2.0, 0.5, loss, 0.6]), EGOPLAN_VAL)
    assert not [name for name in values if name.startswith("acc")]
    assert values["coverage"] == {"scored": False, "of": 3355}
    assert values["details"]["predictions"]["prediction"] is None
    assert values["details"]["predictions"]["choices"][2]["loss"] is None
    json.dumps(values, allow_nan=False)


def test_stock_backends_have_no_sums():
    values = score_ranking(
        make_doc(),
        [f"({loss}, False)" for loss in (2.0, 0.5, 0.6, 0.6)],
        EGOPLAN_VAL,
    )
    assert values["acc"]["score"] == 1.0
    assert not {"acc_sum", "acc_bytes"} & values.keys()
    assert values["details"]["predictions"]["choices"][0]["logprob"] is None


@pytest.mark.parametrize("counts", [[None] * 4, [1, None, 9, 2]])
def test_sums_without_counts_give_no_accuracy_by_the_papers_score(counts):
    """lm-eval's model classes return sums.

    Here, the sum prefers A, the sum per byte C, and the sum per letter B.
    """
    responses = [
        str(LoglikelihoodText.from_score(Loglikelihood(None, count, False, logprob)))
        for logprob, count in zip((-2.0, -3.0, -3.5, -2.9), counts, strict=True)
    ]
    for gold in "ABCD":
        values = score_ranking(make_doc(gold=gold), responses, EGOPLAN_VAL)
        scores = {name: value["score"] for name, value in values.items() if "score" in value}
        assert scores == {"acc_sum": float(gold == "A"), "acc_bytes": float(gold == "C")}
    assert values["details"]["predictions"]["prediction"] is None
    unknown = {"loss": None, "logprob": -3.0, "num_tokens": None, "is_greedy": False}
    assert values["details"]["predictions"]["choices"][1] == unknown
    assert values["details"]["ties"] is False
    assert share_covered([values["coverage"]]) == 0
    assert num_predictions([values["details"]["predictions"]]) == 0
    json.dumps(values, allow_nan=False)


@pytest.mark.parametrize("logprob", [math.nan, -math.inf])
def test_question_with_a_sum_that_is_not_finite_is_not_scored(logprob):
    sums = (-2.0, -3.0, logprob, -2.9)
    values = score_ranking(
        make_doc(),
        [LoglikelihoodText.from_score(Loglikelihood(None, None, False, total)) for total in sums],
        EGOPLAN_VAL,
    )
    assert not [name for name in values if name.startswith("acc")]
    assert values["details"]["predictions"]["choices"][2]["logprob"] is None
    json.dumps(values, allow_nan=False)


def test_test_questions_have_no_accuracy():
    values = score_ranking(make_doc(gold=None), encode([2.0, 0.5, 0.6, 0.6]), EGOPLAN_TEST)
    assert values.keys() == {"coverage", "question_set", "details"}
    assert values["details"].keys() == {"ties", "predictions", "split_size", "num_questions"}
