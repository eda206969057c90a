"""What a model is shown of one step: frames before its truncation point, as images, a clip or a video file.

Sec. 4.1: open models get "video inputs sampled at 6 FPS", closed ones several images.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.frames import Clip, DamagedFrameError, FrameError, frame_times, read_video_frames, write_video
from lmms_egoplan.media.sampling import Doc, VisualInput, count_setting, evenly_spaced, read_in_batches
from lmms_egoplan.paths import data_root

# Frames per second (sec. 4.1).
FPS = 6

# Sample times on a frame's time are sums of floats that may miss it; in seconds.
_ROUNDING = 1e-6


def step_frames(path: str | Path, start_sec: float, end_sec: float) -> list[int]:
    """List the frames of a step at 6 per second (sec. 4.1), none at or after its truncation point (sec. 3.3).

    For each of the times ``start_sec + k / 6`` below `end_sec`, the last frame by then that is not before the start;
    where none has come yet, the step's first frame. Nothing is decoded.

    Args:
        path: any file that FFmpeg reads, at constant or variable frame rate.
        start_sec, end_sec: seconds from the start of the video, as `frame_times` counts them.

    Returns:
        Positions in the video (0-based), strictly increasing, each with start_sec <= time < end_sec; fewer than 6
        per second where the video has fewer.

    Raises:
        FrameError: the step has no frame, or the file is absent, is no video or has no usable time stamps.
    """
    times = frame_times(path)
    first, stop = (bisect_left(times, seconds) for seconds in (start_sec, end_sec))
    if not start_sec < end_sec or first == stop:
        raise FrameError(
            f"{path}: no frame from {start_sec} s to before {end_sec} s; the video's frames are at {times[0]} to "
            f"{times[-1]} s; correct the step's times, or download the video again"
        )
    span = min(end_sec, times[stop - 1] + 1 / FPS) - start_sec
    samples = (start_sec + k / FPS for k in range(max(1, ceil((span - _ROUNDING) * FPS))))
    positions = (bisect_right(times, seconds + _ROUNDING, first, stop) - 1 for seconds in samples)
    return list(dict.fromkeys(max(first, position) for position in positions))


def thin(positions: Sequence[int], max_frames: int) -> list[int]:
    """Select at most `max_frames` (at least 1) positions, evenly spaced, with the first and the last.

    A limit of 1 selects the last one, which is nearest to the truncation point.
    """
    if len(positions) <= max_frames:
        return list(positions)
    return [positions[index] for index in evenly_spaced(0, len(positions) - 1, max_frames)]


def num_shown(doc: Doc, settings: Mapping[str, Any]) -> int:
    """Return the number of frames that `visual_input` shows of a step; read no video.

    Raises:
        LmmsEgoplanError: As for `visual_input`.
    """
    return min(doc["num_frames"], _checked(settings)[1])


def media_shown(doc: Doc, settings: Mapping[str, Any], *, takes_video: bool | None) -> str:
    """Name the form in which a model gets a step: ``video``, ``images``, ``video file`` or ``clip``.

    Args:
        doc, settings: As for `visual_input`.
        takes_video: Whether the model is given a clip of several frames as a video, else as images; None if unknown,
            and then a clip is ``clip``.

    Raises:
        LmmsEgoplanError: As for `visual_input`.
    """
    media, _ = _checked(settings)
    if media != "clip":
        return {"frames": "images", "video": "video file"}[media]
    if takes_video is None:
        return "clip"
    return "video" if takes_video and num_shown(doc, settings) > 1 else "images"


def clip_rate(times: Sequence[float], sampled: Sequence[int], shown: Sequence[int]) -> Fraction | None:
    """Return the true frames per second of a clip: 6, or fewer if it was thinned or the video has fewer.

    Args:
        times: Times of all frames of the video, seconds.
        sampled: Positions of the step's frames at 6 per second, as `step_frames` returns them.
        shown: Positions of the clip's frames.

    Returns:
        None for a clip of one frame, which has no rate.
    """
    if len(shown) < 2:
        return None
    gaps = (times[position + 1] - times[position] for position in range(sampled[0], sampled[-1]))
    if max(gaps) <= 1 / FPS + _ROUNDING:
        return Fraction(FPS * (len(shown) - 1), len(sampled) - 1)
    span = Fraction(times[sampled[-1]] - times[sampled[0]]).limit_denominator(1_000_000)
    return (len(shown) - 1) / span


def visual_input(doc: Doc, settings: Mapping[str, Any]) -> VisualInput:
    """Return what a model is shown of a step, never a frame at or after its truncation point (sec. 3.3).

    Args:
        doc: A row of the prepared dataset.
        settings: ``max_frames``, at least 1, to which longer steps are thinned, and ``media``:
            ``frames``: RGB images, oldest first.
            ``clip``: The same images as one `Clip`, for models that take a video as a list of frames, with the rate of
            `clip_rate`.
            ``video``: Path of an H.264 file of these frames and no others, at that rate. Written once, under
            ``<data root>/egointent/clips``, and used again while the video has the same size and time.
            Other entries are ignored.

    Raises:
        LmmsEgoplanError: ``media`` is unknown, or ``max_frames`` is absent or no positive integer.
        FrameError: Names the step; it has no frame, or other frames than when it was prepared, or one of them cannot
            be decoded.
    """
    shown = _shown(doc, settings)
    return list(shown) if settings["media"] == "frames" else [shown]


def step_images(doc: Doc, settings: Mapping[str, Any]) -> list[Image.Image]:
    """Return the images of `visual_input` for ``frames``, or its one `Clip` for ``clip``; raises as it does."""
    shown = _shown(doc, settings)
    assert not isinstance(shown, str)  # of ``video``
    return shown


def _shown(doc: Doc, settings: Mapping[str, Any]) -> Clip | list[Image.Image] | str:
    media, max_frames = _checked(settings)
    path, start, end = doc["video_path"], doc["start_sec"], doc["end_sec"]
    try:
        sampled = step_frames(path, start, end)
        if len(sampled) != doc["num_frames"]:
            raise FrameError(
                f"{path}: {len(sampled)} frames from {start} s to before {end} s, but {doc['num_frames']} when the "
                "data were prepared; prepare them again"
            )
        positions = thin(sampled, max_frames)
        rate = clip_rate(frame_times(path), sampled, positions)
        if media == "video":
            return _clip_file(doc, positions, rate or Fraction(FPS))
        images = read_video_frames(path, positions)
    except DamagedFrameError as error:
        raise DamagedFrameError(
            f"step {doc['step_id']}: {error}, or find all damaged frames and go on without their steps: "
            "lmms-egoplan data prepare egointent ... --verify --skip-missing"
        ) from error
    except FrameError as error:
        raise FrameError(f"step {doc['step_id']}: {error}") from error
    return Clip(images, None if rate is None else float(rate)) if media == "clip" else images


def _checked(settings: Mapping[str, Any]) -> tuple[str, int]:
    media = settings.get("media")
    if media not in ("frames", "clip", "video"):
        raise LmmsEgoplanError(f"visual settings: media must be frames, clip or video, got {media!r}")
    return media, count_setting(settings, "max_frames")


def _clip_file(doc: Doc, positions: Sequence[int], rate: Fraction) -> str:
    video = Path(doc["video_path"])
    try:
        version = sha256(f"{file_version(video.stat())} at {rate}".encode()).hexdigest()[:16]
    except OSError as error:
        raise FrameError(f"{video}: cannot open the video: {error.strerror}") from error
    name = f"{doc['video_id']}_{doc['start_sec']}_{doc['end_sec']}_{version}_{len(positions)}.mp4"
    path = resolve_inside(data_root() / "egointent" / "clips", name)
    if not path.exists():
        write_video(path, read_in_batches(partial(read_video_frames, video), positions), rate)
    return str(path)
