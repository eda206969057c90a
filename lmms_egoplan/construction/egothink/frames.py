"""Choose clear and different frames of videos as candidates for questions (sec. 3.2).

The paper samples a frame "every few dozen frames", excludes images that "lack clarity" and keeps
"at most two images per video". All other numbers are this project's.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from PIL import Image

from lmms_egoplan.construction.pictures import (
    IMAGES,
    VIDEOS,
    Hashes,
    difference_hash,
    is_video,
    read_pictures,
    sharpness,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, whole_file, write_whole
from lmms_egoplan.jsonl import json_lines, read_lines
from lmms_egoplan.media.frames import FrameError, frame_times
from lmms_egoplan.media.image_files import write_jpeg
from lmms_egoplan.progress import track
from lmms_egoplan.rejections import Rejection, none_left
from lmms_egoplan.text import clean_text, join_list
from lmms_egoplan.volumes import with_path_in_error

FRAMES = "frames.jsonl"
REJECTIONS = "rejections.jsonl"
IMAGE = "frames/{video}_{frame:06}.jpg"
EVERY = 30
MIN_SHARPNESS = 50.0
# Sec. 3.2. The two frames of a video are at least a third of its length from each other.
_PER_VIDEO = 2
_DISTANCE = 1 / 3
# Frames are measured with this longer side, as in the release. Of its 700 images, 98 % are sharper
# than `MIN_SHARPNESS`, and all but one have at least this mean and standard deviation of grey
# values, from 0 to 255.
_LONGER_SIDE = 512
_BRIGHTNESS = 30
_CONTRAST = 20
_QUALITY = 95
# Two frames are alike if at most this many of their 64 bits differ; see `difference_hash`. So are
# 28 of the 244,650 pairs of released images, 18 of them copies.
_ALIKE = 10

DARK = "dark or blank frame"
BLURRED = "blurred frame"
ALIKE = "frame like one that is already chosen"
SURPLUS = "frame too close to a sharper one, or of a video that has two"
BAD_VIDEO = "video that cannot be read"
BAD_FRAME = "damaged frame"

Frame = dict[str, Any]
"""A line of ``frames.jsonl``.

``image`` is relative to the folder of the file, ``video`` to the videos' folder. ``frame`` counts
from 0; ``seconds`` is None for an image. ``brightness`` and ``contrast`` are mean and standard
deviation of the grey values, 0 to 255. The others are ``sharpness`` and ``hash``
(`difference_hash`).
"""


@dataclass(frozen=True)
class ChosenFrames:
    """The result of `build_frames`.

    Attributes:
        frames: The lines of ``frames.jsonl``.
        num_rejected: Number of rejected videos and frames for each reason.
        unreadable: Videos that cannot be read.
    """

    frames: Sequence[Frame]
    num_rejected: Mapping[str, int]
    unreadable: Sequence[str]


def build_frames(folder: Path, out: Path, every: int, min_sharpness: float) -> ChosenFrames:
    """Sample, choose and write frames.

    Measurements of each video are stored in ``out/sampled``, so an interrupted run resumes with the
    next video. They are read again one video at a time, because a long video has thousands of
    frames. ``frames.jsonl`` lists the chosen frames. Images of earlier runs with other settings
    stay in ``out/frames``, since people may have labelled them.

    Args:
        folder: See `find_videos`.
        every: Distance of sampled frames, in frames, at least 1.
        min_sharpness: See `choose`.

    Raises:
        LmmsEgoplanError: The folder has no videos or images, or no frame is left.
    """
    videos = find_videos(folder.resolve(), out.resolve())
    jobs = (
        delayed(_sample)(name, files, every, out)
        for name, files in track(videos.items(), "Sampling videos")
    )
    damaged: list[Rejection] = []
    for rejections in Parallel(-1, prefer="threads", pre_dispatch="n_jobs", return_as="generator")(
        jobs
    ):
        damaged += rejections
    results = choose((_read_sampled(name, out) for name in videos), min_sharpness)
    frames, num_rejected = _write_rejections(out / REJECTIONS, chain(damaged, results))
    if not frames:
        reasons = none_left(
            [Rejection(**json.loads(line)) for _, line in read_lines(out / REJECTIONS)]
        )
        raise LmmsEgoplanError(f"{folder}: no frames left. {reasons}")
    jobs = (
        delayed(_write)(videos[frame["video"]], frame, out)
        for frame in track(frames, "Writing frames")
    )
    Parallel(-1, prefer="threads", pre_dispatch="n_jobs")(jobs)
    write_whole(out / FRAMES, clean_text(json_lines(frames)))
    unreadable = [rejection.where for rejection in damaged if rejection.reason == BAD_VIDEO]
    return ChosenFrames(frames, num_rejected, unreadable)


def _write_rejections(
    path: Path, results: Iterable[Frame | Rejection]
) -> tuple[list[Frame], dict[str, int]]:
    """Write the rejections among results; return the frames, and the rejections' counts."""
    frames: list[Frame] = []
    num_rejected: dict[str, int] = {}
    with (
        with_path_in_error(path),
        whole_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for result in results:
            if isinstance(result, Rejection):
                num_rejected[result.reason] = num_rejected.get(result.reason, 0) + 1
                file.write(clean_text(json_lines([asdict(result)])))
            else:
                frames.append(result)
    return frames, num_rejected


def summary_lines(chosen: ChosenFrames, out: Path) -> Iterator[str]:
    """Yield the lines that the command prints after `build_frames`.

    The last one has the next command.
    """
    reasons = "; ".join(f"{count}: {reason}" for reason, count in chosen.num_rejected.items())
    yield f"Rejected, see {out / REJECTIONS}: {reasons or 'nothing'}"
    yield f"Unreadable: {join_list(chosen.unreadable, 3) or 'none'}"
    num_videos = len({frame["video"] for frame in chosen.frames})
    yield f"{len(chosen.frames)} frames of {num_videos} videos written to {out}"
    yield f"Next: lmms-egoplan annotate egothink-questions {out} --db questions.sqlite"


def find_videos(folder: Path, out: Path) -> dict[str, list[Path]]:
    """Find videos, and folders of images, at any depth.

    Images directly in `folder` count as a video each.

    Args:
        out: Output folder, which is skipped.

    Returns:
        For each path relative to `folder`, the video, or the images by name.

    Raises:
        LmmsEgoplanError: The folder does not exist, or contains no video or image.
    """
    videos: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("[!.]*")):
        if path.suffix.lower() in (*VIDEOS, *IMAGES) and path.is_file() and out not in path.parents:
            name = path.relative_to(folder)
            is_whole = is_video(path) or path.parent == folder
            videos.setdefault((name if is_whole else name.parent).as_posix(), []).append(path)
    if not videos:
        raise LmmsEgoplanError(
            f"{folder}: expected a folder with videos ({', '.join(VIDEOS)}) or images"
        )
    return videos


