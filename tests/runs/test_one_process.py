"""Two models are evaluated on two data folders in one process as in two processes."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from patience import FOREVER_S
from runs.evaluated_in_turn import JUDGED, PRESET, RANKED, TASKS
from runs.harness import log, start
from runs.small_set import prepare_small_set
from zoo import save

SCRIPT = Path(__file__).with_name("evaluated_in_turn.py")
# How much is read ahead depends on the speed of the threads.
TIMED_ENTRY = re.compile(r"'memory_ahead': [^,}]+")


@pytest.fixture
def evaluations(tmp_path, monkeypatch):
    """Pairs of a checkpoint and a data folder: one model takes videos, the other does not."""
    pairs = []
    for family, count in (("qwen2_5_vl", 6), ("llava", 4)):
        folder = tmp_path / family
        data = folder / "data"
        data.mkdir(parents=True)
        monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
        prepare_small_set(data, count)
        prepare_egothink(write_source(folder / "source"))
        pairs.append((str(save(family, folder / "checkpoint")), str(data)))
    return pairs


def evaluated(harness, evaluations, out):
    """Return evaluations, all in one new process."""
    data = Path(evaluations[0][1])
    launcher = [sys.executable, str(SCRIPT), harness, json.dumps(evaluations), str(out)]
    process = start(data, launcher=launcher, judge={"LMMS_EGOPLAN_JUDGE_MODEL": "demo"})
    assert process.wait(FOREVER_S) == 0, log(data)
    return json.loads(out.read_text(encoding="utf-8"))


def comparable(run):
    """Return everything that may not depend on earlier evaluations of the process."""
    results = {}
    for task, values in run["results"].items():
        results[task] = without_times(values)
    details = {}
    for task, entries in run["details"].items():
        details[task] = without_times(entries)
    samples = {}
    for task, rows in run["samples"].items():
        samples[task] = [without_times(row) for row in rows]
    return {"results": results, "details": details, "samples": samples}


def without_times(values):
    return {name: TIMED_ENTRY.sub("", str(value)) for name, value in values.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("harness", TASKS)
def test_two_models_are_evaluated_as_in_processes_of_their_own(tmp_path, evaluations, harness):
    together = evaluated(harness, evaluations, tmp_path / "together.json")
    for number, evaluation in enumerate(evaluations):
        (alone,) = evaluated(harness, [evaluation], tmp_path / f"{number}.json")
        expected = comparable(alone)
        assert {RANKED, JUDGED} <= expected["samples"].keys()
        if harness == "lmms-eval":
            assert PRESET in expected["samples"]
        assert comparable(together[number]) == expected
