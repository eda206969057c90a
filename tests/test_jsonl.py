"""JSON that others made: what is none, or has a key more than once, is refused by every reader with file and line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.actplan.plans import read_labelled_plans, read_plans
from lmms_egoplan.benchmarks.egointent.records import read_annotations as read_steps
from lmms_egoplan.benchmarks.egoplan.records import read_annotations as read_questions
from lmms_egoplan.benchmarks.egoplan.submission import read_predictions
from lmms_egoplan.benchmarks.egothink.answer_files import read_stored
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, decode_objects, read_json, read_lines, repeated_keys

TWICE = "given more than once; remove all but one"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("read", "error", "text", "told"),
    [
        (
            lambda path: read_questions(path, "val"),
            LmmsEgoplanError,
            '[{"sample_id": 7, "choice_a": "take", "choice_a": "take"}]',
            f"record 0, sample_id 7, choice_a: {TWICE}",
        ),
        (
            lambda path: read_questions(path, "test"),
            LmmsEgoplanError,
            '[{}, {"sample_id": 7, "task_progress_metadata": [{"start_frame": 1, "start_frame": 2}]}]',
            f"record 1, sample_id 7, task_progress_metadata[0].start_frame: {TWICE}",
        ),
        (lambda path: read_questions(path, "val"), LmmsEgoplanError, '{"a": [{}], "a": [{}]}', f"'a': {TWICE}"),
        (
            read_steps,
            LmmsEgoplanError,
            '\n{"step_id": "s1", "event": 1, "event": 1}',
            f"line 2, step_id 's1', 'event': {TWICE}",
        ),
        (
            read_labelled_plans,
            LmmsEgoplanError,
            '{"path": "a", "gold_gpt": [], "gold_gpt": []}',
            f"line 1: 'gold_gpt': {TWICE}",
        ),
        (
            read_plans,
            LmmsEgoplanError,
            '{"id": "a", "candidate": "b", "candidate": "c"}',
            f"line 1: 'candidate': {TWICE}",
        ),
        (
            lambda path: read_stored([path]),
            LmmsEgoplanError,
            '{"id": "existence/1", "answer": "a", "answer": "b"}',
            f"line 1: 'answer': {TWICE}",
        ),
        (
            lambda path: read_stored([path]),
            LmmsEgoplanError,
            '{"score": {"id": "existence/1", "rating": 1, "rating": 0, "answer": "b"}}',
            f"line 1: 'score.rating': {TWICE}",
        ),
        (
            read_predictions,
            LmmsEgoplanError,
            '{"sample_id": 1, "prediction": "A", "prediction": "B"}',
            f"line 1: 'prediction': {TWICE}",
        ),
    ],
)
def test_a_repeated_key_is_refused(tmp_path, read, error, text, told):
    path = write(tmp_path / "20260101_samples_egointent.jsonl", text)
    with pytest.raises(error) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert told in str(caught.value)


def test_a_repeated_key_in_egothinks_annotations_is_refused(tmp_path):
    source = write_source(tmp_path / "source")
    path = source / DIMENSIONS[1].folder / "annotations.json"
    path.write_text(path.read_text().replace('"question":', '"question": "Why?", "question":', 1))
    with pytest.raises(LmmsEgoplanError) as caught:
        check_records(read_folder(source))
    assert f"{path}, record 1, question: {TWICE}" in str(caught.value)


def test_repeated_keys_at_any_depth():
    text = '{"a": 1, "b": [{"c": 1, "d": {"e": 1, "e": 1}}, {"c": 1, "c": 2, "c": 3}], "a": 2}'
    assert repeated_keys(decode_objects(text)) == ["a", "b[0].d.e", "b[1].c"]
    assert repeated_keys(decode_objects("[" * 900 + "]" * 900)) == []


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
        max_leaves=20,
    )
)
def test_other_json_is_read_as_ever(value):
    assert decode_objects(json.dumps(value)) == value
    assert repeated_keys(decode_objects(json.dumps(value))) == []


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, b"\xff\xfe\xfd", "9" * 5000])
def test_what_is_no_json_is_a_value_error(text):
    for read in (decode, decode_objects):
        with pytest.raises(ValueError, match=r".") as caught:
            read(text)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot read the list: No such file or directory"),
        (b"caf\xe9", "cannot read the list: no text in UTF-8: "),
        (b"[1,", "no JSON: Expecting value: line 1 column 4 (char 3); make it again"),
        (b"[" * 100_000, "no JSON: nested too deeply; make it again"),
    ],
)
def test_a_file_that_is_no_json_is_named(tmp_path, content, problem):
    path = tmp_path / "list.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LmmsEgoplanError) as caught:
        read_json(path, "list", "make it again")
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_lines_are_numbered_as_an_editor_does(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\xef\xbb\xbf1\r\n\n \n4\r\n")
    lines = [(where, line.strip()) for where, line in read_lines(path)]
    assert lines == [(f"{path}, line 1", "1"), (f"{path}, line 4", "4")]
