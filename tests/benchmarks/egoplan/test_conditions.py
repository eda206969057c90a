"""Questions and frames of the shortcut tasks, compared with a slow, obvious version."""

import random
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.egoplan import shortcut_set
from benchmarks.egoplan.shortcut_set import (
    CONDITIONS,
    first_of,
    goal_of,
    shown_under,
    text_under,
    video_of,
)
from lmms_egoplan.benchmarks.conditions import SHORTCUTS, apply_condition
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.conditions import asked_questions
from lmms_egoplan.benchmarks.egoplan.prompts import without_goal
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import count_video_frames, read_video_frames
from media.files import read_number, read_numbers

SETS = {
    "egoplan": (EGOPLAN, "val", visuals.EGOPLAN),
    "egoplan_bench2": (EGOPLAN_BENCH2, "test", visuals.EGOPLAN_BENCH2),
}
PARTNERS = ("same_goal_video", "other_goal_video")
SEEING = [name for name in CONDITIONS if name not in ("blind", "candidates_only")]
ALTERED = ("last_frame", "first_frame", "frozen", "shuffled", "reversed")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shortcuts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        yield shortcut_set.prepare(folder)


@pytest.fixture(params=SETS)
def benchmark(request):
    return request.param


def rows_of(benchmark):
    prepared, split, _ = SETS[benchmark]
    return prepared.load(split)


def by_id(records):
    return {record["sample_id"]: record for record in records}


def videos_of(goal, records):
    return {video_of(record) for record in records if goal_of(record) == goal}


def test_the_conditions_are_described():
    assert set(CONDITIONS) <= SHORTCUTS.keys()


def test_frames_equal_the_reference(made, benchmark):
    records, visual, rows, wrong = (
        by_id(made[benchmark]),
        SETS[benchmark][2],
        rows_of(benchmark),
        [],
    )
    for condition in [None, *SEEING]:
        asked = asked_questions(rows, condition)
        assert len(asked) > 2
        for doc, count in product(asked, (1, 8)):
            media_settings = {"media": "frames", "num_frames": count, "shortcut": condition}
            record = records[doc["sample_id"]]
            partner = records[doc["partner"]["sample_id"]] if condition in PARTNERS else None
            numbers = read_numbers(visual.visual_input(doc, media_settings))
            expected = shown_under(condition, record, partner, count)
            source = partner or record
            first, last = (shortcut_set.BASES[video_of(source)] + x for x in extent(source))
            is_right = numbers == expected
            if condition == "shuffled":
                whole = shown_under(None, record, count=count)
                is_right = Counter(numbers) == Counter(expected)
                is_right &= (numbers == whole) == (len(set(numbers)) == 1)
            is_right &= visuals.num_images(doc, media_settings) == len(numbers)
            if not (is_right and all(first <= number <= last for number in numbers)):
                wrong.append((condition, count, doc["sample_id"], numbers, expected))
    assert wrong == []


def extent(record):
    """Return the first frame and the observation."""
    return first_of(record), record["current_observation_frame"]


@pytest.mark.parametrize(
    "condition", ["same_goal_video", "other_goal_video", "last_1_action", "last_2_actions"]
)
def test_progress_videos_end_with_the_shown_observation(made, benchmark, condition):
    records, visual = by_id(made[benchmark]), SETS[benchmark][2]
    for doc in asked_questions(rows_of(benchmark), condition):
        record = records[doc["sample_id"]]
        partner = records[doc["partner"]["sample_id"]] if condition in PARTNERS else None
        (path,) = visual.visual_input(doc, {"media": "video", "shortcut": condition})
        length = count_video_frames(Path(path))
        first, last = [read_number(image) for image in read_video_frames(path, [0, length - 1])]
        expected = shown_under(condition, record, partner)
        assert (first, last) == (expected[0 if length > 1 else -1], expected[-1])


def test_media_whose_frames_cannot_be_altered_are_refused(made, benchmark):
    doc = rows_of(benchmark)[0]
    media = [
        {"media": "video"},
        {"media": "clips", "num_clips": 4, "frames_per_clip": 2},
        {"media": "timed_frames", "num_frames": 8},
        {"media": "frames", "num_frames": 8, "observation": "separate"},
    ]
    for condition, media_settings in product(ALTERED, media):
        with pytest.raises(LmmsEgoplanError, match=f"{condition} needs media frames"):
            SETS[benchmark][2].visual_input(doc, media_settings | {"shortcut": condition})


