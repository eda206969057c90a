"""Adapt EgoIntent to lmms-eval: the functions that this folder's YAML files name."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from datasets import Dataset

from lmms_egoplan.benchmarks.egointent import diagnostics, judge
from lmms_egoplan.benchmarks.egointent.diagnostics import diagnose
from lmms_egoplan.benchmarks.egointent.frames import media_shown, num_shown, visual_input
from lmms_egoplan.benchmarks.egointent.judge import Prediction, grade
from lmms_egoplan.benchmarks.egointent.judge_protocol import PROTOCOLS, RELEASE_JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_PROMPT, v1_prompt_text
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.harnesses.lmms_eval.filters import JudgedFilter
from lmms_egoplan.media.sampling import VisualInput


def __getattr__(name: str) -> str:
    """Return folders and fingerprints of prepared splits when a task is loaded."""
    if name in ("TEST", "LEAKAGE"):
        return str(EGOINTENT.folder(name.lower()))
    if name in ("TEST_DATA", "LEAKAGE_DATA"):
        return EGOINTENT.fingerprint(name.removesuffix("_DATA").lower())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> VisualInput:
    """Return the step up to its truncation point, in the form that the model's settings select."""
    return visual_input(doc, lmms_eval_specific_kwargs)


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the request for the three fields; the settings only affect the visual input."""
    return v1_prompt_text(doc)


def doc_to_release_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]
) -> str:
    """Return the request with the names and definitions of the release of August 2026; see
    `doc_to_text`.
    """
    return RELEASE_PROMPT


def _predictions(
    task_filter: JudgedFilter, resps: Sequence[Sequence[str]], docs: Dataset
) -> list[Prediction]:
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
    """Judge all answers of the task in one batch, and return the text of each `GradedStep`.

    Args:
        together: Send one request to the judge for all fields of a step.
        protocol: Name of the judge's protocol.
    """

    DEFAULT_JUDGE = judge.DEFAULT_JUDGE
    OTHERWISE = judge.OTHERWISE

    def __init__(self, together: bool = False, protocol: str = RELEASE_JUDGE_VERSION) -> None:
        super().__init__()
        self._together = together
        self.REQUESTS = 1 if together else len(FIELDS)
        self._protocol = PROTOCOLS[protocol]

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        predictions = _predictions(self, resps, docs)
        steps = grade(predictions, self.judge(), self._protocol, together=self._together)
        return [step.to_text() for step in steps]


class Diagnosed(JudgedFilter):
    """Diagnose all answers in one batch, and return the text of each `Diagnosis`."""

    DEFAULT_JUDGE = diagnostics.DEFAULT_JUDGE
    PROBE_FORM = staticmethod(diagnostics.probe_form)
    REQUESTS = len(diagnostics.Diagnosis.RATED)
    OTHERWISE = judge.OTHERWISE

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        steps = diagnose(_predictions(self, resps, docs), self.judge())
        return [diagnosis.to_text() for diagnosis in steps]
