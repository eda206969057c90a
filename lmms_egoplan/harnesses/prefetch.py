"""Load and encode upcoming items in threads while the caller processes the current one.

Only the caller requests more work, and no thread waits for the caller. No thread remains after the
caller stops or is interrupted.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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

    With `encode`, yield encoded batches of consecutive items.

    Everything runs in `workers` threads. An exception of an item or a batch is raised when that
    item is reached.

    Args:
        items: The items to load.
        load: Loads an item. It calls `RESERVE` with the number of bytes before it decodes them;
            loads that do not call it run one at a time. If memory is short, a load is interrupted
            there, or its result is dropped. The load is then repeated later.
        workers: Number of threads.
        size: Returns the size of a result in bytes. All items in memory, from loading to the
            encoded batch, take at most `limit`, unless a single item or batch is larger. If None,
            there is no limit.
        batching: How to combine items; None to yield single items.
        limit: Memory limit in bytes; by default, this process's share of `BYTES_AHEAD`.
        ahead: Maximum number of items beyond the current item or batch; by default, four per worker
            or two batches, whichever is more.
    """
    batch_size = batching.batch_size if batching else 1
    ahead = max(_AHEAD_PER_WORKER * workers, 2 * batch_size) if ahead is None else ahead
    limit = math.inf if size is None else limit or BYTES_AHEAD // processes_here()

    with closing(_Workers(workers, limit)) as pool:
        pipeline = _Pipeline(pool, iter(items), load, size, batching, batch_size, ahead)
        while not pipeline.is_finished():
            pool.changed.clear()
            pipeline.collect()
            pool.repeat()
            pipeline.load_ahead()
            if pipeline.has_result():
                yield pipeline.take()
            elif pipeline.is_working():
                pool.changed.wait()


class _Pipeline(Generic[Item, Loaded]):
    """The items of `prefetch` on their way: being loaded, then in a batch, then ready.

    Args:
        pool: The workers.
        source: The items that are not loaded yet.
        load: See `prefetch`.
        size: See `prefetch`.
        batching: See `prefetch`.
        batch_size: Maximum number of items in a batch.
        ahead: Maximum number of items beyond the current item or batch.
    """

    def __init__(
        self,
        pool: "_Workers",
        source: Iterator[Item],
        load: Callable[[Item], Loaded],
        size: Callable[[Loaded], int] | None,
        batching: Batching[Item, Loaded, Any] | None,
        batch_size: int,
        ahead: int,
    ) -> None:
        self._pool = pool
        self._source = source
        self._load = load
        self._size = size
        self._batching = batching
        self._batch_size = batch_size
        self._ahead = ahead
        self._is_exhausted = False
        self._loading: deque[_Job] = deque()
        self._batch: list[_Job] = []
        self._ready: deque[_Job] = deque()  # encoded, or being encoded

    def is_finished(self) -> bool:
        """Return whether all results have been taken."""
        return self._is_exhausted and not (self._loading or self._batch or self._ready)

    def has_result(self) -> bool:
        """Return whether the next result is there."""
        return bool(self._ready) and self._ready[0].is_done

    def is_working(self) -> bool:
        """Return whether a worker's result is awaited."""
        return bool(self._loading or self._ready)

    def take(self) -> Any:
        """Return the next result, or raise its error."""
        return self._pool.take(self._ready.popleft())

    def collect(self) -> None:
        """Move loaded items to batches, up to the first error."""
        while self._loading and self._loading[0].is_done:
            job = self._loading.popleft()
            if job.error is not None:
                self._is_exhausted = True
                self._loading.clear()
                self._close_batch()
                self._ready.append(job)
                return
            if self._batch and self._starts_batch(job):
                self._close_batch()
            job.is_kept = True
            self._batch.append(job)
            if len(self._batch) == self._batch_size:
                self._close_batch()

    def load_ahead(self) -> None:
        """Start to load items while there is room. Close the last batch."""
        while not self._is_exhausted:
            waiting = len(self._loading) + len(self._batch)
            waiting += sum(job.num_items for job in self._ready)
            # If nothing else is in memory, load the batch even if it exceeds the limit.
            is_stuck = bool(self._batch) and not self._loading and not self._ready
            if not is_stuck and (waiting > self._ahead or not self._pool.has_room()):
                break
            try:
                item = next(self._source)
            except StopIteration:
                self._is_exhausted = True
                break
            # Jobs do not refer to the pipeline: without a cycle, an early end frees all items.
            job = _Job(partial(_load_pair, self._load, item), partial(_pair_size, self._size))
            job.is_read = self._batching is not None
            job.is_forced = is_stuck
            self._loading.append(self._pool.submit(job))
        if self._is_exhausted and not self._loading:
            self._close_batch()

    def _starts_batch(self, job: "_Job") -> bool:
        """Return whether a loaded item may not join the open batch."""
        if self._batching is None:
            return False
        return not self._batching.is_alike(self._batch[0].result, job.result)

    def _close_batch(self) -> None:
        if self._batching is None:
            self._ready.extend(self._batch)
        elif self._batch:
            call = partial(self._batching.encode, [job.result for job in self._batch])
            job = _Job(call, self._batching.encode_size, self._batch)
            self._ready.append(self._pool.submit(job))
            for job in self._batch:
                job.result = None  # a worker that paused may still refer to the job
        self._batch.clear()


