"""Test EgoIntent's annotations: file formats, keys, and refused records."""

import csv
import json
import re
import string
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

from benchmarks.egointent.source import raw_record, raw_records, write_annotations, write_videos
from lmms_egoplan.benchmarks.egointent.annotation_files import load, mapping_lines
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egointent.prompts import RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.records import (
    FORMAT,
    Record,
    needed_videos,
    read_annotations,
)
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import load_summary

PREPARE = ["data", "prepare", "egointent"]
RELEASE_KEYS = {"global_intent": "Procedural Intent", "next_step_plan": "next_step"}
VARIANT_KEYS = RELEASE_KEYS | {
    "step_id": "sample_id",
    "video_id": "video_uid",
    "start_sec": "start",
    "end_sec": "end",
}


def renamed(records, names):
    return [{names.get(key, key): value for key, value in record.items()} for record in records]


def write_json(path, records):
    path.write_text(json.dumps(records))


def write_object(path, records):
    path.write_text(json.dumps({"version": "2026-08", "steps": records}, indent=1))


def write_lines(path, records):
    write_annotations(path, records)


def write_csv(path, records):
    with path.open("w", newline="", encoding="utf-8-sig") as lines:
        writer = csv.DictWriter(lines, {key: None for record in records for key in record})
        writer.writeheader()
        writer.writerows(records)


def write_parquet(path, records):
    keys = {key: None for record in records for key in record}
    parquet.write_table(
        pyarrow.table({key: [record.get(key) for record in records] for key in keys}), path
    )


FORMS = {
    "steps.json": write_json,
    "object.json": write_object,
    "steps.jsonl": write_lines,
    "steps.csv": write_csv,
    "steps.parquet": write_parquet,
}


@pytest.mark.parametrize(
    "keys", [{}, RELEASE_KEYS, VARIANT_KEYS], ids=["format", "release", "variants"]
)
@pytest.mark.parametrize("name", FORMS)
def test_all_file_formats_give_the_same_records(tmp_path, name, keys):
    expected = read_annotations(write_annotations(tmp_path / "expected.jsonl", raw_records()))
    FORMS[name](tmp_path / name, renamed(raw_records(), keys))
    assert read_annotations(tmp_path / name) == expected


@pytest.mark.parametrize("name", ["steps.csv", "steps.parquet"])
def test_numeric_ids_in_tables_become_texts(tmp_path, name):
    FORMS[name](tmp_path / name, [raw_record(number, step_id=number) for number in (1, 2)])
    assert [record.step_id for record in read_annotations(tmp_path / name)] == ["1", "2"]


def test_key_of_the_format_has_priority_over_variants(tmp_path):
    write_lines(
        tmp_path / "a.jsonl", [raw_record(1, id=7, video="other.mp4", start="never", next=3)]
    )
    (record,) = read_annotations(tmp_path / "a.jsonl")
    assert (record.step_id, record.start_sec) == ("s1", 0.5)


def test_error_names_keys_with_different_values_for_one_field(tmp_path):
    record = renamed([raw_record(1)], {"step_id": "id"})[0] | {"sample_id": "other"}
    write_lines(tmp_path / "a.jsonl", [record])
    with pytest.raises(
        LmmsEgoplanError, match=r"line 1, .*step_id: .*'id'.*'sample_id'.*'s1'.*'other'"
    ):
        read_annotations(tmp_path / "a.jsonl")
    write_lines(tmp_path / "a.jsonl", [raw_record(1, procedural_intent="another purpose")])
    with pytest.raises(
        LmmsEgoplanError, match=r"global_intent: .*'global_intent'.*'procedural_intent'"
    ):
        read_annotations(tmp_path / "a.jsonl")


