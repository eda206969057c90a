"""Sentences and columns in YAML: each is used, and each use gives what stands in the sentence."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import lmms_egoplan
from lmms_egoplan.report.document import Column
from lmms_egoplan.report.notes import read_columns, read_notes

PACKAGE = Path(lmms_egoplan.__file__).parent
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("notes.yaml"))


def nodes(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def uses_in(path):
    return [node for node in nodes(path) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "note"]


@pytest.mark.parametrize("path", [path for folder in FOLDERS for path in folder.glob("*.py") if uses_in(path)], ids=str)
def test_every_use_gives_what_stands_in_the_sentence(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    module = import_module(name)
    for use in uses_in(path):
        names = [keyword.arg for keyword in use.keywords]
        if isinstance(use.args[0], ast.Constant) and None not in names:
            assert "{" not in module.note(use.args[0].value, **dict.fromkeys(names, 1))


@pytest.mark.parametrize("name", ["notes.yaml", "columns.yaml"])
@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_nothing_stands_there_unused(folder, name):
    path = folder / name
    told = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    texts = {node.value for file in folder.glob("*.py") for node in nodes(file) if isinstance(node, ast.Constant)}
    ends = tuple(text for text in texts if isinstance(text, str) and text.startswith("_") and len(text) > 1)
    assert [key for key in told if not key.startswith("table") and key not in texts and not key.endswith(ends)] == []


def test_what_a_sentence_is_not_given_is_an_error(tmp_path):
    (tmp_path / "notes.yaml").write_text("count: >-\n  {count:,} of\n  {all:,} answers\n")
    note = read_notes(str(tmp_path / "module.py"), all=2000)
    assert note("count", count=1234) == "1,234 of 2,000 answers"
    with pytest.raises(KeyError):
        note("count")


def test_a_column_is_a_title_or_title_decimals_and_direction(tmp_path):
    (tmp_path / "columns.yaml").write_text("scores:\n  model: Run\n  low: [Low, 1]\n  acc: [Accuracy, 2, true]\n")
    assert read_columns(str(tmp_path / "module.py")) == {
        "scores": (Column("model", "Run"), Column("low", "Low", 1), Column("acc", "Accuracy", 2, True))
    }
