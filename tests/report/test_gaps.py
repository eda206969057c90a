"""Each benchmark's report over runs that lack something: its tasks, samples, or records of the expected form."""

import re
from dataclasses import replace

import pytest

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.runs import read_runs
from report.joined import run_rows
from report.report_json import benchmark_of
from report.synthetic import write_run


def test_runs_of_another_benchmark_have_no_section(small, tmp_path):
    tasks = [{"actplan": actplan_answers(4, 0.5)}, {"egointent": egointent_answers(4, 50)}]
    write_run(tmp_path, "lmms-eval", "org/Model-7B", tasks[small.report.NAME == "actplan"])
    report = small.report(read_runs([tmp_path]).runs)
    assert (report.section(), report.items()) == (None, [])


def rounded(value):
    """The harness logs some means with four digits."""
    return pytest.approx(value, abs=5.1e-5) if isinstance(value, float) else value


def test_a_run_without_samples_has_its_scores_alone(small, tmp_path):
    _, harness, model, tasks, _ = min(small.counting.runs(), key=lambda run: len(run[3]))
    write_run(tmp_path, harness, model, tasks, log_samples=False)
    runs = read_runs([tmp_path]).runs
    report = small.report(runs, small.inputs)
    section = report.section()
    scores = {(one["run"], one["task"]): one for one in benchmark_of(small.section, small.runs)["scores"]}
    for one in benchmark_of(section, runs)["scores"]:
        without = {"low": None, "high": None, "no_interval": "no samples", "gallery": one["gallery"]}
        assert one == scores[one["run"], one["task"]] | without
    whole = {row["model"]: row for row in run_rows(small.section, small.counting.TABLE)}
    for row in run_rows(section, small.counting.TABLE):
        known = {key: value for key, value in row.items() if key not in ("low", "high")}
        assert known == {key: rounded(whole[row["model"]][key]) for key in known}
        assert (row["low"], row["high"]) == (None, None)
    assert report.items() == []
    assert f"{report.NAME}_comparisons" not in {table.key for table in section.tables}
    assert any("no samples" in remark for remark in section.remarks)


def test_a_sample_of_another_form_is_an_error_that_names_run_and_task(small):
    run = small.runs[0]
    task = next(iter(run.tasks.values()))
    first, *others = task.samples
    broken = replace(task, samples=(first | {small.counting.RECORD: {"id": "1"}}, *others))
    with pytest.raises(LmmsEgoplanError, match=f"{re.escape(run.name)}, samples of {task.task}"):
        small.report([replace(run, tasks=run.tasks | {task.task: broken})], small.inputs).section()
