"""What a model sees and is asked, and how its written answer is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lmms_egoplan.benchmarks.egoplan.protocol import lettered_question, narrated_question, parse_letter, visual_input
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import frame_path
from patience import processor_time_below

FIELDS = ("narration_text", "start_frame", "stop_frame")


@pytest.fixture
def doc(tmp_path):
    for number in range(1, 41):
        Image.new("RGB", (8, 6), (number, 0, 0)).save(frame_path(tmp_path, number))
    actions = [("take bag", 1, 10), ("fold bag", 11, 20), ("open cupboard", 21, 29)]
    return {
        "sample_id": 7,
        "video_source": "EpicKitchens",
        "video_id": "P01_13",
        "question": "What next?",
        "choices": ["put box away", "take bag", "open cupboard", "close box"],
        "current_observation_frame": 30,
        "past_actions": [dict(zip(FIELDS, action, strict=True)) for action in actions],
        "media_path": str(tmp_path),
    }


def test_frames(doc):
    images = visual_input(doc, {"media": "frames", "num_frames": 6})
    assert len(images) == 6
    assert all(isinstance(image, Image.Image) for image in images)


def test_clips_nested_and_flat(doc, monkeypatch):
    settings = {"num_clips": 2, "frames_per_clip": 3}
    *clips, observation = visual_input(doc, settings | {"media": "clips"})
    assert [len(clip) for clip in clips] == [3, 3]
    flat = visual_input(doc, settings | {"media": "clip_frames"})
    expected = [*clips[0], *clips[1], observation]
    assert [image.tobytes() for image in flat] == [image.tobytes() for image in expected]


def test_video(doc, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    (path,) = visual_input(doc, {"media": "video"})
    assert path.endswith(".mp4")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "media must be .* got None"),
        ({"media": "film"}, "got 'film'"),
        ({"media": "frames"}, "needs num_frames.* got None"),
        ({"media": "frames", "num_frames": 0}, "at least 1, got 0"),
        ({"media": "frames", "num_frames": True}, "got True"),
        ({"media": "clips", "num_clips": 4}, "needs frames_per_clip"),
        ({"media": "clip_frames", "num_clips": "4", "frames_per_clip": 1}, "needs num_clips.* got '4'"),
    ],
)
def test_wrong_settings_are_named(doc, settings, message):
    with pytest.raises(LmmsEgoplanError, match=message):
        visual_input(doc, settings)


def test_lettered_question(doc):
    lines = lettered_question(doc).split("\n")
    assert lines[:3] == ["What next?", "A. put box away", "B. take bag"]
    assert len(lines) == 6
    assert parse_letter(lines[1]) == "A"


def test_narrated_question(doc):
    lines = narrated_question(doc).split("\n")
    assert lines[1:] == ["1. take bag", "2. fold bag", "3. open cupboard", "What next?"]
    assert "done" in lines[0]


def test_narrated_question_without_past_actions(doc):
    first, last = narrated_question(doc | {"past_actions": []}).split("\n")
    assert "nothing" in first
    assert last == "What next?"


def test_narrations_tell_neither_choices_nor_frames(doc):
    other = doc | {"choices": ["a", "b", "c", "d"], "media_path": "/elsewhere", "current_observation_frame": 31}
    assert narrated_question(other) == narrated_question(doc)
    assert "close box" not in narrated_question(doc)


@pytest.mark.parametrize(
    "reply",
    [
        "B",
        " B\n",
        "B.",
        "B:",
        "(B)",
        "(B).",
        "B) take bag",
        "B. take bag",
        "(B) take bag",
        "**B**",
        "**B.** take bag",
        "Answer: B",
        "answer:B",
        "The answer is B.",
        "The answer is: **B**",
        "The correct option is (B) take bag",
        "Option B",
        "B\nThe bag comes next, so B.",
    ],
)
def test_claims(reply):
    assert parse_letter(reply) == "B"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "b",
        "E",
        "AB",
        "take bag",
        "A or B",
        "A/B",
        "(A)(B)",
        "A. or B.",
        "Answer: (A) or (B)",
        "A cat sits there",
        "A cat...",
        "The answer is A cat",
        "B take bag",
        "The answer",
        "I think B",
        "B\nor rather C",
        "(B",
        "B.take",
    ],
)
def test_no_clear_claim(reply):
    assert parse_letter(reply) is None


PIECES = st.sampled_from(["A", "B", "D", "(", ")", ".", ":", " ", "\n", "*", "the ", "Answer", " is", "option", "cat"])


@given(st.text() | st.lists(PIECES).map("".join))
def test_reads_a_letter_that_is_there_or_none(reply):
    letter = parse_letter(reply)
    assert letter is None or letter in reply


@given(st.lists(PIECES).map("".join), st.permutations("ABCD"))
def test_two_letters_are_never_read(text, letters):
    assert parse_letter(f"{letters[0]}. {text} {letters[1]}") is None


@pytest.mark.parametrize("piece", ["the answer is ", "(", " ", "A ", "*", "\n", "answer : ", "A", "é"])
def test_time_is_linear(piece):
    with processor_time_below(30):
        parse_letter(piece * (1_000_000 // len(piece)))
