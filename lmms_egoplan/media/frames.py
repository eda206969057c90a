"""Frames out of video files and frame folders, exactly the ones asked for, and frames into video files."""

import math
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.decoding import Damage, Shown, TimeTable, check_jpeg, decode
from lmms_egoplan.memory_ahead import reserve_for


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


if TYPE_CHECKING:
    from av import VideoFrame

# x264's constant rate factor; 18 is commonly taken as visually lossless.
CRF = 18


class FrameError(LmmsEgoplanError):
    """A video or a frame folder cannot give the frames that were asked for."""


class DamagedFrameError(FrameError):
    """A frame is there, but damaged."""


def count_video_frames(path: str | Path) -> int:
    """Count the frames of the video's first video stream without decoding.

    Raises:
        FrameError: the file is absent, is no video or has no usable time stamps.
    """
    return len(_time_table(Path(path)).times)


def frame_times(path: str | Path) -> Sequence[float]:
    """Return the presentation times of the frames of the first video stream, by their 0-based position.

    From the time stamps of all packets, so exact at a variable frame rate; nothing is decoded. A time is the float
    nearest to the stamp.

    Returns:
        Seconds, increasing, as players count them: from the first frame, or from the sound where that begins earlier.

    Raises:
        FrameError: the file is absent, is no video or has no usable time stamps.
    """
    return memoryview(_time_table(Path(path)).seconds).toreadonly()


def read_video_frames(path: str | Path, indices: Sequence[int]) -> list[Image.Image]:
    """Read frames of a video file by their 0-based position in presentation order.

    Exact with B-frames and variable frame rate: positions are resolved through the time stamps of all
    packets, which are read once per file and kept. Decodes forward from the key frame at or before each
    wanted frame, in one pass. May be called from several threads.

    A frame is refused if it is damaged, or one that it is predicted from; damage elsewhere in the file does not
    matter. Damage that leaves a frame's data well-formed cannot be told from other content.

    Args:
        path: any file that FFmpeg reads; its first video stream is used.
        indices: in any order, repetitions allowed, each in [0, number of frames).

    Returns:
        One RGB image per index, in the order of `indices`, in memory; repeated indices share one image.

    Raises:
        FrameError: no such frame, a damaged one (the message has its time), or the file is absent or no video.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "video.mp4"
    ...     write_video(path, (Image.new("RGB", (64, 48), color) for color in ("red", "green", "blue")), fps=2)
    ...     frames, times = read_video_frames(path, [2, 0]), list(frame_times(path))
    >>> times
    [0.0, 0.5, 1.0]
    >>> [frame.size for frame in frames]
    [(64, 48), (64, 48)]
    """
    images: dict[int, Image.Image] = {}
    for position, image in zip(sorted(set(indices)), stream_video_frames(path, indices), strict=True):
        if not images:
            reserve_for([image], len(set(indices)))
        images[position] = image
    return [images[index] for index in indices]


def stream_video_frames(path: str | Path, indices: Collection[int]) -> Iterator[Image.Image]:
    """Yield frames as `read_video_frames`, in one pass that keeps none: each index once, increasing.

    Raises:
        FrameError: as there, once the frame's turn has come.
    """
    for _, image in _decode(Path(path), indices, lambda frame: frame.to_image()):
        if isinstance(image, DamagedFrameError):
            raise image
        yield image


def read_comment(path: str | Path) -> str | None:
    """Return the comment that `write_video` or another program has written into a file; None without one.

    Raises:
        FrameError: the file is absent or no video.
    """
    import av

    try:
        with av.open(path) as container:
            tags = {key.lower(): value for key, value in container.metadata.items()}
    except (av.error.FFmpegError, OSError) as error:
        raise FrameError(f"{path}: cannot read the video: {error}") from error
    return tags.get("comment")


