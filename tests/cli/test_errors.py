"""Errors of commands: one line if the user can correct it, a traceback for programming errors."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.egothink.source import write_source
from lmms_egoplan.cli import app
from lmms_egoplan.cli.errors import RootGroup
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track
from lmms_egoplan.volumes import UNFINISHED
from volumes import volume_of


def ending(error, name="status", items=()):
    """Run a command of this name that raises an error after it has shown the items' progress."""
    program = typer.Typer(cls=RootGroup, pretty_exceptions_enable=False)
    program.callback()(lambda: None)

    @program.command(name)
    def fail():
        for _ in track(items, "Reading"):
            raise error
        raise error

    return CliRunner().invoke(program, [name])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LmmsEgoplanError("a.json: no list"), "a.json: no list"),
        (PermissionError(13, "Permission denied", "a.json"), "a.json: Permission denied"),
        (IsADirectoryError(21, "Is a directory", "a"), "a: is a folder; pass a file"),
        (OSError("the server is away"), "the server is away"),
    ],
)
def test_an_error_that_the_user_can_correct_is_one_line(error, message):
    result = ending(error)
    assert (result.exit_code, result.stderr) == (1, f"lmms-egoplan: {message}\n")
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("name", ["a.json", f"{UNFINISHED}x/a.json", None])
@pytest.mark.parametrize(
    "error_of",
    [
        lambda name: OSError(28, "No space left", name),
        lambda name: OSError(122, "Quota exceeded", name),
        pytest.param(lambda _: RuntimeError("database or disk is full"), id="without a number"),
    ],
)
def test_a_full_volume_is_named_with_the_file(tmp_path, monkeypatch, error_of, name):
    monkeypatch.chdir(tmp_path)
    with volume_of(tmp_path / "volume", 0) as volume:
        path = str(tmp_path / "volume" / name) if name else None
        error = error_of(path)
        has_name = getattr(error, "filename", None) is not None
        if not has_name:
            monkeypatch.chdir(tmp_path / "volume")
        result = ending(error)
        monkeypatch.chdir(tmp_path)
    assert result.exit_code == 1
    assert not has_name or result.stderr.startswith(f"lmms-egoplan: {tmp_path}/volume/a.json: ")
    assert f"the volume {volume} has " in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_file_is_named_whatever_writes_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "volume/data"))
    write_source(tmp_path / "source", 1)
    with volume_of(tmp_path / "volume", 12_288) as volume:
        result = CliRunner().invoke(app, ["data", "prepare", "egothink", f"{tmp_path / 'source'}"])
    *_, line, _ = result.stderr.split("\n")
    assert result.exit_code == 1
    assert line.startswith(f"lmms-egoplan: {tmp_path}/volume/data/egothink")
    assert f"the volume {volume} has" in line
    assert line.endswith("LMMS_EGOPLAN_DATA sets the folder of the prepared data")


def test_without_a_home_folder_the_variable_is_named_and_words_have_stems(tmp_path):
    """As with ``docker run --user 12345``: no entry in /etc/passwd, and no HOME."""
    code = """
import os, pwd

def no_entry(uid):
    raise KeyError(uid)

pwd.getpwuid = no_entry
from typer.testing import CliRunner
from lmms_egoplan.cli import app
from lmms_egoplan.stemming import snowball_stem

print(CliRunner().invoke(app, ["data", "status"]).stderr, end="")
os.environ["LMMS_EGOPLAN_DATA"] = "data"
print(CliRunner().invoke(app, ["data", "status"]).stdout.splitlines()[0])
print(snowball_stem("shelves"), "HOME" in os.environ)
"""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "LMMS_EGOPLAN_DATA")
    }
    command = [sys.executable, "-c", code]
    ran = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    error, status, stem = ran.stdout.splitlines()
    assert error.startswith("lmms-egoplan: HOME is not set")
    assert "LMMS_EGOPLAN_DATA" in error
    assert status.startswith("Nothing is prepared in data")
    assert stem == "shelv False"


def test_a_progress_bar_ends_before_the_error():
    result = ending(LmmsEgoplanError("wrong"), items=[1, 2])
    bar, message, end = result.stderr.split("\n")
    assert "Reading" in bar
    assert (message, end) == ("lmms-egoplan: wrong", "")


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("a bug"), RuntimeError("a bug")])
def test_a_programming_error_has_a_traceback(error):
    result = ending(error)
    assert result.exception is error
    assert "lmms-egoplan: " not in result.stderr


def test_wrong_usage_prints_the_usage():
    result = ending(typer.BadParameter("above 0", param_hint="--rate"))
    assert result.exit_code == 2
    assert all(fact in result.stderr for fact in ("Usage: ", "--rate", "above 0"))


def test_lm_eval_prints_its_own_errors():
    error = FileNotFoundError("a.yaml")
    assert ending(error, "lm-eval").exception is error
    assert ending(LmmsEgoplanError("wrong"), "lm-eval").stderr == "lmms-egoplan: wrong\n"


def test_an_error_of_a_real_command():
    result = CliRunner().invoke(app, ["show", "/nowhere/at/all"])
    assert result.exit_code == 1
    assert result.stderr.startswith("lmms-egoplan: /nowhere/at/all")
    assert "Traceback" not in result.output


def test_a_broken_pipe_is_silent(tmp_path):
    """Write to a closed pipe, as with ``| head``."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "lmms_egoplan", "data", "status"]
    environment = os.environ | {"LMMS_EGOPLAN_DATA": str(tmp_path)}
    try:
        ran = subprocess.run(
            command, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writing)
    assert ran.returncode == 1
    assert ran.stderr == ""
