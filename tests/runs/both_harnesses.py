"""Evaluate a checkpoint on prepared data in either harness, in this process."""

import json
import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.api.registry import model_registry
from lm_eval.tasks import TaskManager
from lmms_eval import evaluator as lmms_eval
from lmms_eval.tasks import TaskManager as LMMSTaskManager
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.actplan.release import write_release
from benchmarks.egointent.source import raw_records, write_annotations, write_videos
from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.harnesses.lm_eval.command_line import RANKERS
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from runs.harness import Run
from runs.small_set import prepare_small_set
from zoo import GAIN, vocabulary
from zoo.llava import text_config

QUESTIONS = 9
PLANS = 8
RANKER = next(iter(RANKERS.items()))
FEW_TOKENS = {"max_gen_toks": 12}

_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def prepare_sets(folder: Path) -> None:
    """Prepare small sets of all benchmarks in `folder`, which ``LMMS_EGOPLAN_DATA`` must name.

    The subfolder ``media`` contains EgoPlan's annotations and media for `SlowEgoPlan`. EgoThink's
    first dimension has one question, every other dimension two.
    """
    records = prepare_small_set(folder, QUESTIONS)
    media = folder / "media"
    media.mkdir()
    for name, target in (("epic-kitchens", "epic"), ("ego4d", "ego4d")):
        (media / name).symlink_to(folder / target)
    (media / "annotations.json").write_text(
        json.dumps({"EgoPlan_validation": records}), encoding="utf-8"
    )

    source = write_source(folder / "egothink_source")
    annotations = source / DIMENSIONS[0].folder / "annotations.json"
    annotations.write_text(json.dumps(json.loads(annotations.read_text())[:1]))
    prepare_egothink(source)

    prepare_egointent(
        write_annotations(folder / "steps.jsonl", raw_records()), write_videos(folder / "videos")
    )
    prepare_actplan(write_release(folder / "release", PLANS))


def save_language_model(folder: Path) -> Path:
    """Save a text-only model that puts <s> before every text and has a chat template."""
    tokenizer = vocabulary.llama2(["<|im_start|>", "<|im_end|>"])
    tokenizer.chat_template = _CHATML
    settings = text_config(tokenizer, "llama")
    settings.pop("model_type")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**settings))
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, GAIN / parameter.shape[1] ** 0.5)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def in_lmms_eval(
    checkpoint: Path | str,
    *tasks: str,
    model: Any = "hf_vlm",
    folder: Path = LMMS_EVAL_TASKS,
    manager: LMMSTaskManager | None = None,
    **settings: Any,
) -> Run:
    """Evaluate with ``--model hf_vlm`` in float32.

    For another model, `checkpoint` is the text of its arguments. A loaded model needs a `manager`.
    """
    arguments = f"pretrained={checkpoint},dtype=float32" if model == "hf_vlm" else checkpoint
    evaluated = lmms_eval.simple_evaluate(
        model,
        arguments,
        tasks=list(tasks),
        task_manager=manager or lmms_tasks(model, folder),
        log_samples=True,
        **settings,
    )
    return Run(evaluated["results"], evaluated["samples"], evaluated["details"])


@cache
def lmms_tasks(model: str | None = None, folder: Path = LMMS_EVAL_TASKS) -> LMMSTaskManager:
    """Return lmms-eval's task manager for a model, without the harness's own tasks.

    Listing a folder takes a second.
    """
    return LMMSTaskManager(
        "ERROR", include_path=str(folder), include_defaults=False, model_name=model
    )


def in_lm_eval(
    checkpoint: Path, *tasks: str, model: str = RANKER[0], metadata: Any = None, **settings: Any
) -> Run:
    """Evaluate in float32 on the CPU. Default: ``--model hf-vlm-ranker --apply_chat_template``."""
    if RANKER[0] not in model_registry:
        model_registry.register(RANKER[0], target=RANKER[1])
    arguments = {"pretrained": str(checkpoint), "dtype": "float32"}
    settings = {"model_args": arguments, "device": "cpu", "apply_chat_template": True} | settings
    return evaluate(model, tasks, arguments | (metadata or {}), **settings)


def evaluate(
    model: Any, tasks: Iterable[str], metadata: dict[str, Any] | None = None, **settings: Any
) -> Run:
    """Evaluate a model, or a model's name, in lm-eval.

    Its command line passes `metadata` to the tasks.
    """
    manager = lm_tasks(json.dumps(metadata))
    evaluated = lm_eval.simple_evaluate(
        model, tasks=list(tasks), task_manager=manager, log_samples=True, **settings
    )
    results = evaluated["results"] | evaluated.get("groups", {})
    return Run(results, evaluated["samples"], evaluated["details"])


@cache
def lm_tasks(metadata: str = "null") -> TaskManager:
    """Return lm-eval's task manager with this metadata (JSON), without the harness's own tasks."""
    return TaskManager(
        include_path=str(LM_EVAL_TASKS), include_defaults=False, metadata=json.loads(metadata)
    )


def in_both(checkpoint: Path, *tasks: str) -> tuple[Run, Run]:
    """Evaluate in lmms-eval and in lm-eval, with answers of a few tokens."""
    return (
        in_lmms_eval(
            checkpoint,
            *tasks,
            gen_kwargs=f"max_new_tokens={FEW_TOKENS['max_gen_toks']}",
            batch_size=8,
        ),
        in_lm_eval(checkpoint, *tasks, gen_kwargs=FEW_TOKENS, batch_size=8),
    )


def assert_same_results(lmms_run: Run, lm_run: Run, tasks: Iterable[str]) -> None:
    """Compare all `aggregates` of lm-eval's run.

    The fraction of truncated replies is excluded for tasks that do not know it in lm-eval. A metric
    that no process has is NaN in a run of several processes, and missing in the other run.
    """
    for task in tasks:
        compared = aggregates(lm_run, task)
        assert compared
        if compared.get("truncated_of") == 0:
            compared = {
                name: value for name, value in compared.items() if not name.startswith("truncated")
            }
        lmms_aggregates = aggregates(lmms_run, task)
        for name, value in compared.items():
            expected = lmms_aggregates.get(name, math.nan)
            same = pytest.approx(expected, nan_ok=True) if isinstance(expected, float) else expected
            assert value == same, (task, name)


def aggregates(run: Run, task: str) -> dict[str, Any]:
    """Return a task's metrics without standard errors, its details, and those of the ranking.

    Audits, noise and memory are excluded, because they differ between processes.
    """
    metrics = {
        name: value
        for name, value in run.results[task].items()
        if "," in name and "stderr" not in name
    }
    details = {**run.details[task]}
    ranking = details.pop("ranking", {})
    of_process = ("audits", "difference", "noise", "memory_ahead")
    of_task = {name: value for name, value in ranking.items() if name not in of_process}
    return metrics | details | of_task


def records(run: Run, task: str, entry: str) -> dict[Any, dict[str, Any]]:
    """Return an entry of the logged details of each document, by ID."""
    rows = [sample["details"][entry] for sample in run.samples[task]]
    by_id = {row.get("id") or row.get("step_id") or row["sample_id"]: row for row in rows}
    assert len(by_id) == len(rows) > 0
    return by_id
