"""Run EgoThink's tasks on small and on the published data, judged by a server on this machine."""

import hashlib
import json
import math
import re
from statistics import fmean

import pytest
from typer.testing import CliRunner

from benchmarks.egothink.source import write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.cli import app
from lmms_egoplan.judging.text import sanitize
from patience import FOREVER_S, wait_until
from runs import harness
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import assert_same_results, in_both
from runs.both_harnesses import records as logged
from runs.harness import (
    EGOTHINK_ROWS,
    TWO_PROCESSES,
    hf_vlm,
    log,
    printed_metrics,
    run,
    start,
)
from zoo import save

PUBLISHED = "../shared/data/egothink"
KEY = "sk-nobody-may-see-this"
SHORT = "egothink_object_existence"
TASKS = {
    dimension.name: f"egothink_{dimension.capability}_{dimension.name}" for dimension in DIMENSIONS
}


@pytest.fixture(scope="module")
def data(tmp_path_factory, pytestconfig):
    source = (pytestconfig.rootpath / PUBLISHED).resolve()
    if not source.is_dir():
        pytest.skip(f"needs the published data in {source}")
    folder = tmp_path_factory.mktemp("egothink")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepared = CliRunner().invoke(app, ["data", "prepare", "egothink", str(source)])
        assert prepared.exit_code == 0, prepared.output
        yield folder


@pytest.fixture(scope="module")
def checkpoint(data):
    return save("llava", data / "llava")


def rating(prompt):
    """Return the judge's rating of a prompt: 0, 0.5, 1 or, for one in ten, None."""
    return ([0, 0.5, 1] * 3 + [None])[hashlib.sha256(prompt.encode()).digest()[0] % 10]


def opinion(prompt, asked_before):
    """Return a reply with the prompt's digest and its rating, or with an invalid rating."""
    value = rating(prompt)
    return Reply(
        f"Of {digest(prompt)}:\nRating: [[{7 if value is None else value}]]",
        model="judge-of-tests-2",
    )


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def judge_at(server, model, **variables):
    return harness.judge_at(server, model, LMMS_EGOPLAN_JUDGE_API_KEY=KEY, **variables)


def section(prompt, name):
    """Return the text between two of the prompt's delimiters, which have curly apostrophes."""
    (text,) = re.findall(
        rf"\[The Start of {name} Answer\]\n(.*?)\n+\[The End of {name} Answer\]", prompt, re.DOTALL
    )
    return text.strip("\n")


def records(run):
    """Return a run's logged record of each answer, by ID, if no ID is duplicate."""
    by_id = {}
    for samples in run.samples.values():
        for sample in samples:
            record = sample["details"]["answer"]
            assert record["id"] not in by_id
            by_id[record["id"]] = record
    return by_id


def docs(*names):
    return {
        doc["id"]: doc
        for name in names
        for doc in EGOTHINK.load(name).select_columns(["id", "question", "answer"])
    }


def assert_judged_as_asked(run, prompts, names):
    """Each record contains the judge's verdict on its own answer and question."""
    by_digest = {digest(prompt): prompt for prompt in prompts}
    questions = docs(*names)
    for identifier, record in records(run).items():
        prompt = by_digest[re.search("Of ([0-9a-f]{64})", record["judgement"])[1]]
        doc = questions[identifier]
        assert section(prompt, "Reference") == doc["answer"]
        assert f"[Question]\n{doc['question']}\n" in prompt
        assert section(prompt, "Assistant\u2019s") == sanitize(record["answer"])[0].strip("\n")
        assert record["rating"] == rating(prompt)
        assert record["judge"] == "judge-of-tests-2"
        assert (record["error"] is None) == (record["rating"] is not None)


