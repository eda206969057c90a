"""Real runs of two models on several machines, in several folders, are two rows."""

import shutil
import signal
import sys
from copy import deepcopy

import pytest

from benchmarks.egothink.synthetic import EGOTHINK_TASKS
from lmms_egoplan.report.runs import read_runs
from patience import FOREVER_S
from report.prepared import prepare_data
from runs.harness import hf_vlm, log, run, start
from runs.test_resumption import KILLED_HARNESS, QUESTIONS, prepare_questions
from zoo import build, save

JUDGE = {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run lmms-eval, and return the folder of all runs.

    One model answers EgoPlan on a machine, where the run is killed and resumed, and a part of
    EgoThink on another one: with a copy of the checkpoint, another backend and other batches. A
    second model answers EgoPlan. Its checkpoint has the path of the first model's on that machine.
    """
    folder = tmp_path_factory.mktemp("machines")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_data(folder, egothink=2)
        prepare_questions(folder)
        one = save("llava", folder / "one" / "model")
        elsewhere = shutil.copytree(one, folder / "elsewhere" / "copied")
        output = folder / "runs"
        resumable = [*hf_vlm(one, "egoplan_val"), "--use_cache", folder / "cache"]
        killed = start(
            folder,
            *(*resumable, "--output_path", output / "desk"),
            launcher=[sys.executable, "-c", KILLED_HARNESS],
        )
        assert killed.wait(FOREVER_S) == -signal.SIGKILL, log(folder)
        run(folder, output / "desk", *resumable)
        loaded = f"pretrained={elsewhere},dtype=float32,device=cpu,workers=1"
        other_backend = ["--model", "llava", "--model_args", loaded, "--batch_size", "1"]
        tasks = ["--tasks", "egothink_bench_object"]
        run(folder, output / "cluster", *tasks, *other_backend, judge=JUDGE)
        model = deepcopy(build("llava")[0])
        model.lm_head.weight.data.mul_(-1)
        model.save_pretrained(one)
        run(folder, output / "other", *hf_vlm(one, "egoplan_val"))
        yield output


@pytest.mark.whole
def test_two_models_on_several_machines_are_two_runs(runs):
    first, second = read_runs([runs / "desk", runs / "cluster", runs / "other"]).runs
    dimensions = {task for task in EGOTHINK_TASKS if task.startswith("egothink_object")}
    assert first.tasks.keys() == {"egoplan_val", *dimensions}
    assert second.tasks.keys() == {"egoplan_val"}
    assert len(first.tasks["egoplan_val"].samples) == QUESTIONS
    weights = [run.record["model"]["weights"] for run in (first, second)]
    assert all(len(digest) == 64 for digest in weights)
    assert weights[0] != weights[1]
    assert second.model == first.source("egoplan_val").model != first.source(*dimensions).model
