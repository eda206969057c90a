"""Wait for an endpoint that accepts requests but does not answer, and report the wait."""

import io
import re
import socket
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import judge
from lmms_egoplan.judging import client as client_module
from lmms_egoplan.judging import progress as progress_module
from lmms_egoplan.judging import retries as retries_module
from lmms_egoplan.judging import run as run_module
from lmms_egoplan.judging.endpoint import JUDGING, PROBING
from lmms_egoplan.judging.settings import JudgeSettings
from patience import FOREVER_S, wait_until

pytestmark = pytest.mark.usefixtures("data")


def test_a_silent_endpoint_gets_three_requests_with_the_set_timeout(monkeypatch):
    monkeypatch.setattr(retries_module, "_FIRST_WAIT_S", 0.01)
    ended = threading.Event()
    with JudgeServer(lambda *_: ended.wait(FOREVER_S) and Reply()) as server:
        (judgement,) = judge(server.url, ["a"], timeout=1)
        # a busy server may read a request after its timeout
        wait_until(lambda: len(server.prompts) >= 3)
        ended.set()
        assert server.prompts == ["a"] * 3
    assert re.search(r"\(ReadTimeout\).* 1 s; LMMS_EGOPLAN_JUDGE_TIMEOUT", judgement.error)


def test_the_default_timeout_is_bounded():
    assert JudgeSettings("judge").timeout == 300
    assert client_module._CONNECT_S == 10
    assert JUDGING.timeouts <= 2
    assert PROBING.read_s <= 60


@contextmanager
def dripping():
    """Return an address that sends endless answers byte by byte."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stopped = threading.Event()

        def drip(connection):
            with connection:
                connection.recv(65536)
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                    while not stopped.wait(0.1):
                        connection.sendall(b" ")
                except OSError:
                    return

        def serve():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=drip, args=[connection], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        finally:
            stopped.set()
            listening.shutdown(socket.SHUT_RDWR)


def test_an_endless_answer_times_out(monkeypatch):
    monkeypatch.setattr(client_module, "_CONNECT_S", 1.0)
    monkeypatch.setattr(run_module, "JUDGING", replace(JUDGING, timeouts=0))
    with dripping() as url:
        (judgement,) = judge(url, ["a"], timeout=1)
    assert "No answer within 1 s" in judgement.error


def test_the_bar_shows_pending_requests_and_their_start(monkeypatch):
    """Two replies are sent when the bar shows that they are late."""
    monkeypatch.setattr(run_module, "_TICK_S", 0.1)
    monkeypatch.setattr(progress_module, "_LONG_S", 0.2)
    monkeypatch.setattr(sys, "stderr", bar := io.StringIO())

    def reply(prompt, _):
        if prompt < "c":
            wait_until(lambda: "waiting for 2 since" in bar.getvalue())
        return Reply()

    started = int(time.time())
    with JudgeServer(reply) as server:
        judge(server.url, "abcdef", concurrency=4)
    (since, *_) = re.findall(r"waiting for 2 since (\d\d:\d\d:\d\d)", bar.getvalue())
    seconds = range(started, int(time.time()) + 1)
    assert since in [time.strftime("%H:%M:%S", time.localtime(second)) for second in seconds]


def test_no_wait_is_shown_while_replies_arrive(capfd):
    with JudgeServer(lambda *_: Reply()) as server:
        judge(server.url, ["a"])
    assert "waiting" not in capfd.readouterr().err


def test_the_endpoint_can_forbid_retries():
    with JudgeServer(
        lambda *_: Reply("down", status=503, headers={"x-should-retry": "false"})
    ) as server:
        (judgement,) = judge(server.url, ["a"])
        assert server.prompts == ["a"]
    assert "HTTP 503: down" in judgement.error
