"""``lmms-egoplan run`` from a checkpoint to a report, with both harnesses and two processes, and
after a kill.
"""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import psutil
import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.synthetic import egoplan_answers
from judge_server import JudgeServer, Reply
from launch.mistakes import CHECKPOINT, environment_of, prepare_folder
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.launch.harness_run import JudgingProgress
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.start import evaluate
from lmms_egoplan.launch.state import is_running, progress_of, read_state
from lmms_egoplan.status_line import StatusLine
from patience import FOREVER_S, running, wait_until
from report.synthetic import write_run

TASKS = ("--benchmarks", "egoplan,egothink")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "set"
    prepare_folder(folder)
    return folder


@pytest.fixture(scope="module")
def judge():
    with JudgeServer(lambda prompt, count: Reply("Rating: [[0.5]]")) as server:
        yield server


def command(folder, judge, *arguments):
    environment = environment_of(folder) | {
        "LMMS_EGOPLAN_JUDGE_BASE_URL": judge.url,
        "LMMS_EGOPLAN_JUDGE_MODEL": judge.models[0]["id"],
    }
    return {
        "args": [sys.executable, "-m", "lmms_egoplan", "run", CHECKPOINT, *arguments],
        **{"cwd": folder, "env": environment, "text": True, "start_new_session": True},
    }


def run(folder, judge, *arguments):
    return subprocess.run(
        **command(folder, judge, *arguments), capture_output=True, timeout=FOREVER_S, check=False
    )


def metrics(out):
    """Return the numbers of the newest results file by task, except the audits, which each process
    makes.
    """
    content = json.loads(sorted(out.rglob("*_results.json"))[-1].read_text())
    numbers = {}
    for task, values in content["results"].items():
        details = content["details"].get(task, {})
        near_ties = details.get("ranking", {}).get("near_ties")
        numbers[task] = {
            name: pytest.approx(value)
            for name, value in (values | details | {"near_ties": near_ties}).items()
            if isinstance(value, int | float)
        }
    return numbers


@pytest.fixture(scope="module")
def plain(folder, judge):
    """One run: its output, folder and metrics."""
    result = run(folder, judge, *TASKS, "--out", "runs/plain", "--prices", prices(folder))
    assert result.returncode == 0, result.stderr
    return result.stdout, folder / "runs" / "plain", metrics(folder / "runs" / "plain")


def prices(folder):
    (folder / "prices.json").write_text('{"judge": {"input": 1000000, "output": 0}}')
    return "prices.json"


@pytest.mark.whole
def test_run_ends_with_a_report_and_the_main_table(plain):
    output, out, _ = plain
    assert (out / "report" / "index.html").is_file()
    assert (out / "report" / "report.json").is_file()
    rows = [re.split(r"  +", line.strip()) for line in output.splitlines()]
    titles = ["Benchmark", "Score", "95 % interval", "Questions", "Remark"]
    table = rows[rows.index(titles) :]
    named = {row[0]: row for row in table if len(row) == len(titles)}
    assert {*named} == {"Benchmark", "EgoPlan", "EgoThink"}
    assert "egoplan_val_generate: 0.00 (24 truncated)" in " ".join(output.split())
    assert named["EgoThink"][1] == "50.0"
    assert named["EgoThink"][3:] == ["24", "rendered scenes"]
    assert "-m lmms_eval --model hf_vlm --model_args pretrained=checkpoint" in output


@pytest.mark.whole
def test_counts_agree_with_the_run(plain):
    output, out, _ = plain
    row = re.search(r"egoplan_val_generate +(\S+) +(\S+) +none", output)
    questions, images = map(int, row.groups())
    lines = next(out.rglob("*_samples_egoplan_val_generate.jsonl")).read_text().splitlines()
    shown = [json.loads(line)["record"]["images"] for line in lines]
    assert questions == len(shown) == 24
    assert images == sum(shown) == 24 * 8
    (requests,) = re.search(r"all tasks +\S+ +\S+ +up to (\d+)", output).groups()
    assert int(requests) == 24
    assert "measured on the first questions" in output
    assert "Price: " in output


@pytest.mark.nightly
def test_repeating_a_run_asks_neither_the_model_nor_the_judge_again(plain, folder, judge):
    asked = len(judge.prompts)
    before = sum(
        len(path.read_bytes()) for path in (plain[1] / "cache").rglob("rank_*.audit.jsonl")
    )
    result = run(folder, judge, *TASKS, "--out", "runs/plain")
    assert result.returncode == 0, result.stderr
    assert len(judge.prompts) <= asked + 2  # only the tests of the judge
    assert (
        sum(len(path.read_bytes()) for path in (plain[1] / "cache").rglob("rank_*.audit.jsonl"))
        == before
    )


@pytest.mark.nightly
def test_two_processes_give_the_results_of_one(plain, folder, judge):
    result = run(
        folder, judge, *TASKS, "--out", "runs/two", "--launcher", "torchrun", "--processes", "2"
    )
    assert result.returncode == 0, result.stderr
    assert "torch.distributed.run --standalone --nproc_per_node=2 -m lmms_eval" in result.stdout
    assert len([*(folder / "runs" / "two" / "cache").rglob("rank_*.db")]) == 2
    assert metrics(folder / "runs" / "two") == plain[2]


