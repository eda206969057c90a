"""The source videos of questions: which frames are needed of them, and whether these are on disk."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from lmms_egoplan.benchmarks.egoplan.clock import VideoInfo, frames_per_second, has_own_rate, too_many_frames
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS, FIRST_FRAME, Shown
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import FrameError, count_video_frames, frame_path

Id = int | str
Warn = Callable[[str], None]


@dataclass(frozen=True)
class NeededFrames:
    """Frames of a video that questions need: first and last number of each run, increasing, without overlaps."""

    source: str
    video_id: str
    runs: tuple[tuple[int, int], ...]

    @property
    def num_frames(self) -> int:
        """Frames of all runs."""
        return sum(last - first + 1 for first, last in self.runs)

    @property
    def seconds(self) -> float:
        """Duration of all runs, by the records' clock."""
        return self.num_frames / frames_per_second(self.source, self.video_id)


def needed_frames(records: Iterable[Shown]) -> list[NeededFrames]:
    """Return the frames that any task may read, of each video, by source and id.

    >>> from types import SimpleNamespace
    >>> def record(first, last):
    ...     return SimpleNamespace(video_source="Ego4D", video_id="v", frames=range(first, last + 1))
    >>> needed_frames([record(90, 99), record(0, 40), record(30, 50)])
    [NeededFrames(source='Ego4D', video_id='v', runs=((0, 50), (90, 99)))]
    """
    spans: dict[tuple[str, str], list[range]] = {}
    for record in records:
        spans.setdefault((record.video_source, record.video_id), []).append(record.frames)
    return [NeededFrames(*video, tuple(_merged(of_video))) for video, of_video in sorted(spans.items())]


def _merged(spans: Iterable[range]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(span[-1], merged[-1][1]))
        else:
            merged.append((span.start, span[-1]))
    return merged


def find_video(
    root: str | Path,
    records: Sequence[Shown],
    videos: Mapping[str, VideoInfo] | None = None,
    warn: Warn | None = None,
) -> dict[Id, Footage | str]:
    """Look for all frames of a video that any task may read.

    Args:
        root: of Epic-Kitchens (``P01/rgb_frames/P01_13/frame_0000000760.jpg``) or Ego4D (``<video_id>.mp4``).
        records: the questions on one video, at least one.
        videos: EPIC-KITCHENS' official ones, with which the number of frames must agree; not checked without.
        warn: called with what seems wrong and may not be.

    Returns:
        By sample id the footage, or the first missing frame, with the same text for all questions that lack frames.

    Raises:
        FrameError: the video is absent or cannot be read; frames that are not numbered from 1, or were extracted at
            another rate than the records count by.
        LmmsEgoplanError: the video, or a frame file that a question needs, lies outside `root`.
    """
    needed = {record.sample_id: record.frames for record in records}
    video_id = records[0].video_id
    if records[0].video_source != EPIC_KITCHENS:
        return _find_file(resolve_inside(root, f"{video_id}.mp4"), needed)
    return _find_folder(root, video_id, needed, videos.get(video_id) if videos else None, warn)


def _find_file(path: Path, needed: Mapping[Id, range]) -> dict[Id, Footage | str]:
    length = count_video_frames(path)
    version = file_version(path.stat())
    last = max(span[-1] for span in needed.values())
    reason = f"{path}: {length} frames, but questions need them up to frame {last} (counted from 0)"
    return {
        sample_id: reason if span[-1] >= length else Footage(path, version, span) for sample_id, span in needed.items()
    }


def _find_folder(
    root: str | Path, video_id: str, needed: Mapping[Id, range], video: VideoInfo | None, warn: Warn | None
) -> dict[Id, Footage | str]:
    parts = (video_id.split("_")[0], "rgb_frames", video_id)
    folder = resolve_inside(root, *parts)
    numbers: list[int] = []
    files: dict[int, str] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                number = _frame_number(folder, entry.name)
                if number is None:
                    continue
                numbers.append(number)
                if any(number in span for span in needed.values()) and entry.is_file():
                    if entry.is_symlink():
                        resolve_inside(root, *parts, entry.name)
                    files[number] = file_version(entry.stat())
    except OSError as error:
        raise FrameError(f"{folder}: cannot read the frame folder: {error.strerror}") from error
    if numbers:
        _check_numbers(folder, video_id, numbers, video, warn)
    version = sha256(repr(sorted(files.items())).encode()).hexdigest()
    first_gaps = {
        sample_id: next((number for number in span if number not in files), None) for sample_id, span in needed.items()
    }
    gaps = {sample_id: number for sample_id, number in first_gaps.items() if number is not None}
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
    folder: Path, video_id: str, numbers: Sequence[int], video: VideoInfo | None, warn: Warn | None
) -> None:
    """Check that frames are numbered from 1 and were extracted at the rate by which records count, if that is known."""
    lowest, highest, first = min(numbers), max(numbers), FIRST_FRAME[EPIC_KITCHENS]
    if lowest < first:
        raise FrameError(
            f"{frame_path(folder, lowest)}: the frames are numbered from {lowest}, and EgoPlan counts EPIC-KITCHENS' "
            f"from {first}; rename them, or take EPIC-KITCHENS' own"
        )
    if video and (problem := too_many_frames(video_id, highest, video)):
        raise FrameError(f"{folder}: {problem}")
    if video and warn and len(numbers) == highest and has_own_rate(video_id, highest, video):
        warn(
            f"{folder}: {highest} frames in {video.seconds:.2f} s are the video's own {video.fps:.2f} a second, and "
            f"EgoPlan counts {frames_per_second(EPIC_KITCHENS, video_id)}. If they were extracted at its own rate, "
            "other frames than the annotated ones are shown"
        )


def _frame_number(folder: Path, name: str) -> int | None:
    digits = re.search("[0-9]+", name)
    return int(digits[0]) if digits and frame_path(folder, int(digits[0])).name == name else None
