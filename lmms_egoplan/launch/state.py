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
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psutil
import typer
from pydantic import Field
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan import __version__
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import decode, read_json
from lmms_egoplan.judging.cache import CacheError, JudgementCache, default_cache_path
from lmms_egoplan.launch.counts import Stored, TaskCounts, paid_judge
from lmms_egoplan.launch.plan import CACHE, Plan
from lmms_egoplan.run_events import JUDGEMENT, EventReader
from lmms_egoplan.text import percent
from lmms_egoplan.validation import Checked, read_as

STATE = "run.json"
EVENTS_FILE = "events.jsonl"
"""File of `run_events`: warnings and judgements of all starts."""
# Key of all tasks together, if the cache does not name them.
_ALL = "all requests"
_MINUTE_S = 60
_HOUR_S = 3600


class RunState(Checked):
    """The content of ``run.json``.

    Attributes:
        settings: See `Plan.settings`.
        totals: Number of questions by task; for lm-eval, the number of requests of all tasks.
        covers: Number of questions by task that the coverage of its results is a share of; unknown
            for lm-eval.
        command: The command that repeats the run.
        started: Time of the last start, in seconds since the epoch.
        streams: True if the backend's answers are stored one by one.
        host: Name of the machine that started it.
        process: ID of the harness's process, and its start in seconds since the epoch; None if a
            script starts it.
        failure: Why the last start failed; "" if it did not, or was interrupted.
    """

    settings: dict[str, Any]
    totals: dict[str, int]
    covers: dict[str, int] = Field(default_factory=dict)
    command: str
    started: float
    streams: bool
    host: str
    process: list[float] | None
    failure: str = ""
    package: dict[str, str] = Field(
        default_factory=lambda: {"name": "lmms-egoplan", "version": __version__}
    )

    @property
    def unit(self) -> str:
        """The things that the totals count."""
        return "requests" if _ALL in self.totals else "questions"


@dataclass(frozen=True)
class Progress:
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
        if unanswered == 0:
            return 0.0
        if not self.rate:
            return None
        return unanswered / self.rate


@dataclass(frozen=True)
class RunProgress:
    """The progress of a run.

    Attributes:
        tasks: The progress of each task; for lm-eval, of all tasks together.
        overall: The progress of all tasks together.
    """

    tasks: dict[str, Progress]
    overall: Progress


def repeated_command() -> str:
    """Return the command that repeats this one."""
    return shlex.join(["lmms-egoplan", *sys.argv[1:]])


def write_state(plan: Plan, counts: Sequence[TaskCounts], process: int | None = None) -> RunState:
    """Write ``run.json`` when a run starts, and return its content.

    Args:
        plan: The run.
        counts: What each task asks.
        process: ID of the harness's process; None if a script starts it.
    """
    totals: dict[str, int] = {}
    covers: dict[str, int] = {}
    if plan.harness == "lmms-eval":
        for task in counts:
            totals[task.task] = task.questions
            covers[task.task] = task.covers
    else:
        totals[_ALL] = sum(task.requests for task in counts)
    state = RunState(
        settings=plan.settings(),
        totals=totals,
        covers=covers,
        command=repeated_command(),
        started=time.time(),
        streams=plan.backend.is_ours,
        host=platform.node(),
        process=None if process is None else [process, psutil.Process(process).create_time()],
    )
    _write(plan.out, state)
    return state


def write_failure(folder: Path, failure: str) -> None:
    """Write to ``run.json`` why the run failed."""
    state = read_state(folder)
    if state is not None:
        _write(folder, state.model_copy(update={"failure": failure}))


def _write(folder: Path, state: RunState) -> None:
    text = json.dumps(state.model_dump(), indent=1, ensure_ascii=False)
    write_whole(folder / STATE, f"{text}\n")


def read_state(folder: Path) -> RunState | None:
    """Read ``run.json``; None if the folder is not one of ``lmms-egoplan run``.

    Raises:
        LmmsEgoplanError: The file is damaged.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict) or "settings" not in content:
        return None
    return read_as(RunState, str(path), content)


def is_running(state: RunState) -> bool:
    """Return whether the harness's process of the last start works on this machine.

    It may work even if its parent was killed.
    """
    if state.process is None or not is_local(state):
        return False
    number, created = state.process
    try:
        process = psutil.Process(int(number))
        return abs(process.create_time() - created) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError):
        return False


def is_local(state: RunState) -> bool:
    """Return whether a run was started on this machine."""
    return state.host == platform.node()


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of all starts of a run; see `run_events`."""
    return EventReader(folder / EVENTS_FILE).read()


def read_stored(plan: Plan) -> Stored | None:
    """Return what earlier starts of a run have stored; None if there was none.

    Raises:
        LmmsEgoplanError: ``run.json`` or the database of judgements cannot be used.
    """
    state = read_state(plan.out)
    if state is None:
        return None
    progress = progress_of(plan.out, state)
    answers: dict[str, int] = {}
    if _ALL not in progress.tasks:
        answers = {task: part.done for task, part in progress.tasks.items()}
    return Stored(answers, progress.overall.done, state.unit, _count_judgements(plan))


def _count_judgements(plan: Plan) -> int:
    """Count the judgements of a run by its present judges that are still stored."""
    judges = {judge.model for judge in map(paid_judge, plan.leaves.values()) if judge is not None}
    keys = set()
    for event in read_events(plan.out):
        if event["kind"] == JUDGEMENT and event["is_rated"] and event["model"] in judges:
            keys.add(event["key"])
    if not keys:
        return 0
    try:
        with JudgementCache(default_cache_path()) as cache:
            return len(cache.load(keys))
    except CacheError as error:
        raise LmmsEgoplanError(str(error)) from error


