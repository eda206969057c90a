"""ActPlan's plans in the report, and remarks on incomplete runs."""

import json
from dataclasses import replace

import pytest

from benchmarks.actplan.synthetic import actplan_answers
from lmms_egoplan.benchmarks.actplan.metrics import length_bin
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.actplan.report import ActPlanReport
from lmms_egoplan.report.document import Alignment
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from media.files import read_numbers
from report.actplan.synthetic_runs import COUNT, COUNTING, GOOD, PART, TEXT, WEAK, answered
from report.answers import Answers
from report.synthetic import write_run


def key_of(name):
    """Return run and task of a name such as ``run (task)``."""
    run, _, task = name.rstrip(")").partition(" (")
    return run, task or "actplan"


@pytest.fixture(scope="module")
def items(runs):
    return {item.key: item for item in gallery_items(ActPlanReport(runs))}


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
    assert set(item.answers) >= {
        (GOOD, "actplan"),
        (GOOD, "actplan_text_only"),
        (WEAK, "actplan"),
    }
    answer = item.answers[GOOD, "actplan"]
    official, parsed = logged[GOOD][0]["official"], logged[GOOD][0]["parsed"]
    assert official != parsed
    assert answer.text == "\n".join([*official, "", f"Read as {len(parsed)} steps:", *parsed])
    assert answer.steps == tuple(official)
    assert [alignment.gold for alignment in answer.alignments] == [*item.golds]
    assert answer.alignments[0].norm == logged[GOOD][0]["Norm. LCS"]
    assert "by the classifier (0.50)" in answer.rating


def test_people_dispute_verdicts_of_the_classifier(runs, logged, tmp_path):
    COUNTING.write_labels(tmp_path, logged[GOOD])
    report = ActPlanReport(runs, Inputs(labelled={tmp_path: "actplan"}))
    items = {item.key: item for item in gallery_items(report)}
    disputed = set()
    for number, plan in enumerate(logged[GOOD]):
        answers = items[f"actplan/{plan['id']}"].answers
        people = answers[GOOD, "actplan"].people
        if not plan["official"]:
            assert people is None
            continue
        is_correct = number % 3 > 0
        assert people.text == ("correct" if is_correct else "wrong")
        assert people.is_disputed == (plan["bleurt"] != is_correct)
        disputed.add(people.is_disputed)
    assert disputed == {True, False}


def test_the_equal_steps_of_a_plan_are_shown_if_they_were_logged(tmp_path):
    gold = ["grab(cup)", "", "wash(cup)", "open(door)"]
    steps = ["walk_to(sink)", "grab(cup)", "wash(cup)"]
    for name, alignments in (("new", [[[1, 0], [2, 2]], None]), ("old", None)):
        answers = actplan_answers(1, 0.5)
        record = json.loads(answers.responses[0][0]) | {
            "official": steps,
            "reference_lengths": [3, None],
            "reference_lines": [4, None],
            "lcs_each": [2, None],
            "lcs_parsed_each": [2, None],
            "alignments": alignments,
        }
        doc = answers.docs[0] | {"gold_plan_1": gold, "gold_plan_2": []}
        write_run(tmp_path, "lmms-eval", name, {"actplan": Answers([doc], [[json.dumps(record)]])})
    (item,) = gallery_items(ActPlanReport(read_runs([tmp_path]).runs))
    assert item.golds == {"Gold plan 1": tuple(gold)}
    shown = {run: answer.alignments for (run, _), answer in item.answers.items()}
    pairs = ((1, 0), (2, 2))
    assert shown == {
        "new": (Alignment("Gold plan 1", length=2, steps=4, norm=0.5, pairs=pairs),),
        "old": (Alignment("Gold plan 1", length=2, steps=4, norm=0.5, pairs=None),),
    }