def check_video_frames(path: str | Path, indices: Collection[int]) -> Iterator[tuple[int, DamagedFrameError | None]]:
    """Find the frames of a video file that `read_video_frames` refuses as damaged; keep no frame in memory.

    Args:
        path, indices: as for `read_video_frames`.

    Yields:
        Every index once, increasing, with the error or None.

    Raises:
        FrameError: no such frame, or the file is absent or no video.
    """
    return _decode(Path(path), indices, lambda _: None)


def read_frame_folder(folder: str | Path, numbers: Sequence[int]) -> list[Image.Image]:
    """Read frames of a folder in EPIC-KITCHENS' layout, ``frame_0000000760.jpg``, numbered from 1.

    Returns:
        One RGB image per number, in the order of `numbers`, in memory; repeated numbers share one image.

    Raises:
        FrameError: a frame is absent or damaged.
    """
    images: dict[int, Image.Image] = {}
    for number in numbers:
        if number not in images:
            path = frame_path(folder, number)
            try:
                images[number] = _read_frame(path.read_bytes())
                if len(images) == 1:
                    reserve_for([images[number]], len(set(numbers)))
            except FileNotFoundError as error:
                raise FrameError(f"{path}: no such frame; the folder must hold all frames of the video") from error
            except (OSError, SyntaxError) as error:
                raise DamagedFrameError(f"{path}: cannot read the frame: {error}; download it again") from error
    return [images[number] for number in numbers]


def check_frame_folder(folder: str | Path, numbers: Collection[int]) -> Iterator[tuple[int, DamagedFrameError | None]]:
    """Find the damaged frames of a folder; keep no frame in memory.

    Stricter than `read_frame_folder`: each JPEG is also decoded by FFmpeg, which stops at damage that Pillow lets pass.

    Yields:
        Every number once, increasing, with the error or None.

    Raises:
        FrameError: a frame is absent.
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
            yield number, DamagedFrameError(f"{path}: the frame is damaged: {error.strerror}; download it again")
        else:
            yield number, None


def _read_frame(content: bytes) -> Image.Image:
    # Pillow fills up truncated files where a harness has told it to.
    if content.startswith(b"\xff\xd8") and b"\xff\xd9" not in content:
        raise OSError("the file is truncated")
    with Image.open(BytesIO(content)) as image:
        return image.convert("RGB")


def frame_path(folder: str | Path, number: int) -> Path:
    """Return the file of a frame in EPIC-KITCHENS' layout; `number` counts from 1."""
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
    """Write frames as H.264 (yuv420p) at a constant rate; the file appears complete or not at all.

    Args:
        path: target, replaced if it exists; the suffix chooses the container (``.mp4``).
        frames: images of one size, at least one; taken one at a time. An odd width or height loses its last
            column or row, which yuv420p cannot hold.
        fps: frames per second, above 0.
        crf: x264's constant rate factor, from 0 (no loss but that of the colours) to 51.
        key_every: most frames from one key frame to the next.
        odd_sizes: write images of an odd width or height whole, as yuv444p, which fewer players show.
        comment: for `read_comment`.
        threads: of the encoder, on whose number the file's bytes depend; 0 for as many as there are cores.

    Raises:
        FrameError: no frames, or frames of different sizes.
    """
    import av

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem[:100]}.", dir=path.parent) as folder:
        unfinished = Path(folder) / f"video{path.suffix}"
        size = None
        with av.open(unfinished, "w") as container:
            rate = Fraction(fps).limit_denominator(1001)
            options = {"crf": str(crf), "preset": "veryfast", "g": str(key_every)}
            stream = container.add_stream("libx264", rate=rate, options=options)
            stream.pix_fmt = "yuv420p"
            stream.codec_context.thread_count = threads
            if comment is not None:
                container.metadata["comment"] = comment
            for image in frames:
                if size is None:
                    size = image.size
                    whole = odd_sizes and any(side % 2 for side in size)
                    stream.pix_fmt = "yuv444p" if whole else "yuv420p"
                    stream.width, stream.height = (side - side % 2 * (not whole) for side in size)
                elif image.size != size:
                    raise FrameError(f"{path}: frames of different sizes, {size} and {image.size}")
                even = image.convert("RGB").crop((0, 0, stream.width, stream.height))
                container.mux(stream.encode(av.VideoFrame.from_image(even)))
            if size is None:
                raise FrameError(f"{path}: no frames to write")
            container.mux(stream.encode(None))
        unfinished.replace(path)


