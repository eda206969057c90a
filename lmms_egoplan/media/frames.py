"""Read exact frames from video files and frame folders, and write frames to video files."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageOps

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_file
from lmms_egoplan.media.decoding import Converted, Damage, TimeTable, check_jpeg, decode
from lmms_egoplan.media.display import HDR, as_shown
from lmms_egoplan.memory_ahead import reserve_for
from lmms_egoplan.sharing import cached_for_question


class Clip(list[Image.Image]):
    """Frames of a video, oldest first.

    Args:
        frames: RGB images.
        fps: True frames per second, above 0. A subsampled clip has a lower rate than its source
            video. None if unknown.

    Raises:
        ValueError: `fps` is not a positive number.
    """

    def __init__(self, frames: Iterable[Image.Image] = (), fps: float | None = None) -> None:
        if fps is not None and not (math.isfinite(fps) and fps > 0):
            raise ValueError(f"a clip's frame rate must be a positive number, got {fps}")
        super().__init__(frames)
        self.fps = fps


if TYPE_CHECKING:
    from av import Packet, VideoFrame

# x264's constant rate factor; 18 is commonly considered visually lossless.
CRF = 18


class FrameError(LmmsEgoplanError):
    """A video or a frame folder does not have the requested frames."""


class DamagedFrameError(FrameError):
    """A frame exists but is damaged."""


def count_video_frames(path: str | Path) -> int:
    """Count the frames in the first video stream of a file, without decoding.

    Raises:
        FrameError: The file is missing, is not a video, has no usable time stamps or is an HDR
            video.
    """
    return len(_time_table(Path(path)).times)


def frame_times(path: str | Path) -> Sequence[float]:
    """Return the presentation times of the frames in the first video stream, by 0-based position.

    Times come from the time stamps of all packets, so they are exact for variable frame rates.
    Nothing is decoded. Each time is the float nearest to the stamp.

    Returns:
        Seconds, increasing, as players count them: from the first frame, or from the sound if it
        starts earlier.

    Raises:
        FrameError: The file is missing, is not a video, has no usable time stamps or is an HDR
            video.
    """
    return memoryview(_time_table(Path(path)).seconds).toreadonly()


def read_video_frames(path: str | Path, indices: Sequence[int]) -> list[Image.Image]:
    """Read frames of a video file by their 0-based position in presentation order.

    Positions are exact with B-frames and variable frame rates: they are resolved through the time
    stamps of all packets, which are read once per file and cached. One pass decodes forward from
    the key frame at or before each requested frame. Thread-safe.

    A frame is rejected if it, or a frame that it is predicted from, is damaged. Damage elsewhere in
    the file is ignored. If damage leaves a frame's data well-formed, it cannot be distinguished
    from other content.

    Images are as a player shows them: turned and mirrored as the file says, and with square pixels.

    Args:
        path: Any file that FFmpeg reads; its first video stream is used.
        indices: Positions in any order, with repetitions, each in [0, number of frames).

    Returns:
        One RGB image per index, in the order of `indices`, in memory. Repeated indices share one
        image, and so do conditions of a question that are loaded together (`sharing`). Do not
        change an image.

    Raises:
        FrameError: The frame does not exist or is damaged (the message has its time), or the file
            is missing, not a video or an HDR video, whose colours need a conversion.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "video.mp4"
    ...     images = [Image.new("RGB", (64, 48), color) for color in ("red", "green", "blue")]
    ...     write_video(path, images, fps=2)
    ...     frames = read_video_frames(path, [2, 0])
    ...     times = list(frame_times(path))
    >>> times
    [0.0, 0.5, 1.0]
    >>> [frame.size for frame in frames]
    [(64, 48), (64, 48)]
    """
    images: dict[int, Image.Image] = cached_for_question(str(path), dict)
    missing = sorted(set(indices) - images.keys())
    for position, image in zip(missing, stream_video_frames(path, missing), strict=True):
        if position == missing[0]:
            reserve_for([image], len(missing))
        images[position] = image
    return [images[index] for index in indices]


def stream_video_frames(path: str | Path, indices: Collection[int]) -> Iterator[Image.Image]:
    """Yield frames like `read_video_frames`, in one pass without storing any.

    Each index comes once, increasing.

    Raises:
        FrameError: As in `read_video_frames`, when that frame is reached.
    """
    for _, image in scan_video_frames(path, indices):
        if isinstance(image, DamagedFrameError):
            raise image
        yield image


def scan_video_frames(
    path: str | Path, indices: Collection[int]
) -> Iterator[tuple[int, Image.Image | DamagedFrameError]]:
    """Yield every index once, increasing, with its frame or the error of a damaged frame.

    Raises:
        FrameError: The frame does not exist, or the file is missing or not a video.
    """
    pixel_aspect = _time_table(Path(path)).pixel_aspect
    yield from _decode(Path(path), indices, lambda frame: as_shown(frame, pixel_aspect))


def read_comment(path: str | Path) -> str | None:
    """Return the comment that `write_video` or another program wrote into a file; None without one.

    Raises:
        FrameError: The file is missing or not a video.
    """
    import av

    try:
        with av.open(path) as container:
            tags = {key.lower(): value for key, value in container.metadata.items()}
    except (av.error.FFmpegError, OSError) as error:
        raise FrameError(f"{path}: cannot read the video: {error}") from error
    return tags.get("comment")


def check_video_frames(
    path: str | Path, indices: Collection[int]
) -> Iterator[tuple[int, DamagedFrameError | None]]:
    """Find the frames that `read_video_frames` rejects as damaged, without storing any frame.

    Args:
        path: The video file, as for `read_video_frames`.
        indices: Positions, as for `read_video_frames`.

    Yields:
        Every index once, increasing, with the error or None.

    Raises:
        FrameError: The frame does not exist, or the file is missing or not a video.
    """
    return _decode(Path(path), indices, lambda _: None)


def read_frame_folder(folder: str | Path, numbers: Sequence[int]) -> list[Image.Image]:
    """Read frames from a folder in EPIC-KITCHENS' layout.

    Files are named ``frame_0000000760.jpg``, numbered from 1.

    Returns:
        One RGB image per number, in the order of `numbers`, in memory. Repeated numbers share one
        image.

    Raises:
        FrameError: A frame is missing or damaged.
    """
    images: dict[int, Image.Image] = cached_for_question(str(folder), dict)
    missing = sorted(set(numbers) - images.keys())
    for number in missing:
        images[number] = read_image(frame_path(folder, number))
        if number == missing[0]:
            reserve_for([images[number]], len(missing))
    return [images[number] for number in numbers]


def read_image(path: Path) -> Image.Image:
    """Read an image file as RGB, upright: turned as its EXIF data say.

    Raises:
        FrameError: The file is missing or damaged.
    """
    try:
        return _read_frame(path.read_bytes())
    except FileNotFoundError as error:
        raise FrameError(
            f"{path}: no such frame; the folder must contain all frames of the video"
        ) from error
    except (OSError, SyntaxError) as error:
        raise DamagedFrameError(
            f"{path}: cannot read the frame: {error}; download it again"
        ) from error


def check_frame_folder(
    folder: str | Path, numbers: Collection[int]
) -> Iterator[tuple[int, DamagedFrameError | None]]:
    """Find the damaged frames of a folder, without storing any frame.

    Stricter than `read_frame_folder`: FFmpeg also decodes each JPEG, and stops at damage that
    Pillow ignores.

    Yields:
        Every number once, increasing, with the error or None.

    Raises:
        FrameError: A frame is missing.
    """
    import av

    for number in sorted(set(numbers)):
        path = frame_path(folder, number)
        try:
            read_frame_folder(folder, [number])
            check_jpeg(path.read_bytes())
        except DamagedFrameError as error:
            yield number, error
        except (OSError, av.error.FFmpegError) as error:
            problem = f"{path}: the frame is damaged: {error.strerror}; download it again"
            yield number, DamagedFrameError(problem)
        else:
            yield number, None


def _read_frame(content: bytes) -> Image.Image:
    # If a harness has configured Pillow to accept truncated files, Pillow fills in the missing
    # part.
    if content.startswith(b"\xff\xd8") and b"\xff\xd9" not in content:
        raise OSError("the file is truncated")
    with Image.open(BytesIO(content)) as image:
        ImageOps.exif_transpose(image, in_place=True)
        return image.convert("RGB")


def frame_path(folder: str | Path, number: int) -> Path:
    """Return the path of a frame in EPIC-KITCHENS' layout; `number` counts from 1."""
    return Path(folder) / f"frame_{number:010d}.jpg"


