"""EPIC-KITCHENS-100's official list of videos, beside the clock by which the records count frames."""

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lmms_egoplan.benchmarks.egoplan.clock import frames_per_second
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text

VIDEO_INFO = "EPIC_100_video_info.csv"
OBSERVATION = "current_observation_frame"
_NUMBERS = ("duration", "fps")
# Frames by which annotations and extracted frames may pass the end of a video.
_ROUNDING = 6


class VideoInfo(NamedTuple):
    """An official video of EPIC-KITCHENS-100.

    seconds: that it lasts.
    fps: of the video file, which is not the rate that records count by (`frames_per_second`).
    """

    seconds: float
    fps: float


def read_video_info(path: Path) -> dict[str, VideoInfo]:
    """EPIC-KITCHENS-100's videos, by id.

    Args:
        path: the official `VIDEO_INFO`, with the columns ``video_id``, ``duration`` and ``fps``.

    Raises:
        LmmsEgoplanError: the file cannot be read, lacks a column, or a row is wrong; names line and field.
    """
    rows = csv.DictReader(io.StringIO(read_text(path, "list of EPIC-KITCHENS' videos")))
    if absent := [name for name in ("video_id", *_NUMBERS) if name not in (rows.fieldnames or ())]:
        raise LmmsEgoplanError(f"{path}: no column {', '.join(absent)}; is it {VIDEO_INFO}?")
    videos: dict[str, VideoInfo] = {}
    for row in rows:
        for name in _NUMBERS:
            if not _is_positive(row[name]):
                raise LmmsEgoplanError(
                    f"{path}, line {rows.line_num}: {name}: expected a number above 0, found {row[name]!r}"
                )
        videos[row["video_id"]] = VideoInfo(*(float(row[name]) for name in _NUMBERS))
    if not videos:
        raise LmmsEgoplanError(f"{path}: no videos; is it {VIDEO_INFO}?")
    return videos


def record_problem(video_id: str, frame: int, videos: Mapping[str, VideoInfo], field: str = OBSERVATION) -> str | None:
    """What is wrong with an EPIC-KITCHENS record's `video_id`, or with one of its frames; None if nothing is.

    Args:
        frame: number of the frame, from 1.
        videos: the official ones.
        field: of the frame.
    """
    if video_id not in videos:
        return f"video_id: {video_id!r} is none of the {len(videos)} videos of the official list"
    rate, seconds = frames_per_second(EPIC_KITCHENS, video_id), videos[video_id].seconds
    if frame <= math.ceil(seconds * rate) + _ROUNDING:
        return None
    return (
        f"{field}: {frame} is at {frame / rate:.2f} s, at {rate} frames a second, "
        f"but {video_id} ends at {seconds:.2f} s"
    )


def too_many_frames(video_id: str, highest: int, video: VideoInfo) -> str | None:
    """What is wrong with a folder of frames up to number `highest`; None unless the video is too short for them."""
    rate = frames_per_second(EPIC_KITCHENS, video_id)
    if highest <= video.seconds * rate * 1.01 + _ROUNDING:
        return None
    return (
        f"frames up to number {highest}, but {video.seconds:.2f} s have {round(video.seconds * rate)} at the {rate} a "
        f"second by which EgoPlan counts: they were extracted at about {highest / video.seconds:.2f} a second; extract "
        f"them at {rate}, or take EPIC-KITCHENS' own"
    )


def has_own_rate(video_id: str, highest: int, video: VideoInfo) -> bool:
    """Whether a folder without gaps was extracted at the video's own rate, where that is not what EgoPlan counts by."""
    own, counted = video.seconds * video.fps, video.seconds * frames_per_second(EPIC_KITCHENS, video_id)
    return abs(highest - own) <= 2 < abs(own - counted) / 2


def _is_positive(text: str | None) -> bool:
    try:
        number = float(text or "")
    except ValueError:
        return False
    return math.isfinite(number) and number > 0
