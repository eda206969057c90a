"""Errors of commands: one line if the user can correct it, a traceback for programming errors."""

import os
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from lmms_egoplan.cli import app
from lmms_egoplan.cli.errors import RootGroup
from lmms_egoplan.errors import LmmsEgoplanError


def ending(error, name="status"):
    """Run a command of this name that raises an error."""
    program = typer.Typer(cls=RootGroup, pretty_exceptions_enable=False)
    program.callback()(lambda: None)

    @program.command(name)
    def fail():
        raise error

    return CliRunner().invoke(program, [name])


@pytest.mark.parametrize(
    "error", [LmmsEgoplanError("a.json: no list"), OSError(28, "No space left", "a.json")]
)
def test_an_error_that_the_user_can_correct_is_one_line(error):
    result = ending(error)
    assert (result.exit_code, result.stderr) == (1, f"lmms-egoplan: {error}\n")
    assert isinstance(result.exception, SystemExit)


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
