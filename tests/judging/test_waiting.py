"""An endpoint that takes requests and gives no answer: how long it is waited for, and what is told meanwhile."""

import re
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import judge
from lmms_egoplan.judging import client as client_module
from lmms_egoplan.judging import judge as judge_module
from lmms_egoplan.judging import progress as progress_module
from lmms_egoplan.judging.endpoint import JUDGING, PROBING
from lmms_egoplan.judging.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("data")


def test_a_silent_endpoint_is_asked_three_times_for_as_long_as_is_set(monkeypatch):
    monkeypatch.setattr(client_module, "_FIRST_WAIT_S", 0.01)
    with JudgeServer(lambda *_: Reply(delay=30)) as server:
        (judgement,) = judge(server.url, ["a"], timeout=1)
        assert server.prompts == ["a"] * 3
    assert re.search(r"\(ReadTimeout\).* 1 s; LMMS_EGOPLAN_JUDGE_TIMEOUT", judgement.error)


def test_the_longest_silence_is_bounded():
    assert JudgeSettings("judge").timeout == 300
    assert client_module._CONNECT_S == 10
    assert JUDGING.timeouts <= 2
    assert PROBING.read_s <= 60


@contextmanager
def dripping():
    """An address whose answers come byte by byte and never end."""
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


def test_an_answer_that_never_ends_is_lost_too(monkeypatch):
    monkeypatch.setattr(client_module, "_CONNECT_S", 1.0)
    monkeypatch.setattr(judge_module, "JUDGING", replace(JUDGING, timeouts=0))
    with dripping() as url:
        (judgement,) = judge(url, ["a"], timeout=1)
    assert "No answer in 1 s" in judgement.error


def test_the_line_tells_for_how_many_and_since_when(monkeypatch, capfd):
    monkeypatch.setattr(judge_module, "_TICK_S", 0.1)
    monkeypatch.setattr(progress_module, "_LONG_S", 0.2)
    started = time.strftime("%H:%M")
    with JudgeServer(lambda prompt, _: Reply(delay=2 if prompt < "c" else 0)) as server:
        judge(server.url, "abcdef", concurrency=4)
    shown = capfd.readouterr().err
    since = re.search(r"waiting for 2 since (\d\d:\d\d):\d\d", shown)
    assert since
    assert since[1] in (started, time.strftime("%H:%M"))


def test_nothing_is_told_where_replies_come(capfd):
    with JudgeServer(lambda *_: Reply()) as server:
        judge(server.url, ["a"])
    assert "waiting" not in capfd.readouterr().err


def test_the_endpoint_may_forbid_that_it_is_asked_again():
    with JudgeServer(lambda *_: Reply("down", status=503, headers={"x-should-retry": "false"})) as server:
        (judgement,) = judge(server.url, ["a"])
        assert server.prompts == ["a"]
    assert "HTTP 503: down" in judgement.error
