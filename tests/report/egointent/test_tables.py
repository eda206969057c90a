"""Test EgoIntent's tables in the report against independent counts, and runs on Goal-Step steps."""

from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.report.egointent.report import EgoIntentReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from report.answers import Answers
from report.egointent.synthetic_runs import COUNT, NAMES, SCORES, records, score
from report.joined import group_names, joined, rows, run_rows
from report.synthetic import write_run
from stats.slow_wilson import slow_wilson


@pytest.mark.parametrize("run", NAMES)
def test_table_3_has_scores_and_coverage_of_each_run(section, written, run):
    (row,) = (row for row in run_rows(section, "egointent_table3") if row["model"] == NAMES[run])
    steps = records(written, run)
    assert {name: row[name] for name in SCORES} == pytest.approx(
        {name: score(steps, name) for name in SCORES}
    )
    num_found = sum(len(step["fields"]) for step in steps)
    judged = sum(step["ratings"][field] is not None for step in steps for field in step["fields"])
    cut = [step["truncated"] for step in steps if step["truncated"] is not None]
    assert row["questions"] == len(steps) == COUNT
    assert row["parsed"] == pytest.approx(100 * num_found / (3 * COUNT))
    assert row["judged"] == pytest.approx(100 * judged / num_found)
    assert row["truncated"] == (pytest.approx(100 * sum(cut) / len(cut)) if cut else None)
    unjudged = sum(rating is None for step in steps for rating in step["ratings"].values())
    assert row["coverage"] == pytest.approx(100 * COUNT / 3014 * (1 - unjudged / (3 * COUNT)))
    assert (row["unverified"], row["suspect"]) == (0, 0)
    assert row["judge"] == ("other" if run == "c" else "org/judge")
    assert row["low"] < row["overall"] < row["high"]


def test_intervals_match_a_slow_version_over_videos(section, written):
    heads = ("Overall", "Local intent", "Procedural intent", "Next step", "Indoor", "Outdoor")
    titles = dict(zip(SCORES, heads, strict=True))
    row_by_score = {
        (row["score_of"], row["model"]): row for row in rows(section, "egointent_scores")
    }
    assert len(row_by_score) == len(SCORES) * len(NAMES)
    for run in "ab":
        steps = records(written, run)
        for name in SCORES:
            row = row_by_score[titles[name], NAMES[run]]
            chosen = [
                step
                for step in steps
                if name not in ("indoor", "outdoor") or step["environment"] == name
            ]
            videos = {}
            for step in chosen:
                videos.setdefault(step["video_id"], []).append(step)
            slow = slow_wilson(
                [*videos.values()], lambda part, name=name: score(part, name), top=100
            )
            assert (row["low"], row["high"]) == pytest.approx(slow)
            assert row["score"] == pytest.approx(score(steps, name))
            assert (row["steps"], row["videos"]) == (
                len(chosen),
                len({step["video_id"] for step in chosen}),
            )
            fields = [name] if name in FIELDS else FIELDS
            assert row["rated"] == sum(
                step["ratings"][field] is not None for step in chosen for field in fields
            )


def test_steps_of_one_video_give_no_interval(tmp_path):
    answers = egointent_answers(COUNT, 50, 1)
    for doc in answers.docs:
        doc["video_id"] = "one"
    write_run(tmp_path, "lmms-eval", "org/Model-7B", {"egointent": answers})
    report = build_section(EgoIntentReport(read_runs([tmp_path]).runs))
    assert {(row["low"], row["high"]) for row in rows(report, "egointent_scores")} == {(None, None)}
    assert report.headlines[0].interval is None


def test_scenarios_have_the_overall_score_of_their_steps(section, written):
    scenario_rows = rows(section, "egointent_scenarios")
    steps = {name: records(written, run) for run, name in NAMES.items()}
    assert len(scenario_rows) == len({step["scenario"] for step in steps["First-7B"]})
    averages = []
    for row in scenario_rows:
        of_scenario = {
            n: [s for s in run_steps if s["scenario"] == row["scenario"]]
            for n, run_steps in steps.items()
        }
        assert {name: row[name] for name in steps} == pytest.approx(
            {name: score(run_steps, "overall") for name, run_steps in of_scenario.items()}
        )
        assert row["steps"] == len(of_scenario["First-7B"])
        averages.append(fmean(row[name] for name in steps))
    assert averages == sorted(averages)


