"""Run EgoPlan's tasks in lmms-eval on real annotations, and compare with an independent slow
evaluation.
"""

import signal
import sys

import pytest
from lmms_eval.evaluator import simple_evaluate

from benchmarks.egoplan.derived_questions import DATA, available
from patience import FOREVER_S
from runs.harness import TWO_PROCESSES, Run, hf_vlm, log, reported, run, start
from runs.prepared_set import DERIVED, EXAMPLE_ID, EXAMPLES, prepare_set, save_letter_lover
from runs.slow_egoplan import (
    SlowEgoPlan,
    accuracies,
    assert_reports,
    assert_same_ranking,
    assert_same_replies,
    choices_in,
    logged,
    reply_accuracies,
)
from runs.test_resumption import KILLED_HARNESS, losses, scored_keys

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (available() and EXAMPLES.exists()), reason=f"needs the public annotations in {DATA}"
    ),
]

LL_TASKS = ("egoplan_val", "egoplan_val_clips")
EVERY = 5  # where all questions would take long, the slow evaluation ranks every fifth


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        # the backend sets the variable; the context restores it
        patch.setenv("LMMS_CACHE_RUN_ID", "")
        patch.delenv("LMMS_CACHE_RUN_ID")
        prepare_set(folder)
        yield folder


@pytest.fixture(scope="module")
def qwen(data):
    return save_letter_lover("qwen2_5_vl", data / "qwen")


@pytest.fixture(scope="module")
def llava(data):
    return save_letter_lover("llava", data / "llava")


@pytest.fixture(scope="module")
def undisturbed(data, qwen):
    """Run the README's command in a separate process."""
    tasks = ",".join((*LL_TASKS, "egoplan_val_generate"))
    return run(data, data / "undisturbed", *hf_vlm(qwen, tasks, "--batch_size", "3"))


@pytest.fixture(scope="module")
def llava_run(data, llava):
    evaluated = simple_evaluate(
        "llava", f"pretrained={llava},dtype=float32", tasks=list(LL_TASKS), log_samples=True
    )
    return Run(evaluated["results"], evaluated["samples"], evaluated["details"])


def assert_arithmetic(run, task, records):
    """Recompute the accuracies from the logged log-probabilities."""
    expected = accuracies(records, choices_in(run, task, records))
    assert_reports(run, task, expected, DERIVED + 1)


def test_uniform_frames_on_hf_vlm(data, qwen, undisturbed):
    slow = SlowEgoPlan(qwen, data / "media")
    assert {*logged(undisturbed, "egoplan_val")} == {*range(DERIVED), EXAMPLE_ID}
    ranked = [slow.rank(record, slow.uniform(record)) for record in slow.records]
    assert_same_ranking(undisturbed, "egoplan_val", ranked, slow.records)
    assert_reports(undisturbed, "egoplan_val", accuracies(slow.records, ranked), DERIVED + 1)


def test_clips_on_hf_vlm(data, qwen, undisturbed):
    slow = SlowEgoPlan(qwen, data / "media")
    records = slow.records[::EVERY]
    ranked = [slow.rank(record, slow.clips(record)) for record in records]
    assert_same_ranking(undisturbed, "egoplan_val_clips", ranked, records)
    assert_arithmetic(undisturbed, "egoplan_val_clips", slow.records)


def test_generated_letters_on_hf_vlm(data, qwen, undisturbed):
    slow = SlowEgoPlan(qwen, data / "media")
    replies = [slow.reply(record, slow.uniform(record)) for record in slow.records]
    assert_same_replies(undisturbed, "egoplan_val_generate", replies, slow.records)
    expected = reply_accuracies(slow.records, replies)
    assert 0.1 < expected["unparsed"] < 0.9
    assert expected["acc"] > 0
    assert_reports(undisturbed, "egoplan_val_generate", expected, DERIVED + 1)


def test_llava(data, llava, llava_run):
    """LLaVA-1.5's context has room for six images."""
    slow = SlowEgoPlan(llava, data / "media")
    ranked = [slow.rank(record, slow.uniform(record, 6)) for record in slow.records]
    assert_same_ranking(llava_run, "egoplan_val", ranked, slow.records)
    assert_reports(llava_run, "egoplan_val", accuracies(slow.records, ranked), DERIVED + 1)
    records = slow.records[::EVERY]
    ranked = [slow.rank(record, slow.clips(record, 4, 1)) for record in records]
    assert_same_ranking(llava_run, "egoplan_val_clips", ranked, records)
    assert_arithmetic(llava_run, "egoplan_val_clips", slow.records)