def test_views_are_read_from_the_prepared_data(items):
    """The images of the instance at position i show numbers from 5 i; the id determines the
    position.
    """
    first_numbers = []
    for item in items.values():
        if item.images is not None:
            numbers = read_numbers(item.images())
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert numbers[0] % 5 == 0
            steps = 3 + 7 * (numbers[0] // 5) % 58
            assert len(item.references["Gold plan 1"].splitlines()) == steps
            first_numbers.append(numbers[0])
    assert len(set(first_numbers)) == len(first_numbers) == COUNT - 1


def test_a_classifier_decides_if_a_plan_is_right(items, logged):
    for name in (GOOD, TEXT, PART):
        for plan in logged[name]:
            answer = items[f"actplan/{plan['id']}"].answers[key_of(name)]
            assert answer.verdict == ("right" if plan["bleurt"] else "wrong")


def test_without_a_classifier_only_the_gold_plan_is_right(items, logged):
    verdicts = set()
    for plan in logged[WEAK]:
        norm = plan["Norm. LCS"]
        expected = "unscored" if norm is None else {0: "wrong", 1: "right"}.get(norm, "partly")
        verdicts.add(expected)
        assert items[f"actplan/{plan['id']}"].answers[WEAK, "actplan"].verdict == expected
    assert verdicts >= {"unscored", "wrong", "partly"}


def test_an_empty_answer_is_shown_as_nothing(items):
    doc = actplan_answers(COUNT, 0.5).docs[3]
    assert items[f"actplan/{doc['id']}"].answers[GOOD, "actplan"].text == "(nothing)"


def test_reasons_name_the_coverage_of_scores_once(section):
    reasons = {line.run: line.apart for line in section.headlines}
    assert reasons[WEAK] == (f"{COUNT} of 1,187 instances",)
    assert reasons[PART.partition(" ")[0]] == ("38 of 825 instances",)
    assert not any("1,187" in text for text in section.remarks)
    assert any(GOOD in text and "1.7% of the answers" in text for text in section.remarks)


def test_a_remark_names_a_run_over_some_instances(tmp_path):
    answers = actplan_answers(40, 0.5)
    write_run(
        tmp_path,
        "lmms-eval",
        "some",
        {"actplan": Answers(answers.docs[:10], answers.responses[:10])},
    )
    report_section = build_section(ActPlanReport(read_runs([tmp_path]).runs))
    facts = ("some: ", "10 plans", "25.0%")
    assert any(all(fact in remark for fact in facts) for remark in report_section.remarks)


def test_a_remark_counts_instances_that_are_not_prepared(section):
    doc = actplan_answers(COUNT, 0.5).docs[7]
    assert any(
        text.startswith("1 of the instances") and doc["id"] in text for text in section.remarks
    )


def test_remarks_name_different_encoders_and_classifiers(runs):
    (good,) = (run for run in runs if run.name == GOOD)
    task = good.tasks["actplan"]
    other = replace(
        task, metrics=task.metrics | {"encoder": "/models/bge", "bleurt_model": "/models/other"}
    )
    remarks = build_section(
        ActPlanReport([good, replace(good, name="other", tasks={"actplan": other})])
    ).remarks
    assert any("/models/bge" in text and "all-MiniLM-L6-v2" in text for text in remarks)
    assert any(
        text.startswith("Different sentence encoders") and "other: /models/bge" in text
        for text in remarks
    )
    assert any(
        text.startswith("Different classifiers") and "other: /models/other" in text
        for text in remarks
    )


def test_classifiers_of_other_encoders_in_folders_of_the_same_name_differ(tmp_path):
    answers = actplan_answers(4, 0.5, bleurt=0.5)
    for name, encoder in (("one", "all-MiniLM-L6-v2"), ("two", "BLEURT-20")):
        texts = [
            [text.replace("all-MiniLM-L6-v2", encoder) for text in response]
            for response in answers.responses
        ]
        write_run(tmp_path, "lmms-eval", name, {"actplan": Answers(answers.docs, texts)})
    remarks = build_section(ActPlanReport(read_runs([tmp_path]).runs)).remarks
    assert any(
        text.startswith("Different classifiers") and "two: BLEURT-20 (6 layers" in text
        for text in remarks
    )


def encoded(runs, *encoders):
    """Return the remarks on runs without samples that differ only in the encoder."""
    (weak,) = (run for run in runs if run.name == WEAK)
    task = weak.tasks["actplan"]
    tasks = [
        replace(task, metrics=task.metrics | {"encoder": encoder}, samples=None)
        for encoder in encoders
    ]
    return build_section(
        ActPlanReport(
            [replace(weak, name=str(n), tasks={"actplan": task}) for n, task in enumerate(tasks)]
        )
    ).remarks


def test_an_encoder_is_the_same_however_its_path_is_written(runs):
    remarks = encoded(runs, "/models/bge", "bge", "models/bge/")
    assert not any(text.startswith("Different sentence encoders") for text in remarks)
    (remark,) = (text for text in remarks if text.startswith("Steps were compared by"))
    assert remark.startswith("Steps were compared by /models/bge. ")


def test_encoders_of_one_folder_differ_by_their_names(runs):
    remarks = encoded(runs, "/models/bge", "/models/gte")
    assert any(text.endswith(": 0: /models/bge; 1: /models/gte.") for text in remarks)
    assert any(
        text.startswith("Steps were compared by /models/bge, /models/gte.") for text in remarks
    )


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"official": "walk_to(table)"}, "official"),
        ({"setting": "strange"}, "strange"),
        ({"gold_plan_1": None}, "gold plans must be lists of steps"),
    ],
)
def test_a_malformed_sample_raises_an_error_that_names_the_run(runs, change, fact):
    (run,) = (run for run in runs if run.name == WEAK)
    task = run.tasks["actplan"]
    first_sample, *later_samples = task.samples
    details = first_sample["details"]
    broken_details = details | {"plan": details["plan"] | change}
    broken = replace(task, samples=(first_sample | {"details": broken_details}, *later_samples))
    with pytest.raises(LmmsEgoplanError, match=rf"run {WEAK}, samples of actplan: .*{fact}"):
        build_section(ActPlanReport([replace(run, tasks={"actplan": broken})]))
