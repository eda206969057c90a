"""What a model is shown of one question: frames of the progress as images, clips or a video file (sec. 3.3, C.1).

Never anything after the current observation.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from PIL import Image

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.clip import Clip
from lmms_egoplan.media.frames import (
    DamagedFrameError,
    FrameError,
    frame_path,
    read_frame_folder,
    read_video_frames,
    write_video,
)
from lmms_egoplan.media.sampling import Doc, VisualInput, count_setting, evenly_spaced, read_in_batches
from lmms_egoplan.paths import data_root
from lmms_egoplan.storage import file_version, resolve_inside

# The project's default for models without multi-clip input.
UNIFORM_FRAMES = 8
# The most recent N = 4 action segments with K = 8 keyframes each (paper, C.1).
NUM_CLIPS = 4
FRAMES_PER_CLIP = 8
# Frames per second of the sources. The records do not tell; Ego4D's canonical videos have 30, EPIC-KITCHENS'
# frames were extracted at 60 (and at 50 for the newer part of EPIC-KITCHENS-100). Only sets the pace of
# progress videos.
SOURCE_FPS = {EPIC_KITCHENS: 60, EGO4D: 30}
# The project's own limits for progress videos.
VIDEO_FPS = 4
VIDEO_FRAMES = 256
# Part of their names: videos written before damaged frames were refused may show patched ones.
_WRITTEN = "intact"

Segment = tuple[int, int]


def uniform_frames(past: Sequence[Segment], observation: int, num_frames: int = UNIFORM_FRAMES) -> list[int]:
    """Evenly spaced frames of the whole progress, from the first past action's start to the observation.

    Args:
        past: (start, stop) frame numbers of the past actions, in order of their starts; may be empty.
        observation: number of the current observation's frame.
        num_frames: at least 1.

    Returns:
        At most `num_frames` strictly increasing numbers that end with `observation`; fewer where the span has
        fewer frames, and the observation alone without past actions.

    Raises:
        ValueError: `num_frames` below 1, or a past action that starts after the observation.
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
    """Evenly spaced frames of each of the last past actions (paper, C.1).

    The observation is an image of its own and no clip here, though the last action may end with that frame.
    An action that goes on after the observation is cut there.

    Args:
        past, observation: as for `uniform_frames`.
        num_clips, frames_per_clip: at least 1.

    Returns:
        At most `num_clips` lists, oldest action first, each of `frames_per_clip` non-decreasing numbers from
        the action's start to its stop; an action with fewer frames repeats some, so that all clips of a
        question have one length, as models with video input need.

    Raises:
        ValueError: as for `uniform_frames`, or an action that stops before it starts.
    """
    _check(past, observation, num_clips=num_clips, frames_per_clip=frames_per_clip)
    return [evenly_spaced(start, min(stop, observation), frames_per_clip) for start, stop in past[-num_clips:]]


def uniform_images(doc: Doc, num_frames: int = UNIFORM_FRAMES) -> list[Image.Image]:
    """RGB images of the whole progress, evenly spaced, the last being the current observation.

    Args:
        doc: a row of the prepared dataset.
        num_frames: upper bound, at least 1.

    Raises:
        FrameError: a frame is absent or cannot be decoded.
    """
    return read_frames(doc, uniform_frames(_past(doc), doc["current_observation_frame"], num_frames))


def num_uniform_images(doc: Doc, num_frames: int = UNIFORM_FRAMES) -> int:
    """How many images `uniform_images` gives; reads no frame."""
    return len(uniform_frames(_past(doc), doc["current_observation_frame"], num_frames))


def clip_images(
    doc: Doc, num_clips: int = NUM_CLIPS, frames_per_clip: int = FRAMES_PER_CLIP
) -> tuple[list[Clip], Image.Image]:
    """Clips of the last past actions, oldest first, and an image of the current observation (paper, C.1).

    A clip's frame rate is that of its frames in the source. A clip of one image has none.

    Args:
        doc: a row of the prepared dataset.
        num_clips: upper bound, at least 1.
        frames_per_clip: images of each clip, at least 1.

    Raises:
        FrameError: a frame is absent or cannot be decoded.
    """
    observation = doc["current_observation_frame"]
    clips = clip_frames(_past(doc), observation, num_clips, frames_per_clip)
    images = iter(read_frames(doc, [number for clip in clips for number in clip] + [observation]))
    fps = SOURCE_FPS[doc["video_source"]]
    return [Clip((next(images) for _ in clip), _rate(clip, fps)) for clip in clips], next(images)


