"""Record the checkpoint loaded by a backend of this package, for use in tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
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


def remember(model: LoadedModel) -> None:
    """Record the model that this process loaded last."""
    global _loaded
    _loaded = model


def loaded_model(backend: str) -> LoadedModel | None:
    """Return the model loaded by this backend; None without one, and for the harness's own backends."""
    return _loaded if _loaded is not None and _loaded.backend == backend else None
