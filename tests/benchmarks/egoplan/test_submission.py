"""Test submissions made from logged samples: each id of the split occurs exactly once."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from example_summary import SUMMARY
from lmms_egoplan.benchmarks.egoplan.submission import (
    build_submission,
    read_predictions,
    write_predictions,
)
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError


def save(split, ids, summary):
    from datasets import Dataset

    EGOPLAN.save(split, Dataset.from_dict({"sample_id": ids}), **summary)


@pytest.fixture
def splits(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    for split, ids in {"test": [3, 1, 2], "val": [7, 8]}.items():
        save(split, ids, SUMMARY)


def logged(sample_id, letter, name):
    """Return a logged prediction: a metric of the test split, an entry of details of others."""
    values = {"predictions": {"sample_id": sample_id, "prediction": letter}}
    return {"details": values} if "egoplan_val" in name else values


def submit(folder, predictions, *options, name="samples.jsonl"):
    """Return the result of the command, and the labels in its output by id; None without output."""
    samples = [
        {"doc_id": number, "input": "What next?\u2028"} | logged(sample_id, letter, name)
        for number, (sample_id, letter) in enumerate(predictions)
    ]
    lines = (f"{json.dumps(sample, ensure_ascii=False)}\n" for sample in samples)
    (folder / name).write_text("".join(lines), encoding="utf-8")
    out = folder / "new" / "submission.json"
    arguments = [
        "submit",
        "egoplan",
        str(folder / name),
        "--out",
        str(out),
        "--overwrite",
        *options,
    ]
    result = CliRunner().invoke(app, arguments)
    return result, json.loads(out.read_text()) if out.exists() else None


@pytest.mark.usefixtures("splits")
def test_an_incomplete_submission_keeps_the_earlier_one(tmp_path):
    result, labels = submit(tmp_path, [(1, "A"), (2, "B"), (3, "D")])
    assert result.exit_code == 0, result.output
    assert labels == [
        {"sample_id": 3, "label": "D"},
        {"sample_id": 1, "label": "A"},
        {"sample_id": 2, "label": "B"},
    ]
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"submission.json"}
    result, old_labels = submit(tmp_path, [(1, "A"), (1, "B"), (2, None), (9, "C")])
    assert result.exit_code == 1
    assert re.search(r": 2 \(3 and 2\); .*: 1 \(1\); .*: 1 \(9\)", result.stderr)
    assert len(result.stderr.splitlines()) == 1
    assert old_labels == labels


@pytest.mark.usefixtures("splits")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("20250101_120000_samples_egoplan_val.jsonl", ()),
        ("samples_egoplan_val_clips_2025-01-01.jsonl", ()),
        ("predictions.jsonl", ("--split", "val")),
        ("egoplan_test_and_egoplan_val.jsonl", ("--split", "val")),
    ],
)
def test_submission_of_the_validation_split(tmp_path, name, options):
    result, labels = submit(tmp_path, [(8, "A"), (7, "C")], *options, name=name)
    assert result.exit_code == 0, result.output
    assert re.search("2 labels .* val split .* 2 of 2 .* 2 of 3,355", result.stdout)
    assert labels == [{"sample_id": 7, "label": "C"}, {"sample_id": 8, "label": "A"}]


@pytest.mark.usefixtures("splits")
@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("samples.jsonl", "test split of 3 .* val split.* --split val"),
        ("egoplan_test_and_egoplan_val.jsonl", "both splits.*--split val .*--split test"),
    ],
)
def test_an_ambiguous_split_needs_an_option(tmp_path, name, facts):
    result, labels = submit(tmp_path, [(8, "A"), (7, "C")], name=name)
    assert (result.exit_code, labels) == (1, None)
    assert re.search(facts, result.stderr)


def test_an_unprepared_or_incomplete_split_has_no_submission(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    result, labels = submit(tmp_path, [(1, "A")], "--split", "val")
    assert (result.exit_code, labels) == (1, None)
    assert "lmms-egoplan data prepare egoplan EgoPlan_validation.json" in result.stderr
    missing = [
        {"video_source": "Ego4D", "video": "v", "reason": "no such file", "sample_ids": [4, 9]}
    ]
    summary = SUMMARY | {"split_size": 4, "missing": missing}
    save("val", [7, 8], summary)
    result, labels = submit(tmp_path, [(8, "A"), (7, "C")], "--split", "val")
    assert (result.exit_code, labels) == (1, None)
    assert re.search(r"2 of 4 .*sample_ids 2 \(4 and 9\)", result.stderr)


def test_predictions_file_is_read_like_samples(tmp_path):
    path = tmp_path / "submissions" / "predictions.jsonl"
    write_predictions(
        path,
        [{"sample_id": 1, "prediction": "A", "choices": []}, {"sample_id": 2, "prediction": None}],
    )
    assert read_predictions(path) == [(1, "A"), (2, None)]


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (None, "read"),
        ("", "no samples"),
        ("\n\n", "no samples"),
        ("{}", "line 1: .*EgoPlan"),
        ("[1]", "line 1: .*EgoPlan"),
        ('{"predictions": 3}', "line 1: .*EgoPlan"),
        ('{"details": {"predictions": 3}}', "line 1: .*EgoPlan"),
        ('{"sample_id": 1, "prediction": "A"}\n{', "line 2: .*JSON"),
        ('{"sample_id": "1", "prediction": "A"}', "sample_id: .*whole number.*'1'"),
        ('{"sample_id": 1, "prediction": "AB"}', "prediction: .*A, B, C, D.*'AB'"),
        ('{"sample_id": 1, "prediction": [1]}', "prediction: "),
    ],
)
def test_wrong_files_are_named(tmp_path, text, facts):
    path = tmp_path / "samples.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LmmsEgoplanError, match=f"{path}.*{facts}"):
        read_predictions(path)


@given(st.binary() | st.text().map(str.encode))
def test_no_other_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError):
        read_predictions(path)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from("ABCD") | st.none())),
    st.sets(st.integers(0, 6)),
)
def test_only_a_complete_submission_is_built(predictions, ids):
    is_whole = sorted(sample_id for sample_id, _ in predictions) == sorted(ids) and all(
        dict(predictions).values()
    )
    if is_whole:
        submission = build_submission(predictions, list(ids), "test")
        assert {(entry["sample_id"], entry["label"]) for entry in submission} == set(predictions)
    else:
        with pytest.raises(LmmsEgoplanError):
            build_submission(predictions, list(ids), "test")
