"""Decode frames of one video file by their time stamps, and detect every damaged frame."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import InputContainer
    from av.video.codeccontext import VideoCodecContext

# If the next key frame is at most this many frames ahead, decoding continues instead of seeking: a
# seek empties the decoder's pipeline.
_SEEK_GAP = 8
# In these codecs, each packet contains one frame. In others, a packet may produce none, such as
# VP8's references that are never shown.
_FRAME_PER_PACKET = ("h264", "hevc")

# Number of threads of one decoder; 0 for one per core. If many decoders run at the same time, each
# needs only one.
DECODER_THREADS = ContextVar("DECODER_THREADS", default=0)

Converted = TypeVar("Converted")


@dataclass(frozen=True)
class TimeTable:
    """Presentation times of a video's frames, in the stream's time base.

    Attributes:
        times: One per frame, increasing. A frame's position is its index here.
        seconds: The same times in seconds, from the start of the file.
        keys: Positions of the key frames, increasing.
        key_times: Seek target for each key frame: its decoding time, which containers use as index.
        reliable: Number of frames before the first loss of data. The number of lost frames is
            unknown, and so is the position of every later frame.
        pixel_aspect: Width of a pixel divided by its height.
    """

    times: array
    seconds: array
    keys: array
    key_times: array
    reliable: int
    pixel_aspect: Fraction

    def position(self, time: int | None) -> int | None:
        """Return the position of the frame with this time; None if no frame has it."""
        if time is None:
            return None
        index = bisect_left(self.times, time)
        return index if index < len(self.times) and self.times[index] == time else None

    def key_before(self, position: int) -> int:
        """Return the index in `keys` of the last key frame at or before the position.

        -1 without one.
        """
        return bisect_right(self.keys, position) - 1


@dataclass(frozen=True)
class Damage:
    """A frame that cannot be decoded.

    Attributes:
        position: The first damaged frame that decoding depends on. This may be the frame itself.
    """

    position: int


def decode(
    path: Path,
    table: TimeTable,
    positions: Sequence[int],
    convert: "Callable[[VideoFrame], Converted]",
) -> Iterator[tuple[int, Converted | Damage]]:
    """Decode the frames at `positions` (increasing), and only the frames that they depend on.

    Several threads decode ahead. They report errors, but not always at the right frame. After the
    first sign of damage, the frames up to the next key frame are therefore decoded again, packet by
    packet.

    Yields:
        Every position once, in order, with the converted frame or its damage.

    Raises:
        av.error.FFmpegError, OSError: The file cannot be opened.
    """
    remaining = list(positions)
    while remaining:
        done = 0
        for position, frame in _decode_ahead(path, table, remaining):
            done += 1
            yield position, convert(frame)
        remaining = remaining[done:]
        if remaining:
            run = list(next(groupby(remaining, table.key_before))[1])
            yield from _decode_run(path, table, run, convert).items()
            remaining = remaining[len(run) :]


def _decode_ahead(
    path: Path, table: TimeTable, positions: Sequence[int]
) -> "Iterator[tuple[int, VideoFrame]]":
    """Decode positions in order, with several threads; stop at the first sign of damage."""
    import av.logging

    # Older torchvision (such as 0.21) turns on PyAV's log, which can deadlock: a decoding thread
    # waits for the interpreter's lock to write its log, and the thread with the lock waits for the
    # decoder to close.
    av.logging.set_level(None)
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = DECODER_THREADS.get()
        _detect_errors(stream.codec_context)
        needed_positions = set(positions)
        skipped = set[int]()
        frames = _frames(container, table, needed_positions, skipped)
        passed = -1
        try:
            for position in positions:
                key = table.key_before(position)
                if key >= 0 and table.keys[key] - passed > _SEEK_GAP:
                    frames = _frames(container, table, needed_positions, skipped, key)
                    passed = table.keys[key] - 1
                while passed < position:
                    frame = next(frames, None)
                    passed += 1
                    while passed in skipped:
                        passed += 1
                    if frame is None or frame.is_corrupt or table.position(frame.pts) != passed:
                        return
                yield position, frame
        except av.error.FFmpegError:
            return


def _frames(
    container: "InputContainer",
    table: TimeTable,
    needed_positions: Collection[int],
    skipped: set[int],
    key: int = -1,
) -> "Iterator[VideoFrame]":
    """Yield frames, starting at a key frame.

    Frames that are neither needed nor used by other frames are not decoded; their positions are
    added to `skipped`.
    """
    context = container.streams.video[0].codec_context
    for packet in _packets(container, table, key):
        position = table.position(packet.pts)
        if (
            packet.size
            and position is not None
            and position not in needed_positions
            and _is_unused(packet, context)
        ):
            skipped.add(position)
        else:
            yield from packet.decode()


def _packets(container: "InputContainer", table: TimeTable, key: int) -> "Iterator[Packet]":
    """Yield packets in decoding order from a key frame on, then an empty packet.

    `key` is the key frame's index in `table.keys`; -1 yields all packets.

    Frames shown before the key frame are skipped: they may refer to frames before it.
    """
    stream = container.streams.video[0]
    if key < 0 or table.keys[key] == 0:
        yield from container.demux(stream)
        return
    key_time = table.times[table.keys[key]]
    container.seek(table.key_times[key], stream=stream)
    is_key_passed = False  # seeking may end before the key frame
    for packet in container.demux(stream):
        is_key_passed = is_key_passed or packet.pts == key_time
        is_shown_later = packet.pts is None or packet.pts >= key_time
        if not packet.size or (is_key_passed and is_shown_later):
            yield packet


def _decode_run(
    path: Path,
    table: TimeTable,
    positions: Sequence[int],
    convert: "Callable[[VideoFrame], Converted]",
) -> dict[int, Converted | Damage]:
    """Decode positions that share the preceding key frame, packet by packet."""
    key = table.key_before(positions[0])
    results, _ = _decode_needed(path, table, key, positions, convert)
    faulty = [position for position, result in results.items() if isinstance(result, Damage)]
    if faulty and key > 0:
        # Frames after a key frame may name earlier references without using them. Start at the
        # previous key frame.
        retried, is_entry = _decode_needed(
            path, table, key - 1, faulty, convert, since=table.keys[key]
        )
        if not is_entry:
            # The key frame only starts a gradual refresh and is not a complete picture. Start at
            # the beginning.
            retried, _ = _decode_needed(path, table, -1, faulty, convert)
        results |= retried
    return results


def _decode_needed(
    path: Path,
    table: TimeTable,
    key: int,
    positions: Collection[int],
    convert: "Callable[[VideoFrame], Converted]",
    since: int | None = None,
) -> tuple[dict[int, Converted | Damage], bool]:
    """Decode positions, starting at the key frame with index `key` (-1: at the beginning).

    Args:
        since: Position of a key frame. Damage to frames decoded or shown before it is ignored.

    Returns:
        The result for each position, and whether the frame `since` failed or depends on no other
        frame.
    """
    run = _decode_packets(path, table, key, positions, convert)
    order = run.order
    failed = run.failed
    silent = run.silent
    if failed or silent:
        # Decode again without damaged frames that no other frame refers to, since they cannot
        # affect other frames.
        run = _decode_packets(path, table, key, positions, convert, skipped=failed)
    rank = {position: index for index, position in enumerate(order)}
    start = rank.get(since, 0)

    def matters(index: int) -> bool:
        shown_at = order[index]
        return index >= start and (since is None or shown_at is None or shown_at >= since)

    needed = min(filter(matters, run.failed | silent), default=len(order))
    results: dict[int, Converted | Damage] = {}
    for position in positions:
        index = rank.get(position, -1)
        if index > needed:
            cause = order[needed]
            results[position] = Damage(position if cause is None else cause)
        elif index in failed or position not in run.images:
            results[position] = Damage(position)
        else:
            results[position] = run.images[position]
    return results, needed == start or since in run.intra


@dataclass(frozen=True)
class _Run(Generic[Converted]):
    """Result of decoding a run of packets.

    Attributes:
        order: Positions of the packets' frames, in decoding order; None for a frame that is never
            shown.
        images: The requested frames that were decoded intact.
        failed: Indices in `order` of packets that could not be decoded, or whose frame was
            concealed.
        silent: Indices in `order` of packets that produced no frame although nothing failed.
        intra: Positions of the decoded frames that depend on no other frame.
    """

    order: list[int | None]
    images: dict[int, Converted]
    failed: set[int]
    silent: set[int]
    intra: set[int | None]


def _decode_packets(
    path: Path,
    table: TimeTable,
    key: int,
    positions: Collection[int],
    convert: "Callable[[VideoFrame], Converted]",
    skipped: Collection[int] = (),
) -> _Run[Converted]:
    """Decode packets one at a time, up to the last requested frame, and continue after errors.

    Args:
        skipped: Indices of packets to skip if no other frame refers to theirs.
    """
    import av
    from av.video.frame import PictureType

    order: list[int | None] = []
    intact: set[int | None] = set()
    corrupt: set[int | None] = set()
    intra: set[int | None] = set()
    images: dict[int, Converted] = {}
    failed: set[int] = set()

    def take(frames: "list[VideoFrame]") -> None:
        for frame in frames:
            position = table.position(frame.pts)
            (corrupt if frame.is_corrupt else intact).add(position)
            if frame.pict_type == PictureType.I:
                intra.add(position)
            if position is not None and position in positions and not frame.is_corrupt:
                images[position] = convert(frame)

    with av.open(path) as container:
        context = container.streams.video[0].codec_context
        context.thread_count = 1
        _detect_errors(context)
        missing = set(positions)
        packets = _packets(container, table, key)
        while missing:
            packet = next(packets)
            if not packet.size:
                break
            index = len(order)
            order.append(None if packet.is_discard else table.position(packet.pts))
            missing.discard(order[-1])
            if index in skipped and _is_unused(packet, context):
                continue
            try:
                take(packet.decode())
            except av.error.FFmpegError:
                failed.add(index)
        with suppress(av.error.FFmpegError):
            take(context.decode(None))
        one_each = context.name in _FRAME_PER_PACKET
    failed |= {index for index, position in enumerate(order) if position in corrupt}
    silent = {
        index
        for index, position in enumerate(order)
        if position is not None and position not in intact
    }
    return _Run(order, images, failed, silent - failed if one_each else set(), intra)


def _is_unused(packet: "Packet", context: "VideoCodecContext") -> bool:
    """Return whether no other frame refers to the packet's frame.

    Known only for H.264 in MP4 and Matroska.
    """
    setup = context.extradata or b""
    if context.name != "h264" or len(setup) < 5 or setup[0] != 1:
        return False
    content = bytes(packet)
    width = (setup[4] & 3) + 1
    start = 0
    slices = 0
    while start + width < len(content):
        header = content[start + width]
        if 1 <= header & 31 <= 5:
            # 1: nal_ref_idc is 0, and the slice belongs to a frame that is not an entry point
            if header != 1:
                return False
            slices += 1
        start += width + int.from_bytes(content[start : start + width], "big")
    return slices > 0 and start == len(content)


def check_jpeg(content: bytes) -> None:
    """Decode a JPEG file strictly. Files of other types are accepted unchecked.

    Raises:
        av.error.FFmpegError: The file is damaged.
    """
    import av

    if not content.startswith(b"\xff\xd8"):
        return
    context = av.CodecContext.create("mjpeg", "r")
    context.thread_count = 1
    context.options = {"err_detect": "explode+aggressive"}
    frames = [*context.decode(av.Packet(content)), *context.decode(None)]
    if len(frames) != 1 or frames[0].is_corrupt:
        raise av.error.InvalidDataError(1, "damaged image data")


def _detect_errors(context: "VideoCodecContext") -> None:
    """Make a decoder stop at damage, which FFmpeg conceals by default."""
    options = "explode+crccheck"
    if context.name == "h264":
        options += "+aggressive"  # also detect data after the end of a frame
    context.options = {"err_detect": options}
