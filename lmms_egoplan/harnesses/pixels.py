"""Limit the pixels of images and video frames that a processor passes on.

State the limits in effect.

Processors of transformers count in different units under the same names. The limits of this module
have one unit: the pixels, height times width, of one image or of one frame of a video, after the
processor has resized it.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from itertools import chain
from typing import Any

import numpy as np
import torch
from loguru import logger
from PIL import Image
from transformers import BatchFeature
from transformers.video_utils import make_batched_metadata, make_batched_videos

from lmms_egoplan.benchmarks.base import PIXELS, stated_pixels
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.weights import NOT_KNOWN

NO_LIMITS = "no known limits in pixels"
"""State of a processor that shows pictures in another way, such as at a fixed size or in tiles."""
_EDGES = ("shortest_edge", "longest_edge")
# Frames of the videos that show how a processor counts.
_PROBED_FRAMES = 4


_ARGUMENTS = {
    "image": ("min_pixels", "max_pixels"),
    "video": ("video_min_pixels", "video_max_pixels"),
}
PIXEL_ARGUMENTS = tuple(chain.from_iterable(_ARGUMENTS.values()))
"""Arguments of the backends: the least and the most pixels of an image and of a video's frame.

A frame that is shown as an image is an image.
"""


def set_budget(model: str, processor: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Set a processor's limits, and return the limits in effect.

    Without arguments, the limits are those that the preset of `PIXELS` states, if the processor has
    such limits, or else its own. A default that transformers announces to change,
    that of ``cap_pixels_per_frame``, is set explicitly.

    Args:
        model: The model's name in the harness.
        processor: A transformers processor. Its image and video processors change.
        arguments: The model's arguments; `PIXEL_ARGUMENTS` are used. None: the processor's own
            limit.

    Returns:
        As from `in_effect`, and the arguments or the preset's limits: ``requested``.

    Raises:
        LmmsEgoplanError: A limit is not a whole number, below the size of a token, or contradicts
            another one; or the processor has no such limit.
    """
    requested = {
        name: arguments[name] for name in PIXEL_ARGUMENTS if arguments.get(name) is not None
    }
    for name, value in requested.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise LmmsEgoplanError(
                f"{model}: {name} must be a whole number of pixels above 0, got {value!r}"
            )
    is_preset = not requested
    if is_preset:
        requested = dict(stated_pixels(os.environ.get(PIXELS, "").strip()))
    for kind, names in _ARGUMENTS.items():
        part = getattr(processor, f"{kind}_processor", None)
        if part is not None and getattr(part, "cap_pixels_per_frame", False) is None:
            part.cap_pixels_per_frame = False
        if not requested.keys() & {*names}:
            continue
        times = None if part is None else _times(part, kind)
        if times is not None:
            limits = {name: requested.get(name) for name in names}
            _check(model, limits, part, times)
            setattr(processor, f"{kind}_processor", _limited(part, times, *limits.values()))
            continue
        asked = ", ".join(name for name in names if name in requested)
        size = getattr(part, "size", None)
        details = f" (its size: {dict(size)})" if size else ""
        reason = f"{type(processor).__name__} has {NO_LIMITS} for {kind}s{details}"
        if not is_preset:
            raise LmmsEgoplanError(f"{model}: {asked}: {reason}; remove the argument")
        logger.warning(f"{model}: {reason}, so those of the preset do not apply: {asked}")
    return in_effect(processor) | {"requested": requested}


