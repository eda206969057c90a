"""Read the settings of a question's visual input.

They are in a task's ``lmms_eval_specific_kwargs``, in the ``metadata`` of its lm-eval task, or in a
preset.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egoplan.conditions import PARTNERS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import count_setting

# Limit for frames by rate, as teams report it.
MOST_FRAMES = 256
SEPARATE = "separate"
"""The ``observation`` that is also shown as an image after the frames."""
LAST_ACTIONS = {"last_1_action": 1, "last_2_actions": 2, "last_4_actions": 4}
"""Shortcut conditions that show this many of the last past actions."""
# Shortcut conditions that select or order frames (`apply_condition`).
_ALTERED = ("last_frame", "first_frame", "frozen", "shuffled", "reversed")
# Shortcut conditions that show all frames.
_WHOLE = (None, "without_goal", *PARTNERS)


@dataclass(frozen=True)
class FramesByNumber:
    """A number of evenly spaced frames of the whole progress, the observation last.

    Attributes:
        num_frames: At most this many frames, at least 1.
        as_published: Select frames as the authors' code does (`published_frames`).
        without_end: Select frames as `frames_without_end` does.
    """

    num_frames: int
    as_published: bool
    without_end: bool


@dataclass(frozen=True)
class FramesByRate:
    """A number of evenly spaced frames per second of the whole progress.

    Attributes:
        fps: Frames per second, above 0.
        max_frames: At most this many frames, at least 1.
        min_frames: Select as many frames as `paired_frames`, with this lower limit; None for any
            number, the observation last.
    """

    fps: float
    max_frames: int
    min_frames: int | None


@dataclass(frozen=True)
class FrameSettings:
    """Settings of ``frames``, RGB images of the whole progress, and of ``timed_frames``.

    Attributes:
        sampling: Which frames are shown.
        is_timed: Show the frames as one `Clip` with their frame rate (``timed_frames``).
        size: Width and height to which all images are resized; None to leave them.
        has_observation: Whether the current observation follows as an image (`SEPARATE`).
        needs_actions: Without past actions, show only that image.
        shortcut: A condition of `SHORTCUTS`. Those that select or order frames need images without
            a separate observation. The last actions of a question that has fewer are its whole
            progress.
    """

    sampling: FramesByNumber | FramesByRate
    is_timed: bool
    size: tuple[int, int] | None
    has_observation: bool
    needs_actions: bool
    shortcut: str | None


@dataclass(frozen=True)
class ClipSettings:
    """Settings of ``clips`` and ``clip_frames``: the last past actions, and the observation (C.1).

    Attributes:
        num_clips: At most this many past actions, at least 1.
        frames_per_clip: Images per action, at least 1.
        is_flat: Show all images in one list (``clip_frames``), instead of a `Clip` per action
            (``clips``). A clip has the frame rate of its frames in the source. A clip of one image
            has none.
        has_marks: Precede each clip and the observation with its `MediaMarker` (`MARKS`).
        as_published: Select frames as the authors' code does (`published_clips`). Only these clips
            may continue after the observation. A ready clip ends there, so the observation replaces
            later frames.
        shortcut: As for `FrameSettings`.
    """

    num_clips: int
    frames_per_clip: int
    is_flat: bool
    has_marks: bool
    as_published: bool
    shortcut: str | None


@dataclass(frozen=True)
class VideoSettings:
    """Settings of ``video``: an H.264 file of the progress.

    Attributes:
        has_observation: As for `FrameSettings`.
        shortcut: As for `FrameSettings`.
    """

    has_observation: bool
    shortcut: str | None


VisualSettings = FrameSettings | ClipSettings | VideoSettings


def read_visual_settings(settings: Mapping[str, Any]) -> VisualSettings:
    """Check the settings of a question's visual input. Other entries are ignored.

    Raises:
        LmmsEgoplanError: ``media`` or ``shortcut`` is unknown, they do not fit together, or a count
            is missing or not a positive integer.

    >>> read_visual_settings({"media": "video", "observation": "separate"})
    VideoSettings(has_observation=True, shortcut=None)
    """
    shortcut = settings.get("shortcut")
    has_observation = settings.get("observation") == SEPARATE
    _check_shortcut(shortcut, settings.get("media"), has_observation=has_observation)
    match settings.get("media"):
        case "frames" | "timed_frames":
            return _frame_settings(settings)
        case "clips" | "clip_frames":
            return _clip_settings(settings)
        case "video":
            return VideoSettings(has_observation, shortcut)
        case media:
            raise LmmsEgoplanError(
                "visual settings: media must be frames, timed_frames, clips, "
                f"clip_frames or video, got {media!r}"
            )


def _check_shortcut(shortcut: str | None, media: Any, *, has_observation: bool) -> None:
    """Raise an error if a condition is unknown, or does not fit the media."""
    shows_frames_only = media == "frames" and not has_observation
    if shortcut in _ALTERED and not shows_frames_only:
        raise LmmsEgoplanError(
            f"visual settings: shortcut {shortcut} needs media frames without a separate "
            f"observation, got {media!r}; use a backend that takes images, such as hf_vlm"
        )
    if shortcut not in (*_ALTERED, *LAST_ACTIONS, *_WHOLE):
        raise LmmsEgoplanError(
            f"visual settings: unknown shortcut {shortcut!r}; use the task whose name ends with it"
        )


def _frame_settings(settings: Mapping[str, Any]) -> FrameSettings:
    sampling: FramesByNumber | FramesByRate
    if settings.get("fps") is None:
        sampling = _frames_by_number(settings)
    else:
        sampling = _frames_by_rate(settings)
    size = settings.get("size")
    if size is not None:
        width, height = size
        size = (width, height)
    return FrameSettings(
        sampling=sampling,
        is_timed=settings["media"] == "timed_frames",
        size=size,
        has_observation=settings.get("observation") == SEPARATE,
        needs_actions=bool(settings.get("needs_actions")),
        shortcut=settings.get("shortcut"),
    )


def _frames_by_number(settings: Mapping[str, Any]) -> FramesByNumber:
    return FramesByNumber(
        num_frames=count_setting(settings, "num_frames"),
        as_published=bool(settings.get("as_published")),
        without_end=bool(settings.get("without_end")),
    )


def _frames_by_rate(settings: Mapping[str, Any]) -> FramesByRate:
    fps = settings["fps"]
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < math.inf:
        raise LmmsEgoplanError(f"visual settings: fps must be a number above 0, got {fps!r}")
    max_frames = count_setting(settings, "max_frames")
    min_frames = None
    if settings.get("min_frames") is not None:
        min_frames = count_setting(settings, "min_frames")
    return FramesByRate(fps, max_frames, min_frames)


def _clip_settings(settings: Mapping[str, Any]) -> ClipSettings:
    return ClipSettings(
        num_clips=count_setting(settings, "num_clips"),
        frames_per_clip=count_setting(settings, "frames_per_clip"),
        is_flat=settings["media"] == "clip_frames",
        has_marks=bool(settings.get("clip_marks")),
        as_published=bool(settings.get("as_published")),
        shortcut=settings.get("shortcut"),
    )


def shown_frames(settings: Mapping[str, Any]) -> str:
    """Describe the frames that settings of ``frames``, ``clips`` and ``clip_frames`` request.

    >>> shown_frames({"num_frames": 8}), shown_frames({"fps": 2, "max_frames": 256})
    ('8', '2 a second, at most 256')
    >>> shown_frames({"num_clips": 4, "frames_per_clip": 8, "as_published": True})
    '4 clips of 8, as published'
    >>> shown_frames({"num_clips": 4, "frames_per_clip": 8, "clip_marks": True})
    '4 marked clips of 8'
    """
    as_published = ", as published" if settings.get("as_published") else ""
    if settings.get("num_clips") is not None:
        clips = "marked clips" if settings.get("clip_marks") else "clips"
        frames_per_clip = settings.get("frames_per_clip")
        return f"{settings['num_clips']} {clips} of {frames_per_clip}{as_published}"
    if settings.get("fps") is not None:
        return f"{settings['fps']:g} a second, at most {settings.get('max_frames')}"
    without_end = ", without the end" if settings.get("without_end") else ""
    return f"{settings['num_frames']}{as_published}{without_end}"
