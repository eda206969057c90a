"""Float32 likelihoods are bit-equal in both harnesses, with any other tasks in the run and any number of processes."""

import json
import os
from pathlib import Path

import pytest

from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan
from patience import FOREVER_S
from runs.harness import TWO_PROCESSES, Run, log, run, start
from runs.small_set import prepare_small_set
from runs.test_lm_eval_processes import TWO_RANKS
from zoo import save

pytestmark = pytest.mark.whole

QUESTIONS = 13


def likelihoods(done):
    """Return loss and log-probability of each choice of egoplan_val, by question."""
    predictions = [sample["predictions"] for sample in done.samples["egoplan_val"]]
    rows = {row["sample_id"]: [(c["loss"], c["logprob"]) for c in row["choices"]] for row in predictions}
    assert len(rows) == len(predictions) == QUESTIONS
    return rows


def test_numbers_are_bit_equal(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    records = prepare_small_set(tmp_path, QUESTIONS)
    folder = save("llava", tmp_path / "checkpoint")
    model = f"pretrained={folder},dtype=float32"

    def in_lmms_eval(out, tasks, settings="", launcher=None):
        arguments = ("--tasks", tasks, "--model", "hf_vlm", "--model_args", model + settings)
        return likelihoods(run(tmp_path, tmp_path / out, *arguments, **({"launcher": launcher} if launcher else {})))

    def in_lm_eval(out, tasks):
        process = start(tmp_path, folder, tasks, tmp_path / out, launcher=TWO_RANKS)
        assert process.wait(FOREVER_S) == 0, log(tmp_path)
        return likelihoods(Run(**json.loads((tmp_path / out).read_text(encoding="utf-8"))))

    expected = in_lmms_eval("one", "egoplan_val", ",workers=1")
    assert len({str(choices) for choices in expected.values()}) > 1
    assert in_lmms_eval("two", "egoplan_val_blind,egoplan_val", ",workers=3", TWO_PROCESSES) == expected
    assert in_lm_eval("ranks.json", "egoplan_val_narrated,egoplan_val") == expected

    (tmp_path / "turned.json").write_text(json.dumps([*records[7:], *records[:7][::-1]]), encoding="utf-8")
    prepare_egoplan(
        tmp_path / "turned.json", "val", Media({"EpicKitchens": tmp_path / "epic", "Ego4D": tmp_path / "ego4d"})
    )
    assert in_lmms_eval("turned", "egoplan_val") == expected