def write_video(
    path: str | Path,
    frames: Iterable[Image.Image],
    fps: float | Fraction,
    *,
    crf: int = CRF,
    key_every: int = 250,
    odd_sizes: bool = False,
    comment: str | None = None,
    threads: int = 0,
) -> None:
    """Write frames as H.264 (yuv420p) at a constant rate. The file appears complete or not at all.

    Args:
        path: Output file, replaced if it exists. Its suffix selects the container (``.mp4``).
        frames: Images of one size, at least one, consumed one at a time. An odd width or height
            loses its last column or row, which yuv420p cannot represent.
        fps: Frames per second, above 0.
        crf: x264's constant rate factor, from 0 (lossless except for colours) to 51.
        key_every: Maximum number of frames from one key frame to the next.
        odd_sizes: Write images with an odd width or height in full, as yuv444p, which fewer players
            support.
        comment: Comment for `read_comment`.
        threads: Number of encoder threads; 0 for one per core. The file's bytes depend on this
            number.

    Raises:
        FrameError: There are no frames, or their sizes differ.
    """
    import av

    with whole_file(Path(path)) as unfinished:
        size = None
        with av.open(unfinished, "w") as container:
            rate = Fraction(fps).limit_denominator(1001)
            options = {"crf": str(crf), "preset": "veryfast", "g": str(key_every)}
            stream = container.add_stream("libx264", rate=rate, options=options)
            stream.codec_context.thread_count = threads
            if comment is not None:
                container.metadata["comment"] = comment
            for image in frames:
                if size is None:
                    size = image.size
                    if odd_sizes and any(side % 2 for side in size):
                        stream.pix_fmt = "yuv444p"
                        stream.width, stream.height = size
                    else:
                        stream.pix_fmt = "yuv420p"
                        stream.width, stream.height = (side - side % 2 for side in size)
                elif image.size != size:
                    raise FrameError(f"{path}: frames of different sizes, {size} and {image.size}")
                even = image.convert("RGB").crop((0, 0, stream.width, stream.height))
                container.mux(stream.encode(av.VideoFrame.from_image(even)))
            if size is None:
                raise FrameError(f"{path}: no frames to write")
            container.mux(stream.encode(None))


