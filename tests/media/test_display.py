"""Test that frames are read as players show them."""

import itertools
import re
from fractions import Fraction

import av
import pytest
from PIL import ExifTags, Image
from PIL.Image import Transpose

from lmms_egoplan.annotation.clips import Cut, MediaFolder, Still
from lmms_egoplan.media.frames import (
    FrameError,
    count_video_frames,
    frame_path,
    read_frame_folder,
    read_video_frames,
    write_video,
)
from media.files import turn

SIZE = (64, 32)
COLOURS = {(-1, -1): (255, 0, 0), (1, -1): (0, 255, 0), (-1, 1): (0, 0, 255), (1, 1): (255, 255, 0)}
"""The colours of the quarters, by the signs of x and y."""
QUARTER_TURN, HALF_TURN, MIRROR = (0, 1, -1, 0), (-1, 0, 0, -1), (-1, 0, 0, 1)
RIGHT_ANGLES = [
    *((a, 0, 0, d) for a, d in itertools.product((1, -1), repeat=2)),
    *((0, b, c, 0) for b, c in itertools.product((1, -1), repeat=2)),
]


def quarters(size=SIZE):
    width, height = size
    image = Image.new("RGB", size)
    for (x, y), colour in COLOURS.items():
        column, row = int(x > 0), int(y > 0)
        box = (
            column * width // 2,
            row * height // 2,
            (column + 1) * width // 2,
            (row + 1) * height // 2,
        )
        image.paste(colour, box)
    return image


def colours_of(image):
    """Return the colour in the middle of each quarter."""
    middles = {
        (x, y): (image.width * (2 + x) // 4, image.height * (2 + y) // 4) for x, y in COLOURS
    }
    return {
        quarter: tuple(255 * (level > 127) for level in image.getpixel(middle))
        for quarter, middle in middles.items()
    }


def write(path, encoder="", pixel_aspect=None, frames=12):
    """Write an H.264 video of `quarters` with settings of the encoder, x264, and the aspect ratio
    of its pixels.
    """
    with av.open(path, "w") as container:
        options = {"x264-params": f"threads=1:keyint=4{encoder}"}
        stream = container.add_stream("libx264", rate=30, options=options)
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        if pixel_aspect:
            stream.codec_context.sample_aspect_ratio = pixel_aspect
        for _ in range(frames):
            container.mux(stream.encode(av.VideoFrame.from_image(quarters())))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("matrix", RIGHT_ANGLES, ids=str)
def test_videos_are_turned_and_mirrored_as_they_say(tmp_path, matrix):
    a, b, c, d = matrix
    path = turn(write(tmp_path / "v.mp4"), matrix)
    expected = {(a * x + c * y, b * x + d * y): colour for (x, y), colour in COLOURS.items()}
    for image in read_video_frames(path, [0, 1, 11]):
        assert image.size == (SIZE if a else SIZE[::-1])
        assert colours_of(image) == expected


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
@pytest.mark.parametrize(
    ("pixel_aspect", "size"),
    [(Fraction(4, 3), (85, 32)), (Fraction(2, 3), (64, 48)), (Fraction(1), SIZE), (None, SIZE)],
)
def test_pixels_become_square(tmp_path, pixel_aspect, size, suffix):
    """The aspect ratio is in the container, or only in H.264's data."""
    in_stream = f":sar={pixel_aspect.numerator}/{pixel_aspect.denominator}" if pixel_aspect else ""
    for path in (
        write(tmp_path / f"container{suffix}", pixel_aspect=pixel_aspect),
        write(tmp_path / f"stream{suffix}", in_stream),
    ):
        (image,) = read_video_frames(path, [5])
        assert image.size == size
        assert colours_of(image) == COLOURS


def test_pixels_become_square_before_the_turn(tmp_path):
    path = turn(write(tmp_path / "v.mp4", pixel_aspect=Fraction(4, 3)), QUARTER_TURN)
    assert read_video_frames(path, [5])[0].size == (32, 85)


def test_new_videos_and_the_page_show_what_the_model_sees(tmp_path):
    path = turn(write(tmp_path / "v.mp4", pixel_aspect=Fraction(2)), QUARTER_TURN)
    seen = read_video_frames(path, range(12))
    write_video(tmp_path / "new.mp4", seen, 30)
    media = MediaFolder(tmp_path / "media")
    page = media.file(Cut(str(path), tuple(range(12)), 30.0))
    for new in (tmp_path / "new.mp4", page):
        assert count_video_frames(new) == 12
        (image,) = read_video_frames(new, [5])
        assert (image.size, colours_of(image)) == ((32, 128), colours_of(seen[5]))
    with Image.open(media.file(Still(str(path), 5))) as image:
        assert (image.size, colours_of(image)) == ((32, 128), colours_of(seen[5]))


def test_images_are_turned_as_their_exif_data_say(tmp_path):
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    quarters().save(frame_path(tmp_path, 1), exif=exif, quality=95, subsampling=0)
    (image,) = read_frame_folder(tmp_path, [1])
    assert (image.size, colours_of(image)) == (
        SIZE[::-1],
        colours_of(quarters().transpose(Transpose.ROTATE_270)),
    )


@pytest.mark.parametrize(("transfer", "name"), [("smpte2084", "PQ"), ("arib-std-b67", "HLG")])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_hdr_videos_are_refused_with_the_remedy(tmp_path, transfer, name, suffix):
    encoder = f":transfer={transfer}:colorprim=bt2020:colormatrix=bt2020nc"
    path = write(tmp_path / f"v{suffix}", encoder)
    for read in (count_video_frames, lambda path: read_video_frames(path, [5])):
        with pytest.raises(FrameError) as caught:
            read(path)
        assert re.search(rf"v{suffix}: .*HDR.*\({name}\).*ffmpeg .*tonemap", str(caught.value))
    standard = write(
        tmp_path / f"standard{suffix}", ":transfer=bt709:colorprim=bt709:colormatrix=bt709"
    )
    assert count_video_frames(standard) == 12
