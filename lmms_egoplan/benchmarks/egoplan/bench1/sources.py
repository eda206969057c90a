"""The questions' videos on disk: whether the frames are there, and what tells versions of a file apart."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.clock import frames_per_second
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS, FIRST_FRAME, Shown
from lmms_egoplan.benchmarks.egoplan.sources import find_video_file, needed_frames
from lmms_egoplan.benchmarks.egoplan.video_info import VideoInfo, has_own_rate, too_many_frames
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import FrameError, frame_path


def find_video(
    root: str | Path,
    records: Sequence[Shown],
    videos: Mapping[str, VideoInfo] | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> dict[int, Footage | str]:
    """Look for all frames of a video that any layout may read: from the first past action's start to the observation.

    Args:
        root: of Epic-Kitchens (``P01/rgb_frames/P01_13/frame_0000000760.jpg``) or Ego4D (``<video_id>.mp4``).
        records: the questions on one video, at least one.
        videos: EPIC-KITCHENS' official ones, with which the number of frames must agree; not checked without.
        warn: told what seems wrong and may not be.

    Returns:
        By sample id the footage, or, with the same text for all questions that lack frames, which ones are not there.

    Raises:
        FrameError: the video is absent or cannot be read; frames that are not numbered from 1, or were extracted at
            another rate than the records count by.
        LmmsEgoplanError: the video, or a frame file that a question needs, lies outside `root`.
    """
    if records[0].video_source != EPIC_KITCHENS:
        return find_video_file(root, records)
    video_id = records[0].video_id
    needed = {record.sample_id: needed_frames(record) for record in records}
    video = None if videos is None else videos.get(video_id)
    return _find_folder(root, (video_id.split("_")[0], "rgb_frames", video_id), needed, video, warn)


def _find_folder(
    root: str | Path,
    parts: tuple[str, ...],
    needed: dict[int, range],
    video: VideoInfo | None,
    warn: Callable[[str], None],
) -> dict[int, Footage | str]:
    folder = resolve_inside(root, *parts)
    files: dict[int, str] = {}
    count, lowest, highest = 0, sys.maxsize, -1
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                number = _frame_number(folder, entry.name)
                if number is None:
                    continue
                count, lowest, highest = count + 1, min(lowest, number), max(highest, number)
                if not any(number in span for span in needed.values()) or not entry.is_file():
                    continue
                if entry.is_symlink():
                    resolve_inside(root, *parts, entry.name)
                files[number] = file_version(entry.stat())
    except OSError as error:
        raise FrameError(f"{folder}: cannot read the frame folder: {error.strerror}") from error
    if count:
        _check_numbers(folder, parts[-1], lowest, highest, count, video, warn)
    version = sha256(repr(sorted(files.items())).encode()).hexdigest()
    first_missing = {
        sample_id: next((number for number in span if number not in files), None) for sample_id, span in needed.items()
    }
    gaps = {sample_id: number for sample_id, number in first_missing.items() if number is not None}
    reason = ""
    if gaps:
        spans = [needed[sample_id] for sample_id in gaps]
        reason = (
            f"{frame_path(folder, min(gaps.values()))}: no such frame; questions need all from "
            f"{min(span.start for span in spans)} to {max(span.stop for span in spans) - 1}"
        )
    return {
        sample_id: reason if sample_id in gaps else Footage(folder, version, span) for sample_id, span in needed.items()
    }


def _check_numbers(
    folder: Path,
    video_id: str,
    lowest: int,
    highest: int,
    count: int,
    video: VideoInfo | None,
    warn: Callable[[str], None],
) -> None:
    first = FIRST_FRAME[EPIC_KITCHENS]
    if lowest < first:
        raise FrameError(
            f"{frame_path(folder, lowest)}: the frames are numbered from {lowest}, and EgoPlan counts EPIC-KITCHENS' "
            f"from {first}; rename them, or take EPIC-KITCHENS' own"
        )
    if video is None:
        return
    if problem := too_many_frames(video_id, highest, video):
        raise FrameError(f"{folder}: {problem}")
    if count == highest and has_own_rate(video_id, highest, video):
        warn(
            f"{folder}: {highest} frames in {video.seconds:.2f} s are the video's own {video.fps:.2f} a second, and "
            f"EgoPlan counts {frames_per_second(EPIC_KITCHENS, video_id)}. If they were extracted at its own rate, "
            "other frames than the annotated ones are shown"
        )


def _frame_number(folder: Path, name: str) -> int | None:
    digits = re.search("[0-9]+", name)
    if digits is None or frame_path(folder, int(digits[0])).name != name:
        return None
    return int(digits[0])
