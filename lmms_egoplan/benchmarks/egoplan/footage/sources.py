"""Find the source videos of questions and the frames that tasks need.

The module also knows the clock of the records' frame numbers.
"""

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path

import numpy as np

from lmms_egoplan.benchmarks.egoplan.records import (
    EGO4D_FPS,
    EPIC_KITCHENS,
    FIRST_FRAME,
    VideoRecord,
    frames_per_second,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.jsonl import read_csv
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import FrameError, frame_path, frame_times
from lmms_egoplan.media.layout import has_frames

_VIDEO_INFO = "EPIC_100_video_info.csv"
_NUMBERS = ("duration", "fps")
# Annotations and extracted frames may exceed the end of a video by this many frames.
_TOLERANCE = 6
# Folders with EPIC-KITCHENS-55's participants, from each level of its torrent.
_TORRENT_FOLDERS = (
    "",
    "train",
    "test",
    "rgb/train",
    "rgb/test",
    "frames_rgb_flow/rgb/train",
    "frames_rgb_flow/rgb/test",
)
# A frame's time may differ from its number by this fraction: some cameras record 29.97 frames per
# second instead of 30.
_RATE_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """An official video of EPIC-KITCHENS-100.

    Attributes:
        seconds: Duration of the video.
        fps: Frame rate of the video file. The records' frame numbers use another rate
            (`frames_per_second`).
    """

    seconds: float
    fps: float


def read_video_info(path: Path) -> dict[str, VideoInfo]:
    """Read EPIC-KITCHENS-100's videos, by id.

    Args:
        path: The official ``EPIC_100_video_info.csv``, with the columns ``video_id``, ``duration``
            and ``fps``.

    Raises:
        LmmsEgoplanError: The file cannot be read, a column is missing, or a row is wrong. Names
            line and field.
    """
    rows = read_csv(path, "list of EPIC-KITCHENS' videos")
    _, header = next(rows, (0, []))
    missing_columns = [name for name in ("video_id", *_NUMBERS) if name not in header]
    if missing_columns:
        raise LmmsEgoplanError(f"{path}: no column {', '.join(missing_columns)}; use {_VIDEO_INFO}")
    videos: dict[str, VideoInfo] = {}
    for number, cells in rows:
        row = dict(zip_longest(header, cells))
        for name in _NUMBERS:
            if not _is_positive(row[name]):
                raise LmmsEgoplanError(
                    f"{path}, line {number}: {name}: expected a number above 0, found {row[name]!r}"
                )
        videos[row["video_id"]] = VideoInfo(float(row["duration"]), float(row["fps"]))
    if not videos:
        raise LmmsEgoplanError(f"{path}: no videos; use {_VIDEO_INFO}")
    return videos


def record_problem(
    video_id: str,
    frame: int,
    videos: Mapping[str, VideoInfo],
    field: str = "current_observation_frame",
) -> str | None:
    """Describe the problem with an EPIC-KITCHENS record's `video_id` or one of its frames.

    Args:
        frame: Number of the frame, from 1.
        videos: The official videos.
        field: The record's field with the frame number.

    Returns:
        None if both are valid.
    """
    if video_id not in videos:
        return f"video_id: {video_id!r} is not one of the {len(videos)} videos in the official list"
    rate = frames_per_second(EPIC_KITCHENS, video_id)
    seconds = videos[video_id].seconds
    if frame <= math.ceil(seconds * rate) + _TOLERANCE:
        return None
    return (
        f"{field}: {frame} is at {frame / rate:.2f} s ({rate} frames per second), but {video_id} "
        f"ends at {seconds:.2f} s"
    )


def too_many_frames(video_id: str, highest: int, video: VideoInfo) -> str | None:
    """Describe the problem if a folder has more frames than its video.

    Args:
        highest: Number of the folder's last frame.

    Returns:
        None if it fits the video's length.
    """
    rate = frames_per_second(EPIC_KITCHENS, video_id)
    if highest <= video.seconds * rate * 1.01 + _TOLERANCE:
        return None
    return (
        f"frames up to number {highest}, but a video of {video.seconds:.2f} s has "
        f"{round(video.seconds * rate)} at EgoPlan's {rate} per second. They were extracted at "
        f"about {highest / video.seconds:.2f} per second; extract them at {rate}, or use "
        "EPIC-KITCHENS' own frames"
    )


def has_own_rate(video_id: str, highest: int, video: VideoInfo) -> bool:
    """Return True if a folder was extracted at the video's own rate, and EgoPlan uses another one.

    Args:
        highest: Number of the last frame of a folder without gaps.
    """
    video_frames = video.seconds * video.fps
    egoplan_frames = video.seconds * frames_per_second(EPIC_KITCHENS, video_id)
    has_video_rate = abs(highest - video_frames) <= 2
    rates_differ = abs(video_frames - egoplan_frames) / 2 > 2
    return has_video_rate and rates_differ


def first_off_clock(times: Sequence[float], rate: float) -> int | None:
    """Return the first frame of a video file that is not at its time; None if all are.

    Frame n is at its time if it comes n / `rate` seconds after the first frame, within 1 % and half
    a frame, and 0.5 to 1.5 frames after the frame before it. Elsewhere, frames are missing or
    added, or the file has another rate.

    Args:
        times: Times of the file's frames in seconds, as from `frame_times`; at least one.
        rate: Frames per second.

    >>> first_off_clock([0.0, 0.1, 0.2, 0.3], 10), first_off_clock([0.0, 0.1, 0.3, 0.4], 10)
    (None, 2)
    """
    in_frames = (np.asarray(times) - times[0]) * rate
    numbers = np.arange(len(in_frames))
    is_off = np.abs(in_frames - numbers) > _RATE_TOLERANCE * numbers + 0.5
    is_off[1:] |= np.abs(np.diff(in_frames) - 1) > 0.5
    return int(is_off.argmax()) if is_off.any() else None


def _is_positive(text: str | None) -> bool:
    try:
        number = float(text or "")
    except ValueError:
        return False
    return math.isfinite(number) and number > 0


Id = int | str
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class NeededFrames:
    """Frames of a video that questions need.

    Attributes:
        runs: First and last number of each run of frames, increasing and without overlaps.
    """

    source: str
    video_id: str
    runs: tuple[tuple[int, int], ...]

    @property
    def num_frames(self) -> int:
        """Number of frames in all runs."""
        return sum(last - first + 1 for first, last in self.runs)

    @property
    def seconds(self) -> float:
        """Duration of all runs, by the records' clock."""
        return self.num_frames / frames_per_second(self.source, self.video_id)


def needed_frames(records: Iterable[VideoRecord]) -> list[NeededFrames]:
    """Return the frames of each video that any task may read, ordered by source and id.

    >>> from types import SimpleNamespace
    >>> def record(first, last):
    ...     frames = range(first, last + 1)
    ...     return SimpleNamespace(video_source="Ego4D", video_id="v", frames=frames)
    >>> needed_frames([record(90, 99), record(0, 40), record(10, 20), record(30, 50)])
    [NeededFrames(source='Ego4D', video_id='v', runs=((0, 50), (90, 99)))]
    """
    spans: dict[tuple[str, str], list[range]] = {}
    for record in records:
        spans.setdefault((record.video_source, record.video_id), []).append(record.frames)
    needed = []
    for (source, video_id), video_spans in sorted(spans.items()):
        needed.append(NeededFrames(source, video_id, tuple(_merged(video_spans))))
    return needed


def _merged(spans: Iterable[range]) -> list[tuple[int, int]]:
    """Return first and last number of each run of frames in any of the spans."""
    merged: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(span[-1], merged[-1][1]))
        else:
            merged.append((span.start, span[-1]))
    return merged


