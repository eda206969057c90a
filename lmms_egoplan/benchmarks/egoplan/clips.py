"""Ready-cut clips, one for each question: the progress up to the current observation as a video of its own.

Clips that ``data cut`` made carry a label that tells their frames. Of others only the name is known.
"""

import json
from bisect import bisect_right
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from lmms_egoplan.benchmarks.egoplan.clock import frames_per_second
from lmms_egoplan.benchmarks.egoplan.records import Shown
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.footage import Footage
from lmms_egoplan.media.frames import FrameError, frame_times, read_comment

# As lmms-eval's own task looks for its clips.
SUFFIXES = (".mp4", ".MP4", ".mkv")
# What results and summaries call a question that is shown out of such a clip.
READY_CLIPS = "ready clips"
_LABEL = "lmms-egoplan clip"
# A clip's times are rounded to its own clock.
_ROUNDING = 1e-3

Fit = Literal["labelled", "frame for frame", "shorter", "cut off", "other rate"]
"""How a clip fits its question's progress.

labelled: ``data cut`` made it; its frames are those of the source.
frame for frame: it has as many frames as the progress.
shorter: it ends before the progress does, by the clocks; it is taken for the whole progress, and its last frame for the
    observation.
cut off: it goes on behind the progress; what lies behind is not shown.
other rate: it lasts as long, with another number of frames.
"""


@dataclass(frozen=True)
class Label:
    """What a clip holds: all frames of a video from `first_frame` to `observation_frame`, which a record tells.

    source: another text once the frames of the source have changed.
    encoder: settings that it was written with.
    """

    sample_id: int | str
    video_source: str
    video_id: str
    first_frame: int
    observation_frame: int
    source: str
    encoder: str

    def to_text(self) -> str:
        return json.dumps({_LABEL: asdict(self)})


@dataclass(frozen=True)
class ReadyClip(Footage):
    """A question's clip; `frames` are the positions of those that may be shown.

    fit: see `Fit`.
    unseen: number of its frames behind them.
    """

    fit: Fit
    unseen: int


def progress_span(record: Shown) -> tuple[int, int]:
    """Numbers of the first and the last frame that any task may read."""
    return record.first_frame, record.current_observation_frame


def read_label(path: Path) -> Label | None:
    """What ``data cut`` has written of a clip; None in any other.

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


def find_clip(root: str | Path, record: Shown) -> ReadyClip | str:
    """The clip of a question, ``<sample_id>.mp4`` in `root` or in its subfolder named as the record's video source.

    Returns:
        The clip, or why the question cannot be shown out of it.

    Raises:
        FrameError: it is absent or cannot be read.
        LmmsEgoplanError: it lies outside `root`.
    """
    path = _find_file(root, record)
    times = frame_times(path)
    first, last = progress_span(record)
    version, span = file_version(path.stat()), last - first + 1
    if label := read_label(path):
        return _labelled(path, version, record, label, len(times))
    if span == 1:
        if len(times) == 1:
            return ReadyClip(path, version, range(1), "frame for frame", 0)
        return (
            f"{path}: {len(times)} frames, and nobody knows which is the observation: without past actions, the clip "
            "must hold the observation alone"
        )
    if len(times) == span:
        return ReadyClip(path, version, range(span), "frame for frame", 0)
    seconds = Fraction(last - first, frames_per_second(record.video_source, record.video_id))
    shown = bisect_right(times, times[0] + seconds + _ROUNDING)
    unseen = len(times) - shown
    gap = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0
    short = not unseen and times[-1] - times[0] + gap + _ROUNDING < seconds
    return ReadyClip(path, version, range(shown), "cut off" if unseen else "shorter" if short else "other rate", unseen)


def _labelled(path: Path, version: str, record: Shown, label: Label, frames: int) -> ReadyClip | str:
    first, last = progress_span(record)
    told = {name: getattr(record, name) for name in ("sample_id", "video_source", "video_id")}
    for name, value in (told | {"first_frame": first, "observation_frame": last}).items():
        if getattr(label, name) != value:
            return (
                f"{path}: was cut for other annotations, {name} {getattr(label, name)!r}, where the record has "
                f"{value!r}; cut it again"
            )
    if frames != last - first + 1:
        return f"{path}: {frames} frames, but its label tells {last - first + 1}; cut it again"
    return ReadyClip(path, version, range(frames), "labelled", 0)


def _find_file(root: str | Path, record: Shown) -> Path:
    places = [(), (record.video_source,)]
    paths = [resolve_inside(root, *place, f"{record.sample_id}{suffix}") for place in places for suffix in SUFFIXES]
    files = list({path.stat().st_ino: path for path in paths if path.is_file()}.values())
    if len(files) > 1:
        raise FrameError(f"{files[0]}: there is {files[1]} too; remove one of them")
    if not files:
        raise FrameError(f"{paths[0]}: no such clip")
    return files[0]
