"""Which runs have EgoThink's tasks, and what was answered and rated in them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.report.by_question import by_question, unreadable
from lmms_egoplan.report.recompute import shared_file
from lmms_egoplan.report.run import Run, TaskRun

_TASKS = {dimension.task: dimension.name for dimension in DIMENSIONS}

Key = tuple[str, str]
"""What tells a question from others: its id and its reference, since small sets for trying use the same ids."""


@dataclass(frozen=True)
class Answered:
    """question: None where the harness does not log it."""

    judged: JudgedAnswer
    reference: str
    question: str | None


@dataclass(frozen=True)
class Graded:
    """A run's part in this benchmark.

    tasks: by dimension.
    answers: of the tasks with samples, in the dimensions' order.
    left_out: tasks whose dimension is unknown, or in the run already.
    """

    name: str
    tasks: dict[str, TaskRun]
    answers: dict[Key, Answered]
    left_out: tuple[str, ...]


def graded_runs(runs: Sequence[Run]) -> list[Graded]:
    """The runs that have one of the tasks.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the tasks log, or a question is there twice.
    """
    graded = []
    for run in runs:
        own = [task_run for task_run in run.tasks.values() if _is_egothink(task_run)]
        tasks: dict[str, TaskRun] = {}
        for task_run in sorted(own, key=lambda task_run: task_run.task not in _TASKS):
            tasks.setdefault(_dimension(task_run), task_run)
        tasks.pop("", None)
        answers: dict[Key, Answered] = {}
        for task_run in (tasks[name] for name in DIMENSION_NAMES if name in tasks):
            read = (_answered(run, task_run, sample) for sample in task_run.samples or ())
            answers |= by_question(run, task_run, read, lambda key: f"question {key[0]}")
        kept = {task_run.task for task_run in tasks.values()}
        left_out = tuple(task_run.task for task_run in own if task_run.task not in kept)
        if own:
            graded.append(Graded(run.name, tasks, answers, left_out))
    return graded


def _is_egothink(task_run: TaskRun) -> bool:
    return shared_file(task_run.config) == "egothink"


def _dimension(task_run: TaskRun) -> str:
    """Of a task by its name or, where that is a user's own, by what was asked; "" where neither tells."""
    asked = {dimension_of(str(sample["num_questions"].get("id"))) for sample in task_run.samples or ()}
    name = _TASKS.get(task_run.task) or (asked.pop() if len(asked) == 1 else "")
    return name if name in DIMENSION_NAMES else ""


def _answered(run: Run, task_run: TaskRun, sample: Mapping[str, Any]) -> tuple[Key, Answered]:
    record, reference = sample.get("score", {}), sample.get("target")
    values = {field.name: record[field.name] for field in fields(JudgedAnswer) if field.name in record}
    try:
        judged = JudgedAnswer.from_text(json.dumps(values))
        if not isinstance(reference, str) or dimension_of(judged.id) not in DIMENSION_NAMES:
            raise ValueError(f"{judged.id} is no question of the benchmark, or it has no reference")
    except ValueError as error:
        raise unreadable(run, task_run, error) from error
    question = (sample.get("doc") or {}).get("question")
    return (judged.id, reference), Answered(judged, reference, question)
