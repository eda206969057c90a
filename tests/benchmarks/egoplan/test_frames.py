"""Test which frames of a question's progress are selected."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egoplan.frames import clip_frames, uniform_frames

# The published example record: sample 115, "store cereal".
PAST = [(36, 105), (111, 253), (274, 456), (457, 606), (689, 760)]

frames = st.integers(0, 500)


@st.composite
def progress(draw):
    """Draw overlapping actions, ordered by start.

    None starts after the observation; some end after it.
    """
    observation = draw(st.integers(0, 2000))
    starts = sorted(draw(st.lists(st.integers(0, observation), max_size=8)))
    return [(start, start + draw(frames)) for start in starts], observation


def test_published_example():
    assert uniform_frames(PAST, 760) == [36, 139, 243, 346, 450, 553, 657, 760]
    clips = clip_frames(PAST, 760)
    ends = [(clip[0], clip[-1], len(clip)) for clip in clips]
    assert ends == [(111, 253, 8), (274, 456, 8), (457, 606, 8), (689, 760, 8)]


def test_special_cases():
    """Special cases: the first step of a task, short spans and actions, one frame, actions after
    the observation.
    """
    assert (uniform_frames([], 760), clip_frames([], 760)) == ([760], [])
    assert (uniform_frames([(5, 6)], 7), uniform_frames([(7, 9)], 7)) == ([5, 6, 7], [7])
    assert clip_frames([(3, 3), (4, 6)], 9, frames_per_clip=4) == [[3, 3, 3, 3], [4, 5, 5, 6]]
    assert (uniform_frames(PAST, 760, 1), clip_frames(PAST, 760, 2, 1)) == ([760], [[606], [760]])
    assert clip_frames([(10, 90), (20, 30)], 25, frames_per_clip=4) == [
        [10, 15, 20, 25],
        [20, 22, 23, 25],
    ]


@given(progress(), st.integers(1, 20))
@example(([(0, 0)], 61), 15)  # floating point rounds half a frame up
def test_uniform_frames_are_evenly_spaced_and_end_with_the_observation(progress, num_frames):
    past, observation = progress
    numbers = uniform_frames(past, observation, num_frames)
    first = past[0][0] if past else observation
    assert numbers[-1] == observation
    assert len(numbers) == min(num_frames, observation - first + 1)
    assert all(a < b for a, b in pairwise(numbers))
    if len(numbers) > 1:
        step = Fraction(observation - first, len(numbers) - 1)
        assert all(
            abs(number - first - i * step) <= Fraction(1, 2) for i, number in enumerate(numbers)
        )


@given(progress(), st.integers(1, 6), st.integers(1, 12))
def test_clips_stay_inside_their_actions_and_before_the_observation(
    progress, num_clips, frames_per_clip
):
    past, observation = progress
    clips = clip_frames(past, observation, num_clips, frames_per_clip)
    assert len(clips) == min(num_clips, len(past))
    for clip, (start, stop) in zip(reversed(clips), reversed(past), strict=False):
        last = min(stop, observation)
        assert len(clip) == frames_per_clip
        assert clip[-1] == last
        assert clip[0] >= start
        assert all(a <= b for a, b in pairwise(clip))
        assert len(set(clip)) == min(frames_per_clip, last - start + 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uniform_frames(PAST, 760, 0), "num_frames .* 1, got 0"),
        (lambda: clip_frames(PAST, 760, 0, 8), "num_clips .* 1, got 0"),
        (lambda: clip_frames(PAST, 760, 4, -1), "frames_per_clip .* 1, got -1"),
        (lambda: uniform_frames(PAST, 600), "689-760 .* 600"),
        (lambda: clip_frames([(9, 8)], 10), "9-8 .* 10"),
    ],
)
def test_rejects_impossible_counts_and_actions(call, message):
    with pytest.raises(ValueError, match=message):
        call()
