"""What this folder's YAML files name: ActPlan-1K's own functions, in the shape in which lmms-eval calls them."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from PIL import Image

from lmms_egoplan.benchmarks.actplan.instances import only_counterfactual, only_normal, prompt_text, views  # noqa: F401
from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan
from lmms_egoplan.benchmarks.actplan.scoring import load_scorers, score_plans
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.harnesses.lmms_eval.filters import RequestFilter


def __getattr__(name: str) -> str:
    """Folder and fingerprint of the prepared instances, found when a task is loaded, not when listed."""
    if name == "TEST":
        return str(ACTPLAN.folder("test"))
    if name == "TEST_DATA":
        return ACTPLAN.fingerprint("test")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """The views of the environment."""
    return views(doc)


def no_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Nothing: the task description alone is the input (Table 6)."""
    return []


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """The task description as released."""
    return prompt_text(doc)


class Scored(RequestFilter):
    """Scores all plans of a task together; gives on what `PlanScore.to_text` writes.

    Both models are loaded with the task: what is wrong with them is told before the evaluated model is asked.

    encoder: the sentence encoder, a name on the hub or a path; LMMS_EGOPLAN_ENCODER wins.
    bleurt: folder of a classifier; LMMS_EGOPLAN_BLEURT wins.
    """

    def __init__(self, encoder: str, bleurt: str | None = None) -> None:
        self._encoder, self._classifier = load_scorers(encoder, bleurt)

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        rows = docs.select_columns(["id", "gold_plan_1", "gold_plan_2", "problem"])
        plans = [
            GeneratedPlan.of_reply(rows[response.doc_id], response.text, truncated=response.truncated)
            for response in self.responses(resps)
        ]
        scores = score_plans(plans, self._encoder, self._classifier)
        return [score.to_text() for score in scores]
