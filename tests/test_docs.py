"""READMEs and docs/ are correct: links, commands with their options, tasks, variables, code."""

import ast
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pytest
from PIL import Image

from command_tree import COMMANDS, GROUPS
from command_tree import ROOT as PROGRAM
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.coverage import coverage
from lmms_egoplan.harnesses.arguments import argument_names
from lmms_egoplan.harnesses.lmms_eval.arguments import HFVLMArguments
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.task_files import read_task_file
from patience import FOREVER_S

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TASK_PAGES = sorted(ROOT.glob("tasks/*/*/*.md"))
NAMED = [README, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "perf" / "README.md"]
NAMED += [ROOT / "upstream" / "README.md"]
PAGES = [*NAMED, *sorted(ROOT.glob("docs/*.md")), *TASK_PAGES]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_TASK = re.compile(rf"(?:{'|'.join(benchmark.name for benchmark in BENCHMARKS)})_[a-z_]+")
_ENDS = {"&&", "||", ";", "|", "&", "(", ")", "{", "}", ">", ">>", "<"}


def blocks(text, *languages):
    """Return the code of a page's blocks in these languages."""
    return [
        textwrap.dedent(match["code"])
        for match in _BLOCK.finditer(text)
        if match["language"] in languages
    ]


def prose(text):
    """Return a page without its code blocks."""
    return _BLOCK.sub("", text)


def shell_commands(code):
    """Split shell code into simple commands, each a list of words; `$(...)` is a command, too."""
    code = re.sub(r"\\\n", " ", code)
    code = re.sub(r"<<'(\w+)'.*?^\1$", "", code, flags=re.MULTILINE | re.DOTALL)
    commands = []
    while match := re.search(r"\$\(([^()]*)\)", code):
        commands += shell_commands(match[1])
        code = code[: match.start()] + "SUBSTITUTED" + code[match.end() :]
    for line in code.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, "#"
        words = list(lexer)
        while words:
            command = list(takewhile(lambda word: word not in _ENDS, words))
            words = words[len(command) + 1 :]
            if command:
                commands.append(command)
    return commands


def arguments_of(command, program, module):
    """Return the arguments if a command starts a program, by its name or with `-m`; else None."""
    for position, word in enumerate(command):
        is_started = all("=" in previous for previous in command[:position])
        if (word == program and is_started) or (word == module and command[position - 1] == "-m"):
            return command[position + 1 :]
    return None


def commands_in_blocks(program, module):
    """Return the arguments of each command of a program in the pages' blocks."""
    return [
        arguments
        for text in TEXTS.values()
        for code in blocks(text, "bash", "sh", "")
        for command in shell_commands(code)
        if (arguments := arguments_of(command, program, module)) is not None
    ]


def resolve(words):
    """Return the path of the command or group that words start with, and the words after it."""
    path = next(
        path
        for count in range(len(words), -1, -1)
        if (path := " ".join(words[:count])) in {"", *GROUPS, *COMMANDS}
    )
    arguments = words[len(path.split()) :]
    assert path in COMMANDS or not arguments or arguments[0].startswith("-"), (
        f"no command {arguments[0]!r} in {path or 'lmms-egoplan'!r}"
    )
    return path, arguments


def options(path):
    """Return the options that a command takes; those of the program for a group."""
    command = COMMANDS.get(path, PROGRAM)
    parameters = command.get_params(command.context_class(command, info_name=path))
    return {
        option for parameter in parameters for option in parameter.opts + parameter.secondary_opts
    }


def commands_in_sentences(text):
    """Yield each quotation with a command of the package, the command's path and the words after
    it.

    The placeholder ``COMMAND`` is skipped.
    """
    for match in _QUOTED.finditer(prose(text)):
        for command in (
            shell_commands(" ".join(match[1].split())) if "lmms-egoplan " in match[1] else ()
        ):
            arguments = arguments_of(command, "lmms-egoplan", "lmms_egoplan")
            if arguments is not None and arguments[:1] != ["COMMAND"]:
                yield match[1], *resolve(arguments)