def choose(videos: Iterable[Sequence[Frame]], min_sharpness: float) -> Iterator[Frame | Rejection]:
    """Choose at most two frames of each video, sharpest first, and reject all others.

    No chosen frame is like any other one of any video.

    Args:
        videos: Sampled frames of each video, in order.
        min_sharpness: Lowest accepted sharpness.
    """
    hashes = Hashes()
    for frames in videos:
        chosen: list[int] = []
        for frame in sorted(frames, key=lambda frame: -frame["sharpness"]):
            reason = _problem(frame, frames[-1]["frame"], chosen, min_sharpness)
            if not reason and hashes.has_like(frame["hash"], _ALIKE):
                reason = ALIKE
            if reason:
                where = f"{frame['video']}, frame {frame['frame']}"
                yield Rejection("frame", reason, where)
            else:
                chosen.append(frame["frame"])
                hashes.add(frame["hash"])
                yield frame


def _problem(frame: Frame, last: int, chosen: Sequence[int], min_sharpness: float) -> str:
    """Return why a frame cannot be chosen, except for likeness; "" if it can.

    Args:
        frame: The frame.
        last: Number of the video's last sampled frame.
        chosen: Numbers of the video's frames that are already chosen.
        min_sharpness: Lowest accepted sharpness.
    """
    if frame["brightness"] < _BRIGHTNESS or frame["contrast"] < _CONTRAST:
        return DARK
    if frame["sharpness"] < min_sharpness:
        return BLURRED
    is_close = any(abs(frame["frame"] - number) < _DISTANCE * last for number in chosen)
    if len(chosen) == _PER_VIDEO or is_close:
        return SURPLUS
    return ""


def _sampled_path(name: str, out: Path) -> Path:
    return out / "sampled" / f"{name}.json"


def _read_sampled(name: str, out: Path) -> list[Frame]:
    """Read the frames that `_sample` stored."""
    frames: list[Frame] = json.loads(_sampled_path(name, out).read_bytes())["frames"]
    return frames


def _sample(name: str, files: Sequence[Path], every: int, out: Path) -> list[Rejection]:
    """Sample a video and store the intact frames, unless an earlier run did.

    Returns the rejections.
    """
    mark = [every, *(f"{path.name} {file_version(path.stat())}" for path in files)]
    stored_path = _sampled_path(name, out)
    with suppress(OSError, ValueError):  # not sampled yet
        stored = json.loads(stored_path.read_bytes())
        if stored["mark"] == mark:
            return [Rejection(**line) for line in stored["rejections"]]
    frames = []
    rejections = []
    try:
        times = frame_times(files[0]) if is_video(files[0]) else [None] * len(files)
        for number, image in read_pictures(files, range(0, len(times), every)):
            if isinstance(image, FrameError):
                rejections.append(asdict(Rejection("frame", BAD_FRAME, name, str(image))))
            else:
                frames.append(_measure(name, number, times[number], image))
    except FrameError as error:
        frames = []
        rejections = [asdict(Rejection("video", BAD_VIDEO, name, str(error)))]
    write_whole(stored_path, json.dumps({"mark": mark, "frames": frames, "rejections": rejections}))
    return [Rejection(**line) for line in rejections]


def _measure(video: str, number: int, seconds: float | None, image: Image.Image) -> Frame:
    """Make an image small, in place, and return its line of ``frames.jsonl``."""
    image.thumbnail((_LONGER_SIDE, _LONGER_SIDE))
    grey = np.asarray(image.convert("L"))
    return {
        "image": IMAGE.format(video=video, frame=number),
        "video": video,
        "frame": number,
        "seconds": seconds,
        "sharpness": sharpness(image),
        "brightness": float(grey.mean()),
        "contrast": float(grey.std()),
        "hash": difference_hash(image),
    }


def _write(files: Sequence[Path], frame: Frame, out: Path) -> None:
    """Write a frame's image, unless an earlier run wrote it after the last change of the video."""
    path = out / frame["image"]
    if path.exists() and path.stat().st_mtime > max(file.stat().st_mtime for file in files):
        return
    for _, image in read_pictures(files, [frame["frame"]]):
        if isinstance(image, FrameError):
            raise image
        write_jpeg(path, image, _QUALITY)
