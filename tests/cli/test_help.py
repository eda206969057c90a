"""Every command's help is complete and has an example, and shells complete commands."""

import re
import sys

import pytest
from typer.testing import CliRunner

import lmms_egoplan
from command_tree import COMMANDS, GROUPS, ROOT
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS
from lmms_egoplan.cli import app
from lmms_egoplan.report.strips import SOME
from lmms_egoplan.sensitivity.conditions import FACTORS
from lmms_egoplan.stats.equivalence import MARGIN

COLUMNS = 80
# Characters of frames and bullets.
FRAME = re.compile("[─-╿•]")
# lm-eval prints its harness's help.
WITH_HELP = ["", *GROUPS, *(path for path in COMMANDS if path != "lm-eval")]


def run(*arguments):
    return CliRunner().invoke(app, [*arguments])


def words(text):
    return FRAME.sub(" ", text.replace("`", "")).split()


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


def missing_in_help(path):
    """Return what is wrong with the help of a group or command; an empty list if it is complete."""
    result = run(*path.split(), "-h")
    if result.exit_code != 0:
        return [result.output]
    command = {"": ROOT, **GROUPS, **COMMANDS}[path]
    texts = [command.help]
    if path in COMMANDS:
        texts += [param.help for param in command.params if param.help and not param.hidden]
    printed_words = words(result.stdout)
    # A list's dashes are printed as bullets.
    missing = [
        word for word in words("\n".join(texts)) if word != "-" and word not in printed_words
    ]
    too_long = [line for line in result.stdout.splitlines() if len(line) > COLUMNS]
    cut = ["…"] if "…" in result.stdout else []
    no_example = [] if "Example:" in printed_words else ["no example"]
    return [*missing, *too_long, *cut, *no_example]


def test_help_is_complete_and_has_an_example():
    failures = {path: missing for path in WITH_HELP if (missing := missing_in_help(path))}
    assert failures == {}


def test_examples_are_commands_with_their_options():
    failures = []
    for path, described in {**GROUPS, **COMMANDS}.items():
        examples = [
            re.split(r"\s+", example)
            for example in re.findall(r"`[^`]*?(lmms-egoplan [^`)]+)", described.help)
        ]
        for _, *typed in examples:
            commands = [path_ for path_ in COMMANDS if typed[: len(path_.split())] == path_.split()]
            if len(commands) != 1:
                failures.append((path, typed, commands))
                continue
            (command,) = commands
            options = {option for param in COMMANDS[command].params for option in param.opts}
            # options of a harness follow
            typed = typed[: typed.index("--")] if "--" in typed else typed
            unknown = {word for word in typed if word.startswith("--")} - options
            if unknown and command != "lm-eval":
                failures.append((path, typed, unknown))
    assert failures == []


def test_help_names_what_the_rooms_define():
    """Commands import no room for their help."""

    def option(path, name):
        return next(param for param in COMMANDS[path].params if param.name == name)

    assert option("compare", "margin").default == MARGIN
    assert f"up to {SOME} per benchmark" in option("report", "pictures").help
    assert f": {', '.join(PROTOCOLS)}." in option("judge egothink", "protocol").help
    assert f": {', '.join(FACTORS)}." in option("sensitivity", "vary").help


def test_long_and_short_option_give_the_same_help():
    assert run("data", "--help").stdout == run("data", "-h").stdout
    assert run("data").output.strip() == run("data", "-h").output.strip()


def test_the_version_is_printed():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"lmms-egoplan {lmms_egoplan.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["run", "--help"], []])
def test_lm_evals_help_names_the_model_class(arguments, monkeypatch):
    pytest.importorskip("lm_eval")
    monkeypatch.setattr(sys, "argv", sys.argv)  # the command sets it
    ran = run("lm-eval", *arguments)
    assert ran.exit_code == 0, ran.output
    introduction, _, harness_help = ran.stdout.partition("usage: ")
    assert "hf-vlm-ranker" in introduction
    assert "lmms-egoplan lm-eval" in introduction
    assert max(map(len, introduction.splitlines())) <= COLUMNS
    assert harness_help.startswith("lm-eval")


@pytest.mark.parametrize(
    "typed",
    [
        "data prepare egothink",
        "data prepare egothink a b",
        "submit egoplan --out o",
        "show",
        "show a --unknown",
        "report a",
        "report --out o",
    ],
)
def test_wrong_inputs_and_options_are_usage_errors(typed):
    result = run(*typed.split())
    assert result.exit_code == 2
    assert "Usage: " in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("comprae", "compare"), ("judge egothnik", "egothink"), ("data prepar hub", "prepare")],
)
def test_a_misspelt_name_gets_a_suggestion(typed, meant):
    result = run(*typed.split())
    assert result.exit_code == 2
    assert f"'{meant}'" in result.output


def test_the_first_ten_commands_are_those_that_most_users_need():
    text = run("--help").stdout
    first, _, _ = text.partition(" More ")
    names = re.findall(r"^│ ([a-z][a-z-]*) ", first, re.MULTILINE)
    assert len(names) == 10
    assert {"demo", "run", "show", "report", "compare", "data"} <= {*names}


def test_to_evaluate_a_model_is_to_run_it():
    result = run("evaluate", "org/model")
    assert result.exit_code == 1
    assert "lmms-egoplan run org/model" in result.output


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("da", {"data"}),
        ("judge ", {"egoplan", "egothink", "egointent", "actplan"}),
        ("data prepare egop", {"egoplan", "egoplan_bench2"}),
        ("show --for", {"--format"}),
        ("show --format ", {"text", "md", "latex", "csv"}),
        ("unknown x", set()),
    ],
)
def test_shells_complete_commands_and_options(typed, completions):
    environment = {
        "_LMMS_EGOPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": f"lmms-egoplan {typed}",
        "COMP_CWORD": str(len(typed.split(" "))),
    }
    result = CliRunner().invoke(app, [], prog_name="lmms-egoplan", env=environment)
    assert result.exit_code == 0, result.output
    assert set(result.stdout.split()) == completions


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_shown(shell, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    result = CliRunner().invoke(app, ["--show-completion", shell], prog_name="lmms-egoplan")
    assert result.exit_code == 0, result.output
    assert f"_LMMS_EGOPLAN_COMPLETE=complete_{shell}" in result.stdout