def find_video(
    root: str | Path,
    records: Sequence[VideoRecord],
    videos: Mapping[str, VideoInfo] | None = None,
    warn: Warn | None = None,
) -> dict[Id, Footage | str]:
    """Find all frames of a video that any task may read.

    Args:
        root: Folder of Epic-Kitchens (see `frame_folder`) or Ego4D (``<video_id>.mp4``).
        records: The questions on one video, at least one.
        videos: EPIC-KITCHENS' official videos, to check the number of frames; None to skip this
            check.
        warn: Called with each warning.

    Returns:
        The footage by sample id. Questions that lack frames share one text instead, which names the
        first missing frame. So do questions that need a video file beyond its first frame that is
        not at its time (`first_off_clock`).

    Raises:
        FrameError: The video is missing or cannot be read. Frames are not numbered from 1, or were
            extracted at another rate than the records'.
        LmmsEgoplanError: The video, or a frame file that a question needs, lies outside `root`.
    """
    needed = {record.sample_id: record.frames for record in records}
    video_id = records[0].video_id
    if records[0].video_source != EPIC_KITCHENS:
        return _find_file(resolve_inside(root, f"{video_id}.mp4"), needed)
    return _find_folder(root, video_id, needed, videos.get(video_id) if videos else None, warn)


def frame_folder(root: str | Path, video_id: str) -> str:
    """Return the path of an EPIC-KITCHENS video's frames below a folder.

    It is ``P01/rgb_frames/P01_13``, as EPIC-KITCHENS-100 has it, unless the frames are in the
    layout of EPIC-KITCHENS-55's torrent: ``frames_rgb_flow/rgb/train/P01/P01_13``, or from a lower
    level than ``frames_rgb_flow``.

    Raises:
        FrameError: Both have frames of this video.
    """
    participant = video_id.split("_")[0]
    newer = f"{participant}/rgb_frames/{video_id}"
    older = [f"{parent}/{participant}/{video_id}".lstrip("/") for parent in _TORRENT_FOLDERS]
    folders = [folder for folder in (newer, *older) if has_frames(Path(root, folder))]
    if len(folders) > 1:
        raise FrameError(
            f"{Path(root, folders[0])}: {Path(root, folders[1])} also has frames of {video_id}; "
            "move one of them"
        )
    return folders[0] if folders else newer


