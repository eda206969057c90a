"""Read this process's rank in a launcher, and end it and its children after signals."""

import atexit
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import Any, NoReturn

import psutil

# Seconds between the request to end and the kill.
_GRACE_S = 2.0
# Seconds in which killed processes disappear.
_KILLED_S = 2.0
_Handler = Callable[[int, FrameType | None], Any] | signal.Handlers
# Python's default handlers.
_DEFAULTS: dict[signal.Signals, _Handler] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
}


def num_processes() -> int:
    """Return the number of processes that evaluate together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Return true for the process that shows progress."""
    return os.environ.get("RANK", "0") == "0"


@cache
def end_on_signals() -> None:
    """End this process and its children after Ctrl-C or SIGTERM.

    Call this function in the main thread. The first signal raises KeyboardInterrupt in the main
    thread, with the signal's number. A second signal ends the process at once. After SIGTERM, the
    process ends two seconds later, even if a thread is blocked. A signal that is already ignored,
    as with nohup, is still ignored.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    # Python writes each signal's number to this pipe immediately, even while the main thread runs
    # foreign code.
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in _DEFAULTS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    os.register_at_fork(after_in_child=_restore_signals)
    threading.Thread(target=_watch, args=(reading,), name="signals", daemon=True).start()


def interrupt_children(interrupt: KeyboardInterrupt, grace_s: float) -> None:
    """Let all descendants of this process end by themselves for some seconds, then kill them.

    Ctrl-C in a terminal has already reached them. After other signals, they get it now.
    """
    children = psutil.Process().children(recursive=True)
    if exit_code(interrupt) != 128 + signal.SIGINT:
        for child in children:
            with suppress(psutil.Error):
                child.send_signal(signal.SIGINT)
    _, remaining = psutil.wait_procs(children, timeout=grace_s)
    for child in remaining:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(remaining, timeout=_KILLED_S)


def end_children() -> None:
    """Kill all descendants of this process."""
    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, timeout=1)


def exit_after(interrupt: KeyboardInterrupt) -> NoReturn:
    """End this process without Python's shutdown, which can take seconds after large imports."""
    sys.stdout.flush()
    os._exit(exit_code(interrupt))


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of a command that a signal ended, such as 130 after Ctrl-C.

    Shells have this convention.
    """
    number = interrupt.args[0] if interrupt.args else signal.SIGINT
    return 128 + number


def _interrupt(number: int, _: FrameType | None) -> None:
    for handled in _DEFAULTS:
        if signal.getsignal(handled) == _interrupt:
            # Not SIG_IGN: the watching thread must still receive the signal.
            signal.signal(handled, lambda *_: None)
    atexit.register(_finish)
    with suppress(OSError):
        os.write(2, b"\nlmms-egoplan: interrupted; press Ctrl-C again to end immediately\n")
    raise KeyboardInterrupt(number)


def _finish() -> None:
    """End all children.

    Ignore further signals, which could change the exit code during interpreter shutdown.
    """
    end_children()
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_IGN)


def _restore_signals() -> None:
    """Restore Python's default handlers in a forked process.

    It no longer gets this process's signals.
    """
    signal.set_wakeup_fd(-1)
    for number, handler in _DEFAULTS.items():
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def _watch(reading: int) -> None:
    number = _next_signal(reading, None)
    # Ctrl-C may take its time: who is in a hurry presses it again.
    grace_s = _GRACE_S if number == signal.SIGTERM else None
    second = _next_signal(reading, grace_s)
    end_children()
    os._exit(128 + (second or number))


def _next_signal(reading: int, timeout_s: float | None) -> int:
    """Wait for a signal that ends the process, and return its number; 0 after the timeout.

    The pipe also has all other signals for which Python code sets a handler, such as SIGCHLD for
    the workers of torch's DataLoader.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        remaining_s = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([reading], [], [], remaining_s)[0]:
            return 0
        number = os.read(reading, 1)[0]
        if number in _DEFAULTS:
            return number
