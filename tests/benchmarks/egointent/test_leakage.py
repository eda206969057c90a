"""Test that no input shows a frame at or after a step's truncation point, or before its start."""

from itertools import accumulate, cycle, islice

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egointent.frames import (
    history_start,
    num_shown,
    step_frames,
    visual_input,
)
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.paths import TASK_FOLDERS
from lmms_egoplan.task_files import read_task_file
from media.files import read_number, read_numbers, write_numbered_video

FRAMES = 120
FPS = 30
VIDEOS = {
    "constant.mp4": {},
    "variable.mp4": {"gaps": (1, 4, 2), "b_frames": 3},
    "bursts.mp4": {"gaps": (1, 1, 1, 40), "b_frames": 5, "gop": 30},
    "open_gop.mp4": {"b_frames": 3, "gop": 10, "open_gop": True},
    "one_key_frame.mkv": {"gaps": (2, 3), "gop": 1000},
    "late_start.ts": {"gaps": (3, 1), "start": 45},
}
# Every task except the one that shows frames after the cut, by its condition; None for the
# benchmark's own tasks.
CONDITIONS = {
    (task.get("metadata") or {}).get("shortcut")
    for path in TASK_FOLDERS["lmms-eval"].glob("egointent/**/egointent*.yaml")
    if "task" in (task := read_task_file(path)) and path.stem != "egointent_leakage"
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    for name, options in VIDEOS.items():
        write_numbered_video(folder / name, FRAMES, fps=FPS, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        yield folder


def times_written(name):
    """Return the second at which each number is shown, from what the test wrote."""
    gaps = cycle(VIDEOS[name].get("gaps", (1,)))
    return [units / FPS for units in accumulate(islice(gaps, FRAMES - 1), initial=0)]


def numbers_in(media, visual):
    if media == "frames":
        return read_numbers(visual)
    if media == "clip":
        return read_numbers(*visual)
    with av.open(*visual) as container:
        return [read_number(frame.to_image()) for frame in container.decode(video=0)]


@st.composite
def steps(draw):
    """Draw a video and a step that may start before it, end after it, or contain no frame."""
    name = draw(st.sampled_from(sorted(VIDEOS)))
    times = times_written(name)
    # The time of a frame is where a wrong comparison shows. An offset of 0.001 makes the rounding
    # of mkv harmless.
    edges = st.builds(
        lambda time, offset: time + offset,
        st.sampled_from(times),
        st.sampled_from([-0.001, 0.0, 0.001]),
    )
    moments = st.one_of(edges, st.floats(-0.5, times[-1] + 0.5))
    if name.endswith(".mkv"):
        moments = st.floats(-0.5, times[-1] + 0.5).map(lambda time: round(time, 2) + 0.005)
    start = draw(moments)
    return (
        name,
        start,
        draw(st.one_of(moments, st.floats(0.01, 3).map(lambda duration: start + duration))),
    )


def shown_by(condition, step, history, max_frames):
    """Return the numbers that a condition may show, and how many it shows before the limit."""
    quarter = -(-len(step) // 4)
    return {
        None: step,
        "blind": [],
        "first_frame": step[:1],
        "last_frame": step[-1:],
        "frozen": step[-1:] * len(step),
        "last_quarter": step[len(step) - quarter :],
        "without_boundary": step[: len(step) - quarter],
        "with_history": history,
    }.get(condition, step)


@pytest.mark.parametrize(
    ("media", "examples"),
    [
        *(("frames", 80), ("clip", 40), ("video", 40)),
        *(
            pytest.param(media, 300, marks=pytest.mark.nightly)
            for media in ("frames", "clip", "video")
        ),
    ],
)
def test_nothing_outside_the_step_is_shown(folder, media, examples):
    @settings(max_examples=examples)
    @given(
        steps(),
        st.one_of(st.integers(1, 12), st.just(1000)),
        st.sampled_from(sorted(CONDITIONS, key=str)),
    )
    def check(step, max_frames, condition):
        name, start, end = step
        times = times_written(name)
        inside = {number for number, time in enumerate(times) if start <= time < end}
        row = {
            "video_id": name,
            "video_path": str(folder / name),
            "start_sec": start,
            "end_sec": end,
        }
        doc = {"step_id": "s1", **row, **({"shortcut": condition} if condition else {})}
        if not inside:
            with pytest.raises(FrameError):
                visual_input(
                    row | {"step_id": "s1", "num_frames": 1},
                    {"media": media, "max_frames": max_frames},
                )
            return
        sampled = step_frames(folder / name, start, end)
        history = step_frames(folder / name, history_start(folder / name, start), end)
        assert set(history) <= {
            number for number, time in enumerate(times) if start - 10.001 <= time < end
        }
        assert set(sampled) <= inside
        counts = {"num_frames": len(sampled), "num_frames_with_history": len(history)}
        if condition == "other_video":
            doc |= {
                "partner": row | counts,
                "video_path": "/nowhere.mp4",
                "start_sec": -5.0,
                "end_sec": -4.0,
            }
        doc |= counts
        wanted = {"media": media, "max_frames": max_frames}
        visual = visual_input(doc, wanted)
        numbers = numbers_in(media, visual) if visual else []
        allowed = shown_by(condition, sampled, history, max_frames)
        assert set(numbers) <= set(allowed)
        assert len(numbers) == num_shown(doc, wanted) == min(len(allowed), max_frames)
        if condition in ("frozen", "shuffled", "reversed"):
            whole = numbers_in(media, visual_input(row | {"step_id": "s1"} | counts, wanted))
            assert numbers != whole or len(whole) == 1
            assert numbers == whole[::-1] or condition != "reversed"
            assert sorted(numbers) == whole or condition == "frozen"
        else:
            assert numbers == sorted(set(numbers))

    check()


def test_the_history_contains_the_frames_of_the_step(folder):
    """Only the first one may differ, if the step's first sample time is before its first frame."""
    for name in VIDEOS:
        for start, end in ((0.02, 1.0), (1.5, 2.2), (2.0, 3.9)):
            history = step_frames(folder / name, history_start(folder / name, start), end)
            assert set(step_frames(folder / name, start, end)[1:]) <= set(history)
            assert times_written(name)[history[0]] < 0.2  # the videos are shorter than the history


@pytest.mark.parametrize("name", VIDEOS)
def test_truncated_at_every_single_frame(folder, name):
    """A truncation at the time of a frame hides this frame, but not the one before it."""
    times = times_written(name)
    for number in range(1, FRAMES):
        end = (times[number - 1] + times[number]) / 2 if name.endswith(".mkv") else times[number]
        assert max(step_frames(folder / name, times[0], end)) < number
        assert step_frames(folder / name, times[number] - 0.002, times[-1] + 1)[0] == number


def test_a_video_cut_before_the_truncation_point_gives_the_same(folder, tmp_path):
    """Frames at or after the truncation point do not affect the result: without them, the same
    frames are shown.
    """
    for name in ("constant.mp4", "variable.mp4"):
        times = times_written(name)
        for end in (50, 51, 53):
            frames_of_whole_video = step_frames(folder / name, times[20], times[end])
            cut = write_numbered_video(tmp_path / f"{end}_{name}", end, fps=FPS, **VIDEOS[name])
            assert step_frames(cut, times[20], times[end]) == frames_of_whole_video
            assert set(frames_of_whole_video) <= set(range(20, end))
