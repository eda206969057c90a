"""Load and encode what comes next in threads, while the caller works on what is there.

Nothing but the caller asks for more, and no thread waits for the caller: one that stops, or is interrupted, leaves none
behind.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

import torch

from lmms_egoplan.media.decoding import DECODER_THREADS

MOST_WORKERS = 16
"""Unless asked for: each worker has a copy of the processor, and this many keep up with any model."""

BYTES_AHEAD = 2 << 30
"""What all that is ready ahead of the model may take."""

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

    return max(1, min(MOST_WORKERS, cpu_count() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def prefetch(
    items: Iterable[Item],
    load: Callable[[Item], Loaded],
    workers: int,
    ahead: int | None = None,
    size: Callable[[Loaded], int] | None = None,
    limit: int = BYTES_AHEAD,
) -> Iterator[tuple[Item, Loaded]]:
    """Yield ``(item, load(item))`` in order, with up to ``ahead`` items loading or loaded beyond the current.

    ``load`` runs in ``workers`` threads. An exception it raises is raised here, when its item's turn comes.

    Args:
        size: bytes of what was loaded; what is ahead then takes at most ``limit``. An item that is being loaded counts
            like the largest one before; the first is loaded alone. An item of more than ``limit`` is, too.
    """
    ahead = _AHEAD_PER_WORKER * workers if ahead is None else ahead
    with _Workers(workers, limit if size else None) as pool:
        waiting: deque[tuple[Item, _Job[Loaded]]] = deque()
        for item in items:
            waiting.append((item, pool.submit(size, load, item)))
            while len(waiting) > ahead or (waiting and not pool.has_room(size)):
                yield pool.take(*waiting.popleft())
        while waiting:
            yield pool.take(*waiting.popleft())


def prefetch_batches(
    items: Iterable[Item],
    load: Callable[[Item], Loaded],
    is_alike: Callable[[tuple[Item, Loaded], tuple[Item, Loaded]], bool],
    batch_size: int,
    encode: Callable[[Sequence[tuple[Item, Loaded]]], Encoded],
    workers: int,
    load_size: Callable[[Loaded], int],
    encode_size: Callable[[Encoded], int],
    limit: int = BYTES_AHEAD,
) -> Iterator[Encoded]:
    """Yield ``encode(batch)`` of consecutive items, in order; batches and items are prepared ahead.

    ``load`` and ``encode`` run in ``workers`` threads. An exception that one raises is raised here, when all earlier
    batches were yielded.

    Args:
        is_alike: whether an item, with what was loaded of it, may join the batch that the other one begins.
        batch_size: most items of a batch.
        load_size, encode_size, limit: as for `prefetch`; together they take at most ``limit``, or one batch.
    """
    ahead = max(_AHEAD_PER_WORKER * workers, 2 * batch_size)
    source = iter(items)
    loading: deque[tuple[Item, _Job[Loaded]]] = deque()
    batch: list[tuple[Item, _Job[Loaded]]] = []
    encoding: deque[tuple[_Job[Encoded], list[_Job[Loaded]]]] = deque()
    failure: BaseException | None = None
    is_exhausted = False

    with _Workers(workers, limit) as pool:

        def close_batch() -> None:
            if batch:
                pairs = [(item, job.future.result()) for item, job in batch]
                encoding.append((pool.submit(encode_size, encode, pairs), [job for _, job in batch]))
                batch.clear()

        while not is_exhausted or loading or batch or encoding:
            while not is_exhausted:
                waiting = len(loading) + len(batch) + sum(len(jobs) for _, jobs in encoding)
                if (loading or encoding) and (waiting > ahead or not pool.has_room(load_size)):
                    break
                try:
                    item = next(source)
                except StopIteration:
                    is_exhausted = True
                else:
                    loading.append((item, pool.submit(load_size, load, item)))
            while loading and loading[0][1].future.done():
                item, job = loading.popleft()
                if (failure := job.future.exception()) is not None:
                    is_exhausted = True
                    loading.clear()
                    break
                if batch and not is_alike(*((item, job.future.result()) for item, job in (batch[0], (item, job)))):
                    close_batch()
                batch.append((item, job))
                if len(batch) == batch_size:
                    close_batch()
            if is_exhausted and not loading:
                close_batch()
            if encoding and encoding[0][0].future.done():
                job, loaded = encoding.popleft()
                encoded = job.future.result()
                pool.release(job, *loaded)
                yield encoded
            elif loading or encoding:
                heads = [job.future for _, job in list(loading)[:1]] + [job.future for job, _ in list(encoding)[:1]]
                wait(heads, return_when=FIRST_COMPLETED)
        if failure is not None:
            raise failure


def _take_one_core() -> None:
    """In this thread; there are as many others as cores."""
    torch.set_num_threads(1)
    DECODER_THREADS.set(1)


class _Job(Generic[Loaded]):
    """One call in a worker.

    size: bytes of its result; None before it is there.
    """

    future: Future[Loaded]

    def __init__(self, measure: Callable[[Loaded], int] | None) -> None:
        self.measure = measure
        self.size: int | None = None

    def run(self, call: Callable[..., Loaded], *args: Any) -> Loaded:
        result = call(*args)
        self.size = self.measure(result) if self.measure else 0
        return result


class _Workers:
    """Threads, and the memory that their results take until they are released. Used by one thread.

    Args:
        count: of threads.
        limit: bytes of all results; None for any number.
    """

    def __init__(self, count: int, limit: int | None) -> None:
        self._limit = limit
        self._jobs: list[_Job[Any]] = []
        self._largest: dict[Any, int] = {}
        self._torch_threads = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(count, "prefetch", initializer=_take_one_core)

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)
        # What a worker has set for itself would hold for new threads of others, too.
        torch.set_num_threads(self._torch_threads)

    def submit(self, measure: Callable[[Loaded], int] | None, call: Callable[..., Loaded], *args: Any) -> _Job[Loaded]:
        """Have a worker compute.

        Args:
            measure: bytes of the result. Calls with the same one are expected to be alike.
        """
        job = _Job(measure)
        job.future = self._pool.submit(job.run, call, *args)
        self._jobs.append(job)
        if self._limit is not None and measure not in self._largest:
            wait([job.future])  # nothing is known of the others' size
        return job

    def take(self, item: Item, job: _Job[Loaded]) -> tuple[Item, Loaded]:
        """An item and its result, once that is there."""
        result = job.future.result()
        self.release(job)
        return item, result

    def release(self, *jobs: _Job[Any]) -> None:
        """The results of these have been handed over."""
        self._learn_sizes()
        for job in jobs:
            self._jobs.remove(job)

    def has_room(self, measure: Callable[[Any], int] | None) -> bool:
        """Whether the result of one more call of this kind fits beside the others."""
        if self._limit is None:
            return True
        self._learn_sizes()
        unknown = max(self._largest.values(), default=0)
        expected = [self._largest.get(job.measure, unknown) if job.size is None else job.size for job in self._jobs]
        return sum(expected) + self._largest.get(measure, unknown) <= self._limit

    def _learn_sizes(self) -> None:
        for job in self._jobs:
            if job.size is not None:
                self._largest[job.measure] = max(job.size, self._largest.get(job.measure, 0))
