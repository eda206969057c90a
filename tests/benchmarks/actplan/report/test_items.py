"""ActPlan-1K in the gallery: task, gold plans, views and the plans of the runs."""

import pytest

from benchmarks.actplan.report.synthetic_runs import COUNT, GOOD, PART, TEXT, WEAK, answered
from benchmarks.actplan.synthetic import actplan_answers
from lmms_egoplan.benchmarks.actplan.metrics import length_bin
from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from lmms_egoplan.report.runs import read_runs
from media.files import read_numbers
from report.answers import Answers
from report.synthetic import write_run


@pytest.fixture(scope="module")
def items(runs):
    return {item.key: item for item in ActPlanReport(runs).items()}


def test_an_item_is_the_task_with_gold_plans_views_and_plans(items, logged):
    answers = answered(0.9, 1, bleurt=0.6)
    assert len(items) == COUNT
    doc, item = answers.docs[0], items[f"actplan/{answers.docs[0]['id']}"]
    assert item.question == doc["task_description"].strip()
    assert item.facts == {
        "setting": doc["setting"],
        "activity type": doc["activity_type"],
        "activity": doc["activity"],
        "scene": doc["scene"],
        "length of gold plan 1": length_bin(len(doc["gold_plan_1"]) or None),
    }
    assert item.references["Gold plan 1"].splitlines() == doc["gold_plan_1"]
    assert item.references.get("Gold plan 2", "").splitlines() == doc["gold_plan_2"]
    assert set(item.answers) >= {GOOD, TEXT, WEAK}
    shown = item.answers[GOOD]
    official, parsed = logged[GOOD][0]["official"], logged[GOOD][0]["parsed"]
    assert official != parsed
    assert shown.text == "\n".join([*official, "", f"Read as {len(parsed)} steps:", *parsed])
    assert f"normalised LCS with gold plan 1 {logged[GOOD][0]['Norm. LCS']:.3f} of 1" in shown.rating
    assert "by the classifier (0.50)" in shown.rating


def test_views_are_read_from_the_prepared_data(items):
    """The images of the instance at position i show 5 i and on; which instance has which position, its id tells."""
    seen = []
    for item in items.values():
        if item.images is not None:
            numbers = read_numbers(item.images())
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert numbers[0] % 5 == 0
            steps = 3 + 7 * (numbers[0] // 5) % 58
            assert len(item.references["Gold plan 1"].splitlines()) == steps
            seen.append(numbers[0])
    assert len(set(seen)) == len(seen) == COUNT - 1


def test_the_classifier_tells_right_from_wrong_where_there_is_one(items, logged):
    for name in (GOOD, TEXT, PART):
        for plan in logged[name]:
            shown = items[f"actplan/{plan['id']}"].answers[name]
            assert shown.verdict == ("right" if plan["bleurt"] else "wrong")


def test_without_a_classifier_only_the_gold_plan_is_right(items, logged):
    verdicts = set()
    for plan in logged[WEAK]:
        norm = plan["Norm. LCS"]
        expected = "unscored" if norm is None else {0: "wrong", 1: "right"}.get(norm, "partly")
        verdicts.add(expected)
        assert items[f"actplan/{plan['id']}"].answers[WEAK].verdict == expected
    assert verdicts >= {"unscored", "wrong", "partly"}


def test_an_empty_answer_is_shown_as_nothing(items):
    doc = actplan_answers(COUNT, 0.5).docs[3]
    assert items[f"actplan/{doc['id']}"].answers[GOOD].text == "(nothing)"


def test_without_prepared_data_there_are_items_and_a_remark(runs, monkeypatch, tmp_path):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    items = {item.key: item for item in ActPlanReport(runs).items()}
    assert len(items) == COUNT
    assert all(item.images is None for item in items.values())
    doc = actplan_answers(COUNT, 0.5).docs[0]
    # lm-eval logs the question.
    assert items[f"actplan/{doc['id']}"].question == doc["task_description"].strip()
    without = ActPlanReport([run for run in runs if run.name == GOOD]).items()
    assert without[0].question == f"{doc['id']}: the task description is not at hand"
    remarks = ActPlanReport(runs).section().remarks
    assert any("is not prepared in" in text and "data prepare actplan" in text for text in remarks)


def test_instances_with_other_gold_plans_are_other_questions(written, tmp_path):
    docs = [doc | {"gold_plan_1": doc["gold_plan_1"][::-1]} for doc in actplan_answers(12, 0.5).docs]
    write_run(tmp_path, "lmms-eval", "one", {"actplan": actplan_answers(12, 0.5)})
    write_run(tmp_path, "lmms-eval", "two", {"actplan": Answers(docs, actplan_answers(12, 0.5, 1).responses)})
    found = read_runs([tmp_path]).runs
    assert "actplan_comparisons" not in [table.key for table in ActPlanReport(found).section().tables]
    keys = [item.key for item in ActPlanReport(found).items()]
    assert len(set(keys)) == 24
    assert sum(key.endswith(" (2)") for key in keys) == 12
