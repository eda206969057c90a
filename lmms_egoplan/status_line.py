"""Show in one line what a long command does now."""

import sys
import time
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from threading import Event, Lock, Thread

import typer
from rich.cells import set_cell_size
from rich.console import Console

# Seconds between two drawings of the line.
_IN_TERMINAL_S = 0.5
_REDIRECTED_S = 8.0
_REDIRECTED_WIDTH = 120


class StatusLine(AbstractContextManager["StatusLine"]):
    """A line on standard error with the current step of a command and the time since its start.

    In a terminal, the line moves, and disappears when the step ends. Elsewhere, such as in a log,
    each step has a line. It is written again every few seconds, after a carriage return, so a long
    command is never silent and its log stays short.

    Print everything else with `print` while the line is shown. Methods are thread-safe.

    Args:
        after_s: Seconds before the line is first drawn. Short commands then print nothing.
    """

    def __init__(self, after_s: float = 0.0) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._lock = Lock()
        self._is_closed = Event()
        self._is_drawn = False
        self._step = ""
        self._detail = ""
        self._started = time.monotonic()
        self._after_s = after_s

    def __enter__(self) -> "StatusLine":
        Thread(target=self._redraw, name="status line", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        with self._lock:
            self._end_line()
            self._step = ""

    def begin(self, step: str, detail: str = "") -> None:
        """Show a new step. Outside a terminal, this begins a line, also for the same step."""
        with self._lock:
            self._end_line()
            self._step = step
            self._detail = detail
            if time.monotonic() - self._started >= self._after_s:
                self._draw()

    def update(self, detail: str) -> None:
        """Show how far the step is, from the next drawing on."""
        with self._lock:
            self._detail = detail

    def print(self, text: str) -> None:
        """Print lines to standard error above the status."""
        with self._lock:
            self._end_line()
            typer.echo(text, err=True)

    def _redraw(self) -> None:
        every_s = _IN_TERMINAL_S if self._is_terminal else _REDIRECTED_S
        wait_s = self._after_s or every_s
        while not self._is_closed.wait(wait_s):
            wait_s = every_s
            with self._lock:
                if not self._is_closed.is_set():
                    self._draw()

    def _draw(self) -> None:
        if not self._step:
            return
        elapsed = timedelta(seconds=int(time.monotonic() - self._started))
        text = f"[{elapsed}] {self._step}"
        if self._detail:
            text += f": {self._detail}"
        if self._is_terminal:
            width = Console(stderr=True).width - 1
            self._write(f"\r\x1b[K{set_cell_size(text, width).rstrip()}")
        else:
            start = "\r" if self._is_drawn else ""
            self._write(f"{start}{set_cell_size(text, _REDIRECTED_WIDTH).rstrip()}")
        self._is_drawn = True

    def _end_line(self) -> None:
        if self._is_drawn:
            self._write("\r\x1b[K" if self._is_terminal else "\n")
        self._is_drawn = False

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads the output any more
            sys.stderr.write(text)
            sys.stderr.flush()
