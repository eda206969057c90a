"""Errors of commands: one line if the user can correct it, a traceback for programming errors."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError


@pytest.fixture
def ending(monkeypatch):
    """Return a function that runs a command that raises an error.

    Default: `data status`, which is in a group.
    """

    def ending(error, module="cli.data", function="status", path=("data", "status")):
        def fail():
            raise error

        monkeypatch.setattr(f"lmms_egoplan.{module}.{function}", fail)
        return CliRunner().invoke(app, path)

    return ending


@pytest.mark.parametrize(
    "error", [LmmsEgoplanError("a.json: no list"), OSError(28, "No space left", "a.json")]
)
def test_an_error_that_the_user_can_correct_is_one_line(ending, error):
    result = ending(error)
    assert (result.exit_code, result.stderr) == (1, f"lmms-egoplan: {error}\n")
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("a bug"), RuntimeError("a bug")])
def test_a_programming_error_has_a_traceback(ending, error):
    result = ending(error)
    assert result.exception is error
    assert "lmms-egoplan: " not in result.stderr


def test_wrong_usage_prints_the_usage(ending):
    result = ending(typer.BadParameter("above 0", param_hint="--rate"))
    assert result.exit_code == 2
    assert all(fact in result.stderr for fact in ("Usage: ", "--rate", "above 0"))


def test_lm_eval_prints_its_own_errors(ending):
    error, command = (
        FileNotFoundError("a.yaml"),
        ("harnesses.lm_eval.command", "lm_eval", ["lm-eval"]),
    )
    assert ending(error, *command).exception is error
    assert ending(LmmsEgoplanError("wrong"), *command).stderr == "lmms-egoplan: wrong\n"


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
