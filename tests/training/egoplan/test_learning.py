"""Test that a tiny model learns to plan in rendered scenes, by `perf/demo/learning.py`."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations
from lmms_egoplan.training.egoplan.data import find_frames, read_instructions
from lmms_egoplan.training.instructions import read_instructions as read_captions

PROGRAM = Path(__file__).parents[3] / "perf" / "demo" / "learning.py"


@pytest.mark.nightly
def test_a_tiny_model_learns_to_plan(tmp_path):
    command = [sys.executable, PROGRAM, "--out", tmp_path, "--seeds", "0", "--no-ablations"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracies = dict(re.findall(r"│ ([a-z, ]+?) +│.*?│ +([0-9.]+) +│\n", done.stdout))
    before, tuned, blind = (
        float(accuracies[name]) for name in ("before tuning", "tuned", "tuned, without the video")
    )
    assert tuned > max(before, blind, 25) + 10

    folder = tmp_path / "seed-0" / "egoplan"
    records = read_instructions(folder / "EgoPlan_IT.json")
    questions = read_annotations(folder / "EgoPlan_validation.json", "val")
    assert {record.video_source for record in records} == {EPIC_KITCHENS}
    roots = {EPIC_KITCHENS: folder / "epic-kitchens", EGO4D: folder / "ego4d"}
    assert len(find_frames(records, roots, 4, "set")) == len(records) == 300
    assert len(read_captions(folder / "captions.json")) == 60
    # Words alone do not reveal the answer: all steps of a goal are equally often the answer.
    for asked in (records, questions):
        counts = Counter((record.task_goal, record.answer) for record in asked)
        assert len(counts) == 30
        assert len(set(counts.values())) == 1
    # The questions are about other worlds.
    assert not {record.video_id for record in records} & {record.video_id for record in questions}
    sources = dict({(record.video_id, record.video_source) for record in questions})
    assert Counter(sources.values()) == {EPIC_KITCHENS: 24, EGO4D: 12}
