"""What a task's samples say, by question."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.run import Run, TaskRun

Key = TypeVar("Key")
Answer = TypeVar("Answer")


def unreadable(run: Run, task_run: TaskRun, problem: object) -> LmmsEgoplanError:
    """Tells what is wrong with a run's samples, and how to have them anew."""
    return LmmsEgoplanError(
        f"{run.folder}, run {run.name}, samples of {task_run.task}: {problem}. Run again, or leave the samples out: "
        f"{run.harness} --tasks {task_run.task} --model ... --output_path DIR --log_samples"
    )


def by_question(
    run: Run, task_run: TaskRun, answers: Iterable[tuple[Key, Answer]], name: Callable[[Key], str]
) -> dict[Key, Answer]:
    """The answers by what tells their questions apart.

    Args:
        name: of a question, for a message.

    Raises:
        LmmsEgoplanError: a question is there twice; names run, task and the first such question.
    """
    found: dict[Key, Answer] = {}
    for key, answer in answers:
        if key in found:
            raise LmmsEgoplanError(
                f"{run.folder}, run {run.name}, samples of {task_run.task}: {name(key)} is there twice; were samples "
                "of two runs put together? Run again, or leave the samples out"
            )
        found[key] = answer
    return found
