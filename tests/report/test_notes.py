"""Sentences and columns in YAML: each use provides the sentence's values."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

import lmms_egoplan
from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.report.tables import Column, read_columns, read_notes

PACKAGE = Path(lmms_egoplan.__file__).parent
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("notes.yaml"))


def nodes(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def module_name(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def uses_in(path):
    return [
        node
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "note"
    ]


def test_every_use_provides_the_values_of_the_sentence():
    uses_by_path = {
        path: uses for folder in FOLDERS for path in folder.glob("*.py") if (uses := uses_in(path))
    }
    assert uses_by_path
    missing = []
    for path, uses in uses_by_path.items():
        module = import_module(module_name(path))
        for use in uses:
            names = [keyword.arg for keyword in use.keywords]
            is_checkable = isinstance(use.args[0], ast.Constant) and None not in names
            if is_checkable and "{" in module.note(use.args[0].value, **dict.fromkeys(names, 1)):
                missing.append((str(path), use.lineno))
    assert missing == []


def test_every_note_of_a_table_can_be_formatted():
    values = {"measure": "cosine", "group": "scenario", "count": "9", "means": "30 %"}
    wrong = []
    for benchmark in BENCHMARKS:
        spec = benchmark.load_report().SPEC
        for name in (
            name
            for table in spec.tables.values()
            for notes in table.notes
            for name in notes.split()
        ):
            if "{" in spec.note(name, **values):
                wrong.append((benchmark.name, name))
    assert wrong == []


def test_a_missing_value_of_a_sentence_is_an_error(tmp_path):
    (tmp_path / "notes.yaml").write_text("count: >-\n  {count:,} of\n  {all:,} answers\n")
    note = read_notes(str(tmp_path / "module.py"), all=2000)
    assert note("count", count=1234) == "1,234 of 2,000 answers"
    with pytest.raises(KeyError):
        note("count")


def test_a_column_is_a_title_or_title_decimals_and_direction(tmp_path):
    (tmp_path / "columns.yaml").write_text(
        "scores:\n  model: Run\n  low: [Low, 1]\n  acc: [Accuracy, 2, true]\n"
    )
    assert read_columns(str(tmp_path / "module.py")) == {
        "scores": (
            Column("model", "Run"),
            Column("low", "Low", 1),
            Column("acc", "Accuracy", 2, True),
        )
    }
