"""``lmms-egoplan run --check`` names each mistake in one line, before a model class is imported."""

import shutil

import pytest
from typer.testing import CliRunner

from launch.mistakes import MISTAKES, environment_of, prepare_folder
from lmms_egoplan.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "set"
    prepare_folder(folder)
    return folder


@pytest.fixture
def run(folder, tmp_path, monkeypatch):
    """Return a function that runs the command in a copy of the folder."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, symlinks=True)

    def run(*arguments, environment=None, make=None):
        if make is not None:
            make(copy)
        for name, value in (
            environment_of(folder) | {"LMMS_EGOPLAN_DATA": str(copy / "data")} | (environment or {})
        ).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(copy)
        return CliRunner().invoke(app, ["run", *arguments])

    return run


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gives_one_line(mistake, run):
    result = run(*mistake.arguments, "--check", environment=mistake.environment, make=mistake.make)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    for fact in mistake.facts:
        assert fact in line
    assert result.stdout == ""


def test_all_problems_are_named_at_once(run):
    result = run(
        "chekpoint", "--benchmarks", "egoplan_bench2,egothink", "--model-args", "dtyp=a", "--processes", "2", "--check"
    )
    lines = result.stderr.splitlines()
    assert len(lines) == 5
    for fact in ("chekpoint", "egoplan_bench2", "EgoThink", "dtyp", "--processes"):
        assert sum(fact in line for line in lines) >= 1
