"""`lmms-egoplan plan`: its output and its files."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from datasets import Dataset
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.cli import app
from lmms_egoplan.demo.checkpoint import write_checkpoint
from lmms_egoplan.files import LOCK
from lmms_egoplan.media.frames import frame_path
from lmms_egoplan.outputs import MARKER
from media.files import write_epic_folder
from planner.rows import row
from volumes import volume_of


def plan(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def numbers(output):
    """Return the numbers in the last line."""
    return {*re.findall(r"\d+\.\d+|\d+", output.splitlines()[-1])}


def test_goals_are_listed():
    lines = plan("kitchen", "--list").stdout.splitlines()
    assert len(lines) == 30
    assert "heat water: kettle, top burner" in lines


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--goal", "fly", "--model", "x"), "--goal 'fly'"),
        (("--model", "x"), "--goal ''"),
        (("--goal", "heat water"), "--model"),
        (("--goal", "heat water", "--model", "x"), "pip install"),
    ],
)
def test_wrong_calls_of_the_kitchen(arguments, problem, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)  # as if it were not installed
    result = plan("kitchen", *arguments)
    assert result.exit_code == 1
    assert problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_missing_virtualhome_is_reported():
    arguments = ("virtualhome", "--goal", "cook", "--model", "x", "--url", "http://127.0.0.1:9")
    result = plan(*arguments, "--until", "stove=ON")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9" in result.stderr
    assert "OBJECT=STATE" in plan(*arguments, "--until", "stove").stderr


def test_an_invalid_model_is_named(tmp_path, prepared):
    result = plan("video", "--model", tmp_path, "--method", "rank", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"lmms-egoplan: --model {tmp_path}: ")
    assert len(result.stderr.splitlines()) == 1


def test_no_prepared_questions(monkeypatch, tmp_path):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    result = plan("video", "--model", "x")
    assert result.exit_code == 1
    assert "lmms-egoplan data prepare egoplan" in result.stderr


def prepare(folder, past, videos=2):
    """Prepare videos of 120 frames with these actions."""
    rows = []
    for number in range(1, videos + 1):
        video = write_epic_folder(folder / f"P01_0{number}", 1, 120)
        rows.append(row(video, past, video_id=video.name, sample_id=number))
    summary = {"split_size": videos, "questions": videos, "fingerprint": "f", "missing": []}
    EGOPLAN.save("val", Dataset.from_list(rows), **summary)
    return video


@pytest.fixture
def prepared(monkeypatch, tmp_path):
    """Two goals with two actions each; a frame of the second one is missing."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    frame_path(prepare(tmp_path, [("open tap", 40, 60), ("take cup", 85, 90)]), 85).unlink()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.whole),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly),
    ],
)
def test_a_signal_keeps_the_earlier_steps(monkeypatch, tmp_path, number, code):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare(
        tmp_path, [(f"take cup {start}", start, start + 1) for start in range(35, 115)], videos=1
    )
    write_checkpoint(tmp_path / "model")
    command = [
        sys.executable,
        "-m",
        "lmms_egoplan",
        "plan",
        "video",
        "--model",
        tmp_path / "model",
        "--method",
        "rank",
    ]
    process = subprocess.Popen(
        [*command, "--out", tmp_path / "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env=os.environ,
    )
    for line in process.stdout:
        if line.lstrip().startswith("2."):
            break
    process.send_signal(number)
    output, error = process.communicate()
    assert process.returncode == code, error
    assert "Traceback" not in error
    episode = json.loads((tmp_path / "out" / "0001" / "episode.json").read_text())
    assert episode["end"] == "interrupted"
    assert 2 <= len(episode["steps"]) < 80
    assert (tmp_path / "out" / "0001" / "index.html").is_file()
    assert str(len(episode["steps"])) in numbers(output)


def test_a_missing_encoder_is_reported_before_the_model_loads(prepared, monkeypatch, tmp_path):
    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", str(tmp_path / "no-encoder"))
    result = plan("video", "--model", tmp_path / "no-model", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "no-encoder" in result.stderr
    assert "no-model" not in result.stderr


def test_other_videos_are_replayed_after_a_failure(prepared, tmp_path):
    write_checkpoint(tmp_path / "model")
    result = plan(
        "video", "--model", tmp_path / "model", "--method", "rank", "--out", tmp_path / "out"
    )
    assert result.exit_code == 1
    assert {"3", "0.500", "0.667", "2"} <= numbers(result.stdout)
    assert "1 of 2" in result.stderr
    ends = [
        json.loads((tmp_path / "out" / name / "episode.json").read_text())["end"]
        for name in ("0001", "0002")
    ]
    assert ends == ["done", "environment failed"]
    result = plan(
        "video",
        "--model",
        tmp_path / "model",
        "--method",
        "rank",
        "--limit",
        1,
        "--out",
        tmp_path / "out",
    )
    assert result.exit_code == 0
    assert {"2", "1"} <= numbers(result.stdout)
    assert [path.name for path in (tmp_path / "out").glob("0*")] == ["0001"]


@pytest.mark.nightly
def test_a_full_disk_is_reported_with_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare(
        tmp_path, [(f"take cup {start}", start, start + 1) for start in range(35, 60)], videos=1
    )
    write_checkpoint(tmp_path / "model")
    out = tmp_path / "volume" / "out"
    with volume_of(tmp_path / "volume", 8192) as volume:
        result = plan("video", "--model", tmp_path / "model", "--method", "rank", "--out", out)
        files = [path for path in out.rglob("*.*") if path.is_file()]
        suffixes = {path.suffix for path in files if path.name not in (MARKER, LOCK)}
    assert result.exit_code == 1, result.output
    (message,) = result.stderr.splitlines()
    assert str(out / "0001") in message
    assert str(volume) in message
    assert suffixes <= {".json", ".jpg"}