def progress_of(folder: Path, state: RunState) -> RunProgress:
    """Read the progress of a run from the harness's response cache."""
    if _ALL in state.totals:
        total = state.totals[_ALL]
        done = min(_count_requests(folder / CACHE["lm-eval"]), total)
        together = Progress(done, total, None)
        return RunProgress({_ALL: together}, together)
    now = time.time() if is_running(state) else None
    times = _answer_times(folder / CACHE["lmms-eval"])
    tasks = {}
    recent_of_all: list[float] = []
    for task, total in state.totals.items():
        done = min(len(times[task]), total)
        recent = sorted(moment for moment in times[task].values() if moment >= state.started)
        recent_of_all += recent
        tasks[task] = Progress(done, total, _rate(recent, now if done < total else None))
    done = sum(part.done for part in tasks.values())
    total = sum(part.total for part in tasks.values())
    rate = _rate(sorted(recent_of_all), now if done < total else None)
    return RunProgress(tasks, Progress(done, total, rate))


def _rate(times: Sequence[float], end: float | None) -> float | None:
    """Return the answers per second from the first answer on; None if it is unknown.

    Args:
        times: Times of the answers, in order.
        end: End of the period. Default: the last answer.
    """
    if len(times) < 2:
        return None
    seconds = (times[-1] if end is None else end) - times[0]
    return (len(times) - 1) / seconds if seconds > 0 else None


def show_progress(folder: Path, state: RunState) -> bool:
    """Print whether a run works and how far it is, unless it is finished.

    Return whether this is all about it: it works or was interrupted, and has no results.
    """
    working = is_running(state)
    results = [*(folder / "results").rglob("*results*.json")]
    if not working and any(path.stat().st_mtime >= state.started for path in results):
        return False
    typer.echo(f"{folder}: {_activity(state, working=working)}")
    Console().print(_progress_table(folder, state, working=working))
    if not state.streams:
        typer.echo(
            f"The harness stores the answers of {state.settings['backend_name']} only "
            "when it has all of them."
        )
    typer.echo()
    was_interrupted = state.process is not None and not state.failure and is_local(state)
    return (working or was_interrupted) and not results


def describe_progress(progress: Progress, unit: str) -> str:
    """Describe how far a run is, its rate and the time left, as far as they are known."""
    parts = [f"{progress.done:,} of {progress.total:,} {unit}"]
    if progress.rate:
        parts.append(f"{_per_minute(progress.rate)} a minute")
    if progress.seconds_left:
        parts.append(f"about {_duration(progress.seconds_left)} left")
    return ", ".join(parts)


def _per_minute(rate: float) -> str:
    """Format a number of answers per second as one per minute, with two digits or more."""
    per_minute = 60 * rate
    return f"{per_minute:,.0f}" if per_minute >= 10 else f"{per_minute:.2g}"


def _duration(seconds: float) -> str:
    """Describe a duration in hours, minutes or seconds."""
    if seconds >= _HOUR_S:
        return f"{seconds / _HOUR_S:.1f} hours"
    if seconds >= _MINUTE_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds:.0f} s"


def _activity(state: RunState, *, working: bool) -> str:
    """Describe whether a run works."""
    since = f"{datetime.fromtimestamp(state.started, timezone.utc):%Y-%m-%d %H:%M} UTC"
    if working:
        return f"running since {since}"
    if state.process is not None and is_local(state):
        if state.failure:
            return f"failed: {state.failure}\nTo resume, repeat: {state.command}"
        return f"interrupted; last started on {since}. To resume, repeat: {state.command}"
    return f"started by a script or on {state.host}, on {since}; whether it runs now is unknown"


def _progress_table(folder: Path, state: RunState, *, working: bool) -> Table:
    """Return a table with the progress of each task."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for title in ("task", "answered", "of", "done", "coverage", "per minute", "time left"):
        table.add_column(title, no_wrap=True, justify="left" if title == "task" else "right")
    progress = progress_of(folder, state)
    rows = dict(progress.tasks)
    if len(rows) > 1:
        rows["all tasks"] = progress.overall
    for task, part in rows.items():
        if task == "all tasks":
            table.add_section()
        seconds = part.seconds_left if working else None
        answered = "unknown"
        done = "unknown"
        coverage = "unknown"
        if state.streams or part.done > 0:
            answered = f"{part.done:,}"
            done = f"{part.done / max(1, part.total):.0%}"
            # As in the results, except that an answer may still be left without a score.
            if state.covers.get(task):
                coverage = percent(part.done / state.covers[task]).replace("\u202f", "")
        rate = "" if part.rate is None else _per_minute(part.rate)
        if seconds is not None:
            time_left = str(timedelta(seconds=math.ceil(seconds)))
        else:
            time_left = "unknown" if working else ""
        table.add_row(task, answered, f"{part.total:,}", done, coverage, rate, time_left)
    return table


def _answer_times(cache: Path) -> defaultdict[str, dict[Any, float]]:
    """Return the time of each question's latest answer, by task.

    Only answers of the last model and to the last data count.
    """
    latest: defaultdict[str, dict[Any, float]] = defaultdict(dict)
    versions: dict[str, tuple[Any, Any]] = {}
    for record in sorted(_records(cache), key=lambda record: record["created_at"]):
        task = record["task_name"]
        version = (record.get("model_fingerprint_hash"), record.get("task_fingerprint"))
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
            tables = cache.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                (rows,) = cache.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()
                count += rows
    return count
