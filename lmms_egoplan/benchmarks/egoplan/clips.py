"""Clips, one for each question: the progress up to the current observation as a video of its own, and cutting such.

Clips that ``data cut`` made carry a label that describes their frames. Of others only the name is known.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.records import Shown
from lmms_egoplan.benchmarks.egoplan.sources import Id, frames_per_second
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
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.progress import progress_bar

# As lmms-eval's own task looks for its clips.
_SUFFIXES = (".mp4", ".MP4", ".mkv")
# What results and summaries call a question that is shown out of such a clip.
READY_CLIPS = "ready clips"
_LABEL = "lmms-egoplan clip"
# A clip's times are rounded to its own clock.
_ROUNDING = 1e-3
# The frames that models see differ by 1.4 to 1.9 of 255 on average from those of the source, of which 1.3 come with the
# colours of yuv420p at any rate factor (photos that move, 456x256).
_CRF = 12
# Tasks read frames far apart: with near key frames, few others are decoded on the way.
_KEY_EVERY = 30
_ENCODER = f"libx264, crf {_CRF}, key frame every {_KEY_EVERY}"

Fit = Literal["labelled", "frame for frame", "shorter", "cut off", "other rate"]
"""How a clip fits its question's progress.

labelled: ``data cut`` made it; its frames are those of the source.
frame for frame: it has as many frames as the progress.
shorter: it ends before the progress does, by the clocks; it is taken for the whole progress, and its last frame for the
    observation.
cut off: it continues after the progress; the rest is not shown.
other rate: it lasts as long, with another number of frames.
"""

FITS: dict[Fit, str] = yaml_beside(__file__)
"""What `data prepare` says of each."""


@dataclass(frozen=True)
class Label:
    """What a clip contains: all frames of a video from `first_frame` to `observation_frame` of a record.

    source: another text once the frames of the source have changed.
    encoder: settings that it was written with.
    """

    sample_id: Id
    video_source: str
    video_id: str
    first_frame: int
    observation_frame: int
    source: str
    encoder: str = _ENCODER

    @classmethod
    def of(cls, record: Shown, source: str) -> "Label":
        """Describe the clip of a record."""
        frames = record.frames
        return cls(record.sample_id, record.video_source, record.video_id, frames[0], frames[-1], source)

    def to_text(self) -> str:
        """Return the comment of the clip's file, which `read_label` reads."""
        return json.dumps({_LABEL: asdict(self)})


@dataclass(frozen=True)
class ReadyClip(Footage):
    """A question's clip; `frames` are the positions of those that may be shown."""

    fit: Fit


@dataclass(frozen=True)
class CutClips:
    """What `cut_clips` has done.

    cut, kept: clips written now, and those of an earlier call.
    seconds: duration of all clips.
    size: bytes of all clips.
    failed: by sample id, why a clip could not be cut.
    """

    cut: int
    kept: int
    seconds: float
    size: int
    failed: Mapping[Id, str]


def find_clip(root: str | Path, record: Shown) -> ReadyClip | str:
    """Find a question's clip, ``<sample_id>.mp4`` in `root` or in its subfolder named as the record's video source.

    Returns:
        The clip, or why the question cannot be shown out of it.

    Raises:
        FrameError: it is absent or cannot be read.
        LmmsEgoplanError: it lies outside `root`.
    """
    path = _find_file(root, record)
    times, span = frame_times(path), len(record.frames)
    label = read_label(path)
    if label and (problem := _label_problem(label, record, len(times))):
        return f"{path}: {problem}; cut it again"
    if span == 1 < len(times):
        return (
            f"{path}: {len(times)} frames, and nobody knows which is the observation: without past actions, the clip "
            "must hold the observation alone"
        )
    fit: Fit = "labelled" if label else "frame for frame"
    shown = span
    if len(times) != span:
        fit, shown = _fit_by_time(times, Fraction(span - 1, frames_per_second(record.video_source, record.video_id)))
    return ReadyClip(path, file_version(path.stat()), range(shown), fit)


def _fit_by_time(times: Sequence[float], seconds: Fraction) -> tuple[Fit, int]:
    """Return how a clip fits a progress of this duration, and how many of its frames belong to the progress."""
    shown = bisect_right(times, times[0] + seconds + _ROUNDING)
    if shown < len(times):
        return "cut off", shown
    duration = times[-1] - times[0]
    gap = duration / (len(times) - 1) if len(times) > 1 else 0.0
    return ("shorter" if duration + gap + _ROUNDING < seconds else "other rate"), shown


