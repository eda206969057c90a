"""What a model is asked about a step, and the fields of its answer (sec. 3.2).

The paper prints no prompt: this one is the project's own.
"""

from collections.abc import Mapping
from typing import Any

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

# Definitions and boundary constraints are those of sec. 3.2, the three fixed fields those of sec. 4.1.
PROMPT = """\
Step id: {step_id}

You are shown, in temporal order, what the camera of a person sees during one step of a longer procedure. It ends \
before the key outcome of the step becomes visible. Infer three things from what is visible alone:

local_intent: what the person is trying to accomplish now. It must be an immediate goal that can be reached within \
this step, not a restatement of the visible motion.
global_intent: why this step is needed at this point. It must be the functional role of the step in the complete \
procedure, neither a repetition of local_intent nor a description of the following action.
next_step_plan: what is most likely to happen next. It must be the one action that is most likely to begin after this \
step has ended, not a part of this step.

Reply with one JSON object and nothing else. Each value is one short phrase in English:
{"local_intent": "...", "global_intent": "...", "next_step_plan": "..."}"""


def prompt_text(doc: Mapping[str, Any]) -> str:
    """The request for one step: of the record it holds the step id and nothing else (sec. 4.1).

    Args:
        doc: a row of the prepared dataset; only ``step_id`` is read.
    """
    return PROMPT.replace("{step_id}", doc["step_id"])
