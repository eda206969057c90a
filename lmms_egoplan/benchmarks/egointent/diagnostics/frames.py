"""Frames as a judge is sent them, and what they cost."""

import base64
import io
from collections.abc import Sequence

from PIL import Image

from lmms_egoplan.benchmarks.egointent.visuals import thin
from lmms_egoplan.media.frames import FrameError

# One tile of OpenAI's image models; hands and objects can still be told.
LONGER_SIDE = 512
# All frames of the median step (1.87 s at 6 frames per second, sec. 3.4); of longer ones they are thinned.
MAX_IMAGES = 16

_QUALITY = 85
# https://platform.openai.com/docs/guides/images-vision, for GPT-4o: in high detail 85 for an image and 170 for each
# tile of 512 x 512 px.
OPENAI_TOKENS = 85 + 170
# Qwen3-VL: one for each 32 x 32 px, sides being rounded to multiples of 32.
QWEN_TOKENS = round(LONGER_SIDE / 32) ** 2


def num_images(frames_shown: int) -> int:
    """How many images a judge is sent of a step of which the model was shown so many frames."""
    return min(frames_shown, MAX_IMAGES)


def encode_frames(frames: Sequence[Image.Image]) -> tuple[str, ...]:
    """Frames as data URLs of JPEG files: at most 16, evenly spaced with the last, and none with a side above 512 px.

    Raises:
        FrameError: there are none.
    """
    if not frames:
        raise FrameError("the step has no frames")
    return tuple(_data_url(frames[index]) for index in thin(range(len(frames)), MAX_IMAGES))


def _data_url(frame: Image.Image) -> str:
    image, file = frame.convert("RGB"), io.BytesIO()
    image.thumbnail((LONGER_SIDE, LONGER_SIDE))
    image.save(file, "JPEG", quality=_QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
