"""From logged samples to a submission that holds each id of the split exactly once."""

import json

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from example_summary import SUMMARY
from lmms_egoplan.benchmarks.egoplan.splits import EGOPLAN
from lmms_egoplan.benchmarks.egoplan.submission import build_submission, read_predictions, write_predictions
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import MANIFEST

IDS = [3, 1, 2]


@pytest.fixture
def split(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    EGOPLAN.save("test", Dataset.from_dict({"sample_id": IDS}), **SUMMARY)


def write_samples(path, predictions):
    samples = [
        {
            "doc_id": number,
            "input": "What next?\u2028",
            "predictions": {"sample_id": sample_id, "prediction": letter},
        }
        for number, (sample_id, letter) in enumerate(predictions)
    ]
    path.write_text("".join(f"{json.dumps(sample, ensure_ascii=False)}\n" for sample in samples), encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["submit", "egoplan", *map(str, arguments)])


@pytest.mark.usefixtures("split")
def test_submission_from_samples(tmp_path):
    samples = write_samples(tmp_path / "samples.jsonl", [(1, "A"), (2, "B"), (3, "D")])
    out = tmp_path / "new" / "submission.json"
    result = run(samples, "--out", out)
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text()) == [
        {"sample_id": 3, "label": "D"},
        {"sample_id": 1, "label": "A"},
        {"sample_id": 2, "label": "B"},
    ]
    assert {path.name for path in out.parent.iterdir()} == {"submission.json", MANIFEST}


@pytest.mark.usefixtures("split")
def test_incomplete_predictions_leave_the_old_file(tmp_path):
    samples = write_samples(tmp_path / "samples.jsonl", [(1, "A"), (1, "B"), (2, None), (9, "C")])
    out = tmp_path / "submission.json"
    assert run(write_samples(tmp_path / "old.jsonl", [(1, "A"), (2, "B"), (3, "D")]), "--out", out).exit_code == 0
    old = out.read_text()
    result = run(samples, "--out", out)
    assert result.exit_code == 1
    assert "without a prediction: 2 (3 and 2); more than once: 1 (1); not in the split: 1 (9)" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert out.read_text() == old


@pytest.fixture
def both_splits(split):
    EGOPLAN.save("val", Dataset.from_dict({"sample_id": [7, 8]}), **SUMMARY)


@pytest.mark.usefixtures("both_splits")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("20250101_120000_samples_egoplan_val.jsonl", ()),
        ("samples_egoplan_val_clips_2025-01-01.jsonl", ()),
        ("predictions.jsonl", ("--split", "val")),
    ],
)
def test_submission_of_the_validation_split(tmp_path, name, arguments):
    samples = write_samples(tmp_path / name, [(8, "A"), (7, "C")])
    out = tmp_path / "submission.json"
    result = run(samples, "--out", out, *arguments)
    assert result.exit_code == 0, result.output
    assert "2 labels of the val split" in result.stdout
    assert json.loads(out.read_text()) == [{"sample_id": 7, "label": "C"}, {"sample_id": 8, "label": "A"}]


@pytest.mark.usefixtures("both_splits")
def test_predictions_of_the_other_split_are_told_which(tmp_path):
    samples = write_samples(tmp_path / "samples.jsonl", [(8, "A"), (7, "C")])
    result = run(samples, "--out", tmp_path / "submission.json")
    assert result.exit_code == 1
    assert "for the test split of 3 questions" in result.stderr
    assert "Are they of the val split? Then: --split val" in result.stderr


@pytest.mark.usefixtures("both_splits")
def test_a_name_that_tells_both_splits_needs_an_answer(tmp_path):
    samples = write_samples(tmp_path / "egoplan_test_and_egoplan_val.jsonl", [(8, "A"), (7, "C")])
    result = run(samples, "--out", tmp_path / "submission.json")
    assert result.exit_code == 1
    assert "tells both splits" in result.stderr
    assert run(samples, "--out", tmp_path / "submission.json", "--split", "val").exit_code == 0


def test_a_split_without_all_its_questions_is_no_submission(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    missing = [{"video_source": "Ego4D", "video": "v", "reason": "no such file", "sample_ids": [4, 9]}]
    summary = SUMMARY | {"split_size": 4, "missing": missing}
    EGOPLAN.save("val", Dataset.from_dict({"sample_id": [7, 8]}), **summary)
    samples = write_samples(tmp_path / "samples_egoplan_val.jsonl", [(8, "A"), (7, "C")])
    out = tmp_path / "submission.json"
    result = run(samples, "--out", out)
    assert result.exit_code == 1
    assert "2 of 4 were left out when it was prepared: sample_ids 2 (4 and 9)" in result.stderr
    assert not out.exists()


def test_split_not_prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    samples = write_samples(tmp_path / "samples.jsonl", [(1, "A")])
    result = run(samples, "--out", tmp_path / "submission.json", "--split", "val")
    assert result.exit_code == 1
    assert "lmms-egoplan data prepare egoplan EgoPlan_validation.json" in result.stderr


def test_help_has_an_example():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example:" in result.output


def test_predictions_file_is_read_like_samples(tmp_path):
    path = tmp_path / "submissions" / "predictions.jsonl"
    write_predictions(path, [{"sample_id": 1, "prediction": "A", "choices": []}, {"sample_id": 2, "prediction": None}])
    assert read_predictions(path) == [(1, "A"), (2, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no samples"),
        ("\n\n", "no samples"),
        ("{}", "line 1: no EgoPlan prediction"),
        ("[1]", "line 1: no EgoPlan prediction"),
        ('{"predictions": 3}', "line 1: no EgoPlan prediction"),
        ('{"sample_id": 1, "prediction": "A"}\n{', "line 2: no JSON"),
        ('{"sample_id": "1", "prediction": "A"}', "sample_id: expected an integer, found '1'"),
        ('{"sample_id": 1, "prediction": "AB"}', "prediction: expected A, B, C, D or null, found 'AB'"),
        ('{"sample_id": 1, "prediction": [1]}', "prediction: expected"),
    ],
)
def test_wrong_files_are_named(tmp_path, text, message):
    path = tmp_path / "samples.jsonl"
    path.write_text(text)
    with pytest.raises(LmmsEgoplanError, match=message) as error:
        read_predictions(path)
    assert str(path) in str(error.value)


def test_absent_file(tmp_path):
    with pytest.raises(LmmsEgoplanError, match="cannot read"):
        read_predictions(tmp_path / "absent.jsonl")


@given(st.binary() | st.text().map(str.encode))
def test_no_other_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError):
        read_predictions(path)


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from("ABCD") | st.none())), st.sets(st.integers(0, 6)))
def test_only_a_complete_submission_is_built(predictions, ids):
    complete = sorted(sample_id for sample_id, _ in predictions) == sorted(ids) and all(
        letter for _, letter in predictions
    )
    if complete:
        submission = build_submission(predictions, ids)
        assert {(entry["sample_id"], entry["label"]) for entry in submission} == set(predictions)
    else:
        with pytest.raises(LmmsEgoplanError):
            build_submission(predictions, ids)