def test_folder_with_two_tables_of_steps_is_refused(tmp_path):
    write_json(tmp_path / "meta.json", [{"video_id": "a", "fps": 30}])
    (tmp_path / ".cache").mkdir()
    write_lines(tmp_path / ".cache" / "old.jsonl", raw_records())
    (tmp_path / "data").mkdir()
    records = raw_records()
    write_parquet(tmp_path / "data" / "test-00000-of-00002.parquet", records[:3])
    write_parquet(tmp_path / "data" / "test-00001-of-00002.parquet", records[3:])
    assert [record.step_id for record in read_annotations(tmp_path)] == [
        f"s{i}" for i in range(1, 7)
    ]
    assert load(tmp_path)[4].location == "data/test-00001-of-00002.parquet, row 2"
    write_csv(tmp_path / "steps.csv", records)
    with pytest.raises(LmmsEgoplanError) as error:
        read_annotations(tmp_path)
    assert all(
        fact in str(error.value)
        for fact in (str(tmp_path), "data/test.parquet: 6 ", "steps.csv: 6 ")
    )
    (tmp_path / "steps.csv").unlink()
    (tmp_path / "data" / "test-00000-of-00002.parquet").unlink()
    with pytest.raises(LmmsEgoplanError, match=r"data/test.parquet .*1 of 00002"):
        read_annotations(tmp_path)


