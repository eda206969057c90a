"""EgoPlan's accuracies by past actions and by similarity in the report."""

import pytest

from benchmarks.egoplan.report.synthetic_runs import (
    ANSWERS,
    COUNT,
    DOCS,
    group_of,
    interval,
    percent,
    run_of,
    scores,
    task_of,
)
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.benchmarks.egoplan.similarity import similarities
from lmms_egoplan.encoder import ENCODER_VARIABLE
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import Inputs
from report.joined import figure, near, run_rows

pytestmark = pytest.mark.usefixtures("small")


def check_groups(section, key, groups):
    found = run_rows(section, key)
    assert len(found) == len(set(groups.values())) * len(ANSWERS)
    for row in found:
        (name,) = (each for each in ANSWERS if (run_of(each), task_of(each)) == (row["run"], row["task"]))
        numbers = [number for number in range(COUNT) if groups[number] == row["group"]]
        known = [scores(name)[number] for number in numbers if scores(name)[number] is not None]
        assert row["acc"] == near(percent(known))
        assert row["questions"] == len(known)
        by_sum = [scores(name, "sum")[number] for number in numbers]
        assert row["acc_sum"] == (None if row["task"] == "egoplan_val_generate" else near(percent(by_sum)))
        ends = interval(name, numbers)
        assert (row["low"], row["high"]) == ((None, None) if ends is None else near(ends))


def test_accuracy_by_number_of_past_actions(section):
    groups = {number: group_of(doc) for number, doc in enumerate(DOCS)}
    assert len(set(groups.values())) == 5
    check_groups(section, "egoplan_past_actions", groups)
    order = list(dict.fromkeys(row["group"] for row in run_rows(section, "egoplan_past_actions")))
    assert order == ["0", "1", "2 to 3", "4 to 7", "8 to 15"]


def test_accuracy_by_goal_answer_similarity_in_three_equal_levels(section, bert):
    found = similarities([(doc["task_goal"], doc["answer"]) for doc in DOCS], bert).values
    order = sorted(range(COUNT), key=lambda number: (found[DOCS[number]["task_goal"], DOCS[number]["answer"]], number))
    names = ["low"] * 31 + ["middle"] * 30 + ["high"] * 30
    check_groups(section, "egoplan_similarity", dict(zip(order, names, strict=True)))
    assert "layer 2 of 2" in figure(section, "egoplan_similarity").caption


def test_without_an_encoder_the_levels_alone_are_missing(runs, monkeypatch):
    monkeypatch.setenv(ENCODER_VARIABLE, "/no/such/folder")
    found = EgoPlanReport(runs).section()
    keys = [table.key for table in found.tables]
    assert "egoplan_past_actions" in keys
    assert "egoplan_similarity" not in keys
    (told,) = (remark for remark in found.remarks if remark.startswith("No accuracy by goal-answer similarity: "))
    assert "/no/such/folder" in told
    assert "hf download" in told


def test_an_encoder_that_was_asked_for_must_be_there(runs):
    with pytest.raises(LmmsEgoplanError, match="BERTScore with /no/such/folder"):
        EgoPlanReport(runs, Inputs("/no/such/folder")).section()
