"""A long command shows one line, which moves in a terminal and stays short in a log."""

import os
import pty
import re
import subprocess
import sys

from lmms_egoplan import status_line
from lmms_egoplan.status_line import StatusLine

# A carriage return, and "erase line".
ERASE = "\r\x1b[K"
WIDTH = 80
IN_TERMINAL = """
import time
from lmms_egoplan import status_line
status_line._IN_TERMINAL_S = 0.01
written = []

class Counted(status_line.StatusLine):
    def _write(self, text):
        super()._write(text)
        written.append(text)

with Counted() as status:
    status.begin("Answering", "x" * 500)
    while len(written) < 3:
        time.sleep(0.01)
    status.print("Warning: one video is short")
print("score 50")
"""


def test_in_a_terminal_the_line_moves_and_disappears():
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", IN_TERMINAL], stdout=theirs, stderr=theirs):
        os.close(theirs)
        output = b""
        while not output.endswith(b"score 50\r\n"):
            output += os.read(ours, 1000)
    os.close(ours)
    before, _, after = output.decode().partition(f"{ERASE}Warning: one video is short\r\n")
    drawings = before.split(ERASE)[1:]
    assert len(drawings) > 2
    for drawing in drawings:
        assert re.fullmatch(r"\[0:00:\d\d\] Answering: x+", drawing)
        assert len(drawing) < WIDTH
    assert after.split(ERASE)[-1] == "score 50\r\n"


def test_in_a_log_each_step_is_a_line_that_is_written_again(capsys, monkeypatch):
    monkeypatch.setattr(status_line, "_REDIRECTED_S", 0.01)
    with StatusLine() as status:
        status.begin("Starting")
        status.begin("Answering", "1 of 4")
        written = ""
        status.update("2 of 4")
        while "2 of 4" not in written:
            written += capsys.readouterr().err
        status.print("Warning: one video is short")
        status.begin("Scoring")
    written += capsys.readouterr().err
    lines = [re.sub(r"\[[\d:]+\] ", "", line) for line in written.split("\n")]
    assert lines[0].split("\r")[0] == "Starting"
    assert lines[1].split("\r")[0] == "Answering: 1 of 4"
    assert lines[1].split("\r")[-1] == "Answering: 2 of 4"
    assert lines[2] == "Warning: one video is short"
    assert lines[-1] == ""
    assert capsys.readouterr().err == ""
