"""`StreamedResponses` reads like a list, and computes each response only when it is read."""

import pytest

from lmms_egoplan.harnesses.lmms_eval.ranking_backend import StreamedResponses


@pytest.fixture
def computed():
    return []


@pytest.fixture
def responses(computed):
    def compute():
        for number in range(4):
            computed.append(number)
            yield number, number
        computed.append("end")

    return StreamedResponses(compute(), 4)


def test_each_response_is_computed_when_it_is_read(responses, computed):
    assert len(responses) == 4
    assert computed == []
    read = []
    for response in responses:
        assert computed == [*read, response]
        read.append(response)
    assert read == [0, 1, 2, 3]


def test_reads_like_a_list(responses, computed):
    assert responses[1] == 1
    assert computed == [0, 1]
    assert (responses[-1], responses[0], responses[1:3], list(responses)) == (
        3,
        0,
        [1, 2],
        [0, 1, 2, 3],
    )
    assert computed == [0, 1, 2, 3]


def test_an_index_after_the_last_response_raises(responses):
    with pytest.raises(IndexError):
        responses[4]
    with pytest.raises(IndexError):
        responses[-5]


def test_the_generator_is_closed_after_the_last_response():
    finished = []

    def compute():
        try:
            yield 0, "only"
        finally:
            finished.append(True)

    assert list(StreamedResponses(compute(), 1)) == ["only"]
    assert finished


def test_an_error_reaches_the_reader():
    def compute():
        yield 0, 1
        raise ValueError("question 2")

    responses = StreamedResponses(compute(), 2)
    assert responses[0] == 1
    with pytest.raises(ValueError, match="question 2"):
        responses[1]


def test_an_index_error_of_the_model_is_raised():
    def failing():
        yield 0, "a"
        raise IndexError("index out of range in self")

    responses = iter(StreamedResponses(failing(), 3))
    assert next(responses) == "a"
    with pytest.raises(IndexError, match="out of range in self"):
        next(responses)


def test_responses_may_come_in_another_order():
    responses = StreamedResponses((pair for pair in [(1, "b"), (0, "a")]), 2)
    assert list(responses) == ["a", "b"]
