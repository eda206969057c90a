"""Degrees of overlap, compared with a slow reference that counts frames."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lmms_egoplan.overlap.matching import AFTER, audit, near_duplicates
from lmms_egoplan.overlap.training_files import Item, items_of
from lmms_egoplan.report.overlap import DEGREES

SAME, COPY, OTHER_TIME, NO_TIME, CLEAN, _ = DEGREES
# A question of EPIC-KITCHENS that shows the frames 100 to 199 of 60 per second.
ROW = {
    "sample_id": 7,
    "video_source": "EpicKitchens",
    "video_id": "P01_13",
    "task_goal": "wash the cup",
    "answer": "open tap",
    "current_observation_frame": 199,
    "past_actions": [{"narration_text": "take cup", "start_frame": 100, "stop_frame": 240}],
}
(QUESTION, *_) = items_of(ROW, "7")


def degree_of(*items):
    (row,) = audit([QUESTION], items)
    return row["degree"], row


def frames(first, last, video="p01_13", action="", goal=""):
    return Item(video, rounded(first / 60, (last + 1) / 60), goal, action, f"train.csv, {first}")


def text_item(goal, action, where="train.json, 3", question=""):
    return Item("", None, goal, action, where, question)


def rounded(*times):
    """Round seconds as files' spans are rounded."""
    return tuple(round(time, 3) for time in times)


def test_a_question_shows_its_first_action_to_its_observation():
    assert QUESTION.span == (1.667, 3.333)
    assert (QUESTION.video, QUESTION.goal, QUESTION.action) == (
        "p01_13",
        "wash the cup",
        "open tap",
    )
    (bench2, *_) = items_of(
        ROW | {"first_frame": 0, "video_id": "ab" * 4 + "-0000" * 3 + "-" + "cd" * 6}, "7"
    )
    assert bench2.span == (0, 6.667)
    step = {
        "step_id": "a_1",
        "video_id": "b",
        "start_sec": 1.0,
        "end_sec": 2.5,
        "local_intent": "picks it",
    }
    (step_item,) = items_of(step | {"global_intent": "cook", "goal": "other"}, "a_1")
    assert step_item == Item("b", (1.0, 2.5), "cook", "picks it", "a_1")


@pytest.mark.parametrize(
    ("items", "degree"),
    [
        ([frames(0, 99)], OTHER_TIME),
        ([frames(0, 100)], SAME),
        ([frames(199, 300)], SAME),
        ([frames(200, 300)], OTHER_TIME),
        ([frames(0, 900)], SAME),
        ([frames(110, 119), frames(115, 129), frames(110, 119)], SAME),
        ([Item("p01_13", None, "", "", "list")], NO_TIME),
        ([Item("p01_13", None, "", "", "list"), frames(0, 9)], OTHER_TIME),
        ([frames(100, 199, "p01_14")], CLEAN),
        ([frames(100, 199, "p02_13")], CLEAN),
        ([], CLEAN),
    ],
)
def test_spans_overlap_by_frames(items, degree):
    found_degree, row = degree_of(*items)
    assert found_degree == degree
    assert bool(row["training"]) == (degree != CLEAN)


@pytest.mark.parametrize(
    ("first", "action", "is_answer"),
    [
        (200, "Open the tap.", True),
        (200, "opening taps", True),
        (200, "close tap", False),
        (200, "", False),
        (199 + int(60 * AFTER), "open tap", True),
        (201 + int(60 * AFTER), "open tap", False),
        (0, "open tap", False),
    ],
)
def test_the_answers_action_is_after_the_observation(first, action, is_answer):
    degree, _ = degree_of(frames(first, first + 9, action=action))
    assert degree == (SAME if is_answer else OTHER_TIME)


PAIRS = yaml.safe_load((Path(__file__).parent / "pairs.yaml").read_text())


def is_copy(question, item):
    """Return True if a text is a near-duplicate, and check that the order of the two makes no
    difference.
    """
    texts = {
        near_duplicates([first], [second])[0] != ""
        for first, second in ((question, item), (item, question))
    }
    assert len(texts) == 1, (question, item)
    return texts.pop()


