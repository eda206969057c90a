"""Test the prompts for a model."""

import pytest

from benchmarks.egoplan.bench2_questions import EXAMPLES
from lmms_egoplan.benchmarks.egoplan.prompts import (
    THINKING,
    bench2_prompt,
    lettered_question,
    narrated_question,
)
from lmms_egoplan.benchmarks.egoplan.records import read_bench2_annotations
from lmms_egoplan.benchmarks.egoplan.reply import parse_letter

DOC = {
    "question": "What next?",
    "choices": ["put box away", "take bag", "open cupboard", "close box"],
    "current_observation_frame": 30,
    "past_actions": [
        {"narration_text": text} for text in ("take bag", "fold bag", "open cupboard")
    ],
    "media_path": "/here",
}


def test_lettered_question():
    lines = lettered_question(DOC).split("\n")
    assert lines[:3] == ["What next?", "A. put box away", "B. take bag"]
    assert len(lines) == 6
    assert parse_letter(lines[1]) == "A"
    assert lettered_question(DOC, THINKING).split("\n")[:5] == lines[:5]


@pytest.mark.parametrize(
    ("actions", "lines"),
    [
        (DOC["past_actions"], ["1. take bag", "2. fold bag", "3. open cupboard", "What next?"]),
        ([], ["What next?"]),
    ],
)
def test_a_narrated_question_has_the_past_without_choices_or_frames(actions, lines):
    doc = DOC | {"past_actions": actions}
    first, *rest_lines = narrated_question(doc).split("\n")
    assert rest_lines == lines
    assert ("done" in first, "nothing" in first) == (True, not actions)
    same_past = doc | {
        "choices": ["a", "b", "c", "d"],
        "media_path": "/elsewhere",
        "current_observation_frame": 31,
    }
    assert narrated_question(same_past) == narrated_question(doc)


@pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the public records")
def test_the_published_prompt_of_the_published_record():
    (record,) = read_bench2_annotations(EXAMPLES)
    assert bench2_prompt({"question": record.question, "choices": record.choices}) == (
        "Select the best answer to the following multiple-choice question based on the video. "
        "Respond with only the letter (A, B, C, or D) of the correct option.\n\n"
        "Considering the progress shown in the video and my current observation in the last frame, "
        "what action should I take next in order to bake pastry in the oven and set a "
        "stopwatch?\n\n"
        "A. attach stopwatch\nB. place oven tray\nC. operate oven\nD. set stopwatch"
    )
