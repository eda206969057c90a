"""What this folder's YAML files name: EgoIntent's own functions, in the shape in which lmms-eval calls them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.egointent import diagnostics, scoring
from lmms_egoplan.benchmarks.egointent.diagnostics import DIAGNOSTICS_VERSION, diagnose  # noqa: F401
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, RELEASE_JUDGE_VERSION  # noqa: F401
from lmms_egoplan.benchmarks.egointent.protocol import (  # noqa: F401
    PROMPT_VERSION,
    RELEASE_PROMPT,
    RELEASE_PROMPT_VERSION,
    prompt_text,
)
from lmms_egoplan.benchmarks.egointent.scoring import Prediction, grade
from lmms_egoplan.benchmarks.egointent.visuals import media_shown, num_shown, visual_input
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.harnesses.lmms_eval.filters import JudgedFilter
from lmms_egoplan.media.sampling import VisualInput


def __getattr__(name: str) -> str:
    """Folder and fingerprint of the prepared steps, found when a task is loaded, not when listed."""
    if name == "TEST":
        return str(EGOINTENT.folder("test"))
    if name == "TEST_DATA":
        return EGOINTENT.fingerprint("test")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> VisualInput:
    """The step up to its truncation point, as the model's block of settings says."""
    return visual_input(doc, lmms_eval_specific_kwargs)


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """The request for the three fields; the settings concern the visual input alone."""
    return prompt_text(doc)


def doc_to_release_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """As `doc_to_text`, with the names and definitions of the release of August 2026."""
    return RELEASE_PROMPT


def _predictions(task_filter: JudgedFilter, resps: Sequence[Sequence[str]], docs: Dataset) -> list[Prediction]:
    settings, model = task_filter.settings(), task_filter.model()
    frames = {"media": "frames", "max_frames": settings.get("max_frames")}
    predictions = []
    for response in task_filter.responses(resps):
        doc = docs[response.doc_id]
        predictions.append(
            Prediction.of_reply(
                doc,
                response.text,
                truncated=response.truncated,
                frames_shown=num_shown(doc, settings),
                media=media_shown(doc, settings, takes_video=model and model.takes_video),
                load_images=partial(visual_input, doc, frames),
            )
        )
    return predictions


class Judged(JudgedFilter):
    """Has all answers of the task judged together; gives on what `GradedStep.to_text` writes.

    together: all fields of a step in one request to the judge.
    release: use the release's judge prompt (August 2026), else the paper's.
    """

    DEFAULT_JUDGE = scoring.DEFAULT_JUDGE
    OTHERWISE = scoring.OTHERWISE

    def __init__(self, together: bool = False, release: bool = True) -> None:
        super().__init__()
        self._together = together
        self._release = release

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        predictions = _predictions(self, resps, docs)
        steps = grade(predictions, self.judge(), together=self._together, release=self._release)
        return [step.to_text() for step in steps]


class Diagnosed(JudgedFilter):
    """Has all answers diagnosed together; gives on what `Diagnosis.to_text` writes."""

    DEFAULT_JUDGE = diagnostics.DEFAULT_JUDGE
    OTHERWISE = scoring.OTHERWISE

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        steps = diagnose(_predictions(self, resps, docs), self.judge())
        return [diagnosis.to_text() for diagnosis in steps]
