"""``lmms-egoplan lm-eval``: lm-eval's own command with this package's model classes."""

import typer

_BEFORE_ITS_OWN_HELP = """\
lmms-egoplan lm-eval is lm-eval's own command with two more model classes:
hf-vlm-ranker, a Hugging Face model that can score continuations after images,
and vllm-vlm-ranker, the same on vLLM.

Example: lmms-egoplan lm-eval --model hf-vlm-ranker --tasks {task} \\
  --model_args pretrained=Qwen/Qwen2.5-VL-7B-Instruct --apply_chat_template \\
  --include_path $(lmms-egoplan tasks-path --harness lm-eval)

All arguments go to lm-eval unchanged. Its own help:
"""


def lm_eval(context: typer.Context) -> None:
    """Run lm-eval with `--model hf-vlm-ranker` or `vllm-vlm-ranker`, which score continuations
    after images.

    All arguments are passed to lm-eval unchanged. lm-eval finds tasks by itself, but model classes
    must be registered before it starts.

    Example: `lmms-egoplan lm-eval --include_path $(lmms-egoplan tasks-path --harness lm-eval)
    --tasks egoplan_val --model hf-vlm-ranker --model_args pretrained=Qwen/Qwen2.5-VL-7B-Instruct
    --apply_chat_template`
    """
    from lmms_egoplan.benchmarks.base import BENCHMARKS
    from lmms_egoplan.harnesses.requirements import require

    if not context.args or {"-h", "--help"}.intersection(context.args):
        typer.echo(_BEFORE_ITS_OWN_HELP.format(task=BENCHMARKS[0].suite[-1]))
    require("lm_eval", "lm-eval", "lmms-egoplan[lm-eval]")
    from lmms_egoplan.harnesses.lm_eval.command_line import run_command

    run_command(context.args)
