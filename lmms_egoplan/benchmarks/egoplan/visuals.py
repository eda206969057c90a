"""Read a question's visual input: frames of the progress as images, clips or a video file."""

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
from lmms_egoplan.benchmarks.egoplan.frame_settings import (
    LAST_ACTIONS,
    ClipSettings,
    FramesByNumber,
    FramesByRate,
    FrameSettings,
    VideoSettings,
    read_visual_settings,
)
from lmms_egoplan.benchmarks.egoplan.frames import (
    Progress,
    clip_frames,
    frame_rate,
    frames_without_end,
    paired_frames,
    position_in_media,
    progress_of,
)
from lmms_egoplan.benchmarks.egoplan.prompts import MARKS
from lmms_egoplan.benchmarks.egoplan.published import clips_as_published, published_frames
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS
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
from lmms_egoplan.media.sampling import Doc, VisualInput, evenly_spaced, read_in_batches
from lmms_egoplan.paths import data_root
from lmms_egoplan.text import MediaMarker

# This project's limits for progress videos.
_VIDEO_FPS = 4
_VIDEO_FRAMES = 256


def num_images(doc: Doc, settings: Mapping[str, Any]) -> int:
    """Count the images of a question, without reading a frame.

    Args:
        settings: As for `FrameReader.visual_input`: those of ``clip_frames`` or of ``frames``;
            ``media`` is optional.
    """
    usual_media = "frames" if settings.get("num_clips") is None else "clip_frames"
    shown = read_visual_settings({"media": usual_media, **settings})
    doc, progress = _source_of(doc, shown.shortcut)
    match shown:
        case ClipSettings():
            observation = 1
            return sum(len(clip) for clip in _clips_of(doc, progress, shown)) + observation
        case FrameSettings():
            frames = apply_condition(_frames_of(progress, shown), shown.shortcut, "")
            return len(frames) + len(_observation_of(progress, shown))
        case VideoSettings():
            return len(_observation_of(progress, shown))


def _source_of(doc: Doc, shortcut: str | None) -> tuple[Doc, Progress]:
    """Return the row whose video is shown under a condition, and the progress that is shown."""
    if shortcut in PARTNERS:
        if not doc.get("partner"):
            raise LmmsEgoplanError(
                f"sample_id {doc['sample_id']}: no partner; use process_docs of the {shortcut} task"
            )
        doc = doc["partner"]
    progress = progress_of(doc)
    if shortcut == "first_frame":  # a single frame of the progress is its last one
        progress = replace(progress, observation=progress.first)
    if shortcut in LAST_ACTIONS:
        _check_times(doc)
        num_actions = LAST_ACTIONS[shortcut]
        last_actions = progress.past[-num_actions:]
        if len(last_actions) == num_actions:
            start, _ = last_actions[0]
            progress = replace(progress, past=last_actions, first=max(progress.first, start))
    return doc, progress


def _observation_of(progress: Progress, settings: FrameSettings | VideoSettings) -> list[int]:
    """Return the observation if it is shown as a separate image."""
    return [progress.observation] if settings.has_observation else []


def _frames_of(progress: Progress, settings: FrameSettings) -> list[int]:
    """Return the frames of a progress, without a separate observation."""
    if settings.has_observation and settings.needs_actions and not progress.past:
        return []
    match settings.sampling:
        case FramesByNumber():
            return _frames_by_number(progress, settings.sampling)
        case FramesByRate():
            return _frames_by_rate(progress, settings.sampling)


def _frames_by_number(progress: Progress, sampling: FramesByNumber) -> list[int]:
    count = sampling.num_frames
    if sampling.without_end:
        return frames_without_end(progress.first, progress.observation, count)
    if sampling.as_published:
        return published_frames(progress.first, progress.observation, count)
    return progress.uniform_frames(count)


def _frames_by_rate(progress: Progress, sampling: FramesByRate) -> list[int]:
    fps = Fraction(sampling.fps)
    if sampling.min_frames is not None:
        length = progress.observation - progress.first + 1
        wanted = progress.seconds * fps
        count = paired_frames(length, wanted, sampling.min_frames, sampling.max_frames)
        return evenly_spaced(progress.first, progress.observation, count)
    seconds = Fraction(progress.observation - progress.first) / progress.fps
    count = int(seconds * fps) + 1
    return progress.uniform_frames(min(sampling.max_frames, count))


def _clips_of(doc: Doc, progress: Progress, settings: ClipSettings) -> list[list[int]]:
    """Return the frames of each clip of a past action."""
    _check_times(doc)
    num_clips = settings.num_clips
    frames_per_clip = settings.frames_per_clip
    if not settings.as_published:
        return clip_frames(progress.past, progress.observation, num_clips, frames_per_clip)
    clips = []
    for numbers in clips_as_published(doc, num_clips, frames_per_clip).frames:
        clips.append([position_in_media(doc, number) for number in numbers])
    return clips


def _check_times(doc: Doc) -> None:
    if not doc.get("has_action_times", True):
        raise LmmsEgoplanError(
            f"clips of past actions need their times, which the {doc['media']} does not show (see "
            "`clips` in the prepared split's summary.json); use a task without clips, such as "
            "egoplan_val, or prepare from the videos"
        )


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
            settings: As for `read_visual_settings`; `FrameSettings`, `ClipSettings` and
                `VideoSettings` describe what is shown. Partner videos end with the partner's own
                observation.

        Raises:
            LmmsEgoplanError: As for `read_visual_settings`, or the question lacks what the
                settings need.
            FrameError: A frame is missing or cannot be decoded.
        """
        shown = read_visual_settings(settings)
        doc, progress = _source_of(doc, shown.shortcut)
        match shown:
            case FrameSettings():
                return self._frame_input(doc, progress, shown)
            case ClipSettings():
                return self._clip_input(doc, progress, shown)
            case VideoSettings():
                video = self._progress_video(doc, progress)
                return [video, *self.read_frames(doc, _observation_of(progress, shown))]

    def _frame_input(self, doc: Doc, progress: Progress, settings: FrameSettings) -> VisualInput:
        """Return the images or the clip of the frames, and a separate observation."""
        frames = _frames_of(progress, settings)
        frames = apply_condition(frames, settings.shortcut, str(doc.get("sample_id")))
        images = self.read_frames(doc, [*frames, *_observation_of(progress, settings)])
        if settings.size is not None:
            images = [image.resize(settings.size) for image in images]
        if not settings.is_timed or not frames:
            return list(images)
        clip = Clip(images[: len(frames)], frame_rate(frames, progress.fps))
        return [clip, *images[len(frames) :]]

    def _clip_input(self, doc: Doc, progress: Progress, settings: ClipSettings) -> VisualInput:
        """Return the clips, or their images in one list, and the observation."""
        clips = _clips_of(doc, progress, settings)
        numbers = [*chain.from_iterable(clips), progress.observation]
        images = iter(self.read_frames(doc, numbers))
        visual_input: VisualInput = []
        for index, clip in enumerate(clips, start=1):
            if settings.has_marks:
                visual_input.append(MediaMarker(MARKS["clip"].format(i=index)))
            clip_images = [next(images) for _ in clip]
            if settings.is_flat:
                visual_input += clip_images
            else:
                visual_input.append(Clip(clip_images, frame_rate(clip, progress.fps)))
        if settings.has_marks:
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
