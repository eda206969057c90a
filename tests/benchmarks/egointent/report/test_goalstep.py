"""Runs over Goal-Step steps in the report: named so everywhere, by category, apart from the benchmark's."""

from dataclasses import replace

import pytest

from benchmarks.egointent.report.synthetic_runs import COUNT
from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.runs import read_runs
from report.answers import Answers
from report.joined import joined, rows, run_rows
from report.synthetic import write_run

NAME = "Goal-7B (Goal-Step steps)"


def goalstep_answers():
    """Over Goal-Step steps."""
    answers = egointent_answers(COUNT, 60, 4)
    docs, responses = [], []
    for number, (doc, (text,)) in enumerate(zip(answers.docs, answers.responses, strict=True), 1):
        video_id = f"{doc['video_id'][-1]:0>8}-9648-40ea-a500-5493a1ad9eac"
        step_id = f"{video_id[:8]}_{number}"
        named = {"scenario": None, "category": doc["scenario"].lower(), "unverified": True}
        docs.append(doc | {"step_id": step_id, "video_id": video_id} | named)
        responses.append([text.replace(f'"{doc["step_id"]}"', f'"{step_id}"')])
    return Answers(docs, responses)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("runs")
    write_run(tmp_path / "own", "lmms-eval", "org/Own-7B", {"egointent": egointent_answers(COUNT, 70, 1)})
    write_run(tmp_path / "goal", "lmms-eval", "org/Goal-7B", {"egointent": goalstep_answers()})
    found = sorted(read_runs([tmp_path]).runs, key=lambda run: run.name)
    for run in found:
        check(run, run.tasks["egointent"])
    return found


@pytest.fixture(scope="module")
def found(runs):
    return EgoIntentReport(runs).section()


def test_each_kind_has_a_table_and_a_heat_map_of_its_own(found):
    scenarios, categories = (joined(found, f"egointent_{name}") for name in ("scenarios", "categories"))
    assert [column.title for column in scenarios.columns] == ["Scenario", "Steps", "Own-7B"]
    assert [column.title for column in categories.columns] == ["Category", "Goal-Step steps", NAME]
    assert len(scenarios.rows) == len(categories.rows) == 5
    own, goalstep = found.figures
    assert (own.key, own.title) == ("egointent_heatmap", "Overall score by scenario")
    assert (goalstep.key, goalstep.title) == (
        "egointent_goalstep_heatmap",
        "Goal-Step steps: overall score by category",
    )
    for figure, name in ((own, "Own-7B"), (goalstep, NAME)):
        (axes,) = figure.draw().axes
        assert [label.get_text() for label in axes.get_yticklabels()] == [name]
    assert "2 runs" not in own.description + goalstep.description


def test_goalstep_runs_are_named_and_never_marked_best(runs, found):
    assert [row["model"] for row in run_rows(found, "egointent_table3")] == ["Own-7B", NAME]
    assert {row["model"] for row in rows(found, "egointent_scores")} == {"Own-7B", NAME}
    assert {line.run: line.metric for line in found.headlines} == {
        "Own-7B": "overall",
        "Goal-7B": "overall (Goal-Step steps)",
    }
    assert any(remark.startswith(f"{NAME}: steps, labels and cuts are Goal-Step's") for remark in found.remarks)
    kinds = {tuple(sorted(item.facts)) for item in EgoIntentReport(runs).items() if NAME in item.answers}
    assert kinds == {("category", "environment", "references")}


def test_goalstep_steps_do_not_compare_even_if_they_are_as_many(runs):
    goalstep, _ = runs
    metrics = {"num_steps": 3014, "coverage": 1.0, "parsed": 1.0, "judge_coverage": 1.0}
    task = goalstep.tasks["egointent"]
    task = replace(task, samples=None, metrics=task.metrics | metrics)
    found = EgoIntentReport([replace(goalstep, tasks={"egointent": task})]).section()
    (row,) = (row for row in joined(found, "egointent_table3").rows if row.is_own)
    assert (row.values[0], row.compares) == (NAME, False)
    assert [each.key for each in found.tables if each.key in ("egointent_scenarios", "egointent_categories")] == [
        "egointent_categories"
    ]
