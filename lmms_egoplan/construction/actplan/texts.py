"""Activities described in English by a language model, and checked against their problems (sec. 3.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_egoplan.construction.actplan.description import unnamed
from lmms_egoplan.construction.actplan.prompts import (
    NUM_EXAMPLES,
    SCHEMAS,
    description_prompt,
    second_description_prompt,
)
from lmms_egoplan.construction.actplan.sources import INSTRUCTION, Activity, Example, examples_for
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, shown

NO_DESCRIPTION = "reply without a description"
INCOMPLETE = "description that lacks an object or a condition, asked for twice"


def describe(
    activities: Sequence[Activity], examples: Sequence[Example], settings: JudgeSettings
) -> tuple[dict[str, str], list[Rejection]]:
    """Describe each activity, by its key, with the instruction; or say why there is no description.

    A description that lacks an object or a condition is asked for once more, with what it lacks.

    Args:
        examples: of which each prompt shows some, none of the activity's own.

    Raises:
        JudgeError: the language model cannot be asked.
    """
    prompts = {
        activity.key: description_prompt(
            activity.problem, examples_for(activity, examples, NUM_EXAMPLES), activity.circumstance
        )
        for activity in activities
    }
    by_key = {activity.key: activity for activity in activities}
    replies, rejections = ask_json("description", prompts, settings, "descriptions", schema=SCHEMAS["describe"])
    if settings.asking.is_estimate:  # each may be asked for twice
        replies = {key: {"description": str(activity.problem)} for key, activity in by_key.items()}
    texts, wrong, incomplete = _read(replies, by_key)
    rejections += wrong
    second = {key: second_description_prompt(prompts[key], *found) for key, found in incomplete.items()}
    if second:
        replies, unread = ask_json(
            "description", second, settings, "descriptions, second time", schema=SCHEMAS["describe"]
        )
        more, wrong, still = _read(replies, by_key)
        texts |= more
        rejections += [*unread, *wrong]
        rejections += [
            Rejection("description", INCOMPLETE, key, f"{'; '.join(absent)}: {shown(text)}")
            for key, (text, absent) in still.items()
        ]
    if settings.asking.is_estimate:
        texts |= {key: text for key, (text, _) in incomplete.items()}
    whole = {key: f"{texts[key]}\n{INSTRUCTION}\n" for key in by_key if key in texts}
    return whole, rejections


def _read(
    replies: Mapping[str, Any], activities: Mapping[str, Activity]
) -> tuple[dict[str, str], list[Rejection], dict[str, tuple[str, list[str]]]]:
    """Return complete descriptions, replies without one, and incomplete ones with what they lack."""
    texts: dict[str, str] = {}
    rejections: list[Rejection] = []
    incomplete: dict[str, tuple[str, list[str]]] = {}
    for key, reply in replies.items():
        text = reply.get("description")
        if not is_text(text):
            rejections.append(Rejection("description", NO_DESCRIPTION, key, shown(reply)))
            continue
        text = " ".join(text.split())
        if absent := _absent(activities[key], text):
            incomplete[key] = (text, absent)
        else:
            texts[key] = text
    return texts, rejections, incomplete


def _absent(activity: Activity, text: str) -> list[str]:
    """Find the objects, goal conditions and counterfactual facts that a text does not name."""
    found = unnamed(activity.problem, text)
    if not activity.changes:
        return [*found.objects, *found.conditions]
    changed = unnamed(replace(activity.problem, goal=activity.changes), text)
    return [*found.objects, *dict.fromkeys((*found.conditions, *changed.conditions))]
