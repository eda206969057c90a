"""Memory that readers of media announce, and the most that reading ahead of a model has taken."""

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

RESERVE: ContextVar[Callable[..., None]] = ContextVar("RESERVE", default=lambda _num_bytes, **_is_known: None)
"""Call it with the bytes of the pixels that follow, before they are decoded. It may stop a thread that reads ahead.

With ``is_known``, the call is ignored if there was an earlier one.
"""

PEAK = SimpleNamespace(num_bytes=0)
"""The most bytes that reading ahead has taken in this process."""


def reserve_for(images: Iterable["Image.Image"], count: int = 1, *, is_known: bool = False) -> None:
    """Call `RESERVE` for ``count`` RGB images of the size of each of these."""
    RESERVE.get()(3 * count * sum(image.width * image.height for image in images), is_known=is_known)
