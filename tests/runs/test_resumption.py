"""Kill lmms-eval, and resume the run with the responses that it has stored."""

import json
import signal
import sys

import pytest

from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
from patience import FOREVER_S
from runs.both_harnesses import in_lmms_eval
from runs.harness import log, metric, reported, run, start
from runs.small_set import prepare_small_set
from zoo import save

# lmms-eval, killed when it has written 60 responses, on machines of any speed.
KILLED_HARNESS = """
import os, runpy, signal
from lmms_eval.caching.response_cache import ResponseCache

log, logged = ResponseCache._log_to_audit, []

def log_and_die(self, *arguments, **more):
    log(self, *arguments, **more)
    logged.append(arguments)
    if len(logged) == 60:
        os.kill(os.getpid(), signal.SIGKILL)

ResponseCache._log_to_audit = log_and_die
runpy.run_module("lmms_eval", run_name="__main__")
"""
QUESTIONS = 18
REPORTED = (
    "acc",
    "acc_sum",
    "acc_bytes",
    "acc_epic_kitchens",
    "acc_ego4d",
    "ties",
    "coverage",
    "num_questions",
)


def prepare_questions(folder):
    """Prepare the questions on twelve observations; every question has its own text."""
    few = prepare_small_set(folder, 12)
    many = [
        few[number % 12] | {"sample_id": number, "question": f"What is step {number}?"}
        for number in range(QUESTIONS)
    ]
    (folder / "many.json").write_text(json.dumps(many), encoding="utf-8")
    prepare_egoplan(
        folder / "many.json",
        "val",
        Media({"EpicKitchens": folder / "epic", "Ego4D": folder / "ego4d"}),
    )


def scored_keys(cache):
    """Return the key of each scored request. A request that was scored twice has its key twice."""
    return [
        json.loads(line)["cache_key"]
        for path in (cache / "runs").rglob("*.audit.jsonl")
        for line in path.read_text().splitlines()
    ]


def losses(sample):
    return [choice["loss"] for choice in sample["details"]["predictions"]["choices"]]


@pytest.mark.whole
def test_a_killed_run_resumes(tmp_path, monkeypatch):
    """The same command scores only what is missing; a third time, it scores nothing."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    # the backend sets the variable; monkeypatch restores it
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "")
    monkeypatch.delenv("LMMS_CACHE_RUN_ID")
    prepare_questions(tmp_path)
    checkpoint, cache = save("llava", tmp_path / "llava"), tmp_path / "cache"
    model = ["--model", "hf_vlm", "--model_args", f"pretrained={checkpoint},dtype=float32"]
    arguments = ["--tasks", "egoplan_val", *model, "--use_cache", cache]
    killed = start(
        tmp_path,
        *arguments,
        "--output_path",
        tmp_path / "killed",
        launcher=[sys.executable, "-c", KILLED_HARNESS],
    )
    assert killed.wait(FOREVER_S) == -signal.SIGKILL, log(tmp_path)
    assert len(scored_keys(cache)) == 60 < 4 * QUESTIONS
    assert not list((tmp_path / "killed").rglob("*_results.json"))

    resumed = run(tmp_path, tmp_path / "resumed", *arguments)
    keys = scored_keys(cache)
    assert len(keys) == len(set(keys)) == 4 * QUESTIONS

    served = in_lmms_eval(checkpoint, "egoplan_val", use_cache=str(cache))
    assert scored_keys(cache) == keys
    undisturbed = in_lmms_eval(checkpoint, "egoplan_val")
    for done in (resumed, served):
        samples = done.samples["egoplan_val"]
        assert len(samples) == QUESTIONS
        for sample, expected in zip(samples, undisturbed.samples["egoplan_val"], strict=True):
            assert sample["acc"] == expected["acc"]
            assert sample["record"] == expected["record"]
            assert losses(sample) == pytest.approx(losses(expected), abs=1e-5)
        for name in REPORTED:
            value = reported(undisturbed, "egoplan_val", name)
            assert reported(done, "egoplan_val", name) == pytest.approx(value), name


@pytest.mark.whole
def test_answers_of_any_backend_keep_their_lengths_in_the_cache(tmp_path, monkeypatch):
    """A backend without code for the cache.

    Its second run serves some answers, and knows the length of all.
    """
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_small_set(tmp_path, 8)
    task = "egoplan_val_generate"
    (tmp_path / "replies.json").write_text(
        json.dumps({task: {str(100 + number): "B then C" for number in range(8)}})
    )
    model = [
        "--model",
        "scripted",
        "--model_args",
        f"pretrained={tmp_path}",
        "--gen_kwargs",
        "max_new_tokens=3",
    ]
    arguments = ["--tasks", task, *model, "--use_cache", tmp_path / "cache"]
    runs = [
        run(tmp_path, tmp_path / f"{limit}", *arguments, "--limit", f"{limit}") for limit in (5, 8)
    ]
    assert "5/8 cache hits" in log(tmp_path)
    for done, count in zip(runs, (5, 8), strict=True):
        assert done.details[task]["truncated_of"] == count
        assert metric(done.results[task], "truncated") == 1
        assert [sample["token_counts"][0]["output_tokens"] for sample in done.samples[task]] == [
            3
        ] * count