def _load_pair(load: Callable[[Item], Loaded], item: Item) -> tuple[Item, Loaded]:
    return item, load(item)


def _pair_size(size: Callable[[Loaded], int] | None, pair: tuple[Any, Loaded]) -> int:
    return 0 if size is None else size(pair[1])


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


class _NoRoom(BaseException):
    """Interrupts a call that needs more memory than is available. The call is repeated later."""


class _Job:
    """One call in a worker.

    Args:
        call: The function to call.
        measure: Returns the size of a result in bytes.
        loads: Jobs whose results are the call's arguments.

    Attributes:
        result: Return value of the call.
        error: Exception raised by the call.
        num_items: Number of items in the result.
        base: Size of the call's arguments, in bytes.
        reserved: Bytes reserved for the job: an estimate while it runs, then the size of its
            result.
        size: Size of its result, in bytes.
        read: Number of bytes that the call has announced; None before that.
        need: Number of bytes to reserve before the call is repeated.
        is_running: Whether the call runs or waits for a worker.
        is_done: Whether the call has ended. If it neither runs nor has ended, it must be repeated.
        is_read: Whether the result is only loaded, to be encoded by another call.
        is_forced: Whether the call may exceed the limit, since nothing else can free memory.
        is_kept: Whether the result is in use and must not be dropped.
    """

    result: Any = None
    error: BaseException | None = None
    size: int = 0
    need: float = 0
    read: int | None = None
    is_running = is_done = is_read = is_forced = False

    def __init__(
        self, call: Callable[[], Any], measure: Callable[[Any], int], loads: "Sequence[_Job]" = ()
    ) -> None:
        self.call = call
        self.measure = measure
        self.loads = tuple(loads)
        self.is_kept = bool(loads)
        self.num_items = len(loads) or 1
        self.base: float = sum(load.size for load in loads)
        self.reserved: float = sum(load.reserved for load in loads)


