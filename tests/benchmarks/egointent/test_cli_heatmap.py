"""``lmms-egoplan heatmap`` on real files."""

import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

from benchmarks.egointent.logged import graded_step, sample, scenario_run, write_run
from lmms_egoplan.cli import app


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments):
    return CliRunner().invoke(app, ["heatmap", "egointent", *map(str, arguments)])


def test_runs_of_both_kinds_are_refused(tmp_path):
    scenario_run(tmp_path / "a", {"yard": 10}, "own")
    step = graded_step("f20fb254_1", [20.0] * 3)
    goalstep = sample(step, category="make tea", unverified=True, video_id="f20fb254-2611")
    write_run(tmp_path / "b", [goalstep], "goalstep")
    out = tmp_path / "map.png"
    result = run("--results", tmp_path, "--out", out)
    assert result.exit_code == 1
    assert "one heat map holds one kind" in result.stderr
    assert not out.exists()
    result = run("--results", tmp_path / "b", "--out", out)
    assert result.exit_code == 0, result.output
    assert "1 x 1 (models x categories of Goal-Step steps)" in result.stdout


def test_draws_runs_of_several_folders(tmp_path):
    folders = [
        scenario_run(tmp_path / name, {"yard": 10 + number, "bedroom": 30}, f"org/{name}")
        for number, name in enumerate("abc")
    ]
    out = tmp_path / "map.png"
    for arguments in (
        ("--results", *folders, "--out", out),
        ("--results", folders[0], "--results", folders[1], "--out", out, "--results", folders[2]),
        ("--results", tmp_path, "--out", out),
    ):
        result = run(*arguments)
        assert result.exit_code == 0, result.output
        assert result.stdout == (
            f"3 x 2 (models x scenarios). Judge: qwen, judge coverage 100.0%, 2 steps\nWritten to {out}\n"
        )
        assert not result.stderr
        assert Image.open(out).format == "PNG"
        out.unlink()


def test_warnings_go_to_the_errors(tmp_path):
    scenario_run(tmp_path / "a", {"yard": 10, "bedroom": 30}, "a")
    scenario_run(tmp_path / "b", {"yard": 10}, "b")
    result = run("--results", tmp_path, "--out", tmp_path / "map.svg")
    assert result.exit_code == 0, result.output
    assert result.stderr == ("Warning: runs over different steps, 1 of which are in all (1 steps: b; 2 steps: a)\n")


def test_errors_are_one_message(tmp_path):
    out = tmp_path / "map.png"
    result = run("--results", tmp_path, "--out", out)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"lmms-egoplan: {tmp_path}: no samples of egointent below it; ")
    result = run("--results", tmp_path, "--out", tmp_path / "map.pdf")
    assert result.exit_code == 2
    assert "the suffix must be one of .png, .svg, .html" in result.stderr
    write_run(tmp_path / "run", [sample(graded_step("s1", [1.0, 2.0, 3.0]))])
    (tmp_path / "file").touch()
    result = run("--results", tmp_path, "--out", tmp_path / "file" / "map.png")
    assert result.exit_code == 1
    assert result.stderr.startswith("lmms-egoplan: ")
    assert not out.exists()


def test_help_has_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example:" in result.output


def test_help_imports_nothing_heavy():
    program = (
        "import sys, lmms_egoplan.cli, lmms_egoplan.benchmarks.egointent.heatmap_drawing\n"
        "heavy = {'torch', 'datasets', 'openai', 'matplotlib', 'numpy', 'lmms_eval'}\n"
        "sys.exit(','.join(heavy & set(sys.modules)) or 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
