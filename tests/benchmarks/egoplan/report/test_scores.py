"""EgoPlan's tables of scores in the report, beside what is counted here from the same answers."""

from dataclasses import replace
from statistics import mean

import pytest

from benchmarks.egoplan.report.synthetic_runs import (
    ANSWERS,
    COUNT,
    MAIN,
    interval,
    of_source,
    percent,
    run_of,
    scores,
    task_of,
)
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.report.benchmark import Inputs
from lmms_egoplan.report.runs import read_runs
from report.joined import joined, near, rows, run_rows
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")


@pytest.mark.parametrize("name", MAIN)
def test_table_1_has_the_runs_that_rank_behind_the_video(section, name):
    (row,) = (row for row in run_rows(section, "egoplan_table1") if row["model"] == name)
    assert row["acc"] == near(percent(scores(name)))
    assert (row["low"], row["high"]) == near(interval(name))
    assert row["questions"] == COUNT - scores(name).count(None)
    assert row["coverage"] == near(100 * row["questions"] / 3355)
    assert row["llm"] is None
    assert row["acc_sum"] == near(percent(scores(name, "sum")))


def test_table_1_is_the_papers_with_own_rows_among_it(section):
    found = rows(section, "egoplan_table1")
    assert sorted(row["model"] for row in found if row["is_own"]) == MAIN
    shown = [round(row["acc"], 2) for row in found if not row["is_own"]]
    assert shown == sorted(shown, reverse=True)


def test_runs_on_rendered_scenes_stand_apart_from_table_3(tmp_path, bert):
    real, drawn = ANSWERS["Small"], ANSWERS["Big (lmms-eval)"]
    docs = [doc | {"video_id": f"rendered_{doc['video_id'].replace('-', '_')}"} for doc in drawn.docs]
    write_run(tmp_path, "lmms-eval", "org/Real", {"egoplan_val": real})
    write_run(tmp_path, "lmms-eval", "org/Drawn", {"egoplan_val": replace(drawn, docs=docs)})
    section = EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)).section()
    assert [row["model"] for row in run_rows(section, "egoplan_table3")] == ["Real"]
    (row,) = rows(section, "egoplan_rendered")
    assert row["model"] == "Drawn"
    assert row["id"] == near(of_source("Big (lmms-eval)", "EpicKitchens"))
    assert row["od"] == near(of_source("Big (lmms-eval)", "Ego4D"))
    assert row["all"] == near(percent(scores("Big (lmms-eval)")))


def test_table_3_parts_the_domains(section):
    found = {row["model"]: row for row in run_rows(section, "egoplan_table3")}
    assert sorted(found) == MAIN
    for name, row in found.items():
        assert row["id"] == near(of_source(name, "EpicKitchens"))
        assert row["od"] == near(of_source(name, "Ego4D"))
        assert row["all"] == near(percent(scores(name)))
        assert row["acc_sum"] == near(percent(scores(name, "sum")))
        assert (row["low"], row["high"]) == near(interval(name))


@pytest.mark.parametrize(
    ("changed", "compares"),
    [
        ({}, True),
        ({"predictions": 3354}, False),
        ({"split_size": 3356}, False),
        ({"predictions": 91, "num_questions": 91, "split_size": 91}, False),
    ],
)
def test_only_all_official_questions_compare_with_the_published_rows(runs, bert, changed, compares):
    run = next(run for run in runs if run.name == "Small")
    metrics = {"predictions": 3355, "num_questions": 3355, "split_size": 3355} | changed
    task = replace(run.tasks["egoplan_val"], samples=None, metrics=run.tasks["egoplan_val"].metrics | metrics)
    found = EgoPlanReport([replace(run, tasks={"egoplan_val": task})], Inputs(bert)).section()
    for key in ("egoplan_table1", "egoplan_table3"):
        assert [row.compares for row in joined(found, key).rows if row.is_own] == [compares]
    assert found.headlines[0].coverage == near(metrics["predictions"] / 3355)


def test_table_4_is_published_alone(section):
    assert not run_rows(section, "egoplan_table4")