def test_the_heat_map_shows_runs_by_scenarios(section):
    (figure,) = section.figures
    (axes,) = figure.draw().axes
    scenario_rows = rows(section, "egointent_scenarios")
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == ["First-7B", "Third-7B", "Second-7B"]
    assert group_names(axes) == ["Overall", *(row["scenario"] for row in scenario_rows)]
    cell_texts = [text.get_text().partition("\n")[0].rstrip("*") for text in axes.texts]
    overall = {row["model"]: row["overall"] for row in run_rows(section, "egointent_table3")}
    assert cell_texts == [
        f"{values[name]:.1f}"
        for values in (overall, *scenario_rows)
        for name in ("First-7B", "Third-7B", "Second-7B")
    ]
    assert "First-7B" in figure.description


NAME = "Goal-7B (Goal-Step steps)"


def goalstep_answers():
    """Return answers to Goal-Step steps."""
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
def goalstep_runs(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("runs")
    write_run(
        tmp_path / "own", "lmms-eval", "org/Own-7B", {"egointent": egointent_answers(COUNT, 70, 1)}
    )
    write_run(tmp_path / "goal", "lmms-eval", "org/Goal-7B", {"egointent": goalstep_answers()})
    read = sorted(read_runs([tmp_path]).runs, key=lambda run: run.name)
    for run in read:
        check(run, run.tasks["egointent"])
    return read


@pytest.fixture(scope="module")
def both_kinds(goalstep_runs):
    return build_section(EgoIntentReport(goalstep_runs))


def test_each_kind_of_steps_has_a_table_and_the_benchmarks_a_heat_map(both_kinds):
    scenarios, categories = (
        joined(both_kinds, f"egointent_{name}") for name in ("scenarios", "categories")
    )
    assert [column.title for column in scenarios.columns] == ["Scenario", "Steps", "Own-7B"]
    assert [column.title for column in categories.columns] == ["Category", "Goal-Step steps", NAME]
    assert len(scenarios.rows) == len(categories.rows) == 5
    (figure,) = both_kinds.figures
    assert (figure.key, figure.title) == ("egointent_heatmap", "Overall score by scenario")
    (axes,) = figure.draw().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Own-7B"]
    assert "2 runs" not in figure.description


def test_goalstep_runs_are_named_and_never_marked_best(goalstep_runs, both_kinds):
    assert [row["model"] for row in run_rows(both_kinds, "egointent_table3")] == ["Own-7B", NAME]
    assert {row["model"] for row in rows(both_kinds, "egointent_scores")} == {"Own-7B", NAME}
    assert {line.run: line.metric for line in both_kinds.headlines} == {
        "Own-7B": "overall",
        "Goal-7B": "overall (Goal-Step steps)",
    }
    assert {line.run: "Goal-Step" in line.protocol for line in both_kinds.headlines} == {
        "Own-7B": False,
        "Goal-7B": True,
    }
    assert not any("False" in line.protocol for line in both_kinds.headlines)
    assert any(
        remark.startswith(f"{NAME}: steps, labels and cuts are Goal-Step's")
        for remark in both_kinds.remarks
    )
    kinds = {
        tuple(sorted(item.facts))
        for item in gallery_items(EgoIntentReport(goalstep_runs))
        if ("Goal-7B", "egointent") in item.answers
    }
    assert kinds == {("category", "environment", "references")}


def test_goalstep_steps_are_not_comparable_even_with_the_same_count(goalstep_runs):
    goalstep, _ = goalstep_runs
    metrics = {"num_steps": 3014, "coverage": 1.0, "parsed": 1.0, "judge_coverage": 1.0}
    task = goalstep.tasks["egointent"]
    task = replace(task, samples=None, metrics=task.metrics | metrics)
    both_kinds = build_section(EgoIntentReport([replace(goalstep, tasks={"egointent": task})]))
    (row,) = (row for row in joined(both_kinds, "egointent_table3").rows if row.is_ours)
    assert (row.values[0], bool(row.why)) == (NAME, True)
    assert [
        table.key
        for table in both_kinds.tables
        if table.key in ("egointent_scenarios", "egointent_categories")
    ] == ["egointent_categories"]
