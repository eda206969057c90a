"""Load and encode upcoming items in threads while the caller processes the current one.

The items share one memory limit. They get memory in their order, each when it fits; the one that
the caller waits for gets it in any case. So no item waits for a later one, and none is loaded
twice. No thread remains after the caller stops or is interrupted.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Generic, TypeVar

import joblib
import torch
from accelerate.utils import get_int_from_env
from PIL import Image

from lmms_egoplan.media.decoding import DECODER_THREADS
from lmms_egoplan.memory_ahead import PEAK, RESERVE
from lmms_egoplan.sharing import encode_together, group_by_media

# Default maximum number of workers, fast enough for any model. Each worker has a copy of the
# processor.
MOST_WORKERS = 16

# Memory limit for reading ahead, for all processes of a machine together.
BYTES_AHEAD = 2 << 30

# Two copies of an item's pixels exist at a time: the decoded and the RGB image, then the array and
# the tensor.
_COPIES = 2

# Items per worker to load in advance, so one slow item does not block the others.
_AHEAD_PER_WORKER = 4

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")
Encoded = TypeVar("Encoded", bound=Any)


def num_workers(count: int | str | None = None) -> int:
    """Return the number of threads that load and encode.

    By default, these are this process's cores, at most `MOST_WORKERS`.

    The cores are limited by CPU affinity and container quotas, and shared with the other processes
    that the launcher started on this machine.

    Raises:
        ValueError: The count is not an integer of at least 1.
    """
    if count is not None:
        if not str(count).isdecimal() or int(count) < 1:
            raise ValueError(f"workers must be a whole number of at least 1, got {count!r}")
        return int(count)
    return max(1, min(MOST_WORKERS, joblib.cpu_count() // processes_here()))


def processes_here() -> int:
    """Return the number of processes that the launcher started on this machine; 1 if unknown."""
    names = [
        "LOCAL_WORLD_SIZE",
        "MPI_LOCALNRANKS",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ]
    return max(1, get_int_from_env(names, 1))


def num_bytes(value: Any) -> int:
    """Count the bytes of all images and tensors in nested lists, tuples and mappings.

    >>> num_bytes([{"image": Image.new("RGB", (4, 2))}, (torch.zeros(3), "text")])
    36
    """
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, Image.Image):
        return value.width * value.height * len(value.getbands())
    if isinstance(value, Mapping):
        return sum(map(num_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(num_bytes, value))
    return 0


@dataclass(frozen=True)
class Batching(Generic[Item, Loaded, Encoded]):
    """How to combine loaded items into encoded batches.

    Attributes:
        is_alike: Returns whether the second item, with its loaded value, may join a batch that
            starts with the first.
        batch_size: Maximum number of items in a batch.
        encode: Encodes a batch; runs in the workers.
        encode_size: Returns the size of an encoded batch in bytes.
    """

    is_alike: Callable[[tuple[Item, Loaded], tuple[Item, Loaded]], bool]
    batch_size: int
    encode: Callable[[Sequence[tuple[Item, Loaded]]], Encoded]
    encode_size: Callable[[Encoded], int]


def prefetch(
    items: Iterable[Item],
    load: Callable[[Item], Loaded],
    workers: int,
    *,
    size: Callable[[Loaded], int] | None = None,
    batching: Batching[Item, Loaded, Any] | None = None,
    limit: float | None = None,
    ahead: int | None = None,
) -> Generator[Any, None, None]:
    """Yield ``(item, load(item))`` in order, prepared in advance.

    With `batching`, yield encoded batches of consecutive items.

    An exception of an item or a batch is raised when that item is reached.

    Args:
        items: The items to load.
        load: Loads an item. Before it decodes pixels, it calls `RESERVE` with their bytes, and
            waits there until they fit.
        workers: Number of threads that load. With `batching`, as many others encode.
        size: Returns the size of a result in bytes. All items in memory, from loading to the
            encoded batch, take at most `limit`, unless a single item or batch is larger. An item
            that calls `RESERVE` several times may exceed it by its later calls. One that never
            calls it is counted when it is loaded. If None, there is no limit.
        batching: How to combine items; None to yield single items.
        limit: Memory limit in bytes; by default, this process's share of `BYTES_AHEAD`.
        ahead: Maximum number of items beyond the current item or batch; by default, four per worker
            or two batches, whichever is more.
    """
    batch_size = batching.batch_size if batching else 1
    if ahead is None:
        ahead = max(_AHEAD_PER_WORKER * workers, 2 * batch_size)
    limit = math.inf if size is None else limit or BYTES_AHEAD // processes_here()
    pipeline = _Pipeline(iter(items), load, size or _no_bytes, batching, limit, workers, ahead)
    with closing(pipeline):
        while pipeline.advance():
            yield pipeline.take()


def _no_bytes(_result: Any) -> int:
    return 0


class _Part:
    """An item, or a batch of items, on its way to the caller.

    Args:
        positions: Positions of the items in the source.

    Attributes:
        call: The call in a worker that sets the value.
        value: The item with its loaded value, or the encoded batch.
    """

    call: "Future[None]"
    value: Any = None

    def __init__(self, positions: list[int]) -> None:
        self.positions = positions

    def take(self) -> Any:
        """Return the value without keeping it, or raise the error of the call."""
        self.call.result()
        value = self.value
        self.value = None
        return value


class _Pipeline(Generic[Item, Loaded]):
    """The items of `prefetch` on their way: being loaded, then in a batch, then ready.

    The caller's thread moves them on. The arguments are those of `prefetch`.
    """

    def __init__(
        self,
        source: Iterator[Item],
        load: Callable[[Item], Loaded],
        size: Callable[[Loaded], int],
        batching: Batching[Item, Loaded, Any] | None,
        limit: float,
        workers: int,
        ahead: int,
    ) -> None:
        self._source = source
        self._load = load
        self._size = size
        self._batching = batching
        self._ahead = ahead
        self._num_started = 0
        self._is_exhausted = False
        self._changed = threading.Event()
        self._memory = _Memory(limit, self._changed)
        self._loading: deque[_Part] = deque()
        self._batch: list[_Part] = []
        self._ready: deque[_Part] = deque()  # loaded or encoded, or being encoded
        self._torch_threads = torch.get_num_threads()
        self._loaders = ThreadPoolExecutor(workers, "prefetch", initializer=_take_one_core)
        # All loaders may be waiting for the memory that an encoded batch frees.
        self._encoders = ThreadPoolExecutor(workers, "prefetch", initializer=_take_one_core)

    def close(self) -> None:
        """Stop the threads after their current calls."""
        self._memory.close()
        self._loaders.shutdown(cancel_futures=True)
        self._encoders.shutdown(cancel_futures=True)
        # A worker's setting would also apply to new threads elsewhere.
        torch.set_num_threads(self._torch_threads)

    def advance(self) -> bool:
        """Wait for the next result. Return False if all have been taken."""
        while True:
            self._changed.clear()
            self._collect()
            self._load_ahead()
            if self._ready and self._ready[0].call.done():
                return True
            if not self._ready:
                if not self._loading:
                    return False
                self._memory.want(self._loading[0].positions[0])
            self._changed.wait()

    def take(self) -> Any:
        """Return the next result, or raise its error."""
        part = self._ready.popleft()
        self._memory.free(part.positions)
        return part.take()

    def _collect(self) -> None:
        """Move loaded items to batches, up to the first error."""
        while self._loading and self._loading[0].call.done():
            part = self._loading.popleft()
            if part.call.exception() is not None:
                self._is_exhausted = True
                self._loading.clear()
                self._close_batch()
                self._ready.append(part)
            elif self._batching is None:
                self._ready.append(part)
            else:
                if self._batch and not self._batching.is_alike(self._batch[0].value, part.value):
                    self._close_batch()
                self._batch.append(part)
                if len(self._batch) == self._batching.batch_size:
                    self._close_batch()

    def _load_ahead(self) -> None:
        """Start to load items while there is room. Close the last batch."""
        waiting = len(self._loading) + len(self._batch)
        waiting += sum(len(part.positions) for part in self._ready)
        while not self._is_exhausted and waiting <= self._ahead:
            # The open batch needs the next item in any case.
            is_needed = not self._loading and not self._ready
            if not is_needed and not self._memory.has_room(self._num_started):
                break
            try:
                item = next(self._source)
            except StopIteration:
                self._is_exhausted = True
                break
            part = _Part([self._num_started])
            is_whole = self._batching is None
            call = partial(
                _load, self._memory, part, item, self._load, self._size, is_whole=is_whole
            )
            self._start(self._loaders, part, call)
            self._loading.append(part)
            self._num_started += 1
            waiting += 1
        if self._is_exhausted and not self._loading:
            self._close_batch()

    def _close_batch(self) -> None:
        """Start to encode the open batch, if there is one."""
        if self._batching is not None and self._batch:
            part = _Part([part.positions[0] for part in self._batch])
            pairs = [part.take() for part in self._batch]
            call = partial(_encode, self._memory, part, pairs, self._batching)
            self._start(self._encoders, part, call)
            self._ready.append(part)
            self._batch.clear()

    def _start(self, workers: ThreadPoolExecutor, part: _Part, call: Callable[[], None]) -> None:
        part.call = workers.submit(call)
        part.call.add_done_callback(partial(_set, self._changed))


def _set(changed: threading.Event, _call: "Future[None]") -> None:
    changed.set()


# The calls in the workers do not refer to the pipeline: without a cycle, an early end frees all
# items. A value is only in its part, since a thread may pause before it drops its variables.
def _load(
    memory: "_Memory",
    part: _Part,
    item: Item,
    load: Callable[[Item], Loaded],
    size: Callable[[Loaded], int],
    *,
    is_whole: bool,
) -> None:
    """Load an item; it is whole if no batch encodes it."""
    (position,) = part.positions
    token = RESERVE.set(partial(memory.reserve, position))
    try:
        part.value = (item, load(item))
        num_bytes = size(part.value[1])
        memory.reserve(position, num_bytes, is_known=True)
        if is_whole:
            memory.set_encoded(part.positions, num_bytes)
    except _StoppedError:
        part.value = None
    finally:
        RESERVE.reset(token)  # otherwise this thread would keep the value alive
        memory.end(position)


def _encode(
    memory: "_Memory",
    part: _Part,
    pairs: list[tuple[Any, Any]],
    batching: Batching[Any, Any, Any],
) -> None:
    """Encode a batch, and drop its loaded items."""
    part.value = batching.encode(pairs)
    pairs.clear()
    memory.set_encoded(part.positions, batching.encode_size(part.value))


class _StoppedError(BaseException):
    """The caller takes no more results."""


class _Memory:
    """The memory of all items, from their loading until the caller takes them.

    An item gets memory when all earlier items have theirs and it fits, or when the caller waits for
    it.

    Args:
        limit: Memory limit in bytes. A single item or batch may exceed it.
        changed: Set when an item has got its memory or has ended.
    """

    def __init__(self, limit: float, changed: threading.Event) -> None:
        self._limit = limit
        self._changed_event = changed
        self._changed = threading.Condition()
        self._pixels: dict[int, int] = {}  # bytes of pixels, by position
        self._claims: dict[int, float] = {}  # bytes of memory, by position
        self._next = 0  # the first position that still needs memory
        self._later: set[int] = set()  # positions after it that need none
        self._wanted = -1
        self._is_closed = False
        # Largest size of an item in bytes, loaded and encoded; 0 until one is encoded.
        self._largest_pixels = 0.0
        self._largest_encoded = 0.0

    def close(self) -> None:
        """End all calls that wait for memory."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def want(self, position: int) -> None:
        """Give an item what it needs, since the caller waits for it."""
        with self._changed:
            self._wanted = position
            self._changed.notify_all()

    def has_room(self, num_started: int) -> bool:
        """Return whether one more item fits, if it and all that have no memory yet are large.

        The first item comes alone, since the size of encoded items is unknown until then.

        Args:
            num_started: Number of items that were started.
        """
        if self._limit == math.inf:
            return True
        with self._changed:
            num_without = num_started - self._next - len(self._later)
            used = sum(self._claims.values())
            needed = (num_without + 1) * self._expected(self._largest_pixels)
            return self._largest_pixels > 0 and used + needed <= self._limit

    def reserve(self, position: int, num_bytes: int, *, is_known: bool = False) -> None:
        """Wait for the memory of an item with these bytes of pixels, besides those before."""
        with self._changed:
            if is_known and position in self._pixels:
                return
            pixels = self._pixels.get(position, 0) + num_bytes
            self._pixels[position] = pixels
            self._changed.wait_for(partial(self._may_claim, position))
            if self._is_closed:
                raise _StoppedError
            self._claim(position, self._expected(pixels))
            self._pass(position)

    def set_encoded(self, positions: Sequence[int], size: int) -> None:
        """Set the size of an encoded item or batch."""
        with self._changed:
            pixels = sum(self._pixels.pop(position, 0) for position in positions) or size
            self._largest_pixels = max(self._largest_pixels, pixels / len(positions), 1)
            self._largest_encoded = max(self._largest_encoded, size / len(positions))
            for position in positions[1:]:
                self._claims.pop(position, None)
            self._claim(positions[0], size)

    def end(self, position: int) -> None:
        """Let later items have memory: this one needs no more."""
        with self._changed:
            self._pass(position)

    def free(self, positions: Sequence[int]) -> None:
        """Free the memory of an item or batch."""
        with self._changed:
            for position in positions:
                self._claims.pop(position, None)
            self._changed.notify_all()

    def _may_claim(self, position: int) -> bool:
        """Return whether all earlier items have their memory and this one fits, or is waited for.

        Also return True at the end.
        """
        if self._is_closed or self._wanted == position:
            return True
        if self._next < position:
            return False
        used = sum(claim for other, claim in self._claims.items() if other != position)
        return not used or used + self._expected(self._pixels[position]) <= self._limit

    def _claim(self, position: int, num_bytes: float) -> None:
        self._claims[position] = num_bytes
        PEAK.num_bytes = max(PEAK.num_bytes, int(sum(self._claims.values())))
        self._changed.notify_all()

    def _pass(self, position: int) -> None:
        if position >= self._next:
            self._later.add(position)
        while self._next in self._later:
            self._later.remove(self._next)
            self._next += 1
        self._changed.notify_all()
        self._changed_event.set()

    def _expected(self, pixels: float) -> float:
        """Estimate the memory for loading and encoding an item, from the bytes of its pixels."""
        scale = max(1, pixels / (self._largest_pixels or 1))
        num_bytes = _COPIES * (pixels + self._largest_encoded * scale)
        # Cap estimates at the limit: an item that gets all of it comes alone.
        return max(_COPIES * pixels, min(num_bytes, self._limit))


def prefetch_conditions(
    conditions: Iterable[Item],
    shown_of: Callable[[Item], Any],
    load: Callable[[Item], tuple[Any, str]],
    encode: Callable[[Any, str], Encoded],
    workers: int,
) -> Generator[tuple[Encoded, list[Item]], None, None]:
    """Yield each encoded content with its conditions, prepared in advance, question by question.

    See `group_by_media` and `encode_together`. Encoded contents have a mapping ``inputs``.
    """

    def encode_block(block: list[Item]) -> tuple[list[tuple[Encoded, list[Item]]], int]:
        pairs = encode_together(block, load, encode)
        return pairs, num_bytes(
            {id(value): value for encoded, _ in pairs for value in encoded.inputs.values()}
        )

    with closing(
        prefetch(group_by_media(conditions, shown_of), encode_block, workers, size=itemgetter(1))
    ) as blocks:
        for _, (pairs, _) in blocks:
            while pairs:
                yield pairs.pop(0)


def _take_one_core() -> None:
    """Use one thread for computing, since there are as many workers as cores."""
    torch.set_num_threads(1)
    DECODER_THREADS.set(1)
