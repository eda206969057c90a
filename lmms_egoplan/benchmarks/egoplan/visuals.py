"""Read a question's visual input: frames of the progress as images, clips or a video file.

No frame after the current observation is shown (sec. 3.3, C.1), except by the authors' clips of
Ego4D, see `published_clips`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.conditions import apply_condition
from lmms_egoplan.benchmarks.egoplan.conditions import PARTNERS
from lmms_egoplan.benchmarks.egoplan.question import MARKS
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS, frames_per_second
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, resolve_inside
from lmms_egoplan.media.frames import (
    Clip,
    DamagedFrameError,
    FrameError,
    frame_path,
    read_frame_folder,
    read_image,
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
from lmms_egoplan.text import MediaMarker

# The project's default for models without multi-clip input.
UNIFORM_FRAMES = 8
# The most recent N = 4 action segments with K = 8 keyframes each (arXiv 2312.06722, C.1).
NUM_CLIPS = 4
FRAMES_PER_CLIP = 8
# This project's limits for progress videos.
_VIDEO_FPS = 4
_VIDEO_FRAMES = 256
# Limit for frames by rate, as teams report it.
MOST_FRAMES = 256
SEPARATE = "separate"
"""The ``observation`` that is also shown as an image after the frames."""
# Shortcut conditions that select or order frames (`apply_condition`).
_ALTERED = ("last_frame", "first_frame", "frozen", "shuffled", "reversed")
# Shortcut conditions that show this many of the last past actions.
_LAST_ACTIONS = {"last_1_action": 1, "last_2_actions": 2, "last_4_actions": 4}
# Shortcut conditions that show all frames.
_WHOLE = (None, "without_goal", *PARTNERS)

Segment = tuple[int, int]


@dataclass(frozen=True)
class Progress:
    """The frames of a question that may be shown, by their numbers in its file or folder.

    Attributes:
        past: (start, stop) of the past actions, ordered by start; may be empty.
        first: The first frame.
        observation: The last frame.
        fps: Frames per second.
        source_fps: Frames per second of the source; the same, except in a clip with another number
            of frames.
    """

    past: list[Segment]
    first: int
    observation: int
    fps: Fraction
    source_fps: Fraction

    @property
    def seconds(self) -> Fraction:
        """Duration in the source: up to the observation, which lasts one frame."""
        return Fraction(self.observation - self.first) / self.fps + 1 / self.source_fps

    def uniform_frames(self, num_frames: int) -> list[int]:
        """Return evenly spaced frames up to the observation; see the function `uniform_frames`."""
        return uniform_frames([(self.first, self.observation)], self.observation, num_frames)


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


def num_images(doc: Doc, settings: Mapping[str, Any]) -> int:
    """Count the images of a question, without reading a frame.

    Args:
        settings: As for `FrameReader.visual_input`: those of ``clip_frames`` or of ``frames``;
            ``media`` is optional.
    """
    usual_media = "frames" if settings.get("num_clips") is None else "clip_frames"
    settings = {"media": usual_media, **settings}
    doc, progress = _source_of(doc, settings)
    if settings["media"] == "clip_frames":
        clips = _clips_of(doc, progress, settings)
        observation = 1
        return sum(len(clip) for clip in clips) + observation
    frames, separate = _frames_of(progress, settings)
    return len(apply_condition(frames, settings.get("shortcut"), "")) + len(separate)


def _source_of(doc: Doc, settings: Mapping[str, Any]) -> tuple[Doc, Progress]:
    """Return the row whose video is shown, and the part of its progress that is shown.

    The condition ``shortcut`` of the settings determines both.
    """
    shortcut = settings.get("shortcut")
    _check_shortcut(doc, shortcut, settings)
    if shortcut in PARTNERS:
        doc = doc["partner"]
    progress = progress_of(doc)
    if shortcut == "first_frame":  # a single frame of the progress is its last one
        progress = replace(progress, observation=progress.first)
    if shortcut in _LAST_ACTIONS:
        _check_times(doc)
        num_actions = _LAST_ACTIONS[shortcut]
        last_actions = progress.past[-num_actions:]
        if len(last_actions) == num_actions:
            start, _ = last_actions[0]
            progress = replace(progress, past=last_actions, first=max(progress.first, start))
    return doc, progress


def _check_shortcut(doc: Doc, shortcut: str | None, settings: Mapping[str, Any]) -> None:
    """Raise an error if a condition is unknown, or does not fit the question or the settings."""
    if shortcut in PARTNERS and not doc.get("partner"):
        raise LmmsEgoplanError(
            f"sample_id {doc['sample_id']}: no partner; use process_docs of the {shortcut} task"
        )
    shows_frames_only = (
        settings.get("media") == "frames" and settings.get("observation") != SEPARATE
    )
    if shortcut in _ALTERED and not shows_frames_only:
        raise LmmsEgoplanError(
            f"visual settings: shortcut {shortcut} needs media frames without a separate "
            f"observation, got {settings.get('media')!r}; use a backend that takes images, such "
            "as hf_vlm"
        )
    if shortcut not in (*_ALTERED, *_LAST_ACTIONS, *_WHOLE):
        raise LmmsEgoplanError(
            f"visual settings: unknown shortcut {shortcut!r}; use the task whose name ends with it"
        )


def _frames_of(progress: Progress, settings: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    """Return the frames of a progress, and the observation if it is also a separate image."""
    separate = _separate_frames(progress, settings)
    if separate and settings.get("needs_actions") and not progress.past:
        return [], separate
    if settings.get("fps") is None:
        return _frames_by_number(progress, settings), separate
    return _frames_by_rate(progress, settings), separate


def _separate_frames(progress: Progress, settings: Mapping[str, Any]) -> list[int]:
    if settings.get("observation") == SEPARATE:
        return [progress.observation]
    return []


def _frames_by_number(progress: Progress, settings: Mapping[str, Any]) -> list[int]:
    """Return ``num_frames`` evenly spaced frames."""
    count = count_setting(settings, "num_frames")
    if settings.get("without_end"):
        return frames_without_end(progress.first, progress.observation, count)
    if settings.get("as_published"):
        return published_frames(progress.first, progress.observation, count)
    return progress.uniform_frames(count)


def _frames_by_rate(progress: Progress, settings: Mapping[str, Any]) -> list[int]:
    """Return evenly spaced frames, ``fps`` per second."""
    fps = settings["fps"]
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < math.inf:
        raise LmmsEgoplanError(f"visual settings: fps must be a number above 0, got {fps!r}")
    most = count_setting(settings, "max_frames")
    if settings.get("min_frames") is not None:
        least = count_setting(settings, "min_frames")
        length = progress.observation - progress.first + 1
        count = paired_frames(length, progress.seconds * Fraction(fps), least, most)
        return evenly_spaced(progress.first, progress.observation, count)
    seconds = Fraction(progress.observation - progress.first) / progress.fps
    count = int(seconds * Fraction(fps)) + 1
    return progress.uniform_frames(min(most, count))


def _clips_of(doc: Doc, progress: Progress, settings: Mapping[str, Any]) -> list[list[int]]:
    """Return the frames of each clip of a past action."""
    _check_times(doc)
    num_clips = count_setting(settings, "num_clips")
    frames_per_clip = count_setting(settings, "frames_per_clip")
    if not settings.get("as_published"):
        return clip_frames(progress.past, progress.observation, num_clips, frames_per_clip)
    clips = []
    for numbers in clips_as_published(doc, num_clips, frames_per_clip).frames:
        clips.append([_position(doc, number) for number in numbers])
    return clips


def _check_times(doc: Doc) -> None:
    if not doc.get("has_action_times", True):
        raise LmmsEgoplanError(
            f"clips of past actions need their times, which the {doc['media']} does not show (see "
            "`clips` in the prepared split's summary.json); use a task without clips, such as "
            "egoplan_val, or prepare from the videos"
        )


def progress_of(doc: Doc) -> Progress:
    """Return the progress of a row of the prepared dataset.

    It starts with its ``first_frame``, or else with the first action. For a ready clip, the
    source's frame numbers are mapped evenly to positions in the clip. If both have the same number
    of frames, each frame is mapped to one position.
    """
    observation = doc["current_observation_frame"]
    first = _first_of(doc)
    past = _past_of(doc)
    source_fps = Fraction(frames_per_second(doc["video_source"], doc["video_id"]))
    num_frames = doc.get("clip_frames")
    if num_frames is None:
        return Progress(past, first, observation, fps=source_fps, source_fps=source_fps)
    segments = [(_position(doc, start), _position(doc, stop)) for start, stop in past]
    last = num_frames - 1
    fps = source_fps
    if observation > first and last > 0:
        fps = source_fps * last / (observation - first)
    return Progress(segments, first=0, observation=last, fps=fps, source_fps=source_fps)


def _past_of(doc: Doc) -> list[Segment]:
    return [(action["start_frame"], action["stop_frame"]) for action in doc["past_actions"]]


def _first_of(doc: Doc) -> int:
    """Return a row's ``first_frame``, else the first action's start, else the observation."""
    if doc.get("first_frame") is not None:
        return doc["first_frame"]
    if doc["past_actions"]:
        return doc["past_actions"][0]["start_frame"]
    return doc["current_observation_frame"]


def _position(doc: Doc, number: int) -> int:
    """Return where a row's file or folder has a frame of the source.

    Ready clips end with the observation.
    """
    num_frames = doc.get("clip_frames")
    if num_frames is None:
        return number
    first = _first_of(doc)
    observation = doc["current_observation_frame"]
    span = observation - first
    if span == 0:
        return 0
    offset = max(min(number, observation) - first, 0)
    # offset / span of the clip, rounded half up
    return (2 * offset * (num_frames - 1) + span) // (2 * span)


def uniform_frames(
    past: Sequence[Segment], observation: int, num_frames: int = UNIFORM_FRAMES
) -> list[int]:
    """Return evenly spaced frames, from the first past action's start to the observation.

    Args:
        past: (start, stop) frame numbers of the past actions, ordered by start; may be empty.
        observation: Number of the current observation's frame.
        num_frames: At least 1.

    Returns:
        At most `num_frames` strictly increasing numbers that end with `observation`; fewer if the
        span has fewer frames. Without past actions, only the observation.

    Raises:
        ValueError: `num_frames` is below 1, or a past action starts after the observation.
    """
    _check(past, observation, num_frames=num_frames)
    first = past[0][0] if past else observation
    return evenly_spaced(first, observation, min(num_frames, observation - first + 1))


def clip_frames(
    past: Sequence[Segment],
    observation: int,
    num_clips: int = NUM_CLIPS,
    frames_per_clip: int = FRAMES_PER_CLIP,
) -> list[list[int]]:
    """Return evenly spaced frames of each of the last past actions (arXiv 2312.06722, C.1).

    The observation is a separate image, not a clip, although the last action may end with that
    frame. An action that continues after the observation is cut there.

    Args:
        past, observation: As for `uniform_frames`.
        num_clips, frames_per_clip: At least 1.

    Returns:
        At most `num_clips` lists, oldest action first. Each has `frames_per_clip` non-decreasing
        numbers from the action's start to its stop. An action with fewer frames repeats some:
        models with video input need clips of equal length.

    Raises:
        ValueError: As for `uniform_frames`. Also raised if an action stops before it starts.
    """
    _check(past, observation, num_clips=num_clips, frames_per_clip=frames_per_clip)
    return [
        evenly_spaced(start, min(stop, observation), frames_per_clip)
        for start, stop in past[-num_clips:]
    ]


def published_frames(first: int, observation: int, num_frames: int = UNIFORM_FRAMES) -> list[int]:
    """Return the frames that the authors' code shows of the whole progress.

    Sources: ego4d_video_process and epic_kitchens_video_process in src/video_llama_interface.py
    (EgoPlan-Bench), and cut_keyframes in eval.py (EgoPlan-Bench2). If the progress is one frame,
    EgoPlan-Bench's code fails (`authors_fail_at_video`); here, the frame is repeated, as without
    past actions.

    Returns:
        Exactly `num_frames` non-decreasing numbers, rounded down; the last one is `observation`. A
        span with fewer frames repeats some.

    >>> published_frames(0, 10), published_frames(9, 10)
    ([0, 1, 2, 4, 5, 7, 8, 10], [9, 9, 9, 9, 9, 9, 9, 10])
    """
    gaps = num_frames - 1
    return [first + i * (observation - first) // gaps for i in range(gaps)] + [observation]


def authors_fail_at_video(doc: Doc) -> bool:
    """Return whether the authors' code of EgoPlan-Bench fails to read a row's video.

    It fails at a progress of one frame.

    >>> past = [{"start_frame": 9, "stop_frame": 20}]
    >>> doc = {"past_actions": past, "current_observation_frame": 9}
    >>> authors_fail_at_video(doc), authors_fail_at_video(doc | {"past_actions": []})
    (True, False)
    """
    return bool(doc["past_actions"]) and _first_of(doc) == doc["current_observation_frame"]


def frames_without_end(first: int, last: int, num_frames: int) -> list[int]:
    """Return the frames that FlagEvalMM shows of a video.

    Source: read_video_pyav in flagevalmm/common/video_utils.py.

    Returns:
        All numbers from `first` to `last` if they are at most `num_frames`; else `num_frames`
        numbers, rounded down, which begin with `first` and end before `last`.

    >>> frames_without_end(0, 3, 4), frames_without_end(0, 10, 4)
    ([0, 1, 2, 3], [0, 2, 5, 8])
    """
    length = last - first + 1
    if length <= num_frames:
        return list(range(first, last + 1))
    return [first + i * length // num_frames for i in range(num_frames)]


def paired_frames(length: int, wanted: Fraction, least: int, most: int) -> int:
    """Return the number of frames that Qwen's preprocessing shows of a video.

    Source: smart_nframes in qwen_vl_utils.

    Args:
        length: Number of frames of the video.
        wanted: Its duration times the requested rate.
        least, most: Limits. A shorter video has fewer frames than `least`.

    Returns:
        An even number. A video of one frame, at which smart_nframes fails, is shown twice.

    >>> [paired_frames(length, Fraction(length, 15), 4, 16) for length in (1, 3, 30, 75, 900)]
    [2, 2, 4, 4, 16]
    """
    highest = Fraction(min(most, length))
    count = int(min(max(wanted, Fraction(least)), highest))
    even_count = count // 2 * 2
    return max(2, even_count)


@dataclass(frozen=True)
class PublishedClips:
    """The frames that the authors' code shows of the last past actions.

    Attributes:
        frames: At most as many lists as requested clips, oldest action first, of equal length.
        authors_fail: True if the authors' code fails, since an action has too few frames. This
            project shows it nevertheless, by repeating frames.
    """

    frames: list[list[int]]
    authors_fail: bool


def clips_as_published(
    doc: Doc, num_clips: int = NUM_CLIPS, frames_per_clip: int = FRAMES_PER_CLIP
) -> PublishedClips:
    """Return the `published_clips` of a prepared row, by the frame numbers of its source."""
    return published_clips(
        _past_of(doc),
        doc["current_observation_frame"],
        num_clips,
        frames_per_clip,
        is_epic=doc["video_source"] == EPIC_KITCHENS,
    )


def published_clips(
    past: Sequence[Segment],
    observation: int,
    num_clips: int = NUM_CLIPS,
    frames_per_clip: int = FRAMES_PER_CLIP,
    *,
    is_epic: bool,
) -> PublishedClips:
    """Return the frames that the authors' code shows of the last past actions.

    EPIC-KITCHENS (load_video in src/video_llama/video_llama/processors/egoplan_video_processor.py):
    Actions that stop after the observation are dropped before the last ones are taken. Each action
    stops where the next one starts, at the latest. Its frames are the starts of `frames_per_clip`
    equal parts, rounded down.

    Ego4D (ego4d_video_image_process in src/egoplan_video_llama_interface.py): No action is dropped
    or cut, so frames after the observation may be shown. The frames are steps of a whole number of
    frames from the action's start, so that its end is not shown.

    The authors' code fails at an action of EPIC-KITCHENS with fewer frames than `frames_per_clip`
    (after the cut), and at one of Ego4D with at most as many. Here, such an action's frames are the
    starts of equal parts in both sources, so that some are repeated.

    Args:
        past, observation: As for `uniform_frames`.
        num_clips, frames_per_clip: At least 1.

    >>> published_clips([(10, 95), (90, 120)], 130, is_epic=True).frames
    [[10, 20, 30, 40, 50, 60, 70, 80], [90, 93, 97, 101, 105, 109, 113, 117]]
    >>> published_clips([(10, 89)], 89, is_epic=False).frames
    [[10, 19, 28, 37, 46, 55, 64, 73]]
    >>> clips = published_clips([(10, 20), (14, 40)], 50, is_epic=True)
    >>> clips.frames
    [[10, 10, 11, 11, 12, 13, 13, 14], [14, 17, 20, 24, 27, 30, 34, 37]]
    >>> clips.authors_fail
    True
    """
    actions = _cut_actions(past, observation, num_clips) if is_epic else list(past[-num_clips:])
    frames = []
    authors_fail = False
    for start, stop in actions:
        length = stop - start + 1
        step = (stop - start) // frames_per_clip
        is_short = length < frames_per_clip if is_epic else step == 0
        if is_epic or is_short:
            offsets = [i * length // frames_per_clip for i in range(frames_per_clip)]
        else:
            offsets = [i * step for i in range(frames_per_clip)]
        frames.append([start + offset for offset in offsets])
        authors_fail = authors_fail or is_short
    return PublishedClips(frames, authors_fail)


def _cut_actions(past: Sequence[Segment], observation: int, num_clips: int) -> list[Segment]:
    """Return the last actions that stop before the observation, each cut where the next starts."""
    complete = [(start, stop) for start, stop in past if stop <= observation]
    last_actions = complete[-num_clips:]
    next_starts = [start for start, _ in last_actions[1:]]
    cut = []
    for (start, stop), end in zip(last_actions, [*next_starts, observation], strict=False):
        cut.append((start, min(stop, end)))
    return cut


def _check(past: Sequence[Segment], observation: int, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    for start, stop in past:
        if start > min(stop, observation):
            raise ValueError(
                f"past action {start}-{stop} starts after its stop or the observation, "
                f"{observation}"
            )


def frame_rate(frames: Sequence[int], fps: Fraction | float) -> float | None:
    """Return the rate of evenly spaced frames, in frames per second; None for a single image.

    Copies of a single frame count as lasting one frame of the source.
    """
    if len(frames) <= 1:
        return None
    gaps = len(frames) - 1
    span = max(1, frames[-1] - frames[0])
    return float(gaps * fps / span)


@dataclass(frozen=True)
class FrameReader:
    """Reader of the visual input of a benchmark's questions.

    Attributes:
        benchmark: Name of the benchmark, used in messages and for the folder of its progress
            videos.
    """

    benchmark: str

    def visual_input(self, doc: Doc, settings: Mapping[str, Any]) -> VisualInput:
        """Read the frames of a question that a model is shown.

        Args:
            doc: A row of the prepared dataset.
            settings: ``media`` and its counts, each at least 1. Other entries are ignored. The
                media are:

                - ``frames``: up to ``num_frames`` RGB images of the whole progress, evenly spaced,
                  the observation last. With ``fps`` (above 0), that many images per second instead,
                  up to ``max_frames``.
                - ``clips``: a `Clip` of ``frames_per_clip`` images for each of the last
                  ``num_clips`` past actions, oldest first, and the observation as a separate image
                  (C.1). A clip has the frame rate of its frames in the source. A clip of one image
                  has none.
                - ``clip_frames``: the images of ``clips`` in one flat list.
                  With ``clip_marks``, each clip and the observation follow their `MediaMarker`
                  (`MARKS`).
                - ``video``: the path of an H.264 file of the progress.

                With ``as_published``, ``num_frames``, ``clips`` and ``clip_frames`` select frames
                as the authors' code does (`published_frames`, `published_clips`). Only these clips
                may continue after the observation. A ready clip ends there, so the observation
                replaces later frames.

                Settings of ``frames`` and ``timed_frames``: ``without_end`` selects frames as
                `frames_without_end` does, and ``min_frames`` (with ``fps``) as many as
                `paired_frames`. ``size`` (width, height) resizes all images.

                ``shortcut`` is a condition of `SHORTCUTS`. Those that select or order frames only
                work with ``frames``. Partner videos end with the partner's own observation. The
                last actions of a question that has fewer are its whole progress.

                With the ``observation`` `SEPARATE`, the current observation follows ``frames``,
                ``timed_frames`` and ``video`` as an image. It is then the only one with
                ``needs_actions``, if there are no past actions.

        Raises:
            LmmsEgoplanError: ``media`` or ``shortcut`` is unknown, they do not fit together, or a
                count is missing or not a positive integer.
            FrameError: A frame is missing or cannot be decoded.
        """
        doc, progress = _source_of(doc, settings)
        match settings.get("media"):
            case "frames" | "timed_frames":
                return self._frame_input(doc, progress, settings)
            case "clips" | "clip_frames":
                return self._clip_input(doc, progress, settings)
            case "video":
                separate = _separate_frames(progress, settings)
                return [self._progress_video(doc, progress), *self.read_frames(doc, separate)]
            case media:
                raise LmmsEgoplanError(
                    "visual settings: media must be frames, timed_frames, clips, "
                    f"clip_frames or video, got {media!r}"
                )

    def _frame_input(
        self, doc: Doc, progress: Progress, settings: Mapping[str, Any]
    ) -> VisualInput:
        """Return the images of ``frames``, or the clip of ``timed_frames``.

        If the observation is separate, it follows.
        """
        frames, separate = _frames_of(progress, settings)
        frames = apply_condition(frames, settings.get("shortcut"), str(doc.get("sample_id")))
        images = self.read_frames(doc, [*frames, *separate])
        size = settings.get("size")
        if size is not None:
            images = [image.resize(tuple(size)) for image in images]
        if settings["media"] == "frames" or not frames:
            return list(images)
        clip = Clip(images[: len(frames)], frame_rate(frames, progress.fps))
        return [clip, *images[len(frames) :]]

    def _clip_input(self, doc: Doc, progress: Progress, settings: Mapping[str, Any]) -> VisualInput:
        """Return the clips of ``clips``, or the images of ``clip_frames``, and the observation."""
        clips = _clips_of(doc, progress, settings)
        numbers = [*chain.from_iterable(clips), progress.observation]
        images = iter(self.read_frames(doc, numbers))
        visual_input: VisualInput = []
        for index, clip in enumerate(clips, start=1):
            if settings.get("clip_marks"):
                visual_input.append(MediaMarker(MARKS["clip"].format(i=index)))
            clip_images = [next(images) for _ in clip]
            if settings["media"] == "clips":
                visual_input.append(Clip(clip_images, frame_rate(clip, progress.fps)))
            else:
                visual_input += clip_images
        if settings.get("clip_marks"):
            visual_input.append(MediaMarker(MARKS["observation"]))
        visual_input.append(next(images))
        return visual_input

    def _progress_video(self, doc: Doc, progress: Progress) -> str:
        """Write an H.264 file of the progress up to the current observation, and return its path.

        Some backends read a video file, and the source file would continue and show the answer. The
        new file has at most `_VIDEO_FPS` frames per second and `_VIDEO_FRAMES` in total, evenly
        spaced, at the speed of the source. It is written once, under ``<data
        root>/<benchmark>/progress_videos``. It is reused while the size and modification time of
        the video, or of the first and last frame file of the progress, stay the same.
        """
        first = progress.first
        observation = progress.observation
        folder = data_root() / self.benchmark / "progress_videos"
        version = _version(doc, first, observation)
        name = f"{doc['video_source']}_{doc['video_id']}_{first}_{observation}_{version}"
        if _is_clip(doc):
            name = f"clip_{doc['sample_id']}_{name}"
        path = resolve_inside(folder, f"{name}.mp4")
        if path.exists():
            return str(path)
        span = Fraction(observation - first) / progress.fps
        numbers = progress.uniform_frames(min(_VIDEO_FRAMES, int(span * _VIDEO_FPS) + 1))
        fps = (len(numbers) - 1) / span if len(numbers) > 1 else _VIDEO_FPS
        write_video(path, self._images_of_one_size(doc, numbers), fps)
        return str(path)

    def _images_of_one_size(self, doc: Doc, numbers: Sequence[int]) -> Iterator[Image.Image]:
        """Yield frames; in a ready clip or a copy, resize them to the first one's size."""
        images = read_in_batches(partial(self.read_frames, doc), numbers)
        first_image = next(images)
        yield first_image
        for image in images:
            yield image.resize(first_image.size) if "media" in doc else image

    def read_frames(self, doc: Doc, numbers: Sequence[int]) -> list[Image.Image]:
        """Read frames of a prepared question's video, by the frame numbers of its records.

        If a copy has an image of the observation, it is the last frame.

        Raises:
            FrameError: A frame is missing or cannot be decoded.
        """
        observation_path: str | None = doc.get("observation_path")
        try:
            if observation_path is None:
                images = _read_from_media(doc, numbers)
            else:
                last = doc["clip_frames"] - 1
                images = _read_from_media(doc, [number for number in numbers if number < last])
                if any(number >= last for number in numbers):
                    images[last] = read_image(Path(observation_path))
            return [images[number] for number in numbers]
        except DamagedFrameError as error:
            raise DamagedFrameError(
                f"sample_id {doc['sample_id']}: {error}, or find all damaged frames and skip their "
                f"questions: lmms-egoplan data prepare {self.benchmark} ... --verify --skip-missing"
            ) from error


