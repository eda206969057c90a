"""Replies of a loopback language model that fails by rule; each benchmark's module has what its model says."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from judge_server import Reply


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
