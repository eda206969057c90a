"""Load what comes next while the caller works on what is there."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

THREADS = 2
AHEAD = 4
"""Questions whose images are read beyond the one that the model computes; bounds the memory they take."""

Item = TypeVar("Item")
Loaded = TypeVar("Loaded")


def prefetch(
    items: Iterable[Item], load: Callable[[Item], Loaded], workers: int = THREADS, ahead: int = AHEAD
) -> Iterator[tuple[Item, Loaded]]:
    """Yield ``(item, load(item))`` in order, with up to ``ahead`` items loading or loaded beyond the current.

    ``load`` runs in ``workers`` threads. An exception it raises is raised here, when its item's turn comes.
    """
    with ThreadPoolExecutor(workers, thread_name_prefix="prefetch") as pool:
        waiting: deque[tuple[Item, Future[Loaded]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(load, item)))
                if len(waiting) > ahead:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
