"""lmms-eval's ``--use_cache``, bound to the weights.

The harness's keys hold the name of a checkpoint, not its content. `ResponseCache.create` is therefore told the identity
of the backend's model as one more of its arguments, and which computation paths have failed.
"""

import functools
import hashlib
import json
import os
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.utils import simple_parse_args_string

_RUN_ID, _BACKENDS = "LMMS_CACHE_RUN_ID", ("hf_vlm", "vllm_ranker")


class CachedBackend(Protocol):
    """A backend whose responses depend on more than its arguments."""

    def open_cache(self, folder: Path) -> str:
        """Return what distinguishes this backend's responses in the folder of ``--use_cache``."""


_backend: weakref.ref[Any] | None = None


def bind(backend: CachedBackend) -> None:
    """Bind the next response cache to this backend, the one that was loaded last."""
    global _backend
    _backend = weakref.ref(backend)


def resume(backend: str, *arguments: Any) -> None:
    """Let the harness's ``--use_cache`` find what a killed run of the same model has stored.

    The harness files the responses of an unfinished run under an id and reads them again only under that id, which is a
    random one unless this variable, its own, sets it. A user's own id stays.

    Args:
        backend: its name in the harness.
        arguments: all that distinguishes this run's responses.
    """
    digest = hashlib.sha256(json.dumps(arguments, default=str).encode()).hexdigest()[:16]
    own = tuple(f"{name}-" for name in _BACKENDS)
    if os.environ.get(_RUN_ID, own[0]).startswith(own):
        os.environ[_RUN_ID] = f"{backend}-{digest}"


def _bind_caches() -> None:
    create = ResponseCache.create.__func__

    @functools.wraps(create)
    def create_bound(
        cls: type[ResponseCache], cache_root: str, *, model_args: str | Mapping[str, Any] | None = "", **kwargs: Any
    ) -> ResponseCache:
        backend = _backend() if _backend is not None else None
        if backend is not None:
            folder = Path(os.path.abspath(cache_root))  # noqa: PTH100 - as the harness makes it, symlinks and all
            identity = backend.open_cache(folder.parent if cache_root.endswith(".db") else folder)
            given = simple_parse_args_string(model_args) if isinstance(model_args, str) else dict(model_args or {})
            for name in ("workers", "in_flight"):  # which change no response
                given.pop(name, None)
            model_args = given | {"weights": identity}
        return create(cls, cache_root, model_args=model_args, **kwargs)

    ResponseCache.create = classmethod(create_bound)


_bind_caches()
