"""Evaluate a share of the questions in one of several processes, as lm-eval does on several GPUs.

On CPUs, lm-eval itself evaluates all questions in each process. With `tests` on the path, run
``torchrun --nproc_per_node 2 -m runs.lm_eval_rank CHECKPOINT TASKS OUT``. It writes results and
samples to OUT as JSON.
"""

import json
import os
import sys
from pathlib import Path

import lm_eval
import torch
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from lmms_egoplan.paths import LM_EVAL_TASKS


def main() -> None:
    checkpoint, tasks, out = sys.argv[1:]
    os.environ["ACCELERATE_USE_CPU"] = "1"  # otherwise accelerate ignores other processes on a CPU
    model = HFVLMRanker(pretrained=checkpoint, dtype="float32", device="cpu")
    model._rank, model._world_size = (
        model.accelerator.local_process_index,
        model.accelerator.num_processes,
    )
    manager = TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False)
    loaded = [manager.load([name])["tasks"][name] for name in tasks.split(",")]
    done = lm_eval.simple_evaluate(
        model,
        tasks=loaded,
        task_manager=manager,
        apply_chat_template=True,
        gen_kwargs={"max_gen_toks": 12},
    )
    print(
        f"rank {model.rank} of {model.world_size} had {[len(task.instances) for task in loaded]} "
        "requests"
    )
    if done is not None:
        part = {name: done[name] for name in ("results", "samples", "details")}
        Path(out).write_text(json.dumps(part, default=handle_non_serializable), encoding="utf-8")
    # a thread of gloo that outlives Python can abort the process
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