class _Workers:
    """Worker threads, and the memory that their calls and results use until the caller takes them.

    One thread submits and waits. The workers wait for no other thread.

    Args:
        count: Number of threads.
        limit: Memory limit in bytes. A single item or batch may exceed it.

    Attributes:
        changed: Set whenever a call has ended or announced its size.
    """

    def __init__(self, count: int, limit: float) -> None:
        self.changed = threading.Event()
        self._lock = threading.RLock()
        self._limit = limit
        self._jobs: list[_Job] = []
        # Largest size of an item in bytes, loaded and encoded; 0 if unknown.
        self._pixels = self._encoded = 0.0
        self._all_announce = True
        self._torch_threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(count, "prefetch", initializer=_take_one_core)

    def close(self) -> None:
        """Stop the threads after their current calls."""
        self._pool.shutdown(cancel_futures=True)
        # A worker's setting would also apply to new threads elsewhere.
        torch.set_num_threads(self._torch_threads)

    def submit(self, job: _Job) -> _Job:
        """Submit a job to the workers. It replaces its loads in the list of jobs."""
        with self._lock:
            index = self._jobs.index(job.loads[0]) if job.loads else len(self._jobs)
            self._jobs[index : index + len(job.loads)] = [job]
            # an estimate until the call announces its size
            job.reserved = job.reserved or self._expected(self._pixels)
            job.loads = ()
            self._start(job)
        return job

    def take(self, job: _Job) -> Any:
        """Return the result and release its memory reservation."""
        with self._lock:
            self._jobs.remove(job)
        if job.error is not None:
            raise job.error
        result = job.result
        job.result = None
        return result

    def has_room(self) -> bool:
        """Return whether one more call is likely to fit."""
        with self._lock:
            if self._limit == math.inf or not self._jobs:
                return True
            is_unknown = any(job.is_running and job.read is None for job in self._jobs)
            is_waiting = any(not job.is_running and not job.is_done for job in self._jobs)
            if not self._pixels or is_waiting or (is_unknown and not self._all_announce):
                return False
            return self._reserved + self._expected(self._pixels) <= self._limit

    def repeat(self) -> None:
        """Repeat calls that fit now.

        If one call blocks all others, drop later results; they are loaded again.
        """
        with self._lock:
            for index, job in enumerate(self._jobs):
                if job.is_running or job.is_done:
                    continue
                if all(earlier.is_read and earlier.is_kept for earlier in self._jobs[:index]):
                    for later in self._jobs[:index:-1]:
                        if later.is_done and not (
                            later.is_kept or later.error or self._fits(job, job.need)
                        ):
                            later.need = later.reserved
                            later.reserved = 0
                            later.is_done = False
                            later.result = None
                    job.is_forced = not any(other.is_running for other in self._jobs)
                if not self._fits(job, job.need):
                    return
                job.reserved = job.need
                self._start(job)

    def _start(self, job: _Job) -> None:
        job.read = None
        job.is_running = True
        self._pool.submit(self._run, job)

    def _run(self, job: _Job) -> None:
        token = RESERVE.set(partial(self._announced, job))
        try:
            # No local variable: this thread may pause after the job is done, and would keep the
            # result alive.
            job.result = job.call()
            self._settle(job, job.measure(job.result))
            job.is_done = True
        except _NoRoom:
            job.result = None
        except BaseException as error:
            job.reserved = job.base
            job.error = error
            job.is_done = True
        finally:
            RESERVE.reset(token)  # otherwise this thread would keep the result alive
            job.is_running = False
            self.changed.set()

    def _announced(self, job: _Job, num_bytes: int, *, is_known: bool = False) -> None:
        if is_known and job.read is not None:
            return
        job.read = (job.read or 0) + num_bytes
        # Cap estimates at the limit: a job that reserves all of it runs alone.
        self._claim(
            job, max(job.need, _COPIES * job.read, min(self._expected(job.read), self._limit))
        )

    def _settle(self, job: _Job, size: int) -> None:
        """Reserve memory for a result, and update the estimates for other items."""
        with self._lock:
            job.size = size
            self._all_announce &= job.is_kept or job.read is not None
            if not job.is_read:
                self._pixels = max(self._pixels, (job.base or job.read or size) / job.num_items, 1)
                self._encoded = max(self._encoded, size / job.num_items)
            self._claim(job, self._expected(size) if job.is_read else size)
            if job.is_kept:
                del job.call  # it references the arguments

    def _claim(self, job: _Job, num_bytes: float) -> None:
        """Reserve memory for a job, or raise `_NoRoom`."""
        with self._lock:
            if not self._fits(job, num_bytes):
                job.reserved = job.base
                job.need = job.base + num_bytes
                raise _NoRoom
            job.reserved = num_bytes
            PEAK.num_bytes = max(PEAK.num_bytes, int(self._reserved))
        self.changed.set()

    def _fits(self, job: _Job, num_bytes: float) -> bool:
        other_jobs = [other for other in self._jobs if other is not job and other.reserved]
        if not other_jobs or (job.is_forced and all(other.is_kept for other in other_jobs)):
            return True
        return sum(other.reserved for other in other_jobs) + num_bytes <= self._limit

    @property
    def _reserved(self) -> float:
        return sum(job.reserved for job in self._jobs)

    def _expected(self, pixels: float) -> float:
        """Estimate the memory for loading and encoding an item.

        The estimate comes from the size of its pixels, in bytes.
        """
        return _COPIES * (pixels + self._encoded * max(1, pixels / (self._pixels or 1)))
