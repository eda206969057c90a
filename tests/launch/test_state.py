"""How far a run is: from the harness's cache, without its results."""

import json
import os
import platform
import re
import sqlite3
import time

import psutil
import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.cache import JudgementCache
from lmms_egoplan.judging.judgement import Judgement
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.launch.state import (
    Progress,
    RunState,
    describe_progress,
    is_running,
    progress_of,
    read_stored,
)
from lmms_egoplan.run_events import EVENTS, JUDGEMENT, record_event
from report.synthetic import write_run

STARTED = 1_000_000.0


def state(**changes):
    values = {
        "settings": {"backend_name": "hf_vlm"},
        "totals": {"egoplan_val": 10},
        "command": "lmms-egoplan run checkpoint",
        "started": STARTED,
        **{"streams": True, "host": platform.node()},
        "process": [float(os.getpid()), psutil.Process().create_time() + 100],
    }
    return RunState(**values | changes)


def record(question, moment, index=0, model="a", task="egoplan_val"):
    return {
        **{
            "task_name": task,
            "doc_id": question,
            "idx": index,
            "created_at": moment,
            "response": "x",
        },
        **{"model_fingerprint_hash": model, "task_fingerprint": "t"},
    }


def write_log(path, records, end=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in records) + end)


def test_progress_counts_each_question_once_in_all_processes(tmp_path):
    runs = tmp_path / "cache" / "runs" / "id"
    first = [
        record(number, STARTED + 10 * number, index) for number in range(4) for index in range(4)
    ]
    write_log(runs / "rank_0.audit.jsonl", first, end='{"task_name": "egoplan_val", "doc_i')
    write_log(
        runs / "rank_1.audit.jsonl",
        [record(4, STARTED + 40), {"other": 1}, [3], record(0, STARTED)],
    )
    progress = progress_of(tmp_path, state()).tasks["egoplan_val"]
    assert (progress.done, progress.total) == (5, 10)
    assert progress.rate == pytest.approx(4 / 40)
    assert progress.seconds_left == pytest.approx(5 * 10)


def test_answers_of_an_earlier_checkpoint_and_the_pause_between_starts_do_not_count(tmp_path):
    earlier = [record(number, STARTED - 5000, model="old") for number in range(8)]
    paused = [record(number, STARTED - 4000 + number) for number in range(3)]
    now = [record(3 + number, STARTED + 2 * number) for number in range(3)]
    write_log(tmp_path / "cache" / "runs" / "id" / "rank_0.audit.jsonl", [*earlier, *paused, *now])
    progress = progress_of(tmp_path, state()).tasks["egoplan_val"]
    assert progress.done == 6
    assert progress.rate == pytest.approx(2 / 4)


def test_without_answers_nothing_is_claimed(tmp_path):
    progress = progress_of(tmp_path, state()).tasks["egoplan_val"]
    assert (progress.done, progress.rate, progress.seconds_left) == (0, None, None)


def test_requests_of_lm_eval_are_counted_in_all_processes(tmp_path):
    (tmp_path / "cache").mkdir()
    for rank, count in enumerate((3, 4)):
        with sqlite3.connect(tmp_path / "cache" / f"answers_rank{rank}.db") as cache:
            cache.execute("CREATE TABLE unnamed (key TEXT PRIMARY KEY, value BLOB)")
            cache.executemany(
                "INSERT INTO unnamed VALUES (?, ?)", [(str(number), b"") for number in range(count)]
            )
    progress = progress_of(tmp_path, state(totals={"all requests": 40})).overall
    assert (progress.done, progress.total) == (7, 40)


def test_stored_judgements_are_those_of_the_present_judge(tmp_path, monkeypatch):
    """One was deleted from the database, one has no rating, and one is by another judge."""
    for name, value in {"DATA": tmp_path, "JUDGE_BASE_URL": "http://127.0.0.1:9/v1"}.items():
        monkeypatch.setenv(f"LMMS_EGOPLAN_{name}", str(value))
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "judge")
    plan = Plan(
        **{"model": "m", "backend_name": "hf_vlm", "model_args": {}, "harness": "lmms-eval"},
        **{"tasks": ["egothink_object_existence"], "out": tmp_path},
    )
    assert read_stored(plan) is None
    (tmp_path / "run.json").write_text(json.dumps(state().model_dump()))
    judgements = {
        "stored": ("judge", True),
        "deleted": ("judge", True),
        "unrated": ("judge", False),
        "by another": ("other", True),
    }
    monkeypatch.setenv(EVENTS, str(tmp_path / "events.jsonl"))
    for key, (model, is_rated) in judgements.items():
        for _ in range(2):
            record_event(JUDGEMENT, key=key, model=model, is_rated=is_rated)
    rating = Judgement(1.0, "[[1]]", "judge", prompt="p", endpoint="e")
    with JudgementCache(tmp_path / "judgements.sqlite") as cache:
        cache.store(dict.fromkeys(("stored", "by another"), rating))
    assert read_stored(plan).judgements == 1
    (tmp_path / "judgements.sqlite").write_text("no database")
    with pytest.raises(LmmsEgoplanError, match=r"judgements\.sqlite"):
        read_stored(plan)


