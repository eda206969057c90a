"""Tell tasks which checkpoint is evaluated, if a backend of this package has loaded it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.evaluation import running

_MARKING = ("hf_vlm", "vllm_ranker", "llava")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A checkpoint on a backend.

    Attributes:
        backend: lmms-eval's name of the backend, as in ``--model``.
        model_type: The checkpoint's type in its transformers configuration.
        takes_video: Whether the model gets several frames as a video instead of images.
        has_system_turn: Whether its chat template supports system messages.
    """

    backend: str
    model_type: str
    takes_video: bool
    has_system_turn: bool


def loaded_model(backend: str) -> LoadedModel | None:
    """Return the evaluated model if this backend has loaded it.

    None between evaluations, and for the harness's own backends.
    """
    evaluation = running()
    if evaluation is None:
        return None
    loaded: LoadedModel | None = getattr(evaluation.model, "loaded_model", None)
    if loaded is None or loaded.backend != backend:
        return None
    return loaded


def check_marks(settings: Mapping[str, Any]) -> None:
    """Check that the backend shows marks among images.

    A task needs them if its visual settings have ``clip_marks``.

    Raises:
        LmmsEgoplanError: Another backend runs, which would omit the marks or open them as files.
    """
    if settings.get("clip_marks") and not any(map(loaded_model, _MARKING)):
        raise LmmsEgoplanError(
            "clip_marks: this backend cannot show marks before clips; use --model "
            f"{', '.join(_MARKING)}, or a task without marks"
        )