def slug(title):
    """Return a heading's anchor on GitHub."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
    return re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


def anchors(text):
    return {slug(match["title"]) for match in _HEADING.finditer(prose(text))}


def task_names(folder):
    """Return the names of a harness's tasks and groups."""
    contents = [read_task_file(path) for path in sorted(folder.rglob("*.yaml"))]
    names = {
        content["task"] if isinstance(content.get("task"), str) else content.get("group")
        for content in contents
    }
    return names - {None}


LMMS_EVAL_NAMES, LM_EVAL_NAMES = task_names(LMMS_EVAL_TASKS), task_names(LM_EVAL_TASKS)
EVERY_NAME = LMMS_EVAL_NAMES | LM_EVAL_NAMES
# Metrics for the library evaluate; their names begin like those of tasks.
METRICS = {
    path.stem for path in (ROOT / "lmms_egoplan" / "benchmarks").glob("*/evaluate_metrics/*/*.py")
}


def test_the_readme_is_short():
    assert len(TEXTS["README.md"].splitlines()) <= 143


@pytest.mark.parametrize(
    "command", ["pip install -e . && lmms-egoplan demo", 'pip install -e ".[test]" && pytest']
)
def test_the_readme_contains_the_exact_command(command):
    assert f"```bash\n{command}\n```" in TEXTS["README.md"]


def test_relative_links_lead_somewhere():
    broken = []
    for name, text in TEXTS.items():
        for match in _LINK.finditer(prose(text)):
            target, _, anchor = match["target"].partition("#")
            if target.startswith(("http://", "https://", "mailto:")):
                continue
            path = (ROOT / name).parent / target if target else ROOT / name
            is_ours = path.exists() and ROOT in path.resolve().parents
            if not is_ours or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
                broken.append((name, match[0]))
    assert broken == []


def test_every_page_is_reached_from_the_readme():
    reached, ahead = set(), [README]
    while ahead:
        path = ahead.pop()
        if path in reached:
            continue
        reached.add(path)
        targets = [
            match["target"].partition("#")[0]
            for match in _LINK.finditer(path.read_text(encoding="utf-8"))
        ]
        ahead += [
            (path.parent / target).resolve()
            for target in targets
            if target.endswith(".md") and "://" not in target
        ]
    assert {path.resolve() for path in PAGES} - reached <= {ROOT / "docs" / "README.md"}


def test_bash_blocks_are_bash():
    wrong = []
    for name, text in TEXTS.items():
        for code in blocks(text, "bash"):
            done = subprocess.run(
                ["bash", "-n"], input=code, capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                wrong.append((name, code, done.stderr))
    assert wrong == []


def test_commands_in_blocks_are_valid():
    invalid = []
    for arguments in commands_in_blocks("lmms-egoplan", "lmms_egoplan"):
        try:
            path, options_and_values = resolve(arguments)
            assert path in COMMANDS, "it needs a subcommand"
            with COMMANDS[path].make_context(path, options_and_values):
                pass
        except Exception as error:
            invalid.append((shlex.join(arguments), repr(error)))
    assert invalid == []


def test_commands_in_sentences_exist_with_their_options():
    unknown = []
    for name, text in TEXTS.items():
        for quoted, path, words in commands_in_sentences(text):
            # options of a harness follow
            words = words[: words.index("--")] if "--" in words else words
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            if path != "lm-eval" and not used <= options(path):
                unknown.append((name, quoted, used - options(path)))
    assert unknown == []


def test_every_command_is_on_a_page():
    paths = {
        resolve(arguments)[0] for arguments in commands_in_blocks("lmms-egoplan", "lmms_egoplan")
    }
    paths |= {path for text in TEXTS.values() for _, path, _ in commands_in_sentences(text)}
    assert set(COMMANDS) - paths == set()


@pytest.mark.parametrize(
    ("program", "module", "names"),
    [
        ("lmms-eval", "lmms_eval", LMMS_EVAL_NAMES | {"egocentric_planning"}),
        ("lm-eval", "lm_eval", LM_EVAL_NAMES | {"egocentric_planning"}),
        ("lmms-egoplan", "lmms_egoplan", LM_EVAL_NAMES | {"egocentric_planning"}),
    ],
)
def test_tasks_in_commands_exist(program, module, names):
    commands = commands_in_blocks(program, module)
    asked = {
        task
        for words in commands
        if "--tasks" in words
        for task in words[words.index("--tasks") + 1].split(",")
    }
    assert asked
    assert asked <= names


def test_the_papers_items_have_commands_that_exist():
    text = TEXTS["docs/coverage.md"]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:1] == "|"
    ][2:]
    states = Counter(state for *_, state, _ in rows)
    assert states.keys() == {"complete", "partly", "removed"}
    for count in (len(rows), *states.values()):
        assert str(count) in re.findall(r"\d+", text.partition("\n- ")[0])
    for _, item, command, state, reason in rows:
        quoted = re.findall(r"`([^`]+)`", command)
        assert bool(quoted) == (state != "removed"), item
        assert reason or state == "complete", item
        for program, *words in map(str.split, quoted):
            if program == "lmms-egoplan":
                assert resolve(words)[0] in COMMANDS, item
            else:
                assert program == "lmms-eval", item
                assert words[0] == "--tasks", item
                assert words[1] in LMMS_EVAL_NAMES, item


