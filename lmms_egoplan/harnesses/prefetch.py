"""Load and encode what comes next in threads, while the caller works on what is there.

Nothing but the caller asks for more, and no thread waits for the caller: one that stops, or is interrupted, leaves none
behind.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import joblib
import torch
from accelerate.utils import get_int_from_env
from PIL import Image

from lmms_egoplan.media.decoding import DECODER_THREADS
from lmms_egoplan.memory_ahead import PEAK, RESERVE

# Unless asked for: each worker has a copy of the processor, and this many keep up with any model.
MOST_WORKERS = 16

# Most memory of reading ahead, for all processes of a machine together.
BYTES_AHEAD = 2 << 30

# While an item is loaded and encoded, its pixels exist twice: as decoded and as RGB, then as numbers and as tensor.
_COPIES = 2

# So that one item that takes long makes nobody wait.
_AHEAD_PER_WORKER = 4

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")
Encoded = TypeVar("Encoded")


def num_workers(count: int | str | None = None) -> int:
    """Return the number of threads that load and encode: by default the cores of this process, at most `MOST_WORKERS`.

    The cores are those that affinity and the quotas of a container allow, shared with the other processes that a
    launcher has started on this machine.

    Raises:
        ValueError: the count is no whole number of at least 1.
    """
    if count is not None:
        if not str(count).isdecimal() or int(count) < 1:
            raise ValueError(f"workers must be a whole number of at least 1, got {count!r}")
        return int(count)
    return max(1, min(MOST_WORKERS, joblib.cpu_count() // processes_here()))


def processes_here() -> int:
    """Return the number of processes that the launcher started on this machine; 1 if it does not say."""
    names = ["LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"]
    return max(1, get_int_from_env(names, 1))


def num_bytes(value: Any) -> int:
    """Count the bytes of all pixels and numbers of tensors in nested lists, tuples and mappings.

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
    """How loaded items become encoded batches.

    is_alike: Whether an item, with what was loaded of it, may join the batch that the other one begins.
    batch_size: Most items of a batch.
    encode: Runs in the workers.
    encode_size: Bytes of an encoded batch.
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
    """Yield ``(item, load(item))`` in order, or encoded batches of consecutive items; both are prepared ahead.

    Everything runs in ``workers`` threads. An exception of an item or a batch is raised here, when its turn comes.

    Args:
        load: Calls `RESERVE` with the bytes that it is about to decode. Loads that do not call it run one at a time.
            A load that does not fit is stopped there, or its result is dropped, and it is repeated later.
        size: Bytes of a result. What is loading, loaded or encoded takes at most ``limit``, or one larger item or
            batch. Without it, there is no limit.
        limit: By default this process's share of `BYTES_AHEAD`.
        ahead: Most items beyond the current item or batch; by default, some for each worker and two batches.
    """
    batch_size = batching.batch_size if batching else 1
    ahead = max(_AHEAD_PER_WORKER * workers, 2 * batch_size) if ahead is None else ahead
    limit = math.inf if size is None else limit or BYTES_AHEAD // processes_here()

    def load_pair(item: Any) -> tuple[Item, Loaded]:
        return item, load(item)

    def pair_size(pair: tuple[Item, Loaded]) -> int:
        return 0 if size is None else size(pair[1])

    source = iter(items)
    loading: deque[_Job] = deque()
    batch: list[_Job] = []
    ready: deque[_Job] = deque()  # or being encoded
    is_exhausted = False

    with closing(_Workers(workers, limit)) as pool:

        def close_batch() -> None:
            if batching is None:
                ready.extend(batch)
            elif batch:
                call = partial(batching.encode, [job.result for job in batch])
                ready.append(pool.submit(_Job(call, batching.encode_size, batch)))
            batch.clear()

        while not is_exhausted or loading or batch or ready:
            pool.changed.clear()
            while loading and loading[0].is_done:
                job = loading.popleft()
                if job.error is not None:
                    is_exhausted = True
                    loading.clear()
                    close_batch()
                    ready.append(job)
                    break
                if batching and batch and not batching.is_alike(batch[0].result, job.result):
                    close_batch()
                job.is_kept = True
                batch.append(job)
                if len(batch) == batch_size:
                    close_batch()
            pool.repeat()
            while not is_exhausted:
                waiting = len(loading) + len(batch) + sum(job.num_items for job in ready)
                # A batch that does not fit is loaded all the same, once nothing else is in memory.
                is_stuck = bool(batch) and not loading and not ready
                if not is_stuck and (waiting > ahead or not pool.has_room()):
                    break
                if is_exhausted := (item := next(source, source)) is source:
                    break
                job = _Job(partial(load_pair, item), pair_size)
                job.is_read, job.is_forced = batching is not None, is_stuck
                loading.append(pool.submit(job))
            if is_exhausted and not loading:
                close_batch()
            if ready and ready[0].is_done:
                yield pool.take(ready.popleft())
            elif loading or ready:
                pool.changed.wait()


def _take_one_core() -> None:
    """Compute in one thread: there are as many workers as cores."""
    torch.set_num_threads(1)
    DECODER_THREADS.set(1)


class _NoRoom(BaseException):
    """Stops a call that needs more memory than is left. The call is repeated later."""


class _Job:
    """One call in a worker.

    Args:
        loads: Jobs whose results are the call's arguments.

    Attributes:
        result, error: What the call returned or raised.
        num_items: Number of items in the result.
        base: Bytes of the call's arguments.
        held: Bytes that the job accounts for: what it may take while it runs, then its result.
        size: Bytes of its result.
        read: Bytes that the call has announced; None before that.
        need: Bytes to reserve before the call is repeated.
        is_running: The call runs or waits for a worker.
        is_done: The call has ended. If it neither runs nor has ended, it must be repeated.
        is_read: The result is only loaded. Another call will encode it.
        is_forced: The call may exceed the limit, since nothing else can make room.
        is_kept: The result is in use, so it must not be dropped.
    """

    result: Any = None
    error: BaseException | None = None
    size: int = 0
    need: float = 0
    read: int | None = None
    is_running = is_done = is_read = is_forced = False

    def __init__(self, call: Callable[[], Any], measure: Callable[[Any], int], loads: "Sequence[_Job]" = ()) -> None:
        self.call, self.measure, self.loads, self.is_kept = call, measure, tuple(loads), bool(loads)
        self.num_items = len(loads) or 1
        self.base: float = sum(load.size for load in loads)
        self.held: float = sum(load.held for load in loads)


class _Workers:
    """Threads, and the memory that their calls and results take until these are handed over.

    One thread submits and waits. The workers wait for nobody.

    Args:
        count: Number of threads.
        limit: Most bytes, except that one item or batch alone may take more.

    Attributes:
        changed: Set whenever a call has ended or has announced its size.
    """

    def __init__(self, count: int, limit: float) -> None:
        self.changed = threading.Event()
        self._lock = threading.RLock()
        self._limit = limit
        self._jobs: list[_Job] = []
        # The most bytes of an item, as loaded and as encoded. 0 if nothing is known yet.
        self._pixels = self._encoded = 0.0
        self._all_announce = True
        self._torch_threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(count, "prefetch", initializer=_take_one_core)

    def close(self) -> None:
        """End the threads, after the calls that they have begun."""
        self._pool.shutdown(cancel_futures=True)
        # What a worker has set for itself would hold for new threads of others, too.
        torch.set_num_threads(self._torch_threads)

    def submit(self, job: _Job) -> _Job:
        """Let a worker compute; the job takes the place of its loads."""
        with self._lock:
            place = self._jobs.index(job.loads[0]) if job.loads else len(self._jobs)
            self._jobs[place : place + len(job.loads)] = [job]
            job.held = job.held or self._expected(self._pixels)  # until it announces
            job.loads = ()
            self._start(job)
        return job

    def take(self, job: _Job) -> Any:
        """Return the result, for which the caller accounts from now on."""
        with self._lock:
            self._jobs.remove(job)
        if job.error is not None:
            raise job.error
        result, job.result = job.result, None
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
            return self._held + self._expected(self._pixels) <= self._limit

    def repeat(self) -> None:
        """Repeat calls that fit now. If all wait for one, drop results of later ones, which are loaded again."""
        with self._lock:
            for place, job in enumerate(self._jobs):
                if job.is_running or job.is_done:
                    continue
                if all(each.is_read and each.is_kept for each in self._jobs[:place]):
                    for later in self._jobs[:place:-1]:
                        if later.is_done and not (later.is_kept or later.error or self._fits(job, job.need)):
                            later.need, later.held, later.is_done, later.result = later.held, 0, False, None
                    job.is_forced = not any(each.is_running for each in self._jobs)
                if not self._fits(job, job.need):
                    return
                job.held = job.need
                self._start(job)

    def _start(self, job: _Job) -> None:
        job.read, job.is_running = None, True
        self._pool.submit(self._run, job)

    def _run(self, job: _Job) -> None:
        token = RESERVE.set(partial(self._announced, job))
        try:
            result = job.call()
            self._settle(job, job.measure(result))
            job.result, job.is_done = result, True
        except _NoRoom:
            pass
        except BaseException as error:
            job.held, job.error, job.is_done = job.base, error, True
        finally:
            RESERVE.reset(token)  # or this thread would keep the result
            job.is_running = False
            self.changed.set()

    def _announced(self, job: _Job, num_bytes: int, *, is_known: bool = False) -> None:
        if is_known and job.read is not None:
            return
        job.read = (job.read or 0) + num_bytes
        # What is only expected does not exceed the limit, with which it runs alone.
        self._claim(job, max(job.need, _COPIES * job.read, min(self._expected(job.read), self._limit)))

    def _settle(self, job: _Job, size: int) -> None:
        """Account for a result, and learn from it what others will take."""
        with self._lock:
            job.size = size
            self._all_announce &= job.is_kept or job.read is not None
            if not job.is_read:
                self._pixels = max(self._pixels, (job.base or job.read or size) / job.num_items, 1)
                self._encoded = max(self._encoded, size / job.num_items)
            self._claim(job, self._expected(size) if job.is_read else size)
            if job.is_kept:
                del job.call  # which has the arguments

    def _claim(self, job: _Job, num_bytes: float) -> None:
        """Reserve memory for a job, or raise `_NoRoom`."""
        with self._lock:
            if not self._fits(job, num_bytes):
                job.held, job.need = job.base, job.base + num_bytes
                raise _NoRoom
            job.held = num_bytes
            PEAK.num_bytes = max(PEAK.num_bytes, int(self._held))
        self.changed.set()

    def _fits(self, job: _Job, num_bytes: float) -> bool:
        others = self._held - job.held
        return job.is_forced or not others or others + num_bytes <= self._limit

    @property
    def _held(self) -> float:
        return sum(job.held for job in self._jobs)

    def _expected(self, pixels: float) -> float:
        """Estimate the bytes that loading and encoding an item with so many bytes of pixels may take."""
        return _COPIES * (pixels + self._encoded * max(1, pixels / (self._pixels or 1)))
