from fractions import Fraction
from itertools import accumulate, cycle, islice, pairwise
from pathlib import Path

import av
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egointent.frames import (
    media_shown,
    num_shown,
    step_frames,
    thin,
    visual_input,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import FrameError, count_video_frames, frame_times, read_video_frames
from media.files import SIZE, read_numbers, write_numbered_video

FRAMES = 150
# Frames per second, and durations of successive frames in units of one frame.
RATES = {
    "constant": (30, (1,)),
    "other": (25, (1,)),
    "sparse": (4, (1,)),
    "variable": (30, (1, 4, 2, 17)),
}


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("steps")
    for name, (fps, gaps) in RATES.items():
        write_numbered_video(folder / f"{name}.mp4", FRAMES, fps=fps, gaps=gaps, gop=30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        yield folder


def row(path, start, end, **changes):
    doc = {
        "step_id": "v_7",
        "video_id": path.stem,
        "video_path": str(path),
        "start_sec": start,
        "end_sec": end,
    }
    return {**doc, "num_frames": len(step_frames(path, start, end))} | changes


def slow_selection(times, start, end):
    """Exact fractions and no clever search."""
    inside = [position for position, time in enumerate(times) if start <= time < end]
    chosen = []
    sample = start
    while sample < end and inside:
        chosen.append(
            ([position for position in inside if times[position] <= sample] or inside[:1])[-1]
        )
        sample += Fraction(1, 6)
    return sorted(set(chosen))


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(RATES)),
    st.integers(-60, 25 * 300),
    st.integers(1, 12 * 300),
    st.sampled_from([300, 90, 7]),
)
def test_frames_equal_the_slow_selection(folder, name, start, length, grid):
    """On grids that share frame times and sample times, where floats go wrong, and on one that does
    not.
    """
    fps, gaps = RATES[name]
    times = [
        Fraction(units, fps) for units in accumulate(islice(cycle(gaps), FRAMES - 1), initial=0)
    ]
    start, end = Fraction(start, grid), Fraction(start + length, grid)
    expected = slow_selection(times, start, end)
    path = folder / f"{name}.mp4"
    if expected:
        assert step_frames(path, float(start), float(end)) == expected
    else:
        with pytest.raises(FrameError, match="no frame from"):
            step_frames(path, float(start), float(end))


def test_six_per_second(folder):
    assert step_frames(folder / "constant.mp4", 1.0, 2.0) == [30, 35, 40, 45, 50, 55]
    assert step_frames(folder / "constant.mp4", 0.01, 0.35) == [1, 5, 10]
    assert step_frames(folder / "sparse.mp4", 1.0, 2.0) == [4, 5, 6, 7]
    assert step_frames(folder / "constant.mp4", 4.9, 1e9) == [147, 149]
    assert len(step_frames(folder / "constant.mp4", 0.0, 1.87)) == 12


@pytest.mark.parametrize(
    ("start", "end"),
    [(5.0, 6.0), (1.001, 1.002), (2.0, 1.0), (1.0, 1.0), (float("nan"), 1.0), (1.0, float("nan"))],
)
def test_error_for_a_step_without_frames(folder, start, end):
    path = folder / "constant.mp4"
    with pytest.raises(
        FrameError, match=rf"constant.mp4: no frame from {start} s to before {end} s.* 0.0 to 4.96"
    ):
        step_frames(path, start, end)
    doc = {
        "step_id": "v_7",
        "video_id": "v",
        "video_path": str(path),
        "start_sec": start,
        "end_sec": end,
    }
    with pytest.raises(FrameError, match=rf"step v_7: .*constant.mp4: no frame from {start} s"):
        visual_input(doc | {"num_frames": 3}, {"media": "frames", "max_frames": 8})


