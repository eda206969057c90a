import copy
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_record import RECORD
from lmms_egoplan.benchmarks.egoplan.records import read_annotations
from lmms_egoplan.errors import LmmsEgoplanError

EXAMPLES = Path(__file__).parents[4] / "shared" / "data" / "egoplan" / "examples.json"

# (what to change, where; the problem that must be named)
WRONG = [
    ({"sample_id": "7"}, "sample_id: expected an integer of 64 bits, found '7'"),
    ({"sample_id": True}, "sample_id: expected an integer of 64 bits, found True"),
    ({"sample_id": 2**70}, "sample_id: expected an integer of 64 bits"),
    ({"video_source": "YouTube"}, "video_source: expected 'EpicKitchens' or 'Ego4D', found 'YouTube'"),
    ({"video_source": ["Ego4D"]}, "video_source: expected"),
    ({"video_id": "../P01_02"}, "video_id: expected an identifier like P01_13, found '../P01_02'"),
    ({"video_id": "P01_02/.."}, "video_id: expected an identifier"),
    ({"video_id": "P01_02\n"}, "video_id: expected an identifier"),
    ({"video_id": "P01"}, "video_id: expected an identifier"),
    ({"video_id": "..", "video_source": "Ego4D"}, "video_id: expected an identifier like a UUID, found '..'"),
    ({"video_id": "/etc/passwd", "video_source": "Ego4D"}, "video_id: expected an identifier"),
    ({"task_goal": " "}, "task_goal: expected a text, found ' '"),
    ({"question": None}, "question: expected a text, found nothing"),
    ({"question": "\ud800"}, r"question: expected a text, found '\\ud800'"),
    ({"choice_c": ""}, "choice_c: expected a text, found ''"),
    ({"choice_c": "pour water "}, "choice_c: same as choice_b: 'pour water '"),
    ({"golden_choice_idx": "E"}, "golden_choice_idx: expected one of A, B, C, D, found 'E'"),
    ({"golden_choice_idx": None}, "golden_choice_idx: expected one of A, B, C, D, found nothing"),
    ({"answer": "wash cup"}, "answer: expected choice B, 'pour water', found 'wash cup'"),
    ({"current_observation_frame": 0}, "current_observation_frame: expected a frame number from 1, found 0"),
    ({"current_observation_frame": 90.0}, "current_observation_frame: expected a frame number"),
    ({"current_observation_frame": 20}, r"\[1\].start_frame: 30 lies after current_observation_frame, 20"),
    ({"task_progress_metadata": None}, "task_progress_metadata: expected a list, found nothing"),
    ({"task_progress_metadata": ["boil"]}, r"task_progress_metadata\[0\]: expected an object, found 'boil'"),
]
WRONG_ACTIONS = [
    (0, {"start_frame": 0}, r"\[0\].start_frame: expected a frame number from 1, found 0"),
    (0, {"start_frame": 50}, r"\[0\].stop_frame: expected a frame number from its start 50, found 40"),
    (0, {"start_frame": 35}, r"\[1\].start_frame: 30 lies before the action before it, at 35"),
    (1, {"stop_frame": "95"}, r"\[1\].stop_frame: expected a frame number from its start 30, found '95'"),
    (1, {"narration_text": 3}, r"\[1\].narration_text: expected a text, found 3"),
]


def write(folder, content):
    path = folder / "annotations.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_reads_a_list_or_an_object_with_a_list(tmp_path):
    contents = [
        [RECORD],
        {"EgoPlan_validation": [RECORD]},
        {"version": 1, "data": [RECORD]},
        {"EgoPlan_validation": [RECORD], "EgoPlan_IT": [{}]},
    ]
    for content in contents:
        (record,) = read_annotations(write(tmp_path, content), "val")
        assert record.sample_id == 7
        assert record.choices == ("fill kettle", "pour water", "open drawer", "wash cup")
        assert (record.golden_choice_idx, record.answer) == ("B", "pour water")
        assert record.past_actions[1].model_dump() == RECORD["task_progress_metadata"][1]


def test_order_is_told_beside_what_else_is_wrong(tmp_path):
    actions = [{"narration_text": "", "start_frame": start, "stop_frame": 900} for start in (9, 3, 500, "2", 1)]
    with pytest.raises(LmmsEgoplanError) as error:
        read_annotations(write(tmp_path, [RECORD | {"task_progress_metadata": actions}]), "val")
    told = str(error.value)
    assert told.count("narration_text: expected a text, found ''") == 5
    assert "[1].start_frame: 3 lies before the action before it, at 9" in told
    assert "[2].start_frame: 500 lies after current_observation_frame, 90" in told
    assert "[3].start_frame: expected a frame number from 1, found '2'" in told
    assert "[4].start_frame: 1 lies before the action before it, at 500" in told


def test_first_step_and_first_frames(tmp_path):
    ego4d = RECORD | {
        "sample_id": 8,
        "video_source": "Ego4D",
        "video_id": "0a1b-2c",
        "current_observation_frame": 0,
        "task_progress_metadata": [],
    }
    records = read_annotations(write(tmp_path, [ego4d, RECORD]), "val")
    assert records[0].past_actions == []
    assert [record.sample_id for record in records] == [8, 7]


