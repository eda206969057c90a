import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import select
from judging.asked import judge, start
from patience import FOREVER_S, running, wait_until

pytestmark = pytest.mark.usefixtures("data")


def test_ctrl_c_stops_immediately_stores_replies_and_leaves_no_claim():
    """Twenty replies arrive. Four requests in flight get no reply before the process ends."""
    ended = threading.Event()

    def reply(prompt, before):
        if prompt >= "prompt 3":
            ended.wait(FOREVER_S)
        return Reply()

    with JudgeServer(reply) as server:
        process = start(server, 10, 60)
        wait_until(
            lambda: len(server.prompts) == 24 and len(select("*", "claims")) == 4, running(process)
        )
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=FOREVER_S / 3)
        finally:
            process.kill()
            ended.set()
        assert "KeyboardInterrupt" in err
        stopped = "Finished results are stored"
        assert err.count(stopped) == 1
        assert err.index("not reached") < err.index(stopped) < err.index("KeyboardInterrupt")
        assert select("*", "claims") == []
        judgements = judge(server.url, [f"prompt {n}" for n in range(10, 30)])
        assert all(judgement.cached for judgement in judgements)


def test_answers_from_the_cache_load_no_library(data):
    code = (
        "import sys; sys.argv[1:] = ['http://127.0.0.1:1/v1', '0', '20', '30']; import runpy; "
        f"runpy.run_path({str(Path(__file__).with_name('asked.py'))!r}, run_name='__main__'); "
        "print({'openai', 'torch', 'datasets', 'scipy', 'sklearn'} & set(sys.modules))"
    )
    with JudgeServer(lambda *_: Reply()) as server:
        judge(server.url, [f"prompt {n}" for n in range(20)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=FOREVER_S
    )
    assert done.stdout.split("\n")[-2] == "set()"
