"""Frames of one video file by their time stamps, each one intact or known to be damaged."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import InputContainer
    from av.video.codeccontext import VideoCodecContext

# A key frame that lies fewer frames ahead than this is reached by decoding on: a seek empties the decoder's
# pipeline.
_SEEK_GAP = 8
# Each packet of these gives a frame; packets of others may give none (VP8's references that are never shown).
_FRAME_PER_PACKET = ("h264", "hevc")

# Threads of one decoder, 0 for as many as there are cores. One that reads beside many others needs one alone.
DECODER_THREADS = ContextVar("DECODER_THREADS", default=0)

Shown = TypeVar("Shown")


@dataclass(frozen=True)
class TimeTable:
    """Presentation times of a video's frames, in the stream's time base.

    times: one per frame, increasing; position is the frame's index.
    seconds: the same times in seconds, from the start of the file.
    keys: positions of the key frames, increasing.
    key_times: what to seek to for each of them (decoding time, by which containers index).
    reliable: how many frames come before the first loss of data; how many are lost there is unknown, and so is the
        position of every later frame.
    """

    times: array
    seconds: array
    keys: array
    key_times: array
    reliable: int

    def position(self, time: int | None) -> int | None:
        """Return the position of the frame with this time; None if there is none."""
        if time is None:
            return None
        place = bisect_left(self.times, time)
        return place if place < len(self.times) and self.times[place] == time else None

    def key_before(self, position: int) -> int:
        """Return the index among `keys` of the last key frame at or before the position; -1 if there is none."""
        return bisect_right(self.keys, position) - 1


@dataclass(frozen=True)
class Damage:
    """A frame that cannot be decoded.

    position: of the first damaged frame among those that decoding it needs, which may be itself.
    """

    position: int


def decode(
    path: Path, table: TimeTable, wanted: Sequence[int], convert: "Callable[[VideoFrame], Shown]"
) -> Iterator[tuple[int, Shown | Damage]]:
    """Decode the positions `wanted` (increasing), each with all that it depends on and nothing else.

    Several threads decode ahead; they tell that something is wrong, but not reliably where. So from the first doubt on
    the frames up to the next key frame are decoded once more, packet by packet.

    Yields:
        Every wanted position once, in order, with what `convert` makes of its frame, or the damage.

    Raises:
        av.error.FFmpegError, OSError: the file cannot be opened.
    """
    left = list(wanted)
    while left:
        done = 0
        for position, frame in _decode_ahead(path, table, left):
            done += 1
            yield position, convert(frame)
        left = left[done:]
        if left:
            run = list(takewhile(partial(_share_key, table, left[0]), left))
            yield from _decode_run(path, table, run, convert).items()
            left = left[len(run) :]


def _share_key(table: TimeTable, one: int, other: int) -> bool:
    return table.key_before(one) == table.key_before(other)


def _decode_ahead(path: Path, table: TimeTable, wanted: Sequence[int]) -> "Iterator[tuple[int, VideoFrame]]":
    """Decode wanted positions in order, with several threads; end at the first sign of damage."""
    import av.logging

    # Older torchvision (0.21, for one) turns PyAV's log on. A decoding thread then waits for the interpreter's lock to
    # log, and the thread that holds it waits for the decoder to close.
    av.logging.set_level(None)
    with av.open(path) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = DECODER_THREADS.get()
        _detect_errors(stream.codec_context)
        kept, skipped = set(wanted), set[int]()
        frames = _frames(container, table, kept, skipped)
        passed = -1
        try:
            for position in wanted:
                key = table.key_before(position)
                if key >= 0 and table.keys[key] - passed > _SEEK_GAP:
                    frames = _frames(container, table, kept, skipped, key)
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
    container: "InputContainer", table: TimeTable, kept: Collection[int], skipped: set[int], key: int = -1
) -> "Iterator[VideoFrame]":
    """Yield frames from a key frame on, except unused ones that are not `kept`, which go into `skipped`."""
    context = container.streams.video[0].codec_context
    for packet in _packets(container, table, key):
        position = table.position(packet.pts)
        if packet.size and position is not None and position not in kept and _is_unused(packet, context):
            skipped.add(position)
        else:
            yield from packet.decode()


def _packets(container: "InputContainer", table: TimeTable, key: int) -> "Iterator[Packet]":
    """Yield packets in decoding order from the key frame with index `key` on (-1: all), and an empty one at the end.

    Without those of frames shown before the key frame, which may refer to frames before it.
    """
    stream = container.streams.video[0]
    if key < 0 or table.keys[key] == 0:
        yield from container.demux(stream)
        return
    start = table.times[table.keys[key]]
    container.seek(table.key_times[key], stream=stream)
    begun = False
    for packet in container.demux(stream):
        begun = begun or packet.pts == start
        if not packet.size or (begun and (packet.pts is None or packet.pts >= start)):
            yield packet


def _decode_run(
    path: Path, table: TimeTable, wanted: Sequence[int], convert: "Callable[[VideoFrame], Shown]"
) -> dict[int, Shown | Damage]:
    """Decode wanted positions that share the key frame before them, packet by packet."""
    key = table.key_before(wanted[0])
    found, _ = _decode_needed(path, table, key, wanted, convert)
    faulty = [position for position, shown in found.items() if isinstance(shown, Damage)]
    if faulty and key > 0:
        # Frames behind a key frame may name earlier ones that they do not use: decode from the key frame before it.
        again, entry = _decode_needed(path, table, key - 1, faulty, convert, since=table.keys[key])
        if not entry:
            # No picture of its own but the start of a gradual refresh: only the beginning is sure.
            again, _ = _decode_needed(path, table, -1, faulty, convert)
        found |= again
    return found


def _decode_needed(
    path: Path,
    table: TimeTable,
    key: int,
    wanted: Collection[int],
    convert: "Callable[[VideoFrame], Shown]",
    since: int | None = None,
) -> tuple[dict[int, Shown | Damage], bool]:
    """Decode wanted positions from the key frame with index `key` on (-1: from the beginning).

    Args:
        since: position of a key frame; damage to frames decoded or shown before it does not matter.

    Returns:
        The wanted positions, and whether the frame `since` failed or depends on no other one.
    """
    run = _decode_packets(path, table, key, wanted, convert)
    order, failed, silent = run.order, run.failed, run.silent
    if failed or silent:
        # Once more without the damaged frames that no other frame refers to: they spoil no other one.
        run = _decode_packets(path, table, key, wanted, convert, skipped=failed)
    rank = {position: index for index, position in enumerate(order)}
    start = rank.get(since, 0)
    faults = (
        index
        for index in run.failed | silent
        if index >= start and (since is None or (shown := order[index]) is None or shown >= since)
    )
    needed = min(faults, default=len(order))
    found: dict[int, Shown | Damage] = {}
    for position in wanted:
        own = rank.get(position, -1)
        if own > needed:
            cause = order[needed]
            found[position] = Damage(position if cause is None else cause)
        elif own in failed or position not in run.shown:
            found[position] = Damage(position)
        else:
            found[position] = run.shown[position]
    return found, needed == start or since in run.intra


@dataclass(frozen=True)
class _Run(Generic[Shown]):
    """What came of a run of packets.

    order: positions of the packets' frames, in decoding order; None for a frame that is never shown.
    shown: the wanted frames that came out intact.
    failed: indices in `order` of packets that could not be decoded, or whose frame was patched up.
    silent: indices in `order` of packets whose frame did not come out although nothing failed.
    intra: positions of the frames that came out and depend on no other one.
    """

    order: list[int | None]
    shown: dict[int, Shown]
    failed: set[int]
    silent: set[int]
    intra: set[int | None]


def _decode_packets(
    path: Path,
    table: TimeTable,
    key: int,
    wanted: Collection[int],
    convert: "Callable[[VideoFrame], Shown]",
    skipped: Collection[int] = (),
) -> _Run[Shown]:
    """Decode one packet after the other, up to the last one of a wanted frame, whatever fails on the way.

    skipped: indices of packets that are left out if no other frame refers to theirs.
    """
    import av
    from av.video.frame import PictureType

    order: list[int | None] = []
    intact: set[int | None] = set()
    corrupt: set[int | None] = set()
    intra: set[int | None] = set()
    shown: dict[int, Shown] = {}
    failed: set[int] = set()

    def take(frames: "list[VideoFrame]") -> None:
        for frame in frames:
            position = table.position(frame.pts)
            (corrupt if frame.is_corrupt else intact).add(position)
            if frame.pict_type == PictureType.I:
                intra.add(position)
            if position is not None and position in wanted and not frame.is_corrupt:
                shown[position] = convert(frame)

    with av.open(path) as container:
        context = container.streams.video[0].codec_context
        context.thread_count = 1
        _detect_errors(context)
        missing = set(wanted)
        packets = _packets(container, table, key)
        while missing and (packet := next(packets)).size:
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
    silent = {index for index, position in enumerate(order) if position is not None and position not in intact}
    return _Run(order, shown, failed, silent - failed if one_each else set(), intra)


def _is_unused(packet: "Packet", context: "VideoCodecContext") -> bool:
    """Return whether no other frame refers to a packet's; known only for H.264 in MP4 and Matroska."""
    setup = context.extradata or b""
    if context.name != "h264" or len(setup) < 5 or setup[0] != 1:
        return False
    content, width, start, slices = bytes(packet), (setup[4] & 3) + 1, 0, 0
    while start + width < len(content):
        header = content[start + width]
        if 1 <= header & 31 <= 5:
            if header != 1:  # nal_ref_idc 0, a slice of a frame that is no entry point
                return False
            slices += 1
        start += width + int.from_bytes(content[start : start + width], "big")
    return slices > 0 and start == len(content)


def check_jpeg(content: bytes) -> None:
    """Decode a JPEG file strictly; files of other kinds pass.

    Raises:
        av.error.FFmpegError: it is damaged.
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
    """Make a decoder stop at damage, which FFmpeg else conceals."""
    options = "explode+crccheck"
    if context.name == "h264":
        options += "+aggressive"  # also where a frame's data go on after its end
    context.options = {"err_detect": options}
