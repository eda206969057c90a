"""Real runs of both harnesses."""

import json
import os
from datetime import datetime, timezone

import pytest
from typer.testing import CliRunner

from benchmarks.egothink.synthetic import EGOTHINK_TASKS
from judge_server import JudgeServer, Reply
from lmms_egoplan.cli import app
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.ranking.loglikelihood import LoglikelihoodPair
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.task_files import package_versions
from report.prepared import prepare_data
from report.reading import only
from runs.harness import _JUDGE, run

REPLY = "A. The existence 1."


def evaluate(tasks, tracker):
    """Run lm-eval on a model that prefers the shortest choice, always writes `REPLY`, and ignores
    images.
    """
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Model(LM):
        MULTIMODAL = True

        def loglikelihood(self, requests):
            lengths = [len(request.args[1]) for request in requests]
            return [LoglikelihoodPair(-float(length), False, length // 4) for length in lengths]

        def generate_until(self, requests):
            return [REPLY for _ in requests]

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

    manager = TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False)
    return lm_eval.simple_evaluate(
        Model(), tasks=tasks, task_manager=manager, log_samples=True, evaluation_tracker=tracker
    )


@pytest.fixture(scope="module")
def real_run(tmp_path_factory):
    """Run lm-eval and return the path of the results file."""
    from lm_eval.loggers import EvaluationTracker

    folder = tmp_path_factory.mktemp("real")
    tasks = [
        "egoplan_val",
        "egoplan_val_blind",
        "egoplan_val_generate",
        "egothink_bench_object",
        "egointent",
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(_JUDGE):
                patch.delenv(name)
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
        prepare_data(folder, egoplan=24, egothink=2, egointent=6)
        tracker = EvaluationTracker(output_path=str(folder / "out"))
        results = evaluate(tasks, tracker)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, lines in samples.items():
        tracker.save_results_samples(task_name=task, samples=lines)
    (path,) = (folder / "out").rglob("results_*.json")
    return path


@pytest.mark.whole
def test_a_report_compares_real_runs_of_both_harnesses(real_run, tmp_path, monkeypatch):
    """The models of both harnesses write the same replies, so they have the same score."""
    data = real_run.parents[2]
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
    with JudgeServer(lambda *_: Reply(REPLY)) as server:
        model = (
            "--model",
            "openai",
            "--model_args",
            f"model=tiny,base_url={server.url},api_key=none,max_retries=1",
        )
        judge = {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"}
        run(data, tmp_path / "lmms-eval", "--tasks", "egothink_bench_object", *model, judge=judge)
    paths = [str(data / "out"), str(tmp_path / "lmms-eval")]
    result = CliRunner().invoke(app, ["report", *paths, "--out", str(tmp_path / "report")])
    assert result.exit_code == 0, result.output
    assert "skipped" not in result.output.casefold()
    content = json.loads((tmp_path / "report" / "report.json").read_text())
    assert {benchmark["key"] for benchmark in content["benchmarks"]} == {
        "egoplan",
        "egothink",
        "egointent",
    }
    (egothink,) = (
        benchmark for benchmark in content["benchmarks"] if benchmark["key"] == "egothink"
    )
    scores = {}
    for score in egothink["scores"]:
        scores.setdefault(score["task"], []).append((score["value"], score["questions"]))
    assert all(len(of_runs) == 2 and of_runs[0] == of_runs[1] for of_runs in scores.values()), (
        scores
    )
    value, questions = scores["egothink_bench_object"][0]
    assert (0 < value < 100, questions) == (True, 6)
    (difference,) = (pair for pair in egothink["differences"] if pair["task"] == "egothink_bench")
    assert (difference["value"], difference["questions"]) == (0, 6)


@pytest.mark.nightly
def test_a_real_lm_eval_run_is_shown(real_run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, ["show", "--details", str(real_run)])
    assert (result.exit_code, result.stderr) == (0, "")
    date = json.loads(real_run.read_text())["date"]
    assert (
        f"{datetime.fromtimestamp(date, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        in result.stdout.splitlines()[0]
    )
    for title in (
        "EgoPlan: accuracy in per cent",
        "EgoThink: score, 0 to 100",
        "EgoIntent: score, 0 to 100",
    ):
        assert title in result.stdout
    assert "24 of 3,355" in result.stdout


@pytest.mark.nightly
def test_the_scores_of_a_real_lm_eval_run_equal_those_of_its_samples(real_run):
    runs = read_runs([real_run.parent.parent])
    read = only(runs)
    assert runs.skipped == ()
    counts = {name: len(task.samples) for name, task in read.tasks.items()}
    egothink = [name for name in EGOTHINK_TASKS if name.startswith("egothink_object")]
    assert counts == {
        **dict.fromkeys(("egoplan_val", "egoplan_val_blind", "egoplan_val_generate"), 24),
        **dict.fromkeys(egothink, 2),
        "egointent": 6,
    }
    for task in read.tasks.values():
        check(read, task)
        assert task.version == package_versions()[task.task]
    assert 0 < read.tasks["egoplan_val"].metrics["acc"] < 1
    assert 0 < read.tasks["egothink_object_existence"].metrics["score"] < 100
