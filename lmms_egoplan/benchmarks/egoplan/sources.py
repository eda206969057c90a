"""The questions' videos on disk: whether the frames are there, and what tells versions of a file apart."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS, Shown
from lmms_egoplan.media.frames import FrameError, check_frame_folder, check_video_frames, count_video_frames, frame_path
from lmms_egoplan.storage import file_version, resolve_inside


@dataclass(frozen=True)
class Video:
    """What was found of a video.

    path: absolute path of the video file or frame folder.
    version: another text once a file that a question may read has changed.
    missing: sample ids of the questions that need frames which are not there.
    reason: what is wrong; None if nothing is missing.
    """

    path: Path
    version: str
    missing: tuple[int, ...] = ()
    reason: str | None = None


def check_video(root: str | Path, records: Sequence[Shown]) -> Video:
    """Look for all frames of a video that any layout may read: from the first past action's start to the observation.

    Args:
        root: of Epic-Kitchens (``P01/rgb_frames/P01_13/frame_0000000760.jpg``) or Ego4D (``<video_id>.mp4``).
        records: the questions on one video, at least one.

    Raises:
        FrameError: the video is absent or cannot be read.
        LmmsEgoplanError: the video, or a frame file that a question needs, lies outside `root`.
    """
    video_id = records[0].video_id
    if records[0].video_source == EPIC_KITCHENS:
        return _check_folder(root, (video_id.split("_")[0], "rgb_frames", video_id), records)
    path = resolve_inside(root, f"{video_id}.mp4")
    length = count_video_frames(path)
    missing = [record for record in records if record.current_observation_frame >= length]
    if not missing:
        return Video(path, file_version(path.stat()))
    last = max(record.current_observation_frame for record in missing)
    reason = f"{path}: {length} frames, but questions need them up to frame {last} (counted from 0)"
    return Video(path, file_version(path.stat()), tuple(record.sample_id for record in missing), reason)


def _check_folder(root: str | Path, parts: tuple[str, ...], records: Sequence[Shown]) -> Video:
    folder = resolve_inside(root, *parts)
    needed = {record.sample_id: _needed_frames(record) for record in records}
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
    if not gaps:
        return Video(folder, version)
    spans = [needed[sample_id] for sample_id in gaps]
    reason = (
        f"{frame_path(folder, min(gaps.values()))}: no such frame; questions need all from "
        f"{min(span.start for span in spans)} to {max(span.stop for span in spans) - 1}"
    )
    return Video(folder, version, tuple(gaps), reason)


def damaged_questions(path: Path, records: Sequence[Shown], advance: Callable[[], None]) -> dict[int, str]:
    """Decode all frames of a video that any layout may read, each once.

    Args:
        path: of the video, which holds all these frames.
        records: the questions on it.
        advance: called after each of the `frames_to_verify`.

    Returns:
        By sample id of the questions with damaged frames, what is wrong with the first one.

    Raises:
        FrameError: the video has changed since it was checked.
    """
    check = check_frame_folder if records[0].video_source == EPIC_KITCHENS else check_video_frames
    damaged: dict[int, str] = {}
    for number, error in check(path, frames_to_verify(records)):
        advance()
        if error is not None:
            damaged[number] = str(error)
    first = {record.sample_id: next(filter(damaged.get, _needed_frames(record)), None) for record in records}
    return {sample_id: damaged[number] for sample_id, number in first.items() if number is not None}


def frames_to_verify(records: Sequence[Shown]) -> set[int]:
    """Numbers of all frames that any layout may read for these questions on one video."""
    return set().union(*map(_needed_frames, records))


def _needed_frames(record: Shown) -> range:
    starts = [action.start_frame for action in record.past_actions[:1]]
    return range(*starts or [record.current_observation_frame], record.current_observation_frame + 1)


def _frame_number(folder: Path, name: str) -> int | None:
    digits = re.search("[0-9]+", name)
    if digits is None or frame_path(folder, int(digits[0])).name != name:
        return None
    return int(digits[0])
