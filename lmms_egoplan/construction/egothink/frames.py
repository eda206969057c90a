"""Choose clear and different frames of videos as candidates for questions (sec. 3.2).

The paper samples a frame "every few dozen frames", excludes images that "lack clarity" and keeps
"at most two images per video". All other numbers are this project's.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from PIL import Image

from lmms_egoplan.construction.pictures import IMAGES, VIDEOS, is_video, read_pictures, sharpness
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version, write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.media.frames import FrameError, frame_times
from lmms_egoplan.media.image_files import write_jpeg
from lmms_egoplan.progress import track
from lmms_egoplan.rejections import Rejection, counted, none_left
from lmms_egoplan.text import clean_text, join_list

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


def build_frames(
    folder: Path, out: Path, every: int, min_sharpness: float
) -> tuple[list[Frame], list[Rejection]]:
    """Sample, choose and write frames.

    Measurements of each video are stored in ``out/sampled``, so an interrupted run resumes with the
    next video. ``frames.jsonl`` lists the chosen frames. Images of earlier runs with other settings
    stay in ``out/frames``, since people may have labelled them.

    Args:
        folder: See `find_videos`.
        every: Distance of sampled frames, in frames, at least 1.
        min_sharpness: See `choose`.

    Returns:
        The lines of ``frames.jsonl``, and the rejected videos and frames.

    Raises:
        LmmsEgoplanError: The folder has no videos or images, or no frame is left.
    """
    videos = find_videos(folder.resolve(), out.resolve())
    jobs = (
        delayed(_sample)(name, files, every, out)
        for name, files in track(videos.items(), "Sampling videos")
    )
    sampled = Parallel(-1, prefer="threads", pre_dispatch="n_jobs")(jobs)
    frames, rejections = choose([video for video, _ in sampled], min_sharpness)
    rejections = [Rejection(**line) for _, damaged in sampled for line in damaged] + rejections
    write_whole(out / REJECTIONS, clean_text(json_lines(map(vars, rejections))))
    if not frames:
        raise LmmsEgoplanError(f"{folder}: no frames left. {none_left(rejections)}")
    jobs = (
        delayed(_write)(videos[frame["video"]], frame, out)
        for frame in track(frames, "Writing frames")
    )
    Parallel(-1, prefer="threads", pre_dispatch="n_jobs")(jobs)
    write_whole(out / FRAMES, clean_text(json_lines(frames)))
    return frames, rejections


def summary_lines(
    frames: Sequence[Frame], rejections: Sequence[Rejection], out: Path
) -> Iterator[str]:
    """Yield the lines that the command prints after `build_frames`.

    The last one has the next command.
    """
    reasons = "; ".join(f"{count}: {reason}" for reason, count in counted(rejections))
    yield f"Rejected, see {out / REJECTIONS}: {reasons or 'nothing'}"
    unreadable = [rejection.where for rejection in rejections if rejection.reason == BAD_VIDEO]
    yield f"Unreadable: {join_list(unreadable, 3) or 'none'}"
    num_videos = len({frame["video"] for frame in frames})
    yield f"{len(frames)} frames of {num_videos} videos written to {out}"
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


def choose(
    videos: Sequence[Sequence[Frame]], min_sharpness: float
) -> tuple[list[Frame], list[Rejection]]:
    """Choose at most two frames of each video, sharpest first.

    No chosen frame is like any other one of any video.

    Args:
        videos: Sampled frames of each video, in order.
        min_sharpness: Lowest accepted sharpness.
    """
    chosen: list[Frame] = []
    rejections: list[Rejection] = []
    for frames in videos:
        first = len(chosen)
        for frame in sorted(frames, key=lambda frame: -frame["sharpness"]):
            distances = [abs(frame["frame"] - other["frame"]) for other in chosen[first:]]
            if frame["brightness"] < _BRIGHTNESS or frame["contrast"] < _CONTRAST:
                reason = DARK
            elif frame["sharpness"] < min_sharpness:
                reason = BLURRED
            elif len(distances) == _PER_VIDEO or any(
                n < _DISTANCE * frames[-1]["frame"] for n in distances
            ):
                reason = SURPLUS
            elif any(
                (int(frame["hash"], 16) ^ int(other["hash"], 16)).bit_count() <= _ALIKE
                for other in chosen
            ):
                reason = ALIKE
            else:
                chosen.append(frame)
                continue
            rejections.append(
                Rejection("frame", reason, f"{frame['video']}, frame {frame['frame']}")
            )
    return chosen, rejections


def difference_hash(image: Image.Image) -> str:
    """Return 64 bits, in hexadecimal, that are similar for similar images.

    Each bit says which of two neighbours is brighter.
    """
    grey = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX))
    return np.packbits(grey[:, 1:] > grey[:, :-1]).tobytes().hex()


def _sample(
    name: str, files: Sequence[Path], every: int, out: Path
) -> tuple[list[Frame], list[dict[str, str]]]:
    """Sample a video, or read what an earlier run stored.

    Returns the intact frames, and rejections.
    """
    mark = [every, *(f"{path.name} {file_version(path.stat())}" for path in files)]
    stored_path = out / "sampled" / f"{name}.json"
    with suppress(OSError, ValueError):  # not sampled yet
        stored = json.loads(stored_path.read_bytes())
        if stored["mark"] == mark:
            return stored["frames"], stored["rejections"]
    frames = []
    rejections = []
    try:
        times = frame_times(files[0]) if is_video(files[0]) else [None] * len(files)
        for number, image in read_pictures(files, range(0, len(times), every)):
            if isinstance(image, FrameError):
                rejections.append(vars(Rejection("frame", BAD_FRAME, name, str(image))))
            else:
                frames.append(_measure(name, number, times[number], image))
    except FrameError as error:
        frames = []
        rejections = [vars(Rejection("video", BAD_VIDEO, name, str(error)))]
    write_whole(stored_path, json.dumps({"mark": mark, "frames": frames, "rejections": rejections}))
    return frames, rejections


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
