"""`--out` of all commands is checked before any work, and foreign files are neither replaced nor
deleted.
"""

import inspect
from pathlib import Path
from types import UnionType
from typing import Literal, get_args, get_origin

import pytest
import typer
from typer.models import ArgumentInfo
from typer.testing import CliRunner

from command_tree import COMMANDS
from lmms_egoplan.cli import app
from volumes import volume_of

# The function of each command that has `--out`, by path.
WITH_OUT = {
    path: command.callback
    for path, command in COMMANDS.items()
    if "out" in inspect.signature(command.callback).parameters
}


def value_of(annotation, inputs):
    """Return a value of the parameter's type. It need not be meaningful."""
    kind, option = get_args(annotation)
    if get_origin(kind) is UnionType:  # an argument that may be omitted
        kind = get_args(kind)[0]
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if kind is not Path:
        return "a=b"
    return inputs / ("file" if option.file_okay else "folder")


@pytest.fixture
def inputs(tmp_path):
    """Write a file and a folder that commands can read."""
    (tmp_path / "inputs" / "folder").mkdir(parents=True)
    (tmp_path / "inputs" / "file").write_text("{}")
    return tmp_path / "inputs"


def run(path, function, out, inputs):
    arguments = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "out" or parameter.annotation is typer.Context:
            continue
        (_, option) = get_args(parameter.annotation)
        is_required = parameter.default is inspect.Parameter.empty
        if is_required or isinstance(option, ArgumentInfo):
            names = (
                []
                if isinstance(option, ArgumentInfo)
                else [next(iter(option.param_decls or []), f"--{name}")]
            )
            arguments += [*names, value_of(parameter.annotation, inputs)]
    return CliRunner().invoke(app, [*path.split(), *map(str, arguments), "--out", str(out)])


def contents(folder):
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else None,
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
    }


def foreign_folder(folder):
    (folder / "out" / "figures").mkdir(parents=True)
    for name in ("index.html", "figures/mine.png", "report.txt"):
        (folder / "out" / name).write_text("mine")
    return folder / "out"


def foreign_file(folder):
    (folder / "out").write_text("mine")
    return folder / "out"


def path_below_a_file(folder):
    (folder / "file").write_text("mine")
    return folder / "file" / "below" / "out"


@pytest.mark.parametrize("obstacle", [foreign_folder, foreign_file, path_below_a_file])
def test_no_command_changes_foreign_files(obstacle, inputs, tmp_path):
    failures = []
    for path, function in WITH_OUT.items():
        folder = tmp_path / path
        folder.mkdir()
        out = obstacle(folder)
        before = contents(folder)
        result = run(path, function, out, inputs)
        lines = result.stderr.splitlines()
        is_refused = len(lines) == 1 and lines[0].startswith(f"lmms-egoplan: --out {out}: ")
        if result.exit_code != 1 or not is_refused or contents(folder) != before:
            failures.append((path, result.exit_code, result.output, contents(folder) == before))
    assert failures == []
    assert {"report", "judge egothink", "score actplan"} <= WITH_OUT.keys()


def test_every_command_names_a_full_volume_before_any_work(inputs, tmp_path):
    failures = []
    (tmp_path / "file").write_text("")
    for path, function in WITH_OUT.items():
        run(path, function, tmp_path / "file" / "below", inputs)  # imports its modules
    with volume_of(tmp_path / "volume", 0) as volume:
        out = tmp_path / "volume" / "out"
        for path, function in WITH_OUT.items():
            result = run(path, function, out, inputs)
            lines = result.stderr.splitlines()
            is_named = len(lines) == 1 and str(out.parent) in lines[0] and str(volume) in lines[0]
            if result.exit_code != 1 or not is_named or out.exists():
                failures.append((path, result.exit_code, result.output, out.exists()))
    assert failures == []
