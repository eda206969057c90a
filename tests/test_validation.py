"""A key that is more than once in a record is refused by every reader of records, which names file, record and key."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.actplan.answer_files import read_plans
from lmms_egoplan.benchmarks.actplan.labelled_plans import read_published
from lmms_egoplan.benchmarks.egointent.answer_files import read_runs as read_logged
from lmms_egoplan.benchmarks.egointent.goalstep import build_records
from lmms_egoplan.benchmarks.egointent.records import read_annotations as read_steps
from lmms_egoplan.benchmarks.egoplan.records import read_annotations as read_questions
from lmms_egoplan.benchmarks.egoplan.submission import read_predictions
from lmms_egoplan.benchmarks.egothink.answer_files import read_stored
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.validation import read_json, repeated_keys

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
            read_published,
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
        (
            lambda path: build_records(path, path.parent, 0.5),
            LmmsEgoplanError,
            '{"videos": [{"video_uid": "a", "segments": [{"start_time": 1, "start_time": 2}]}]}',
            f"video 1, segments[0].start_time: {TWICE}",
        ),
        (
            lambda path: read_logged([path.parent]),
            LmmsEgoplanError,
            '{"overall": {"scenario": "cooking", "scenario": "cleaning"}}',
            f"line 1: 'overall.scenario': {TWICE}",
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
    assert f"{path}, record 1, 'question': {TWICE}" in str(caught.value)


def test_repeated_keys_at_any_depth():
    text = '{"a": 1, "b": [{"c": 1, "d": {"e": 1, "e": 1}}, {"c": 1, "c": 2, "c": 3}], "a": 2}'
    assert repeated_keys(read_json(text)) == ["a", "b[0].d.e", "b[1].c"]
    assert repeated_keys(read_json("[" * 900 + "]" * 900)) == []


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
        max_leaves=20,
    )
)
def test_other_json_is_read_as_ever(value):
    assert read_json(json.dumps(value)) == value
    assert repeated_keys(read_json(json.dumps(value))) == []
