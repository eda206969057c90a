"""What this folder's YAML files name: EgoIntent's own functions, in the shape in which lmms-eval calls them."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset

from lmms_egoplan.backends.filters import RequestFilter
from lmms_egoplan.benchmarks.egointent.fields import FIELDS
from lmms_egoplan.benchmarks.egointent.grading import (  # noqa: F401
    DEFAULT_JUDGE,
    JUDGE_VERSION,
    Prediction,
    grade,
    try_judge,
)
from lmms_egoplan.benchmarks.egointent.metrics import (  # noqa: F401
    coverage,
    field_score,
    judge_coverage,
    judge_models,
    num_counted,
    num_steps,
    overall,
    parsed_share,
    scenario_scores,
    score_step,
    suspect_share,
    truncated_share,
    unverified_share,
)
from lmms_egoplan.benchmarks.egointent.prepared import PREPARED
from lmms_egoplan.benchmarks.egointent.prompt import PROMPT_VERSION, prompt_text  # noqa: F401
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from lmms_egoplan.benchmarks.egointent.visuals import num_shown, visual_input
from lmms_egoplan.showing import VisualInput


def __getattr__(name: str) -> str:
    """Folder and fingerprint of the prepared steps, found when a task is loaded, not when listed.

    That is before the model is asked anything, so the judge is tried here.
    """
    if name == "TEST":
        try_judge()
        return str(PREPARED.folder("test"))
    if name == "TEST_DATA":
        return PREPARED.fingerprint("test")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> VisualInput:
    """The step up to its truncation point, as the model's block of settings says."""
    return visual_input(doc, lmms_eval_specific_kwargs)


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """The request for the three fields; the settings concern the visual input alone."""
    return prompt_text(doc)


class Judged(RequestFilter):
    """Has all answers of the task judged together; gives on what `GradedStep.to_text` writes.

    together: all fields of a step in one request to the judge.
    """

    def __init__(self, together: bool = False) -> None:
        self._together = together

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        settings = self.settings()
        predictions = []
        for response in self.responses(resps):
            doc = docs[response.doc_id]
            predictions.append(
                Prediction(
                    step_id=doc["step_id"],
                    references={field: doc[field] for field in FIELDS},
                    fields=read_reply(response.text),
                    truncated=response.truncated,
                    frames_shown=num_shown(doc, settings),
                    frames_sampled=doc["num_frames"],
                )
            )
        graded = grade(
            predictions,
            self.judge(DEFAULT_JUDGE),
            together=self._together,
            show_progress=os.environ.get("RANK", "0") == "0",
        )
        return [step.to_text() for step in graded]
