"""Find candidates for an instance's views in tours (sec. 3.2).

Tours are videos or folders of images. Candidates are sharp and different.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from lmms_egoplan.benchmarks.actplan.instances import InstanceId, parse_id
from lmms_egoplan.construction.pictures import (
    VIDEOS,
    Thumbnail,
    distance,
    image_paths,
    read_pictures,
    sharpness,
    thumbnail,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.media.frames import FrameError, frame_times, stream_video_frames
from lmms_egoplan.rejections import Rejection

LAYOUT = (
    "DIR/<scene>/<activity>/<n>/sample_<k>.mp4 (a touring video) or a folder sample_<k>/ with "
    "images (png, jpg, jpeg); n is 0 for the normal activity, 1 for the counterfactual one"
)
# Files in the release next to the folders of images; they are ignored.
_IGNORED = re.compile(r"problem\d\.bddl|task_description_\d\.txt")
# The paper chooses views by hand (sec. 3.2); the numbers below are the project's.
# Seconds between sampled frames, and most frames of a video. Longer videos are sampled less often.
_FRAME_INTERVAL = 1.0
_MOST_FRAMES = 60
# Sharpness is measured on images with this longer side. It must reach this fraction of the tour's
# median.
_LONGER_SIDE = 640
_SHARP = 0.5
# Two views are alike if their `distance` is less than this. The views of a released instance differ
# by 0.12 to 0.16. Of 60 random images from EgoThink, no two differ by less than 0.10.
_ALIKE = 0.05

NO_TOUR = "neither a video nor a folder of images"
STRAY = "file or folder whose path names no instance"
TWICE = "second tour of an instance"
BAD_VIDEO = "video that cannot be read"
BAD_FRAME = "damaged frame"
BAD_IMAGE = "image that cannot be read"


@dataclass(frozen=True)
class Tour:
    """The recording of an instance: a video, or a folder of images."""

    id: InstanceId
    path: Path

    @property
    def activity(self) -> str:
        """The key of the tour's activity."""
        return f"{self.id.activity}/{self.id.description}"

    @property
    def is_video(self) -> bool:
        """True for a video, False for a folder of images."""
        return self.path.is_file()

    def version(self) -> str:
        """Return a text that changes with the tour's content."""
        files = [self.path] if self.is_video else image_paths(self.path)
        return " ".join(f"{path.name} {file_version(path.stat())}" for path in files)


@dataclass(frozen=True)
class Candidate:
    """A frame or image that may become a view.

    name: Name of the view's file: the frame number in five digits, or the image's file name.
    time: Seconds in the video; None for an image from a folder.
    image: RGB image, with no side above 640 px.
    sharpness: Variance of the Laplacian of the grey values, which range from 0 to 255.
    """

    name: str
    time: float | None
    image: Image.Image
    sharpness: float


def find_tours(folder: Path) -> tuple[list[Tour], list[Rejection]]:
    """Find the tours in a folder, ordered by instance; other files and folders are rejections.

    Raises:
        LmmsEgoplanError: The folder does not exist, or contains no tour.
    """
    if not folder.is_dir():
        raise LmmsEgoplanError(f"{folder}: no such folder; expected {LAYOUT}")
    tours: dict[InstanceId, Tour] = {}
    rejections: list[Rejection] = []
    for path in sorted(folder.glob("*/*/*/*")):
        where = str(path.relative_to(folder))
        if path.name.startswith(".") or _IGNORED.fullmatch(path.name):
            continue
        instance = parse_id(
            "/".join((*path.parts[-4:-1], path.name if path.is_dir() else path.stem))
        )
        if instance is None:
            rejections.append(Rejection("tour", STRAY, where))
        elif not path.is_dir() and path.suffix.lower() not in VIDEOS:
            rejections.append(Rejection("tour", NO_TOUR, where))
        elif instance in tours:
            rejections.append(Rejection("tour", TWICE, where, str(tours[instance].path)))
        else:
            tours[instance] = Tour(instance, path)
    if not tours:
        raise LmmsEgoplanError(f"{folder}: contains no tour; expected {LAYOUT}")
    return [tours[instance] for instance in sorted(tours)], rejections


def read_candidates(tour: Tour) -> tuple[list[Candidate], list[Rejection]]:
    """Read a tour's images, or about one video frame per second, in order.

    Unreadable ones are rejections.
    """
    return _frames(tour) if tour.is_video else _images(tour)


