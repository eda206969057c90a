"""Ctrl+C stops the server and all its processes."""

import signal
import sys

import pytest


@pytest.mark.nightly
def test_ctrl_c_stops_the_server(tmp_path):
    from cli.test_signals import Command

    command = Command(
        sys.executable,
        "-m",
        "lmms_egoplan",
        "annotate",
        "demo",
        "egothink",
        "--out",
        tmp_path / "demo",
    )
    for line in command.process.stdout:
        if "Ctrl+C" in line:
            break
    command.send(signal.SIGINT, True)
    code, error = command.end()
    assert code == 130, error
    assert "Traceback" not in error
