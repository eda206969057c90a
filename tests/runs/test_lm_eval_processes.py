"""Start, kill and resume ``lmms-egoplan lm-eval`` like a user, and share questions between
processes.
"""

import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import lm_eval.__main__
import pytest

from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
from lmms_egoplan.benchmarks.egothink.presets import load_presets
from lmms_egoplan.cli import app
from lmms_egoplan.paths import LM_EVAL_TASKS
from patience import FOREVER_S
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import (
    FEW_TOKENS,
    aggregates,
    assert_same_results,
    in_lm_eval,
    lm_tasks,
    prepare_sets,
    records,
)
from runs.harness import Run, log, start
from runs.prepared_set import save_letter_lover
from runs.small_set import prepare_small_set

COMMAND = [sys.executable, "-m", "lmms_egoplan"]
# The command, killed when its cache contains 40 responses, on machines of any speed.
KILLED_COMMAND = """
import os, runpy, signal
from lm_eval.api.model import CacheHook

add_partial = CacheHook.add_partial

def add_and_die(self, *arguments):
    add_partial(self, *arguments)
    if len(self.dbdict) >= 40:
        os.kill(os.getpid(), signal.SIGKILL)

CacheHook.add_partial = add_and_die
runpy.run_module("lmms_egoplan", run_name="__main__")
"""
MANY = 36
"""Number of questions. All have the same text, and there are twelve observations."""
TWO_RANKS = [
    *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"),
    *(
        "--master_port=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
        "-m",
        "runs.lm_eval_rank",
    ),
]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


def prepare_many(folder):
    few = prepare_small_set(folder, 12)
    text = {"question": few[0]["question"]}
    many = [few[number % 12] | text | {"sample_id": number} for number in range(MANY)]
    (folder / "many.json").write_text(json.dumps(many), encoding="utf-8")
    prepare_egoplan(
        folder / "many.json",
        "val",
        Media({"EpicKitchens": folder / "epic", "Ego4D": folder / "ego4d"}),
    )


def stored(database):
    """Return the number of responses in a cache."""
    if not database.exists():
        return 0
    with closing(
        sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=FOREVER_S)
    ) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE name = 'unnamed'"
        ).fetchall()
        return connection.execute("SELECT count(*) FROM unnamed").fetchone()[0] if tables else 0