def count_frame_folders(root: Path, video_ids: Iterable[str]) -> int:
    """Count the EPIC-KITCHENS videos that have a folder with frames."""
    participants = {video_id.split("_")[0] for video_id in video_ids}
    parents = [root / parent for parent in _TORRENT_FOLDERS]
    if not any((parent / name).is_dir() for parent in parents for name in participants):
        return 0
    count = 0
    for video_id in video_ids:
        try:
            count += has_frames(root / frame_folder(root, video_id))
        except FrameError:
            count += 1
    return count


def _find_file(path: Path, needed: Mapping[Id, range]) -> dict[Id, Footage | str]:
    times = frame_times(path)
    version = file_version(path.stat())
    last = max(span[-1] for span in needed.values())
    off_clock = first_off_clock(times, EGO4D_FPS)
    results: dict[Id, Footage | str] = {}
    for sample_id, span in needed.items():
        if off_clock is not None and off_clock <= span[-1]:
            results[sample_id] = _off_clock_problem(path, times, off_clock)
        elif span[-1] >= len(times):
            results[sample_id] = (
                f"{path}: {len(times)} frames, but questions need all up to frame {last} "
                "(counted from 0)"
            )
        else:
            results[sample_id] = Footage(path, version, span)
    return results


def _off_clock_problem(path: Path, times: Sequence[float], number: int) -> str:
    average = (len(times) - 1) / (times[-1] - times[0])
    return (
        f"{path}: frame {number} (counted from 0) is at {times[number] - times[0]:.3f} s, but at "
        f"Ego4D's {EGO4D_FPS} frames per second it belongs at {number / EGO4D_FPS:.3f} s. The file "
        f"lacks frames or has another rate (on average {average:.2f}); download the canonical "
        f"video again, or convert the file: ffmpeg -i {path.name} -vf fps={EGO4D_FPS} -crf 12 "
        "OUT.mp4"
    )


