"""The questions' videos on disk: whether the frames are there, and what tells versions of a file apart."""

import os
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS, Record
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import FrameError, count_video_frames, frame_path
from lmms_egoplan.storage import file_version, resolve_inside


def find_video(root: str | Path, records: Sequence[Record]) -> dict[int, Footage | str]:
    """Look for all frames of a video that any layout may read: from the first past action's start to the observation.

    Args:
        root: of Epic-Kitchens (``P01/rgb_frames/P01_13/frame_0000000760.jpg``) or Ego4D (``<video_id>.mp4``).
        records: the questions on one video, at least one.

    Returns:
        By sample id the footage, or, with the same text for all questions that lack frames, which ones are not there.

    Raises:
        FrameError: the video is absent or cannot be read.
        LmmsEgoplanError: the video, or a frame file that a question needs, lies outside `root`.
    """
    video_id = records[0].video_id
    needed = {record.sample_id: _needed_frames(record) for record in records}
    if records[0].video_source == EPIC_KITCHENS:
        return _find_folder(root, (video_id.split("_")[0], "rgb_frames", video_id), needed)
    path = resolve_inside(root, f"{video_id}.mp4")
    length = count_video_frames(path)
    version = file_version(path.stat())
    last = max(span[-1] for span in needed.values())
    reason = f"{path}: {length} frames, but questions need them up to frame {last} (counted from 0)"
    return {
        sample_id: reason if span[-1] >= length else Footage(path, version, span) for sample_id, span in needed.items()
    }


def _find_folder(root: str | Path, parts: tuple[str, ...], needed: dict[int, range]) -> dict[int, Footage | str]:
    folder = resolve_inside(root, *parts)
    files: dict[int, str] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                number = _frame_number(folder, entry.name)
                if number is None or not any(number in span for span in needed.values()) or not entry.is_file():
                    continue
                if entry.is_symlink():
                    resolve_inside(root, *parts, entry.name)
                files[number] = file_version(entry.stat())
    except OSError as error:
        raise FrameError(f"{folder}: cannot read the frame folder: {error.strerror}") from error
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


def _needed_frames(record: Record) -> range:
    starts = [action.start_frame for action in record.past_actions[:1]]
    return range(*starts or [record.current_observation_frame], record.current_observation_frame + 1)


def _frame_number(folder: Path, name: str) -> int | None:
    digits = re.search("[0-9]+", name)
    if digits is None or frame_path(folder, int(digits[0])).name != name:
        return None
    return int(digits[0])