def set_engine_budget(
    model: str, processor: Any, limits: Mapping[str, Any], arguments: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Set the limits on images of a processor and of vLLM. Backends on vLLM show no videos.

    Args:
        model: The model's name in the harness.
        processor: As in `set_budget`.
        limits: ``min_pixels`` and ``max_pixels``; None: the processor's own limit.
        arguments: Arguments of vLLM's ``LLM``.

    Returns:
        As from `set_budget`, without videos, or the text ``not known`` if the arguments have
        ``mm_processor_kwargs``; and the arguments, with the limits.

    Raises:
        LmmsEgoplanError: As in `set_budget`, or there are both kinds of limits.
    """
    requested = [name for name, value in limits.items() if value is not None]
    if "mm_processor_kwargs" in arguments:
        if requested:
            raise LmmsEgoplanError(
                f"{model}: use either {', '.join(requested)} or mm_processor_kwargs"
            )
        return NOT_KNOWN, dict(arguments)
    pixels = set_budget(model, processor, limits)
    pixels.pop("video", None)
    if not pixels["requested"] or pixels["image"] == NO_LIMITS:
        return pixels, dict(arguments)
    return pixels, {
        **arguments,
        "mm_processor_kwargs": {"size": dict(processor.image_processor.size)},
    }


def in_effect(processor: Any) -> dict[str, Any]:
    """Return the limits of a processor in pixels, by ``image`` and ``video``, as plain JSON values.

    An image has ``min`` and ``max``; a video has ``min_frame`` and ``max_frame`` for each frame,
    and ``min_video`` and ``max_video`` for all its frames together. Limits that do not exist are
    omitted. A processor without limits has `NO_LIMITS`, and one that accepts no videos has no entry
    for them.
    """
    limits: dict[str, Any] = {}
    for kind in ("image", "video"):
        part = getattr(processor, f"{kind}_processor", None)
        if part is not None:
            times = _times(part, kind)
            limits[kind] = NO_LIMITS if times is None else _limits(part, kind, times)
    return limits


def log_limits(model: str, pixels: Any) -> None:
    """Log the limits of a backend before its weights load, as from `set_budget`."""
    if pixels != NOT_KNOWN:
        logger.info(f"{model}: pixels: {in_words(pixels)}")


def in_words(pixels: Mapping[str, Any]) -> str:
    """Describe the limits in effect, as from `in_effect`.

    >>> image = {"min": 3136, "max": 1003520}
    >>> in_words({"image": image, "video": {"min_video": 4096, "max_frame": 602112}})
    '3,136 to 1,003,520 per image; at most 602,112 per frame of a video; at least 4,096 per video'
    """
    units = {
        "image": (("min", "max", "image"),),
        "video": (
            ("min_frame", "max_frame", "frame of a video"),
            ("min_video", "max_video", "video"),
        ),
    }
    parts = []
    for kind, limits in ((kind, pixels[kind]) for kind in units if kind in pixels):
        if not isinstance(limits, Mapping):
            parts.append(f"{limits} for {kind}s")
            continue
        for least, most, unit in units[kind]:
            lower = limits.get(least)
            upper = limits.get(most)
            if lower is None and upper is None:
                continue
            if upper is None:
                span = f"at least {lower:,}"
            elif lower is None:
                span = f"at most {upper:,}"
            else:
                span = f"{lower:,} to {upper:,}"
            parts.append(f"{span} per {unit}")
    return "; ".join(parts)


def is_as_stated(pixels: Any, stated: Mapping[str, int]) -> bool:
    """Return whether the limits in effect are those that a pipeline states.

    Args:
        pixels: As from `in_effect`, or a text if they are not known.
        stated: By the names of `PIXEL_ARGUMENTS`. Limits for videos do not matter to a processor
            that accepts none.
    """
    if not isinstance(pixels, Mapping):
        return False
    frames = {
        "min_frame": stated.get("video_min_pixels"),
        "max_frame": stated.get("video_max_pixels"),
    }
    images = {"min": stated.get("min_pixels"), "max": stated.get("max_pixels")}
    wanted = {"image": images, "video": frames if "video" in pixels else {}}
    return all(
        limit is None or (isinstance(pixels.get(kind), Mapping) and pixels[kind].get(name) == limit)
        for kind, limits in wanted.items()
        for name, limit in limits.items()
    )


class _LimitedFrames:
    """A video processor whose own limits count all frames of a video, with limits for each frame.

    Attributes:
        pixels_per_frame: The smallest and the largest number of pixels; None for the processor's
            own limit.
    """

    pixels_per_frame: tuple[int | None, int | None]

    def __call__(self, videos: Any, **kwargs: Any) -> BatchFeature:
        videos = make_batched_videos(videos)
        metadata = make_batched_metadata(videos, kwargs.pop("video_metadata", None))
        parts = []
        for video, details in zip(videos, metadata, strict=True):
            # The processor would repeat the last frame, too, but after resizing, where it rounds
            # odd numbers.
            missing = -len(video) % self.temporal_patch_size  # type: ignore[attr-defined]
            frames = np.concatenate(
                [np.asarray(video), np.repeat(np.asarray(video[-1:]), missing, axis=0)]
            )
            limits = zip(self.pixels_per_frame, _edges(self), strict=True)
            size = [edge if limit is None else limit * len(frames) for limit, edge in limits]
            call = {
                **kwargs,
                "video_metadata": [details],
                "size": dict(zip(_EDGES, size, strict=True)),
            }
            parts.append(super().__call__([frames], **call))  # type: ignore[misc]
        joined = {}
        for name in parts[0]:
            joined[name] = _joined([part[name] for part in parts])
        return BatchFeature(joined)


def _joined(values: list[Any]) -> Any:
    if isinstance(values[0], torch.Tensor):
        return torch.cat(values)
    return [item for value in values for item in value]


def _limited(part: Any, times: int, least: int | None, most: int | None) -> Any:
    """Return a processor with limits for each picture. `times` is as from `_times`."""
    part = _uncapped(part)
    if times == 0:
        part.pixels_per_frame = (least, most)
        part.__class__ = type(type(part).__name__, (_LimitedFrames, type(part)), {})
        return part
    sizes = zip((least, most), _edges(part), strict=True)
    return _with_edges(part, *(edge if limit is None else limit * times for limit, edge in sizes))


def _with_edges(part: Any, shortest: int, longest: int) -> Any:
    part = copy(part)
    part.size = type(part.size)(shortest_edge=shortest, longest_edge=longest)
    return part


def _uncapped(part: Any) -> Any:
    """Return a copy of a processor without the limit of ``cap_pixels_per_frame``.

    That setting adds the limit to the processor's size.
    """
    part = copy(part)
    if hasattr(part, "cap_pixels_per_frame"):
        part.cap_pixels_per_frame = False
    return part


def _edges(part: Any) -> tuple[int, int]:
    return part.size["shortest_edge"], part.size["longest_edge"]


def _factor(part: Any) -> int:
    """Return the side of the part of a picture that is one token, in pixels."""
    return part.patch_size * part.merge_size


def _check(model: str, limits: Mapping[str, int | None], part: Any, times: int) -> None:
    """Raise if a limit is below the size of a token, or if the limits contradict each other.

    They do if the least pixels exceed the most ones.
    """
    token = _factor(part) ** 2
    for name, value in limits.items():
        if value is not None and value < token:
            raise LmmsEgoplanError(
                f"{model}: {name}={value} is less than one token of this model, {token} pixels"
            )
    (least_name, least), (most_name, most) = limits.items()
    # A limit on all frames of a video applies to as few as two.
    defaults = [edge // (times or part.temporal_patch_size) for edge in _edges(part)]
    lowest, highest = (
        default if limit is None else limit
        for limit, default in zip((least, most), defaults, strict=True)
    )
    if lowest > highest:
        raise LmmsEgoplanError(
            f"{model}: {least_name} ({lowest}{' by default' if least is None else ''}) exceeds "
            f"{most_name} ({highest}{' by default' if most is None else ''}); set both"
        )


def _times(part: Any, kind: str) -> int | None:
    """Find out how a processor counts a picture's pixels against its limits, from what it does.

    Returns:
        How many times it counts them: 1, or 2 if it takes an image for two frames; 0 if it counts
        all frames of a video together. None if it has no limits in pixels.
    """
    if isinstance(part, _LimitedFrames):
        return 0
    names = ("patch_size", "merge_size", "temporal_patch_size")
    if not all(isinstance(getattr(part, name, None), int) for name in names) or not _has_edges(
        part
    ):
        return None
    factor = _factor(part)
    frames = _PROBED_FRAMES if kind == "video" else 1
    part = _uncapped(part)
    for times in (1, 0) if kind == "video" else dict.fromkeys((1, part.temporal_patch_size)):
        token = factor**2 * (times or frames)
        shrunk = _pixels(_with_edges(part, token, 4 * token), kind, 8 * factor)
        grown = _pixels(_with_edges(part, 16 * token, 64 * token), kind, 2 * factor)
        if (shrunk, grown) == (4 * factor**2, 16 * factor**2):
            return times
    return None


def _has_edges(part: Any) -> bool:
    with suppress(AttributeError, KeyError, TypeError):
        return all(isinstance(edge, int) for edge in _edges(part))
    return False


def _pixels(part: Any, kind: str, side: int) -> int | None:
    """Return the pixels of a square picture of this side after a processor has resized it.

    None if it fails.
    """
    picture = Image.new("RGB", (side, side))
    try:
        if kind == "image":
            grid = part(images=[picture], return_tensors="pt")["image_grid_thw"]
        else:
            frames = [picture] * _PROBED_FRAMES
            grid = part([frames], do_sample_frames=False, return_tensors="pt")["video_grid_thw"]
    except Exception:  # libraries raise many types of errors
        return None
    return int(grid[0, 1] * grid[0, 2]) * part.patch_size**2


def _limits(part: Any, kind: str, times: int) -> dict[str, int]:
    least, most = _edges(part)
    if kind == "image":
        return {"min": least // times, "max": most // times}
    if isinstance(part, _LimitedFrames):
        names = zip(("min", "max"), part.pixels_per_frame, (least, most), strict=True)
        return {
            f"{name}_video" if limit is None else f"{name}_frame": limit or edge
            for name, limit, edge in names
        }
    unit = "frame" if times else "video"
    limits = {f"min_{unit}": least, f"max_{unit}": most}
    if _is_capped(part, times):
        tokens = part.max_video_tokens * _factor(part) ** 2
        limits |= (
            {"max_video": int(tokens * 0.9) * part.temporal_patch_size}
            if times
            else {"max_frame": tokens}
        )
    return limits


def _is_capped(part: Any, times: int) -> bool:
    """Return whether ``max_video_tokens`` limits frames.

    The processor is tried, since versions differ.
    """
    if not isinstance(getattr(part, "max_video_tokens", None), int):
        return False
    side = 8 * _factor(part)
    part = copy(part)
    part.max_video_tokens = 8
    token = _factor(part) ** 2 * (times or _PROBED_FRAMES)
    pixels = _pixels(_with_edges(part, token, 64 * token), "video", side)
    return pixels is not None and pixels < side**2
