"""A candidate's score survives being turned into text, and nothing else is taken for one."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lmms_eval.api.instance import unwrap_generation_output

from lmms_egoplan.loglikelihood import Loglikelihood, LoglikelihoodText, parse_loglikelihood

SCORES = st.builds(
    Loglikelihood,
    loss=st.floats(allow_nan=False),
    num_tokens=st.none() | st.integers(1, 10_000),
    is_greedy=st.none() | st.booleans(),
)


@given(SCORES)
def test_text_gives_the_score_back(score):
    assert parse_loglikelihood(str(LoglikelihoodText.encode(score))) == score


@given(SCORES)
def test_text_unpacks_like_a_pair(score):
    loss, is_greedy = LoglikelihoodText.encode(score)
    assert (loss, is_greedy) == (score.loss, score.is_greedy)


def test_text_passes_the_evaluator_unchanged():
    text = LoglikelihoodText.encode(Loglikelihood(0.25, 4, True))
    assert unwrap_generation_output(text) == (text, None)
    assert isinstance(text.strip(), LoglikelihoodText)


@given(st.floats(), st.booleans())
def test_stock_pair_as_the_evaluator_hands_it_on(loss, is_greedy):
    text, _ = unwrap_generation_output((loss, is_greedy))
    cached, _ = unwrap_generation_output([loss, is_greedy])  # the response cache knows no tuples
    for response in (text, cached, (loss, is_greedy), [loss, is_greedy]):
        score = parse_loglikelihood(response)
        assert score.loss == loss or (math.isnan(score.loss) and math.isnan(loss))
        assert (score.num_tokens, score.is_greedy) == (None, is_greedy)


def test_logprob_is_the_sum():
    assert Loglikelihood(0.5, 3).logprob == -1.5
    assert Loglikelihood(0.5).logprob is None


@pytest.mark.parametrize(
    "response",
    [
        None,
        "",
        "None",
        "B",
        "(tensor(0.5), False)",
        "(x, True)",
        '{"loss": null}',
        '{"loss": true}',
        '{"loss": 1, "num_tokens": 0}',
        '{"loss": 1, "num_tokens": 2.5}',
        '{"loss": 1, "is_greedy": 1}',
        '{"loss": 1' + "0" * 400 + "}",
        "[" * 100_000,
        "1" * 5_000,
        (1.0, True, 2.0),
        b"ab",
    ],
)
def test_anything_else_is_refused(response):
    with pytest.raises(ValueError, match=r"must be \(loss, is_greedy\)") as error:
        parse_loglikelihood(response)
    assert len(str(error.value)) < 500


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_never_another_error(response):
    with suppress(ValueError):
        assert isinstance(parse_loglikelihood(response), Loglikelihood)
