"""Evaluate several models on several data folders in this process, one after the other.

Usage: python evaluated_in_turn.py HARNESS EVALUATIONS OUT. EVALUATIONS is a JSON list of pairs of
a checkpoint and a data folder. OUT gets a list of results, samples and details. All evaluations of
a process share one cache of responses.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from runs.both_harnesses import FEW_TOKENS, in_lm_eval, in_lmms_eval, lmms_tasks

RANKED = "egoplan_val"
JUDGED = "egothink_object_existence"
# Its score depends on whether the model gets a video.
PRESET = "egoplan__seed-bench-r1"
TASKS = {"lmms-eval": (RANKED, JUDGED, PRESET), "lm-eval": (RANKED, JUDGED)}


def evaluate_in_lmms_eval(evaluations, cache):
    """Load all models first, as a program that compares them does."""
    models = [HFVLM(checkpoint, dtype="float32", batch_size=4) for checkpoint, _ in evaluations]
    for model, (_, data) in zip(models, evaluations, strict=True):
        os.environ["LMMS_EGOPLAN_DATA"] = data
        yield in_lmms_eval(
            "",
            *TASKS["lmms-eval"],
            model=model,
            manager=lmms_tasks("hf_vlm"),
            gen_kwargs=f"max_new_tokens={FEW_TOKENS['max_gen_toks']}",
            use_cache=cache,
        )


def evaluate_in_lm_eval(evaluations, cache):
    """Load each model when it is evaluated, as the harness does."""
    for checkpoint, data in evaluations:
        os.environ["LMMS_EGOPLAN_DATA"] = data
        settings = {"gen_kwargs": FEW_TOKENS, "batch_size": 4, "use_cache": cache}
        yield in_lm_eval(checkpoint, *TASKS["lm-eval"], **settings)


def main(harness, evaluations, out):
    evaluate = {"lmms-eval": evaluate_in_lmms_eval, "lm-eval": evaluate_in_lm_eval}[harness]
    runs = [run._asdict() for run in evaluate(json.loads(evaluations), f"{out}-cache")]
    Path(out).write_text(json.dumps(runs, default=str), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