def test_unknown_conditions_and_missing_partners_are_refused(made, benchmark):
    doc, media_settings = rows_of(benchmark)[0], {"media": "frames", "num_frames": 8}
    with pytest.raises(LmmsEgoplanError, match="'revrsed'"):
        SETS[benchmark][2].visual_input(doc, media_settings | {"shortcut": "revrsed"})
    with pytest.raises(LmmsEgoplanError, match=rf"sample_id {doc['sample_id']}: no partner"):
        visuals.num_images(doc, media_settings | {"shortcut": "same_goal_video"})
    copy = doc | {"has_action_times": False, "media": "public copy x"}
    with pytest.raises(LmmsEgoplanError, match="need their times"):
        visuals.num_images(copy, media_settings | {"shortcut": "last_2_actions"})


@pytest.mark.parametrize("condition", PARTNERS)
def test_partners_differ_in_the_video_and_depend_only_on_the_questions(made, benchmark, condition):
    records, rows = made[benchmark], rows_of(benchmark)
    asked = asked_questions(rows, condition)
    partners = {doc["sample_id"]: doc["partner"]["sample_id"] for doc in asked}
    has_partner = {
        record["sample_id"]
        for record in records
        if any(
            video_of(record) != video_of(other)
            and (goal_of(record) == goal_of(other)) == (condition == "same_goal_video")
            for other in records
        )
    }
    assert partners.keys() == has_partner
    if condition == "same_goal_video":
        alone = Counter(
            goal_of(record) for record in records if len(videos_of(goal_of(record), records)) == 1
        )
        assert len(records) - len(has_partner) == alone.total() > 0
    assert set(asked["without_partner"]) == {len(records) - len(has_partner)}
    by = by_id(records)
    for sample_id, other_id in partners.items():
        assert video_of(by[sample_id]) != video_of(by[other_id])
        assert (goal_of(by[sample_id]) == goal_of(by[other_id])) == (condition == "same_goal_video")
    for seed in range(2):
        order = random.Random(seed).sample(range(len(rows)), len(rows))
        again = asked_questions(rows.select(order).flatten_indices(keep_in_memory=True), condition)
        assert {doc["sample_id"]: doc["partner"]["sample_id"] for doc in again} == partners
    assert "golden_choice_idx" not in asked[0]["partner"]


def test_partners_have_the_same_source_if_possible(made):
    docs = by_id(asked_questions(rows_of("egoplan"), "same_goal_video"))
    assert docs[100]["partner"]["video_id"] == "P02_02"
    assert docs[101]["partner"]["video_id"] == "P01_01"
    assert docs[102]["partner"]["video_source"] == "EpicKitchens"


def test_without_any_partner_the_task_is_refused(made):
    rows = rows_of("egoplan")
    lonely = rows.select([index for index, row in enumerate(rows) if row["video_id"] == "cc-3"])
    with pytest.raises(LmmsEgoplanError, match="none of the 2 questions has a partner"):
        asked_questions(lonely, "same_goal_video")


def test_questions_without_their_goal(made, benchmark):
    records = by_id(made[benchmark])
    for doc in asked_questions(rows_of(benchmark), "without_goal"):
        assert without_goal(doc) == text_under("without_goal", records[doc["sample_id"]])
        assert goal_of(records[doc["sample_id"]]) not in without_goal(doc).lower()


def test_a_question_without_its_goal_in_the_usual_place_is_named(made):
    rows = rows_of("egoplan")
    other = rows.map(
        lambda row: {"question": "What next?"} if row["sample_id"] == 103 else {},
        keep_in_memory=True,
    )
    with pytest.raises(
        LmmsEgoplanError, match=r"sample_id 103: question 'What next\?'.*_without_goal"
    ):
        asked_questions(other, "without_goal")


@settings(max_examples=50)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.text())
def test_shuffling_is_never_the_identity(frames, seed):
    shuffled = apply_condition(frames, "shuffled", seed)
    assert Counter(shuffled) == Counter(frames)
    assert (shuffled == frames) == (len(set(frames)) == 1)
    assert shuffled == apply_condition(frames, "shuffled", seed)
