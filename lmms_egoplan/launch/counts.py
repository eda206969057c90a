"""Count what a run asks, from the prepared data: questions, images and requests to judges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.conditions import no_visual
from lmms_egoplan.benchmarks.subset import mark
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.judging.tokens import StepUsage
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.tasks import Task
from lmms_egoplan.task_files import read_task_file

if TYPE_CHECKING:
    from lmms_egoplan.report.run import TaskRun

# The function that a task without media has as ``doc_to_visual``.
_NO_VISUAL = f"{no_visual.__module__}.{no_visual.__name__}"
_NOT_DETERMINED = "the backend decides"
MEASURED = "Hours and price are measured on the first questions, and updated while the run works."
"""What to print below the counts."""


@dataclass(frozen=True)
class TaskCounts:
    """The numbers of what a task asks.

    Attributes:
        task: Name of the task.
        questions: Number of questions.
        covers: Number of questions that the coverage of its results is a share of.
        requests: Number of requests to the model: one per choice, or one per question.
        images: Number of images and frames to decode; None if the backend chooses them from a
            video file.
        judge_requests: Number of requests to judges, at most, without repeats. Stored judgements
            need none.
    """

    task: str
    questions: int
    covers: int
    requests: int
    images: int | None
    judge_requests: int


def count_tasks(plan: Plan) -> list[TaskCounts]:
    """Count what each task asks.

    Raises:
        LmmsEgoplanError: A split is not prepared, or a task cannot ask its questions.
    """
    return [_count(plan, task) for task in plan.leaves.values()]


def print_counts(counts: Sequence[TaskCounts]) -> None:
    """Print the counts of each task, and of all together."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("task", no_wrap=True, overflow="fold")
    for title in ("questions", "images", "requests to the judge"):
        table.add_column(title, justify="right")
    for task in counts:
        table.add_row(task.task, *_cells(task))
    if len(counts) > 1:
        table.add_section()
        table.add_row("all tasks", *_cells(_total(counts)))
    Console().print(table)


def _cells(counts: TaskCounts) -> list[str]:
    images = _NOT_DETERMINED if counts.images is None else f"{counts.images:,}"
    judge_requests = f"up to {counts.judge_requests:,}" if counts.judge_requests else "none"
    return [f"{counts.questions:,}", images, judge_requests]


def _total(counts: Sequence[TaskCounts]) -> TaskCounts:
    """Return the sums over all tasks. The number of images is unknown if that of a task is."""
    images: int | None = 0
    for task in counts:
        if images is None or task.images is None:
            images = None
        else:
            images += task.images
    return TaskCounts(
        task="",
        questions=sum(task.questions for task in counts),
        covers=sum(task.covers for task in counts),
        requests=sum(task.requests for task in counts),
        images=images,
        judge_requests=sum(task.judge_requests for task in counts),
    )


def check_prices(plan: Plan, options: LlmOptions) -> None:
    """Check that a file of prices, if there is one, has the model of each judge.

    Raises:
        LmmsEgoplanError: It lacks a model.
    """
    if options.prices is None:
        return
    for task in plan.leaves.values():
        settings = paid_judge(task)
        if settings is not None:
            options.price(settings.model)


def used_steps(
    plan: Plan, tasks: "Mapping[str, TaskRun]", counts: Sequence[TaskCounts]
) -> list[StepUsage]:
    """Return the tokens of the judges of a run, as its results report them.

    They are what the judgements cost when made.
    """
    steps: list[StepUsage] = []
    questions = {task.task: task.questions for task in counts}
    for name, task in plan.leaves.items():
        settings = paid_judge(task)
        if settings is None:
            continue
        sent = int(tasks[name].number("judge_prompt_tokens") or 0)
        received = int(tasks[name].number("judge_reply_tokens") or 0)
        known = int(tasks[name].number("judge_tokens_of") or 0)
        missing = questions[name] - known
        unknown = f"an unknown number for {missing} answers of {name}" if missing else ""
        steps.append(StepUsage(name, None, sent, received, settings.model, unknown))
    return steps


def paid_judge(task: Task) -> JudgeSettings | None:
    """Return the settings of a task's judge; None without one, or if it costs nothing."""
    if task.judge is None:
        return None
    settings = judge_settings(task.judge.default_model)
    if settings is None or settings.model == DEMO:
        return None
    return settings


def _count(plan: Plan, task: Task) -> TaskCounts:
    content = read_task_file(task.path)
    rows = _rows(plan, task, content)
    judge_requests = 0
    if task.judge is not None and paid_judge(task) is not None:
        judge_requests = task.judge.requests * len(rows)
    return TaskCounts(
        task=task.name,
        questions=len(rows),
        covers=task.benchmark.covers(task.split, rows),
        requests=sum(len(choices) for choices in rows["choices"]) if task.ranks else len(rows),
        images=_images(plan, task, content, rows),
        judge_requests=judge_requests,
    )


def _rows(plan: Plan, task: Task, content: Mapping[str, Any]) -> Any:
    """Return the rows that a task asks, without images."""
    rows = task.benchmark.splits.load(task.split)
    if task.benchmark.task_rows is not None:
        rows = task.benchmark.task_rows(rows, content)
    # After the rows of the task: a compact run shows the partners of a full one.
    rows = mark(rows, task.benchmark.name, task.split, only=True, wanted=plan.subset)
    return rows.select(range(min(len(rows), plan.limit or len(rows))))


def _images(plan: Plan, task: Task, content: Mapping[str, Any], rows: Any) -> int | None:
    """Count the images of a task's questions; None if they are not determined."""
    # Tasks that only lm-eval has show no images.
    if content.get("doc_to_visual", _NO_VISUAL) == _NO_VISUAL:
        return 0
    if task.benchmark.num_images is None:
        return None
    blocks = content.get("lmms_eval_specific_kwargs") or {}
    settings: Mapping[str, Any] = {}
    if isinstance(blocks, Mapping):  # otherwise the name of a function that returns prompts
        settings = blocks.get(plan.backend_name, blocks.get("default", {}))
    shortcut = content["metadata"].get("shortcut")
    return task.benchmark.num_images(rows, {**settings, "shortcut": shortcut})
