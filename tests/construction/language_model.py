"""A loopback language model that fails by rule. The replies are in the benchmarks' modules."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from judge_server import JudgeServer, Reply
from patience import FOREVER_S, wait_until

KEY = "sk-very-secret-key-456"


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """Set an empty data root, a wide terminal, and no language model."""
    for name in list(os.environ):
        if name.startswith(
            ("LMMS_EGOPLAN_JUDGE", "OPENAI_", "AZURE_", "API_TYPE", "MODEL_VERSION")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def served(monkeypatch):
    """Return a function that sets a language model: a server, or one with these replies."""

    def serve(answer):
        server = answer if isinstance(answer, JudgeServer) else JudgeServer(answer)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", KEY)
        return server

    return serve


class Metered:
    """A language model's replies that count as paid, by prompt. Beyond the limit, requests wait."""

    def __init__(self, reply: Callable[[str, int], Reply]):
        self.reply, self.paid = reply, Counter()
        self.limit: int | None = None
        self.limit_removed = threading.Event()

    def __call__(self, prompt: str, before: int) -> Reply:
        if self.limit is not None and self.paid.total() >= self.limit:
            self.limit_removed.wait(FOREVER_S)
        reply = self.reply(prompt, before)
        self.paid[prompt] += reply.status == 200
        return reply

    def kill_after(self, start: Callable[[], subprocess.Popen[bytes]], limit: int) -> int:
        """Start a process, kill it once this number of replies is paid, and return their number."""
        self.limit = limit
        self.limit_removed.clear()
        process = start()
        wait_until(lambda: self.paid.total() >= self.limit or process.poll() is not None)
        process.kill()
        process.wait()
        paid, self.limit = self.paid.total(), None
        self.limit_removed.set()
        return paid


def start_build(
    server: JudgeServer, data: Path, concurrency: int, *arguments: object
) -> subprocess.Popen[bytes]:
    """Start ``data build`` in another process, with a language model and a data root."""
    environment = os.environ | {
        "LMMS_EGOPLAN_DATA": str(data),
        "LMMS_EGOPLAN_JUDGE_BASE_URL": server.url,
        "LMMS_EGOPLAN_JUDGE_CONCURRENCY": str(concurrency),
    }
    command = [sys.executable, "-m", "lmms_egoplan", "data", "build", *map(str, arguments)]
    return subprocess.Popen(command, env=environment)


def fault_of(prompt: str, faults: Sequence[str]) -> str:
    """Return one of the faults, depending on the prompt; "" for three in four prompts."""
    number = int(sha256(prompt.encode()).hexdigest()[:8], 16) % (4 * len(faults))
    return faults[number] if number < len(faults) else ""


def spoiled(text: str, fault: str, before: int, **options: Any) -> Reply:
    """Return a reply with this fault.

    Args:
        before: Number of earlier requests with this prompt. The fault "twice 500" ends after two of
            them.
    """
    if fault == "cut off":
        return Reply(text[: len(text) // 2], finish="length", **options)
    if fault == "refused":
        return Reply("the prompt is too long", status=400, **options)
    if fault == "broken":
        return Reply("out of memory", status=500, headers={"x-should-retry": "false"})
    if before < {"once 500": 1, "twice 500": 2}.get(fault, 0):
        return Reply("out of memory", status=500)
    texts = {
        "bad json": text[:-1],
        "prose": f"Sure! The person works in a kitchen. {text}",
        "fenced": f"```json\n{text}\n```",
    }
    return Reply(texts.get(fault, text), **options)
