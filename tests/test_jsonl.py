"""Every reader rejects invalid JSON and duplicate keys, and names file and line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.actplan.plans import read_labelled_plans, read_plans
from lmms_egoplan.benchmarks.egointent.records import read_annotations as read_steps
from lmms_egoplan.benchmarks.egoplan.records import read_annotations as read_questions
from lmms_egoplan.benchmarks.egoplan.submission import read_predictions
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import (
    REPEATED,
    decode,
    decode_objects,
    read_json,
    read_lines,
    repeated_keys,
)
from lmms_egoplan.report.egothink.answer_files import read_stored


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("read", "text", "where"),
    [
        (
            lambda path: read_questions(path, "val"),
            '[{"sample_id": 7, "choice_a": "take", "choice_a": "take"}]',
            "record 0, sample_id 7, choice_a",
        ),
        (
            lambda path: read_questions(path, "test"),
            (
                '[{}, {"sample_id": 7, "task_progress_metadata": [{"start_frame": 1, '
                '"start_frame": 2}]}]'
            ),
            "record 1, sample_id 7, task_progress_metadata[0].start_frame",
        ),
        (lambda path: read_questions(path, "val"), '{"a": [{}], "a": [{}]}', "'a'"),
        (
            read_steps,
            '\n{"step_id": "s1", "event": 1, "event": 1}',
            "line 2, step_id 's1', 'event'",
        ),
        (
            read_labelled_plans,
            '{"path": "a", "gold_gpt": [], "gold_gpt": []}',
            "line 1: 'gold_gpt'",
        ),
        (read_plans, '{"id": "a", "candidate": "b", "candidate": "c"}', "line 1: 'candidate'"),
        (
            lambda path: read_stored([path]),
            '{"id": "existence/1", "answer": "a", "answer": "b"}',
            "line 1: 'answer'",
        ),
        (
            lambda path: read_stored([path]),
            '{"score": {"id": "existence/1", "rating": 1, "rating": 0, "answer": "b"}}',
            "line 1: 'score.rating'",
        ),
        (
            read_predictions,
            '{"sample_id": 1, "prediction": "A", "prediction": "B"}',
            "line 1: 'prediction'",
        ),
    ],
)
def test_a_repeated_key_is_refused(tmp_path, read, text, where):
    path = write(tmp_path / "20260101_samples_egointent.jsonl", text)
    with pytest.raises(LmmsEgoplanError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert f"{where}: {REPEATED}" in str(caught.value)


def test_a_repeated_key_in_egothinks_annotations_is_refused(tmp_path):
    source = write_source(tmp_path / "source")
    path = source / DIMENSIONS[1].folder / "annotations.json"
    path.write_text(path.read_text().replace('"question":', '"question": "Why?", "question":', 1))
    with pytest.raises(LmmsEgoplanError) as caught:
        check_records(read_folder(source))
    assert f"{path}, record 1, question: {REPEATED}" in str(caught.value)


def test_repeated_keys_at_any_depth():
    text = '{"a": 1, "b": [{"c": 1, "d": {"e": 1, "e": 1}}, {"c": 1, "c": 2, "c": 3}], "a": 2}'
    assert repeated_keys(decode_objects(text)) == ["a", "b[0].d.e", "b[1].c"]
    assert repeated_keys(decode_objects("[" * 900 + "]" * 900)) == []


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5)
        ),
        max_leaves=20,
    )
)
def test_other_json_is_read_like_json_loads(value):
    assert decode_objects(json.dumps(value)) == value
    assert repeated_keys(decode_objects(json.dumps(value))) == []


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe\xfd", "9" * 5000])
def test_invalid_json_is_a_value_error(text):
    for read in (decode, decode_objects):
        with pytest.raises(ValueError, match=r".") as caught:
            read(text)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (None, ["list"]),
        (b"caf\xe9", ["list", "UTF-8"]),
        (b"[1,", ["line 1 column 4 (char 3)", "make it again"]),
        (b"[" * 100_000, ["make it again"]),
    ],
)
def test_a_file_with_invalid_json_is_named(tmp_path, content, facts):
    path = tmp_path / "list.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError) as caught:
        read_json(path, "list", "make it again")
    assert all(fact in str(caught.value).removeprefix(f"{path}: ") for fact in facts)


def test_lines_are_numbered_as_an_editor_does(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\xef\xbb\xbf1\r\n\n \n4\r\n")
    lines = [(where, line.strip()) for where, line in read_lines(path)]
    assert lines == [(f"{path}, line 1", "1"), (f"{path}, line 4", "4")]