EGOPLAN = FrameReader("egoplan")
EGOPLAN_BENCH2 = FrameReader("egoplan_bench2")


def _read_from_media(doc: Doc, numbers: Sequence[int]) -> dict[int, Image.Image]:
    """Return frames of a row's file or folder by number."""
    if not numbers:
        return {}
    read = read_frame_folder if _is_folder(doc) else read_video_frames
    return dict(zip(numbers, read(doc["media_path"], numbers), strict=True))


def _is_clip(doc: Doc) -> bool:
    return doc.get("clip_frames") is not None


def _is_folder(doc: Doc) -> bool:
    if _is_clip(doc):
        return Path(doc["media_path"]).is_dir()
    return doc["video_source"] == EPIC_KITCHENS


def _version(doc: Doc, first: int, last: int) -> str:
    """Return a text that changes with the files that contain the first or the last frame."""
    media = Path(doc["media_path"])
    files = [frame_path(media, first), frame_path(media, last)] if _is_folder(doc) else [media]
    observation_path = doc.get("observation_path")
    if observation_path:
        files.append(Path(observation_path))
    try:
        versions = [file_version(file.stat()) for file in files]
    except OSError as error:
        raise FrameError(f"{error.filename}: no such frame or video: {error.strerror}") from error
    return sha256(" ".join(versions).encode()).hexdigest()[:16]