def test_all_scores_of_each_run(section):
    found = run_rows(section, "egoplan_scores")
    assert len(found) == len(ANSWERS)
    for row in found:
        (name,) = (key for key in ANSWERS if (run_of(key), task_of(key)) == (row["run"], row["task"]))
        is_written = row["task"] == "egoplan_val_generate"
        assert row["acc"] == near(percent(scores(name)))
        assert (row["low"], row["high"]) == near(interval(name))
        assert row["acc_sum"] == (None if is_written else near(percent(scores(name, "sum"))))
        assert row["acc_bytes"] == (None if is_written else near(percent(scores(name, "bytes"))))
        assert row["acc_epic_kitchens"] == near(of_source(name, "EpicKitchens"))
        assert row["acc_ego4d"] == near(of_source(name, "Ego4D"))
        assert row["ties"] == (None if is_written else 0)
        unparsed = [reply == ["I cannot tell."] for reply in ANSWERS[name].responses]
        assert row["unparsed"] == (near(100 * mean(unparsed)) if is_written else None)
        assert row["asked"] == COUNT
        assert row["questions"] == COUNT - scores(name).count(None)


def test_a_backend_that_tells_means_alone_has_no_accuracy_by_sum(runs, bert):
    run = next(run for run in runs if run.name == "Small")
    task = run.tasks["egoplan_val"]
    metrics = {name: value for name, value in task.metrics.items() if name not in ("acc_sum", "acc_bytes")}
    samples = [
        {name: value for name, value in sample.items() if name not in ("acc_sum", "acc_bytes")}
        for sample in task.samples
    ]
    means = replace(run, tasks={"egoplan_val": replace(task, metrics=metrics, samples=samples)})
    found = EgoPlanReport([means], Inputs(bert)).section()
    assert found.headlines[0].beside == (("by sum", None),)
    assert found.headlines[0].value == near(percent(scores("Small")))
    for key in ("egoplan_table1", "egoplan_table3", "egoplan_past_actions"):
        assert {row["acc_sum"] for row in run_rows(found, key)} == {None}


def test_only_a_written_answer_can_be_truncated(section, tmp_path, bert):
    assert not any(headline.is_generated for headline in section.headlines)
    task = "egoplan_val_generate"
    write_run(tmp_path, "lmms-eval", "org/Small", {task: ANSWERS[f"Big (lmms-eval) ({task})"]})
    (headline,) = EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)).section().headlines
    assert (headline.run, headline.task) == ("Small", task)
    assert headline.is_generated


AUDITED = {"ranking_audit_difference": 2e-3, "ranking_tolerance": 1e-4}


def with_metrics(runs, name, metrics):
    """The runs, one of which has other metrics."""
    changed = []
    for run in runs:
        task = run.tasks.get("egoplan_val")
        if run.name == name:
            run = replace(run, tasks={"egoplan_val": replace(task, metrics=task.metrics | metrics)})
        changed.append(run)
    return EgoPlanReport(changed)


def test_a_run_beyond_its_tolerance_is_neither_ranked_nor_compared(runs, section, bert):
    report = with_metrics(runs, "Small", AUDITED)
    (headline,) = (line for line in report.headlines if line.run == "Small")
    assert any("0.002 nats, more than 0.0001" in reason for reason in headline.apart)
    assert any(table.key == "egoplan_comparisons" for table in section.tables)
    assert not any(table is not None and table.key == "egoplan_comparisons" for table in report.tables())
    assert all("0.002" in pair.why for pair in report.differences if "Small" in (pair.first, pair.second))
    assert any("Small" in text and "0.002" in text for text in report.remarks())
    (row,) = (row for row in report.compact_table().rows if row.values[0].strip() == "not compared")
    assert [("0.002" in cell) for cell in row.values[1:]].count(True) == 1


@pytest.mark.parametrize("changed", [{"ranking_audit_difference": 9e-5}, {"ranking_audit_difference": float("nan")}])
def test_a_run_within_its_tolerance_or_without_audits_is_compared(runs, changed):
    report = with_metrics(runs, "Small", AUDITED | changed)
    assert any(table is not None and table.key == "egoplan_comparisons" for table in report.tables())
    assert not any("nats" in reason for line in report.headlines for reason in line.apart)


def test_near_ties_and_the_backends_note_are_shown(runs):
    text = "vLLM not compared with transformers for this model"
    report = with_metrics(runs, "Small", {"near_ties": 3, "ranking_note": text})
    assert any(text in remark for remark in report.remarks())
    cells = {row.values[0].strip(): row.values[1:] for row in report.compact_table().rows}
    assert text in cells["ranking"]
    assert "3" in cells["near ties"]
    assert not any(text in reason for line in report.headlines for reason in line.apart)