def _decode(
    path: Path, indices: Collection[int], convert: "Callable[[VideoFrame], Converted]"
) -> Iterator[tuple[int, Converted | DamagedFrameError]]:
    """Yield every index once, increasing, with the converted frame or its error."""
    import av

    table = _time_table(path)
    for index in indices:
        if not 0 <= index < len(table.times):
            raise FrameError(
                f"{path}: no frame {index}, the video has {len(table.times)} frames (0-based)"
            )
    positions = sorted(set(indices))
    reliable = positions[: bisect_left(positions, table.reliable)]
    try:
        for position, result in decode(path, table, reliable, convert):
            if isinstance(result, Damage):
                yield position, _damage(path, table, position, result.position)
            else:
                yield position, result
    except (av.error.FFmpegError, OSError) as error:
        raise FrameError(f"{path}: cannot decode: {error}") from error
    for position in positions[len(reliable) :]:
        yield position, _damage(path, table, position, table.reliable)


def _damage(path: Path, table: TimeTable, position: int, cause: int) -> DamagedFrameError:
    damage = "damaged there"
    if cause != position:
        damage = f"damaged before it, at {table.seconds[cause]:.3f} s (frame {cause})"
    return DamagedFrameError(
        f"{path}: frame {position}, at {table.seconds[position]:.3f} s, cannot be decoded: the "
        f"file is {damage}; download the video again"
    )


