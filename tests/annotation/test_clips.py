"""Create pictures and clips for annotators."""

import os
import subprocess
import sys
from hashlib import sha256

import pytest

from lmms_egoplan.annotation.clips import Cut, MediaFolder, Still
from lmms_egoplan.media.frames import count_video_frames, read_video_frames, write_video
from media.files import number_image, read_number, write_numbered_video

_MAKE = """
import sys
from pathlib import Path
from lmms_egoplan.annotation.clips import Cut, MediaFolder
MediaFolder(Path(sys.argv[1])).make_all([Cut(sys.argv[2], tuple(range(40)), 10.0)])
"""


@pytest.fixture
def video(tmp_path):
    return str(write_numbered_video(tmp_path / "video.mp4", 60))


def test_make_all_reuses_existing_files_and_reports_problems(video, tmp_path):
    folder = MediaFolder(tmp_path / "labels.sqlite.media")
    good = [Cut(video, tuple(range(first, first + 5)), 10.0) for first in range(9)] + [
        Still(video, 7)
    ]
    missing = [Still(str(tmp_path / "gone.mp4"), 3), Cut(video, (58, 59, 60), 10.0)]
    before = folder.file(good[3]).stat().st_mtime_ns
    problems = folder.make_all([*good, *missing])
    assert len(problems) == 2
    assert any("gone.mp4" in problem for problem in problems)
    assert len(list((tmp_path / "labels.sqlite.media").iterdir())) == len(good)
    assert folder.file(good[3]).stat().st_mtime_ns == before
    assert (tmp_path / "labels.sqlite.media").stat().st_mode & 0o777 == 0o700
    for first, clip in enumerate(good[:9]):
        path = folder.file(clip)
        frames = read_video_frames(path, range(count_video_frames(path)))
        assert [read_number(frame) for frame in frames] == list(range(first, first + 5))


def test_clip_height_is_limited(video, tmp_path):
    (whole,) = read_video_frames(video, [0])
    for height, expected in (
        (whole.height // 2, whole.height // 2),
        (whole.height * 2, whole.height),
    ):
        folder = MediaFolder(tmp_path / "media", height)
        (frame,) = read_video_frames(folder.file(Cut(video, (1,), 10.0)), [0])
        assert (frame.width, frame.height) == (whole.width * expected // whole.height, expected)
        assert folder.file(Cut(video, (1,), 10.0)) != MediaFolder(tmp_path / "media", 17).file(
            Cut(video, (1,), 10.0)
        )


@pytest.mark.nightly
@pytest.mark.skipif(os.cpu_count() == 1, reason="one core")
def test_clip_bytes_do_not_depend_on_the_number_of_cores(tmp_path):
    video, digests = str(tmp_path / "large.mp4"), set()
    write_video(
        tmp_path / "large.mp4",
        [number_image(number).resize((640, 480)) for number in range(40)],
        10.0,
    )
    for name, cores in (("one", {0}), ("all", os.sched_getaffinity(0))):
        subprocess.run(
            [sys.executable, "-c", _MAKE, tmp_path / name, video],
            check=True,
            preexec_fn=lambda cores=cores: os.sched_setaffinity(0, cores),
        )
        (clip,) = (tmp_path / name).iterdir()
        digests.add(sha256(clip.read_bytes()).hexdigest())
    assert len(digests) == 1
