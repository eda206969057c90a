"""People's ratings in EgoThink's part of the report."""

import json

import pytest

from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import Inputs
from report.joined import joined


def write_labels(folder, answers):
    folder.mkdir()
    (folder / "annotation.json").write_text(json.dumps({"benchmark": "egothink"}))
    (folder / "people.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    return folder


def own_rows(section, key):
    table = joined(section, key)
    names = [column.key for column in table.columns]
    return [dict(zip(names, row.values, strict=True)) for row in table.rows if row.is_own]


def report(runs, folder):
    return EgoThinkReport(runs, Inputs(labelled={folder: "egothink"}))


def test_own_rows_of_table_10(runs, tmp_path):
    answers = [
        {"id": f"{name}/{number}", "model": "mine", "answer": "x", "rating": rating}
        for name, rating in (("existence", 0.5), ("assistance", 1.0), ("counting", 0.0))
        for number in (1, 2)
    ]
    (row,) = own_rows(report(runs, write_labels(tmp_path / "labels", answers)).section(), "egothink_table10")
    assert row["grading_methods"] == "People, mine"
    assert (row["object_existence"], row["planning_assistance"], row["answers"]) == (50, 100, 6)
    assert row["object_attribute"] is None


def test_own_rows_of_table_9_are_of_the_same_answers(runs, tmp_path):
    graded = EgoThinkReport(runs).tasks[0]
    records = [answer.record for answer in graded.answers.values() if answer.record.rating is not None]
    answers = [{"id": r.id, "model": "mine", "answer": r.answer, "rating": r.rating} for r in records]
    answers.append({"id": records[0].id, "model": "other", "answer": "no run has this", "rating": 0.0})
    rows = own_rows(report(runs, write_labels(tmp_path / "labels", answers)).section(), "egothink_table9")
    row = next(row for row in rows if row["evaluator"] == f"Human ({graded.name})")
    names = ("existence", "attribute", "affordance", "assistance", "navigation")
    assert row["answers"] == sum(dimension_of(record.id) in names for record in records)
    assert (row["own"], row["own_low"], row["own_high"]) == pytest.approx((100, 100, 100))


def test_few_answers_give_no_coefficient_and_say_why(runs, tmp_path):
    graded = EgoThinkReport(runs).tasks[0]
    records = [answer.record for answer in graded.answers.values() if answer.record.rating is not None]
    records = [record for record in records if dimension_of(record.id) == "existence"][:5]
    answers = [{"id": r.id, "model": "mine", "answer": r.answer, "rating": r.rating} for r in records]
    section = report(runs, write_labels(tmp_path / "labels", answers)).section()
    row = next(row for row in own_rows(section, "egothink_table9") if row["evaluator"] == f"Human ({graded.name})")
    assert (row["answers"], row["own"], row["own_low"]) == (5, None, None)
    assert any("fewer than 10 answers" in str(row.why) for row in joined(section, "egothink_table9").rows)


def test_the_same_answer_in_two_folders_is_refused(runs, tmp_path):
    answer = {"id": "existence/1", "model": "mine", "answer": "x", "rating": 1.0}
    folders = [write_labels(tmp_path / name, [answer]) for name in ("one", "two")]
    with pytest.raises(LmmsEgoplanError, match=r"two/people\.jsonl, line 1: .*1 of mine is labelled in .*one, too"):
        EgoThinkReport(runs, Inputs(labelled=dict.fromkeys(folders, "egothink"))).section()


def test_without_labels_the_published_tables_stay(runs):
    section = EgoThinkReport(runs).section()
    assert own_rows(section, "egothink_table9") == own_rows(section, "egothink_table10") == []


def test_a_wrong_rating_is_told(runs, tmp_path):
    folder = write_labels(tmp_path / "labels", [{"id": "existence/1", "model": "a", "answer": "b", "rating": 2}])
    with pytest.raises(LmmsEgoplanError, match=r"people\.jsonl, line 1: rating: "):
        report(runs, folder).section()
