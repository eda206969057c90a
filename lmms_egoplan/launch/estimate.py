"""Estimate what a run costs.

This counts questions, images to decode, tokens of context, and requests to judges.
"""

import importlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from loguru import logger
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.subset import mark
from lmms_egoplan.harnesses.evaluation import evaluating
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel
from lmms_egoplan.harnesses.template_files import NONE
from lmms_egoplan.judging.asking import LlmUsage
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.judging.usage import Step
from lmms_egoplan.launch.checkpoint import trusts_code
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.tasks import Task
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.task_files import benchmark_folder, read_task_file

if TYPE_CHECKING:
    from lmms_egoplan.report.run import TaskRun

# Questions of each task that are encoded to measure images and tokens: evenly spaced, the first and
# the last included.
_SAMPLED = 3
_FRAMES = 8  # default of max_frames_num, for tasks that pass a video file


@dataclass(frozen=True)
class TaskEstimate:
    """The cost of a task.

    Attributes:
        task: Name of the task.
        questions: Number of questions.
        covers: Number of questions that the coverage of its results is a share of.
        requests: Number of requests to the model: one per choice, or one per question.
        images: Number of images and frames to decode.
        tokens: Tokens of context of all questions; None if the model's tokenizer is not on this
            machine.
    """

    task: str
    questions: int
    covers: int
    requests: int
    images: int
    tokens: int | None


def estimate(plan: Plan) -> tuple[list[TaskEstimate], list[Step], str]:
    """Estimate each task and the requests to judges.

    This runs in a process of its own, which frees its memory at the end. Also return the limits on
    pixels in words; "" if they are not known.

    Images and tokens are extrapolated from `_SAMPLED` questions. Judges are assumed to get answers
    like the references.

    Raises:
        LmmsEgoplanError: A question cannot be read or encoded.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_estimate, replace(plan)).result()  # a copy without cached modules


def print_estimate(
    estimates: Sequence[TaskEstimate], steps: Sequence[Step], prices: Path | None, pixels: str = ""
) -> None:
    """Print the estimate and the limits on pixels; the price only if the user has a file of prices.

    Raises:
        LmmsEgoplanError: The file of prices is malformed or lacks a judge.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("task", no_wrap=True, overflow="fold")
    for title in ("questions", "images", "tokens of context"):
        table.add_column(title, justify="right")
    for task in estimates:
        tokens = "unknown" if task.tokens is None else f"~{task.tokens:,}"
        table.add_row(task.task, f"{task.questions:,}", f"~{task.images:,}", tokens)
    Console().print(table)
    if pixels:
        Console().print(f"Pixels: {pixels}", highlight=False)
    LlmUsage(is_estimate=True, prices=prices, steps=[*steps]).print_cost()


@dataclass(frozen=True)
class QuestionInputs:
    """Encodes and loads questions as the backend of a plan does.

    Attributes:
        encoder: A `QuestionEncoder`; None for other projects' backends.
        loader: Loads images and clips.
        pixels: The limits on pixels in words; "" if not known.
        loaded_model: What tasks may know about the checkpoint; None for other projects' backends.
    """

    encoder: Any
    loader: MediaLoader
    pixels: str = ""
    loaded_model: LoadedModel | None = None


def load_encoder(plan: Plan) -> QuestionInputs:
    """Return what encodes and loads questions as the backend does."""
    count = int(plan.model_args.get("max_frames_num", _FRAMES))
    if not plan.backend.is_ours or plan.backend_name == "scripted":
        return QuestionInputs(None, MediaLoader(count, takes_video=False))
    from lmms_egoplan.harnesses.checkpoints import load_config
    from lmms_egoplan.harnesses.pixels import PIXEL_ARGUMENTS, in_words, set_budget
    from lmms_egoplan.ranking.encoding import QuestionEncoder

    arguments = plan.model_args
    loading = {
        "revision": arguments.get("revision", "main"),
        "trust_remote_code": trusts_code(arguments),
    }
    config, processor = load_config(plan.backend_name, plan.model, **loading)
    pixels = ""
    if "base_url" not in arguments and "mm_processor_kwargs" not in arguments:
        limits: dict[str, int | str] = {}
        for name, value in arguments.items():
            if name in PIXEL_ARGUMENTS:
                limits[name] = int(value) if value.isdecimal() else value
        in_effect = set_budget(plan.backend_name, processor, limits)
        if plan.backend.needs_vllm:
            in_effect.pop("video", None)  # it gets all frames as images
        pixels = in_words(in_effect)
    is_plain = arguments.get("chat_template") == NONE and not plan.backend.needs_vllm
    is_applied = uses_template(config.to_dict(), processor) and not is_plain
    encoder = QuestionEncoder(processor, apply_chat_template=is_applied)
    loaded_model = LoadedModel(
        plan.backend_name, config.model_type, encoder.takes_video, encoder.has_system_turn
    )
    loader = MediaLoader(count, takes_video=encoder.takes_video and not plan.backend.needs_vllm)
    return QuestionInputs(encoder, loader, pixels, loaded_model)


