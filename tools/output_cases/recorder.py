"""A pytest plugin that stores what each test prints, writes, sends and raises.

It stores the output of all commands of the test, the pages that a server returned to it, the
judge's requests, the messages of errors, the log, and the files in `tmp_path`. Tests with examples
of hypothesis are skipped, because their examples depend on the source of the test.
"""

import json
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer.testing
from loguru import logger

from output_cases.store import store_folder, store_text
from output_cases.tokens import fix_tokens

_MOST_COMMANDS = 200


class _Record:
    """What the running test has done."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.commands: list[str] = []
        self.pages: list[str] = []
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.log: list[str] = []

    def add(self, kind: str, text: str) -> None:
        with self.lock:
            getattr(self, kind).append(text)

    def text(self) -> str:
        parts = [
            *self.commands[:_MOST_COMMANDS],
            *self.pages,
            *sorted(self.requests),
            *sorted({*self.errors}),
            *sorted({*self.log}),
        ]
        return "\n".join(parts)


_record = _Record()


def pytest_configure() -> None:
    """Watch commands, requests and errors."""
    _watch_commands()
    _watch_pages()
    _watch_errors()


def _watch_commands() -> None:
    invoke = typer.testing.CliRunner.invoke

    def watched(self: Any, cli: Any, args: Any = None, *others: Any, **options: Any) -> Any:
        result = invoke(self, cli, args, *others, **options)
        words = args if isinstance(args, str) else " ".join(map(str, args or ()))
        error = result.exception
        raised = "" if error is None or isinstance(error, SystemExit) else repr(error)
        _record.add(
            "commands",
            f"$ {words}\n{result.exit_code} {raised}\n{result.stdout}\nstderr: {result.stderr}\n",
        )
        return result

    typer.testing.CliRunner.invoke = watched  # type: ignore[method-assign]


def _watch_pages() -> None:
    send = httpx.Client.send

    def watched(self: Any, request: Any, **options: Any) -> Any:
        response = send(self, request, **options)
        kind = response.headers.get("content-type", "")
        if request.url.path.endswith("/chat/completions"):
            _record.add("requests", f"request: {request.content.decode(errors='replace')}")
        elif kind.startswith("text/") and not options.get("stream"):
            page = f"{request.method} {request.url.path} {response.status_code}\n{response.text}"
            _record.add("pages", page)
        return response

    httpx.Client.send = watched  # type: ignore[method-assign]


def _watch_errors() -> None:
    from lmms_egoplan.errors import LmmsEgoplanError

    create = LmmsEgoplanError.__init__

    def watched(self: Any, *arguments: Any, **options: Any) -> None:
        create(self, *arguments, **options)
        _record.add("errors", f"{type(self).__name__}: {self}")

    LmmsEgoplanError.__init__ = watched  # type: ignore[method-assign]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Any:
    """Store the record of a test at its end."""
    global _record
    _record = record = _Record()
    fix_tokens()
    sink = logger.add(
        lambda message: record.add("log", f"{message.record['level'].name} {message.rstrip()}"),
        level="INFO",
        format=lambda _: "{message}\n",  # without tracebacks, which name lines of code
        filter="lmms_egoplan",
    )
    yield
    with suppress(ValueError):  # a harness may have removed all sinks
        logger.remove(sink)
    if getattr(item.obj, "is_hypothesis_test", False):
        return
    name = _file_name(item.nodeid)
    text = record.text()
    folder = _FOLDERS.pop(item.nodeid, None)
    if folder is not None:
        text = text.replace(str(folder), "FOLDER")
    if text:
        store_text(f"{name}.txt", text + "\n")


_FOLDERS: dict[str, Path] = {}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: Any) -> Any:
    """Store the files in `tmp_path` before they can be deleted."""
    folder = item.funcargs.get("tmp_path") if hasattr(item, "funcargs") else None
    if folder is not None and not getattr(item.obj, "is_hypothesis_test", False):
        _FOLDERS[item.nodeid] = folder
        store_folder(f"{_file_name(item.nodeid)}.files", folder)
    yield


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: Any) -> None:
    """Store failures: a test that fails in one tree only is a difference."""
    if report.failed:
        store_text(f"{_file_name(report.nodeid)}.failed", json.dumps(report.when) + "\n")


def _file_name(node: str) -> str:
    """Return a file's name for a test: its module and its name, without unusual characters."""
    module, _, test = node.partition("::")
    return f"{module.removesuffix('.py')}/{re.sub('[^A-Za-z0-9_.=-]+', '_', test)[:120]}"
