"""If a model's fast paths are inexact for one question, a run must not report wrong numbers."""

import json
import re

import pytest

from lmms_egoplan.paths import LM_EVAL_TASKS
from patience import FOREVER_S
from runs.both_harnesses import in_lmms_eval
from runs.harness import LMMS_EVAL, TWO_PROCESSES, log, run, start
from runs.small_set import prepare_small_set
from runs.test_lm_eval_processes import COMMAND
from zoo import save
from zoo.unusual import save_faulty


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_small_set(tmp_path, 8)
    return tmp_path


def fail_in_two_processes(data):
    """Run on a model whose eighth question is inexact: the fourth question of the second process.

    Return arguments.
    """
    model = f"pretrained={save_faulty(data / 'faulty', '7')},dtype=float32,trust_remote_code=True"
    arguments = [
        "--tasks",
        "egoplan_val",
        "--model",
        "hf_vlm",
        "--use_cache",
        data / "cache",
        "--model_args",
        model,
    ]
    failed = start(data, *arguments, "--output_path", data / "failed", launcher=TWO_PROCESSES)
    assert failed.wait(FOREVER_S) == 1, log(data)
    assert all(fact in log(data) for fact in ("path packed", "(image)", "ranking_path=full"))
    assert not list((data / "failed").rglob("*_results.json"))
    return arguments


@pytest.mark.whole
def test_a_failed_audit_in_one_process_ends_the_run_of_all(data):
    fail_in_two_processes(data)


@pytest.mark.nightly
def test_after_a_failed_audit_the_same_command_computes_full_passes(data):
    arguments = fail_in_two_processes(data)
    again = run(data, data / "again", *arguments, launcher=TWO_PROCESSES)
    forced = in_lmms_eval(
        f"{data / 'faulty'},trust_remote_code=True,ranking_path=full", "egoplan_val"
    )
    samples = sorted(again.samples["egoplan_val"], key=lambda sample: sample["doc_id"])
    for sample, expected in zip(samples, forced.samples["egoplan_val"], strict=True):
        losses = [
            [choice["loss"] for choice in row["details"]["predictions"]["choices"]]
            for row in (sample, expected)
        ]
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)
        assert sample["details"]["ranking"]["path"] == "full"


IN_LMMS_EVAL = ["--tasks", "egoplan_val", "--model", "hf_vlm"]
IN_LM_EVAL = [
    *(
        "lm-eval",
        "--include_path",
        LM_EVAL_TASKS,
        "--tasks",
        "egoplan_val",
        "--model",
        "hf-vlm-ranker",
    ),
    *("--device", "cpu", "--apply_chat_template"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("launcher", "arguments"),
    [(LMMS_EVAL, IN_LMMS_EVAL), (TWO_PROCESSES, IN_LMMS_EVAL), (COMMAND, IN_LM_EVAL)],
    ids=["lmms-eval", "two processes", "lm-eval"],
)
def test_a_forced_path_that_fails_an_audit_writes_results_and_exits_with_1(
    data, launcher, arguments
):
    folder = save_faulty(data / "faulty", "7")
    model = f"pretrained={folder},dtype=float32,trust_remote_code=True,ranking_path=packed"
    process = start(
        data, *arguments, "--model_args", model, "--output_path", data / "out", launcher=launcher
    )
    assert process.wait(FOREVER_S) == 1, log(data)
    (path,) = (data / "out").rglob("*results*.json")
    ranking = json.loads(path.read_text(encoding="utf-8"))["details"]["egoplan_val"]["ranking"]
    assert ranking["difference"] > ranking["tolerance"]
    assert 0 < ranking["memory_ahead"] < 2048
    assert re.search(r"lmms-egoplan: .*egoplan_val: ", log(data))


@pytest.mark.parametrize(
    ("launcher", "wrong"),
    [
        pytest.param(LMMS_EVAL, "missing frame", marks=pytest.mark.whole, id="one process"),
        pytest.param(
            TWO_PROCESSES,
            "missing folder",
            marks=pytest.mark.nightly,
            id="two processes, missing folder",
        ),
        pytest.param(TWO_PROCESSES, "missing frame", marks=pytest.mark.nightly, id="two processes"),
    ],
)
def test_a_run_of_our_backend_that_fails_exits_with_1(data, launcher, wrong):
    folder = data / "nowhere" if wrong == "missing folder" else save("llava", data / "llava")
    if wrong == "missing frame":  # of one question of one process
        # the seventh question's first
        frame = [path for path in sorted(data.rglob("*.jpg")) if "epic" in str(path)][6]
        frame.write_bytes(b"")
    arguments = [
        *IN_LMMS_EVAL,
        "--model_args",
        f"pretrained={folder},dtype=float32",
        "--use_cache",
        data / "cache",
    ]
    process = start(data, *arguments, "--output_path", data / "out", launcher=launcher)
    assert process.wait(FOREVER_S) == 1, log(data)
    assert not list((data / "out").rglob("*results*.json"))
    assert "lmms-egoplan: " in (data / "log.txt").read_text(encoding="utf-8")
    if wrong == "missing frame":  # the answers before it are kept
        logs = [
            path.read_text(encoding="utf-8").splitlines()
            for path in (data / "cache").rglob("*.audit.jsonl")
        ]
        stored = {json.loads(line)["doc_id"] for lines in logs for line in lines}
        assert {0, 2, 4} <= stored
        assert 6 not in stored


@pytest.mark.nightly
def test_a_foreign_backend_keeps_the_exit_code_of_the_harness(data):
    arguments = [
        "--tasks",
        "egoplan_val",
        "--model",
        "llava_hf",
        "--model_args",
        f"pretrained={data / 'nowhere'}",
    ]
    assert start(data, *arguments, "--output_path", data / "out").wait(FOREVER_S) == 0, log(data)


@pytest.mark.nightly
def test_results_contain_the_audits(data):
    folder = save("llava", data / "llava")
    arguments = [
        "--tasks",
        "egoplan_val",
        "--model",
        "hf_vlm",
        "--model_args",
        f"pretrained={folder},dtype=float32",
    ]
    ranking = run(data, data / "out", *arguments).details["egoplan_val"]["ranking"]
    assert ranking["audits"] == 4  # the first, second, fourth and eighth question
    assert 0 < ranking["difference"] < 1e-5
    assert ranking["memory_ahead"] > 0
