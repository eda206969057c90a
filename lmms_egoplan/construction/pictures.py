"""Read frames of videos and folders of images, and measure their sharpness."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import FrameError, read_image, scan_video_frames
from lmms_egoplan.media.image_files import check_image

VIDEOS = (".mp4", ".mov", ".mkv", ".webm", ".avi")
IMAGES = (".png", ".jpg", ".jpeg")
"""Suffixes of file names, in lower case."""


def is_video(path: Path) -> bool:
    """Return whether the name of a file is that of a video."""
    return path.suffix.lower() in VIDEOS


def read_pictures(
    files: Sequence[Path], numbers: Sequence[int]
) -> Iterator[tuple[int, Image.Image | FrameError]]:
    """Yield the frames with these numbers, from 0, or their errors.

    Args:
        files: One video, or images.
        numbers: Increasing.

    Raises:
        FrameError: The video cannot be read.
    """
    if is_video(files[0]):
        yield from scan_video_frames(files[0], numbers)
        return
    for number in numbers:
        try:
            check_image(files[number].read_bytes(), str(files[number]))
            yield number, read_image(files[number])
        except (LmmsEgoplanError, OSError) as error:
            yield number, FrameError(str(error))


def sharpness(image: Image.Image) -> float:
    """Return the variance of the Laplacian of an image's grey values.

    It is low for blurred images, and 0 for uniform ones.
    """
    grey = np.asarray(image.convert("L"), dtype=np.float64)
    if min(grey.shape) < 3:
        return 0.0
    centre = grey[1:-1, 1:-1]
    return float(
        (grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * centre).var()
    )