def _find_folder(
    root: str | Path,
    video_id: str,
    needed: Mapping[Id, range],
    video: VideoInfo | None,
    warn: Warn | None,
) -> dict[Id, Footage | str]:
    parts = frame_folder(root, video_id).split("/")
    folder = resolve_inside(root, *parts)
    try:
        numbers, files = _read_folder(root, parts, needed)
    except OSError as error:
        raise FrameError(f"{folder}: cannot read the frame folder: {error.strerror}") from error
    if numbers:
        _check_numbers(folder, video_id, numbers, video, warn)
    version = sha256(repr(sorted(files.items())).encode()).hexdigest()
    results: dict[Id, Footage | str] = {}
    first_gaps: dict[Id, int] = {}
    for sample_id, span in needed.items():
        results[sample_id] = Footage(folder, version, span)
        for number in span:
            if number not in files:
                first_gaps[sample_id] = number
                break
    if first_gaps:
        spans = [needed[sample_id] for sample_id in first_gaps]
        reason = (
            f"{frame_path(folder, min(first_gaps.values()))}: no such frame; questions need all "
            f"frames from {min(span.start for span in spans)} to "
            f"{max(span.stop for span in spans) - 1}"
        )
        results |= dict.fromkeys(first_gaps, reason)
    return results


def _read_folder(
    root: str | Path, parts: Sequence[str], needed: Mapping[Id, range]
) -> tuple[list[int], dict[int, str]]:
    """Return the numbers of all frames in a folder, and the versions of the needed files.

    Args:
        parts: The path of the folder below `root`.
        needed: Numbers of the frames that each question needs.

    Raises:
        LmmsEgoplanError: The folder, or a needed file that is a symbolic link, is outside `root`.
    """
    folder = resolve_inside(root, *parts)
    numbers: list[int] = []
    versions: dict[int, str] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            number = _frame_number(folder, entry.name)
            if number is None:
                continue
            numbers.append(number)
            is_needed = any(number in span for span in needed.values())
            if is_needed and entry.is_file():
                if entry.is_symlink():
                    resolve_inside(root, *parts, entry.name)  # raises if it leads outside
                versions[number] = file_version(entry.stat())
    return numbers, versions


def _check_numbers(
    folder: Path, video_id: str, numbers: Sequence[int], video: VideoInfo | None, warn: Warn | None
) -> None:
    """Check that frames are numbered from 1.

    If the video is known, they must have been extracted at the records' rate.
    """
    lowest = min(numbers)
    highest = max(numbers)
    first = FIRST_FRAME[EPIC_KITCHENS]
    if lowest < first:
        raise FrameError(
            f"{frame_path(folder, lowest)}: the frames are numbered from {lowest}, but EgoPlan "
            f"numbers EPIC-KITCHENS' frames from {first}; rename them, or use EPIC-KITCHENS' own "
            "frames"
        )
    if video is None:
        return
    problem = too_many_frames(video_id, highest, video)
    if problem:
        raise FrameError(f"{folder}: {problem}")
    has_gaps = len(numbers) != highest
    if warn and not has_gaps and has_own_rate(video_id, highest, video):
        warn(
            f"{folder}: {highest} frames in {video.seconds:.2f} s match the video's own rate of "
            f"{video.fps:.2f} per second, but EgoPlan uses "
            f"{frames_per_second(EPIC_KITCHENS, video_id)}. If they were extracted at the video's "
            "rate, the frames shown are not the annotated ones; extract them at EgoPlan's rate"
        )


def _frame_number(folder: Path, name: str) -> int | None:
    """Return the number in the name of a frame's file; None for another name."""
    digits = re.search("[0-9]+", name)
    if digits is None:
        return None
    number = int(digits[0])
    return number if frame_path(folder, number).name == name else None
