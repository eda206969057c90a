"""Answers keep the form of the visual input."""

import pickle
from types import SimpleNamespace

import pytest

from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, VIDEO, ShownAnswer, clean_answer
from lmms_egoplan.harnesses.lm_eval.task import Answered


@pytest.mark.parametrize("text", ["", " ", "<think>only this</think>", "Pour the milk."])
@pytest.mark.parametrize("media", [IMAGES, VIDEO])
def test_an_empty_answer_keeps_its_media(text, media):
    stored = pickle.loads(pickle.dumps(clean_answer(ShownAnswer(text, media))))
    assert Answered.of(SimpleNamespace(doc={}, resps=[stored])).media == media


def test_a_reply_without_text_is_an_empty_answer_to_images():
    assert Answered.of(SimpleNamespace(doc={}, resps=[None])) == Answered({}, "", IMAGES)