def measure(
    encoder: Any, loader: MediaLoader, text: str, visuals: Sequence[Any]
) -> tuple[int, int]:
    """Return the numbers of images and of tokens of a question.

    Without an encoder (see `load_encoder`), there are 0 tokens.
    """
    messages = loader.messages(text, visuals)
    images = 0
    for message in messages:
        for item in message["content"]:
            if item["type"] == "video":
                images += len(item["video"])
            elif item["type"] == "image":
                images += 1
    if not encoder:
        return images, 0
    return images, encoder.generation_inputs([messages])["input_ids"].shape[-1]


def used_steps(
    plan: Plan, tasks: "Mapping[str, TaskRun]", estimates: Sequence[TaskEstimate]
) -> list[Step]:
    """Return the tokens of the judges of a run, as its results report them.

    They are what the judgements cost when made.
    """
    steps: list[Step] = []
    questions = {task.task: task.questions for task in estimates}
    for name, task in plan.leaves.items():
        sent = int(tasks[name].number("judge_prompt_tokens") or 0)
        received = int(tasks[name].number("judge_reply_tokens") or 0)
        known = int(tasks[name].number("judge_tokens_of") or 0)
        missing = questions[name] - known
        unknown = f"an unknown number for {missing} answers of {name}" if missing else ""
        settings = _paid_judge(task)
        if settings is not None:
            steps.append(Step(name, None, sent, received, settings.model, unknown))
    return steps


def _estimate(plan: Plan) -> tuple[list[TaskEstimate], list[Step], str]:
    logger.remove()
    os.environ.update(plan.environment())
    inputs = load_encoder(plan)
    with evaluating(inputs):  # tasks ask for its model
        estimates = [_task_estimate(plan, task, inputs) for task in plan.leaves.values()]
    steps: list[Step] = []
    for task in plan.leaves.values():
        settings = _paid_judge(task)
        if task.judge is not None and settings is not None:
            asking = LlmUsage(is_estimate=True)
            task.judge.estimate(_rows(plan, task), replace(settings, asking=asking))
            steps += asking.steps
    return estimates, steps, inputs.pixels


def _paid_judge(task: Task) -> JudgeSettings | None:
    """Return the settings of a task's judge; None without one, or if it costs nothing."""
    if task.judge is None:
        return None
    settings = judge_settings(task.judge.default_model)
    if settings is None or settings.model == DEMO:
        return None
    return settings


def _rows(plan: Plan, task: Task) -> Any:
    rows = task.benchmark.splits.load(task.split)
    function = read_task_file(task.path).get("process_docs")
    if function:
        rows = _function(task.path, function)(rows)
    rows = mark(rows, task.benchmark.name, task.split, only=True)
    return rows.select(range(min(len(rows), plan.limit or len(rows))))


def _task_estimate(plan: Plan, task: Task, inputs: QuestionInputs) -> TaskEstimate:
    rows = _rows(plan, task)
    # Tasks that only lm-eval has show no images.
    is_known = LM_EVAL_TASKS not in task.path.parents
    positions: set[int] = set()
    if is_known:
        positions = {round(i * (len(rows) - 1) / (_SAMPLED - 1)) for i in range(_SAMPLED)}
    images = 0
    tokens = 0
    for position in sorted(positions):
        text, visuals = _question(plan, task.path, rows[position])
        images_of_question, tokens_of_question = measure(
            inputs.encoder, inputs.loader, text, visuals
        )
        images += images_of_question
        tokens += tokens_of_question
    factor = len(rows) / max(1, len(positions))
    return TaskEstimate(
        task=task.name,
        questions=len(rows),
        covers=task.benchmark.covers(task.split, rows),
        requests=sum(len(choices) for choices in rows["choices"]) if task.ranks else len(rows),
        images=round(images * factor),
        tokens=round(tokens * factor) if inputs.encoder and is_known else None,
    )


def _question(plan: Plan, path: Path, row: Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """Return a question's text and visuals."""
    task = read_task_file(path)
    blocks = task.get("lmms_eval_specific_kwargs") or {}
    if isinstance(blocks, str):
        blocks = _function(path, blocks)
    settings = blocks.get(plan.backend_name, blocks.get("default", {}))
    source = task["doc_to_text"]
    if "." in source:
        text = _call(_function(path, source), row, settings)
    else:
        text = row.get(source, source)
    return text, _call(_function(path, task["doc_to_visual"]), row, settings)


def _call(function: Callable[..., Any], row: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    takes_settings = len(inspect.signature(function).parameters) > 1
    return function(row, settings) if takes_settings else function(row)


def _function(path: Path, name: str) -> Any:
    """Return what a task's YAML file names, such as ``utils.doc_to_visual``."""
    module_name, _, attribute = name.rpartition(".")
    if module_name == "utils":
        return getattr(_utils(benchmark_folder(path)), attribute)
    return getattr(importlib.import_module(module_name), attribute)


@cache
def _utils(folder: Path) -> ModuleType:
    module = ModuleType(f"tasks_{folder.name}")
    SourceFileLoader(module.__name__, str(folder / "utils.py")).exec_module(module)
    return module