def test_the_same_step_is_a_near_duplicate_but_other_steps_and_opposites_are_not():
    wrong = [
        (kind, pair)
        for kind, pairs in PAIRS.items()
        for pair in pairs
        if is_copy(text_item(*pair[:2]), text_item(*pair[2:])) != (kind == "same step")
    ]
    assert not wrong


def test_other_texts_and_questions_change_no_near_duplicate():
    pairs = [(kind, pair) for kind, pairs in PAIRS.items() for pair in pairs]
    questions = [
        text_item(f"{goal} {number}", action, "q")
        for number, (_, (goal, action, *_)) in enumerate(pairs)
    ]
    items = [
        text_item(f"{goal} {number}", action, f"{number}")
        for number, (_, (*_, goal, action)) in enumerate(pairs)
    ]
    others = [text_item(f"goal {number}", f"open tap {number}") for number in range(20_000)]
    expected = [
        str(number) if kind == "same step" else "" for number, (kind, _) in enumerate(pairs)
    ]
    assert near_duplicates(questions, items) == expected
    assert near_duplicates(questions, [*others, *items]) == expected


def test_a_question_that_contains_the_goal_needs_the_same_answer():
    question = text_item("Wash the cups", "open tap")
    asked = "What should I do next in order to wash the cup, given the last frame?"
    for text, answer, expected in (
        (asked, "Open the tap.", True),
        (asked, "The next action is to open the tap", True),
        (asked, "close tap", False),
        (asked, "open tap and take cup", False),
        (asked.replace("cup", "pan"), "open tap", False),
        (asked.replace("the cup", "the big cup"), "open tap", False),
        ("open tap", "open tap", False),
    ):
        copies = near_duplicates([question], [text_item("", answer, question=text)])
        assert bool(copies[0]) == expected, (text, answer)


def test_near_duplicates_have_their_position_and_the_most_severe_degree_counts():
    copy = text_item("Wash the cup.", "open the tap!", "train.json, 3")
    degree, row = degree_of(copy)
    assert (degree, row["training"], row["text"]) == (COPY, "train.json, 3", "train.json, 3")
    assert degree_of(replace(copy, video="p01_13"))[0] == COPY
    degree, row = degree_of(copy, frames(150, 160))
    assert (degree, row["training"], row["text"]) == (SAME, "train.csv, 150", "train.json, 3")
    for item in (text_item("", "open tap"), text_item("wash the cup", ""), text_item("...", "...")):
        assert degree_of(item)[0] == CLEAN


def test_matching_agrees_with_counting_frames():
    chance = random.Random(1)
    videos, actions = ["p01_13", "p01_14", "p02_11", "b"], ["open tap", "take cup", ""]
    for _ in range(100):
        items = []
        for number in range(chance.randrange(7)):
            first = chance.randrange(600)
            span = (
                None
                if chance.random() < 0.2
                else rounded(first / 60, (first + chance.randint(1, 60)) / 60)
            )
            items.append(Item(chance.choice(videos), span, "", chance.choice(actions), str(number)))
        questions = []
        for number in range(5):
            first = chance.randrange(300)
            span = rounded(first / 60, (first + chance.randint(1, 90)) / 60)
            questions.append(Item(chance.choice(videos), span, "tap", "open tap", str(number)))
        for question, row in zip(questions, audit(questions, items), strict=True):
            assert row["degree"] == slow_match(question, items)


def slow_match(question, items):
    def numbers(span):
        return set(range(round(60 * span[0]), round(60 * span[1])))

    same = [item for item in items if item.video == question.video]
    timed = [item for item in same if item.span]
    trained = set().union(*(numbers(item.span) for item in timed))
    shared = numbers(question.span) & trained
    stop = round(60 * question.span[1])
    is_answered = any(
        item.action == question.action
        and round(60 * item.span[0]) < stop + 60 * AFTER
        and round(60 * item.span[1]) >= stop
        for item in timed
    )
    if shared or is_answered:
        degree = SAME
    elif timed:
        degree = OTHER_TIME
    elif same:
        degree = NO_TIME
    else:
        degree = CLEAN
    return degree