@given(st.lists(st.integers(0, 10_000), min_size=1, unique=True).map(sorted), st.integers(1, 40))
def test_thinning_is_uniform(positions, limit):
    selected = thin(positions, limit)
    assert len(selected) == min(len(positions), limit)
    assert selected[-1] == positions[-1]
    if limit > 1:
        assert selected[0] == positions[0]
        indexes = [positions.index(position) for position in selected]
        steps = [after - before for before, after in pairwise(indexes)]
        assert not steps or (min(steps) >= 1 and max(steps) - min(steps) <= 1)


def test_thinned_examples():
    assert thin(range(10, 20), 4) == [10, 13, 16, 19]
    assert thin([4, 9, 11], 3) == [4, 9, 11]
    assert thin([4, 9, 11], 1) == [11]


def test_the_three_media_show_the_same(folder):
    doc = row(folder / "variable.mp4", 2.0, 6.0)
    for max_frames, count in ((5, 5), (1, 1), (1000, doc["num_frames"])):
        setting = {"max_frames": max_frames, "fps": 1}
        images = visual_input(doc, setting | {"media": "frames"})
        assert (len(images), {image.size for image in images}) == (count, {SIZE})
        numbers = read_numbers(images)
        assert read_numbers(*visual_input(doc, setting | {"media": "clip"})) == numbers
        (path,) = visual_input(doc, setting | {"media": "video"})
        assert read_numbers(read_video_frames(path, range(count_video_frames(path)))) == numbers
        assert {
            num_shown(doc, setting | {"media": media}) for media in ("frames", "clip", "video")
        } == {count}


def test_clip_file_keeps_the_speed(folder):
    doc = row(folder / "constant.mp4", 1.0, 4.5)
    for max_frames, rate in ((1000, 6), (11, 3), (1, 6)):
        (path,) = visual_input(doc, {"media": "video", "max_frames": max_frames})
        with av.open(path) as container:
            stream = container.streams.video[0]
            assert (stream.codec_context.name, stream.average_rate) == ("h264", rate)


def test_clip_file_is_written_once_for_a_step_and_a_video(tmp_path, folder):
    path = write_numbered_video(tmp_path / "v.mp4", 90)
    setting = {"media": "video", "max_frames": 8}
    (first,) = visual_input(row(path, 1.0, 2.5), setting)
    written = Path(first).stat().st_mtime_ns
    assert Path(first).parent == folder / "data" / "egointent" / "clips"
    assert Path(first).name.startswith("v_1.0_2.5_")
    assert visual_input(row(path, 1.0, 2.5), setting) == [first]
    assert Path(first).stat().st_mtime_ns == written
    other_files = [
        visual_input(row(path, 1.0, 2.4), setting),
        visual_input(row(path, 1.0, 2.5), setting | {"max_frames": 7}),
    ]
    write_numbered_video(path, 95, gop=7)
    other_files.append(visual_input(row(path, 1.0, 2.5), setting))
    assert len({first, *(other_file for (other_file,) in other_files)}) == 4


def test_a_long_step_is_written_in_batches(tmp_path):
    path = write_numbered_video(tmp_path / "long.mp4", 300, fps=6)
    (clip,) = visual_input(row(path, 1.0, 41.0), {"media": "video", "max_frames": 1000})
    assert read_numbers(read_video_frames(clip, range(count_video_frames(clip)))) == list(
        range(6, 246)
    )


def test_video_changed_after_prepare_is_refused(folder):
    doc = row(folder / "constant.mp4", 1.0, 2.0, num_frames=9)
    for media in ("frames", "clip", "video"):
        with pytest.raises(
            FrameError, match=r"step v_7: .*: 6 frames from 1.0 s .* but 9 when .* prepared"
        ):
            visual_input(doc, {"media": media, "max_frames": 8})


