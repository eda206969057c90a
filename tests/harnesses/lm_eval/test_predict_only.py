"""``--predict_only`` stores the answers without calling the judge, and no run uses few-shot
examples.
"""

import pytest
from lm_eval import simple_evaluate

from harnesses.lm_eval.prepared_sets import load, manager
from judge_server import JudgeServer, Reply
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker

TASKS = [
    "egoplan_val",
    "egoplan_val_blind",
    "egoplan_val_generate",
    "egothink_object_existence",
    "egointent",
]


@pytest.fixture(scope="module")
def run(data, checkpoint):
    """Return a run's results, its tasks, and the prompts sent to a judge that is set after the
    tasks are loaded.
    """
    with JudgeServer(lambda *_: Reply()) as server, pytest.MonkeyPatch.context() as patch:
        tasks = [load(name, num_frames=2, max_frames=2) for name in TASKS]
        patch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        patch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "nobody")
        model = HFVLMRanker(checkpoint["llava"], device="cpu", dtype="float32", batch_size=4)
        results = simple_evaluate(
            model,
            tasks=tasks,
            predict_only=True,
            num_fewshot=3,
            apply_chat_template=True,
            bootstrap_iters=0,
            gen_kwargs={"max_gen_toks": 4},
            task_manager=manager(),
        )
        yield results, tasks, server.prompts


def test_answers_are_logged_and_not_scored(run):
    results, tasks, judge_prompts = run
    assert judge_prompts == []
    for task in tasks:
        name = task.config.task
        scores = {key for key in results["results"][name] if "," in key}
        assert scores <= {"bypass,none", "bypass_stderr,none"}
        samples = results["samples"][name]
        assert len(samples) == len(task.eval_docs)
        assert all(response for sample in samples for (response,) in sample["resps"])


def test_few_shot_examples_are_never_used(run):
    """The run requests three."""
    results, tasks, _ = run
    for task in tasks:
        assert task.get_config("num_fewshot") == 0
        for sample in results["samples"][task.config.task]:
            assert sample["arguments"][0][0].count("ASSISTANT:") == 1
            if "question" in sample["doc"]:
                assert sample["arguments"][0][0].count(sample["doc"]["question"]) == 1
