"""Select the frames of a step that a model is shown.

They are provided as images, a clip or a video file.

The tasks' YAML files limit their number. No frame at or after the truncation point is shown, under
any condition; the split ``leakage`` has its own end. Sec. 4.1:
open models get "video inputs sampled at 6 FPS", closed ones several images.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from hashlib import sha256
from math import ceil, floor
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.conditions import apply_condition
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.frames import (
    Clip,
    DamagedFrameError,
    FrameError,
    frame_times,
    read_video_frames,
    write_video,
)
from lmms_egoplan.media.sampling import (
    Doc,
    VisualInput,
    count_setting,
    evenly_spaced,
    read_in_batches,
)
from lmms_egoplan.paths import data_root

# Frames per second (sec. 4.1).
FPS = 6

# Seconds before a step's start that the condition with_history shows as well. This project's
# choice.
HISTORY_SEC = 10

# Conditions that show all frames of the step, of its history or of another step.
_WITH_ALL_FRAMES = (None, "frozen", "shuffled", "reversed", "other_video", "with_history")

# What replaces the form of the visual input if there is none.
TEXT_ONLY = "text only"

# Tolerance in seconds: sample times are sums of floats and may narrowly miss the time of a frame.
_ROUNDING = 1e-6


def step_frames(path: str | Path, start_sec: float, end_sec: float) -> list[int]:
    """List the frames of a step at 6 per second (sec. 4.1).

    None is at or after its truncation point (sec. 3.3).

    The sample times are ``start_sec + k / 6``, below `end_sec`. Each selects the last frame of the
    step up to this time. Times before the step's first frame select the first frame. Nothing is
    decoded.

    Args:
        path: Any file that FFmpeg reads, at constant or variable frame rate.
        start_sec: Start, in seconds of the video as in `frame_times`.
        end_sec: Truncation point, in the same seconds.

    Returns:
        Positions in the video (0-based), strictly increasing, each with start_sec <= time <
        end_sec. Fewer than 6 per second if the video has fewer.

    Raises:
        FrameError: The step has no frame, or the file is missing, is not a video or has no usable
            time stamps.
    """
    times = frame_times(path)
    first = bisect_left(times, start_sec)
    stop = bisect_left(times, end_sec)
    if not start_sec < end_sec or first == stop:
        raise FrameError(
            f"{path}: no frame from {start_sec} s to before {end_sec} s; the video's frames are "
            f"at {times[0]} to {times[-1]} s. Correct the step's times, or download the video again"
        )
    span = min(end_sec, times[stop - 1] + 1 / FPS) - start_sec
    num_samples = max(1, ceil((span - _ROUNDING) * FPS))
    positions: list[int] = []
    for number in range(num_samples):
        sample_time = start_sec + number / FPS
        last_before = bisect_right(times, sample_time + _ROUNDING, first, stop) - 1
        positions.append(max(first, last_before))
    return list(dict.fromkeys(positions))


def history_start(path: str | Path, start_sec: float) -> float:
    """Return the time at which the history of a step begins.

    This is `HISTORY_SEC` before it, but not before the video. It is a whole number of sample times
    before the step, so the step's sample times do not change.

    Raises:
        FrameError: As in `step_frames`.
    """
    samples = floor((start_sec - frame_times(path)[0]) * FPS + _ROUNDING)
    return start_sec - max(0, min(samples, HISTORY_SEC * FPS)) / FPS


def thin(positions: Sequence[int], max_frames: int) -> list[int]:
    """Select at most `max_frames` (at least 1) positions, evenly spaced.

    The first and the last are included.
    A limit of 1 selects the last position, the nearest to the truncation point.
    """
    if len(positions) <= max_frames:
        return list(positions)
    return [positions[index] for index in evenly_spaced(0, len(positions) - 1, max_frames)]


def num_shown(doc: Doc, settings: Mapping[str, Any]) -> int:
    """Return the number of frames of a step that `visual_input` shows, without reading the video.

    Raises:
        LmmsEgoplanError: As for `visual_input`.
    """
    _, max_frames = _checked(settings)
    row = doc.get("partner") or doc
    shortcut = doc.get("shortcut")
    sampled = row[_count_column(shortcut)]
    return min(len(_selected(range(sampled), shortcut)), max_frames)


def media_shown(doc: Doc, settings: Mapping[str, Any], *, takes_video: bool | None) -> str:
    """Name the form in which a model gets a step.

    It is ``video``, ``images``, ``video file``, ``clip`` or `TEXT_ONLY`.

    Args:
        doc: As for `visual_input`.
        settings: As for `visual_input`.
        takes_video: True if the model gets a clip of several frames as a video, false if it gets
            images. None if unknown; a clip is then named ``clip``.

    Raises:
        LmmsEgoplanError: As for `visual_input`.
    """
    media, _ = _checked(settings)
    if not num_shown(doc, settings):
        return TEXT_ONLY
    if media == "frames":
        return "images"
    if media == "video":
        return "video file"
    if takes_video is None:
        return "clip"
    return "video" if takes_video and num_shown(doc, settings) > 1 else "images"


def clip_rate(
    times: Sequence[float], sampled: Sequence[int], clip_positions: Sequence[int]
) -> Fraction | None:
    """Return the true frame rate of a clip.

    It is 6 per second, or less for a thinned clip or a slower video.

    Args:
        times: Times of all frames of the video, in seconds.
        sampled: Positions of the step's frames at 6 per second, from `step_frames`.
        clip_positions: Positions of the clip's frames.

    Returns:
        Frames per second; None for a clip of one frame, which has no rate.
    """
    if len(clip_positions) < 2:
        return None
    gaps = (times[position + 1] - times[position] for position in range(sampled[0], sampled[-1]))
    if max(gaps) <= 1 / FPS + _ROUNDING:
        return Fraction(FPS * (len(clip_positions) - 1), len(sampled) - 1)
    span = Fraction(times[sampled[-1]] - times[sampled[0]]).limit_denominator(1_000_000)
    return (len(clip_positions) - 1) / span


def visual_input(doc: Doc, settings: Mapping[str, Any]) -> VisualInput:
    """Return the visual input for a step.

    It has no frame at or after the step's truncation point (sec. 3.3).

    Args:
        doc: A row of the prepared dataset, or of `conditions`. The condition ``blind`` shows
            nothing.
        settings: ``max_frames`` (at least 1) is the maximum number of frames; longer steps are
            thinned. ``media`` is one of the following. Other entries are ignored.

            - ``frames``: RGB images, oldest first.
            - ``clip``: The same images as one `Clip`, for models that take a video as a list of
              frames, with the rate from `clip_rate`.
            - ``video``: Path of an H.264 file with only these frames, at that rate. It is written
              once, below ``<data root>/egointent/clips``, and reused while the video's size and
              modification time stay the same.

    Raises:
        LmmsEgoplanError: ``media`` is unknown, or ``max_frames`` is missing or not a positive
            integer.
        FrameError: The step has no frames, its number of frames has changed since it was prepared,
            or a frame cannot be decoded. The message names the step.
    """
    visual = _load_visual(doc, settings)
    if settings["media"] == "frames" or not visual:
        return list(visual)
    return [visual]


def step_images(doc: Doc, settings: Mapping[str, Any]) -> list[Image.Image]:
    """Return the images of `visual_input` for ``frames``, or its `Clip` for ``clip``.

    Raises:
        LmmsEgoplanError: As for `visual_input`.
        FrameError: As for `visual_input`.
    """
    visual = _load_visual(doc, settings)
    assert not isinstance(visual, str)  # only ``video`` returns a path
    return visual


def _load_visual(doc: Doc, settings: Mapping[str, Any]) -> Clip | list[Image.Image] | str:
    if not num_shown(doc, settings):
        return []
    try:
        return _read_visual(doc, settings)
    except DamagedFrameError as error:
        raise DamagedFrameError(
            f"step {doc['step_id']}: {error}, or find all damaged frames and skip their steps: "
            "lmms-egoplan data prepare egointent ... --verify --skip-missing"
        ) from error
    except FrameError as error:
        raise FrameError(f"step {doc['step_id']}: {error}") from error


def _read_visual(doc: Doc, settings: Mapping[str, Any]) -> Clip | list[Image.Image] | str:
    media, max_frames = _checked(settings)
    row = doc.get("partner") or doc
    shortcut = doc.get("shortcut")
    path = row["video_path"]
    sampled = _selected(_sampled_frames(row, shortcut), shortcut)
    positions = thin(sampled, max_frames)
    rate = clip_rate(frame_times(path), sampled, positions)
    positions = apply_condition(positions, shortcut, doc["step_id"])
    if media == "video":
        return _clip_file(row, positions, rate or Fraction(FPS), shortcut)
    images = read_video_frames(path, positions)
    if media == "frames":
        return images
    return Clip(images, None if rate is None else float(rate))


def _sampled_frames(row: Doc, shortcut: str | None) -> Sequence[int]:
    """Return the frames of a step at 6 per second; with its history under ``with_history``.

    Raises:
        FrameError: Their number has changed since the step was prepared.
    """
    path = row["video_path"]
    start = row["start_sec"]
    end = row["end_sec"]
    if shortcut == "with_history":
        start = history_start(path, start)
    frames = step_frames(path, start, end)
    prepared = row[_count_column(shortcut)]
    if len(frames) != prepared:
        raise FrameError(
            f"{path}: {len(frames)} frames from {start} s to before {end} s, but {prepared} when "
            "the data were prepared. Prepare them again"
        )
    return frames


def _count_column(shortcut: str | None) -> str:
    """Return the column with the number of frames from which a condition selects."""
    return "num_frames_with_history" if shortcut == "with_history" else "num_frames"


def _selected(frames: Sequence[int], shortcut: str | None) -> Sequence[int]:
    """Return the frames of a step that a condition may show, before the limit on their number.

    Raises:
        LmmsEgoplanError: The condition is unknown.
    """
    if shortcut in _WITH_ALL_FRAMES:
        return frames
    quarter = ceil(len(frames) / 4)
    parts = {
        "first_frame": slice(1),
        "last_frame": slice(-1, None),
        "last_quarter": slice(-quarter, None),
        "without_boundary": slice(-quarter),
        "blind": slice(0),
    }
    if shortcut not in parts:
        raise LmmsEgoplanError(
            f"visual settings: unknown shortcut {shortcut!r}; use the task whose name ends with it"
        )
    return frames[parts[shortcut]]


def _checked(settings: Mapping[str, Any]) -> tuple[str, int]:
    """Return the settings ``media`` and ``max_frames``."""
    media = settings.get("media")
    if media not in ("frames", "clip", "video"):
        raise LmmsEgoplanError(
            f"visual settings: media must be frames, clip or video, got {media!r}"
        )
    return media, count_setting(settings, "max_frames")


def _clip_file(doc: Doc, positions: Sequence[int], rate: Fraction, shortcut: str | None) -> str:
    video = Path(doc["video_path"])
    try:
        source = f"{file_version(video.stat())} at {rate}"
    except OSError as error:
        raise FrameError(f"{video}: cannot open the video: {error.strerror}") from error
    if shortcut:
        source += f" {positions}"
    version = sha256(source.encode()).hexdigest()[:16]
    name = f"{doc['video_id']}_{doc['start_sec']}_{doc['end_sec']}_{version}_{len(positions)}.mp4"
    path = resolve_inside(data_root() / "egointent" / "clips", name)
    if not path.exists():
        write_video(path, read_in_batches(partial(read_video_frames, video), positions), rate)
    return str(path)
