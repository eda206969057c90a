"""A loopback language model that proposes and judges candidates by rule, and fails by rule."""

import json
import re
from collections.abc import Callable

from construction import language_model
from judge_server import Reply

FAULTS = ("bad json", "prose", "cut off", "other form", "refused", "broken", "fenced", "twice 500")
HINDSIGHT = "because of what comes"
_LISTED = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def kind_of(prompt: str) -> str:
    """Return the kind of reply that a prompt asks for."""
    if '{"place":' in prompt:
        return "place"
    return "candidates" if "Propose up to" in prompt else "support"


def narration_in(prompt: str) -> str:
    """Return the step that a prompt for candidates or support is about."""
    return re.search(r"(?:step in question|becomes visible): (.+)", prompt)[1]


def reply_to(prompt: str) -> dict:
    """Return a reply without faults.

    The second candidate of each kind is not supported before the cut.
    """
    kind = kind_of(prompt)
    if kind == "place":
        return {"place": "kitchen", "environment": "indoor"}
    step = narration_in(prompt).removeprefix("C ")
    if kind == "candidates":
        return {
            "procedural_intent": [
                f"get on with the work that {step}",
                f"do it {HINDSIGHT} ({step})",
            ],
            "next_step": [f"continue after it {step}", f"do the next thing {HINDSIGHT} ({step})"],
        }
    halves = prompt.split("\nnext_step, the action")
    fields = zip(("procedural_intent", "next_step"), halves, strict=True)
    return {
        name: [HINDSIGHT not in text for text in _LISTED.findall(half)] for name, half in fields
    }


def fault_of(prompt: str) -> str:
    return language_model.fault_of(prompt, FAULTS)


def reply(prompt: str, before: int, fault_of: Callable[[str], str] = fault_of) -> Reply:
    """Return the reply of the language model."""
    fault = fault_of(prompt)
    other_form = {"procedural_intent": "one text", "next_step": [], "place": 3}
    return language_model.spoiled(
        json.dumps(other_form if fault == "other form" else reply_to(prompt)), fault, before
    )
