"""Reasoning is removed from answers as in lmms-eval."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lmms_eval.api.reasoning import parse_reasoning_tags_config, strip_reasoning_tags

from lmms_egoplan.harnesses.lm_eval.task import without_reasoning
from lmms_egoplan.harnesses.lmms_eval.filters import _REASONING_TAGS

TAGS = parse_reasoning_tags_config(cli_value=_REASONING_TAGS)
PIECES = [
    "<think>",
    "</think>",
    "<analysis>",
    "</analysis>",
    "B",
    " ",
    "\n",
    "[[1]]",
    "<",
    "think>",
]


def test_the_tags_are_those_of_lmms_eval():
    assert json.loads(_REASONING_TAGS) == TAGS


@given(st.lists(st.sampled_from(PIECES), max_size=10).map("".join) | st.text())
@example("</think><think>x")
@example("</think>a<think>b</think>c")
def test_answers_equal_those_of_lmms_eval(text):
    assert without_reasoning(text) == strip_reasoning_tags(text, TAGS)


@pytest.mark.parametrize(
    "text", ["", "</think>" * 50_000, "<think></think>" * 5_000, "<think>" * 50_000]
)
def test_long_answers_are_processed_quickly(text):
    without_reasoning(text)
