"""What a model is asked."""

from lmms_egoplan.benchmarks.egoplan.protocol import lettered_question, narrated_question
from lmms_egoplan.benchmarks.egoplan.reply import parse_letter

DOC = {
    "question": "What next?",
    "choices": ["put box away", "take bag", "open cupboard", "close box"],
    "current_observation_frame": 30,
    "past_actions": [{"narration_text": text} for text in ("take bag", "fold bag", "open cupboard")],
    "media_path": "/here",
}


def test_lettered_question():
    lines = lettered_question(DOC).split("\n")
    assert lines[:3] == ["What next?", "A. put box away", "B. take bag"]
    assert len(lines) == 6
    assert parse_letter(lines[1]) == "A"


def test_narrated_question():
    lines = narrated_question(DOC).split("\n")
    assert lines[1:] == ["1. take bag", "2. fold bag", "3. open cupboard", "What next?"]
    assert "done" in lines[0]


def test_narrated_question_without_past_actions():
    first, last = narrated_question(DOC | {"past_actions": []}).split("\n")
    assert "nothing" in first
    assert last == "What next?"


def test_narrations_tell_neither_choices_nor_frames():
    other = DOC | {"choices": ["a", "b", "c", "d"], "media_path": "/elsewhere", "current_observation_frame": 31}
    assert narrated_question(other) == narrated_question(DOC)
    assert "close box" not in narrated_question(DOC)
