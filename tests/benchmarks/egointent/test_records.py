import json
import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.egointent.source import raw_record, raw_records, write_annotations
from lmms_egoplan.benchmarks.egointent.protocol import RELEASE_NAMES
from lmms_egoplan.benchmarks.egointent.records import FORMAT, Record, read_annotations
from lmms_egoplan.errors import LmmsEgoplanError

# (what to change; facts that the message must contain, between dots)
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
    ({"procedural-intent": "something else"}, "global_intent: ... 'assemble frame 1' ... 'something else'"),
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


def test_line_separators_inside_texts_end_no_line(tmp_path):
    (record,) = read(tmp_path, json.dumps(raw_record(local_intent="a\u2028b\x85c"), ensure_ascii=False))
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
def test_other_names_of_keys(tmp_path, field, key):
    raw = raw_record()
    raw[key] = raw.pop(field)
    assert read(tmp_path, json.dumps(raw)) == read(tmp_path, json.dumps(raw_record()))
    raw[field] = raw[key]
    assert read(tmp_path, json.dumps(raw)) == read(tmp_path, json.dumps(raw_record()))


def test_only_the_optional_may_be_absent(tmp_path):
    optional = {"event", "goal", "unverified", "scenario", "environment"}
    for field in raw_record():
        raw = raw_record()
        del raw[field]
        if field in optional:
            assert not getattr(read(tmp_path, json.dumps(raw))[0], field)
        else:
            with pytest.raises(LmmsEgoplanError, match=f" {field}: .*found nothing"):
                read(tmp_path, json.dumps(raw))


def test_blanks_are_dropped_and_other_keys_left_out(tmp_path):
    raw = raw_record(local_intent=" hold it\n", environment=" INDOOR ", narration="#C C holds a board", scenario="a ")
    (record,) = read(tmp_path, json.dumps(raw))
    assert (record.local_intent, record.environment, record.scenario) == ("hold it", "indoor", "a")


@pytest.mark.parametrize(("changes", "problem"), WRONG)
def test_wrong_records_are_named(tmp_path, changes, problem):
    for text, place in (
        (json.dumps(raw_record(2)) + "\n\n" + json.dumps(raw_record() | changes), "line 3, step_id "),
        (json.dumps([raw_record(2), raw_record() | changes]), "record 2, step_id "),
    ):
        with pytest.raises(LmmsEgoplanError) as caught:
            read(tmp_path, text)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path / 'steps.json'}: 1 problem(s) in 2 records")
        assert place in message
        assert all(fact in message for fact in problem.split(" ... "))


def test_equal_keys_with_different_values(tmp_path):
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
        ("[{", ": no JSON: "),
        ("[" * 100_000, ": no JSON: nested too deeply"),
        ("[1]", "record 1: ... found 1"),
        ("{}\n{", "line 2: no JSON: "),
        ("step_id,video_id", "line 1: no JSON: "),
        ("9" * 5000, "line 1: no JSON: "),
    ],
)
def test_wrong_files(tmp_path, content, problem):
    with pytest.raises(LmmsEgoplanError) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / 'steps.json'}: ")
    assert all(fact in str(caught.value) for fact in problem.split(" ... "))


def test_unreadable_files(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"absent: .*No such file"):
        read_annotations(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"\xff\xfe")
    with pytest.raises(LmmsEgoplanError, match=r"latin: .*UTF-8"):
        read_annotations(tmp_path / "latin")


def test_long_lists_of_problems_are_cut(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"30 problem\(s\) in 30 records(.|\n)*\.\.\. and 10 more") as caught:
        read(tmp_path, json.dumps([raw_record(number, scenario=3) for number in range(30)]))
    assert str(caught.value).count("scenario: ") == 20


def test_goalstep_steps_have_a_category_and_no_scenario(tmp_path):
    raw = raw_record(category=" make tea ")
    del raw["scenario"]
    (record,) = read(tmp_path, json.dumps([raw]))
    assert (record.category, record.scenario, record.is_goalstep) == ("make tea", None, True)
    (record,) = read(tmp_path, json.dumps([raw_record(category=3)]))
    assert (record.category, record.scenario, record.is_goalstep) == (None, "Assemble Furniture", False)
    with pytest.raises(LmmsEgoplanError, match=r"category: .*found 3"):
        read(tmp_path, json.dumps([raw | {"category": 3}]))


def test_a_file_holds_the_benchmarks_steps_or_goalsteps(tmp_path):
    mixed = [raw_record(1), raw_record(2), raw_record(3, scenario=None, category="make tea")]
    with pytest.raises(LmmsEgoplanError, match=r"category.*'s3'.*scenario.*'s1'"):
        read(tmp_path, json.dumps(mixed))


def test_the_documented_example(tmp_path):
    (example,) = re.findall("```json\n(.*?)```", FORMAT.read_text(encoding="utf-8"), re.DOTALL)
    (record,) = read(tmp_path, f"[{example}]")
    fields = {RELEASE_NAMES.get(name, name) for name in Record.model_fields}
    assert set(json.loads(example)) == fields - {"category"}
    assert (record.step_id, record.environment, record.unverified) == ("7ae1d2c4_12", "indoor", False)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.text(max_size=3), below, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from([*raw_record(), "procedural intent", "Next-Plan", "unverified"]) | st.text(string.printable)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(KEYS, JSON_VALUES, max_size=3), max_size=3), st.booleans())
def test_anything_gives_records_or_one_error(tmp_path_factory, changes, as_lines):
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


@pytest.mark.parametrize("more", [{}, {"environment": "x"}])
def test_a_step_id_must_not_tell_the_labels(tmp_path, more):
    records = [raw_record(1, step_id="Hold_board 1-steady 7", **more), raw_record(2, step_id="a2")]
    with pytest.raises(LmmsEgoplanError, match=r"step_id: .*local_intent"):
        read_annotations(write_annotations(tmp_path / "steps.jsonl", records))


@pytest.mark.parametrize("absent", [["scenario"], ["environment"], ["scenario", "environment"]])
def test_a_place_may_be_unknown(tmp_path, absent):
    without = {key: value for key, value in raw_record(1).items() if key not in absent}
    path = write_annotations(tmp_path / "steps.jsonl", [without, raw_record(2, **dict.fromkeys(absent))])
    for record in read_annotations(path):
        assert [name for name in ("scenario", "environment") if getattr(record, name) is None] == absent
        assert not record.is_goalstep
