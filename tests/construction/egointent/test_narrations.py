from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.egointent.source import goalstep_video, segment
from construction.ego4d_files import narrated, write_narrations
from construction.egointent.small import TEA, UID
from lmms_egoplan.construction import ego4d
from lmms_egoplan.construction.egointent import goalstep
from lmms_egoplan.construction.egointent import narrations as reading
from lmms_egoplan.construction.egointent.goalstep import Video
from lmms_egoplan.construction.egointent.narrations import (
    NEIGHBOURS,
    NarratedVideo,
    Narration,
    find_steps,
    read_narrations,
)
from lmms_egoplan.errors import LmmsEgoplanError


def read(tmp_path, passes, uids=(UID,), **options):
    return read_narrations(
        write_narrations(tmp_path / "narration.json", {UID: passes}, **options), uids
    )


def reasons(rejections):
    return [rejection.reason for rejection in rejections]


@pytest.mark.parametrize("wrapped", [True, False])
def test_narrations_come_by_time_with_summaries_of_both_passes(tmp_path, wrapped):
    passes = {
        "narration_pass_1": narrated(*TEA[::-1], summaries=("C makes tea", "C cleans")),
        "narration_pass_2": narrated((1, "#C C does it"), summaries=("C makes  tea", "C drinks")),
    }
    videos, rejections = read(tmp_path, passes, wrapped=wrapped)
    video = videos[UID]
    assert [
        (narration.number, narration.seconds, narration.text) for narration in video.narrations[:2]
    ] == [
        (1, 0.5, "C picks a kettle"),
        (2, 1.1, "C fills the kettle"),
    ]
    assert video.narrations[0].action == "picks a kettle"
    assert video.summaries == ("#Summary C makes tea", "#Summary C cleans", "#Summary C drinks")
    (second,) = rejections
    assert (second.reason, second.detail) == (reading.SECOND_PASS, "1 narrations")
    assert second.where.endswith(f"{UID}, narration_pass_2")


@pytest.mark.parametrize(
    "absent", [{}, {"narration_pass_1": {"narrations": []}}, {"narration_pass_1": None}]
)
def test_a_pass_may_be_absent(tmp_path, absent):
    videos, rejections = read(tmp_path, absent | {"narration_pass_2": narrated(*TEA)})
    assert len(videos[UID].narrations) == 5
    assert rejections == []


def test_rejected_narrations_remain_context(tmp_path):
    texts = {
        "#C C picks a pan": "",
        "#c c  Stirs #Unsure": ego4d.UNSURE,
        "#O A man X talks": ego4d.OTHER_PERSON,
        "#C C": ego4d.NO_TEXT,
        "#C C кладёт": ego4d.OTHER_LETTERS,
        "  ": ego4d.NO_TEXT,
    }
    rows = [(float(number), text) for number, text in enumerate(texts)]
    videos, rejections = read(tmp_path, {"narration_pass_1": narrated(*rows, rows[0])})
    # The duplicate comes right after its original.
    assert [narration.problem for narration in videos[UID].narrations] == [
        "",
        reading.REPEATED,
        *list(texts.values())[1:],
    ]
    assert reasons(rejections) == [reading.REPEATED, *list(texts.values())[1:]]
    shortened = [narration.text for narration in videos[UID].narrations]
    assert shortened[:4] == ["C picks a pan", "", "c Stirs something", "O A man X talks"]
    assert (
        rejections[-1].where
        == f"{tmp_path / 'narration.json'}, {UID}, narration_pass_1.narrations[5]"
    )


@pytest.mark.parametrize(
    ("text", "shortened", "action"),
    [
        ("#C picks a plastic bag", "picks a plastic bag", "picks a plastic bag"),
        ("  # c C takes vitamin C", "C takes vitamin C", "takes vitamin C"),
        ("#C C's hand moves", "C's hand moves", "C's hand moves"),
        ("#O man X gives #C a cup", "O man X gives C a cup", "O man X gives C a cup"),
    ],
)
def test_wearer_is_dropped_only_at_the_start(tmp_path, text, shortened, action):
    videos, _ = read(tmp_path, {"narration_pass_1": narrated((1, text))})
    (narration,) = videos[UID].narrations
    assert (narration.text, narration.action) == (shortened, action)


def test_empty_narrations_at_one_time_are_not_duplicates(tmp_path):
    _, rejections = read(tmp_path, {"narration_pass_1": narrated((1, None), (1, None))})
    assert reasons(rejections) == [ego4d.NO_TEXT] * 2


def test_error_names_a_video_with_empty_passes(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=UID):
        read(tmp_path, {"narration_pass_1": {"narrations": []}})


def test_other_videos_are_not_read(tmp_path):
    broken = narrated((0, "#C C waits"))
    del broken["narrations"][0]["timestamp_sec"]
    path = write_narrations(
        tmp_path / "n.json",
        {UID: {"narration_pass_1": narrated(*TEA)}, "other": {"narration_pass_1": broken}},
    )
    videos, rejections = read_narrations(path, (UID, "third"))
    assert [*videos] == [UID]
    assert reasons(rejections) == [ego4d.NO_NARRATIONS]
    videos, rejections = read_narrations(path, (UID, "other"))
    assert [*videos] == [UID]
    assert reasons(rejections) == [ego4d.NO_TIME]
    with pytest.raises(LmmsEgoplanError, match=r"n\.json.*third"):
        read_narrations(path, ("third",))


