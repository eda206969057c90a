"""Touring videos and folders of images: the candidates for an instance's views, sharp and not alike (sec. 3.2)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from lmms_egoplan.benchmarks.actplan.instances import InstanceId, parse_id
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.media.frames import (
    FrameError,
    check_video_frames,
    frame_times,
    read_video_frames,
    stream_video_frames,
)
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.rejections import Rejection

LAYOUT = (
    "DIR/<scene>/<activity>/<n>/sample_<k>.mp4, a touring video, or a folder sample_<k>/ with images (png, jpg, jpeg), "
    "n 0 for the normal activity and 1 for the counterfactual one"
)
_VIDEOS = (".mp4", ".mov", ".mkv", ".webm", ".avi")
_IMAGES = (".png", ".jpg", ".jpeg")
# What the release has beside the folders of images.
_OTHERS = re.compile(r"problem\d\.bddl|task_description_\d\.txt")
# The paper chooses by hand (sec. 3.2); all that follows is the project's.
# Frames of a video are looked at a second apart, or further in one of more than so many seconds.
_SECONDS_APART, _MOST_FRAMES = 1.0, 60
# Sharpness is measured on images of this longer side, and has to reach this part of the tour's median.
_LONGER_SIDE, _SHARP = 640, 0.5
# Views are alike whose small colour pictures differ by less than this, on average, of 1. The release's views of an
# instance differ by 0.12 to 0.16; of 60 of EgoThink's images, drawn by chance, no two by less than 0.10.
_THUMBNAIL, _ALIKE = (16, 16), 0.05

NO_TOUR = "tour that is no video and no folder of images"
STRAY = "file or folder that is no tour"
TWICE = "tour of an instance that has another one"
BAD_VIDEO = "video that cannot be read"
BAD_FRAME = "frame that is damaged"
BAD_IMAGE = "image that cannot be read"


@dataclass(frozen=True)
class Tour:
    """What was recorded of an instance: a video, or a folder of images."""

    id: InstanceId
    path: Path

    @property
    def activity(self) -> str:
        """The key of its activity."""
        return f"{self.id.activity}/{self.id.description}"

    @property
    def is_video(self) -> bool:
        """Whether it is a video."""
        return self.path.is_file()

    def version(self) -> str:
        """Return a text that changes with the tour's content."""
        files = [self.path] if self.is_video else _image_paths(self.path)
        return " ".join(f"{path.name} {file_version(path.stat())}" for path in files)


@dataclass(frozen=True)
class Candidate:
    """A frame or image that may become a view.

    name: of the view's file: the frame's number in five digits, or the image's own name.
    time: seconds in the video; None for an image of a folder.
    image: RGB, with no side above 640 px.
    sharpness: variance of the Laplacian of its grey values, 0 to 255.
    """

    name: str
    time: float | None
    image: Image.Image
    sharpness: float


def find_tours(folder: Path) -> tuple[list[Tour], list[Rejection]]:
    """Find the tours of a folder, ordered by instance; anything else is a rejection.

    Raises:
        LmmsEgoplanError: there is no such folder, or no tour in it.
    """
    if not folder.is_dir():
        raise LmmsEgoplanError(f"{folder}: no such folder; expected {LAYOUT}")
    tours: dict[InstanceId, Tour] = {}
    rejections: list[Rejection] = []
    for path in sorted(folder.glob("*/*/*/*")):
        where = str(path.relative_to(folder))
        if path.name.startswith(".") or _OTHERS.fullmatch(path.name):
            continue
        instance = parse_id("/".join((*path.parts[-4:-1], path.name if path.is_dir() else path.stem)))
        if instance is None:
            rejections.append(Rejection("tour", STRAY, where))
        elif not path.is_dir() and path.suffix.lower() not in _VIDEOS:
            rejections.append(Rejection("tour", NO_TOUR, where))
        elif instance in tours:
            rejections.append(Rejection("tour", TWICE, where, str(tours[instance].path)))
        else:
            tours[instance] = Tour(instance, path)
    if not tours:
        raise LmmsEgoplanError(f"{folder}: no tour in it; expected {LAYOUT}")
    return [tours[instance] for instance in sorted(tours)], rejections


def read_candidates(tour: Tour) -> tuple[list[Candidate], list[Rejection]]:
    """Read a tour's images, or its frames a second apart, in order; what cannot be read is a rejection."""
    return _frames(tour) if tour.is_video else _images(tour)


