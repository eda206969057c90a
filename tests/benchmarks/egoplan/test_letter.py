"""Check the values of single questions that were answered in writing."""

import json

import pytest

from benchmarks.egoplan.scored import make_doc
from lmms_egoplan.benchmarks.egoplan.letter import read_clear, read_reasoned, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL
from lmms_egoplan.coverage import coverage as share_covered


@pytest.mark.parametrize(
    ("reply", "score", "unparsed"),
    [
        ("B.", 1.0, 0.0),
        ("The answer is C", 0.0, 0.0),
        ("B or C", 0.0, 1.0),
        # The choices decide.
        ("B take cereal bag", 1.0, 0.0),
        ("B. open cupboard", 0.0, 1.0),
    ],
)
def test_reply(reply, score, unparsed):
    values = score_letter(make_doc(video_source="Ego4D"), reply, EGOPLAN_VAL, read_clear)
    assert values["acc"]["score"] == values["acc_ego4d"]["score"] == score
    assert values["unparsed"]["score"] == unparsed
    assert (values["details"]["predictions"]["prediction"] is None) == bool(unparsed)


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        (
            "Task progress: x\nCurrent observation: y\nNext action: B",
            {"acc": 1, "unparsed": 0, "incomplete": 0},
        ),
        (
            "Task progress: x\nCurrent observation: y\nNext action: C",
            {"acc": 0, "unparsed": 0, "incomplete": 0},
        ),
        (
            "Task progress: x\nCurrent observation: y\nNext action: none",
            {"unparsed": 1, "incomplete": 0},
        ),
        ("Task progress: x\nCurrent observ", {"unparsed": 1, "incomplete": 1}),
        (
            "Next action: B\nTask progress: x\nCurrent observation: y",
            {"acc": 1, "unparsed": 0, "incomplete": 1},
        ),
        ("B", {"acc": 1, "unparsed": 0, "incomplete": 1}),
        ("", {"unparsed": 1, "incomplete": 1}),
    ],
)
def test_reasoned_replies_without_a_letter_are_counted_and_not_wrong(reply, scores):
    values = score_letter(make_doc(), reply, EGOPLAN_VAL, read_reasoned)
    named = ("acc", "acc_epic_kitchens", "unparsed", "incomplete")
    part = {"acc_epic_kitchens": scores["acc"]} if "acc" in scores else {}
    assert {name: values[name]["score"] for name in named if name in values} == scores | part
    assert share_covered([values["coverage"]]) == pytest.approx(("acc" in scores) / 3355)
    assert values["details"]["predictions"]["observation"] == ("y" if "y" in reply else None)
    json.dumps(values, allow_nan=False)
