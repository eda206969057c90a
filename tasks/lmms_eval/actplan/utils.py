"""ActPlan-1K for lmms-eval: the functions and the filter that this folder's YAML files refer to."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from PIL import Image

from lmms_egoplan.benchmarks.actplan.plans import GeneratedPlan
from lmms_egoplan.benchmarks.actplan.prompts import prompt_text, views
from lmms_egoplan.benchmarks.actplan.scoring import load_scorers, score_plans
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.harnesses.lmms_eval.filters import RequestFilter


def __getattr__(name: str) -> str:
    """Return folder and fingerprint of the prepared instances when a task is loaded, not when it is
    listed.
    """
    if name == "TEST":
        return str(ACTPLAN.folder("test"))
    if name == "TEST_DATA":
        return ACTPLAN.fingerprint("test")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the views of the environment."""
    return views(doc)


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """Return the task description as released."""
    return prompt_text(doc)


class Scored(RequestFilter):
    """Scores all plans of a task together, and passes on the texts of `PlanScore.to_text`.

    Both scoring models are loaded with the task, to report errors before the evaluated model runs.

    encoder: Name on the hub, or path, of the sentence encoder; LMMS_EGOPLAN_ENCODER takes
    precedence.
    bleurt: Folder of a classifier; LMMS_EGOPLAN_BLEURT takes precedence.
    """

    def __init__(self, encoder: str, bleurt: str | None = None) -> None:
        self._encoder, self._classifier = load_scorers(encoder, bleurt)

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        rows = docs.select_columns(["id", "gold_plan_1", "gold_plan_2"])
        plans = [
            GeneratedPlan.of_reply(
                rows[response.doc_id], response.text, truncated=response.truncated
            )
            for response in self.responses(resps)
        ]
        scores = score_plans(plans, self._encoder, self._classifier)
        return [score.to_text() for score in scores]