def test_two_processes(data, llava, llava_run):
    both = run(
        data,
        data / "two_processes",
        *("--tasks", "egoplan_val", "--model", "llava"),
        *("--model_args", f"pretrained={llava},dtype=float32"),
        launcher=TWO_PROCESSES,
    )
    assert "Running on rank 1" in (data / "log.txt").read_text()
    assert len(both.samples["egoplan_val"]) == DERIVED + 1
    expected, predictions = logged(llava_run, "egoplan_val"), logged(both, "egoplan_val")
    for sample_id, prediction in expected.items():
        assert predictions[sample_id]["prediction"] == prediction["prediction"]
    for name in (
        "acc",
        "acc_sum",
        "acc_bytes",
        "acc_epic_kitchens",
        "acc_ego4d",
        "ties",
        "coverage",
    ):
        value = reported(llava_run, "egoplan_val", name)
        assert reported(both, "egoplan_val", name) == pytest.approx(value), name


def test_a_killed_run_of_llava_resumes(data, llava, llava_run):
    cache = data / "cache"
    limit = 60
    model = ["--model", "llava", "--model_args", f"pretrained={llava},dtype=float32"]
    arguments = ["--tasks", "egoplan_val", *model, "--limit", limit, "--use_cache", cache]
    harness = [sys.executable, "-c", KILLED_HARNESS]
    killed = start(data, *arguments, "--output_path", data / "killed", launcher=harness)
    assert killed.wait(FOREVER_S) == -signal.SIGKILL, log(data)
    assert len(scored_keys(cache)) == limit

    resumed = run(data, data / "resumed", *arguments)
    keys = scored_keys(cache)
    assert len(keys) == len(set(keys)) == 4 * limit

    evaluated = simple_evaluate(
        "llava",
        model[-1],
        tasks=["egoplan_val"],
        limit=limit,
        use_cache=str(cache),
        log_samples=True,
    )
    served = Run(evaluated["results"], evaluated["samples"], evaluated["details"])
    assert scored_keys(cache) == keys
    undisturbed = llava_run.samples["egoplan_val"][:limit]
    for samples in (resumed.samples["egoplan_val"], served.samples["egoplan_val"]):
        assert len(samples) == limit
        for sample, expected in zip(samples, undisturbed, strict=True):
            assert sample["acc"] == expected["acc"]
            assert losses(sample) == pytest.approx(losses(expected), abs=1e-5)
    for name in ("acc", "acc_sum", "acc_bytes", "ties", "coverage"):
        values = [reported(done, "egoplan_val", name) for done in (resumed, served)]
        assert values[0] == pytest.approx(values[1]), name


CONDITIONS = ("egoplan_val", "egoplan_val_published", "egoplan_val_blind")


def test_conditions_in_one_run_have_the_numbers_of_separate_runs(data, qwen):
    limit, cache = 8, data / "conditions_cache"
    tasks = [
        "--tasks",
        ",".join(CONDITIONS),
        *hf_vlm(qwen, "", "--limit", limit, "--use_cache", cache)[2:],
    ]
    killed = start(
        data, *tasks, "--output_path", data / "x", launcher=[sys.executable, "-c", KILLED_HARNESS]
    )
    assert killed.wait(FOREVER_S) == -signal.SIGKILL, log(data)
    assert len(scored_keys(cache)) == 60
    resumed = run(data, data / "conditions_resumed", *tasks)
    keys = scored_keys(cache)
    assert len(keys) == len(set(keys)) == 3 * 4 * limit
    both = run(
        data,
        data / "conditions_of_two",
        *hf_vlm(qwen, ",".join(CONDITIONS), "--limit", limit),
        launcher=TWO_PROCESSES,
    )
    for task in CONDITIONS:
        alone = simple_evaluate(
            "hf_vlm",
            f"pretrained={qwen},dtype=float32",
            tasks=[task],
            limit=limit,
            log_samples=True,
        )["samples"][task]
        for several in (resumed, both):
            samples = {sample["doc_id"]: losses(sample) for sample in several.samples[task]}
            assert len(several.samples[task]) == len(samples) == limit
            for expected in alone:
                assert samples[expected["doc_id"]] == pytest.approx(losses(expected), abs=1e-6)
