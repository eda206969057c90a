"""Reserve memory before media are decoded, and record the peak memory of reading ahead."""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

RESERVE: ContextVar[Callable[..., None]] = ContextVar(
    "RESERVE", default=lambda _num_bytes, **_is_known: None
)
"""A function to call before pixels are decoded, with their size in bytes.

It may pause a thread that reads ahead. Calls with ``is_known`` are ignored if the same item was
already announced, because its bytes are then counted.
"""


@dataclass
class Peak:
    """The highest number of bytes so far."""

    num_bytes: int = 0


PEAK = Peak()
"""The peak memory of reading ahead in this process, in bytes."""


def reserve_for(images: Iterable["Image.Image"], count: int = 1, *, is_known: bool = False) -> None:
    """Reserve memory for ``count`` RGB images of each image's size."""
    pixels = sum(image.width * image.height for image in images)
    reserve = RESERVE.get()
    reserve(3 * count * pixels, is_known=is_known)
