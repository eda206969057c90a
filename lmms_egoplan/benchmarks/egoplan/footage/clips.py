"""Find and cut clips: one video per question that shows the progress up to the current observation.

Clips made by ``data cut`` carry a label that describes their frames. All other clips are known only
by file name.
"""

import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.footage.sources import Id, first_off_clock
from lmms_egoplan.benchmarks.egoplan.records import VideoRecord, frames_per_second
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import (
    FrameError,
    frame_path,
    frame_times,
    read_comment,
    read_frame_folder,
    stream_video_frames,
    write_video,
)
from lmms_egoplan.progress import progress_bar

# The file suffixes that lmms-eval's own task accepts.
_SUFFIXES = (".mp4", ".MP4", ".mkv")
_LABEL = "lmms-egoplan clip"
# Tolerance in seconds, because a clip's times are rounded to its time base.
_ROUNDING = 1e-3
# With this rate factor, the decoded frames of moving photos (456x256 px) differ from the source by
# 1.4 to 1.9 of 255 levels on average. The conversion to yuv420p alone causes 1.3 of this, at any
# rate factor.
_CRF = 12
# Tasks read distant frames. Frequent key frames keep the number of decoded frames small.
_KEY_EVERY = 30
_ENCODER = f"libx264, crf {_CRF}, key frame every {_KEY_EVERY}"

Fit = Literal[
    "labelled", "frame for frame", "shorter", "cut off", "other rate", "frames", "observation only"
]
"""How a clip fits its question's progress; `FITS` describes each."""

UNTIMED: tuple[Fit, ...] = ("shorter", "cut off", "frames", "observation only")
"""The fits that do not show when each past action happened."""

FITS: dict[Fit, str] = {
    "labelled": (
        "cut by lmms-egoplan. Their frames are those of the source, except for the loss of H.264 "
        "encoding"
    ),
    "frame for frame": (
        "as many frames as the progress. Each frame counts as one frame of the source"
    ),
    "other rate": (
        "as long as the progress, with a different number of frames. The frames shown have nearly "
        "the same times"
    ),
    "shorter": (
        "shorter than the progress. The clip counts as the whole progress, and its last frame as "
        "the observation"
    ),
    "cut off": (
        "longer than the progress. The clip is assumed to start with the first past action; frames "
        "after the observation are not shown"
    ),
    "frames": (
        "images without times, from a public copy. They count as evenly spaced from the start to "
        "the observation"
    ),
    "observation only": "no video, only the image of the observation, from a public copy",
}
"""The description that `data prepare` prints for each fit."""


@dataclass(frozen=True)
class Label:
    """Description of a clip's content.

    A clip has all frames from a record's `first_frame` to its `observation_frame`.

    Attributes:
        source: Version of the source's frames; changes when they change.
        encoder: Settings that the clip was encoded with.
    """

    sample_id: Id
    video_source: str
    video_id: str
    first_frame: int
    observation_frame: int
    source: str
    encoder: str = _ENCODER

    @classmethod
    def from_record(cls, record: VideoRecord, source: str) -> "Label":
        """Describe the clip of a record."""
        return cls(
            sample_id=record.sample_id,
            video_source=record.video_source,
            video_id=record.video_id,
            first_frame=record.frames[0],
            observation_frame=record.frames[-1],
            source=source,
        )

    def to_text(self) -> str:
        """Return the comment to store in the clip's file. `read_label` reads it back."""
        return json.dumps({_LABEL: asdict(self)})


@dataclass(frozen=True)
class ReadyClip(Footage):
    """A question's clip. `frames` contains the positions of the frames that may be shown.

    Attributes:
        observation: Image that is shown after `frames`; None if the last frame is the observation.
    """

    fit: Fit
    observation: Path | None = None


@dataclass(frozen=True, slots=True)
class CutClips:
    """The result of `cut_clips`.

    Attributes:
        cut: Number of clips written by this call.
        reused: Number of clips reused from an earlier call.
        seconds: Duration of all clips.
        size: Bytes of all clips.
        failed: For each clip that could not be cut, the reason by sample id.
    """

    cut: int
    reused: int
    seconds: float
    size: int
    failed: Mapping[Id, str]