@pytest.mark.whole
def test_every_aggregate_in_both_harnesses(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
    prepare_egothink(write_source(tmp_path / "source", 4))
    answers = [
        "The existence 1.",
        "The attribute 2.",
        "No idea.",
        "<think>The counting 1?</think>None.",
    ]
    checkpoint = save_attentive_answerer(tmp_path / "answerer", answers)
    with JudgeServer(opinion) as server:
        for name, value in judge_at(server, "both harnesses").items():
            monkeypatch.setenv(name, value)
        lmms_run, lm_run = in_both(checkpoint, "egothink_bench")
    assert_aggregates_follow_from_the_records(lmms_run)
    assert_judged_as_asked(lmms_run, server.prompts, TASKS)
    for task in TASKS.values():
        assert logged(lm_run, task, "answer") == logged(lmms_run, task, "answer")
    assert_same_results(lmms_run, lm_run, TASKS.values())
    groups = [name for name in lm_run.results if name.startswith("egothink_bench")]
    assert len(groups) == 7
    for group in groups:
        for name in ("score,judged", "judge_coverage,judged"):
            assert lm_run.results[group][name] == pytest.approx(lmms_run.results[group][name])


@pytest.mark.nightly
def test_the_whole_benchmark(data, checkpoint):
    def crowded(prompt, asked_before):
        """Reply after nine requests were open at once. The probe at the start is sent alone."""
        if len(server.prompts) > 1:
            wait_until(lambda: server.peak > 8)
        return opinion(prompt, asked_before)

    with JudgeServer(crowded) as server:
        done = run(
            data,
            data / "whole",
            *hf_vlm(checkpoint, "egothink_bench"),
            judge=judge_at(server, "whole"),
        )
    assert set(done.samples) == set(TASKS.values())
    by_id = records(done)
    assert len(by_id) == 700
    assert_judged_as_asked(done, server.prompts, TASKS)
    assert KEY not in log(data)

    assert_aggregates_follow_from_the_records(done)
    # One probe, one request for each rated answer, and three for each answer without a rating.
    assert len(server.prompts) == 1 + len(set(server.prompts[1:])) + 2 * sum(
        rating(prompt) is None for prompt in set(server.prompts[1:])
    )
    assert server.peak > 8


def assert_aggregates_follow_from_the_records(done):
    by_id = records(done)
    scores, judged = {}, 0
    for name, task in TASKS.items():
        results, details = done.results[task], done.details[task]
        of_task = [
            record for identifier, record in by_id.items() if identifier.startswith(f"{name}/")
        ]
        ratings = [record["rating"] for record in of_task if record["rating"] is not None]
        judged += len(ratings)
        scores[name] = 100 * sum(ratings) / len(ratings)
        assert results["score,judged"] == pytest.approx(scores[name])
        assert results["judge_coverage,judged"] == pytest.approx(len(ratings) / len(of_task))
        assert details["num_questions"] == len(of_task) == len(docs(name))
        assert results["truncated,judged"] == pytest.approx(
            fmean(record["truncated"] for record in of_task)
        )
        assert details["truncated_of"] == len(of_task)
        assert results["suspect,judged"] == pytest.approx(
            fmean(record["suspect"] for record in of_task)
        )
        assert details["judge_model"] == "judge-of-tests-2"
    assert done.results["egothink_bench"]["score,judged"] == pytest.approx(fmean(scores.values()))
    assert done.results["egothink_bench"]["judge_coverage,judged"] == pytest.approx(
        judged / len(by_id)
    )
    reasoning = [scores["counting"], scores["comparison"], scores["situated"]]
    assert done.results["egothink_bench_reasoning"]["score,judged"] == pytest.approx(
        fmean(reasoning)
    )


@pytest.mark.whole
def test_processes_and_parts_of_the_data_keep_answers_and_questions_together(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_egothink(write_source(tmp_path / "source", 20))
    checkpoint = save("llava", tmp_path / "llava")
    arguments = hf_vlm(checkpoint, SHORT, "--offset", "7", "--limit", "9")
    with JudgeServer(opinion) as server:
        done = run(
            tmp_path,
            tmp_path / "two",
            *arguments,
            launcher=TWO_PROCESSES,
            judge=judge_at(server, "parts"),
        )
    assert set(records(done)) == {f"existence/{number}" for number in range(8, 17)}
    assert_judged_as_asked(done, server.prompts, ["existence"])
    assert done.details[SHORT]["num_questions"] == 9
    output = (tmp_path / "log.txt").read_text(encoding="utf-8")
    assert printed_metrics(output, SHORT) == sorted(EGOTHINK_ROWS)


@pytest.mark.nightly
def test_answers_without_a_judge_can_be_judged_later(data, checkpoint, monkeypatch):
    done = run(data, data / "unjudged", *hf_vlm(checkpoint, SHORT, "--limit", "6"))
    words = log(data)
    assert words.index("LMMS_EGOPLAN_JUDGE_MODEL") < words.index("Running on rank")
    results = done.results[SHORT]
    assert math.isnan(results["score,judged"])
    assert results["judge_coverage,judged"] == 0
    assert done.details[SHORT]["judge_model"] == "none"
    (samples,) = (data / "unjudged").rglob("*_samples_*.jsonl")
    judged = data / "judged.jsonl"
    with JudgeServer(lambda prompt, asked_before: Reply("Rating: [[0.5]]")) as server:
        for name, value in judge_at(server, "later").items():
            monkeypatch.setenv(name, value)
        command = CliRunner().invoke(app, ["judge", "egothink", str(samples), "--out", str(judged)])
        assert command.exit_code == 0, command.output
    lines = [json.loads(line) for line in judged.read_text().splitlines()]
    assert [line["id"] for line in lines] == list(records(done))
    assert [line["answer"] for line in lines] == [
        record["answer"] for record in records(done).values()
    ]
    assert {line["rating"] for line in lines} == {0.5}


@pytest.mark.nightly
def test_an_invalid_judge_fails_before_the_model_is_loaded(data, checkpoint):
    refusal = Reply(f"Incorrect API key provided: {KEY}.", status=401)
    with JudgeServer(lambda prompt, asked_before: refusal) as server:
        judge = judge_at(server, "wrong")
        process = start(
            data, *hf_vlm(checkpoint, SHORT), "--output_path", data / "wrong", judge=judge
        )
        process.wait(timeout=FOREVER_S)
    words = log(data)
    assert not list((data / "wrong").rglob("*_results.json"))
    assert "Running on rank" not in words
    assert "Loading" not in words
    assert KEY not in words
    assert "Incorrect API key provided" in words
    assert len(server.prompts) == 1


@pytest.mark.nightly
def test_answers_are_kept_if_the_judge_rejects_requests_midway(data, checkpoint):
    asked = []

    def refuse_later(prompt, asked_before):
        asked.append(prompt)
        if len(asked) > 5:
            return Reply(f"quota of {KEY} is used up", status=403)
        return Reply("Rating: [[1]]")

    with JudgeServer(refuse_later) as server:
        judge = judge_at(server, "refusing", LMMS_EGOPLAN_JUDGE_CONCURRENCY="1")
        done = run(data, data / "refused", *hf_vlm(checkpoint, SHORT, "--limit", "12"), judge=judge)
    assert len(asked) == 6
    assert done.details[SHORT]["num_questions"] == 12
    assert done.results[SHORT]["score,judged"] == 100
    assert 0 < done.results[SHORT]["judge_coverage,judged"] < 1
    assert "is used up" in log(data)
    assert KEY not in log(data)
    assert KEY not in json.dumps(done.samples)


@pytest.mark.nightly
def test_overlapping_groups_have_no_wrong_average(data, checkpoint):
    tasks = "egothink_bench,egothink_bench_object"
    arguments = hf_vlm(checkpoint, tasks, "--limit", "1", "--gen_kwargs", "max_new_tokens=4")
    done = run(data, data / "overlap", *arguments, judge={"LMMS_EGOPLAN_JUDGE_MODEL": "demo"})
    assert math.isnan(done.results["egothink_bench"]["score,judged"])
    expected = fmean(
        done.results[TASKS[name]]["score,judged"]
        for name in ("existence", "attribute", "affordance")
    )
    assert done.results["egothink_bench_object"]["score,judged"] == pytest.approx(expected)
