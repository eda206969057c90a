"""Float32 likelihoods are bit-equal in both harnesses, with any other tasks in the run and any
number of processes.
"""

import json
import os
from pathlib import Path

import pytest

from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
from patience import FOREVER_S
from runs.harness import LMMS_EVAL, TWO_PROCESSES, log, run, start
from runs.small_set import prepare_small_set
from runs.test_failed_paths import IN_LM_EVAL
from runs.test_lm_eval_processes import COMMAND, TWO_RANKS, samples_below
from zoo import save

QUESTIONS = 13


def likelihoods(samples):
    """Return loss and log-probability of each choice of egoplan_val, by question."""
    predictions = [sample["details"]["predictions"] for sample in samples]
    rows = {
        row["sample_id"]: [(c["loss"], c["logprob"]) for c in row["choices"]] for row in predictions
    }
    assert len(rows) == len(predictions) == QUESTIONS
    return rows


class Runs:
    """Runs of one checkpoint on one set, each in new processes."""

    def __init__(self, data, checkpoint):
        self.data, self.checkpoint = data, checkpoint
        self.model = f"pretrained={checkpoint},dtype=float32"

    def in_lmms_eval(self, out, tasks="egoplan_val", workers=1, launcher=LMMS_EVAL):
        arguments = (
            "--tasks",
            tasks,
            "--model",
            "hf_vlm",
            "--model_args",
            f"{self.model},workers={workers}",
        )
        return likelihoods(
            run(self.data, self.data / out, *arguments, launcher=launcher).samples["egoplan_val"]
        )

    def in_lm_eval(self, out):
        arguments = [
            *IN_LM_EVAL,
            "--model_args",
            self.model,
            "--log_samples",
            "--output_path",
            self.data / out,
        ]
        assert start(self.data, *arguments, launcher=COMMAND).wait(FOREVER_S) == 0, log(self.data)
        return likelihoods(samples_below(self.data / out))

    def in_two_ranks_of_lm_eval(self, out, tasks):
        process = start(self.data, self.checkpoint, tasks, self.data / out, launcher=TWO_RANKS)
        assert process.wait(FOREVER_S) == 0, log(self.data)
        return likelihoods(
            json.loads((self.data / out).read_text(encoding="utf-8"))["samples"]["egoplan_val"]
        )


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    return prepare_small_set(tmp_path, QUESTIONS)


@pytest.fixture
def runs(tmp_path, records):
    return Runs(tmp_path, save("llava", tmp_path / "checkpoint"))


@pytest.mark.whole
def test_numbers_of_both_harnesses_are_bit_equal(runs):
    expected = runs.in_lm_eval("lm-eval")
    assert len({str(choices) for choices in expected.values()}) > 1
    assert runs.in_lmms_eval("two", "egoplan_val_blind,egoplan_val", 3, TWO_PROCESSES) == expected


@pytest.mark.nightly
def test_numbers_depend_neither_on_processes_nor_on_the_order_of_questions(tmp_path, records, runs):
    expected = runs.in_lmms_eval("one")
    assert (
        runs.in_two_ranks_of_lm_eval("ranks.json", "egoplan_val_narrated,egoplan_val") == expected
    )
    (tmp_path / "turned.json").write_text(
        json.dumps([*records[7:], *records[:7][::-1]]), encoding="utf-8"
    )
    media = Media({"EpicKitchens": tmp_path / "epic", "Ego4D": tmp_path / "ego4d"})
    prepare_egoplan(tmp_path / "turned.json", "val", media)
    assert runs.in_lmms_eval("turned") == expected
