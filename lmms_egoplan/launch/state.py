"""Record a run in its folder, and read how far it is from the harness's response cache.

lmms-eval logs each response with its question (``cache/**/*.audit.jsonl``). lm-eval's cache only
counts requests.
"""

import json
import math
import platform
import shlex
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import typer
from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan import __version__
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import decode, read_json
from lmms_egoplan.launch.estimate import TaskEstimate
from lmms_egoplan.launch.plan import CACHE, Plan
from lmms_egoplan.report.tables import share
from lmms_egoplan.validation import Checked, read_as

_STATE = "run.json"
# Key of all tasks together, if the cache does not name them.
_ALL = "all requests"


class RunState(Checked):
    """The content of ``run.json``.

    Attributes:
        settings: See `Plan.settings`.
        totals: Number of questions by task; for lm-eval, the number of requests of all tasks.
        covers: Number of questions by task that the coverage of its results is a share of; unknown
            for lm-eval.
        command: The command that repeats the run.
        started: Time of the last start, in seconds since the epoch.
        streams: Whether the backend's answers are stored one by one.
        host: Name of the machine that started it.
        process: ID of the harness's process, and its start in seconds since the epoch; None if a
            script starts it.
    """

    settings: dict[str, Any]
    totals: dict[str, int]
    covers: dict[str, int] = Field(default_factory=dict)
    command: str
    started: float
    streams: bool
    host: str
    process: list[float] | None
    package: dict[str, str] = Field(
        default_factory=lambda: {"name": "lmms-egoplan", "version": __version__}
    )


class Progress(NamedTuple):
    """The progress of a task.

    Attributes:
        done: Number of answered questions.
        total: Number of all questions.
        rate: Answers per second since the last start; None if unknown.
    """

    done: int
    total: int
    rate: float | None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all questions are answered at this rate; None if the rate is unknown."""
        unanswered = self.total - self.done
        return unanswered / self.rate if unanswered and self.rate else None if unanswered else 0.0


def write_state(plan: Plan, estimates: Sequence[TaskEstimate], process: int | None = None) -> None:
    """Write ``run.json`` when a run starts.

    Args:
        plan: The run.
        estimates: The estimate of each task.
        process: ID of the harness's process; None if a script starts it.
    """
    questions = {task.task: task.questions for task in estimates}
    state = RunState(
        settings=plan.settings(),
        totals=questions
        if plan.harness == "lmms-eval"
        else {_ALL: sum(task.requests for task in estimates)},
        covers={task.task: task.covers for task in estimates}
        if plan.harness == "lmms-eval"
        else {},
        command=shlex.join(["lmms-egoplan", *sys.argv[1:]]),
        started=time.time(),
        streams=plan.backend.is_own,
        host=platform.node(),
        process=None if process is None else [process, psutil.Process(process).create_time()],
    )
    write_whole(
        plan.out / _STATE, json.dumps(state.model_dump(), indent=1, ensure_ascii=False) + "\n"
    )


def read_state(folder: Path) -> RunState | None:
    """Read ``run.json``; None if the folder is not one of ``lmms-egoplan run``.

    Raises:
        LmmsEgoplanError: The file is damaged.
    """
    path = folder / _STATE
    content = read_json(path) if path.is_file() else None
    return (
        read_as(RunState, str(path), content)
        if isinstance(content, dict) and "settings" in content
        else None
    )


def is_running(state: RunState) -> bool:
    """Return whether the harness's process of the last start works on this machine, even if its
    parent was killed.
    """
    number, created = state.process or (-1, 0.0)
    if state.host != platform.node():
        return False
    try:
        process = psutil.Process(int(number))
        return abs(process.create_time() - created) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError):
        return False


def progress_of(folder: Path, state: RunState) -> dict[str, Progress]:
    """Return the progress of each task; for lm-eval, of all tasks together."""
    now = time.time() if is_running(state) else None
    if _ALL in state.totals:
        total = state.totals[_ALL]
        return {_ALL: Progress(min(_count_requests(folder / CACHE["lm-eval"]), total), total, None)}
    times = _answer_times(folder / CACHE["lmms-eval"])
    progress = {}
    for task, total in state.totals.items():
        recent = sorted(moment for moment in times[task].values() if moment >= state.started)
        done = min(len(times[task]), total)
        seconds = ((done < total and now) or recent[-1]) - recent[0] if len(recent) > 1 else 0.0
        progress[task] = Progress(done, total, (len(recent) - 1) / seconds if seconds > 0 else None)
    return progress


def show_progress(folder: Path, state: RunState) -> bool:
    """Print whether a run works and how far it is, unless it is finished; return whether it works
    without results.
    """
    working, results = is_running(state), [*(folder / "results").rglob("*results*.json")]
    if not working and any(path.stat().st_mtime >= state.started for path in results):
        return False
    since = f"{datetime.fromtimestamp(state.started, timezone.utc):%Y-%m-%d %H:%M} UTC"
    stopped = f"not running; last started on {since}. To resume it: {state.command}"
    unknown = f"started by a script or on {state.host}, on {since}; whether it runs now is unknown"
    is_known = state.process is not None and state.host == platform.node()
    typer.echo(
        f"{folder}: {f'running since {since}' if working else stopped if is_known else unknown}"
    )
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for title in ("task", "answered", "of", "done", "coverage", "per minute", "time left"):
        table.add_column(title, no_wrap=True, justify="left" if title == "task" else "right")
    for task, part in progress_of(folder, state).items():
        seconds = part.seconds_left if working else None
        answered = done = coverage = "unknown"
        if state.streams or part.done > 0:
            answered = f"{part.done:,}"
            done = f"{part.done / max(1, part.total):.0%}"
            # As in the results, except that an answer may still be left without a score.
            coverage = (
                share(part.done / state.covers[task]) if state.covers.get(task) else "unknown"
            )
        rate = "" if part.rate is None else f"{60 * part.rate:.3g}"
        time_left = "unknown" if seconds is None else str(timedelta(seconds=math.ceil(seconds)))
        table.add_row(task, answered, f"{part.total:,}", done, coverage, rate, time_left)
    Console().print(table)
    if not state.streams:
        typer.echo(
            f"The harness stores the answers of {state.settings['backend_name']} only "
            "when it has all of them."
        )
    typer.echo()
    return working and not results


def _answer_times(cache: Path) -> defaultdict[str, dict[Any, float]]:
    """Return the time of each question's latest answer, by task, for the model and data that
    answered last.
    """
    latest: defaultdict[str, dict[Any, float]] = defaultdict(dict)
    versions: dict[str, tuple[Any, Any]] = {}
    for record in sorted(_records(cache), key=lambda record: record["created_at"]):
        task, version = (
            record["task_name"],
            (record.get("model_fingerprint_hash"), record.get("task_fingerprint")),
        )
        if versions.setdefault(task, version) != version:
            versions[task] = version
            latest[task].clear()
        latest[task][record["doc_id"]] = record["created_at"]
    return latest


def _records(cache: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(cache.rglob("*.audit.jsonl")):
        with suppress(OSError), path.open("rb") as lines:
            for line in lines:
                with suppress(ValueError, AttributeError):  # the last line may be incomplete
                    record = decode(line)
                    if record.keys() >= {"task_name", "doc_id", "created_at"}:
                        record.pop("response", None)
                        yield record


def _count_requests(path: Path) -> int:
    """Count the requests in lm-eval's caches, one file per process."""
    count = 0
    for file in path.parent.glob(f"{path.name}_rank*.db"):
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as cache,
        ):
            for (table,) in cache.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall():
                count += cache.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0]
    return count