def find_clip(root: str | Path, record: VideoRecord) -> ReadyClip | str:
    """Find a question's clip.

    It is ``<sample_id>.mp4`` in `root`, or in the subfolder named after the record's video source.

    Returns:
        The clip, or the reason why the question cannot be shown from it.

    Raises:
        FrameError: The clip is missing or cannot be read.
        LmmsEgoplanError: The clip lies outside `root`.
    """
    return fit_clip(_find_file(root, record), record)


def fit_clip(path: Path, record: VideoRecord) -> ReadyClip | str:
    """Check how a file fits a question's progress. Returns and raises as `find_clip`."""
    times = frame_times(path)
    span = len(record.frames)
    label = read_label(path)
    if label:
        problem = _label_problem(label, record, len(times))
        if problem:
            return f"{path}: {problem}; cut it again"
    if span == 1 and len(times) > 1:
        return (
            f"{path}: {len(times)} frames, but the question has no past actions; provide a clip "
            "that contains only the observation"
        )
    if len(times) == span:
        fit: Fit = "labelled" if label else "frame for frame"
        num_shown = span
    else:
        seconds = Fraction(span - 1, frames_per_second(record.video_source, record.video_id))
        fit, num_shown = _fit_by_time(times, seconds)
    problem = _spacing_problem(times[:num_shown])
    if problem:
        return f"{path}: {problem}"
    return ReadyClip(path, file_version(path.stat()), range(num_shown), fit)


def _fit_by_time(times: Sequence[float], seconds: Fraction) -> tuple[Fit, int]:
    """Return how a clip fits a progress of this duration, and how many of its frames are in it."""
    num_shown = bisect_right(times, times[0] + seconds + _ROUNDING)
    if num_shown < len(times):
        return "cut off", num_shown
    duration = times[-1] - times[0]
    gap = duration / (len(times) - 1) if len(times) > 1 else 0.0
    if duration + gap + _ROUNDING < seconds:
        return "shorter", num_shown
    return "other rate", num_shown


def _spacing_problem(times: Sequence[float]) -> str | None:
    """Describe the problem if frames are not evenly spaced.

    `progress_of` derives times from positions.
    """
    if len(times) < 2:
        return None
    rate = (len(times) - 1) / (times[-1] - times[0])
    if first_off_clock(times, rate) is None:
        return None
    gaps = [after - before for before, after in pairwise(times)]
    return (
        f"one frame follows another after {min(gaps):.3f} to {max(gaps):.3f} s, so positions do "
        "not show their times. Cut the clip again, or convert it to a constant rate: "
        f"ffmpeg -i CLIP.mp4 -vf fps={round(1 / median(gaps))} -crf 12 OUT.mp4"
    )


def _label_problem(label: Label, record: VideoRecord, frames: int) -> str | None:
    expected = Label.from_record(record, label.source)
    for name in ("sample_id", "video_source", "video_id", "first_frame", "observation_frame"):
        expected_value = getattr(expected, name)
        value = getattr(label, name)
        if value != expected_value:
            return (
                f"cut for other annotations: {name} is {value!r}, but the record has "
                f"{expected_value!r}"
            )
    if frames == len(record.frames):
        return None
    return f"{frames} frames, but its label says {len(record.frames)}"


def read_label(path: Path) -> Label | None:
    """Read the label that ``data cut`` wrote into a clip; None for any other clip.

    Raises:
        FrameError: The file cannot be read, or its label is damaged.
    """
    comment = read_comment(path)
    if comment is None or _LABEL not in comment:
        return None
    try:
        return Label(**json.loads(comment)[_LABEL])
    except (ValueError, TypeError, KeyError) as error:
        raise FrameError(f"{path}: damaged label: {error}; cut the clip again") from error


