"""Run lm-eval's own command with this package's model classes."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import lm_eval
from lm_eval import __main__ as program
from lm_eval.api.registry import model_registry

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.base import load_scorers
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.checkpoints import check_chat, load_config
from lmms_egoplan.ranking.audits import failed_audits
from lmms_egoplan.run_events import forward_warnings
from lmms_egoplan.task_files import base_task, benchmark_folder, task_paths

RANKERS = {
    "hf-vlm-ranker": "lmms_egoplan.harnesses.lm_eval.ranker:HFVLMRanker",
    "vllm-vlm-ranker": "lmms_egoplan.harnesses.lm_eval.vllm_ranker:VLLMVLMRanker",
}
"""Modules and classes of the models that lm-eval does not have, by name."""


def run_command(arguments: Sequence[str]) -> None:
    """Run lm-eval's command in this process.

    Args:
        arguments: Its arguments.

    Raises:
        LmmsEgoplanError: An audit of the run failed, a scoring model cannot be loaded, or the
            checkpoint's chat template cannot be used.
    """
    for name, target in RANKERS.items():
        if name not in model_registry:
            model_registry.register(name, target=target)
    sys.argv = ["lm-eval", *arguments]
    forward_warnings()
    evaluate = lm_eval.simple_evaluate
    failures: list[str] = []

    def noting_failures(*args: Any, **kwargs: Any) -> Any:
        load_scorers(_benchmarks_of(kwargs.get("tasks", ())))
        if kwargs.get("apply_chat_template") and kwargs.get("model") in RANKERS:
            check_chat_template(kwargs["model"], **kwargs["model_args"])
        results = evaluate(*args, **kwargs)
        failures.extend(failed_audits((results or {}).get(DETAILS, {})))
        return results

    lm_eval.simple_evaluate = noting_failures
    program.cli_evaluate()
    if failures:
        raise LmmsEgoplanError(f"the run failed: {'; '.join(failures)}")


def _benchmarks_of(tasks: Iterable[Any]) -> set[str]:
    """Return the benchmarks of this package's tasks and groups among tasks, and of variants.

    Args:
        tasks: As `lm_eval.simple_evaluate` takes them. Only names are considered.
    """
    paths = task_paths("lm-eval")
    bases = {base_task(task) for task in tasks if isinstance(task, str)}
    return {benchmark_folder(path).name for name, path in paths.items() if name in bases}


def check_chat_template(model: str, pretrained: str = "", **arguments: Any) -> None:
    """Check the chat template of a checkpoint before its weights are loaded.

    Raises:
        LmmsEgoplanError: As in `load_config` and `check_chat`.
    """
    loading = {
        name: arguments[name] for name in ("revision", "trust_remote_code") if name in arguments
    }
    check_chat(
        model,
        pretrained,
        *load_config(model, pretrained, **loading),
        loading.get("revision") or "main",
    )
