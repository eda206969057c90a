"""Run commands of a case, and store their output in the order of the commands."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loguru import logger

from output_cases.store import store_text

_LONGEST_S = 300
# The time before a message of a log.
_TIME = re.compile(r"^[\d: .T-]+")
# The end of a progress bar.
_BAR = re.compile(r"\|\s*\d+/\d+ \[")


class Commands:
    """The commands of a case, which run in the current folder.

    Args:
        name: name of the file with their output.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._outputs: list[str] = []

    def run(self, *arguments: str | Path, **environment: str) -> None:
        """Run ``lmms-egoplan`` in this process, which loads the package only once."""
        from typer.testing import CliRunner

        from lmms_egoplan.cli import app

        words = [str(argument) for argument in arguments]
        logged: list[str] = []
        logger.remove()  # the default sink writes to the output of the first command
        # A function leaves out tracebacks, which name lines of code.
        logger.add(logged.append, level="INFO", format=lambda _: "{level} {message}\n")
        with _changed(environment), _limited():
            result = CliRunner().invoke(app, words)
        error = result.exception
        raised = "" if error is None or isinstance(error, SystemExit) else repr(error)
        err = result.stderr + "".join(logged)
        self._add(words, result.exit_code, raised, result.stdout, err)

    def start(self, *arguments: str | Path, **environment: str) -> None:
        """Run ``lmms-egoplan`` in a process of its own."""
        words = [str(argument) for argument in arguments]
        done = subprocess.run(
            [sys.executable, "-m", "lmms_egoplan", *words],
            env=os.environ | environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        # Lines of several threads have any order, and bars are drawn at any time.
        lines = re.split(r"[\r\n]+", done.stderr.replace("\x1b[A", "\n"))
        kept = {line.rstrip() for line in lines if not _BAR.search(line)}
        err = "\n".join(sorted(kept, key=lambda line: _TIME.sub("", line)))
        self._add(words, done.returncode, "", done.stdout, err)

    def _add(self, words: list[str], code: int, raised: str, out: str, err: str) -> None:
        self._outputs.append(f"$ {shlex.join(words)}\n{code} {raised}\n{out}stderr:\n{err}")
        store_text(f"{self._name}.txt", "\n".join(self._outputs))


@contextmanager
def _limited() -> Any:
    """End a command that waits, such as a server."""

    def end(*_: object) -> None:
        raise TimeoutError(f"no end after {_LONGEST_S} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(_LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)


@contextmanager
def _changed(environment: Mapping[str, str]) -> Any:
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