def test_test_split_has_no_answers(tmp_path):
    private = {key: value for key, value in RECORD.items() if key not in ("golden_choice_idx", "answer")}
    for raw in (private, private | {"golden_choice_idx": None, "answer": None}, private | {"answer": " "}):
        (record,) = read_annotations(write(tmp_path, [raw]), "test")
        assert (record.golden_choice_idx, record.answer) == (None, None)
    for labels in ({"golden_choice_idx": "B"}, {"answer": "pour water"}, {"golden_choice_idx": 0}):
        with pytest.raises(LmmsEgoplanError) as error:
            read_annotations(write(tmp_path, [private, private | {"sample_id": 8} | labels]), "test")
        for fact in ("annotations.json", "record 1", "sample_id 8", *labels, "--split val"):
            assert fact in str(error.value)
    with pytest.raises(LmmsEgoplanError, match="--split test"):
        read_annotations(write(tmp_path, [private]), "val")
    with pytest.raises(LmmsEgoplanError, match="golden_choice_idx: expected one of A, B, C, D, found nothing"):
        read_annotations(write(tmp_path, [private]), "val")


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_wrong_field_is_named(tmp_path, change, message):
    path = write(tmp_path, [RECORD | {"sample_id": 1}, RECORD | change])
    with pytest.raises(LmmsEgoplanError, match=r"annotations.json: (.|\n)*record 1, sample_id .*, .*" + message):
        read_annotations(path, "val")


@pytest.mark.parametrize(("position", "change", "message"), WRONG_ACTIONS)
def test_wrong_action_is_named(tmp_path, position, change, message):
    raw = copy.deepcopy(RECORD)
    raw["task_progress_metadata"][position] |= change
    with pytest.raises(LmmsEgoplanError, match=r"record 0, sample_id 7, task_progress_metadata" + message):
        read_annotations(write(tmp_path, [raw]), "val")


def test_missing_fields_are_all_named(tmp_path):
    for field in RECORD:
        raw = {key: value for key, value in RECORD.items() if key != field}
        with pytest.raises(LmmsEgoplanError, match=f"{field}: .*found nothing"):
            read_annotations(write(tmp_path, [raw]), "val")


def test_all_problems_are_counted_and_twenty_listed(tmp_path):
    raws = [RECORD | {"sample_id": i, "question": ""} for i in range(30)] + [RECORD | {"sample_id": 3}, "x"]
    with pytest.raises(LmmsEgoplanError) as caught:
        read_annotations(write(tmp_path, raws), "val")
    lines = str(caught.value).splitlines()
    assert "annotations.json: 32 problems in 32 records; use --split test" in lines[0]
    assert lines[1] == "  record 0, sample_id 0, question: expected a text, found ''"
    assert len(lines) == 22
    assert lines[-1] == "  ... and 12 more"
    with pytest.raises(LmmsEgoplanError, match="record 1, sample_id 7, sample_id: already used by record 0"):
        read_annotations(write(tmp_path, [RECORD, RECORD]), "val")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("3", "expected a list of records"),
        ("{}", "expected a list of records"),
        ('{"a": [1], "b": [2]}', "expected a list of records"),
        ("[]", "the list of records is empty"),
        ('[{"image_path": ["1.jpg"], "question": "x", "answer": "y"}]', "this looks like EgoThink's annotation file"),
        ('[{"sample_id": "a", "choice_a": "x", "domain": "y"}]', "this looks like EgoPlan-Bench2's annotation file"),
        ('[{"step_id": "a", "local_intent": "x", "start_sec": 1}]', "this looks like EgoIntent's annotation file"),
        ('[{"sample_id": 1, "negative_answers": ["x"]}]', "this looks like EgoPlan-IT"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    with pytest.raises(LmmsEgoplanError, match=f"annotations.json: {message}"):
        read_annotations(write(tmp_path, content), "val")


def test_unreadable_files(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"absent.json: cannot read the annotations: No such file"):
        read_annotations(tmp_path / "absent.json", "val")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LmmsEgoplanError, match=r"binary.json: cannot read the annotations: no text in UTF-8"):
        read_annotations(tmp_path / "binary.json", "val")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from([*RECORD, "task_progress_metadata.start_frame", "task_progress_metadata.stop_frame"])


@settings(max_examples=150)
@given(field=fields, value=json_values, split=st.sampled_from(["val", "test"]))
def test_any_value_is_read_or_refused(tmp_path_factory, field, value, split):
    raw = copy.deepcopy(RECORD)
    field, _, inner = field.partition(".")
    if inner:
        raw[field][0][inner] = value
    else:
        raw[field] = value
    path = write(tmp_path_factory.getbasetemp(), [raw])
    try:
        (record,) = read_annotations(path, split)
    except LmmsEgoplanError:
        return
    assert len(set(record.choices)) == 4
    assert all(action.start_frame <= record.current_observation_frame for action in record.past_actions)
    if split == "val":
        assert record.answer == record.choices["ABCD".index(record.golden_choice_idx)]


def test_published_example():
    if not EXAMPLES.exists():
        pytest.skip(f"{EXAMPLES} is absent")
    (record,) = read_annotations(EXAMPLES, "val")
    assert (record.sample_id, record.video_id, record.golden_choice_idx) == (115, "P01_13", "A")
    assert record.past_actions[-1].narration_text == "open cupboard"
    assert (record.past_actions[-1].start_frame, record.past_actions[-1].stop_frame) == (689, 760)