def _time_table(path: Path) -> TimeTable:
    try:
        status = path.stat()
    except OSError as error:
        raise FrameError(f"{path}: cannot open the video: {error.strerror}") from error
    return _read_time_table(path, status.st_size, status.st_mtime_ns)


@dataclass
class _PacketTimes:
    """Times of a video's packets, in the stream's time base.

    Attributes:
        shown: Presentation time of each packet's frame, in decoding order.
        keys: Seek target of each key frame, by its presentation time.
        lost: Earliest presentation time at or after the first loss of data; None without loss.
    """

    shown: list[int] = field(default_factory=list)
    keys: dict[int, int] = field(default_factory=dict)
    lost: int | None = None

    def add(self, packet: "Packet") -> None:
        """Add a packet that has a presentation time."""
        time = packet.pts
        self.shown.append(time)
        if self.lost is not None:
            self.lost = min(self.lost, time)
        elif packet.is_corrupt:
            self.lost = time
        if packet.is_keyframe:
            self.keys[time] = time if packet.dts is None else packet.dts


@lru_cache(maxsize=256)
def _read_time_table(path: Path, _size: int, _mtime_ns: int) -> TimeTable:
    """Read a file's time table. Size and modification time are part of the cache key."""
    import av

    packets = _PacketTimes()
    try:
        with av.open(path) as container:
            if not container.streams.video:
                raise FrameError(f"{path}: no video stream")
            stream = container.streams.video[0]
            kind = HDR.get(stream.codec_context.color_trc)
            if kind:
                raise FrameError(_hdr_problem(path, kind))
            pixel_aspect = stream.sample_aspect_ratio or Fraction(1)
            for packet in container.demux(stream):
                if not packet.size or packet.is_discard:
                    continue
                if packet.pts is None:
                    raise FrameError(f"{path}: frames lack time stamps; convert the video to MP4")
                packets.add(packet)
            unit = stream.time_base
            sounds = [
                sound.start_time * sound.time_base
                for sound in container.streams.audio
                if sound.start_time is not None
            ]
    except (av.error.FFmpegError, OSError) as error:
        raise FrameError(f"{path}: cannot read the video: {error}") from error
    times = sorted(packets.shown)
    if not times:
        raise FrameError(f"{path}: the video has no frames")
    if any(earlier == later for earlier, later in pairwise(times)):
        raise FrameError(
            f"{path}: several frames have the same time stamp; convert the video again"
        )
    key_positions = [position for position, time in enumerate(times) if time in packets.keys]
    key_times = [packets.keys[times[position]] for position in key_positions]
    seconds = _seconds(times, unit, start=min([times[0] * unit, *sounds]))
    reliable = len(times) if packets.lost is None else bisect_left(times, packets.lost)
    return TimeTable(
        array("q", times),
        seconds,
        array("q", key_positions),
        array("q", key_times),
        reliable,
        pixel_aspect,
    )


def _hdr_problem(path: Path, kind: str) -> str:
    return (
        f"{path}: an HDR video ({kind}), whose frames would be too dark and pale. Convert it: "
        f"ffmpeg -i {path.name} -vf zscale=t=linear:npl=100,format=gbrpf32le,zscale=p=bt709,"
        "tonemap=hable,zscale=t=bt709:m=bt709:r=tv,format=yuv420p -crf 12 OUT.mp4"
    )


def _seconds(times: Sequence[int], unit: Fraction, start: Fraction) -> array:
    """Convert times to seconds. Dividing integers gives the nearest float."""
    parts = math.lcm(unit.denominator, start.denominator)
    step = int(unit * parts)
    first = int(start * parts)
    return array("d", ((time * step - first) / parts for time in times))
