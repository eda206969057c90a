"""`data prepare`, `list` and `cut egoplan_bench2`: videos, ready clips, counts, and what is not there."""

import json

import pytest
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.egoplan.demo import EGOPLAN_BENCH2 as demo
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan_bench2
from lmms_egoplan.benchmarks.egoplan.splits import BENCH2_SPLIT as SPLIT
from lmms_egoplan.benchmarks.egoplan.splits import EGOPLAN_BENCH2 as PREPARED
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN_BENCH2, num_images, progress_of
from lmms_egoplan.cli import app
from media.files import read_number, write_numbered_video

RECORD = {
    "domain": "work",
    "scenario": "carpentry",
    "task_goal": "saw a board",
    **{f"choice_{letter}": f"step {letter}" for letter in "abcd"},
    "golden_choice_idx": "B",
    "answer": "step b",
    "task_start_frame": 4,
    "current_observation_frame": 30,
    "task_progress_metadata": [{"narration_text": "take the saw", "start_frame": 10, "stop_frame": 20}],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_numbered_video(tmp_path / "ego4d" / "v1.mp4", 40)
    return tmp_path


def write(folder, records):
    path = folder / "EgoPlan-Bench2.json"
    path.write_text(json.dumps(records))
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)], env={"COLUMNS": "120"})


def test_what_is_shown_begins_with_the_tasks_start(folder):
    prepare_egoplan_bench2(write(folder, [RECORD | {"sample_id": "v1_1"}]), folder / "ego4d")
    (row,) = PREPARED.load(SPLIT)
    assert (row["video_id"], row["domain"], row["scenario"]) == ("v1", "Work", "carpentry")
    progress = progress_of(row)
    assert (progress.first, progress.observation) == (4, 30)
    assert [read_number(image) for image in EGOPLAN_BENCH2.visual_input(row, {"media": "frames", "num_frames": 3})] == [
        4,
        17,
        30,
    ]
    assert num_images(row, {"num_frames": 100}) == 27
    assert EGOPLAN_BENCH2.visual_input(row, {"media": "video"})[0].startswith(
        f"{folder}/data/egoplan_bench2/progress_videos/"
    )


def test_clips_that_were_cut_show_the_same_frames(folder):
    annotations = write(folder, [RECORD | {"sample_id": "v1_1"}])
    cut = run("cut", "egoplan_bench2", annotations, "--ego4d", folder / "ego4d", "--out", folder / "c")
    assert cut.exit_code == 0, cut.output
    result = run("prepare", "egoplan_bench2", annotations, "--clips", folder / "c", "--verify")
    assert result.exit_code == 0, result.output
    assert "Media: ready clips" in result.stdout
    (row,) = PREPARED.load(SPLIT)
    assert row["clip_frames"] == 27
    shown = [read_number(image) for image in EGOPLAN_BENCH2.visual_input(row, {"media": "frames", "num_frames": 3})]
    assert shown == [pytest.approx(number, abs=1) for number in (4, 17, 30)]


def test_videos_are_listed(folder):
    annotations = write(folder, [RECORD | {"sample_id": name} for name in ("v1_1", "v2_1", "v1_2")])
    result = run("list", "egoplan_bench2", annotations, "--out", folder / "ids.txt", "--frames")
    assert result.exit_code == 0, result.output
    assert (folder / "ids.txt").read_text() == "v1\nv2\n"
    assert (folder / "ids_frames.csv").read_text().splitlines()[1:] == ["Ego4D,v1,4,30", "Ego4D,v2,4,30"]


def test_what_is_missing_is_told_or_left_out(folder):
    late = {"sample_id": "v1_2", "current_observation_frame": 40}
    annotations = write(folder, [RECORD | {"sample_id": "v1_1"}, RECORD | late, RECORD | {"sample_id": "v2_1"}])
    command = ("prepare", "egoplan_bench2", annotations, "--ego4d", folder / "ego4d")
    result = run(*command)
    assert result.exit_code == 1
    assert "the frames of 2 of 3 questions are missing" in result.stderr
    assert "v1.mp4: 40 frames, but questions need them up to frame 40 (counted from 0)" in result.stderr
    assert "v2.mp4" in result.stderr
    assert run(*command, "--skip-missing").exit_code == 0
    assert PREPARED.load(SPLIT)["sample_id"] == ["v1_1"]
    for options in ((), ("--clips", folder / "ego4d", "--ego4d", folder / "ego4d")):
        refused = run(*command[:3], *options)
        assert refused.exit_code == 1
        assert "--ego4d" in refused.stderr


def test_the_copys_size_is_warned_of(folder):
    records = [RECORD | {"sample_id": f"v1_{number}"} for number in range(1435)]
    result = run("prepare", "egoplan_bench2", write(folder, records), "--ego4d", folder / "ego4d")
    assert result.exit_code == 0, result.output
    assert "Warning: the file has 1,435 records, as lmms-eval's copy" in result.stderr
    assert "1,321 questions" in result.stderr
    result = run("prepare", "egoplan_bench2", write(folder, records[:-1]), "--ego4d", folder / "ego4d")
    assert "Warning" not in result.stderr


def test_the_demo_has_each_domain(folder):
    arguments = demo.write(folder)
    annotations = json.loads((folder / arguments[1]).read_text())
    assert len(annotations) == 16
    assert len({record["domain"] for record in annotations}) == 4
