"""ActPlan-1K in the gallery: task, gold plans, views and the plans of the runs."""

import pytest

from benchmarks.actplan.report.synthetic_runs import COUNT, GOOD, PART, TEXT, WEAK, answered
from benchmarks.actplan.synthetic import actplan_answers
from lmms_egoplan.benchmarks.actplan.metrics import length_bin
from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from media.files import read_numbers


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
