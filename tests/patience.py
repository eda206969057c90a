"""Wait for conditions, and limit CPU time, so that no test fails because other programs use the
machine.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FOREVER_S = 600.0
"""Seconds after which a condition counts as never met, even on a busy machine."""


def wait_until(
    happened: Callable[[], object], meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Wait until `happened` returns a true value; fail after `FOREVER_S`.

    `meanwhile` is called between checks. It may fail earlier, for example if a process has ended.
    """
    end = time.monotonic() + FOREVER_S
    while not happened():
        meanwhile()
        assert time.monotonic() < end, f"the condition was not met within {FOREVER_S:.0f} s"
        time.sleep(0.01)


def running(process: subprocess.Popen[Any]) -> Callable[[], None]:
    """Return a function for `wait_until` that fails if the process has ended."""

    def check() -> None:
        assert process.poll() is None, process.communicate()

    return check


@contextmanager
def processor_time_below(seconds: float) -> Iterator[None]:
    """Fail if this thread uses more CPU time.

    Set a limit many times as high as the usual time, because a shared core is slower.
    """
    start = time.thread_time()
    yield
    assert time.thread_time() - start < seconds