def test_folder_without_steps_names_the_missing_fields(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"clip": "x.mp4", "local_intent": "a"}])
    with pytest.raises(LmmsEgoplanError) as error:
        read_annotations(tmp_path)
    assert (
        "a.jsonl: no video_id, start_sec, end_sec, global_intent, next_step_plan; keys: "
        "'clip', 'local_intent'"
    ) in str(error.value)
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(LmmsEgoplanError, match=r"\.json, "):
        read_annotations(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "step_id,video_id\na\n", "line 2: 1 cells under 2 columns"),
        ("a.csv", "step_id\n" + "9" * 200_000, "after line 1: "),
        ("a.csv", "", "no records"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
        ("a.json", '{"a": [1], "b": [2]}', "'a', 'b'"),
        ("a.json", '{"a":\n 1}', "line 1: not valid JSON"),
    ],
)
def test_damaged_table_names_file_and_problem(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    with pytest.raises(LmmsEgoplanError) as error:
        read_annotations(tmp_path / name)
    assert problem in str(error.value)
    assert str(tmp_path / name) in str(error.value)


def test_prepare_prints_the_key_of_each_field(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    (tmp_path / "release").mkdir()
    write_csv(tmp_path / "release" / "steps.csv", renamed([raw_record(1, clip_id=5)], VARIANT_KEYS))
    lines = mapping_lines(load(tmp_path / "release"), Record.model_fields)
    assert "step_id: sample_id (1)" in lines
    assert "global_intent: Procedural Intent (1)" in lines
    assert lines[-1] == "ignored: clip_id"
    write_videos(tmp_path / "videos")
    result = CliRunner().invoke(
        app, [*PREPARE, str(tmp_path / "release"), "--videos", str(tmp_path / "videos")]
    )
    assert result.exit_code == 0, result.output
    assert "  end_sec: end (1)" in result.stdout
    result = CliRunner().invoke(app, [*PREPARE, "--videos", str(tmp_path / "videos")])
    assert result.exit_code == 2
    assert "FILE|DIR|hub" in result.stderr


def test_local_folder_named_hub_needs_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    videos = str(write_videos(tmp_path / "videos"))
    (tmp_path / "hub").mkdir()
    write_annotations(tmp_path / "hub" / "steps.jsonl", raw_records())
    result = CliRunner().invoke(app, [*PREPARE, "./hub", "--videos", videos])
    assert result.exit_code == 0, result.output
    assert load_summary("egointent", "test")["annotations"] == str(tmp_path / "hub")
    result = CliRunner().invoke(app, [*PREPARE, "hub", "--videos", videos])
    assert result.exit_code == 1
    assert "py2279105943/EgoIntent" in result.stderr


def test_unreachable_hub_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        LmmsEgoplanError, match=r"py2279105943/EgoIntent: [\s\S]*data prepare egointent DIR"
    ):
        prepare_egointent("hub", tmp_path)


def test_cached_hub_dataset_is_read_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    repository = tmp_path / "hub" / "datasets--py2279105943--EgoIntent"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    write_lines(snapshot / "steps.jsonl", raw_records())
    summary = prepare_egointent("hub", write_videos(tmp_path / "videos"))
    assert (summary["annotations"], summary["questions"]) == ("py2279105943/EgoIntent", 6)


def test_list_writes_video_ids_and_prints_hours(tmp_path):
    path = write_annotations(tmp_path / "a.jsonl", raw_records())
    assert needed_videos(read_annotations(path)) == {
        "0a1b-2c": pytest.approx(1.9),
        "kitchen.3": pytest.approx(1.2),
    }
    out = tmp_path / "ids.txt"
    result = CliRunner().invoke(app, ["data", "list", "egointent", str(path), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert Path(out).read_text() == "0a1b-2c\nkitchen.3\n"
    assert all(fact in result.stdout for fact in ("2 videos", "6 steps", "0.00 hours", str(out)))


# Changes to a record, and facts that the message must contain.
WRONG = [
    ({"step_id": 7}, "step_id 7, step_id: ... found 7"),
    ({"step_id": " "}, "step_id: ... found ' '"),
    ({"step_id": "a\nb"}, r"step_id: ... found 'a\nb'"),
    ({"step_id": "\ud800"}, r"step_id: ... found '\ud800'"),
    ({"video_id": "../v"}, "step_id 's1', video_id:"),
    ({"video_id": "a/b"}, "video_id:"),
    ({"video_id": "v\n"}, "video_id: expected"),
    ({"video_id": ""}, "video_id: expected"),
    ({"video_id": None}, "video_id:"),
    ({"start_sec": "1"}, "start_sec: ... found '1'"),
    ({"start_sec": -0.5}, "start_sec: ... found -0.5"),
    ({"start_sec": True}, "start_sec: ... found True"),
    ({"end_sec": float("nan")}, "end_sec: ... found nan"),
    ({"end_sec": float("inf")}, "end_sec: ... found inf"),
    ({"end_sec": 10**400}, "end_sec: ... found 1000"),
    ({"end_sec": 0.5}, "end_sec: ... found 0.5"),
    ({"end_sec": 0}, "end_sec: ... found 0"),
    ({"start_sec": 2**53, "end_sec": 2**53 + 1}, "end_sec:"),
    ({"local_intent": " "}, "local_intent: ... found ' '"),
    ({"global_intent": None}, "global_intent: ... found nothing"),
    ({"next_step_plan": ["a"]}, "next_step_plan: ... found ['a']"),
    ({"next_step_plan": "\udc00"}, r"next_step_plan: ... found '\udc00'"),
    ({"scenario": ""}, "scenario: ... found ''"),
    ({"environment": "kitchen"}, "environment: ... found 'kitchen'"),
    ({"environment": ["indoor"]}, "environment:"),
    ({"event": 3}, "event: ... found 3"),
    ({"goal": ""}, "goal: ... found ''"),
    ({"unverified": "yes"}, "unverified: ... found 'yes'"),
    ({"unverified": None}, "unverified: ... found nothing"),
    ({"Global Intent": "something else"}, "global_intent: ... 'global_intent' ... 'Global Intent'"),
    (
        {"procedural-intent": "something else"},
        "global_intent: ... 'assemble frame 1' ... 'something else'",
    ),
    ({"next step": "something else"}, "next_step_plan: ... 'next_step_plan' ... 'next step'"),
    ({"START_SEC": 0.4}, "start_sec: ... 'START_SEC'"),
]


def read(folder, content):
    path = folder / "steps.json"
    path.write_text(content, encoding="utf-8")
    return read_annotations(path)


def test_reads_lines_and_lists(tmp_path):
    records = read_annotations(write_annotations(tmp_path / "steps.jsonl", raw_records()))
    assert records[0] == Record(
        step_id="s1",
        video_id="0a1b-2c",
        start_sec=0.5,
        end_sec=0.9,
        local_intent="hold board 1 steady",
        global_intent="assemble frame 1",
        next_step_plan="drive screw 1 in",
        scenario="Assemble Furniture",
        environment="indoor",
        event="Build Shelf",
        goal="put up a shelf",
        unverified=False,
    )
    assert [record.environment for record in records] == ["indoor"] * 4 + ["outdoor"] * 2
    assert [record.unverified for record in records] == [False] * 5 + [True]
    assert (records[2].event, records[2].goal) == (None, None)
    indented = json.dumps(raw_records(), indent=2)
    for text in (indented, "\ufeff\n " + indented, "\r\n\r\n".join(map(json.dumps, raw_records()))):
        assert read(tmp_path, text) == records


def test_line_separators_inside_texts_do_not_end_a_line(tmp_path):
    (record,) = read(
        tmp_path, json.dumps(raw_record(local_intent="a\u2028b\x85c"), ensure_ascii=False)
    )
    assert record.local_intent == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("local_intent", "Local Intent"),
        ("local_intent", " local-intent "),
        ("global_intent", "procedural intent"),
        ("global_intent", "Procedural_Intent"),
        ("next_step_plan", "Next Plan"),
        ("next_step_plan", "next_step"),
        ("next_step_plan", "Next-step Plan"),
        ("end_sec", "End Sec"),
        ("step_id", "STEP_ID"),
    ],
)
def test_alternative_keys_are_read(tmp_path, field, key):
    raw = raw_record()
    raw[key] = raw.pop(field)
    assert read(tmp_path, json.dumps(raw)) == read(tmp_path, json.dumps(raw_record()))
    raw[field] = raw[key]
    assert read(tmp_path, json.dumps(raw)) == read(tmp_path, json.dumps(raw_record()))


def test_only_optional_fields_may_be_missing(tmp_path):
    optional = {"event", "goal", "unverified", "scenario", "environment"}
    for field in raw_record():
        raw = raw_record()
        del raw[field]
        if field in optional:
            assert not getattr(read(tmp_path, json.dumps(raw))[0], field)
        else:
            with pytest.raises(LmmsEgoplanError, match=f" {field}: .*found nothing"):
                read(tmp_path, json.dumps(raw))


def test_blanks_are_dropped_and_other_keys_ignored(tmp_path):
    raw = raw_record(
        local_intent=" hold it\n",
        environment=" INDOOR ",
        narration="#C C holds a board",
        scenario="a ",
    )
    (record,) = read(tmp_path, json.dumps(raw))
    assert (record.local_intent, record.environment, record.scenario) == ("hold it", "indoor", "a")


@pytest.mark.parametrize(("changes", "problem"), WRONG)
def test_error_names_record_field_and_value(tmp_path, changes, problem):
    for text, location in (
        (
            json.dumps(raw_record(2)) + "\n\n" + json.dumps(raw_record() | changes),
            "line 3, step_id ",
        ),
        (json.dumps([raw_record(2), raw_record() | changes]), "record 2, step_id "),
    ):
        with pytest.raises(LmmsEgoplanError) as error:
            read(tmp_path, text)
        message = str(error.value)
        assert message.startswith(f"{tmp_path / 'steps.json'}: 1 problem(s) in 2 records")
        assert location in message
        assert all(fact in message for fact in problem.split(" ... "))


def test_duplicate_key_in_a_record_is_refused(tmp_path):
    text = json.dumps(raw_record())[:-1] + ', "goal": "another"}'
    with pytest.raises(LmmsEgoplanError, match="line 1, step_id 's1', 'goal'"):
        read(tmp_path, text)


def test_step_ids_are_unique(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"record 3, step_id 's1', step_id: .*record 1"):
        read(tmp_path, json.dumps([raw_record(1), raw_record(2), raw_record(1)]))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ": no records"),
        ("[]", ": no records"),
        ("[{", "JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "record 1: ... found 1"),
        ("{}\n{", "line 2: ... JSON"),
        ("step_id,video_id", "line 1: ... JSON"),
        ("9" * 5000, "line 1: ... JSON"),
    ],
)
def test_damaged_file_names_file_and_line(tmp_path, content, problem):
    with pytest.raises(LmmsEgoplanError) as error:
        read(tmp_path, content)
    assert str(error.value).startswith(f"{tmp_path / 'steps.json'}: ")
    assert all(fact in str(error.value) for fact in problem.split(" ... "))


