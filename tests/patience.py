"""Waits for what happens, and limits in processor time: other programs on the machine must not fail a test."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FOREVER_S = 600.0
"""What has not happened by then never will, on a machine however busy."""


def wait_until(happened: Callable[[], object], meanwhile: Callable[[], object] = lambda: None) -> None:
    """Look again and again until something is true; fails after `FOREVER_S`.

    `meanwhile` may fail earlier, where nothing can be expected any more.
    """
    end = time.monotonic() + FOREVER_S
    while not happened():
        meanwhile()
        assert time.monotonic() < end, f"nothing in {FOREVER_S:.0f} s"
        time.sleep(0.01)


@contextmanager
def processor_time_below(seconds: float) -> Iterator[None]:
    """Seconds that this thread may compute, whatever else runs meanwhile.

    A limit is many times what is needed, as a shared core computes more slowly.
    """
    start = time.thread_time()
    yield
    assert time.thread_time() - start < seconds
