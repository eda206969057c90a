"""Sentences and columns in YAML."""

import pytest

from lmms_egoplan.report.tables import Column, read_columns, read_notes


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
