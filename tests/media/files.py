"""Small media whose frames show their own number, which identifies them in tests."""

from collections.abc import Container
from fractions import Fraction
from pathlib import Path
from struct import pack

import av
from PIL import Image

from lmms_egoplan.media.frames import frame_path

_BITS = 16
_CELL = 16
SIZE = (_CELL * 8, _CELL * 2)


def number_image(number: int) -> Image.Image:
    """An image of a number below 65,536 as 16 black and white cells; survives lossy coding."""
    cells = Image.new("L", (8, 2))
    cells.putdata([255 if number >> bit & 1 else 0 for bit in range(_BITS)])
    return cells.resize(SIZE, Image.Resampling.NEAREST).convert("RGB")


def read_number(image: Image.Image) -> int:
    """Return the number that `number_image` drew into an image."""
    grey = image.convert("L")
    centres = [(x * _CELL + _CELL // 2, y * _CELL + _CELL // 2) for y in range(2) for x in range(8)]
    return sum((grey.getpixel(centre) > 127) << bit for bit, centre in enumerate(centres))


def read_numbers(images: list[Image.Image]) -> list[int]:
    return [read_number(image) for image in images]


def write_numbered_video(
    path: Path,
    frames: int,
    fps: int | Fraction = 30,
    gop: int = 12,
    b_frames: int = 2,
    open_gop: bool = False,
    gaps: tuple[int, ...] = (1,),
    start: int = 0,
    base: int = 0,
) -> Path:
    """An H.264 video whose frame i shows `base` + i.

    `gaps` are the durations of successive frames in units of 1/fps, repeated: (1,) is a constant
    rate, (1, 4, 2) a variable one. `start` is the first frame's time in the same units.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {
        "x264-params": f"keyint={gop}:min-keyint={gop}:scenecut=0:bframes={b_frames}:b-adapt=0:"
        f"open-gop={int(open_gop)}:threads=1",
        "preset": "ultrafast",
        "crf": "20",
    }
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, fps)
        time = start
        for number in range(frames):
            frame = av.VideoFrame.from_image(number_image(base + number))
            frame.pts, frame.time_base = time, Fraction(1, fps)
            container.mux(stream.encode(frame))
            time += gaps[number % len(gaps)]
        container.mux(stream.encode(None))
    return path


def copy_packets(source: Path, path: Path, shift: int = 0, dropped: Container[int] = ()) -> Path:
    """Copy a video at 30 frames per second without decoding:

    `shift` frames earlier, and without some packets.

    `dropped` are numbers of packets, from 0, in decoding order.
    """
    with (
        av.open(source) as original,
        av.open(path, "w", options={"avoid_negative_ts": "disabled"}) as container,
    ):
        template = original.streams.video[0]
        if hasattr(container, "add_stream_from_template"):  # from PyAV 14 on
            stream = container.add_stream_from_template(template)
        else:
            stream = container.add_stream(template=template)
        for number, packet in enumerate(original.demux(template)):
            if packet.size and number not in dropped:
                skipped = round(shift / 30 / packet.time_base)
                packet.pts, packet.dts, packet.stream = (
                    packet.pts - skipped,
                    packet.dts - skipped,
                    stream,
                )
                container.mux(packet)
    return path


def write_epic_folder(folder: Path, first: int, last: int, base: int = 0) -> Path:
    """A frame folder in EPIC-KITCHENS' layout with frames `first` to `last`, each showing its
    number plus `base`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, last + 1):
        number_image(base + number).save(frame_path(folder, number), quality=90)
    return folder


def turn(path: Path, matrix: tuple[int, int, int, int]) -> Path:
    """Write the part of an MP4 video's display matrix that turns and mirrors: x' = ax + cy, y' = bx
    + dy.
    """
    a, b, c, d = (entry << 16 for entry in matrix)
    content = bytearray(path.read_bytes())
    # after version and flags, times and duration, layer and volume
    start = content.index(b"tkhd") + 4 + 4 + 20 + 16
    content[start : start + 36] = pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    return path


def damage_packet(path: Path, number: int, offset: int = 5) -> Path:
    """Overwrite the content of the `number`-th packet (in decoding order) of an MP4 video with
    zeros.

    The first `offset` bytes remain: by default, the length and type of the first unit; 4 for the
    length only.
    """
    with av.open(path) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size][number]
    content = bytearray(path.read_bytes())
    content[packet.pos + offset : packet.pos + packet.size] = bytes(packet.size - offset)
    path.write_bytes(content)
    return path
