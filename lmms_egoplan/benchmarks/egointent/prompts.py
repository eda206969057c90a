"""Build the request about a step, and define the fields of the answer (sec. 3.2).

The paper prints no prompt. The project's own are in ``prompts.yaml``: one with the paper's names
and definitions of the fields, one with those of the release of August 2026.
"""

from collections.abc import Mapping
from typing import Any

from lmms_egoplan.paths import module_yaml

# Sec. 3.2. Prepared data and logged records use these names for all versions of the task.
FIELDS = ("local_intent", "global_intent", "next_step_plan")
# Names in the release of August 2026. From version 2 of the task on, they are the keys of the reply
# and the names of the metrics.
RELEASE_NAMES = {
    "local_intent": "local_intent",
    "global_intent": "procedural_intent",
    "next_step_plan": "next_step",
}
TITLES = {
    "local_intent": "Local intent",
    "global_intent": "Procedural intent",
    "next_step_plan": "Next step",
}
# Other names of the fields. Blanks and hyphens count as underscores; case is ignored.
ALIASES = {
    "procedural_intent": "global_intent",
    "next_plan": "next_step_plan",
    "next_step": "next_step_plan",
}
OUTCOME_KEY = "outcome_sec"
"""Key of an annotation for the end of a step's outcome, seconds.

Only `annotate egointent` reads it.
"""

# Bump with every change of the prompt: scores of different versions are not comparable.
PROMPT_VERSION = "1"
RELEASE_PROMPT_VERSION = "4"

_PROMPTS: dict[str, str] = module_yaml(__file__)
V1_PROMPT = _PROMPTS["prompt"]
RELEASE_PROMPT = _PROMPTS["release_prompt"]


def v1_prompt_text(doc: Mapping[str, Any]) -> str:
    """Return the request of `egointent_v1` for one step.

    The step id is the only part of the record in it (sec. 4.1).

    `RELEASE_PROMPT`, the request of version 2, contains nothing from the record.

    Args:
        doc: A row of the prepared dataset; only ``step_id`` is read.
    """
    return V1_PROMPT.replace("{step_id}", doc["step_id"])