def progress_video(doc: Doc) -> str:
    """Path of an H.264 file that shows the progress up to the current observation and nothing after it.

    For backends that take a video file: the source file itself goes on and shows the answer. At most
    `VIDEO_FPS` frames per second and `VIDEO_FRAMES` in all, evenly spaced, at the pace of the source; the
    last frame is the observation. Written once, under ``<data root>/egoplan/progress_videos``, and used
    again while the video, or the first and the last frame file of the progress, have the same size and time.

    Raises:
        FrameError: a frame is absent or cannot be decoded.
    """
    source, video_id, observation = doc["video_source"], doc["video_id"], doc["current_observation_frame"]
    past = _past(doc)
    first = past[0][0] if past else observation
    folder = data_root() / "egoplan" / "progress_videos"
    version = _version(doc, first, observation)
    path = resolve_inside(folder, f"{source}_{video_id}_{first}_{observation}_{version}.mp4")
    if not path.exists():
        span = Fraction(observation - first, SOURCE_FPS[source])
        numbers = uniform_frames(past, observation, min(VIDEO_FRAMES, int(span * VIDEO_FPS) + 1))
        fps = (len(numbers) - 1) / span if len(numbers) > 1 else VIDEO_FPS
        write_video(path, read_in_batches(partial(read_frames, doc), numbers), fps)
    return str(path)


def visual_input(doc: Doc, settings: Mapping[str, Any]) -> VisualInput:
    """What a model is shown of a question, never anything after the current observation (sec. 3.3).

    Args:
        doc: a row of the prepared dataset.
        settings: ``media`` and the counts that it takes, each at least 1:
            ``frames``: up to ``num_frames`` images of the whole progress, the observation last.
            ``clips``: one list of ``frames_per_clip`` images for each of the last ``num_clips`` past actions,
            and the observation as an image of its own (C.1).
            ``clip_frames``: the images of ``clips`` in one flat list.
            ``video``: path of an H.264 file of the progress.
            Other entries are left alone.

    Raises:
        LmmsEgoplanError: an unknown ``media``, or a count that is absent or no positive integer.
        FrameError: a frame is absent or cannot be decoded.
    """
    match settings.get("media"):
        case "frames":
            return list(uniform_images(doc, count_setting(settings, "num_frames")))
        case "clips" | "clip_frames" as media:
            clips, observation = clip_images(
                doc, count_setting(settings, "num_clips"), count_setting(settings, "frames_per_clip")
            )
            return [*(clips if media == "clips" else chain.from_iterable(clips)), observation]
        case "video":
            return [progress_video(doc)]
        case other:
            raise LmmsEgoplanError(f"visual settings: media must be frames, clips, clip_frames or video, got {other!r}")


def _check(past: Sequence[Segment], observation: int, **counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}")
    for start, stop in past:
        if start > min(stop, observation):
            raise ValueError(f"past action {start}-{stop} must start by its stop and by the observation, {observation}")


def _rate(frames: Sequence[int], fps: int) -> float | None:
    """Frames per second of evenly spaced frames; an action that is one frame long takes the time of one frame."""
    return (len(frames) - 1) * fps / max(1, frames[-1] - frames[0]) if len(frames) > 1 else None


def _past(doc: Doc) -> list[Segment]:
    return [(action["start_frame"], action["stop_frame"]) for action in doc["past_actions"]]


def _version(doc: Doc, first: int, last: int) -> str:
    media = Path(doc["media_path"])
    files = [frame_path(media, number) for number in (first, last)] if doc["video_source"] == EPIC_KITCHENS else [media]
    try:
        versions = [file_version(file.stat()) for file in files]
    except OSError as error:
        raise FrameError(f"{error.filename}: no such frame or video: {error.strerror}") from error
    return sha256(" ".join([_WRITTEN, *versions]).encode()).hexdigest()[:16]


def read_frames(doc: Doc, numbers: Sequence[int]) -> list[Image.Image]:
    """Frames of a prepared question's video, by the numbers that its records use.

    Raises:
        FrameError: a frame is absent or cannot be decoded.
    """
    read = read_frame_folder if doc["video_source"] == EPIC_KITCHENS else read_video_frames
    try:
        return read(doc["media_path"], numbers)
    except DamagedFrameError as error:
        raise DamagedFrameError(
            f"sample_id {doc['sample_id']}: {error}, or find all damaged frames and go on without their questions: "
            "lmms-egoplan data prepare egoplan ... --verify --skip-missing"
        ) from error
