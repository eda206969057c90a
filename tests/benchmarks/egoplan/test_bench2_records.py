"""EgoPlan-Bench2's records: the published one, and what is wrong with others."""

import json

import pytest

from benchmarks.egoplan.bench2_questions import EXAMPLES, example
from lmms_egoplan.benchmarks.egoplan.records import DOMAINS
from lmms_egoplan.benchmarks.egoplan.records import read_bench2_annotations as read_annotations
from lmms_egoplan.errors import LmmsEgoplanError

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="needs the public records")


def read(tmp_path, *changes):
    path = tmp_path / "EgoPlan-Bench2.json"
    path.write_text(json.dumps([example() | change for change in changes]))
    return read_annotations(path)


def test_the_published_record_gets_what_it_leaves_out():
    (record,) = read_annotations(EXAMPLES)
    assert record.sample_id == "ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2"
    assert (record.video_source, record.video_id) == ("Ego4D", "ca6e9ec9-46ac-4a02-8034-7c31157dc52c")
    assert (record.domain, record.scenario, record.golden_choice_idx) == ("Hobbies", "baking", "A")
    assert (record.first_frame, record.current_observation_frame, len(record.past_actions)) == (0, 656, 6)
    assert record.question == (
        "Considering the progress shown in the video and my current observation in the last frame, what action should "
        "I take next in order to bake pastry in the oven and set a stopwatch?"
    )


@pytest.mark.parametrize(
    ("spelled", "domain"),
    [("Daily life", DOMAINS[0]), ("daily_life", DOMAINS[0]), ("Daily Life", DOMAINS[0]), ("WORK", DOMAINS[1])],
)
def test_domains_are_of_any_spelling(tmp_path, spelled, domain):
    assert read(tmp_path, {"domain": spelled})[0].domain == domain


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"domain": "Sports"}, "domain: expected one of Daily life, Work, Hobbies, Recreation, found 'Sports'"),
        ({"domain": None}, "domain: expected one of"),
        ({"scenario": " "}, "scenario: expected a text"),
        ({"sample_id": 7}, "sample_id: expected a video id, an underscore and a number, as a text, found 7"),
        ({"sample_id": "../x_1"}, "sample_id: expected a video id"),
        ({"sample_id": "a/b_1"}, "sample_id: expected a video id"),
        ({"task_start_frame": 657}, "task_start_frame: expected a frame number from 0 to current_observation_frame"),
        ({"task_start_frame": -1}, "task_start_frame: expected a frame number"),
        ({"task_start_frame": True}, "task_start_frame: expected a frame number"),
        ({"task_start_frame": None}, "task_start_frame: expected a frame number"),
        ({"answer": "place oven tray"}, "answer: expected choice A, 'attach stopwatch'"),
        ({"golden_choice_idx": "E"}, "golden_choice_idx: expected one of A, B, C, D"),
        ({"choice_b": "attach stopwatch"}, "choice_b: same as choice_a"),
        ({"task_goal": ""}, "task_goal: expected a text"),
        ({"video_source": "EpicKitchens"}, "video_source: expected 'Ego4D'"),
    ],
)
def test_wrong_records_are_named(tmp_path, change, told):
    with pytest.raises(LmmsEgoplanError) as caught:
        read(tmp_path, {}, {"sample_id": "another_1"} | change)
    assert "EgoPlan-Bench2.json" in str(caught.value)
    assert "record 1, sample_id " in str(caught.value)
    assert told in str(caught.value)


def test_an_id_is_used_once(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"record 1, .*sample_id: already used by record 0"):
        read(tmp_path, {}, {})


def test_the_hub_is_told_about_where_it_cannot_be_reached(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(LmmsEgoplanError, match=r"qiulu66/EgoPlan-Bench2 cannot be had .*give the file in place of hub"):
        read_annotations("hub")