def test_unreadable_file_names_the_cause(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"absent: .*No such file"):
        read_annotations(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with pytest.raises(LmmsEgoplanError, match=r"latin: .*UTF-8"):
        read_annotations(tmp_path / "latin")


def test_at_most_20_problems_are_listed(tmp_path):
    with pytest.raises(
        LmmsEgoplanError, match=r"30 problem\(s\) in 30 records(.|\n)*\.\.\. and 10 more"
    ) as error:
        read(tmp_path, json.dumps([raw_record(number, scenario=3) for number in range(30)]))
    assert str(error.value).count("scenario: ") == 20


def test_goalstep_steps_have_a_category_and_no_scenario(tmp_path):
    raw = raw_record(category=" make tea ")
    del raw["scenario"]
    (record,) = read(tmp_path, json.dumps([raw]))
    assert (record.category, record.scenario, record.is_goalstep) == ("make tea", None, True)
    (record,) = read(tmp_path, json.dumps([raw_record(category=3)]))
    assert (record.category, record.scenario, record.is_goalstep) == (
        None,
        "Assemble Furniture",
        False,
    )
    with pytest.raises(LmmsEgoplanError, match=r"category: .*found 3"):
        read(tmp_path, json.dumps([raw | {"category": 3}]))


def test_file_with_both_kinds_of_steps_is_refused(tmp_path):
    mixed = [raw_record(1), raw_record(2), raw_record(3, scenario=None, category="make tea")]
    with pytest.raises(LmmsEgoplanError, match=r"category.*'s3'.*scenario.*'s1'"):
        read(tmp_path, json.dumps(mixed))


def test_documented_example_is_read(tmp_path):
    (example,) = re.findall("```json\n(.*?)```", FORMAT.read_text(encoding="utf-8"), re.DOTALL)
    (record,) = read(tmp_path, f"[{example}]")
    fields = {RELEASE_NAMES.get(name, name) for name in Record.model_fields}
    assert set(json.loads(example)) == fields - {"category"}
    assert (record.step_id, record.environment, record.unverified) == (
        "7ae1d2c4_12",
        "indoor",
        False,
    )


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from([*raw_record(), "procedural intent", "Next-Plan", "unverified"]) | st.text(
    string.printable
)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(KEYS, JSON_VALUES, max_size=3), max_size=3), st.booleans())
def test_any_file_is_read_or_gives_one_error(tmp_path_factory, changes, as_lines):
    raws = [raw_record(number) | change for number, change in enumerate(changes, 1)]
    path = tmp_path_factory.mktemp("any") / "steps"
    path.write_text("\n".join(map(json.dumps, raws)) if as_lines else json.dumps(raws))
    try:
        records = read_annotations(path)
    except LmmsEgoplanError as error:
        records, message = [], str(error)
    if not records:
        assert message.startswith(f"{path}: ")
        return
    assert len(records) == len(raws) > 0
    for record in records:
        assert 0 <= record.start_sec < record.end_sec < float("inf")
        assert record.environment in ("indoor", "outdoor", None)
        texts = (record.local_intent, record.global_intent, record.scenario or "unknown")
        assert all(text == text.strip() != "" for text in texts)


@pytest.mark.parametrize("new_fields", [{}, {"environment": "x"}])
def test_step_id_that_contains_a_label_is_refused(tmp_path, new_fields):
    records = [
        raw_record(1, step_id="Hold_board 1-steady 7", **new_fields),
        raw_record(2, step_id="a2"),
    ]
    with pytest.raises(LmmsEgoplanError, match=r"step_id: .*local_intent"):
        read_annotations(write_annotations(tmp_path / "steps.jsonl", records))


@pytest.mark.parametrize("absent", [["scenario"], ["environment"], ["scenario", "environment"]])
def test_place_may_be_unknown(tmp_path, absent):
    without = {key: value for key, value in raw_record(1).items() if key not in absent}
    path = write_annotations(
        tmp_path / "steps.jsonl", [without, raw_record(2, **dict.fromkeys(absent))]
    )
    for record in read_annotations(path):
        assert [
            name for name in ("scenario", "environment") if getattr(record, name) is None
        ] == absent
        assert not record.is_goalstep
