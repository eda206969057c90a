"""Small videos whose frames are clear, blurred, dark or blank."""

import random

from PIL import Image, ImageFilter

from lmms_egoplan.media.frames import write_video

SIZE = (160, 120)


def scene(seed):
    """Return a clear image of random blocks; each seed gives another one."""
    chance = random.Random(seed)
    small = Image.new("L", (16, 12))
    small.putdata([chance.randrange(256) for _ in range(16 * 12)])
    return small.resize(SIZE, Image.Resampling.NEAREST).convert("RGB")


def blurred(seed):
    return scene(seed).filter(ImageFilter.GaussianBlur(12))


def dark(seed):
    return scene(seed).point(lambda value: value // 16)


def film(path, *images, every=5):
    """Write a video that shows each image for `every` frames."""
    write_video(path, (image for image in images for _ in range(every)), fps=10, key_every=every)
    return path
