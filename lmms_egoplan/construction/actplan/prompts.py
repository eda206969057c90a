"""What a language model is asked; the paper prints no prompt as text, so all words are the project's."""

from typing import Any

from lmms_egoplan.benchmarks.actplan.bddl import Problem, predicates_text
from lmms_egoplan.paths import yaml_beside

_PROMPTS: dict[str, Any] = yaml_beside(__file__)
SCHEMAS: dict[str, dict[str, Any]] = _PROMPTS["schemas"]
"""JSON schemas of the replies, by the prompt."""
# Sec. 3.2 and 3.3 name ChatGPT; this is its model that reads images, too.
DEFAULT_MODEL = "gpt-4o-2024-11-20"
# Circumstances that are asked for.
NUM_CIRCUMSTANCES = 5
# Who acts is no object to see or to name.
_AGENT = "agent"


def description_prompt(problem: Problem, examples: list[tuple[str, str]], circumstance: str = "") -> str:
    """Ask for a description of an activity.

    Args:
        examples: definitions in BDDL, with their descriptions.
        circumstance: under which a counterfactual activity is done.
    """
    pairs = (_PROMPTS["example"].format(problem=bddl, description=text) for bddl, text in examples)
    told = _PROMPTS["circumstance"].format(circumstance=circumstance) if circumstance else ""
    return _PROMPTS["describe"].format(examples="\n".join(pairs), problem=problem, circumstance=told)


def second_description_prompt(first: str, description: str, absent: list[str]) -> str:
    """Ask again, naming what the description lacks."""
    listed = "\n".join(f"- {what}" for what in absent)
    return first + _PROMPTS["again"].format(description=description, absent=listed)


def circumstances_prompt(activity: str, description: str) -> str:
    """Ask for an activity's common procedure, and what might happen during it (step 1 of sec. 3.3)."""
    words = activity.replace("_", " ")
    return _PROMPTS["circumstances"].format(activity=words, description=description, count=NUM_CIRCUMSTANCES)


def change_prompt(problem: Problem, circumstance: str) -> str:
    """Ask for the problem under a circumstance (step 3 of sec. 3.3)."""
    return _PROMPTS["change"].format(circumstance=circumstance, predicates=predicates_text(), problem=problem)


def seen_prompt(objects: list[str]) -> str:
    """Ask which objects a picture shows."""
    return _PROMPTS["seen"].format(objects=", ".join(objects))


def object_names(problem: Problem) -> list[str]:
    """Return everyday names of a problem's types, without the one who acts, in their order."""
    lemmas = dict.fromkeys(thing.type.partition(".")[0] for thing in problem.objects)
    return [lemma.replace("_", " ") for lemma in lemmas if lemma != _AGENT]
