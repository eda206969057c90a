"""Reading published plans and the activities' splits, and errors in these files."""

import contextlib
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.actplan.labelled_plans import ACTIVITIES, PLANS, record, write_plans
from lmms_egoplan.benchmarks.actplan.instances import InstanceId
from lmms_egoplan.benchmarks.actplan.plans import (
    LabelledInstance,
    LabelledPlan,
    read_activities,
    read_labelled_plans,
)
from lmms_egoplan.errors import LmmsEgoplanError


def test_an_instance_is_read(tmp_path):
    plans, _ = write_plans(
        tmp_path, [record(3, gold_gemini=[], pos_gpt=["open(a)", "open(b)"])], ["train"]
    )
    assert read_labelled_plans(plans) == [
        LabelledInstance(
            InstanceId("Scene_int", "filling_a_box_3", 0, 0),
            "walk_to(thing3) grab(thing3) place_inside(box, thing3)",
            "",
            (
                LabelledPlan("GPT-4V", "open(a)", True),
                LabelledPlan("GPT-4V", "open(b)", True),
                LabelledPlan("GPT-4V", "walk_to(box) switch-on(thing3)", False),
                LabelledPlan("Gemini-Pro-1.5", "grab(thing3) close(box)", True),
            ),
        )
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"path": "making_tea"},
            "path: expected <scene>/<activity>/<n>/sample_<k>, found 'making_tea'",
        ),
        ({"path": None}, "path: expected <scene>/<activity>/<n>/sample_<k>, found nothing"),
        (
            {"activity": "making_tea"},
            "activity: expected filling_a_box_0, as in path, found 'making_tea'",
        ),
        (
            {"gold_gpt": ["open(a)", "open(b)"]},
            "gold_gpt: expected at most one gold plan, found ['open(a)', 'open(b)']",
        ),
        (
            {"gold_gpt": [], "gold_gemini": []},
            "gold_gpt and gold_gemini are both empty; an instance needs a gold plan",
        ),
        ({"neg_gpt": "open(a)"}, "neg_gpt: expected a list, found 'open(a)'"),
        ({"pos_gemini": ["open(a)", " "]}, "pos_gemini[1]: expected a text, found ' '"),
        ({"pos_gpt": [1]}, "pos_gpt[0]: expected a text, found 1"),
    ],
)
def test_an_error_names_line_and_field(tmp_path, fields, message):
    plans, _ = write_plans(tmp_path, [record(1), record(0, **fields)], ["train", "val"])
    with pytest.raises(LmmsEgoplanError) as caught:
        read_labelled_plans(plans)
    assert str(caught.value) == f"{plans}, line 2: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": contains no instances; expected JSON lines as in finetuning_data.jsonl"),
        (
            "{",
            ", line 1: invalid JSON: Expecting property name enclosed in double quotes: line 1 "
            "column 2 (char 1); expected a line as in finetuning_data.jsonl",
        ),
        ("\n[]", ", line 2: expected an object, found []"),
    ],
)
def test_files_of_another_format_raise_an_error(tmp_path, text, message):
    path = tmp_path / "plans.jsonl"
    path.write_text(text)
    with pytest.raises(LmmsEgoplanError) as caught:
        read_labelled_plans(path)
    assert str(caught.value) == f"{path}{message}"


def test_a_duplicate_instance_raises_an_error(tmp_path):
    plans, _ = write_plans(tmp_path, [record(), record()], ["train", "train"])
    with pytest.raises(
        LmmsEgoplanError, match=r"line 2: path: .*Scene_int/filling_a_box_0/0/sample_0"
    ):
        read_labelled_plans(plans)


def test_unreadable_files_raise_an_error(tmp_path):
    (tmp_path / "latin").write_bytes(b"caf\xe9\ttrain")
    for read in (read_labelled_plans, read_activities):
        for name in ("nothing", "latin", "."):
            with pytest.raises(LmmsEgoplanError, match="cannot be read"):
                read(tmp_path / name)


def test_activities(tmp_path):
    path = tmp_path / "activities.txt"
    path.write_bytes(b"\xef\xbb\xbfmaking_tea\ttrain\r\n\r\npacking\ttest\r\n")
    assert read_activities(path) == {"making_tea": "train", "packing": "test"}
    for text, message in (
        (
            "a\ttrain\nb dev",
            r"line 2: expected an activity, a tab and train, val or test, found 'b dev'",
        ),
        ("a\ttrain\na\tval", "line 2: .*activity a"),
        ("\n", "no activities"),
    ):
        path.write_text(text)
        with pytest.raises(LmmsEgoplanError, match=message):
            read_activities(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(record())), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    fields=st.dictionaries(st.sampled_from(sorted(record())), _JSON, max_size=3),
    cut=st.integers(0, 400),
)
def test_any_line_is_read_or_refused(tmp_path_factory, fields, cut):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(json.dumps(record(0, **fields))[: 800 - cut])
    with contextlib.suppress(LmmsEgoplanError):
        (instance,) = read_labelled_plans(path)
        assert all(plan.text.strip() for plan in instance.plans)
        assert instance.golds


@pytest.mark.skipif(not PLANS.is_file(), reason="needs ../shared/data/actplan")
def test_published_files():
    instances, activities = read_labelled_plans(PLANS), read_activities(ACTIVITIES)
    assert Counter(activities.values()) == {"train": 60, "val": 20, "test": 20}
    assert Counter(activities[instance.id.activity] for instance in instances) == {
        "train": 240,
        "val": 81,
    }
    labels = Counter(
        (plan.model, plan.correct) for instance in instances for plan in instance.plans
    )
    assert labels == {
        ("GPT-4V", True): 76,
        ("GPT-4V", False): 245,
        ("Gemini-Pro-1.5", True): 101,
        ("Gemini-Pro-1.5", False): 220,
    }
    assert Counter(len(instance.golds) for instance in instances) == {2: len(instances) - 2, 1: 2}
