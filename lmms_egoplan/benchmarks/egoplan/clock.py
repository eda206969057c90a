"""The clock of the records' frame numbers, and EPIC-KITCHENS-100's list of videos, by which they can be checked."""

import csv
import io
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text

# EPIC-KITCHENS-100's newer videos, such as P01_103, have 50 frames a second. The frames of the older ones, such as
# P01_13, were extracted at 60, whatever the video itself has: 59.94, and in nine videos 29.97, 47.95 or 90. So count
# the start and stop frames of EPIC_100_validation.csv. Ego4D's canonical videos have 30.
_NEWER = re.compile(r"P\d\d_1\d\d")
_NEWER_FPS, _OLDER_FPS = 50, 60
EGO4D_FPS = 30

_VIDEO_INFO = "EPIC_100_video_info.csv"
_NUMBERS = ("duration", "fps")
# Annotations and extracted frames may exceed the end of a video by this many frames.
_TOLERANCE = 6


class VideoInfo(NamedTuple):
    """An official video of EPIC-KITCHENS-100.

    seconds: its duration.
    fps: the video file's rate, which is not the rate by which records count (`frames_per_second`).
    """

    seconds: float
    fps: float


def frames_per_second(source: str, video_id: str) -> int:
    """Return how many frames the records count for a second of a video.

    >>> frames_per_second("EpicKitchens", "P01_13"), frames_per_second("EpicKitchens", "P01_103")
    (60, 50)
    """
    if source != EPIC_KITCHENS:
        return EGO4D_FPS
    return _NEWER_FPS if _NEWER.fullmatch(video_id) else _OLDER_FPS


def read_video_info(path: Path) -> dict[str, VideoInfo]:
    """Read EPIC-KITCHENS-100's videos, by id.

    Args:
        path: the official ``EPIC_100_video_info.csv``, with the columns ``video_id``, ``duration`` and ``fps``.

    Raises:
        LmmsEgoplanError: the file cannot be read, lacks a column, or a row is wrong; names line and field.
    """
    rows = csv.DictReader(io.StringIO(read_text(path, "list of EPIC-KITCHENS' videos")))
    if absent := [name for name in ("video_id", *_NUMBERS) if name not in (rows.fieldnames or ())]:
        raise LmmsEgoplanError(f"{path}: no column {', '.join(absent)}; is it {_VIDEO_INFO}?")
    videos: dict[str, VideoInfo] = {}
    for row in rows:
        for name in _NUMBERS:
            if not _is_positive(row[name]):
                raise LmmsEgoplanError(
                    f"{path}, line {rows.line_num}: {name}: expected a number above 0, found {row[name]!r}"
                )
        videos[row["video_id"]] = VideoInfo(float(row["duration"]), float(row["fps"]))
    if not videos:
        raise LmmsEgoplanError(f"{path}: no videos; is it {_VIDEO_INFO}?")
    return videos


def record_problem(
    video_id: str, frame: int, videos: Mapping[str, VideoInfo], field: str = "current_observation_frame"
) -> str | None:
    """Say what is wrong with the `video_id` of an EPIC-KITCHENS record, or with one of its frames; None if nothing is.

    Args:
        frame: its number, from 1.
        videos: the official ones.
        field: the frame's, in the record.
    """
    if video_id not in videos:
        return f"video_id: {video_id!r} is none of the {len(videos)} videos of the official list"
    rate, seconds = frames_per_second(EPIC_KITCHENS, video_id), videos[video_id].seconds
    if frame <= math.ceil(seconds * rate) + _TOLERANCE:
        return None
    return (
        f"{field}: {frame} is at {frame / rate:.2f} s, at {rate} frames a second, "
        f"but {video_id} ends at {seconds:.2f} s"
    )


def too_many_frames(video_id: str, highest: int, video: VideoInfo) -> str | None:
    """Say what is wrong with a folder of frames up to number `highest`; None if the video is long enough for them."""
    rate = frames_per_second(EPIC_KITCHENS, video_id)
    if highest <= video.seconds * rate * 1.01 + _TOLERANCE:
        return None
    return (
        f"frames up to number {highest}, but {video.seconds:.2f} s have {round(video.seconds * rate)} at the {rate} a "
        f"second by which EgoPlan counts: they were extracted at about {highest / video.seconds:.2f} a second; extract "
        f"them at {rate}, or take EPIC-KITCHENS' own"
    )


def has_own_rate(video_id: str, highest: int, video: VideoInfo) -> bool:
    """Check for a folder without gaps that was extracted at the video's own rate, where EgoPlan counts by another."""
    own, counted = video.seconds * video.fps, video.seconds * frames_per_second(EPIC_KITCHENS, video_id)
    return abs(highest - own) <= 2 < abs(own - counted) / 2


def _is_positive(text: str | None) -> bool:
    try:
        number = float(text or "")
    except ValueError:
        return False
    return math.isfinite(number) and number > 0