def test_a_process_with_the_same_number_is_not_the_run():
    assert not is_running(state())
    assert is_running(state(process=[float(os.getpid()), psutil.Process().create_time()]))
    assert not is_running(state(process=None))
    assert not is_running(
        state(process=[float(os.getpid()), psutil.Process().create_time()], host="elsewhere")
    )
    assert not is_running(state(process=[2.0**31 - 1, STARTED]))


def show(folder, current):
    (folder / "run.json").write_text(json.dumps(current.model_dump()))
    return CliRunner().invoke(app, ["show", str(folder)])


def test_show_describes_an_interrupted_run_and_succeeds(tmp_path):
    write_log(
        tmp_path / "cache" / "runs" / "id" / "rank_0.audit.jsonl",
        [record(1, STARTED), record(2, STARTED + 1)],
    )
    result = show(tmp_path, state(totals={"egoplan_val": 10, "egoplan_test": 10}))
    assert result.exit_code == 0
    assert result.stderr == ""
    for fact in (
        "interrupted",
        "To resume, repeat: lmms-egoplan run checkpoint",
        "egoplan_val",
        "20%",
    ):
        assert fact in result.stdout
    assert re.search(r"all tasks +2 +20 +10%", result.stdout)


def test_show_describes_a_failed_run_and_fails(tmp_path):
    result = show(tmp_path, state(failure="lmms-eval exited with 1"))
    assert result.exit_code == 1
    assert "failed: lmms-eval exited with 1" in result.stdout
    assert "To resume, repeat: lmms-egoplan run checkpoint" in result.stdout
    assert "no results" in result.stderr


def test_show_describes_a_running_run_and_succeeds(tmp_path):
    started = time.time() - 60_000
    write_log(
        tmp_path / "cache" / "runs" / "id" / "rank_0.audit.jsonl",
        [record(n, started + n) for n in range(5)],
    )
    running = state(started=started, process=[float(os.getpid()), psutil.Process().create_time()])
    result = show(tmp_path, running)
    assert result.exit_code == 0, result.output
    assert "50%" in result.stdout
    # 5 questions at 4 per 60,000 seconds take 20 hours and 50 minutes.
    assert re.search(r"\b20:5\d:\d\d\b", result.stdout)


def test_coverage_is_that_of_the_results_while_a_run_works(tmp_path):
    """The share of the official questions, not of the questions asked."""
    started = time.time() - 600
    write_log(
        tmp_path / "cache" / "runs" / "id" / "rank_0.audit.jsonl",
        [record(n, started + n) for n in range(5)],
    )
    process = [float(os.getpid()), psutil.Process().create_time()]
    result = show(tmp_path, state(started=started, process=process, covers={"egoplan_val": 3355}))
    head, row = (
        re.split(r"  +", line.strip())
        for line in result.stdout.splitlines()
        if line.startswith(("task", "egoplan_val"))
    )
    cells = dict(zip(head, row, strict=True))
    assert (cells["answered"], cells["of"], cells["done"]) == ("5", "10", "50%")
    finished = tmp_path / "results"
    tasks = {"egoplan_val": egoplan_answers(5, 0.4)}
    write_run(finished, "lmms-eval", "org/m", tasks)
    scores = CliRunner().invoke(app, ["show", "--details", str(finished)]).stdout
    assert cells["coverage"] in scores


def test_show_says_what_a_backend_without_stored_answers_hides(tmp_path):
    result = show(tmp_path, state(streams=False, settings={"backend_name": "async_openai"}))
    assert "unknown" in result.stdout
    assert "async_openai" in result.stdout
    assert "0%" not in result.stdout


def test_show_does_not_claim_that_a_run_on_another_machine_stopped(tmp_path):
    result = show(tmp_path, state(host="node7"))
    assert "node7" in result.stdout
    assert "unknown" in result.stdout
    assert "interrupted" not in result.stdout


def test_progress_is_not_mixed_with_a_table_for_programs(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(state().model_dump()))
    result = CliRunner().invoke(app, ["show", str(tmp_path), "--format", "csv"])
    assert (result.exit_code, result.stdout) == (1, "")


def test_progress_is_described_with_rate_and_time_left():
    assert describe_progress(Progress(140, 1000, 0.5), "questions") == (
        "140 of 1,000 questions, 30 a minute, about 29 min left"
    )
    assert describe_progress(Progress(0, 10_000, 1.0), "requests").endswith("about 2.8 hours left")
    assert describe_progress(Progress(7, 10, 0.06), "questions") == (
        "7 of 10 questions, 3.6 a minute, about 50 s left"
    )
    assert describe_progress(Progress(7, 10, None), "questions") == "7 of 10 questions"


def test_all_tasks_together_have_a_rate(tmp_path):
    """Tasks may be answered one after the other, or question by question."""
    first = [record(n, STARTED + 2 * n) for n in range(5)]
    second = [record(n, STARTED + 10 + 2 * n, task="egoplan_test") for n in range(5)]
    write_log(tmp_path / "cache" / "runs" / "id" / "rank_0.audit.jsonl", [*first, *second])
    both = state(totals={"egoplan_val": 5, "egoplan_test": 25})
    overall = progress_of(tmp_path, both).overall
    assert (overall.done, overall.total) == (10, 30)
    assert overall.rate == pytest.approx(9 / 18)
    assert overall.seconds_left == pytest.approx(40)
    assert re.search(r"all tasks +10 +30 +33%", show(tmp_path, both).stdout)