def harness_parser(program):
    if program == "lmms-eval":
        from lmms_eval.__main__ import parse_eval_args

        return lambda: parse_eval_args()
    from lm_eval._cli.harness import HarnessCLI

    return lambda: HarnessCLI().parse_args()


@pytest.mark.parametrize("program", ["lmms-eval", "lm-eval"])
def test_harnesses_take_the_commands(program, monkeypatch):
    commands = commands_in_blocks(program, program.replace("-", "_"))
    if program == "lm-eval":
        package_commands = commands_in_blocks("lmms-egoplan", "lmms_egoplan")
        commands += [arguments[1:] for arguments in package_commands if arguments[0] == "lm-eval"]
    commands = [
        words for words in commands if words and words[0].startswith("--") and "..." not in words
    ]
    assert len(commands) >= 2
    parse = harness_parser(program)
    for words in commands:
        monkeypatch.setattr(sys, "argv", [program, *words])
        parse()


def test_names_of_tasks_are_those_of_tasks():
    unknown = {}
    for name, text in TEXTS.items():
        if name.startswith(("README", "docs", "tasks/lm_eval")):
            quoted = {
                match[1] for match in _QUOTED.finditer(prose(text)) if _TASK.fullmatch(match[1])
            }
            unknown[name] = quoted - EVERY_NAME - METRICS
    assert {name: names for name, names in unknown.items() if names} == {}


def test_the_readme_names_every_task():
    quoted = {match[1] for match in _QUOTED.finditer(prose(TEXTS["README.md"]))}
    patterns = [re.escape(text) for text in quoted if text in EVERY_NAME]
    patterns += [
        re.sub(r"<\w+>", r"[\\w.-]+", text)
        for text in quoted
        if re.fullmatch(r"ego\w+_[\w<>]+>", text)
    ]
    assert {name for name in EVERY_NAME if not re.fullmatch("|".join(patterns), name)} == set()


def test_variables_are_those_of_the_code():
    of_code = re.compile(r'"(LMMS_EGOPLAN_[A-Z_]*[A-Z])"')
    read = {
        name
        for path in (ROOT / "lmms_egoplan").rglob("*.py")
        for name in of_code.findall(path.read_text("utf-8"))
    }
    assert len(read) > 5
    for name, text in TEXTS.items():
        assert set(re.findall(r"LMMS_EGOPLAN_[A-Z_]*[A-Z]", text)) <= read, name
    assert {name for name in read if f"`{name}`" not in TEXTS["docs/running.md"]} == set()


