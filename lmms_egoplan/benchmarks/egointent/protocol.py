"""What a model is asked about a step, and the fields of its answer (sec. 3.2).

The paper prints no prompt: the project's own stand in ``protocol.yaml``, one with the paper's names and definitions of
the fields and one with those of the release of August 2026.
"""

from collections.abc import Mapping
from typing import Any

from lmms_egoplan.paths import yaml_beside

# Sec. 3.2. Prepared data and logged records have these names, whatever the task's version.
FIELDS = ("local_intent", "global_intent", "next_step_plan")
# What the release of August 2026 calls them: keys of the reply and names of the metrics from version 2 of the task on.
RELEASE_NAMES = {"local_intent": "local_intent", "global_intent": "procedural_intent", "next_step_plan": "next_step"}
TITLES = {"local_intent": "Local intent", "global_intent": "Procedural intent", "next_step_plan": "Next step"}
# Other names of the fields; blanks and hyphens count as underscores, upper case as lower case.
ALIASES = {"procedural_intent": "global_intent", "next_plan": "next_step_plan", "next_step": "next_step_plan"}

# One for each prompt, another one with every change: scores of different versions do not compare.
PROMPT_VERSION, RELEASE_PROMPT_VERSION = "1", "3"

_PROMPTS: dict[str, str] = yaml_beside(__file__)
PROMPT, RELEASE_PROMPT = _PROMPTS["prompt"], _PROMPTS["release_prompt"]


def prompt_text(doc: Mapping[str, Any]) -> str:
    """Return the request of `egointent_v1` for one step: the step id is all that it contains of the record (sec. 4.1).

    `RELEASE_PROMPT`, the request of version 2, contains nothing of the record.

    Args:
        doc: A row of the prepared dataset; only ``step_id`` is read.
    """
    return PROMPT.replace("{step_id}", doc["step_id"])
