"""Run a harness, and show how far it is.

Its output goes to `LOG` in the run's folder. The user sees one moving line, this package's warnings
and errors, and the end of the log if the harness fails.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from rich.text import Text

from lmms_egoplan.judging.prices import PriceList
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.launch.counts import TaskCounts
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.state import (
    EVENTS_FILE,
    RunProgress,
    RunState,
    describe_progress,
    progress_of,
    write_state,
)
from lmms_egoplan.run_events import EVENTS, JUDGEMENT, WARNING, EventReader
from lmms_egoplan.status_line import StatusLine
from lmms_egoplan.text import counted

LOG = "log.txt"
# Progress bars write a line per second to the log.
_SHORT_LOG = {"TQDM_MININTERVAL": "1"}
_TICK_S = 0.5
_LOOK_S = 5.0
# A look at the cache reads all answers. It is repeated after this many times its duration.
_LOOKS_APART = 20
_WARNING_WIDTH = 70
_LAST_LINES = 20
_LAST_BYTES = 20_000
# The harnesses' commands end with such a line after errors that the user can correct.
_REASON = "lmms-egoplan: "


def run_harness(
    plan: Plan, counts: Sequence[TaskCounts], judging: "JudgingProgress", status: StatusLine
) -> int:
    """Run the harness, and return its exit code.

    Args:
        plan: The run.
        counts: What each task asks.
        judging: Counts the requests to judges.
        status: Shows what the harness does.
    """
    log = plan.out / LOG
    events = {EVENTS: str((plan.out / EVENTS_FILE).absolute())}
    with log.open("ab") as output:
        output.write(f"$ {plan.render_command()}".encode())
        output.flush()
        start = output.tell()
        # Not a pipe: the harness survives if only this process is killed, and `show` finds it.
        with subprocess.Popen(
            plan.command(),
            env=_SHORT_LOG | os.environ | plan.environment() | events,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process:
            state = write_state(plan, counts, process.pid)
            _Display(plan, state, judging, status, start).follow(process)
    if process.returncode:
        status.print(_end_of(log, start))
    return process.returncode


class JudgingProgress:
    """The new requests to judges of one start, and their cost.

    Args:
        at_most: Maximum number of new requests.
        prices: Prices by model; None if they are unknown.
    """

    def __init__(self, at_most: int, prices: PriceList | None) -> None:
        self.num_requests = 0
        self.at_most = at_most
        self._options = LlmOptions(prices=prices)
        self._cost: float | None = 0.0

    def add(self, event: Mapping[str, Any]) -> None:
        """Count a judgement."""
        self.num_requests += 1
        cost = self._options.cost(event["model"], event["prompt_tokens"], event["reply_tokens"])
        self._cost = None if cost is None or self._cost is None else self._cost + cost

    def describe(self) -> str:
        """Describe the requests so far, and their cost if it is known."""
        text = f"{self.num_requests:,} of up to {self.at_most:,} requests"
        if self._cost is not None and self.num_requests:
            most = self._cost / self.num_requests * max(self.at_most, self.num_requests)
            text += f", price {self._cost:,.2f} so far, at most about {most:,.2f} in all"
        return text


class LogTail:
    """The end of a log that another process writes."""

    def __init__(self, path: Path, start: int) -> None:
        """Begin at a position in bytes."""
        self._path = path
        self._position = start

    def last_line(self) -> str:
        """Return the last line since the last call; "" without any.

        A progress bar's carriage return also ends a line. The line is without date and colours.
        Rows of tables do not count.
        """
        with self._path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._position, size - _LAST_BYTES))
            content = log.read()
        self._position = size
        lines = [line for line in _plain_lines(content) if not line.startswith("|")]
        return lines[-1].rpartition(" - ")[2].strip() if lines else ""


def _plain_lines(content: bytes) -> list[str]:
    """Return the lines of a log without colours and empty lines."""
    lines = []
    for line in content.decode("utf-8", "replace").replace("\r", "\n").splitlines():
        plain = Text.from_ansi(line).plain.rstrip()
        if plain.strip():
            lines.append(plain)
    return lines


def _end_of(log: Path, start: int) -> str:
    """Return why a harness failed: its last line about that, or the end of its log."""
    with log.open("rb") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(max(start, size - _LAST_BYTES))
        lines = _plain_lines(content.read())[-_LAST_LINES:]
    for line in reversed(lines):
        if line.startswith(_REASON):
            return line
    return "\n".join(lines)


class _Display:
    """Shows progress and warnings of one start of a harness."""

    def __init__(
        self,
        plan: Plan,
        state: RunState,
        judging: JudgingProgress,
        status: StatusLine,
        start: int,
    ) -> None:
        self._plan = plan
        self._state = state
        self._status = status
        self._tail = LogTail(plan.out / LOG, start)
        self._events = EventReader(plan.out / EVENTS_FILE)
        self._warnings: dict[str, list[str]] = {}
        self._judging = judging
        self._progress = progress_of(plan.out, state)
        self._done_at_start = self._progress.overall.done
        self._next_look = time.monotonic() + _LOOK_S
        self._line = ""
        self._phase = ("", 0)

    def follow(self, process: "subprocess.Popen[bytes]") -> None:
        """Show what the harness does until it ends."""
        is_running = True
        while is_running:
            try:
                process.wait(_TICK_S)
                is_running = False
            except subprocess.TimeoutExpired:
                pass
            self._read_events()
            self._look()
            self._line = self._tail.last_line() or self._line
            self._show(self._progress)
        for first, *similar in self._warnings.values():
            if similar:
                self._status.print(
                    f"{counted(len(similar), 'warnings')} like "
                    f'"{shorten(first, _WARNING_WIDTH)}": see {self._plan.out / LOG}'
                )

    def _read_events(self) -> None:
        """Print new warnings, one of each kind, and count judgements."""
        for event in self._events.read():
            if event["time"] < self._state.started:
                continue
            if event["kind"] == JUDGEMENT:
                self._judging.add(event)
            elif event["kind"] == WARNING:
                texts = self._warnings.setdefault(event["place"], [])
                if not texts:
                    self._status.print(f"Warning: {event['text']}")
                if event["text"] not in texts:
                    texts.append(event["text"])

    def _look(self) -> None:
        """Count the stored answers, unless that was done a moment ago."""
        started = time.monotonic()
        if self._state.streams and started >= self._next_look:
            self._progress = progress_of(self._plan.out, self._state)
            seconds = time.monotonic() - started
            self._next_look = started + max(_LOOK_S, _LOOKS_APART * seconds)

    def _show(self, progress: RunProgress) -> None:
        """Update the status line. Begin another one with each phase and each tenth of answers."""
        overall = progress.overall
        is_new = overall.done > self._done_at_start
        known = ""
        tenth = 0
        if overall.done < overall.total and is_new:
            phase = "Answering"
            tenth = 10 * overall.done // max(1, overall.total)
            known = describe_progress(overall, self._state.unit)
        elif self._judging.num_requests or (is_new and self._judging.at_most):
            phase = "Judging"
            known = self._judging.describe()
        elif is_new:
            phase = "Scoring"
        elif self._state.streams:
            phase = f"Starting {self._plan.harness}"
        else:
            phase = f"Running {self._plan.harness}"
        detail = " | ".join(part for part in (known, self._line) if part)
        if self._phase == (phase, tenth):
            self._status.update(detail)
        else:
            self._phase = (phase, tenth)
            self._status.begin(phase, detail)
