"""What ends a command: one line where the user can mend something, a traceback where only we can."""

import os
import subprocess
import sys

import pytest
import typer
from lmms_egoplan.cli.errors import TellingErrors
from typer.testing import CliRunner

from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError


def ending(error, name="own"):
    """Of a command in a group that raises."""
    command, group = typer.Typer(cls=TellingErrors, pretty_exceptions_enable=False), typer.Typer()
    group.callback()(lambda: None)

    @group.command(name)
    def fail():
        raise error

    command.add_typer(group, name="group")
    command.command(name)(fail)
    nested, direct = (CliRunner().invoke(command, path) for path in (["group", name], [name]))
    assert (nested.exit_code, nested.stderr) == (direct.exit_code, direct.stderr) or name == "lm-eval"
    return direct


@pytest.mark.parametrize("error", [LmmsEgoplanError("a.json: no list"), OSError(28, "No space left", "a.json")])
def test_what_the_user_can_mend_is_one_line(error):
    result = ending(error)
    assert (result.exit_code, result.stderr) == (1, f"lmms-egoplan: {error}\n")
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("error", [ValueError("a bug"), KeyError("a bug"), RuntimeError("a bug")])
def test_what_only_we_can_mend_keeps_its_traceback(error):
    result = ending(error)
    assert result.exception is error
    assert "lmms-egoplan: " not in result.stderr


def test_a_wrong_use_is_told_with_the_usage():
    result = ending(typer.BadParameter("above 0", param_hint="--rate"))
    assert result.exit_code == 2
    assert "Usage: " in result.stderr
    assert "Invalid value for --rate: above 0" in result.stderr


def test_lm_eval_shows_its_own_errors_itself():
    error = FileNotFoundError("a.yaml")
    assert ending(error, "lm-eval").exception is error
    assert ending(LmmsEgoplanError("wrong"), "lm-eval").stderr == "lmms-egoplan: wrong\n"


def test_all_commands_are_below():
    result = CliRunner().invoke(app, ["show", "/nowhere/at/all"])
    assert result.exit_code == 1
    assert result.stderr.startswith("lmms-egoplan: /nowhere/at/all")
    assert "Traceback" not in result.output


def test_a_reader_who_has_ended_gets_no_message(tmp_path):
    """As with ``| head``: nobody reads what the command writes."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "lmms_egoplan", "data", "status"]
    environment = os.environ | {"LMMS_EGOPLAN_DATA": str(tmp_path)}
    try:
        ran = subprocess.run(command, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writing)
    assert ran.returncode == 1
    assert ran.stderr == ""
