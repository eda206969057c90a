from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.egointent.source import goalstep_video, segment
from construction.egointent.small import UID
from lmms_egoplan.construction.egointent import goalstep
from lmms_egoplan.construction.egointent import steps as making
from lmms_egoplan.construction.egointent.goalstep import Video
from lmms_egoplan.construction.egointent.narrations import NarratedVideo, Narration
from lmms_egoplan.construction.egointent.steps import NEIGHBOURS, find_steps


def find(times, *segments, problems=()):
    video = Video.model_validate(goalstep_video(UID, *segments))
    narrations = tuple(
        Narration(number, time, f"C does work {number}", "unclear" if number in problems else "")
        for number, time in enumerate(times, 1)
    )
    return find_steps([video], {UID: NarratedVideo(narrations, ())})


def spans(found):
    return {step.narration.number: (step.start_sec, step.end_sec) for step in found[0]}


def test_a_step_goes_from_the_narration_before_to_its_own():
    found = find((2.0, 5.0, 9.0, 20.0), segment(0, 30, "Work"))
    assert spans(found) == {1: (0.0, 2.0), 2: (2.0, 5.0), 3: (5.0, 9.0)}
    assert [step.step_id for step in found[0]] == ["f20fb254_n1", "f20fb254_n2", "f20fb254_n3"]
    assert [rejection.reason for rejection in found[1]] == [goalstep.LAST]


def test_it_does_not_reach_back_over_goalsteps_boundary_but_for_egovlps_segment():
    # A mean gap of 4.9 s gives segments of one second.
    found = find((5.1, 10.0, 14.9, 19.8), segment(0, 7, "Cut"), segment(7, 14.8, "Cook"), segment(14.8, 30, "Eat"))
    assert spans(found) == {1: (0.0, 5.1), 2: (7.0, 10.0), 3: (14.4, 14.9)}


def test_what_goalstep_says_around_it_counts():
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
    assert [rejection.reason for rejection in rejections] == [making.NO_STEP, goalstep.IRRELEVANT, making.NO_STEP]


def test_context_is_what_is_narrated_around_it():
    times = [float(number) for number in range(1, 31)]
    steps, _ = find(times, segment(0, 40, "Work"), problems=(10,))
    (step,) = (step for step in steps if step.narration.number == 15)
    assert [one.number for one in step.before] == list(range(15 - NEIGHBOURS, 15))
    assert [one.number for one in step.after] == list(range(16, 16 + NEIGHBOURS))
    assert 10 not in {step.narration.number for step in steps}


def test_narrations_of_one_time_are_not_what_comes_after():
    steps, rejections = find((3.0, 3.0, 6.0, 6.0), segment(0, 9, "Work"))
    assert [(step.start_sec, step.end_sec) for step in steps] == [(0.0, 3.0), (0.0, 3.0)]
    assert [one.number for one in steps[0].after] == [3, 4]
    assert [rejection.reason for rejection in rejections] == [goalstep.LAST] * 2
    assert find((3.0, 3.0), segment(0, 9, "Work"))[0] == []


def slow_start(times, place, boundary):
    """As the docstring says it."""
    time = times[place]
    former = max([other for other in times if other < time], default=0.0)
    gap = fmean(after - before for before, after in pairwise(times))
    return max(0.0, min(max(former, boundary), time - gap / 4.9 / 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=2, max_size=20).map(sorted), st.integers(0, 150))
def test_steps_end_at_narrations_and_hold_a_frame(hundredths, boundary):
    times = [time / 100 for time in hundredths]
    steps, rejections = find(times, segment(0, boundary / 10, "Cut"), segment(boundary / 10, 40, "Cook"))
    assert len(steps) + len(rejections) == len(times)
    for step in steps:
        assert 0 <= step.start_sec <= step.end_sec - 1 / 6 + 1e-6
        assert step.end_sec == step.narration.seconds
        assert all(one.seconds > step.end_sec for one in step.after)
        assert all(one.seconds <= step.end_sec for one in step.before)
        start = slow_start(times, step.narration.number - 1, step.leaf[0].start_time)
        assert step.start_sec == pytest.approx(start, abs=1e-5)
