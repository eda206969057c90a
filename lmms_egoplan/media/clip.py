"""Frames of a video as one list that knows its frame rate."""

import math
from collections.abc import Iterable

from PIL import Image


class Clip(list[Image.Image]):
    """Frames of a video, oldest first.

    Args:
        frames: RGB images.
        fps: true frames per second, above 0: a clip that was thinned has fewer than the video it was taken from.
            None where the rate is not known.

    Raises:
        ValueError: `fps` is not a positive number.
    """

    def __init__(self, frames: Iterable[Image.Image] = (), fps: float | None = None) -> None:
        if fps is not None and not (math.isfinite(fps) and fps > 0):
            raise ValueError(f"a clip's frame rate must be a positive number, got {fps}")
        super().__init__(frames)
        self.fps = fps
