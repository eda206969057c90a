"""Read frames of videos and folders of images, and measure their sharpness and likeness.

Two pictures are alike by one of two measures:

- `distance` compares the colours of two pictures, such as views of the same room.
- `difference_hash` compares light and dark areas. `Hashes` finds a like picture among very many.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
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


def image_paths(folder: Path) -> list[Path]:
    """Return the images of a folder, by name, without hidden files."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in IMAGES and not path.name.startswith(".")
    )


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


Thumbnail = npt.NDArray[np.float64]
"""RGB values of an image at 16 x 16 px, from 0 to 255."""
_THUMBNAIL_SIZE = (16, 16)


def thumbnail(image: Image.Image) -> Thumbnail:
    """Return the thumbnail of an image for `distance`."""
    small = image.convert("RGB").resize(_THUMBNAIL_SIZE, Image.Resampling.BOX)
    return np.asarray(small, dtype=np.float64)


def distance(first: Thumbnail, second: Thumbnail) -> float:
    """Return the mean colour difference of two thumbnails, from 0 to 1."""
    return float(np.abs(first - second).mean() / 255)


def difference_hash(image: Image.Image) -> str:
    """Return 64 bits, in hexadecimal, that are similar for similar images.

    Each bit says which of two neighbours is brighter.
    """
    grey = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX))
    return np.packbits(grey[:, 1:] > grey[:, :-1]).tobytes().hex()


# Number of ones in each number of 16 bits.
_ONES = np.array([number.bit_count() for number in range(1 << 16)], dtype=np.uint8)


class Hashes:
    """Hashes of pictures that were seen, see `difference_hash`.

    >>> hashes = Hashes()
    >>> hashes.add("00000000000000ff")
    >>> hashes.has_like("000000000000000f", most_bits=4)
    True
    >>> hashes.has_like("000000000000000f", most_bits=3)
    False
    """

    def __init__(self) -> None:
        self._numbers = np.empty(1024, dtype=np.uint64)
        self._count = 0

    def add(self, picture_hash: str) -> None:
        """Add a hash."""
        if self._count == len(self._numbers):
            self._numbers = np.resize(self._numbers, 2 * self._count)
        self._numbers[self._count] = int(picture_hash, 16)
        self._count += 1

    def has_like(self, picture_hash: str, most_bits: int) -> bool:
        """Return whether at most `most_bits` of 64 bits differ from those of an added hash."""
        differences = self._numbers[: self._count] ^ np.uint64(int(picture_hash, 16))
        ones = _ONES[differences.view(np.uint16)]
        return bool((ones[0::4] + ones[1::4] + ones[2::4] + ones[3::4] <= most_bits).any())
