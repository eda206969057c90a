"""Build the prompts for a language model.

The paper prints no prompt as text, so the wording is the project's.
"""

from collections.abc import Sequence
from typing import Any

from lmms_egoplan.construction.actplan.bddl import Formula, Problem, predicates_text
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import numbered

_PROMPTS: dict[str, Any] = module_yaml(__file__)
SCHEMAS: dict[str, dict[str, Any]] = _PROMPTS["schemas"]
"""JSON schemas of the replies, by prompt."""

# Number of circumstances to ask for.
NUM_CIRCUMSTANCES = 5
# The agent is not an object to see or to name.
_AGENT = "agent"


def description_prompt(
    problem: Problem, examples: list[tuple[str, str]], circumstance: str = ""
) -> str:
    """Ask for a description of an activity.

    Args:
        problem: The activity.
        examples: Pairs of a definition in BDDL and its description.
        circumstance: The circumstance of a counterfactual activity; "" for a normal one.
    """
    pairs = (_PROMPTS["example"].format(problem=bddl, description=text) for bddl, text in examples)
    addition = _PROMPTS["circumstance"].format(circumstance=circumstance) if circumstance else ""
    return _PROMPTS["describe"].format(
        examples="\n".join(pairs), problem=problem, circumstance=addition
    )


def second_description_prompt(first: str, description: str, unnamed: Sequence[str]) -> str:
    """Ask again, and list the objects that the description does not name."""
    items = "\n".join(f"- {name}" for name in unnamed)
    return first + _PROMPTS["again"].format(description=description, absent=items)


def conditions_prompt(
    problem: Problem, goal: Sequence[Formula], changes: Sequence[Formula], description: str
) -> str:
    """Ask which conditions a description lacks or contradicts.

    Args:
        problem: The activity.
        goal: Conditions at the end of the activity.
        changes: Facts at its start, numbered after the goal conditions.
        description: The description without its instruction.
    """
    objects = [f"{obj.type}: {obj.name}" for obj in problem.objects]
    conditions = [f"at the end: {condition}" for condition in goal]
    conditions += [f"at the start: {fact}" for fact in changes]
    return _PROMPTS["conditions"].format(
        objects="\n".join(objects), conditions=numbered(conditions), description=description
    )


def circumstances_prompt(activity: str, description: str) -> str:
    """Ask for an activity's common procedure, and what might happen during it.

    This is step 1 of sec. 3.3.
    """
    words = activity.replace("_", " ")
    return _PROMPTS["circumstances"].format(
        activity=words, description=description, count=NUM_CIRCUMSTANCES
    )


def change_prompt(problem: Problem, circumstance: str) -> str:
    """Ask for the problem under a circumstance (step 3 of sec. 3.3)."""
    return _PROMPTS["change"].format(
        circumstance=circumstance, predicates=predicates_text(), problem=problem
    )


def seen_prompt(objects: list[str]) -> str:
    """Ask which objects a picture shows."""
    return _PROMPTS["seen"].format(objects=", ".join(objects))


def object_names(problem: Problem) -> list[str]:
    """Return everyday names of a problem's types in order, without the agent."""
    lemmas = dict.fromkeys(obj.type.partition(".")[0] for obj in problem.objects)
    return [lemma.replace("_", " ") for lemma in lemmas if lemma != _AGENT]