def samples_below(folder):
    (path,) = folder.rglob("samples_egoplan_val_*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_below(folder):
    """Return a run of egoplan_val from its files."""
    (path,) = folder.rglob("results_*.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    return Run(content["results"], {"egoplan_val": samples_below(folder)}, content["details"])


def scores(samples):
    """Return log-probability and number of tokens of each choice, by question."""
    predictions = [sample["details"]["predictions"] for sample in samples]
    return {
        row["sample_id"]: [(c["logprob"], c["num_tokens"]) for c in row["choices"]]
        for row in predictions
    }


@pytest.mark.whole
def test_a_killed_run_resumes_and_a_finished_one_sends_no_requests(data, caplog):
    prepare_many(data)
    checkpoint = save_letter_lover("llava", data / "llava")
    cache = data / "cache" / "responses"
    arguments = [
        *(
            "lm-eval",
            "--include_path",
            LM_EVAL_TASKS,
            "--tasks",
            "egoplan_val",
            "--model",
            "hf-vlm-ranker",
        ),
        *(
            "--model_args",
            f"pretrained={checkpoint},dtype=float32",
            "--device",
            "cpu",
            "--apply_chat_template",
        ),
        *("--metadata", "num_frames=3", "--use_cache", cache, "--log_samples", "--output_path"),
    ]
    database = Path(f"{cache}_rank0.db")
    killed = start(
        data, *arguments, data / "killed", launcher=[sys.executable, "-c", KILLED_COMMAND]
    )
    assert killed.wait(FOREVER_S) == -signal.SIGKILL, log(data)
    num_stored = stored(database)
    assert 40 <= num_stored < 4 * MANY
    assert not list((data / "killed").rglob("*.json*"))

    assert start(data, *arguments, data / "resumed", launcher=COMMAND).wait(FOREVER_S) == 0, log(
        data
    )
    output = (data / "log.txt").read_text(encoding="utf-8")
    assert f"Cached requests: {num_stored}, Requests remaining: {4 * MANY - num_stored}" in output
    assert "|egoplan_val|" in output
    assert stored(database) == 4 * MANY

    caplog.set_level("INFO", logger="lm_eval")
    settings = {"metadata": {"num_frames": 3}}
    again = in_lm_eval(checkpoint, "egoplan_val", use_cache=str(cache), **settings)
    assert f"Cached requests: {4 * MANY}, Requests remaining: 0" in caplog.text
    assert "Running loglikelihood requests" in caplog.text
    assert stored(database) == 4 * MANY

    undisturbed = in_lm_eval(checkpoint, "egoplan_val", **settings)
    expected = scores(undisturbed.samples["egoplan_val"])
    assert len(expected) == MANY
    assert len({round(choices[0][0], 3) for choices in expected.values()}) > 4
    expected_aggregates = aggregates(undisturbed, "egoplan_val")
    for run in (run_below(data / "resumed"), again):
        samples = run.samples["egoplan_val"]
        assert all(sample["arguments"] for sample in samples)
        by_id = scores(samples)
        for sample_id, choices in expected.items():
            assert by_id[sample_id] == [
                (pytest.approx(total, abs=1e-4), tokens) for total, tokens in choices
            ]
        assert aggregates(run, "egoplan_val") == pytest.approx(expected_aggregates)


def test_help_shows_lm_evals_help(monkeypatch, capsys):
    arguments = ["run", "--help"]
    monkeypatch.setattr(sys, "argv", ["lm-eval", *arguments])
    with pytest.raises(SystemExit):
        lm_eval.__main__.cli_evaluate()
    harness_text = capsys.readouterr().out
    # the command replaces it
    monkeypatch.setattr(lm_eval, "simple_evaluate", lm_eval.simple_evaluate)
    with pytest.raises(SystemExit):
        app(["lm-eval", *arguments])
    text = capsys.readouterr().out
    assert text.endswith(harness_text)
    assert "hf-vlm-ranker" in text.removesuffix(harness_text)
    assert harness_text.startswith("usage: lm-eval")


def test_our_tasks_are_listed():
    table = lm_tasks().list_all_tasks(list_groups=False, list_tags=False)
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if "|" in line
    ]
    outputs = {
        row[0]: row[2] for row in rows if len(row) > 2 and row[1].startswith(str(LM_EVAL_TASKS))
    }
    ranked = ("egoplan_val", "egoplan_val_blind", "egoplan_val_narrated")
    assert {outputs[name] for name in ranked} == {"multiple_choice"}
    assert {
        outputs[name] for name in ("egoplan_val_generate", "egointent", "actplan_text_only")
    } == {"generate_until"}
    # also without image, with another one, and marked; of each preset also marked
    variants = 4 + 2 * len(load_presets())
    assert sum(name.startswith("egothink_") for name in outputs) == variants * 12


def test_arguments_arrive_unchanged(monkeypatch):
    arguments = [
        *(
            "run",
            "--tasks",
            "a,b",
            "-m",
            "hf",
            "-a",
            "pretrained=x,dtype=y",
            "--metadata",
            '{"num_frames": 3}',
            "-x",
        ),
        *(
            "--gen_kwargs",
            "until=[' ']",
            "--limit",
            "-1",
            "-L5",
            "--output_path=a b",
            "--harness",
            "",
            "é",
            "--version",
        ),
    ]
    monkeypatch.setattr(sys, "argv", ["lmms-egoplan"])
    # the command replaces it
    monkeypatch.setattr(lm_eval, "simple_evaluate", lm_eval.simple_evaluate)
    arrived = []
    monkeypatch.setattr(lm_eval.__main__, "cli_evaluate", lambda: arrived.extend(sys.argv))
    app(["lm-eval", *arguments], standalone_mode=False)
    assert arrived == ["lm-eval", *arguments]


@pytest.mark.whole
def test_two_processes_give_the_results_of_one(data, monkeypatch):
    """The first process has all questions on EPIC-KITCHENS, none on Ego4D, and no outdoor step."""
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    prepare_sets(data)
    intents = {
        "local_intent": "hold board 5 steady",
        "global_intent": "rest",
        "next_step_plan": "drive screw 2 in",
    }
    checkpoint = save_attentive_answerer(
        data / "qwen", ["A", "B", "D", "The attribute 2.", json.dumps(intents)]
    )
    tasks = ["egoplan_val", "egoplan_val_generate", "egothink_object_attribute", "egointent"]
    arguments = [checkpoint, ",".join(tasks), data / "both.json"]
    judge = {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"}
    assert start(data, *arguments, launcher=TWO_RANKS, judge=judge).wait(FOREVER_S) == 0, log(data)
    assert "rank 1 of 2 had [16, 4, 1, 3] requests" in log(data)
    both = Run(**json.loads((data / "both.json").read_text(encoding="utf-8")))
    one = in_lm_eval(checkpoint, *tasks, gen_kwargs=FEW_TOKENS)
    assert_same_results(one, both, tasks)
    assert_same_results(both, one, tasks)
    entries = ("predictions", "predictions", "answer", "step")
    for task, entry in zip(tasks, entries, strict=True):
        shared, alone = records(both, task, entry), records(one, task, entry)
        assert shared.keys() == alone.keys()
        if task != "egoplan_val":
            assert shared == alone
        recorded = [
            {sample["doc_id"]: sample["record"] for sample in run.samples[task]}
            for run in (both, one)
        ]
        assert recorded[0] == recorded[1]
        assert all(record["tokens"] for record in recorded[1].values())
