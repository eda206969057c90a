"""Questions in every benchmark's small report, and runs with missing or invalid parts."""

import re
from dataclasses import replace

import pytest

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.actplan.report import ActPlanReport
from lmms_egoplan.report.egointent.report import EgoIntentReport
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.egothink.report import EgoThinkReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from report.answers import Answers
from report.joined import run_rows
from report.reading import all_tasks, only
from report.report_json import benchmark_of
from report.synthetic import write_run


def test_without_prepared_data_questions_come_from_lm_evals_logs(any_small, monkeypatch, tmp_path):
    items = gallery_items(any_small.report(any_small.runs))
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    logged = gallery_items(any_small.report(any_small.runs))
    assert [(item.key, item.question) for item in logged] == [
        (item.key, item.question) for item in items
    ]
    assert {item.images for item in logged} == {None}
    bare = any_small.report([run for run in any_small.runs if run.harness == "lmms-eval"])
    assert [item.key for item in gallery_items(bare)] == [item.key for item in items]
    assert {item.images for item in gallery_items(bare)} == {None}
    assert not {item.question for item in gallery_items(bare)} & {item.question for item in items}
    assert any(
        str(tmp_path) in remark and f"data prepare {bare.SPEC.name}" in remark
        for remark in build_section(bare).remarks
    )


def test_equal_ids_with_other_gold_answers_are_other_questions(any_small, tmp_path):
    tasks = min((tasks for *_, tasks, _ in any_small.counting.runs()), key=len)
    other_tasks = {
        task: Answers(
            [doc | any_small.counting.other_gold(doc) for doc in answers.docs], answers.responses
        )
        for task, answers in tasks.items()
    }
    write_run(tmp_path / "one", "lmms-eval", "org/One", tasks)
    write_run(tmp_path / "other", "lmms-eval", "org/Other", other_tasks)
    runs = read_runs([tmp_path]).runs
    report = any_small.report(runs)
    section = build_section(report)
    assert f"{report.SPEC.name}_comparisons" not in {table.key for table in section.tables}
    items = {item.key: item for item in gallery_items(report)}
    alone = [
        {item.key: item.identity for item in gallery_items(any_small.report([run]))} for run in runs
    ]
    keys = [*alone[0]]
    assert items.keys() == {*keys, *(f"{key} (2)" for key in keys)}
    for key in keys:
        first, second = items[key], items[f"{key} (2)"]
        assert {run for run, _ in (*first.answers, *second.answers)} == {"One", "Other"}
        assert len({first.identity, second.identity}) == 2
        assert {first.identity, second.identity} == {identities[key] for identities in alone}
        assert (first.gold, first.references) != (second.gold, second.references)
    missing = sum(item.images is None for item in items.values())
    assert missing >= len(keys)
    assert any(str(missing) in remark and "prepared data" in remark for remark in section.remarks)


def test_questions_have_the_video_and_each_answer_has_its_task(any_small):
    tasks = {(name, task.version) for run in any_small.runs for name, task in run.tasks.items()}
    items = gallery_items(any_small.report(any_small.runs))
    assert {answer.task for item in items for answer in item.answers.values()} <= tasks
    has_videos = any_small.report.SPEC.clusters == "videos"
    assert [item.video is not None for item in items] == [has_videos] * len(items)
    assert all(item.video in item.question for item in items if item.benchmark == "egointent")


def test_runs_of_another_benchmark_have_no_section(any_small, tmp_path):
    tasks = [{"actplan": actplan_answers(4, 0.5)}, {"egointent": egointent_answers(4, 50)}]
    write_run(tmp_path, "lmms-eval", "org/Model-7B", tasks[any_small.report.SPEC.name == "actplan"])
    report = any_small.report(read_runs([tmp_path]).runs)
    assert (build_section(report), gallery_items(report)) == (None, [])


def rounded(value):
    """Return a value that equals means with four digits, which a harness may log."""
    return pytest.approx(value, abs=5.1e-5) if isinstance(value, float) else value


def test_a_run_without_samples_has_only_its_scores(any_small, tmp_path):
    _, harness, model, tasks, _ = min(any_small.counting.runs(), key=lambda run: len(run[3]))
    write_run(tmp_path, harness, model, tasks, log_samples=False)
    runs = read_runs([tmp_path]).runs
    report = any_small.report(runs, any_small.inputs)
    section = build_section(report)
    scores = {
        (score["run"], score["task"]): score
        for score in benchmark_of(any_small.section, any_small.runs)["scores"]
    }
    for score in benchmark_of(section, runs)["scores"]:
        missing = {
            "low": None,
            "high": None,
            "no_interval": "no samples",
            "rank": None,
            "ranked": 0,
        }
        assert score == scores[score["run"], score["task"]] | missing
    complete_rows = {
        row["model"]: row for row in run_rows(any_small.section, any_small.counting.TABLE)
    }
    for row in run_rows(section, any_small.counting.TABLE):
        values = {key: value for key, value in row.items() if key not in ("low", "high")}
        assert values == {key: rounded(complete_rows[row["model"]][key]) for key in values}
        assert (row["low"], row["high"]) == (None, None)
    assert gallery_items(report) == []
    assert f"{report.SPEC.name}_comparisons" not in {table.key for table in section.tables}
    assert any(re.search("(no|without) samples", remark) for remark in section.remarks)


def test_a_sample_of_another_form_is_an_error_that_names_run_and_task(any_small):
    run = any_small.runs[0]
    task = next(iter(run.tasks.values()))
    first, *further = task.samples
    details = first["details"] | {any_small.counting.RECORD: {"id": "1"}}
    broken = replace(task, samples=(first | {"details": details}, *further))
    with pytest.raises(LmmsEgoplanError, match=f"{re.escape(run.name)}, samples of {task.task}"):
        build_section(
            any_small.report(
                [replace(run, tasks=run.tasks | {task.task: broken})], any_small.inputs
            )
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder, "lmms-eval", "org/Model-7B", all_tasks())
    return only(read_runs([folder]))


@pytest.mark.parametrize(
    ("benchmark", "task", "question"),
    [
        (
            EgoPlanReport,
            "egoplan_val_generate",
            lambda details: f"question {details['predictions']['sample_id']}",
        ),
        (
            EgoThinkReport,
            "egothink_object_existence",
            lambda details: f"question {details['answer']['id']}",
        ),
        (
            EgoIntentReport,
            "egointent",
            lambda details: "step {step_id} of video {video_id}".format(**details["step"]),
        ),
        (ActPlanReport, "actplan_text_only", lambda details: f"instance {details['plan']['id']}"),
    ],
)
def test_a_duplicate_question_is_an_error_that_names_it(run, benchmark, task, question):
    task_run = run.tasks[task]
    first, second, *further = task_run.samples
    broken = replace(task_run, samples=(first, second, *further[1:], second, first))
    with pytest.raises(LmmsEgoplanError) as error:
        benchmark([replace(run, tasks=run.tasks | {task: broken})])
    assert f"run Model-7B, samples of {task}: duplicate {question(second['details'])}" in str(
        error.value
    )
    assert build_section(benchmark([run])) is not None
