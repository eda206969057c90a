"""The help of every command at 80 columns: whole, with an example."""

import re
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import lmms_egoplan
from lmms_egoplan.cli import app

COLUMNS = 80
# What draws the frames.
DRAWN = re.compile("[─-╿•]")


def commands(command=None, path=()):
    """All commands and groups, by what is typed after ``lmms-egoplan``."""
    command = command or get_command(app)
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


def own_help():
    """But `lm-eval`, whose help is its own."""
    return [
        pytest.param(command, path, id=" ".join(path) or "-") for path, command in commands() if path != ("lm-eval",)
    ]


def words(text):
    return DRAWN.sub(" ", text.replace("`", "")).split()


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


@pytest.mark.parametrize(("command", "path"), own_help())
def test_help_is_shown_whole_and_has_an_example(command, path):
    result = CliRunner().invoke(app, [*path, "--help"])
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= COLUMNS
    shown = words(result.stdout)
    assert "Example:" in shown
    told = [command.help, *(param.help for param in command.params if not getattr(param, "hidden", False))]
    written = words("\n".join(text for text in told if text))
    # A list's dashes are drawn as bullets.
    assert [word for word in written if word != "-" and word not in shown] == []
    assert "…" not in result.stdout


@pytest.mark.parametrize(("command", "path"), own_help())
def test_options_of_examples_are_those_of_the_command(command, path):
    """An example in a command's help is of that command, and takes what the command takes."""
    if hasattr(command, "commands"):
        return
    example = re.search(r"Example: `([^`]+)`", command.help)[1].split()
    if example[:1] != ["lmms-egoplan"]:
        return
    assert tuple(example[1 : len(path) + 1]) == path
    options = {option for param in command.params for option in param.opts if not getattr(param, "hidden", False)}
    assert {word for word in example if word.startswith("--")} <= options


def test_the_version_is_told():
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"lmms-egoplan {lmms_egoplan.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], []])
def test_lm_evals_help_tells_of_the_model_class(arguments, monkeypatch):
    pytest.importorskip("lm_eval")
    monkeypatch.setattr(sys, "argv", sys.argv)  # the command sets it
    ran = CliRunner().invoke(app, ["lm-eval", *arguments])
    assert ran.exit_code == 0, ran.output
    own, _, harness = ran.stdout.partition("usage: ")
    assert "hf-vlm-ranker" in own
    assert "Example: lmms-egoplan lm-eval" in own
    assert max(map(len, own.splitlines())) <= COLUMNS
    assert harness.startswith("lm-eval")


@pytest.mark.parametrize(
    "arguments",
    [
        ["data", "prepare", "egothink"],
        ["data", "prepare", "egothink", "a", "b"],
        ["submit", "egoplan", "--out", "o"],
        ["show"],
    ],
)
def test_an_input_that_is_missing_or_surplus_is_a_usage_error(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.output
    assert "Traceback" not in result.output
