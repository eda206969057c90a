"""Four scores of a prediction that need no reference: which fields each is about, and what a judge is asked.

The benchmark's current release adds them to the paper's: GF, whether the prediction is supported by what is visible;
HIC, whether local and procedural intent form a goal hierarchy; TPC, whether the current and future predictions follow a
coherent temporal order; NPF, whether the next action is immediately feasible from the observed state. The prompts are
the project's own, in ``judge_protocol.yaml``, with the release's names and definitions of the fields.
"""

from collections.abc import Mapping

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, RELEASE_NAMES
from lmms_egoplan.paths import yaml_beside

# Goes up with every change of the prompts or of what the judge is shown: scores of different versions do not compare.
DIAGNOSTICS_VERSION = "3"

# By name, the fields that a score is about.
SCORES = {
    "gf": FIELDS,
    "hic": ("local_intent", "global_intent"),
    "tpc": ("local_intent", "next_step_plan"),
    "npf": ("next_step_plan",),
}

_PROMPTS = yaml_beside(__file__)


def diagnostics_prompt(name: str, prediction: Mapping[str, str]) -> str:
    """The request for one score, which goes with the frames.

    Args:
        name: of `SCORES`.
        prediction: texts by field, as a judge may be shown them; at least of the score's fields, and only those are
            shown.
    """
    needed = {RELEASE_NAMES[field]: prediction[field] for field in SCORES[name]}
    return _PROMPTS["prompt"].format(
        meanings="\n".join(f"{field}: {_PROMPTS['meanings'][field]}" for field in needed),
        question=_PROMPTS["questions"][name],
        prediction="\n".join(f"{field}: {text}" for field, text in needed.items()),
    )
