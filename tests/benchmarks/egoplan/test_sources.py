"""The lists for the publishers' downloaders."""

import csv
import json
import re

import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.test_prepare import bench2_question, question
from lmms_egoplan.benchmarks.egoplan.records import FIRST_FRAME, read_annotations
from lmms_egoplan.benchmarks.egoplan.sources import needed_frames
from lmms_egoplan.cli import app
from lmms_egoplan.outputs import MANIFEST

QUESTIONS = [
    question(1, "EpicKitchens", "P22_107", 100, (51, 60)),
    question(2, "EpicKitchens", "P01_13", 760, (36, 105), (689, 760)),
    question(3, "EpicKitchens", "P01_13", 800, (700, 900)),
    question(4, "EpicKitchens", "P01_13", 5),
    question(5, "Ego4D", "b-1", 299, (0, 12)),
    question(6, "Ego4D", "a-1", 10),
]


def run(folder, questions, *options, benchmark="egoplan"):
    (folder / "a.json").write_text(json.dumps(questions))
    arguments = [str(folder / "a.json"), "--out", str(folder / "ids.txt"), *options]
    return CliRunner().invoke(app, ["data", "list", benchmark, *arguments])


def test_lists_are_what_the_downloaders_read(tmp_path):
    result = run(tmp_path, QUESTIONS, "--frames")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "ids.txt").read_text() == "a-1\nb-1\n"
    assert (tmp_path / "ids_epic_kitchens.txt").read_text() == "P01_13\nP22_107\n"
    rows = list(csv.reader((tmp_path / "ids_frames.csv").read_text().splitlines()))
    assert rows == [
        ["video_source", "video_id", "first_frame", "last_frame"],
        ["Ego4D", "a-1", "10", "10"],
        ["Ego4D", "b-1", "0", "299"],
        ["EpicKitchens", "P01_13", "5", "5"],
        ["EpicKitchens", "P01_13", "36", "800"],
        ["EpicKitchens", "P22_107", "51", "100"],
    ]
    for fact in ("Ego4D: 2 .* 0.00 hours", r"EpicKitchens: 2 .* 2 .*\(P01, P22\)", "1117 frames.* 5 runs"):
        assert re.search(fact, result.stdout)


def test_bench2_needs_frames_from_the_tasks_start(tmp_path):
    questions = [bench2_question(name) for name in ("v1_1", "v2_1", "v1_2")]
    result = run(tmp_path, questions, "--frames", benchmark="egoplan_bench2")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "ids.txt").read_text() == "v1\nv2\n"
    assert (tmp_path / "ids_frames.csv").read_text().splitlines()[1:] == ["Ego4D,v1,4,29", "Ego4D,v2,4,29"]


def test_hours_are_counted_once_by_each_videos_clock(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(QUESTIONS))
    videos = needed_frames(read_annotations(path, None))
    seconds = {source: sum(video.seconds for video in videos if video.source == source) for source in FIRST_FRAME}
    assert seconds == pytest.approx({"EpicKitchens": 766 / 60 + 50 / 50, "Ego4D": 301 / 30})


def test_no_empty_list_is_written(tmp_path):
    result = run(tmp_path, QUESTIONS[:1])
    assert re.search("Ego4D: no ", result.stdout)
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "a.json", "ids_epic_kitchens.txt"]


def test_wrong_records_are_named(tmp_path):
    result = run(tmp_path, [QUESTIONS[0] | {"video_source": "Charades"}])
    assert result.exit_code == 1
    assert re.search("record 0, sample_id 1, video_source: .*'EpicKitchens' .*'Ego4D'", result.stderr)
