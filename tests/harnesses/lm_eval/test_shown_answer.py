"""Answers keep the form of the visual input, and whether they are truncated."""

import pickle
from types import SimpleNamespace

import pytest

from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, VIDEO, ShownAnswer, clean_answer
from lmms_egoplan.harnesses.lm_eval.task import Answered


@pytest.mark.parametrize("text", ["", " ", "<think>only this</think>", "Pour the milk."])
@pytest.mark.parametrize("media", [IMAGES, VIDEO])
@pytest.mark.parametrize("truncated", [True, False, None])
def test_an_empty_answer_keeps_what_it_records(text, media, truncated):
    stored = pickle.loads(pickle.dumps(clean_answer(ShownAnswer(text, media, truncated=truncated))))
    answered = Answered.from_instance(SimpleNamespace(doc={}, resps=[stored]))
    assert (answered.media, answered.truncated) == (media, truncated)


def test_a_reply_without_text_is_an_empty_answer_to_images():
    assert Answered.from_instance(SimpleNamespace(doc={}, resps=[None])) == Answered(
        {}, "", IMAGES, None
    )
