"""Run both harnesses on replies with half a surrogate pair, which a JSON body may contain."""

import json

import pytest
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker

from judge_server import JudgeServer, Reply
from lmms_egoplan.demo.checkpoint import write_encoder
from runs.both_harnesses import evaluate, prepare_sets
from runs.harness import run

TASKS = ["egoplan_val_generate", "egothink_object_existence", "egointent", "actplan"]
REPLY = (
    'B\nwalk_to(table \ud83d)\n{"local_intent": "hold it \udc00", "global_intent": "smile '
    '\ud83d\ude00"}'
)
WRITTEN = 'B\nwalk_to(table ?)\n{"local_intent": "hold it ?", "global_intent": "smile \U0001f600"}'


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
        write_encoder(folder / "encoder")
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(folder / "encoder"))
        patch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)
        prepare_sets(folder)
        yield folder


def assert_all_are_logged(samples):
    assert set(samples) == set(TASKS)
    details = {task: [sample["details"] for sample in samples[task]] for task in TASKS}
    answers = [entries["answer"]["answer"] for entries in details["egothink_object_existence"]]
    assert set(answers) == {WRITTEN}
    predictions = [entries["predictions"] for entries in details["egoplan_val_generate"]]
    assert {prediction["prediction"] for prediction in predictions} == {"B"}
    steps = [entries["step"] for entries in details["egointent"]]
    assert {step["fields"]["global_intent"] for step in steps} == {"smile \U0001f600"}
    assert {step["reply"] for step in steps} == {WRITTEN}
    plans = [entries["plan"]["parsed"] for entries in details["actplan"]]
    assert all("walk_to(table ?)" in plan for plan in plans)
    assert all(samples[task] for task in TASKS)


@pytest.mark.nightly
def test_lmms_eval(data):
    environment = {
        "LMMS_EGOPLAN_JUDGE_MODEL": "demo",
        "LMMS_EGOPLAN_ENCODER": str(data / "encoder"),
    }
    with JudgeServer(lambda *_: Reply(REPLY)) as server:
        settings = f"model=tiny,base_url={server.url},api_key=none,max_retries=1"
        arguments = ["--model", "openai", "--model_args", settings, "--tasks", ",".join(TASKS)]
        done = run(data, data / "out", *arguments, judge=environment)
    assert_all_are_logged(done.samples)


class Halves(LM):
    """A model whose replies contain halves of surrogate pairs, like those of an API."""

    MULTIMODAL = True

    def generate_until(self, requests):
        return [REPLY for _ in requests]

    def loglikelihood(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


@pytest.mark.parametrize("predict_only", [False, True])
def test_lm_eval(data, tmp_path, predict_only):
    tracker = EvaluationTracker(output_path=str(tmp_path))
    done = evaluate(
        Halves(), TASKS, predict_only=predict_only, bootstrap_iters=0, evaluation_tracker=tracker
    )
    tracker.save_results_aggregated(
        results={"results": done.results, "configs": {}}, samples=done.samples
    )
    for task in TASKS:
        tracker.save_results_samples(task_name=task, samples=done.samples[task])
    files = {
        path.name.split("_20")[0].removeprefix("samples_"): path
        for path in tmp_path.rglob("*.jsonl")
    }
    samples = {
        task: [json.loads(line) for line in path.read_text().splitlines()]
        for task, path in files.items()
    }
    assert all(sample["resps"] == [[WRITTEN]] for task in TASKS for sample in samples[task])
    if not predict_only:
        assert_all_are_logged(samples)