@contextmanager
def stuck(folder, out):
    """Let a run stop at a video that cannot be read yet, after some answers.

    Yield a function that waits for these answers.
    """
    video = sorted((folder / "egoplan" / "ego4d").glob("*.mp4"))[3]
    content = video.read_bytes()
    video.unlink()
    os.mkfifo(video)

    def wait(process):
        wait_until(
            lambda: [path for path in out.rglob("rank_0.audit.jsonl") if path.stat().st_size],
            running(process),
        )

    try:
        yield wait
    finally:
        video.unlink()
        video.write_bytes(content)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("number", "to_group"),
    [
        pytest.param(signal.SIGINT, True, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, False, id="SIGTERM"),
    ],
)
def test_one_signal_stops_a_run_which_says_how_to_resume(folder, judge, number, to_group):
    name = f"runs/stopped-{number}"
    out = folder / name
    arguments = ("--benchmarks", "egoplan_val", "--out", name)
    with stuck(folder, out) as wait:
        process = subprocess.Popen(
            **command(folder, judge, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        wait(process)
        (os.killpg if to_group else os.kill)(process.pid, number)
        output, error = process.communicate(timeout=FOREVER_S)
        state = read_state(out)
        assert not is_running(state)
    assert process.returncode == 128 + number
    assert "Traceback" not in output + error
    resume = f"To resume, repeat: lmms-egoplan run {CHECKPOINT} {' '.join(arguments)}"
    assert [line for line in error.splitlines() if "resume" in line] == [resume]
    answered = progress_of(out, state).overall.done
    assert 0 < answered < 24
    result = show(out)
    assert result.exit_code == 0
    assert "interrupted" in result.stdout
    assert resume in result.stdout


@pytest.mark.whole
def test_a_killed_run_is_shown_and_resumed(plain, folder, judge):
    out = folder / "runs" / "killed"
    arguments = ("--benchmarks", "egoplan_val", "--out", "runs/killed")
    with stuck(folder, out) as wait:
        process = subprocess.Popen(
            **command(folder, judge, *arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait(process)
            result = show(out)
            assert result.exit_code == 0
            assert "running since" in result.stdout
            process.kill()  # only the command: the harness continues
            process.wait(FOREVER_S)
            refused = run(folder, judge, *arguments, "--check")
            assert re.search(r"process \d+ runs there", refused.stderr)
        finally:
            state = read_state(out)
            psutil.Process(int(state.process[0])).kill()
            os.killpg(process.pid, signal.SIGKILL)
    wait_until(lambda: not is_running(state))
    result = show(out)
    assert result.exit_code == 0
    assert "interrupted" in result.stdout
    answered = progress_of(out, read_state(out)).overall.done
    assert 0 < answered < 24
    result = run(folder, judge, *arguments)
    assert result.returncode == 0, result.stderr
    assert re.search(rf"egoplan_val +24 +{answered} ", result.stdout)
    assert metrics(out)["egoplan_val"] == plain[2]["egoplan_val"]
    lines = [
        line for path in out.rglob("rank_0.audit.jsonl") for line in path.read_text().splitlines()
    ]
    keys = [(record["doc_id"], record["idx"]) for record in map(json.loads, lines)]
    assert len(keys) == len(set(keys)) == 96


@pytest.mark.nightly
def test_stored_judgements_are_neither_counted_nor_paid_again(folder):
    """The judge does not answer after its tenth reply, until the run is killed."""
    num_stored = 10
    waits = True

    def reply(prompt, count):
        is_late = waits and len(judge.answered) >= num_stored + 2  # after its two tests
        return Reply("Rating: [[0.5]]", delay=FOREVER_S if is_late else 0)

    with JudgeServer(reply) as judge:
        judge.models[0]["id"] = "slow judge"
        (folder / "prices.json").write_text('{"slow judge": {"input": 0, "output": 1000000}}')
        arguments = ("--benchmarks", "egothink", "--prices", "prices.json", "--out", "runs/paid")
        process = subprocess.Popen(
            **command(folder, judge, *arguments),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: len(judge.prompts) > num_stored + 2, running(process))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(FOREVER_S)
        waits = False
        result = run(folder, judge, *arguments)
    assert result.returncode == 0, result.stderr
    (stored,) = re.findall(r"up to 24, (\d+) stored", result.stdout)
    (new,) = re.findall(r"Total: (\d+) requests", result.stdout)
    assert int(stored) + int(new) == 24
    assert int(stored) >= num_stored - 1
    # A reply has two words.
    assert f"{2 * int(new)}.00 for replies" in result.stdout


def show(out):
    return CliRunner().invoke(app, ["show", str(out)])


@pytest.mark.nightly
def test_a_task_without_a_score_fails_the_run(folder):
    with JudgeServer(
        lambda prompt, count: Reply("OK" if "[[" not in prompt else "no rating")
    ) as judge:
        judge.models[0]["id"] = "silent judge"
        result = run(
            folder, judge, "--benchmarks", "egothink_object_existence", "--out", "runs/unrated"
        )
    assert result.returncode == 1
    assert "no result of egothink_object_existence" in result.stderr.splitlines()[-1]
    assert [*(folder / "runs" / "unrated" / "results").rglob("*_results.json")]


def test_a_harness_that_fails_after_writing_results_fails_the_run(tmp_path, monkeypatch, capsys):
    write_run(
        tmp_path / "written", "lmms-eval", "org/Model", {"egoplan_val": egoplan_answers(5, 0.5)}
    )
    out = tmp_path / "out"
    out.mkdir()
    script = (
        'cp -r "$0" "$1"; printf "loading 10%%\\rloading 99%%\\n\\n"; echo no memory >&2; exit 3'
    )
    harness = ["sh", "-c", script, str(tmp_path / "written"), str(out / "results")]
    monkeypatch.setattr(Plan, "command", lambda plan: harness)
    plan = Plan(
        model="org/Model",
        backend_name="hf_vlm",
        model_args={},
        harness="lmms-eval",
        tasks=["egoplan_val"],
        out=out,
    )
    # All tasks have results, so the error names none.
    with pytest.raises(LmmsEgoplanError, match=r"^lmms-eval exited with 3; .*/log\.txt"):
        evaluate(plan, [], JudgingProgress(0, None), StatusLine())
    assert capsys.readouterr().err.splitlines()[-4:-1] == [
        "loading 10%",
        "loading 99%",
        "no memory",
    ]
    assert "no memory" in (out / "log.txt").read_text()
    assert read_state(out).failure == "lmms-eval exited with 3"


@pytest.mark.nightly
def test_a_run_under_a_preset_names_it_and_refuses_another_one(folder, judge):
    arguments = (
        "--benchmarks",
        "egothink",
        "--limit",
        "1",
        "--harness",
        "lm-eval",
        "--out",
        "runs/preset",
    )
    result = run(folder, judge, *arguments, "--protocol", "physbrain")
    assert result.returncode == 0, result.stderr
    assert " --tasks egothink__physbrain " in result.stdout
    out = folder / "runs" / "preset"
    assert read_state(out).settings["protocol"] == "physbrain"
    results = next(
        path for path in sorted(out.rglob("*.json"), reverse=True) if "results" in path.name
    )
    versions = json.loads(results.read_text())["versions"]
    tasks = {
        task: str(version)
        for task, version in versions.items()
        if not task.startswith(("egothink_bench", "egothink__"))
    }
    assert len(tasks) == 12
    assert all(version.endswith("+physbrain") for version in tasks.values())
    assert "does not state" in (out / "report" / "index.html").read_text()
    other = run(folder, judge, *arguments)
    assert other.returncode == 1
    assert "protocol: physbrain, now none" in other.stderr


def by_question(samples):
    """Return the logged samples by the question's id."""
    with samples.open() as lines:
        records = [json.loads(line) for line in lines]
    return {record["details"]["predictions"]["sample_id"]: record for record in records}


@pytest.mark.nightly
@pytest.mark.parametrize("harness", ["lmms-eval", "lm-eval"])
def test_a_compact_run_is_marked_and_extended_to_a_full_one(plain, folder, judge, harness):
    out = folder / "runs" / f"compact-{harness}"
    arguments = (
        "--benchmarks",
        "egoplan_val",
        "--harness",
        harness,
        "--out",
        f"runs/compact-{harness}",
    )
    result = run(folder, judge, *arguments, "--questions", "11")
    assert result.returncode == 0, result.stderr
    assert "11 of 24 questions" in result.stderr
    (scores,) = json.loads((out / "report" / "report.json").read_text())["benchmarks"][0]["scores"]
    assert "estimate from 11 of 24 questions" in scores["run"]
    assert "estimate from 11 of 24 questions" in "; ".join(scores["apart"])
    assert scores["questions"] == 11
    assert scores["low"] < scores["value"] < scores["high"]
    (samples,) = (out / "results").rglob("*samples_egoplan_val*.jsonl")
    asked = by_question(samples)
    result = run(folder, judge, *arguments)
    assert result.returncode == 0, result.stderr
    newest = max(
        (out / "results").rglob("*samples_egoplan_val*.jsonl"),
        key=lambda path: path.stat().st_mtime,
    )
    answers = by_question(newest)
    assert len(answers) == 24
    for question, record in asked.items():
        assert answers[question]["details"]["predictions"] == record["details"]["predictions"]
    assert "subset" not in next(iter(answers.values()))["coverage"]
    progress = progress_of(out, read_state(out)).overall
    assert progress.done == progress.total
    results = max((out / "results").rglob("*results*.json"), key=lambda path: path.stat().st_mtime)
    assert (
        json.loads(results.read_text())["results"]["egoplan_val"]["acc,none"]
        == plain[2]["egoplan_val"]["acc,none"]
    )
    if harness == "lmms-eval":
        lines = [
            line
            for path in out.rglob("rank_0.audit.jsonl")
            for line in path.read_text().splitlines()
        ]
        keys = [(record["doc_id"], record["idx"]) for record in map(json.loads, lines)]
        assert len(keys) == len(set(keys)) == 96
