"""The checkpoint that a backend of this package has loaded, for tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoadedModel:
    """A checkpoint on a backend.

    backend: lmms-eval's name of it, as in ``--model``.
    model_type: the checkpoint's, as in transformers' configuration.
    takes_video: whether it is given a list of several frames as a video; else as images.
    has_system_turn: whether its chat template has a place for system messages.
    """

    backend: str
    model_type: str
    takes_video: bool
    has_system_turn: bool


_loaded: LoadedModel | None = None


def remember(model: LoadedModel) -> None:
    """Remember the model that the process has loaded last."""
    global _loaded
    _loaded = model


def loaded_model(backend: str) -> LoadedModel | None:
    """Return the model that this backend has loaded; None if there is none, or for backends of the harness."""
    return _loaded if _loaded is not None and _loaded.backend == backend else None
