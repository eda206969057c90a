"""Check the progress bar in terminals of several widths."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from weakref import WeakSet

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import SCALE, request
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.progress import RequestProgress
from lmms_egoplan.judging.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("data")

LONGEST_TITLE = "EgoIntent diagnostics 10/24"
NOTE = (
    r"[\d,]+ (?:failed|retried|cached|tokens)|waiting for \d+ since \d\d:\d\d:\d\d|\d+ asked "
    r"by another process"
)
LINE = re.compile(rf"Judging [\w /]+ \|.*\| \d+/\d+ \[[\d:]+<[\d:?]+(?:, (?:{NOTE}))*\]")


class Terminal:
    """Replace standard error by a terminal of some columns. `text` is its output."""

    def __init__(self, columns, monkeypatch):
        self.text = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._file = os.fdopen(slave, "w")
        monkeypatch.setattr(sys, "stderr", self._file)
        # Bars that other tests left open would move this terminal's bars to lower lines.
        monkeypatch.setattr(RequestProgress, "_instances", WeakSet(), raising=False)
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self):
        written = b""
        while True:
            try:
                written += os.read(self._master, 65536)
            except OSError:  # closed
                break
        self.text = written.decode()

    def close(self):
        self._file.close()
        self._reading.join()
        os.close(self._master)


def opinion(prompt, before):
    """Some requests are refused, some fail once, and the last reply is late."""
    number = int(prompt.split()[-1])
    if number % 7 == 3:
        return Reply("no", status=400)
    if number % 5 == 2 and not before:
        return Reply("busy", status=503, headers={"Retry-After-Ms": "1"})
    return Reply("word " * 500 + "[[1]]", delay=0.3 * (number == 39))


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_the_bar_fits_the_terminal(columns, monkeypatch):
    terminal = Terminal(columns, monkeypatch)
    try:
        with JudgeServer(opinion) as server:
            settings = JudgeSettings(
                "a-provider/a-judge-of-a-very-long-name-32b-instruct", server.url
            )
            # many answers make the bar long, although most prompts are equal
            for answers in (
                10,
                120,
            ):
                requests = [request(f"prompt {n % 40}") for n in range(answers)]
                judge_all(requests, SCALE, settings, title=LONGEST_TITLE)
    finally:
        terminal.close()
    lines = [line for line in terminal.text.split("\r") if line.strip()]
    assert len(lines) >= 3  # the start of each bar, and the last state; tqdm may draw others
    assert not [line for line in lines if not LINE.fullmatch(line.strip())]
    assert max(map(len, lines)) <= columns
    last = lines[-1]
    assert "failed" in last
    assert ("tokens" in last) == (columns > 100)
    assert "cached" in last or columns < 200


def test_the_next_bar_replaces_the_last(monkeypatch):
    terminal = Terminal(80, monkeypatch)
    try:
        with JudgeServer(lambda *_: Reply()) as server:
            for title in ("EgoThink existence", "EgoThink attribute"):
                judge_all([request(title)], SCALE, JudgeSettings("judge", server.url), title=title)
    finally:
        terminal.close()
    assert terminal.text.index("Judging EgoThink existence") < terminal.text.index(
        "Judging EgoThink attribute"
    )
    assert "\n" not in terminal.text


def test_the_log_names_what_is_judged(log):
    with JudgeServer(lambda *_: Reply()) as server:
        judge_all(
            [request("a")], SCALE, JudgeSettings("judge", server.url), title="EgoThink existence"
        )
    assert "EgoThink existence: 1 of 1 answers judged by judge in" in log[-1]
