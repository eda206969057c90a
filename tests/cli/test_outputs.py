"""`--out` of all commands is checked before any work, and foreign files are neither replaced nor deleted."""

import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import pytest
import typer
from typer.models import ArgumentInfo
from typer.testing import CliRunner

from lmms_egoplan.cli import app
from lmms_egoplan.cli.commands import command_tree
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import MANIFEST, claiming
from volumes import volume_of


def function_of(path):
    module, _, name = command_tree()[1][path].partition(":")
    return getattr(import_module(f"lmms_egoplan.{module}"), name)


FUNCTIONS = {path: function_of(path) for path in command_tree()[1]}
ALL = [
    pytest.param(path.split(), function, id=path)
    for path, function in FUNCTIONS.items()
    if "out" in inspect.signature(function).parameters
]
pytestmark = pytest.mark.whole


def value_of(annotation, inputs):
    """Return a value of the parameter's type. It need not be meaningful."""
    kind, option = get_args(annotation)
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if kind is not Path:
        return "a=b"
    return inputs / ("file" if option.file_okay else "folder")


def run(path, function, out, inputs):
    (inputs / "folder").mkdir(parents=True, exist_ok=True)
    (inputs / "file").write_text("{}")
    arguments = []
    for name, parameter in inspect.signature(function).parameters.items():
        is_input = name != "out" and parameter.annotation is not typer.Context
        if is_input and parameter.default is inspect.Parameter.empty:
            (_, option) = get_args(parameter.annotation)
            names = [] if isinstance(option, ArgumentInfo) else [next(iter(option.param_decls or []), f"--{name}")]
            arguments += [*names, value_of(parameter.annotation, inputs)]
    return CliRunner().invoke(app, [*path, *map(str, arguments), "--out", str(out)])


def contents(folder):
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns)
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


@pytest.mark.parametrize(("path", "function"), ALL)
@pytest.mark.parametrize("obstacle", [foreign_folder, foreign_file, path_below_a_file])
def test_foreign_files_are_not_changed(path, function, obstacle, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    out = obstacle(folder)
    before = contents(folder)
    result = run(path, function, out, tmp_path / "inputs")
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"lmms-egoplan: --out {out}: "), result.stderr
    assert contents(folder) == before


@pytest.mark.parametrize(("path", "function"), ALL)
def test_a_full_volume_is_named_before_any_work(path, function, tmp_path):
    inputs = tmp_path / "inputs"
    (tmp_path / "file").write_text("")
    run(path, function, tmp_path / "file" / "below", inputs)
    with volume_of(tmp_path / "volume", 0) as volume:
        out = tmp_path / "volume" / "out"
        result = run(path, function, out, inputs)
        names = [path.name for path in out.parent.iterdir()]
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1
    assert str(out.parent) in result.stderr
    assert str(volume) in result.stderr
    assert "out" not in names


def test_concurrent_commands_in_one_folder_all_record_their_files(tmp_path):
    program = """
import sys
from importlib import import_module
from pathlib import Path
from lmms_egoplan.outputs import claimed_file
for number in range(40):
    path = Path(sys.argv[1], f"{sys.argv[2]}-{number}")
    with claimed_file(path, "command"):
        path.write_text("")
"""
    out = tmp_path / "out"
    writers = [subprocess.Popen([sys.executable, "-c", program, out, str(number)]) for number in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(json.loads((out / MANIFEST).read_text())["single"]) == 160


def test_only_the_first_process_of_a_run_checks_the_folder(tmp_path, monkeypatch):
    """Another process may start while the first one writes its manifest."""
    out = tmp_path / "out"
    out.mkdir()
    (out / f"{MANIFEST}.123").write_text("{")
    command = claiming("command", writing)
    monkeypatch.setenv("RANK", "1")
    command(out=out)
    assert (out / "written").exists()
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(LmmsEgoplanError, match="other files"):
        command(out=out)


def writing(out: Annotated[Path, typer.Option(metavar="DIR")]) -> None:
    (out / "written").write_text("")
