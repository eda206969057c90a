"""Estimate what a run costs: questions, images to decode, tokens of context, and requests to judges."""

import importlib.util
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

from loguru import logger
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.asking import Asking, EstimatedStep
from lmms_egoplan.judging.settings import judge_settings
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.tasks import Task, task_file
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.report.run import read_task_file

# Questions of each task that are encoded to measure images and tokens: evenly spaced, the first and the last included.
_SAMPLED = 3
_FRAMES = 8  # default of max_frames_num, for tasks that pass a video file


@dataclass(frozen=True)
class TaskEstimate:
    """The cost of a task.

    Attributes:
        task: Name of the task.
        questions: Number of questions.
        requests: Number of requests to the model: one per choice, or one per question.
        images: Number of images and frames to decode.
        tokens: Tokens of context of all questions; None if the model's tokenizer is not on this machine.
    """

    task: str
    questions: int
    requests: int
    images: int
    tokens: int | None


def estimate(plan: Plan) -> tuple[list[TaskEstimate], list[EstimatedStep]]:
    """Estimate each task and the requests to judges, in a process of its own, which frees its memory at the end.

    Images and tokens are extrapolated from `_SAMPLED` questions. Judges are assumed to get answers like the references.

    Raises:
        LmmsEgoplanError: A question cannot be read or encoded.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_estimate, replace(plan)).result()  # a copy without cached modules


def print_estimate(estimates: Sequence[TaskEstimate], steps: Sequence[EstimatedStep], prices: Path | None) -> None:
    """Print the estimate; the price only if the user has a file of prices.

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
    totals = []
    for model in dict.fromkeys(step.model for step in steps):
        numbers = [sum(column) for column in zip(*(step[1:4] for step in steps if step.model == model), strict=True)]
        totals.append(EstimatedStep._make(["Judge", *numbers, model]))
    if totals:
        Asking(is_estimate=True, prices=prices, steps=totals).print_estimate()


def _estimate(plan: Plan) -> tuple[list[TaskEstimate], list[EstimatedStep]]:
    logger.remove()
    tokens_of = _token_counter(plan)
    estimates = [_task_estimate(plan, task, tokens_of) for task in plan.leaves.values()]
    steps: list[EstimatedStep] = []
    for task in plan.leaves.values():
        for judge in task.judges:
            settings = judge_settings(judge.DEFAULT_JUDGE)
            if settings is not None and settings.model != "demo":
                asking = Asking(is_estimate=True)
                judge.estimate(_rows(plan, task), replace(settings, asking=asking))
                steps += asking.steps
    return estimates, steps


def _rows(plan: Plan, task: Task) -> Any:
    rows = task.benchmark.load_splits().load(task.split)
    path = task_file("lmms-eval", task.name) or task_file(plan.harness, task.name)
    if path is not None and (name := read_task_file(path).get("process_docs")):
        rows = _functions(path)(name)(rows)
    return rows.select(range(min(len(rows), plan.limit or len(rows))))


def _task_estimate(plan: Plan, task: Task, tokens_of: Callable[[Any], int] | None) -> TaskEstimate:
    rows = _rows(plan, task)
    path = task_file("lmms-eval", task.name)
    positions = sorted({round(i * (len(rows) - 1) / (_SAMPLED - 1)) for i in range(_SAMPLED)})
    requests = sum(map(len, rows["choices"])) if task.ranks else len(rows)
    images = tokens = 0
    for position in positions:
        messages = _messages(path, rows[position], plan) if path is not None else []
        content = [item for message in messages for item in message["content"]]
        images += sum(len(item["video"]) if item["type"] == "video" else item["type"] == "image" for item in content)
        tokens += tokens_of(messages) if tokens_of is not None and messages else 0
    share = len(rows) / len(positions)
    known = tokens_of is not None and path is not None
    return TaskEstimate(task.name, len(rows), requests, round(images * share), round(tokens * share) if known else None)


def _messages(path: Path, row: Mapping[str, Any], plan: Plan) -> list[dict[str, Any]]:
    """Return a question's chat messages, as a backend of this package makes them."""
    task, function = read_task_file(path), _functions(path)
    blocks = task.get("lmms_eval_specific_kwargs") or {}
    blocks = function(blocks) if isinstance(blocks, str) else blocks
    settings = blocks.get(plan.backend_name, blocks.get("default", {}))
    visuals = _call(function(task["doc_to_visual"]), row, settings) if task.get("doc_to_visual") else []
    name = task["doc_to_text"]
    text = row[name] if name in row else _call(function(name), row, settings)
    loader = MediaLoader(int(plan.model_args.get("max_frames_num", _FRAMES)), takes_video=False)
    return loader.messages(text, visuals)


def _token_counter(plan: Plan) -> Callable[[Any], int] | None:
    """Return a function that counts the tokens of messages with the model's processor; None without a checkpoint."""
    if not plan.backend.is_local or plan.backend_name == "scripted":
        return None
    from lmms_egoplan.harnesses.checkpoints import load_config
    from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel, remember
    from lmms_egoplan.ranking.encoding import QuestionEncoder

    loading: dict[str, Any] = {"revision": plan.model_args.get("revision", "main")}
    loading["trust_remote_code"] = plan.model_args.get("trust_remote_code", "").lower() in ("true", "1")
    config, processor = load_config(plan.backend_name, plan.model, **loading)
    encoder = QuestionEncoder(processor)
    remember(LoadedModel(plan.backend_name, config.model_type, encoder.takes_video, encoder.has_system_turn))

    def count(messages: Any) -> int:
        return int(encoder.generation_inputs([messages])["input_ids"].shape[-1])

    return count


def _call(function: Callable[..., Any], row: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    takes_settings = len(inspect.signature(function).parameters) > 1
    return function(row, settings) if takes_settings else function(row)


def _functions(path: Path) -> Callable[[str], Any]:
    """Return a function that looks up the names in a task's YAML file, such as ``utils.doc_to_visual``."""
    return partial(_function, path.parent / "utils.py")


def _function(utils: Path, name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(_module(utils) if module == "utils" else importlib.import_module(module), attribute)


@cache
def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tasks_{path.parent.name}", path)
    if spec is None or spec.loader is None:
        raise LmmsEgoplanError(f"{path}: cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
