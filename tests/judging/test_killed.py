"""Kill judging processes with -9.

Stored replies are not requested again, and the result is the same.
"""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import num_stored
from judging.asked import environment
from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import JudgeRequest, RatingScale
from lmms_egoplan.judging.settings import judge_settings
from patience import FOREVER_S, running, wait_until

COUNT = 60
CONCURRENCY = 4


def judge_sixty(path):
    """Judge 60 answers and write them to `path`; run by the processes."""
    scale = RatingScale(lambda verdict: float(verdict.split("Rating: ")[1]), best=1.0)
    requests = [
        JudgeRequest(f"question/{n}", f"Rate answer {n}.", "a mug", "a cup") for n in range(COUNT)
    ]
    judgements = judge_all(requests, scale, judge_settings("none"))
    rows = [
        [judgement.rating, judgement.reply, judgement.judge, judgement.error]
        for judgement in judgements
    ]
    Path(path).write_text(json.dumps(rows), encoding="utf-8")


def start(server, data, path):
    variables = environment(server, data, API_KEY="none", CONCURRENCY=CONCURRENCY)
    program = f"from judging.test_killed import judge_sixty; judge_sixty({str(path)!r})"
    return subprocess.Popen([sys.executable, "-c", program], env=variables)


def result(process, path):
    assert process.wait(FOREVER_S) == 0
    return json.loads(path.read_text(encoding="utf-8"))


def reply(prompt, before):
    number = int(re.search(r"\d+", prompt)[0])
    return Reply(f"Answer {number}. Rating: {number % 3 / 2}")


def undisturbed():
    """Return the rows of a process that was not killed."""
    return [[n % 3 / 2, f"Answer {n}. Rating: {n % 3 / 2}", "judge", None] for n in range(COUNT)]


@pytest.mark.whole
def test_stored_replies_are_not_requested_again(tmp_path, monkeypatch):
    """Kill the process with all replies stored and the maximum number of requests in flight."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    path, cache = tmp_path / "result.json", default_cache_path()
    held = []
    killed = threading.Event()

    def hold_half(prompt, before):
        if len(server.answered) >= COUNT // 2 and not killed.is_set():
            held.append(prompt)
            killed.wait(FOREVER_S)
        return reply(prompt, before)

    with JudgeServer(hold_half) as server:
        first = start(server, tmp_path, path)
        wait_until(
            lambda: len(held) == CONCURRENCY == len(server.prompts) - len(server.answered),
            running(first),
        )
        arrived = set(server.answered)
        wait_until(lambda: num_stored(cache) == len(arrived), running(first))
        first.kill()
        first.wait()
        asked = list(server.prompts)
        killed.set()
        assert not path.exists()

        assert result(start(server, tmp_path, path), path) == undisturbed()
        again = server.prompts[len(asked) :]

    assert len(arrived) >= COUNT // 2
    assert set(asked) == arrived | set(held)
    assert set(again) == {f"Rate answer {n}." for n in range(COUNT)} - arrived
    assert len(again) == len(set(again))


@pytest.mark.nightly
def test_a_second_run_sends_nothing(tmp_path):
    path = tmp_path / "result.json"
    for requests in (COUNT, 0):
        with JudgeServer(reply) as server:
            assert result(start(server, tmp_path, path), path) == undisturbed()
            assert len(server.prompts) == requests
