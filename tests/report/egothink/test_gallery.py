"""EgoThink's questions in the report, and incomplete runs."""

from dataclasses import replace

import pytest

from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_answers, egothink_bench
from lmms_egoplan.report.egothink.report import EgoThinkReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from report.egothink.synthetic_runs import CAPABILITIES, COUNT, COUNTING, NAMES, RUNS, records
from report.joined import joined, rows, run_rows
from report.synthetic import write_run


def test_people_dispute_ratings_that_differ_by_more_than_half_of_the_scale(runs, written, tmp_path):
    answers = COUNTING.answers(written)[COUNTING.LABELLED]
    COUNTING.write_labels(tmp_path, answers)
    items = gallery_items(EgoThinkReport(runs, Inputs(labelled={tmp_path: "egothink"})))
    by_id = {item.key.removeprefix("egothink/"): item for item in items}
    disputed = set()
    for number, answer in enumerate(answers):
        people = by_id[answer["id"]].answers[COUNTING.LABELLED, "egothink_bench"].people
        rating = number % 3 / 2
        assert people.text == f"{rating:g} of 1"
        assert people.is_disputed == ({rating, answer["rating"]} == {0, 1})
        disputed.add(people.is_disputed)
    assert disputed == {True, False}


def test_items_show_question_answers_and_image(runs, written):
    items = gallery_items(EgoThinkReport(runs))
    assert [item.key for item in items] == [
        f"egothink/{name}/{n}" for name in NAMES for n in range(1, COUNT + 1)
    ]
    answers = {name: records(written, run) for run, name in RUNS.items()}
    verdicts = {0.0: "wrong", 0.5: "partly", 1.0: "right", None: "unscored"}
    for item in items:
        _, name, number = item.key.split("/")
        assert item.question.strip() == f"What is thing {number} of {name}?"
        assert item.references == {"Reference answer": f"The {name} {number}."}
        assert name in CAPABILITIES[item.facts["capability"]]
        assert item.facts["dimension"] == name
        for (run, _), shown_answer in item.answers.items():
            record = answers[run][name][int(number) - 1]
            assert shown_answer.verdict == verdicts[record["rating"]]
            assert (shown_answer.text, shown_answer.judgement) == (
                record["answer"],
                record["judgement"],
            )
            assert ("cut off" in shown_answer.rating) == bool(record["truncated"])
    image = items[0].images()[0]
    assert (image.mode, image.size) == ("RGB", (24, 16))
    shades = [item.images()[0].getpixel((12, 8))[0] for item in (items[COUNT - 1], items[COUNT])]
    assert shades == [pytest.approx(5 * (COUNT - 1), abs=4), pytest.approx(20, abs=4)]


def test_without_all_twelve_there_is_no_average(tmp_path):
    tasks = egothink_bench(COUNT, 0.5, 1)
    del tasks["egothink_object_existence"]
    write_run(tmp_path, "lmms-eval", "org/Model-7B", tasks)
    report_section = build_section(EgoThinkReport(read_runs([tmp_path]).runs))
    (row,) = run_rows(report_section, "egothink_table3")
    assert (row["existence"], row["average"], row["low"]) == (None, None, None)
    assert row["attribute"] is not None
    assert report_section.headlines[0].value is None
    assert any(
        "no average" in remark and "existence" in remark for remark in report_section.remarks
    )
    capabilities = {
        row["group"]: row["score"] for row in rows(report_section, "egothink_capabilities")
    }
    assert capabilities["object"] is None
    assert capabilities["planning"] is not None


@pytest.mark.parametrize(
    ("changed", "compares"),
    [
        ({}, True),
        ({"judge_coverage": 0.98}, False),
        ({"num_questions": 10}, False),
        ({"judge_model": "demo"}, False),
    ],
)
def test_only_complete_official_runs_with_a_judge_are_compared(runs, changed, compares):
    tasks = {}
    for name, dimension in EGOTHINK_TASKS.items():
        task = runs[0].tasks[name]
        full = {"num_questions": dimension.instances, "judge_coverage": 1.0}
        tasks[name] = replace(
            task, samples=None, metrics=task.metrics | full | (changed if len(tasks) == 3 else {})
        )
    report_section = build_section(EgoThinkReport([replace(runs[0], tasks=tasks)]))
    assert [
        not row.why for row in joined(report_section, "egothink_table3").rows if row.is_ours
    ] == [compares]


def test_an_unrated_dimension_has_no_score(tmp_path):
    tasks = egothink_bench(COUNT, 0.5, 1) | {
        "egothink_object_existence": egothink_answers("existence", COUNT, 0.5, unjudged=1.0)
    }
    write_run(tmp_path, "lmms-eval", "org/Model-7B", tasks)
    runs = read_runs([tmp_path]).runs
    report_section = build_section(EgoThinkReport(runs))
    (row,) = run_rows(report_section, "egothink_table3")
    assert (row["existence"], row["average"]) == (None, None)
    assert any("no answer is judged: existence" in remark for remark in report_section.remarks)
    verdicts = {
        item.key: item.answers["Model-7B", "egothink_bench"].verdict
        for item in gallery_items(EgoThinkReport(runs))
    }
    assert {verdict for key, verdict in verdicts.items() if "existence" in key} == {"unscored"}
    assert "unscored" not in {
        verdict for key, verdict in verdicts.items() if "existence" not in key
    }


def test_a_custom_task_replaces_only_a_missing_dimension(tmp_path):
    path = write_run(
        tmp_path,
        "lmms-eval",
        "org/Model-7B",
        {
            f"egothink_{name}": egothink_answers(name, COUNT, 0.5)
            for name in ("counting", "existence")
        }
        | {"egothink_object_existence": egothink_answers("existence", COUNT, 0.9)},
    )
    report_section = build_section(EgoThinkReport(read_runs([path.parent]).runs))
    (row,) = run_rows(report_section, "egothink_table3")
    (run,) = read_runs([path.parent]).runs
    assert row["counting"] == run.tasks["egothink_counting"].metrics["score"]
    assert row["existence"] == run.tasks["egothink_object_existence"].metrics["score"]
    assert any(
        "excluded" in remark and "egothink_existence" in remark for remark in report_section.remarks
    )


def test_remarks_name_different_judges_and_unjudged_answers(section, written):
    unjudged = sum(a["rating"] is None for group in records(written, "b").values() for a in group)
    assert any(
        f"Second-7B: {unjudged} of {12 * COUNT} answers are not judged" in remark
        for remark in section.remarks
    )
    assert any(
        "Different judges" in remark and "Third-7B: qwen" in remark for remark in section.remarks
    )
    assert not any("prepared" in remark for remark in section.remarks)


def test_a_reason_names_the_demo_judge_once(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/Model-7B", egothink_bench(2, 0.5, 1, judge="demo"))
    section = build_section(EgoThinkReport(read_runs([tmp_path]).runs))
    assert "rated by the demo judge" in section.headlines[0].apart
    assert not any("demo judge" in remark for remark in section.remarks)