def _label_problem(label: Label, record: Shown, frames: int) -> str | None:
    expected = Label.of(record, label.source)
    for name in ("sample_id", "video_source", "video_id", "first_frame", "observation_frame"):
        value, other = getattr(expected, name), getattr(label, name)
        if other != value:
            return f"was cut for other annotations, {name} {other!r}, where the record has {value!r}"
    return None if frames == len(record.frames) else f"{frames} frames, but its label tells {len(record.frames)}"


def read_label(path: Path) -> Label | None:
    """Read what ``data cut`` has written of a clip; None in any other.

    Raises:
        FrameError: the file cannot be read, or its label is damaged.
    """
    comment = read_comment(path)
    if comment is None or _LABEL not in comment:
        return None
    try:
        return Label(**json.loads(comment)[_LABEL])
    except (ValueError, TypeError, KeyError) as error:
        raise FrameError(f"{path}: the label is damaged: {error}; cut the clip again") from error


def _find_file(root: str | Path, record: Shown) -> Path:
    folders = [(), (record.video_source,)]
    paths = [resolve_inside(root, *parts, f"{record.sample_id}{suffix}") for parts in folders for suffix in _SUFFIXES]
    files = list({path.stat().st_ino: path for path in paths if path.is_file()}.values())
    if len(files) > 1:
        raise FrameError(f"{files[0]}: there is {files[1]} too; remove one of them")
    if not files:
        raise FrameError(f"{paths[0]}: no such clip")
    return files[0]


def cut_clips(
    annotations: str | Path,
    records: Sequence[Shown],
    footage: Mapping[Id, Footage],
    out: Path,
    *,
    skip_missing: bool = False,
) -> CutClips:
    """Write ``<sample_id>.mp4``, H.264, for each question: every frame from its first one to its observation.

    Frames keep their number, order and size: frame i of the clip is frame ``first + i`` of the source. Each file
    appears whole or not at all. A clip that exists, cut of the same frames in the same way, is kept.

    Args:
        annotations: the records' file, for messages.
        records: all of the split.
        footage: by sample id, of those that have all frames.
        out: the folder of the clips.
        skip_missing: leave out questions with a damaged frame, instead of refusing.

    Raises:
        LmmsEgoplanError: a frame is damaged. Clips that were cut until then stay.
        OSError: the folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    cut = kept = size = 0
    seconds = 0.0
    failed: dict[Id, str] = {}
    with progress_bar(len(footage), "Cutting clips") as bar:
        for record in records:
            if record.sample_id not in footage:
                continue
            path, source = out / f"{record.sample_id}.mp4", footage[record.sample_id]
            label, fps = Label.of(record, _version(source)), frames_per_second(record.video_source, record.video_id)
            if _is_cut(path, label):
                kept += 1
            else:
                frames, comment = _frames(source), label.to_text()
                try:
                    write_video(path, frames, fps, crf=_CRF, key_every=_KEY_EVERY, odd_sizes=True, comment=comment)
                except FrameError as error:
                    if not skip_missing:
                        raise LmmsEgoplanError(
                            f"{annotations}: sample_id {record.sample_id}: {error}\n{cut} clips were cut and stay in "
                            f"{out}. Go on with the same command, or without questions whose frames are damaged: "
                            "--skip-missing"
                        ) from error
                    failed[record.sample_id] = str(error)
                    continue
                cut += 1
            size += path.stat().st_size
            seconds += len(source.frames) / fps
            bar.update()
    return CutClips(cut, kept, seconds, size, failed)


def _version(source: Footage) -> str:
    """Return a text that changes with the source: with a folder's first or last frame, as for progress videos."""
    path, numbers = source.path, (source.frames[0], source.frames[-1])
    files = [frame_path(path, number) for number in numbers] if path.is_dir() else [path]
    return " ".join(file_version(file.stat()) for file in files)


def _is_cut(path: Path, label: Label) -> bool:
    try:
        return path.is_file() and read_label(path) == label
    except FrameError:
        return False


def _frames(source: Footage) -> Iterator[Image.Image]:
    if not source.path.is_dir():
        return stream_video_frames(source.path, source.frames)
    return (image for number in source.frames for image in read_frame_folder(source.path, [number]))
