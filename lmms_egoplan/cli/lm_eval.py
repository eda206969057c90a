"""``lmms-egoplan lm-eval``: lm-eval's own command with this package's model classes."""

import sys
from typing import Any

import typer

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.base import BENCHMARKS, load_scorers
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.requirements import require
from lmms_egoplan.ranking.audits import failed_audits

RANKERS = {
    "hf-vlm-ranker": "lmms_egoplan.harnesses.lm_eval.ranker:HFVLMRanker",
    "vllm-vlm-ranker": "lmms_egoplan.harnesses.lm_eval.vllm_ranker:VLLMVLMRanker",
}

_BEFORE_ITS_OWN_HELP = """\
lmms-egoplan lm-eval is lm-eval's own command with two more model classes:
hf-vlm-ranker, a Hugging Face model that can score continuations after images,
and vllm-vlm-ranker, the same on vLLM.

Example: lmms-egoplan lm-eval --model hf-vlm-ranker --tasks {task} \\
  --model_args pretrained=Qwen/Qwen2.5-VL-7B-Instruct --apply_chat_template \\
  --include_path $(lmms-egoplan tasks-path --harness lm-eval)

All arguments go to lm-eval unchanged. Its own help:
"""


def _check_chat(model: str, pretrained: str = "", **arguments: Any) -> None:
    """Check the chat template of a checkpoint before its weights are loaded.

    Raises:
        LmmsEgoplanError: As in `load_config` and `check_chat`.
    """
    from lmms_egoplan.harnesses.checkpoints import check_chat, load_config

    loading = {
        name: arguments[name] for name in ("revision", "trust_remote_code") if name in arguments
    }
    check_chat(
        model,
        pretrained,
        *load_config(model, pretrained, **loading),
        loading.get("revision") or "main",
    )


def lm_eval(context: typer.Context) -> None:
    """Run lm-eval with `--model hf-vlm-ranker` or `vllm-vlm-ranker`, which score continuations
    after images.

    All arguments are passed to lm-eval unchanged. lm-eval finds tasks by itself, but model classes
    must be registered before it starts.

    Example: `lmms-egoplan lm-eval --include_path $(lmms-egoplan tasks-path --harness lm-eval)
    --tasks egoplan_val --model hf-vlm-ranker --model_args pretrained=Qwen/Qwen2.5-VL-7B-Instruct
    --apply_chat_template`
    """
    if not context.args or {"-h", "--help"}.intersection(context.args):
        typer.echo(_BEFORE_ITS_OWN_HELP.format(task=BENCHMARKS[0].suite[-1]))
    require("lm_eval", "lm-eval", "lmms-egoplan[lm-eval]")
    import lm_eval as harness
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api.registry import model_registry

    for name, target in RANKERS.items():
        if name not in model_registry:
            model_registry.register(name, target=target)
    sys.argv = ["lm-eval", *context.args]
    evaluate = harness.simple_evaluate
    failures = []

    def noting_failures(*args: Any, **kwargs: Any) -> Any:
        load_scorers({str(task).partition("_")[0] for task in kwargs.get("tasks", ())})
        if kwargs.get("apply_chat_template") and kwargs.get("model") in RANKERS:
            _check_chat(kwargs["model"], **kwargs["model_args"])
        results = evaluate(*args, **kwargs)
        failures.extend(failed_audits((results or {}).get(DETAILS, {})))
        return results

    harness.simple_evaluate = noting_failures
    cli_evaluate()
    if failures:
        raise LmmsEgoplanError(f"the run failed: {'; '.join(failures)}")
