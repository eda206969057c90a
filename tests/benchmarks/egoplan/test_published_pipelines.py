"""Compare frames, prompts, letters and counts of the published tasks with the slow references."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egoplan import published_reference as published
from lmms_egoplan.benchmarks.egoplan import protocol
from lmms_egoplan.benchmarks.egoplan.metrics import score_published_clips, score_published_letter
from lmms_egoplan.benchmarks.egoplan.reply import first_letter
from lmms_egoplan.benchmarks.egoplan.visuals import num_images, published_clips, published_frames
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText, PathUse

WORDS = ("A", "B.", "(C)", "D) text", "Add", "Based on", "Close", "Done", "answer", "option", "a", "take the bag", "E")
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
READ = {"Answer: B": "B", "The answer is C.": "C", "Option: D": "D", "The best option is A": "A", "B": "B"}


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
            {"narration_text": "x", "start_frame": start, "stop_frame": start + draw(st.integers(8, 900))}
            for start in starts
        ],
    }


def as_doc(record):
    """Return the record as a row of the prepared data."""
    return record | {"past_actions": record["task_progress_metadata"]}


@given(records())
def test_frames_equal_the_references(record):
    past = [(action["start_frame"], action["stop_frame"]) for action in record["task_progress_metadata"]]
    last = record["current_observation_frame"]
    assert published_frames(past[0][0] if past else last, last) == published.single_video(record)
    assert published_frames(record["task_start_frame"], last) == published.bench2_frames(record)
    numbers = published_clips(past, is_epic=record["video_source"] == "EpicKitchens")
    assert numbers == published.clips(record)
    doc = as_doc(record)
    assert num_images(doc, {"num_frames": 8, "as_published": True}) == 8
    assert num_images(doc, {"num_clips": 4, "frames_per_clip": 8, "as_published": True}) == 8 * len(numbers) + 1


@pytest.mark.parametrize("is_epic", [True, False])
def test_the_stop_frame_is_not_shown_and_short_actions_repeat_frames(is_epic):
    (clip,) = published_clips([(100, 260)], is_epic=is_epic)
    assert (clip[0], len(clip), max(clip) < 260) == (100, 8, True)
    (short,) = published_clips([(5, 8)], is_epic=is_epic)
    assert short == ([5, 5, 6, 6, 7, 7, 8, 8] if is_epic else [5] * 8)


@pytest.mark.parametrize(("reply", "letter"), [*MISREAD.items(), *READ.items()])
def test_known_replies(reply, letter):
    assert (first_letter(reply) or "") == published.bench2_letter(reply) == letter


@given(st.lists(st.sampled_from([*WORDS, *published.OPENINGS, "\n"]), max_size=6).map(" ".join))
def test_letters_equal_the_reference(reply):
    assert (first_letter(reply) or "") == published.bench2_letter(reply)


@pytest.mark.parametrize(
    "goal", ["make coffee", "Making coffee.", "The goal is to store cereal", "goal: to cut tomatoes", "tie a knot!"]
)
def test_prompts_equal_the_references(goal):
    choices = {f"choice_{letter}": f"take {letter}" for letter in "abcd"}
    doc = {"task_goal": goal, "question": "Unrelated?", "choices": [*choices.values()]}
    assert protocol.bench2_published_prompt(doc) == published.bench2_prompt({"task_goal": goal, **choices})
    assert protocol.tuned_question(doc) == published.tuned_question({"task_goal": goal})


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
    return LoglikelihoodText.of(Loglikelihood(loss, 3, is_greedy=False, use=use))


@pytest.mark.parametrize(
    ("stops", "runs_past"),
    [([], False), ([100], False), ([101], True), ([101, 90, 91, 92, 93], False), ([50, 101, 60, 70], True)],
)
def test_questions_with_actions_past_the_observation_are_counted(stops, runs_past):
    actions = [{"start_frame": 1, "stop_frame": stop} for stop in stops]
    responses = [response(loss, PathUse("full", "image")) for loss in (2.0, 1.0, 3.0, 2.5)]
    values = score_published_clips(DOC | {"past_actions": actions}, responses)
    assert values["past_observation"] == {"runs_past": runs_past}
    assert values["acc"]["score"] == 1.0
    assert values.get("acc_within") == (None if runs_past else values["acc"])


def test_responses_without_the_end_are_refused():
    with pytest.raises(LmmsEgoplanError, match=r"question 7\b.*hf_vlm"):
        score_published_clips(DOC | {"past_actions": []}, [response(1.0, None)] * 4)


@pytest.mark.parametrize(("reply", "first", "clear"), [("Add it, so B", 0, 0), ("Based on it", 1, 0), ("B", 1, 1)])
def test_both_readers_are_scored(reply, first, clear):
    values = score_published_letter(DOC | {"domain": "Work"}, [reply])
    assert (values["acc"]["score"], values["acc_work"]["score"], values["acc_clear"]["score"]) == (first, first, clear)
