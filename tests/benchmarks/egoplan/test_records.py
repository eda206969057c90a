"""Test the records of both benchmarks: published examples, and malformed records."""

import copy
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.egoplan.bench2_questions import EXAMPLES, example
from example_record import RECORD
from lmms_egoplan.benchmarks.egoplan.records import (
    DOMAINS,
    read_annotations,
    read_bench2_annotations,
)
from lmms_egoplan.errors import LmmsEgoplanError

needs_examples = pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the public records")

# Changes to a record, and the field with the value or expectation that the message must name.
WRONG = [
    ({"sample_id": "7"}, "sample_id: .*64 bits.*'7'"),
    ({"sample_id": True}, "sample_id: .*True"),
    ({"sample_id": 2**70}, "sample_id: .*64 bits"),
    ({"video_source": "YouTube"}, "video_source: .*'EpicKitchens'.*'Ego4D'.*'YouTube'"),
    ({"video_source": ["Ego4D"]}, "video_source: "),
    ({"video_id": "../P01_02"}, "video_id: .*P01_13.*'../P01_02'"),
    ({"video_id": "P01_02/.."}, "video_id: "),
    ({"video_id": "P01_02\n"}, "video_id: "),
    ({"video_id": "P01"}, "video_id: "),
    ({"video_id": "..", "video_source": "Ego4D"}, "video_id: .*UUID.*'..'"),
    ({"video_id": "/etc/passwd", "video_source": "Ego4D"}, "video_id: "),
    ({"task_goal": " "}, "task_goal: .*' '"),
    ({"question": None}, "question: .*nothing"),
    ({"question": "\ud800"}, r"question: .*'\\ud800'"),
    ({"choice_c": ""}, "choice_c: .*''"),
    ({"choice_c": "pour water "}, "choice_c: .*choice_b: 'pour water '"),
    ({"golden_choice_idx": "E"}, "golden_choice_idx: .*A, B, C, D.*'E'"),
    ({"golden_choice_idx": None}, "golden_choice_idx: .*nothing"),
    ({"answer": "wash cup"}, "answer: .*B, 'pour water'.*'wash cup'"),
    ({"current_observation_frame": 0}, "current_observation_frame: .*from 1.* 0"),
    ({"current_observation_frame": 90.0}, "current_observation_frame: .*90.0"),
    ({"current_observation_frame": 20}, r"\[1\].start_frame: 30.*current_observation_frame, 20"),
    ({"task_progress_metadata": None}, "task_progress_metadata: .*list.*nothing"),
    ({"task_progress_metadata": ["boil"]}, r"task_progress_metadata\[0\]: .*object.*'boil'"),
]
WRONG_ACTIONS = [
    (0, {"start_frame": 0}, r"\[0\].start_frame: .*from 1.* 0"),
    (0, {"start_frame": 50}, r"\[0\].stop_frame: .* 50.* 40"),
    (0, {"start_frame": 35}, r"\[1\].start_frame: 30 .* 35"),
    (1, {"stop_frame": "95"}, r"\[1\].stop_frame: .* 30.*'95'"),
    (1, {"narration_text": 3}, r"\[1\].narration_text: .* 3"),
]
WRONG_BENCH2 = [
    ({"domain": "Sports"}, "domain: .*Daily life, Work, Hobbies, Recreation.*'Sports'"),
    ({"domain": None}, "domain: "),
    ({"scenario": " "}, "scenario: "),
    ({"sample_id": 7}, "sample_id: .* 7"),
    ({"sample_id": "../x_1"}, "sample_id: "),
    ({"sample_id": "a/b_1"}, "sample_id: "),
    ({"task_start_frame": 657}, "task_start_frame: .*from 0 to current_observation_frame"),
    ({"task_start_frame": -1}, "task_start_frame: "),
    ({"task_start_frame": True}, "task_start_frame: "),
    ({"task_start_frame": None}, "task_start_frame: "),
    ({"answer": "place oven tray"}, "answer: .*A, 'attach stopwatch'"),
    ({"golden_choice_idx": "E"}, "golden_choice_idx: .*A, B, C, D"),
    ({"choice_b": "attach stopwatch"}, "choice_b: .*choice_a"),
    ({"task_goal": ""}, "task_goal: "),
    ({"video_source": "EpicKitchens"}, "video_source: .*'Ego4D'"),
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


def test_order_problems_are_reported_with_other_problems(tmp_path):
    actions = [
        {"narration_text": "", "start_frame": start, "stop_frame": 900}
        for start in (9, 3, 500, "2", 1)
    ]
    with pytest.raises(LmmsEgoplanError) as error:
        read_annotations(write(tmp_path, [RECORD | {"task_progress_metadata": actions}]), "val")
    assert len(re.findall(r"narration_text: .*''", str(error.value))) == 5
    for index, fact in ((1, "3 .* 9"), (2, "500 .*, 90"), (3, ".* 1, .*'2'"), (4, "1 .* 500")):
        assert re.search(rf"\[{index}\].start_frame: {fact}", str(error.value))


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
    private = {
        key: value for key, value in RECORD.items() if key not in ("golden_choice_idx", "answer")
    }
    for raw in (
        private,
        private | {"golden_choice_idx": None, "answer": None},
        private | {"answer": " "},
    ):
        (record,) = read_annotations(write(tmp_path, [raw]), "test")
        assert (record.golden_choice_idx, record.answer) == (None, None)
    for labels in ({"golden_choice_idx": "B"}, {"answer": "pour water"}, {"golden_choice_idx": 0}):
        with pytest.raises(LmmsEgoplanError) as error:
            read_annotations(
                write(tmp_path, [private, private | {"sample_id": 8} | labels]), "test"
            )
        for fact in ("annotations.json", "record 1", "sample_id 8", *labels, "--split val"):
            assert fact in str(error.value)
    with pytest.raises(LmmsEgoplanError, match="--split test"):
        read_annotations(write(tmp_path, [private]), "val")


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_wrong_field_is_named(tmp_path, change, message):
    path = write(tmp_path, [RECORD | {"sample_id": 1}, RECORD | change])
    with pytest.raises(
        LmmsEgoplanError, match=r"annotations.json: (.|\n)*record 1, sample_id .*, .*" + message
    ):
        read_annotations(path, "val")


@needs_examples
@pytest.mark.parametrize(("change", "message"), WRONG_BENCH2)
def test_wrong_field_of_bench2_is_named(tmp_path, change, message):
    path = write(tmp_path, [example(), example() | {"sample_id": "another_1"} | change])
    with pytest.raises(
        LmmsEgoplanError, match=r"annotations.json: (.|\n)*record 1, sample_id .*, .*" + message
    ):
        read_bench2_annotations(path)


@pytest.mark.parametrize(("position", "change", "message"), WRONG_ACTIONS)
def test_wrong_action_is_named(tmp_path, position, change, message):
    raw = copy.deepcopy(RECORD)
    raw["task_progress_metadata"][position] |= change
    with pytest.raises(
        LmmsEgoplanError, match=r"record 0, sample_id 7, task_progress_metadata" + message
    ):
        read_annotations(write(tmp_path, [raw]), "val")


def test_missing_fields_are_all_named(tmp_path):
    for field in RECORD:
        raw = {key: value for key, value in RECORD.items() if key != field}
        with pytest.raises(LmmsEgoplanError, match=f"{field}: .*found nothing"):
            read_annotations(write(tmp_path, [raw]), "val")


def test_all_problems_are_counted_and_twenty_listed(tmp_path):
    raws = [RECORD | {"sample_id": i, "question": ""} for i in range(30)] + [
        RECORD | {"sample_id": 3},
        "x",
    ]
    with pytest.raises(LmmsEgoplanError) as caught:
        read_annotations(write(tmp_path, raws), "val")
    lines = str(caught.value).splitlines()
    assert re.match(r".*annotations.json: 32 .* 32 .*--split test", lines[0])
    assert re.match("  record 0, sample_id 0, question: .*''", lines[1])
    assert len(lines) == 22
    assert "12" in lines[-1]


def test_a_duplicate_id_is_named(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"record 1, sample_id 7, sample_id: .*record 0"):
        read_annotations(write(tmp_path, [RECORD, RECORD]), "val")
    if EXAMPLES.exists():
        with pytest.raises(LmmsEgoplanError, match=r"record 1, .*sample_id: .*record 0"):
            read_bench2_annotations(write(tmp_path, [example(), example()]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("3", ".*list"),
        ("{}", ".*list"),
        ('{"a": [1], "b": [2]}', ".*list"),
        ("[]", ".*empty"),
        ('[{"image_path": ["1.jpg"], "question": "x", "answer": "y"}]', ".*EgoThink"),
        ('[{"sample_id": "a", "choice_a": "x", "domain": "y"}]', ".*EgoPlan-Bench2"),
        ('[{"step_id": "a", "local_intent": "x", "start_sec": 1}]', ".*EgoIntent"),
        ('[{"sample_id": 1, "negative_answers": ["x"]}]', ".*EgoPlan-IT"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    with pytest.raises(LmmsEgoplanError, match=f"annotations.json: {message}"):
        read_annotations(write(tmp_path, content), "val")


def test_unreadable_files(tmp_path):
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name, reason in (("absent.json", "No such file"), ("binary.json", "UTF-8")):
        with pytest.raises(LmmsEgoplanError, match=f"{name}: .*{reason}"):
            read_annotations(tmp_path / name, "val")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
fields = st.sampled_from(
    [*RECORD, "task_progress_metadata.start_frame", "task_progress_metadata.stop_frame"]
)


@settings(max_examples=150)
@given(field=fields, value=json_values, split=st.sampled_from(["val", "test"]))
def test_any_value_is_read_or_rejected(tmp_path_factory, field, value, split):
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
    assert all(
        action.start_frame <= record.current_observation_frame for action in record.past_actions
    )
    if split == "val":
        assert record.answer == record.choices["ABCD".index(record.golden_choice_idx)]


@needs_examples
def test_published_examples():
    (record,) = read_annotations(EXAMPLES, "val")
    assert (record.sample_id, record.video_id, record.golden_choice_idx) == (115, "P01_13", "A")
    assert record.past_actions[-1].narration_text == "open cupboard"
    assert (record.past_actions[-1].start_frame, record.past_actions[-1].stop_frame) == (689, 760)

    (record,) = read_bench2_annotations(EXAMPLES)
    assert record.sample_id == "ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2"
    assert (record.video_source, record.video_id) == (
        "Ego4D",
        "ca6e9ec9-46ac-4a02-8034-7c31157dc52c",
    )
    assert (record.domain, record.scenario, record.golden_choice_idx) == ("Hobbies", "baking", "A")
    assert (record.first_frame, record.current_observation_frame, len(record.past_actions)) == (
        0,
        656,
        6,
    )
    assert record.question == (
        "Considering the progress shown in the video and my current observation in the last frame, "
        "what action should I take next in order to bake pastry in the oven and set a stopwatch?"
    )


@needs_examples
@pytest.mark.parametrize(
    ("spelled", "domain"),
    [
        ("Daily life", DOMAINS[0]),
        ("daily_life", DOMAINS[0]),
        ("Daily Life", DOMAINS[0]),
        ("WORK", DOMAINS[1]),
    ],
)
def test_domains_are_read_in_any_spelling(tmp_path, spelled, domain):
    (record,) = read_bench2_annotations(write(tmp_path, [example() | {"domain": spelled}]))
    assert record.domain == domain


def test_an_unreachable_hub_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(LmmsEgoplanError, match=r"qiulu66/EgoPlan-Bench2 .*hub"):
        read_bench2_annotations("hub")
