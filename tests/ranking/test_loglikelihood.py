"""A candidate's score survives conversion to text, and no other text is parsed as a score."""

import copy
import json
import math
import pickle
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lmms_eval.api.instance import unwrap_generation_output

from lmms_egoplan.ranking.loglikelihood import (
    Loglikelihood,
    LoglikelihoodPair,
    LoglikelihoodText,
    parse_loglikelihood,
)

MEANS = st.builds(
    Loglikelihood,
    loss=st.floats(allow_nan=False),
    num_tokens=st.none() | st.integers(1, 10_000),
    is_greedy=st.none() | st.booleans(),
)
SUMS = st.builds(
    Loglikelihood,
    loss=st.none(),
    is_greedy=st.none() | st.booleans(),
    logprob=st.floats(allow_nan=False),
)
SCORES = MEANS | SUMS


@given(SCORES)
def test_text_gives_the_score_back(score):
    assert parse_loglikelihood(str(LoglikelihoodText.from_score(score))) == score


@given(SCORES)
def test_text_unpacks_like_a_pair(score):
    loss, is_greedy = LoglikelihoodText.from_score(score)
    assert (loss, is_greedy) == (score.loss, score.is_greedy)


def test_text_passes_the_evaluator_unchanged():
    text = LoglikelihoodText.from_score(Loglikelihood(0.25, 4, True))
    assert unwrap_generation_output(text) == (text, None)
    assert isinstance(text.strip(), LoglikelihoodText)


@given(st.floats(), st.booleans())
def test_stock_pairs_as_the_evaluator_passes_them_on(loss, is_greedy):
    text, _ = unwrap_generation_output((loss, is_greedy))
    # the response cache stores tuples as lists
    cached, _ = unwrap_generation_output([loss, is_greedy])
    for response in (text, cached, (loss, is_greedy), [loss, is_greedy]):
        score = parse_loglikelihood(response)
        assert score.loss == loss or (math.isnan(score.loss) and math.isnan(loss))
        assert (score.num_tokens, score.is_greedy) == (None, is_greedy)


def test_logprob_is_the_sum():
    assert Loglikelihood(0.5, 3).logprob == -1.5
    assert Loglikelihood(0.5).logprob is None
    assert Loglikelihood(None, None, True, -1.5).logprob == -1.5


def test_a_sum_with_a_token_count_gives_a_mean():
    assert Loglikelihood(None, 3, False, -1.5) == Loglikelihood(0.5, 3, False)
    assert Loglikelihood(None, 3, None, -1.5).logprob == -1.5


def test_a_sum_without_a_token_count_has_no_mean():
    score = Loglikelihood(None, None, True, -1.5)
    assert (score.loss, score.num_tokens, score.is_greedy, score.logprob) == (
        None,
        None,
        True,
        -1.5,
    )


@given(st.floats(-1e6, 0), st.booleans(), st.none() | st.integers(1, 10_000))
def test_a_sum_can_be_encoded_as_text(logprob, is_greedy, num_tokens):
    score = parse_loglikelihood(
        LoglikelihoodText.from_score(Loglikelihood(None, num_tokens, is_greedy, logprob))
    )
    assert score.logprob == pytest.approx(logprob)
    assert (score.num_tokens, score.is_greedy) == (num_tokens, is_greedy)
    assert (score.loss is None) == (num_tokens is None)


def test_a_sum_that_is_nan_can_be_encoded_as_text():
    score = parse_loglikelihood(
        LoglikelihoodText.from_score(Loglikelihood(None, None, False, math.nan))
    )
    assert math.isnan(score.logprob)
    assert score.loss is None


def test_a_pair_is_lm_evals_pair_with_a_count():
    pair = LoglikelihoodPair(-1.5, True, 3)
    logprob, is_greedy = pair
    assert (logprob, is_greedy) == pair == (-1.5, True)
    assert json.dumps(pair) == "[-1.5, true]"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_of_a_pair_keep_its_count(copied):
    """lm-eval's response cache pickles it."""
    pair = copied(LoglikelihoodPair(-1.5, True, 3))
    assert type(pair) is LoglikelihoodPair
    assert (*pair, pair.num_tokens) == (-1.5, True, 3)


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
        '{"loss": null, "logprob": null, "num_tokens": null, "is_greedy": null}',
        '{"loss": null, "logprob": true, "num_tokens": null, "is_greedy": null}',
        '{"loss": null, "logprob": -1, "num_tokens": 2, "is_greedy": null}',
        '{"loss": null, "logprob": -1, "num_tokens": null, "is_greedy": 0}',
        '{"loss": null, "logprob": -1}',
        '{"loss": null, "logprob": -1' + "0" * 400 + ', "num_tokens": null, "is_greedy": null}',
        "[" * 100_000,
        "1" * 5_000,
        (1.0, True, 2.0),
        b"ab",
    ],
)
def test_other_values_are_rejected(response):
    with pytest.raises(ValueError, match=r"\(loss, is_greedy\)") as error:
        parse_loglikelihood(response)
    assert len(str(error.value)) < 500


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_arbitrary_text_raises_only_value_errors(response):
    with suppress(ValueError):
        assert isinstance(parse_loglikelihood(response), Loglikelihood)
