"""Count what a run asks, from the prepared data: questions, images and requests to judges."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.conditions import no_visual
from lmms_egoplan.benchmarks.subset import mark
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.judging.tokens import ReplyTokens, StepUsage
from lmms_egoplan.judging.usage import LlmOptions
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.tasks import Task, leaf_tasks
from lmms_egoplan.run_events import JUDGEMENT
from lmms_egoplan.task_files import read_task_file

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
        group: The value of ``--tasks`` to which the task belongs; "" for the task itself.
    """

    task: str
    questions: int
    covers: int
    requests: int
    images: int | None
    judge_requests: int
    group: str = ""


@dataclass(frozen=True)
class Stored:
    """Answers and judgements of earlier starts of a run.

    Attributes:
        answers: Number of answered questions by task; empty if only the total is known.
        total: Number of all answered questions, or of requests to the model.
        unit: What `total` counts.
        judgements: Number of stored judgements.
    """

    answers: Mapping[str, int]
    total: int
    unit: str
    judgements: int


def count_tasks(plan: Plan) -> list[TaskCounts]:
    """Count what each task asks.

    Raises:
        LmmsEgoplanError: A split is not prepared, or a task cannot ask its questions.
    """
    groups: dict[str, str] = {}
    for name in plan.tasks:
        for task in leaf_tasks(plan.harness, [name]):
            groups.setdefault(task, name)
    return [_count(plan, task, groups[task.name]) for task in plan.leaves.values()]


def asked_by_name(counts: Iterable[TaskCounts]) -> dict[str, int]:
    """Return the number of questions of each task, and of each group of ``--tasks``."""
    asked: defaultdict[str, int] = defaultdict(int)
    for task in counts:
        for name in {task.task, task.group}:
            asked[name] += task.questions
    return dict(asked)


def print_counts(counts: Sequence[TaskCounts], stored: Stored | None = None) -> None:
    """Print the counts of each task or group of tasks, and of all together.

    Args:
        counts: The counts of each task.
        stored: What need not be asked again; None if nothing is stored.
    """
    with_answers = stored is not None and bool(stored.answers)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("task", no_wrap=True, overflow="fold")
    titles = ["questions", "images", "requests to the judge"]
    if with_answers:
        titles.insert(1, "answered")
    for title in titles:
        table.add_column(title, justify="right")
    groups: defaultdict[str, list[TaskCounts]] = defaultdict(list)
    for task in counts:
        groups[task.group or task.task].append(task)
    for name, tasks in groups.items():
        is_all = len(groups) == 1
        table.add_row(name, *_cells(tasks, stored, is_all=is_all))
    if len(groups) > 1:
        table.add_section()
        table.add_row("all tasks", *_cells(counts, stored, is_all=True))
    Console().print(table)
    if stored is not None and not with_answers:
        print(f"{stored.total:,} {stored.unit} are already answered.")


def _cells(tasks: Sequence[TaskCounts], stored: Stored | None, *, is_all: bool) -> list[str]:
    """Return the counts of some tasks. Stored judgements are known for all tasks together."""
    counts = _total(tasks)
    images = _NOT_DETERMINED if counts.images is None else f"{counts.images:,}"
    judge_requests = f"up to {counts.judge_requests:,}" if counts.judge_requests else "none"
    cells = [f"{counts.questions:,}", images, judge_requests]
    if stored is not None:
        if stored.answers:
            answered = sum(stored.answers.get(task.task, 0) for task in tasks)
            cells.insert(1, f"{answered:,}")
        if is_all and counts.judge_requests and stored.judgements:
            cells[-1] += f", {min(stored.judgements, counts.judge_requests):,} stored"
    return cells


def _total(counts: Sequence[TaskCounts]) -> TaskCounts:
    """Return the sums over some tasks. The number of images is unknown if that of a task is."""
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


def used_steps(plan: Plan, events: Iterable[Mapping[str, Any]]) -> list[StepUsage]:
    """Return the requests and tokens of judges by benchmark, without those of stored judgements.

    Args:
        plan: The run.
        events: The events of one start; see `run_events`.
    """
    titles = dict.fromkeys(task.benchmark.title for task in plan.leaves.values())
    longest_first = sorted(titles, key=len, reverse=True)
    tokens: defaultdict[tuple[str, str], list[ReplyTokens]] = defaultdict(list)
    for event in events:
        if event["kind"] == JUDGEMENT:
            step = event["step"]
            title = next((title for title in longest_first if step.startswith(title)), step)
            reply = ReplyTokens(event["prompt_tokens"], event["reply_tokens"])
            tokens[title, event["model"]].append(reply)
    return [
        StepUsage.of_replies(title, replies, model) for (title, model), replies in tokens.items()
    ]


def paid_judge(task: Task) -> JudgeSettings | None:
    """Return the settings of a task's judge; None without one, or if it costs nothing."""
    if task.judge is None:
        return None
    settings = judge_settings(task.judge.default_model)
    if settings is None or settings.model == DEMO:
        return None
    return settings


def _count(plan: Plan, task: Task, group: str) -> TaskCounts:
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
        group=group,
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