def _find_file(root: str | Path, record: VideoRecord) -> Path:
    names = [f"{record.sample_id}{suffix}" for suffix in _SUFFIXES]
    paths = [resolve_inside(root, name) for name in names]
    paths += [resolve_inside(root, record.video_source, name) for name in names]
    # Where case does not matter, several names are one file.
    by_inode = {path.stat().st_ino: path for path in paths if path.is_file()}
    files = list(by_inode.values())
    if len(files) > 1:
        raise FrameError(
            f"{files[0]}: {files[1]} is a second clip of the same question; remove one of them"
        )
    if not files:
        raise FrameError(f"{paths[0]}: no such clip")
    return files[0]


def count_clips(root: Path, records: Sequence[VideoRecord]) -> int:
    """Count the questions whose clip is in a folder; 0 if it cannot be read."""
    sources = {record.video_source for record in records}
    names: set[str] = set()
    for folder in (root, *(root / source for source in sources)):
        if folder.is_dir():
            names.update(os.listdir(folder))  # noqa: PTH208
    return sum(
        any(f"{record.sample_id}{suffix}" in names for suffix in _SUFFIXES) for record in records
    )


def cut_clips(
    annotations: str | Path,
    records: Sequence[VideoRecord],
    footage: Mapping[Id, Footage],
    out: Path,
    *,
    skip_missing: bool = False,
) -> CutClips:
    """Write an H.264 clip ``<sample_id>.mp4`` for each question, up to its observation.

    The clip has the same number, order and size of frames: its frame i is frame ``first + i`` of
    the source. Files are written atomically. An existing clip of the same frames and settings is
    reused.

    Args:
        annotations: File of the records, for messages.
        records: All records of the split.
        footage: By sample id, the footage of the questions that have all frames.
        out: Folder for the clips.
        skip_missing: Skip questions with a damaged frame instead of raising an error.

    Raises:
        LmmsEgoplanError: A frame is damaged. Clips that were already cut remain.
        OSError: The folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    cut = reused = size = 0
    seconds = 0.0
    failed: dict[Id, str] = {}
    with progress_bar(len(footage), "Cutting clips") as bar:
        for record in records:
            if record.sample_id not in footage:
                continue
            path = out / f"{record.sample_id}.mp4"
            source = footage[record.sample_id]
            label = Label.from_record(record, _version(source))
            fps = frames_per_second(record.video_source, record.video_id)
            if _is_cut(path, label):
                reused += 1
            else:
                try:
                    _write_clip(path, source, fps, label)
                except FrameError as error:
                    if not skip_missing:
                        raise LmmsEgoplanError(
                            f"{annotations}: sample_id {record.sample_id}: {error}\n{cut} clips "
                            f"were cut and remain in {out}. Restore the frame and repeat the "
                            "command, or skip questions with damaged frames: --skip-missing"
                        ) from error
                    failed[record.sample_id] = str(error)
                    continue
                cut += 1
            size += path.stat().st_size
            seconds += len(source.frames) / fps
            bar.update()
    return CutClips(cut, reused, seconds, size, failed)


def _write_clip(path: Path, source: Footage, fps: int, label: Label) -> None:
    write_video(
        path,
        _frames(source),
        fps,
        crf=_CRF,
        key_every=_KEY_EVERY,
        odd_sizes=True,
        comment=label.to_text(),
    )


def _version(source: Footage) -> str:
    """Return a text that changes with the video file, or with the first or last frame file."""
    files = [source.path]
    if source.path.is_dir():
        first = frame_path(source.path, source.frames[0])
        last = frame_path(source.path, source.frames[-1])
        files = [first, last]
    return " ".join(file_version(file.stat()) for file in files)


def _is_cut(path: Path, label: Label) -> bool:
    try:
        return path.is_file() and read_label(path) == label
    except FrameError:
        return False


def _frames(source: Footage) -> Iterator[Image.Image]:
    if not source.path.is_dir():
        return stream_video_frames(source.path, source.frames)
    return _folder_frames(source)


def _folder_frames(source: Footage) -> Iterator[Image.Image]:
    """Yield the frames of a folder, one at a time."""
    for number in source.frames:
        yield from read_frame_folder(source.path, [number])
