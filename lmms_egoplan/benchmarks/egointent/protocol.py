"""What a model is asked about a step, and the fields of its answer (sec. 3.2).

The paper prints no prompt: the project's own stands in ``protocol.yaml``.
"""

from collections.abc import Mapping
from typing import Any

from lmms_egoplan.paths import yaml_beside

# Sec. 3.2.
FIELDS = ("local_intent", "global_intent", "next_step_plan")
TITLES = {"local_intent": "Local intent", "global_intent": "Global intent", "next_step_plan": "Next-step plan"}
# Other names of the fields; blanks and hyphens count as underscores, upper case as lower case.
ALIASES = {
    "procedural_intent": "global_intent",
    "next_plan": "next_step_plan",
    "next_step": "next_step_plan",
}

# Goes up with every change of `PROMPT`: scores of different versions do not compare.
PROMPT_VERSION = "1"

PROMPT: str = yaml_beside(__file__)["prompt"]


def prompt_text(doc: Mapping[str, Any]) -> str:
    """The request for one step: of the record it holds the step id and nothing else (sec. 4.1).

    Args:
        doc: a row of the prepared dataset; only ``step_id`` is read.
    """
    return PROMPT.replace("{step_id}", doc["step_id"])