def sharp_and_different(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Drop candidates that are blurred or like an earlier one; return at most so many, the sharpest."""
    if not candidates:
        return []
    least = _SHARP * float(np.median([one.sharpness for one in candidates]))
    kept: list[Candidate] = []
    for one in candidates:
        if one.sharpness >= least and all(distance(one.image, other.image) >= _ALIKE for other in kept):
            kept.append(one)
    best = sorted(kept, key=lambda one: -one.sharpness)[:most]
    return [one for one in kept if one in best]


def sharpness(image: Image.Image) -> float:
    """Return the variance of the Laplacian of an image's grey values: small for blurred images, 0 for plain ones."""
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    if min(grey.shape) < 3:
        return 0.0
    centre = grey[1:-1, 1:-1]
    return float((grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * centre).var())


def distance(first: Image.Image, second: Image.Image) -> float:
    """Return the mean difference of two images' colours at 16 x 16 px, 0 to 1."""
    small = (
        np.asarray(image.convert("RGB").resize(_THUMBNAIL, Image.Resampling.BOX), dtype=np.float64)
        for image in (first, second)
    )
    return float(np.abs(np.subtract(*small)).mean() / 255)


def view_file(tour: Tour, name: str) -> tuple[str, bytes]:
    """Return the file of a view, by its candidate's name: an image's own bytes, a frame as PNG in full size.

    Raises:
        FrameError, OSError: it cannot be read.
    """
    if not tour.is_video:
        return name, (tour.path / name).read_bytes()
    (image,) = read_video_frames(tour.path, [int(name)])
    content = BytesIO()
    image.save(content, "PNG")
    return f"{name}.png", content.getvalue()


def named_views(tour: Tour, views: Sequence[str]) -> list[Candidate]:
    """Read the candidates that people chose: seconds in a video, or names of images.

    Raises:
        LmmsEgoplanError: one of them is not there, or cannot be read; names it.
    """
    if not tour.is_video:
        known = {path.name for path in _image_paths(tour.path)}
        if unknown := [view for view in views if view not in known]:
            raise LmmsEgoplanError(f"{tour.path}: no image {unknown[0]} in it")
        found, wrong = _images(tour, set(views))
        if wrong:
            raise LmmsEgoplanError(f"{wrong[0].where}: {wrong[0].detail}")
        return found
    times = frame_times(tour.path)
    frames = []
    for view in views:
        try:
            seconds = float(view)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= times[-1] + 1:
            raise LmmsEgoplanError(f"{tour.path}: {view}: expected seconds from 0 to {times[-1]:.2f}")
        frames.append(min(range(len(times)), key=lambda frame: abs(times[frame] - seconds)))
    frames = sorted(set(frames))
    return _candidates(times, frames, read_video_frames(tour.path, frames))


def _frames(tour: Tour) -> tuple[list[Candidate], list[Rejection]]:
    try:
        times = frame_times(tour.path)
    except FrameError as error:
        return [], [Rejection("tour", BAD_VIDEO, str(tour.id), str(error))]
    count = min(_MOST_FRAMES, max(2, round((times[-1] - times[0]) / _SECONDS_APART)))
    wanted = np.linspace(times[0], times[-1], count)
    frames = sorted({int(np.abs(np.asarray(times) - time).argmin()) for time in wanted})
    wrong: list[Rejection] = []
    try:
        images = list(map(_small, stream_video_frames(tour.path, frames)))
    except FrameError:  # looked at frame by frame, to lose no other
        checked = list(check_video_frames(tour.path, frames))
        wrong = [Rejection("tour", BAD_FRAME, str(tour.id), str(error)) for _, error in checked if error is not None]
        frames = [frame for frame, error in checked if error is None]
        images = list(map(_small, stream_video_frames(tour.path, frames)))
    return _candidates(times, frames, images), wrong


def _images(tour: Tour, names: set[str] | None = None) -> tuple[list[Candidate], list[Rejection]]:
    found: list[Candidate] = []
    wrong: list[Rejection] = []
    for path in _image_paths(tour.path):
        if names is None or path.name in names:
            try:
                content = path.read_bytes()
                check_image(content, path.name)
            except OSError as error:
                wrong.append(Rejection("tour", BAD_IMAGE, f"{tour.id}/{path.name}", str(error.strerror)))
            except LmmsEgoplanError as error:
                wrong.append(Rejection("tour", BAD_IMAGE, f"{tour.id}/{path.name}", str(error)))
            else:
                with Image.open(BytesIO(content)) as image:
                    found.append(_candidate(path.name, None, image))
    return found, wrong


def _image_paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in _IMAGES and not path.name.startswith("."))


def _candidates(times: Sequence[float], frames: Sequence[int], images: Sequence[Image.Image]) -> list[Candidate]:
    """Name frames by their numbers in five digits, as in the release, or in as many as the video needs."""
    digits = max(5, len(str(len(times))))
    return [_candidate(f"{frame:0{digits}}", times[frame], image) for frame, image in zip(frames, images, strict=True)]


def _candidate(name: str, time: float | None, image: Image.Image) -> Candidate:
    small = _small(image)
    return Candidate(name, time, small, sharpness(small))


def _small(image: Image.Image) -> Image.Image:
    small = image.convert("RGB")
    small.thumbnail((_LONGER_SIDE, _LONGER_SIDE))
    return small
