"""Record the checkpoint loaded by a backend of this package, for use in tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError

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


_loaded: LoadedModel | None = None


def set_loaded_model(model: LoadedModel) -> None:
    """Record the model that this process loaded last."""
    global _loaded
    _loaded = model


def loaded_model(backend: str) -> LoadedModel | None:
    """Return the model loaded by this backend.

    None without one, and for the harness's own backends.
    """
    return _loaded if _loaded is not None and _loaded.backend == backend else None


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
