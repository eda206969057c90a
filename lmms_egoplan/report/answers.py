"""Read the answers in a run's samples, or in a record of a judged answer."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scores import Answer, Key, ScoredTask
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import validate

Record = TypeVar("Record", bound=TextRecord)
Task = TypeVar("Task", bound="ScoredTask")


def read_tasks(
    task_class: Callable[..., Task],
    runs: Iterable[Run],
    benchmark: str,
    main: str,
    read: Callable[[Mapping[str, Any]], Answer],
) -> Iterator[Task]:
    """Read each run's tasks of a benchmark.

    Args:
        task_class: a subclass of `ScoredTask`, called with that class's fields by name.
        runs: runs to read.
        benchmark: name of the benchmark.
        main: the main task, whose name is not added to the run's name.
        read: see `read_answers`.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    for run in runs:
        for task, task_run in run.tasks.items():
            if task_run.scoring and task_run.scoring.benchmark == benchmark:
                name = run.name if task == main else f"{run.name} ({task})"
                yield task_class(
                    name=name, run=run, answers=read_answers(run, task_run, read), task_run=task_run
                )


def read_answers(
    run: Run, task_run: TaskRun, read: Callable[[Mapping[str, Any]], Answer]
) -> dict[Key, Answer] | None:
    """Read the answers in a task's samples; None without samples.

    Args:
        read: function that reads a logged sample. It raises a ValueError for samples of another
            form.

    Raises:
        LmmsEgoplanError: a sample has another form, or two samples have the same question. The
            message names run and task, and the question if it is known.
    """
    if task_run.samples is None:
        return None
    source = run.source(task_run.task)
    where = f"{source.folder}, run {run.name}, samples of {task_run.task}"
    answers: dict[Key, Answer] = {}
    for sample in task_run.samples:
        try:
            answer = read(sample)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            cause = "they may have been edited, or written by another version"
            problem = (
                error
                if isinstance(error, ValueError)
                else f"{type(error).__name__}: {error}; {cause}"
            )
            raise LmmsEgoplanError(
                f"{where}: {problem}. Remove the samples, or run again: {source.harness} --tasks "
                f"{task_run.task} --model ... --output_path DIR --log_samples"
            ) from error
        if answer.key in answers:
            raise LmmsEgoplanError(
                f"{where}: duplicate {answer.name}. If the samples of two runs were "
                "merged, separate or remove them"
            )
        of_task = (task_run.task, task_run.version)
        sent: Any = {name: sample.get(name) for name in ("prompt", "asked", "tokens")}
        design = member(sample, "coverage", "subset")
        if design and len(task_run.samples) < design["asked"]:  # a run with --limit
            design = {**design, "asked": len(task_run.samples)}
        answers[answer.key] = replace(answer, **sent, task=of_task, design=design)
    return answers


def logged(record_type: type[Record], values: Mapping[str, Any]) -> Record:
    """Read a scored answer from a logged sample, which also has other fields.

    Raises:
        ValueError: the sample does not have the record's fields.
    """
    names = {part.name for part in fields(record_type)}
    named = {name: value for name, value in values.items() if name in names}
    try:
        return validate(record_type, named)
    except ValidationError:
        return record_type.from_text(json.dumps(named))  # Its error describes the problem.


def judged_record(record_type: type[Record], where: str, record: dict[str, Any]) -> Record:
    """Read a judged answer from a record, which also has other fields.

    Raises:
        LmmsEgoplanError: the record is not a judged answer.
    """
    try:
        return logged(record_type, record)
    except ValueError as error:
        raise LmmsEgoplanError(
            f"{where}: {error}. If the file was edited, judge the answers again"
        ) from error
