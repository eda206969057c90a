"""Activities described in English by a language model, and checked against their problems (sec. 3.2)."""

from collections.abc import Sequence
from dataclasses import replace

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
    by_key = {activity.key: activity for activity in activities}
    prompts = {
        key: description_prompt(each.problem, examples_for(each, examples, NUM_EXAMPLES), each.circumstance)
        for key, each in by_key.items()
    }
    texts: dict[str, str] = {}
    rejections: list[Rejection] = []
    incomplete: dict[str, tuple[str, list[str]]] = {}
    for title in ("descriptions", "descriptions, second time"):
        replies, unread = ask_json("description", prompts, settings, title, schema=SCHEMAS["describe"])
        rejections += unread
        if settings.asking.is_estimate and not incomplete:  # each may be asked for twice
            replies = {key: {"description": str(activity.problem)} for key, activity in by_key.items()}
        incomplete = {}
        for key, reply in replies.items():
            if not is_text(reply.get("description")):
                rejections.append(Rejection("description", NO_DESCRIPTION, key, shown(reply)))
                continue
            text = " ".join(reply["description"].split())
            absent = _absent(by_key[key], text)
            if absent:
                incomplete[key] = (text, absent)
            if not absent or settings.asking.is_estimate:
                texts[key] = text
        if not incomplete:
            break
        prompts = {key: second_description_prompt(prompts[key], *found) for key, found in incomplete.items()}
    rejections += [
        Rejection("description", INCOMPLETE, key, f"{'; '.join(absent)}: {shown(text)}")
        for key, (text, absent) in incomplete.items()
    ]
    return {key: f"{texts[key]}\n{INSTRUCTION}\n" for key in by_key if key in texts}, rejections


def _absent(activity: Activity, text: str) -> list[str]:
    """Find the objects, goal conditions and counterfactual facts that a text does not name."""
    found = unnamed(activity.problem, text)
    if not activity.changes:
        return [*found.objects, *found.conditions]
    changed = unnamed(replace(activity.problem, goal=activity.changes), text)
    return [*found.objects, *dict.fromkeys((*found.conditions, *changed.conditions))]