def sharp_and_different(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Drop candidates that are blurred or similar to an earlier one.

    Return the `most` sharpest, in order.
    """
    if not candidates:
        return []
    threshold = _SHARP * float(np.median([candidate.sharpness for candidate in candidates]))
    distinct: list[Candidate] = []
    thumbnails: list[Thumbnail] = []
    for candidate in candidates:
        if candidate.sharpness < threshold:
            continue
        small = thumbnail(candidate.image)
        if all(distance(small, earlier) >= _ALIKE for earlier in thumbnails):
            distinct.append(candidate)
            thumbnails.append(small)
    best = sorted(distinct, key=lambda candidate: -candidate.sharpness)[:most]
    return [candidate for candidate in distinct if candidate in best]


def view_file(tour: Tour, name: str) -> tuple[str, bytes]:
    """Return name and content of a view's file.

    The content is that of an image file, or a frame as PNG in full size.

    Args:
        tour: The view's tour.
        name: Name of the candidate.

    Raises:
        FrameError, OSError: The frame or image cannot be read.
    """
    if not tour.is_video:
        return name, (tour.path / name).read_bytes()
    (image,) = stream_video_frames(tour.path, [int(name)])
    content = BytesIO()
    image.save(content, "PNG")
    return f"{name}.png", content.getvalue()


def named_views(tour: Tour, views: Sequence[str]) -> list[Candidate]:
    """Read the candidates that people chose: seconds in a video, or names of images.

    Raises:
        LmmsEgoplanError: A view does not exist or cannot be read; the error names it.
    """
    if not tour.is_video:
        file_names = {path.name for path in image_paths(tour.path)}
        missing = [view for view in views if view not in file_names]
        if missing:
            raise LmmsEgoplanError(f"{tour.path}: contains no image {missing[0]}")
        candidates, rejections = _images(tour, set(views))
        if rejections:
            raise LmmsEgoplanError(f"{rejections[0].where}: {rejections[0].detail}")
        return candidates
    times = frame_times(tour.path)
    frames = []
    for view in views:
        try:
            seconds = float(view)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= times[-1] + 1:
            raise LmmsEgoplanError(
                f"{tour.path}: {view}: expected seconds from 0 to {times[-1]:.2f}"
            )
        frames.append(min(range(len(times)), key=lambda frame: abs(times[frame] - seconds)))
    frames = sorted(set(frames))
    return _candidates(times, frames, stream_video_frames(tour.path, frames))


def _frames(tour: Tour) -> tuple[list[Candidate], list[Rejection]]:
    try:
        times = frame_times(tour.path)
    except FrameError as error:
        return [], [Rejection("tour", BAD_VIDEO, str(tour.id), str(error))]
    count = min(_MOST_FRAMES, max(2, round((times[-1] - times[0]) / _FRAME_INTERVAL)))
    sample_times = np.linspace(times[0], times[-1], count)
    frames = sorted({int(np.abs(np.asarray(times) - time).argmin()) for time in sample_times})
    candidates: list[Candidate] = []
    rejections: list[Rejection] = []
    for frame, image in read_pictures([tour.path], frames):
        if isinstance(image, FrameError):
            rejections.append(Rejection("tour", BAD_FRAME, str(tour.id), str(image)))
        else:
            candidates += _candidates(times, [frame], [image])
    return candidates, rejections


def _images(tour: Tour, names: set[str] | None = None) -> tuple[list[Candidate], list[Rejection]]:
    candidates: list[Candidate] = []
    rejections: list[Rejection] = []
    files = [path for path in image_paths(tour.path) if names is None or path.name in names]
    for number, image in read_pictures(files, range(len(files))):
        name = files[number].name
        if isinstance(image, FrameError):
            rejections.append(Rejection("tour", BAD_IMAGE, f"{tour.id}/{name}", str(image)))
        else:
            candidates.append(_candidate(name, None, image))
    return candidates, rejections


def _candidates(
    times: Sequence[float], frames: Sequence[int], images: Iterable[Image.Image]
) -> list[Candidate]:
    """Return candidates named by frame number.

    It has five digits as in the release, or more if the video needs them.
    """
    digits = max(5, len(str(len(times))))
    return [
        _candidate(f"{frame:0{digits}}", times[frame], image)
        for frame, image in zip(frames, images, strict=True)
    ]


def _candidate(name: str, time: float | None, image: Image.Image) -> Candidate:
    small = image.convert("RGB")
    small.thumbnail((_LONGER_SIDE, _LONGER_SIDE))
    return Candidate(name, time, small, sharpness(small))
