"""Mark compact runs in the results of both harnesses, also without logged samples."""

import json
import sys

import pytest

from lmms_egoplan.benchmarks.subset import SUBSET, designs_of
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.report.runs import read_runs
from patience import FOREVER_S
from runs.harness import LMMS_EVAL, log, start
from runs.small_set import prepare_small_set
from zoo import save

TASK = "egoplan_val_generate"
LM_EVAL = [sys.executable, "-m", "lmms_egoplan", "lm-eval"]


@pytest.mark.whole
def test_a_compact_run_without_samples_is_marked_in_its_results(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
    records = prepare_small_set(data, 13)
    replies = {TASK: {str(record["sample_id"]): "A" for record in records}}
    (tmp_path / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    checkpoint = save("llava", tmp_path / "llava")
    in_lm_eval = (
        "--include_path",
        LM_EVAL_TASKS,
        "--apply_chat_template",
        "--gen_kwargs",
        "max_gen_toks=8",
    )
    arguments = {
        "lmms-eval": (LMMS_EVAL, "scripted", f"pretrained={tmp_path}", ()),
        "lm-eval": (LM_EVAL, "hf-vlm-ranker", f"pretrained={checkpoint},dtype=float32", in_lm_eval),
    }
    for name, (launcher, model, model_args, more) in arguments.items():
        output = tmp_path / name
        options = (
            "--tasks",
            TASK,
            "--model",
            model,
            "--model_args",
            model_args,
            "--output_path",
            output,
        )
        process = start(data, *options, *more, launcher=launcher, judge={SUBSET: "7"})
        assert process.wait(FOREVER_S) == 0, log(data)
        (path,) = output.rglob("*results*.json")
        results = json.loads(path.read_text(encoding="utf-8"))
        design = next(iter(designs_of("egoplan", "val", "7").values()))
        assert results["configs"][TASK]["metadata"]["subset"] == design
        assert (design["asked"], design["of"]) == (7, 13)
        assert results["n-samples"][TASK] == {"original": 13, "effective": 7}
        assert results["details"][TASK]["num_questions"] == 7
        errors = {key: value for key, value in results["results"][TASK].items() if "_stderr" in key}
        assert set(errors.values()) <= {"N/A"}, errors
        (run,) = read_runs([output]).runs
        assert run.tasks[TASK].subset == "estimate from 7 of 13 questions"
        assert run.tasks[TASK].samples is None