@pytest.mark.parametrize("time", [None, True, "3", -1, 1e9, float("nan")])
def test_a_time_is_seconds_from_zero(tmp_path, time):
    passes = {"narration_pass_1": narrated(*TEA)}
    passes["narration_pass_1"]["narrations"][3]["timestamp_sec"] = time
    videos, rejections = read(tmp_path, passes)
    assert reasons(rejections) == [ego4d.NO_TIME]
    assert len(videos[UID].narrations) == len(TEA) - 1


@pytest.mark.parametrize("content", [[], {}, {"videos": []}, "text"])
def test_another_file_is_one_error(tmp_path, content):
    path = write_narrations(tmp_path / "n.json", content)
    with pytest.raises(LmmsEgoplanError, match=r"n\.json.*narration_pass_1"):
        read_narrations(path, (UID,))


def find(times, *segments, problems=()):
    video = Video.model_validate(goalstep_video(UID, *segments))
    narrations = tuple(
        Narration(number, time, f"C does work {number}", "unclear" if number in problems else "")
        for number, time in enumerate(times, 1)
    )
    return find_steps([video], {UID: NarratedVideo(narrations, ())})


def spans(result):
    return {step.narration.number: (step.start_sec, step.end_sec) for step in result[0]}


def test_step_starts_at_the_previous_narration():
    result = find((2.0, 5.0, 9.0, 20.0), segment(0, 30, "Work"))
    assert spans(result) == {1: (0.0, 2.0), 2: (2.0, 5.0), 3: (5.0, 9.0)}
    assert [step.step_id for step in result[0]] == ["f20fb254_n1", "f20fb254_n2", "f20fb254_n3"]
    assert [rejection.reason for rejection in result[1]] == [goalstep.LAST]


def test_step_starts_in_goalsteps_segment_except_for_egovlps_segment():
    # A mean gap of 4.9 s gives segments of one second.
    result = find(
        (5.1, 10.0, 14.9, 19.8),
        segment(0, 7, "Cut"),
        segment(7, 14.8, "Cook"),
        segment(14.8, 30, "Eat"),
    )
    assert spans(result) == {1: (0.0, 5.1), 2: (7.0, 10.0), 3: (14.4, 14.9)}


def test_goalsteps_segment_decides_if_a_step_is_made():
    segments = (
        segment(0, 10, "Cook", segment(0, 3, "cut"), segment(3, 10, "fry")),
        segment(9, 9.8, "Taste"),
        segment(12, 20, "use the phone", is_relevant="irrelevant"),
    )
    steps, rejections = find((2.0, 5.0, 9.5, 11.0, 15.0, 40.0), *segments)
    assert [(step.leaf[0].step_description, step.leaf[1]) for step in steps] == [
        ("cut", "Cook"),
        ("fry", "Cook"),
        ("Taste", "Making papadums"),
    ]
    assert [rejection.reason for rejection in rejections] == [
        reading.NO_STEP,
        goalstep.IRRELEVANT,
        reading.NO_STEP,
    ]


def test_context_is_the_neighbouring_narrations():
    times = [float(number) for number in range(1, 31)]
    steps, _ = find(times, segment(0, 40, "Work"), problems=(10,))
    (step,) = (step for step in steps if step.narration.number == 15)
    assert [narration.number for narration in step.before] == list(range(15 - NEIGHBOURS, 15))
    assert [narration.number for narration in step.after] == list(range(16, 16 + NEIGHBOURS))
    assert 10 not in {step.narration.number for step in steps}


def test_narrations_at_the_same_time_are_not_after():
    steps, rejections = find((3.0, 3.0, 6.0, 6.0), segment(0, 9, "Work"))
    assert [(step.start_sec, step.end_sec) for step in steps] == [(0.0, 3.0), (0.0, 3.0)]
    assert [narration.number for narration in steps[0].after] == [3, 4]
    assert [rejection.reason for rejection in rejections] == [goalstep.LAST] * 2
    assert find((3.0, 3.0), segment(0, 9, "Work"))[0] == []


def slow_start(times, index, boundary):
    """Compute a step's start from the docstring of `find_steps`."""
    time = times[index]
    previous = max([earlier for earlier in times if earlier < time], default=0.0)
    gap = fmean(after - before for before, after in pairwise(times))
    return max(0.0, min(max(previous, boundary), time - gap / 4.9 / 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=2, max_size=20).map(sorted), st.integers(0, 150))
def test_steps_end_at_narrations_and_contain_a_frame(hundredths, boundary):
    times = [time / 100 for time in hundredths]
    steps, rejections = find(
        times, segment(0, boundary / 10, "Cut"), segment(boundary / 10, 40, "Cook")
    )
    assert len(steps) + len(rejections) == len(times)
    for step in steps:
        assert 0 <= step.start_sec <= step.end_sec - 1 / 6 + 1e-6
        assert step.end_sec == step.narration.seconds
        assert all(narration.seconds > step.end_sec for narration in step.after)
        later = [time for time in times if time > step.end_sec]
        assert step.outcome_sec == min([*later, step.leaf[0].end_time])
        assert all(narration.seconds <= step.end_sec for narration in step.before)
        start = slow_start(times, step.narration.number - 1, step.leaf[0].start_time)
        assert step.start_sec == pytest.approx(start, abs=1e-5)
