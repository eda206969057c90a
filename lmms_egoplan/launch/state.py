"""Record a run in its folder, and read how far it is from the harness's response cache.

lmms-eval logs each response with its question (``cache/**/*.audit.jsonl``). lm-eval's cache only counts requests.
"""

import json
import math
import sqlite3
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
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import decode, read_json
from lmms_egoplan.launch.estimate import TaskEstimate
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.report.run import without_secrets
from lmms_egoplan.validation import Checked, read_as

STATE = "run.json"


class RunState(Checked):
    """The content of ``run.json``.

    Attributes:
        settings: See `Plan.settings`.
        questions: Number of questions by task.
        requests: Number of requests to the model, in all tasks.
        command: The command that repeats the run.
        started: Time of the last start, in seconds since the epoch.
        answered: Number of requests that were already answered at that time; lm-eval only.
        process: ID of the harness's process and its start in seconds since the epoch; None if a script starts it.
        streams: Whether the backend's answers are stored one by one.
    """

    settings: dict[str, Any]
    questions: dict[str, int]
    requests: int
    command: str
    started: float
    process: list[float] | None = None
    answered: int = 0
    streams: bool = True
    package: dict[str, str] = Field(default_factory=lambda: {"name": "lmms-egoplan", "version": __version__})


@dataclass(frozen=True)
class Progress:
    """How far a task is, or a whole run.

    Attributes:
        name: Name of the task; "requests" for a whole run.
        done: Number of answered questions or requests.
        total: Number of all questions or requests.
        rate: Answers per second since the last start; None if unknown.
    """

    name: str
    done: int
    total: int
    rate: float | None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all are answered at this rate; None if the rate is unknown."""
        left = self.total - self.done
        return 0.0 if left <= 0 else left / self.rate if self.rate else None


def write_state(plan: Plan, estimates: Sequence[TaskEstimate], command: str, process: int | None = None) -> None:
    """Write ``run.json`` when a run starts.

    Args:
        plan: The run.
        estimates: The estimate of each task.
        command: The command that repeats the run.
        process: ID of the harness's process; None if a script starts it.
    """
    state = RunState(
        settings=plan.settings(),
        questions={task.task: task.questions for task in estimates},
        requests=sum(task.requests for task in estimates),
        command=without_secrets(command),
        started=time.time(),
        process=None if process is None else [process, psutil.Process(process).create_time()],
        answered=_count_requests(plan.cache),
        streams=plan.backend.ranks,
    )
    write_whole(plan.out / STATE, json.dumps(state.model_dump(), indent=1, ensure_ascii=False) + "\n")


def read_state(folder: Path) -> RunState | None:
    """Read ``run.json``; None if the folder is not one of ``lmms-egoplan run``.

    Raises:
        LmmsEgoplanError: The file is damaged.
    """
    path = folder / STATE
    if not path.is_file():
        return None
    content = read_json(path)
    is_own = isinstance(content, dict) and isinstance(content.get("package"), dict)
    return read_as(RunState, str(path), content) if is_own else None


def is_running(state: RunState) -> bool:
    """Return whether the harness's process of the last start works on this machine, even if its parent was killed."""
    if state.process is None:
        return False
    number, created = state.process
    try:
        process = psutil.Process(int(number))
        return abs(process.create_time() - created) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def progress_of(folder: Path, state: RunState) -> list[Progress]:
    """Return the progress of each task; for lm-eval, of the whole run."""
    now = time.time() if is_running(state) else None
    if state.settings.get("harness") == "lm-eval":
        done = _count_requests(folder / "cache")
        since = max(0.0, (now or state.started) - state.started)
        rate = (done - state.answered) / since if since and done > state.answered else None
        return [Progress("requests", done, state.requests, rate)]
    times = _answer_times(folder / "cache")
    return [
        Progress(
            task,
            min(len(times[task]), total),
            total,
            _rate([*times[task].values()], state.started, now if len(times[task]) < total else None),
        )
        for task, total in state.questions.items()
    ]


def show_progress(folder: Path, state: RunState) -> bool:
    """Print whether a run works and how far it is, unless it is finished; return whether it works without results."""
    working = is_running(state)
    results = [*(folder / "results").rglob("*results*.json")]
    if not working and any(path.stat().st_mtime >= state.started for path in results):
        return False
    since = f"{datetime.fromtimestamp(state.started, timezone.utc):%Y-%m-%d %H:%M} UTC"
    if working:
        typer.echo(f"{folder}: running since {since}")
    elif state.process is None:
        typer.echo(f"{folder}: its script was written on {since}; whether it runs now is unknown")
    else:
        typer.echo(f"{folder}: not running; last started on {since}. To resume it: {state.command}")
    parts = progress_of(folder, state)
    if not state.streams and not any(part.done for part in parts):
        backend = state.settings.get("backend")
        typer.echo(f"Answers so far: unknown, since the harness stores those of {backend} only when it has all of them")
    else:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
        table.add_column("task", no_wrap=True, overflow="fold")
        for title in ("answered", "of", "coverage", "per minute", "time left"):
            table.add_column(title, justify="right")
        for part in parts:
            left = part.seconds_left if working or part.done >= part.total else None
            table.add_row(
                part.name,
                f"{part.done:,}",
                f"{part.total:,}",
                f"{part.done / part.total:.0%}" if part.total else "",
                "" if part.rate is None else f"{60 * part.rate:.3g}",
                "unknown" if left is None else str(timedelta(seconds=math.ceil(left))),
            )
        Console().print(table)
    typer.echo()
    return working and not results


def _rate(times: list[float], started: float, now: float | None) -> float | None:
    recent = sorted(moment for moment in times if moment >= started)
    if len(recent) < 2:
        return None
    seconds = (now or recent[-1]) - recent[0]
    return (len(recent) - 1) / seconds if seconds > 0 else None


def _answer_times(cache: Path) -> defaultdict[str, dict[Any, float]]:
    """Return the time of each question's latest answer, by task, for the model and task that answered last."""
    answers: dict[str, dict[tuple[str, str], dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in _records(cache):
        task, question, moment = (record.get(name) for name in ("task_name", "doc_id", "created_at"))
        if isinstance(task, str) and isinstance(question, int | str) and isinstance(moment, int | float):
            version = (str(record.get("model_fingerprint_hash")), str(record.get("task_fingerprint")))
            of_version = answers[task][version]
            of_version[question] = max(moment, of_version.get(question, 0.0))
    latest: defaultdict[str, dict[Any, float]] = defaultdict(dict)
    for task, versions in answers.items():
        latest[task] = max(versions.values(), key=lambda of_version: max(of_version.values()))
    return latest


def _records(cache: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(cache.rglob("*.audit.jsonl")):
        with suppress(OSError), path.open("rb") as lines:
            for line in lines:
                with suppress(ValueError):  # the last line may be incomplete
                    record = decode(line)
                    if isinstance(record, dict):
                        yield record


def _count_requests(cache: Path) -> int:
    """Count the requests in lm-eval's caches, one file per process."""
    count = 0
    for path in cache.glob("answers_rank*.db"):
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as cached,
        ):
            (tables,) = zip(*cached.execute("SELECT name FROM sqlite_master WHERE type = 'table'"), strict=True)
            count += sum(cached.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0] for table in tables)
    return count
