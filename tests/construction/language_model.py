"""A loopback language model that fails by rule; each benchmark's module has what its model says."""

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from subprocess import Popen
from typing import Any

import pytest

from judge_server import JudgeServer, Reply
from patience import FOREVER_S, wait_until

KEY = "sk-very-secret-key-456"


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An empty data root, a wide terminal, and no language model."""
    for name in list(os.environ):
        if name.startswith(("LMMS_EGOPLAN_JUDGE", "OPENAI_", "AZURE_", "API_TYPE", "MODEL_VERSION")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def served(monkeypatch):
    """Start a language model with these replies, and set it."""

    def serve(answer):
        server = JudgeServer(answer)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", KEY)
        return server

    return serve


class Metered:
    """A language model's replies: counts those that are paid for, and gives no more than the limit."""

    def __init__(self, reply: Callable[[str, int], Reply]):
        self.reply, self.paid = reply, Counter()
        self.limit: int | None = None
        self.held = threading.Event()

    def __call__(self, prompt: str, before: int) -> Reply:
        if self.limit is not None and self.paid.total() >= self.limit:
            self.held.wait(FOREVER_S)
        made = self.reply(prompt, before)
        self.paid[prompt] += made.status == 200
        return made

    def kill_half_way(self, start: Callable[[], Popen[bytes]], prompts: int) -> int:
        """Start a process, kill it after half of the prompts, and return how many were paid for."""
        self.limit = prompts // 2
        process = start()
        wait_until(lambda: self.paid.total() >= self.limit or process.poll() is not None)
        process.kill()
        process.wait()
        paid, self.limit = self.paid.total(), None
        self.held.set()
        return paid


def fault_of(prompt: str, faults: Sequence[str]) -> str:
    """One of the faults, which depends on the prompt; "" for three prompts of four."""
    number = int(sha256(prompt.encode()).hexdigest()[:8], 16) % (4 * len(faults))
    return faults[number] if number < len(faults) else ""


def spoiled(text: str, fault: str, before: int, **more: Any) -> Reply:
    """A reply with this fault, or without one if the prompt was asked often enough `before`."""
    if fault == "cut off":
        return Reply(text[: len(text) // 2], finish="length", **more)
    if fault == "refused":
        return Reply("the prompt is too long", status=400, **more)
    if fault == "broken":
        return Reply("out of memory", status=500, headers={"x-should-retry": "false"})
    if before < {"once 500": 1, "twice 500": 2}.get(fault, 0):
        return Reply("out of memory", status=500)
    texts = {
        "bad json": text[:-1],
        "prose": f"Sure! The person works in a kitchen. {text}",
        "fenced": f"```json\n{text}\n```",
    }
    return Reply(texts.get(fault, text), **more)
