"""Compare frames, prompts, letters and counts of the published tasks with the slow references."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egoplan import published_reference as published
from lmms_egoplan.benchmarks.egoplan import prompts
from lmms_egoplan.benchmarks.egoplan.letter import read_as_published, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_BENCH2_TEST, details, first_ids
from lmms_egoplan.benchmarks.egoplan.published import (
    PublishedClips,
    published_clips,
    published_frames,
)
from lmms_egoplan.benchmarks.egoplan.published_scores import score_published_clips
from lmms_egoplan.benchmarks.egoplan.reply import first_letter
from lmms_egoplan.benchmarks.egoplan.visuals import FrameReader, num_images
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText, PathUse

WORDS = (
    "A",
    "B.",
    "(C)",
    "D) text",
    "Add",
    "Based on",
    "Close",
    "Done",
    "answer",
    "option",
    "a",
    "take the bag",
    "E",
)
MISREAD = {
    "Add the milk. B": "A",
    "Based on the video, C": "B",
    "Close the lid, so A": "C",
    "Done: B": "D",
    "Best answer: C": "B",
    "ANSWER: B": "A",
    "no idea": "",
    "": "",
}
READ = {
    "Answer: B": "B",
    "The answer is C.": "C",
    "Option: D": "D",
    "The best option is A": "A",
    "B": "B",
}


@st.composite
def records(draw, source=None):
    """Draw a record whose actions may overlap and run past the observation."""
    source = source or draw(st.sampled_from(["EpicKitchens", "Ego4D"]))
    observation = draw(st.integers(1, 3000))
    starts = sorted(draw(st.lists(st.integers(1, observation), max_size=7)))
    return {
        "video_source": source,
        "video_id": "P01_13" if source == "EpicKitchens" else "v",
        "current_observation_frame": observation,
        "task_start_frame": draw(st.integers(0, starts[0] if starts else observation)),
        "task_progress_metadata": [
            {
                "narration_text": "x",
                "start_frame": start,
                "stop_frame": start + draw(st.integers(5, 900)),
            }
            for start in starts
        ],
    }


def as_doc(record):
    """Return the record as a row of the prepared data."""
    return record | {"past_actions": record["task_progress_metadata"]}


@given(records())
def test_frames_equal_the_references(record):
    past = [
        (action["start_frame"], action["stop_frame"]) for action in record["task_progress_metadata"]
    ]
    last = record["current_observation_frame"]
    assert published_frames(past[0][0] if past else last, last) == published.single_video(record)
    assert published_frames(record["task_start_frame"], last) == published.bench2_frames(record)
    clips = published_clips(past, last, is_epic=record["video_source"] == "EpicKitchens")
    assert (clips.frames, clips.authors_fail) == (
        published.clips(record),
        published.authors_fail(record),
    )
    doc = as_doc(record)
    assert num_images(doc, {"num_frames": 8, "as_published": True}) == 8
    assert (
        num_images(doc, {"num_clips": 4, "frames_per_clip": 8, "as_published": True})
        == 8 * len(clips.frames) + 1
    )


@pytest.mark.parametrize("is_epic", [True, False])
def test_the_stop_frame_is_not_shown_and_short_actions_repeat_frames(is_epic):
    clips = published_clips([(100, 260)], 300, is_epic=is_epic)
    (clip,) = clips.frames
    assert (clip[0], len(clip), max(clip) < 260, clips.authors_fail) == (100, 8, True, False)
    assert published_clips([(5, 8)], 9, is_epic=is_epic) == PublishedClips(
        [[5, 5, 6, 6, 7, 7, 8, 8]], authors_fail=True
    )
    for length, fails in ((7, True), (8, not is_epic), (9, False)):
        assert published_clips([(5, 4 + length)], 99, is_epic=is_epic).authors_fail == fails


def test_a_ready_clip_shows_the_frames_of_its_source():
    """Also if actions are dropped or cut, and in place of later frames the observation."""
    actions = [(20, 120), (60, 90), (95, 130)]
    past = [{"start_frame": start, "stop_frame": stop} for start, stop in actions]
    settings = {"media": "clip_frames", "num_clips": 4, "frames_per_clip": 8, "as_published": True}
    for source, frames in {
        "EpicKitchens": [[60 + i * 31 // 8 for i in range(8)]],
        "Ego4D": [[*range(20, 93, 12), 100], [*range(60, 82, 3)], [95, 99, *[100] * 6]],
    }.items():
        doc = DOC | {"video_source": source, "past_actions": past, "clip_frames": 81}
        shown = [number + 20 for number in Numbers("egoplan").visual_input(doc, settings)]
        assert shown == [*chain.from_iterable(frames), 100]


class Numbers(FrameReader):
    """Read numbers instead of images."""

    def read_frames(self, doc, numbers):
        return numbers


@pytest.mark.parametrize(("reply", "letter"), [*MISREAD.items(), *READ.items()])
def test_known_replies(reply, letter):
    assert (first_letter(reply) or "") == published.bench2_letter(reply) == letter


@given(st.lists(st.sampled_from([*WORDS, *published.OPENINGS, "\n"]), max_size=6).map(" ".join))
def test_letters_equal_the_reference(reply):
    assert (first_letter(reply) or "") == published.bench2_letter(reply)


@pytest.mark.parametrize(
    "goal",
    [
        "make coffee",
        "Making coffee.",
        "The goal is to store cereal",
        "goal: to cut tomatoes",
        "tie a knot!",
    ],
)
def test_prompts_equal_the_references(goal):
    choices = {f"choice_{letter}": f"take {letter}" for letter in "abcd"}
    doc = {"task_goal": goal, "question": "Unrelated?", "choices": [*choices.values()]}
    assert prompts.bench2_published_prompt(doc) == published.bench2_prompt(
        {"task_goal": goal, **choices}
    )
    assert prompts.tuned_question(doc) == published.tuned_question({"task_goal": goal})


DOC = {
    "sample_id": 7,
    "video_id": "P01_01",
    "video_source": "EpicKitchens",
    "golden_choice_idx": "B",
    "choices": ["open", "take", "close", "cut"],
    "split_size": 3355,
    "current_observation_frame": 100,
}


def response(loss, use):
    return LoglikelihoodText.from_score(Loglikelihood(loss, 3, is_greedy=False, use=use))


RESPONSES = [response(loss, PathUse("full", "image")) for loss in (2.0, 1.0, 3.0, 2.5)]


@pytest.mark.parametrize(
    ("source", "actions", "runs_past"),
    [
        ("Ego4D", [], False),
        ("Ego4D", [(1, 100)], False),
        ("Ego4D", [(1, 101)], False),  # the last frame shown is 85
        ("Ego4D", [(1, 180)], True),
        ("Ego4D", [(1, 180), (1, 90), (1, 91), (1, 92), (1, 93)], False),
        ("Ego4D", [(1, 50), (1, 180), (1, 60), (1, 70)], True),
        ("EpicKitchens", [(1, 180)], False),
    ],
)
def test_questions_with_frames_after_the_observation_are_counted(source, actions, runs_past):
    doc = DOC | {
        "video_source": source,
        "past_actions": [{"start_frame": a, "stop_frame": b} for a, b in actions],
    }
    values = score_published_clips(doc, RESPONSES)
    assert values["details"]["past_observation"] is runs_past
    assert (values["acc"]["score"], values["coverage"]["scored"]) == (1.0, True)
    assert values.get("acc_within") == (None if runs_past else values["acc"])


@pytest.mark.parametrize("source", ["Ego4D", "EpicKitchens"])
def test_questions_on_which_the_authors_code_fails_are_named_and_not_scored(source):
    doc = DOC | {"video_source": source, "past_actions": [{"start_frame": 5, "stop_frame": 9}]}
    values = score_published_clips(doc, RESPONSES)
    assert not [name for name in values if name.startswith("acc")]
    assert not values["coverage"]["scored"]
    assert values["details"]["predictions"]["prediction"] is None
    choices = values["details"]["predictions"]["choices"]
    assert [choice["loss"] for choice in choices] == [2.0, 1.0, 3.0, 2.5]
    other = score_published_clips(doc | {"past_actions": [], "sample_id": 8}, RESPONSES)
    aggregated = details([values["details"], other["details"]])
    assert (aggregated["authors_fail"], aggregated["authors_fail_ids"]) == (1, "7")
    assert first_ids([*range(30, 0, -1)]).split(", ")[-2:] == [
        "20",
        "...",
    ]


def test_responses_without_the_end_are_refused():
    with pytest.raises(LmmsEgoplanError, match=r"question 7\b.*hf_vlm"):
        score_published_clips(DOC | {"past_actions": []}, [response(1.0, None)] * 4)


@pytest.mark.parametrize(
    ("reply", "first", "clear"), [("Add it, so B", 0, 1), ("Based on it", 1, 0), ("B", 1, 1)]
)
def test_both_readers_are_scored(reply, first, clear):
    values = score_letter(DOC | {"domain": "Work"}, reply, EGOPLAN_BENCH2_TEST, read_as_published)
    assert (values["acc"]["score"], values["acc_work"]["score"], values["acc_clear"]["score"]) == (
        first,
        first,
        clear,
    )
