"""kill -9 while answers are judged, and again: nothing that had arrived is asked again, the result is the same."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from lmms_egoplan.judging import JudgeRequest, RatingScale, judge_all, judge_settings

COUNT = 60
CONCURRENCY = 4


def judge_sixty(path):
    """What the processes run: 60 judgements, written to `path`."""
    scale = RatingScale(lambda verdict: float(verdict.split("Rating: ")[1]), best=1.0)
    requests = [JudgeRequest(f"question/{n}", f"Rate answer {n}.", "a mug", "a cup") for n in range(COUNT)]
    judgements = judge_all(requests, scale, judge_settings("none"), show_progress=False)
    told = [[judgement.rating, judgement.reply, judgement.judge, judgement.error] for judgement in judgements]
    Path(path).write_text(json.dumps(told), encoding="utf-8")


def start(server, data, path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LMMS_EGOPLAN")} | {
        "LMMS_EGOPLAN_DATA": str(data),
        "LMMS_EGOPLAN_JUDGE_MODEL": "judge",
        "LMMS_EGOPLAN_JUDGE_BASE_URL": server.url,
        "LMMS_EGOPLAN_JUDGE_API_KEY": "none",
        "LMMS_EGOPLAN_JUDGE_CONCURRENCY": str(CONCURRENCY),
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in (Path(__file__).parents[1], Path(__file__).parent)),
    }
    program = f"from test_killed import judge_sixty; judge_sixty({str(path)!r})"
    return subprocess.Popen([sys.executable, "-c", program], env=environment)


def result(process, path):
    assert process.wait(timeout=60) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def reply(prompt, before, delay=0.0):
    number = int(re.search(r"\d+", prompt)[0])
    return Reply(f"Answer {number}. Rating: {number % 3 / 2}", delay=delay)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with JudgeServer(reply) as server:
        ratings = result(start(server, folder, folder / "result.json"), folder / "result.json")
    assert [row[0] for row in ratings] == [number % 3 / 2 for number in range(COUNT)]
    return ratings


def wait_for_answers(server, count, process):
    deadline = time.monotonic() + 60
    while len(server.answered) < count:
        assert process.poll() is None, "ended before it was killed"
        assert time.monotonic() < deadline, f"{len(server.answered)} answers in a minute"
        time.sleep(0.01)


def test_nothing_that_had_arrived_is_asked_again(tmp_path, undisturbed):
    path = tmp_path / "result.json"
    killed = threading.Event()

    def hold_half(prompt, before):
        if len(server.answered) >= COUNT // 2:
            killed.wait(timeout=30)
        return reply(prompt, before, delay=0.2)

    with JudgeServer(hold_half) as server:
        first = start(server, tmp_path, path)
        wait_for_answers(server, COUNT // 3, first)
        arrived = set(server.answered)
        wait_for_answers(server, COUNT // 2, first)
        first.kill()
        first.wait()
        killed.set()
        time.sleep(0.5)  # requests in flight end
        asked, answered = list(server.prompts), set(server.answered)
        assert not path.exists()

        assert result(start(server, tmp_path, path), path) == undisturbed
        again = server.prompts[len(asked) :]

    assert not arrived & set(again)
    assert len(answered & set(again)) <= 2 * CONCURRENCY  # replies on their way at the kill
    assert set(asked) | set(again) == {f"Rate answer {n}." for n in range(COUNT)}
    assert len(again) == len(set(again))


def test_a_third_run_asks_nothing(tmp_path, undisturbed):
    path = tmp_path / "result.json"
    with JudgeServer(reply) as server:
        for _ in range(2):
            assert result(start(server, tmp_path, path), path) == undisturbed
        assert len(server.prompts) == COUNT
