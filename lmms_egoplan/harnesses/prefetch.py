"""Load and encode what comes next in threads, while the caller works on what is there.

Nothing but the caller asks for more, and no thread waits for the caller: one that stops, or is interrupted, leaves none
behind.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from operator import itemgetter
from typing import Any, Generic, TypeVar

import torch
from accelerate.utils import get_int_from_env

from lmms_egoplan.media.decoding import DECODER_THREADS
from lmms_egoplan.memory_ahead import PEAK, RESERVE

MOST_WORKERS = 16
"""Unless asked for: each worker has a copy of the processor, and this many keep up with any model."""

BYTES_AHEAD = 2 << 30
"""Most memory of reading ahead, for all processes of a machine together."""

_COPIES = 2
"""While an item is loaded and encoded, its pixels exist twice: as decoded and as RGB, then as numbers and as tensor."""

_AHEAD_PER_WORKER = 4
"""So that one item that takes long makes nobody wait."""

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")
Encoded = TypeVar("Encoded")


def num_workers(given: int | str | None = None) -> int:
    """Threads that load and encode: as many as asked for, or as this process has cores, at most `MOST_WORKERS`.

    The cores are those that affinity and the quotas of a container leave, shared with the other processes that a
    launcher has started on this machine.

    Raises:
        ValueError: what is given is no whole number of at least 1.
    """
    if given is not None:
        if not str(given).isdecimal() or int(given) < 1:
            raise ValueError(f"workers must be a whole number of at least 1, got {given!r}")
        return int(given)
    from joblib import cpu_count

    return max(1, min(MOST_WORKERS, cpu_count() // processes_here()))


def processes_here() -> int:
    """Return the number of processes that the launcher started on this machine; 1 if it does not say."""
    names = ["LOCAL_WORLD_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"]
    return max(1, get_int_from_env(names, 1))


def prefetch(
    items: Iterable[Item],
    load: Callable[[Item], Loaded],
    workers: int,
    ahead: int | None = None,
    size: Callable[[Loaded], int] | None = None,
    limit: int | None = None,
) -> Iterator[tuple[Item, Loaded]]:
    """Yield ``(item, load(item))`` in order, with up to ``ahead`` items loading or loaded beyond the current.

    ``load`` runs in ``workers`` threads. An exception it raises is raised here, when its item's turn comes.

    Args:
        load: Calls `RESERVE` with the bytes that it is about to decode. Loads that do not call it run one at a time.
            A load that does not fit is stopped there, or its result is dropped, and it is repeated later.
        size: Bytes of a result. What is loading or loaded then takes at most ``limit``, or one larger item.
        limit: By default this process's share of `BYTES_AHEAD`.
    """
    ahead = _AHEAD_PER_WORKER * workers if ahead is None else ahead
    source = iter(items)
    is_exhausted = False
    waiting: deque[tuple[Item, _Job[Loaded]]] = deque()
    with _Workers(workers, (limit or _share()) if size else math.inf) as pool:
        while waiting or not is_exhausted:
            changes = pool.changes
            is_ready = bool(waiting) and waiting[0][1].is_done
            while pool.has_room() and not is_exhausted and len(waiting) <= ahead:
                if is_exhausted := (item := next(source, _END)) is _END:
                    break
                waiting.append((item, pool.submit(_Job(partial(load, item), size or (lambda _: 0)))))
            if is_ready:
                item, job = waiting.popleft()
                pool.release(job)
                yield item, job.future.result()
                del job  # or its result would stay until the next one
            elif waiting:
                pool.wait(changes)


def prefetch_batches(
    items: Iterable[Item],
    load: Callable[[Item], Loaded],
    is_alike: Callable[[tuple[Item, Loaded], tuple[Item, Loaded]], bool],
    batch_size: int,
    encode: Callable[[Sequence[tuple[Item, Loaded]]], Encoded],
    workers: int,
    load_size: Callable[[Loaded], int],
    encode_size: Callable[[Encoded], int],
    limit: int | None = None,
) -> Iterator[Encoded]:
    """Yield ``encode(batch)`` of consecutive items, in order; batches and items are prepared ahead.

    ``load`` and ``encode`` run in ``workers`` threads. An exception that one raises is raised here, when all earlier
    batches were yielded.

    Args:
        is_alike: whether an item, with what was loaded of it, may join the batch that the other one begins.
        batch_size: most items of a batch.
        load_size, encode_size, limit: as for `prefetch`; together they take at most ``limit``, or one larger batch.
    """
    ahead = max(_AHEAD_PER_WORKER * workers, 2 * batch_size)
    source = iter(items)
    loading: deque[tuple[Item, _Job[Loaded]]] = deque()
    batch: list[tuple[Item, _Job[Loaded]]] = []
    encoding: deque[_Job[Encoded]] = deque()
    failure: BaseException | None = None
    is_exhausted = False

    with _Workers(workers, limit or _share()) as pool:

        def close_batch() -> None:
            if batch:
                pairs = [(item, job.future.result()) for item, job in batch]
                encoding.append(pool.submit(_Job(partial(encode, pairs), encode_size, [job for _, job in batch])))
                batch.clear()

        while not is_exhausted or loading or batch or encoding:
            changes = pool.changes
            while loading and loading[0][1].is_done:
                item, job = loading.popleft()
                if (failure := job.future.exception()) is not None:
                    is_exhausted = True
                    pool.release(job, *(each for _, each in loading))
                    loading.clear()
                    break
                if batch and not is_alike(*((item, job.future.result()) for item, job in (batch[0], (item, job)))):
                    close_batch()
                job.is_kept = True
                batch.append((item, job))
                if len(batch) == batch_size:
                    close_batch()
            is_ready = bool(encoding) and encoding[0].is_done
            while not is_exhausted:
                waiting = len(loading) + len(batch) + sum(job.num_items for job in encoding)
                # A batch that does not fit is loaded all the same, once nothing else is in memory.
                is_stuck = bool(batch) and not loading and not encoding
                if not is_stuck and (waiting > ahead or not pool.has_room()):
                    break
                if is_exhausted := (item := next(source, _END)) is _END:
                    break
                job = _Job(partial(load, item), load_size, is_read=True, is_forced=is_stuck)
                loading.append((item, pool.submit(job)))
            if is_exhausted and not loading:
                close_batch()
            if is_ready:
                encoded = encoding.popleft()
                pool.release(encoded)
                yield encoded.future.result()
                del encoded
            elif loading or encoding:
                pool.has_room()  # repeats what did not fit
                pool.wait(changes)
        if failure is not None:
            raise failure


def _share() -> int:
    return BYTES_AHEAD // processes_here()


def _take_one_core() -> None:
    """In this thread; there are as many others as cores."""
    torch.set_num_threads(1)
    DECODER_THREADS.set(1)


_END: Any = object()
_AGAIN: Any = object()
"""The result of a call that did not fit."""


class _NoRoom(BaseException):
    """Stops a call that needs more memory than is left. The call is repeated later."""


class _Job(Generic[Loaded]):
    """One call in a worker.

    Args:
        loads: Jobs whose results are the call's arguments.
        is_read: The result is only loaded. Another call will encode it.
        is_forced: The call may exceed the limit, since nothing else can make room.

    Attributes:
        base: Bytes of the call's arguments.
        held: Bytes that the job accounts for: what it may take while it runs, then its result.
        size: Bytes of its result.
        read: Bytes that the call has announced; None before that.
        need: Bytes to reserve before the call is repeated.
        is_kept: The result is in use, so it must not be dropped.
    """

    future: Future[Loaded]

    def __init__(
        self,
        call: Callable[[], Loaded],
        measure: Callable[[Loaded], int],
        loads: "Sequence[_Job[Any]]" = (),
        is_read: bool = False,
        is_forced: bool = False,
    ) -> None:
        self.call, self.measure, self.loads = call, measure, loads
        self.is_read, self.is_forced, self.is_kept = is_read, is_forced, bool(loads)
        self.num_items = len(loads) or 1
        self.base, self.held = sum(load.size for load in loads), sum(load.held for load in loads)
        self.size = self.need = 0
        self.read: int | None = None

    @property
    def is_pending(self) -> bool:
        return self.future.done() and self.future.exception() is None and self.future.result() is _AGAIN

    @property
    def is_done(self) -> bool:
        return self.future.done() and not self.is_pending


class _Workers:
    """Threads, and the memory that their calls and results take until they are released.

    One thread submits and waits. The workers wait for nobody.

    Args:
        count: Number of threads.
        limit: Most bytes, except that one item or batch alone may take more.

    Attributes:
        changes: Another number whenever a call has ended or has announced its size.
    """

    def __init__(self, count: int, limit: float) -> None:
        self.changes = 0
        self._changed = threading.Condition()
        self._limit = limit
        self._jobs: list[_Job[Any]] = []
        # Bytes of the item that took most, as loaded and as encoded.
        self._largest: tuple[float, float] | None = None
        self._all_announce = True
        self._torch_threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(count, "prefetch", initializer=_take_one_core)

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)
        # What a worker has set for itself would hold for new threads of others, too.
        torch.set_num_threads(self._torch_threads)

    def submit(self, job: _Job[Loaded]) -> _Job[Loaded]:
        """Have a worker compute; the job takes the place of its loads."""
        with self._changed:
            place = self._jobs.index(job.loads[0]) if job.loads else len(self._jobs)
            self._jobs[place : place + len(job.loads)] = [job]
            job.loads = ()
            self._start(job)
        return job

    def release(self, *jobs: _Job[Any]) -> None:
        """The results of these have been handed over."""
        with self._changed:
            self._jobs = [job for job in self._jobs if job not in jobs]

    def wait(self, changes: int) -> None:
        """Wait until `changes` is another number than this one, which was read before all was looked at."""
        with self._changed:
            self._changed.wait_for(lambda: self.changes != changes)

    def has_room(self) -> bool:
        """Repeat calls that fit now; return whether one more is likely to fit."""
        with self._changed:
            if self._limit == math.inf or not self._jobs:
                return True
            for job in self._jobs:
                if job.is_pending and not self._repeat(job):
                    return False
            is_unknown = any(job.read is None and not job.future.done() for job in self._jobs)
            if self._largest is None or (is_unknown and not self._all_announce):
                return False
            return self._held + self._expected(self._largest[0]) <= self._limit

    def _repeat(self, job: _Job[Any]) -> bool:
        """Repeat a call if it fits now. If all wait for it, drop results of later ones, which are loaded again."""
        if job is next(each for each in self._jobs if not (each.is_read and each.is_kept)):
            for later in reversed(self._jobs[self._jobs.index(job) + 1 :]):
                if self._fits(job, job.need):
                    break
                if later.is_done and not later.is_kept and later.future.exception() is None:
                    later.need, later.held, later.future = later.held, 0, Future()
                    later.future.set_result(_AGAIN)
            job.is_forced = all(each.future.done() for each in self._jobs)
        if not self._fits(job, job.need):
            return False
        job.held = job.need
        self._start(job)
        return True

    def _start(self, job: _Job[Any]) -> None:
        job.read = None
        job.future = self._pool.submit(self._run, job)
        job.future.add_done_callback(lambda _: self._note_change())

    def _note_change(self) -> None:
        with self._changed:
            self.changes += 1
            self._changed.notify_all()

    def _run(self, job: _Job[Loaded]) -> Loaded:
        RESERVE.set(partial(self._announced, job))
        try:
            result = job.call()
            self._settle(job, job.measure(result))
        except _NoRoom:
            return _AGAIN
        except BaseException:
            job.held = job.base
            raise
        return result

    def _announced(self, job: _Job[Any], num_bytes: int) -> None:
        job.read = (job.read or 0) + num_bytes
        expected = min(self._expected(job.read), self._limit)  # with which it runs alone
        self._claim(job, max(job.need, _COPIES * job.read, expected))

    def _settle(self, job: _Job[Any], size: int) -> None:
        """Account for a result, and learn from it what others will take."""
        with self._changed:
            job.size = size
            if not job.is_kept:
                self._all_announce = self._all_announce and job.read is not None
            if not job.is_read:
                one = ((job.base or job.read or size) / job.num_items, size / job.num_items)
                self._largest = max(self._largest or one, one, key=itemgetter(1))
            self._claim(job, size + (_COPIES * self._encoded(size) if job.is_read else 0))
            if job.is_kept:
                del job.call  # which has the arguments

    def _claim(self, job: _Job[Any], num_bytes: float) -> None:
        """Reserve memory for a job, or raise `_NoRoom`."""
        with self._changed:
            if not self._fits(job, num_bytes):
                job.held, job.need = job.base, job.base + num_bytes
                raise _NoRoom
            job.held = num_bytes
            PEAK.num_bytes = max(PEAK.num_bytes, int(self._held))
            self._note_change()

    def _fits(self, job: _Job[Any], num_bytes: float) -> bool:
        others = self._held - job.held
        return job.is_forced or not others or others + num_bytes <= self._limit

    @property
    def _held(self) -> float:
        return sum(job.held for job in self._jobs)

    def _expected(self, read: float) -> float:
        """Bytes that loading and encoding an item with so many bytes of pixels may take."""
        return _COPIES * (read + self._encoded(read))

    def _encoded(self, read: float) -> float:
        largest, encoded = self._largest or (1, 0)
        return encoded * max(1, read / largest)