def _decode(
    path: Path, indices: Collection[int], convert: "Callable[[VideoFrame], Shown]"
) -> Iterator[tuple[int, Shown | DamagedFrameError]]:
    """Yield every index once, increasing, with what `convert` makes of its frame or why it cannot be decoded."""
    import av

    table = _time_table(path)
    for index in indices:
        if not 0 <= index < len(table.times):
            raise FrameError(f"{path}: no frame {index}, the video has {len(table.times)} frames (0-based)")
    wanted = sorted(set(indices))
    sure = wanted[: bisect_left(wanted, table.reliable)]
    try:
        for position, shown in decode(path, table, sure, convert):
            yield position, _damage(path, table, position, shown.position) if isinstance(shown, Damage) else shown
    except (av.error.FFmpegError, OSError) as error:
        raise FrameError(f"{path}: cannot decode: {error}") from error
    for position in wanted[len(sure) :]:
        yield position, _damage(path, table, position, table.reliable)


def _damage(path: Path, table: TimeTable, position: int, cause: int) -> DamagedFrameError:
    where = "damaged there"
    if cause != position:
        where = f"damaged before it, at {table.seconds[cause]:.3f} s (frame {cause})"
    return DamagedFrameError(
        f"{path}: frame {position}, at {table.seconds[position]:.3f} s, cannot be decoded: the file is {where}; "
        "download the video again"
    )


def _time_table(path: Path) -> TimeTable:
    try:
        status = path.stat()
    except OSError as error:
        raise FrameError(f"{path}: cannot open the video: {error.strerror}") from error
    return _read_time_table(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _read_time_table(path: Path, _size: int, _mtime_ns: int) -> TimeTable:
    """Read a file's time table; size and time distinguish its versions."""
    import av

    times: list[int] = []
    keys: dict[int, int] = {}
    lost: int | None = None
    try:
        with av.open(path) as container:
            if not container.streams.video:
                raise FrameError(f"{path}: no video stream")
            stream = container.streams.video[0]
            for packet in container.demux(stream):
                if not packet.size or packet.is_discard:
                    continue
                if packet.pts is None:
                    raise FrameError(f"{path}: frames without time stamps; convert the video to MP4")
                times.append(packet.pts)
                if packet.is_corrupt or lost is not None:
                    lost = packet.pts if lost is None else min(lost, packet.pts)
                if packet.is_keyframe:
                    keys[packet.pts] = packet.pts if packet.dts is None else packet.dts
            unit = stream.time_base
            sounds = [
                sound.start_time * sound.time_base for sound in container.streams.audio if sound.start_time is not None
            ]
    except (av.error.FFmpegError, OSError) as error:
        raise FrameError(f"{path}: cannot read the video: {error}") from error
    times.sort()
    if not times:
        raise FrameError(f"{path}: the video has no frames")
    if any(a == b for a, b in pairwise(times)):
        raise FrameError(f"{path}: several frames with the same time stamp; convert the video anew")
    key_positions = [position for position, time in enumerate(times) if time in keys]
    key_times = [keys[times[position]] for position in key_positions]
    seconds = _seconds(times, unit, start=min([times[0] * unit, *sounds]))
    reliable = len(times) if lost is None else bisect_left(times, lost)
    return TimeTable(array("q", times), seconds, array("q", key_positions), array("q", key_times), reliable)


def _seconds(times: Sequence[int], unit: Fraction, start: Fraction) -> array:
    """Convert times into seconds; a division of integers gives the nearest float."""
    parts = lcm(unit.denominator, start.denominator)
    step, first = int(unit * parts), int(start * parts)
    return array("d", ((time * step - first) / parts for time in times))