def test_arguments_of_hf_vlm_are_those_of_its_table():
    names = {*argument_names(HFVLMArguments)}
    table = TEXTS["docs/backends.md"].partition("## Arguments of `hf_vlm`")[2].partition("\n## ")[0]
    taken = {"pretrained"} | names - {"batch_size", "max_batch_size"}
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == taken


def test_json_and_python_blocks_can_be_read():
    wrong = []
    for name, text in TEXTS.items():
        for language, read in (("json", json.loads), ("python", ast.parse)):
            for code in blocks(text, language):
                try:
                    read(code)
                except (ValueError, SyntaxError) as error:
                    wrong.append((name, code, str(error)))
    assert wrong == []


def test_the_ranking_example_runs(tmp_path, monkeypatch, capsys):
    from lmms_egoplan.demo.checkpoint import write_checkpoint

    write_checkpoint(tmp_path / "tiny")
    Image.new("RGB", (64, 48), "tomato").save(tmp_path / "frame.jpg")
    (code,) = blocks(TEXTS["docs/ranking.md"], "python")
    assert '"llava-hf/llava-1.5-7b-hf"' in code
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(code.replace("llava-hf/llava-1.5-7b-hf", "tiny"), scope)
    fields = set(re.findall(r"^\| `(\w+)` \|", TEXTS["docs/ranking.md"], re.MULTILINE))
    fields &= {name for name, _ in inspect.getmembers(scope["best"])}
    assert {"logprob", "nll", "num_tokens", "token_logprobs", "is_greedy"} <= fields
    assert float(capsys.readouterr().out.split()[0]) == scope["best"].nll > 0


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ({"egoplan_val": {"coverage,none": 1.0, "acc,none": 0.5}}, 0),
        ({"egoplan_val": {"coverage,none": 0.9}}, 1),
        (
            {
                "egoplan_val": {"coverage,none": 1.0},
                "egothink_object_existence": {"judge_coverage,judged": 0.98},
            },
            1,
        ),
        ({"egointent": {"judge_coverage,judged": float("nan")}}, 1),
        ({"egoplan_val": {"coverage,none": coverage([{"scored": 1, "of": 3355}] * 6)}}, 1),
        ({"egoplan_val": {"coverage,none": coverage([{"scored": 1, "of": 3355}] * 3355)}}, 0),
        (None, 1),
    ],
)
def test_a_script_notices_a_failed_run(tmp_path, results, code):
    """The lines in docs/scripts.md notice it, although the harness always exits with 0."""
    started, looked = blocks(TEXTS["docs/scripts.md"], "bash")
    assert "lmms-eval --tasks" in started
    log = tmp_path / "log"
    harness = "exit 0"
    if results is not None:
        (tmp_path / "20260101_000000_results.json").write_text(json.dumps({"results": results}))
        harness = (
            'while [ "$1" != --output_path ]; do shift; done; mkdir -p "$2"/m && cp '
            f'{tmp_path}/*_results.json "$2"/m'
        )
    (tmp_path / "lmms-eval").write_text(f"#!/bin/bash\n{harness}\n")
    (tmp_path / "lmms-eval").chmod(0o755)
    (tmp_path / "python").symlink_to(sys.executable)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with log.open("w") as output:
        done = subprocess.run(
            ["bash", "-c", started + looked],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=output,
            timeout=FOREVER_S,
            check=False,
        )
    assert done.returncode == code, log.read_text()


def test_generated_pages_are_up_to_date():
    pages = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]
    outdated = [name for name, write in pages.items() if TEXTS[f"docs/{name}"] != write()]
    assert outdated == [], "run python docs/generate.py"


def test_troubleshooting_quotes_messages_of_the_code():
    code = " ".join(
        "".join(
            path.read_text(encoding="utf-8") for path in (ROOT / "lmms_egoplan").rglob("*.py")
        ).split()
    )
    quoted = re.findall(r"^\| `([^`]+)` \|", TEXTS["docs/troubleshooting.md"], re.MULTILINE)
    assert len(quoted) > 10
    assert [text for text in quoted if text not in re.sub(r'" f?"', "", code)] == []
