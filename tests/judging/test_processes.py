import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import judge

pytestmark = pytest.mark.usefixtures("data")


def _process(server, first, last):
    script = [sys.executable, Path(__file__).with_name("asked.py"), server.url, str(first), str(last)]
    return subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_share_the_cache():
    with JudgeServer(lambda *_: Reply(delay=0.02)) as server:
        processes = [_process(server, 0, 60), _process(server, 40, 100)]
        for process in processes:
            out, err = process.communicate(timeout=60)
            assert out.split() == ["1.0"] * 60, err
        asked = len(server.prompts)
        assert asked == 100
        judge(server.url, [f"prompt {n}" for n in range(100)])
        assert len(server.prompts) == asked


def test_ctrl_c_stops_at_once_and_keeps_what_has_come():
    with JudgeServer(lambda p, n: Reply(delay=0.05 if p < "prompt 3" else 30)) as server:
        process = _process(server, 10, 60)
        deadline = time.monotonic() + 30
        while len(server.prompts) < 24 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        started = time.monotonic()
        _, err = process.communicate(timeout=60)
        assert time.monotonic() - started < 3
        assert "KeyboardInterrupt" in err
        stopped = "Stopped: what has been judged is stored; the same command goes on from there"
        assert err.count(stopped) == 1
        assert err.index("not reached") < err.index(stopped) < err.index("KeyboardInterrupt")
        judgements = judge(server.url, [f"prompt {n}" for n in range(10, 30)])
        assert all(judgement.cached for judgement in judgements)


def test_answers_from_the_cache_load_no_library(data):
    code = (
        "import sys; sys.argv[1:] = ['http://127.0.0.1:1/v1', '0', '700']; import runpy; "
        f"runpy.run_path({str(Path(__file__).with_name('asked.py'))!r}, run_name='__main__'); "
        "print({'openai', 'torch', 'datasets', 'scipy', 'sklearn'} & set(sys.modules))"
    )
    with JudgeServer(lambda *_: Reply()) as server:
        judge(server.url, [f"prompt {n}" for n in range(700)], concurrency=32)
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert time.monotonic() - started < 2
    assert done.stdout.split("\n")[-2] == "set()"
