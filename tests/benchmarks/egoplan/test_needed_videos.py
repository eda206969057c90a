"""The lists for the publishers' downloaders."""

import csv
import json

import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.test_prepare import question
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


def run(folder, questions, *options):
    (folder / "a.json").write_text(json.dumps(questions))
    arguments = ["data", "list", "egoplan", str(folder / "a.json"), "--out", str(folder / "ids.txt")]
    return CliRunner().invoke(app, [*arguments, *options])


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
    assert "Ego4D: 2 videos, of which the questions show 0.00 hours. Written to" in result.stdout
    assert "EpicKitchens: 2 videos of 2 participants (P01, P22), of which" in result.stdout
    assert "1117 frames, all that a task may read, in 5 runs" in result.stdout


def test_hours_are_counted_once_by_each_videos_clock(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(QUESTIONS))
    videos = needed_frames(read_annotations(path, None))
    seconds = {source: sum(video.seconds for video in videos if video.source == source) for source in FIRST_FRAME}
    assert seconds == pytest.approx({"EpicKitchens": 766 / 60 + 50 / 50, "Ego4D": 301 / 30})


def test_no_empty_list_is_written(tmp_path):
    result = run(tmp_path, QUESTIONS[:1])
    assert "Ego4D: no video is needed, and no list is written" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [MANIFEST, "a.json", "ids_epic_kitchens.txt"]


def test_wrong_records_are_named(tmp_path):
    result = run(tmp_path, [QUESTIONS[0] | {"video_source": "Charades"}])
    assert result.exit_code == 1
    assert "record 0, sample_id 1, video_source: expected 'EpicKitchens' or 'Ego4D'" in result.stderr
