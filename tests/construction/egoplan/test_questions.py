import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations
from lmms_egoplan.benchmarks.egoplan.wording import normalised
from lmms_egoplan.construction.egoplan import questions as module
from lmms_egoplan.construction.egoplan.goals import SUBGOAL, Goal
from lmms_egoplan.construction.egoplan.narrations import Action, Video, by_start
from lmms_egoplan.construction.egoplan.questions import (
    evaluation_records,
    instruction_records,
    make_questions,
    recognition_records,
    without_clip,
)
from lmms_egoplan.construction.egoplan.statistics import accuracies
from shared_data import DATA

EXAMPLES = DATA / "egoplan" / "examples.json"


def action(text, start, stop):
    return Action(text, start * 100 // 60, stop * 100 // 60, start, stop, text.split()[0], "")


def goal(actions, text="store cereal", source=EPIC_KITCHENS, video_id="P01_13", fps=60.0):
    actions = by_start(actions)
    return Goal(Video(source, video_id, fps, actions), SUBGOAL, text, actions)


# The published record's actions and answer, followed by actions for the other choices.
CEREAL = [
    action("take cereal bag", 36, 105),
    action("fold cereal bag", 111, 253),
    action("put cereal bag into cereal box", 274, 456),
    action("close cereal box", 457, 606),
    action("open cupboard", 689, 765),
    action("put cereal box into cupboard", 790, 900),
]


def reasons(rejections):
    return [rejection.reason for rejection in rejections]


@pytest.mark.skipif(not EXAMPLES.exists(), reason=f"needs {EXAMPLES}")
def test_the_published_records_layout():
    """Rebuild the published questions, except for the random wrong choices."""
    published = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    (val,), (training,) = published["EgoPlan_validation"], published["EgoPlan_IT"]
    *_, record = evaluation_records(make_questions([goal(CEREAL)], 0)[0])
    assert sorted(record) == sorted([*val, "origin"])
    assert record.pop("origin") == "built"
    varies = ("sample_id", "golden_choice_idx", *(f"choice_{letter}" for letter in "abcd"))
    assert {name: record[name] for name in record if name not in varies} == {
        name: val[name] for name in val if name not in varies
    }
    onion = [
        (past["narration_text"], past["start_frame"], past["stop_frame"])
        for past in training["task_progress_metadata"]
    ]
    onion += [
        ("grab onion", 9338, 9400),
        ("slice onion", 9500, 9600),
        ("remove peel from onion", 9700, 9800),
    ]
    onion = [action(*parts) for parts in [*onion, ("peel onion", 9900, 9999)]]
    records = instruction_records(
        make_questions([goal(onion, training["task_goal"], video_id="P07_113")], 0)[0]
    )
    record = next(record for record in records if record["answer"] == "grab onion")
    assert list(record) == list(training)
    assert record | {"sample_id": 39} == training


def test_action_recognition_of_the_same_clips():
    questions, _ = make_questions([goal(CEREAL)], 0)
    records = list(recognition_records(questions))
    rejections = without_clip(questions)
    # The first question has no past action, so it has no clip.
    assert reasons(rejections) == [module.NOTHING_DONE]
    assert [record["sample_id"] for record in records] == [2, 3, 4, 5, 6]
    assert records[1]["question"] == module.RECOGNITION_QUESTION
    assert records[1]["answer"] == "Take cereal bag, fold cereal bag."
    _, *trainings = instruction_records(questions)
    for record, training in zip(records, trainings, strict=True):
        assert record["task_progress_metadata"] == training["task_progress_metadata"]
        assert record["current_observation_frame"] == training["current_observation_frame"]


texts = st.sampled_from(
    ["take cup", "Take the cup", "open door", "close door", "wash hands", "pour tea", "stir tea"]
)
starts = st.integers(1, 2000)
actions_lists = st.lists(
    st.builds(lambda t, s, n: action(t, s, s + n), texts, starts, st.integers(0, 300)),
    min_size=4,
    max_size=20,
)


@settings(deadline=None)
@given(
    actions_lists,
    st.sampled_from([(EPIC_KITCHENS, 60.0), (EPIC_KITCHENS, 50.0), (EGO4D, 30.0)]),
    st.integers(0, 3),
)
def test_n_actions_give_n_questions_or_rejections(actions, source, seed):
    task_goal = goal(actions, source=source[0], fps=source[1])
    questions, rejections = make_questions([task_goal], seed)
    assert len(questions) + len(rejections) == len(actions)
    for question in questions:
        assert len({normalised(choice) for choice in question.choices}) == 4
        assert question.answer in question.choices
        assert set(question.choices) <= {step.text for step in actions}
        # The answer is the first action with its text, and none of its frames is visible.
        segment = next(step for step in task_goal.actions if step.text == question.answer)
        assert question.observation_frame == segment.start_frame - source[1] // 2
        assert all(
            past.start_frame <= past.stop_frame <= question.observation_frame
            for past in question.past
        )
        assert [past.text for past in question.past] == [
            step.text
            for step in task_goal.actions[: task_goal.actions.index(segment)]
            if step.start_frame <= question.observation_frame
        ]


@settings(deadline=None)
@given(actions_lists, st.integers(0, 3), st.sampled_from([(), ("near-equal", "concurrent")]))
def test_balanced_questions_offer_no_action_that_was_done(actions, seed, drop):
    """ "Not done yet" is then right as often as chance, and nothing else changes."""
    task_goal = goal(actions)
    usual, _ = make_questions([task_goal], seed, drop)
    balanced, rejections = make_questions([task_goal], seed, drop, is_balanced=True)
    unbalanced = [r for r in reasons(rejections) if r in (module.NEAR_END, module.DONE_BEFORE)]
    assert len(balanced) + len(unbalanced) == len(usual)
    by_answer = {question.answer: question for question in usual}
    for question in balanced:
        number = [action.text for action in task_goal.actions].index(question.answer)
        done = {normalised(action.text) for action in task_goal.actions[:number]}
        assert done.isdisjoint(map(normalised, (*question.choices, *question.distractors)))
        same = by_answer[question.answer]
        assert len(set(question.choices)) == 4
        assert set(question.choices) <= {question.answer, *same.distractors}
        assert (question.past, question.observation_frame) == (same.past, same.observation_frame)
    if balanced:
        assert accuracies(balanced)["not done yet"] == 0.25


def test_questions_that_cannot_be_balanced_have_a_reason():
    """The last three of six actions have fewer than three after them."""
    _, rejections = make_questions([goal(CEREAL)], 0, is_balanced=True)
    assert reasons(rejections) == [module.NEAR_END] * 3
    assert [rejection.detail for rejection in rejections] == [step.text for step in CEREAL[3:]]
    repeats = [*CEREAL, action("take cereal bag", 1000, 1100)]
    _, rejections = make_questions([goal(repeats)], 0, is_balanced=True)
    assert reasons(rejections) == [
        module.DONE_BEFORE,
        module.NEAR_END,
        module.NEAR_END,
        module.REPEATED,
    ]


def test_prepare_reads_built_questions(tmp_path):
    questions, _ = make_questions([goal(CEREAL), goal(CEREAL, "tidy up", EGO4D, "0a1b", 30.0)], 0)
    path = tmp_path / "EgoPlan_validation.json"
    path.write_text(json.dumps(list(evaluation_records(questions))))
    records = read_annotations(path, "val")
    assert [record.sample_id for record in records] == list(range(1, len(questions) + 1))


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([*CEREAL, action("open cupboard", 2000, 2100)], [module.REPEATED]),
        ([*CEREAL, action("Open the cupboard.", 2000, 2100)], [module.SPELLED_ALIKE]),
        (
            [*CEREAL[:3], action("take cereal bag", 1000, 1100)],
            [module.TOO_FEW] * 3 + [module.REPEATED],
        ),
        ([action("wait", 20, 30), *CEREAL], [module.TOO_EARLY]),
    ],
)
def test_rejected_actions_have_a_reason(actions, expected):
    assert reasons(make_questions([goal(actions)], 0)[1]) == expected


def test_wrong_choices_depend_on_the_seed_and_not_on_other_goals():
    store, tidy_up = goal(CEREAL), goal(CEREAL, "tidy up")
    questions = make_questions([store], 0)[0]
    assert make_questions([tidy_up, store], 0)[0][len(questions) :] == questions
    assert make_questions([store], 1)[0] != questions


def test_every_letter_is_often_the_answer():
    rng = random.Random(0)
    goals = [goal(CEREAL, f"store cereal {rng.random()}") for _ in range(80)]
    records = list(evaluation_records(make_questions(goals, 0)[0]))
    letters = [record["golden_choice_idx"] for record in records]
    assert all(letters.count(letter) > len(letters) / 5 for letter in "ABCD")


@pytest.mark.parametrize(
    ("text", "ending"),
    [("Make tea", "to make tea?"), ("TV repair", "to TV repair?"), ("x", "to x?")],
)
def test_goal_begins_in_lower_case_within_the_question(text, ending):
    (record, *_) = evaluation_records(make_questions([goal(CEREAL, text)], 0)[0])
    assert record["task_goal"] == text
    assert record["question"].endswith(ending)