def test_missing_and_damaged_videos_are_errors(tmp_path, folder):
    doc = row(folder / "constant.mp4", 1.0, 2.0, video_id="gone")
    content = (folder / "constant.mp4").read_bytes()
    (tmp_path / "half.mp4").write_bytes(content[: len(content) // 2])
    for name, message in (
        ("gone.mp4", "cannot open the video"),
        ("half.mp4", "cannot read the video"),
    ):
        with pytest.raises(FrameError, match=rf"step v_7: .*{name}: {message}"):
            visual_input(
                doc | {"video_path": str(tmp_path / name)}, {"media": "video", "max_frames": 8}
            )
    assert not list((folder / "data").rglob("gone*"))


def test_an_unknown_condition_is_refused():
    """It would show all frames."""
    doc = {"num_frames": 30, "shortcut": "middle_frame"}
    with pytest.raises(LmmsEgoplanError, match="middle_frame"):
        num_shown(doc, {"media": "frames", "max_frames": 8})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({}, "media must be frames, clip or video, got None"),
        ({"media": "clips", "max_frames": 8}, "got 'clips'"),
        ({"media": "frames"}, "frames needs max_frames.* got None"),
        ({"media": "clip", "max_frames": 0}, "at least 1, got 0"),
        ({"media": "video", "max_frames": True}, "got True"),
        ({"media": "video", "max_frames": "8"}, "got '8'"),
    ],
)
def test_wrong_settings_are_named(folder, setting, message):
    doc = row(folder / "constant.mp4", 1.0, 2.0)
    for ask in (visual_input, num_shown):
        with pytest.raises(LmmsEgoplanError, match=message):
            ask(doc, setting)


@pytest.mark.parametrize(
    ("name", "start", "end", "max_frames", "rate"),
    [
        ("constant", 1.0, 4.5, 1000, 6),
        ("constant", 1.0, 4.5, 11, 3),  # 11 of 21
        ("other", 0.1, 3.0, 1000, 6),  # 25 frames per second are no multiple of 6
        ("sparse", 1.0, 3.0, 1000, 4),
        ("sparse", 1.0, 3.25, 5, 2),  # 5 of 9, of a video with 4 per second
        ("sparse", 1.0, 1.5, 1000, 4),
        ("constant", 1.0, 1.3, 1000, 6),
        ("constant", 1.0, 4.5, 2, Fraction(6, 20)),
    ],
)
def test_a_clip_has_its_true_rate(folder, name, start, end, max_frames, rate):
    doc = row(folder / f"{name}.mp4", start, end)
    (clip,) = visual_input(doc, {"media": "clip", "max_frames": max_frames})
    assert clip.fps == pytest.approx(float(rate))
    (path,) = visual_input(doc, {"media": "video", "max_frames": max_frames})
    with av.open(path) as container:
        assert float(container.streams.video[0].average_rate) == pytest.approx(float(rate))


def test_a_rate_over_gaps_is_the_mean(folder):
    """Gaps between frames are up to 17/30 s."""
    doc = row(folder / "variable.mp4", 2.0, 6.0)
    (clip,) = visual_input(doc, {"media": "clip", "max_frames": 1000})
    times = frame_times(doc["video_path"])
    positions = step_frames(doc["video_path"], 2.0, 6.0)
    assert clip.fps == pytest.approx(
        (len(positions) - 1) / (times[positions[-1]] - times[positions[0]])
    )
    assert clip.fps < 6


def test_one_frame_has_no_rate(folder):
    (clip,) = visual_input(
        row(folder / "constant.mp4", 1.0, 4.5), {"media": "clip", "max_frames": 1}
    )
    assert (len(clip), clip.fps) == (1, None)


@pytest.mark.parametrize(
    ("media", "max_frames", "takes_video", "expected"),
    [
        ("clip", 8, True, "video"),
        ("clip", 1, True, "images"),
        ("clip", 8, False, "images"),
        ("clip", 8, None, "clip"),
        ("frames", 8, True, "images"),
        ("video", 8, None, "video file"),
    ],
)
def test_media_names_the_form_shown(folder, media, max_frames, takes_video, expected):
    doc = row(folder / "constant.mp4", 1.0, 4.5)
    assert (
        media_shown(doc, {"media": media, "max_frames": max_frames}, takes_video=takes_video)
        == expected
    )
