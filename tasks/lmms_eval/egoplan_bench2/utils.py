"""What this folder's YAML files name: EgoPlan-Bench2's own functions, in the shape in which lmms-eval calls them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench2.protocol import lettered_question, thinking_question
from lmms_egoplan.benchmarks.egoplan.bench2.splits import PREPARED, SPLIT
from lmms_egoplan.benchmarks.egoplan.bench2.visuals import visual_input
from lmms_egoplan.harnesses.lmms_eval.filters import AsTheyAre  # noqa: F401
from lmms_egoplan.media.sampling import VisualInput

_SPLITS = {"TEST": partial(PREPARED.folder, SPLIT), "TEST_DATA": partial(PREPARED.fingerprint, SPLIT)}


def __getattr__(name: str) -> str:
    """Folder and fingerprint of the prepared split, found when a task is loaded, not when listed."""
    if name not in _SPLITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return str(_SPLITS[name]())


def doc_to_visual(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> VisualInput:
    """Images or a video file, as the model's block of settings says."""
    return visual_input(doc, lmms_eval_specific_kwargs or {})


def doc_to_lettered_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The published prompt; the settings concern the visual input alone."""
    return lettered_question(doc)


def doc_to_thinking_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The same for a model that thinks first."""
    return thinking_question(doc)
