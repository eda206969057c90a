"""Sentences and columns in YAML: each is used, and each use provides the sentence's values."""

import ast
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import lmms_egoplan
from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.report.tables import Column, read_columns, read_notes

PACKAGE = Path(lmms_egoplan.__file__).parent
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("notes.yaml"))


def nodes(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def uses_in(path):
    return [node for node in nodes(path) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "note"]


@pytest.mark.parametrize("path", [path for folder in FOLDERS for path in folder.glob("*.py") if uses_in(path)], ids=str)
def test_every_use_provides_the_values_of_the_sentence(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    module = import_module(name)
    for use in uses_in(path):
        names = [keyword.arg for keyword in use.keywords]
        if isinstance(use.args[0], ast.Constant) and None not in names:
            assert "{" not in module.note(use.args[0].value, **dict.fromkeys(names, 1))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_every_note_is_used(folder):
    """A note is named in a module or in ``spec.yaml``, a table in a module. A title follows the name of its table."""
    specs = read(folder / "spec.yaml").values()
    tables = [item for spec in specs for item in spec["tables"].items()]
    listed = [note for spec in specs for note in (spec["lead"], spec.get("caveat"), *spec.get("compact_notes", ()))]
    listed += [note for _, table in tables for notes in table.get("notes", ()) for note in notes.split()]
    texts = {node.value for file in folder.glob("*.py") for node in nodes(file) if isinstance(node, ast.Constant)}
    texts.update(read(folder / "calibration.yaml").get("figures", ()))
    notes = (key.removesuffix("_title") for key in read(folder / "notes.yaml"))
    assert [key for key in notes if key not in texts and key not in listed] == []
    keys = [*(key for key, _ in tables), *read(folder / "columns.yaml")]
    assert [key for key in keys if key not in (*texts, "comparisons") and not key.startswith("by_")] == []


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_note_of_a_table_can_be_formatted(benchmark):
    spec = benchmark.load_report().SPEC
    for table in spec.tables.values():
        for name in " ".join(table.notes).split():
            assert "{" not in spec.note(name, measure="cosine", group="scenario", count="9", means="30 %")


def test_a_missing_value_of_a_sentence_is_an_error(tmp_path):
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
