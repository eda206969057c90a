"""Bind lmms-eval's ``--use_cache`` to the weights, and let it store token counts.

The harness's keys contain the name of a checkpoint, not its content. `ResponseCache.create` therefore gets the identity
of the backend's model, including failed computation paths, as an additional model argument.

The harness stores only the text of a reply. It accepts a stored list of text and counts in place of a text.
"""

import functools
import hashlib
import json
import os
import weakref
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.utils import simple_parse_args_string

_RUN_ID, _BACKENDS = "LMMS_CACHE_RUN_ID", ("hf_vlm", "vllm_ranker")


class CachedBackend(Protocol):
    """A backend whose responses depend on more than its arguments."""

    def open_cache(self, folder: Path) -> str:
        """Return the identity of this backend's responses in the folder of ``--use_cache``."""


_backend: weakref.ref[Any] | None = None


def bind(backend: CachedBackend) -> None:
    """Bind the next response cache to this backend, which was loaded last."""
    global _backend
    _backend = weakref.ref(backend)


def resume(backend: str, *arguments: Any) -> None:
    """Let the harness's ``--use_cache`` find the responses of an interrupted run of the same model.

    The harness stores the responses of an unfinished run under an ID, and reads them only under the same ID. The ID is
    random unless the harness's environment variable sets it. An ID set by the user is kept.

    Args:
        backend: The backend's name in the harness.
        arguments: Everything that this run's responses depend on.
    """
    digest = hashlib.sha256(json.dumps(arguments, default=str).encode()).hexdigest()[:16]
    prefixes = tuple(f"{name}-" for name in _BACKENDS)
    if os.environ.get(_RUN_ID, prefixes[0]).startswith(prefixes):
        os.environ[_RUN_ID] = f"{backend}-{digest}"


def _bind_caches() -> None:
    create = ResponseCache.create.__func__

    @functools.wraps(create)
    def create_bound(
        cls: type[ResponseCache], cache_root: str, *, model_args: str | Mapping[str, Any] | None = "", **kwargs: Any
    ) -> ResponseCache:
        backend = _backend() if _backend is not None else None
        if backend is not None:
            folder = Path(os.path.abspath(cache_root))  # noqa: PTH100 - like the harness, keep symlinks
            identity = backend.open_cache(folder.parent if cache_root.endswith(".db") else folder)
            arguments = simple_parse_args_string(model_args) if isinstance(model_args, str) else dict(model_args or {})
            for name in ("workers", "in_flight", "server_wait"):  # they do not affect responses
                arguments.pop(name, None)
            model_args = arguments | {"weights": identity}
        return create(cls, cache_root, model_args=model_args, **kwargs)

    execute = ResponseCache.execute

    @functools.wraps(execute)
    def execute_in_order(self: ResponseCache, lm: Any, reqtype: str, requests: list[Any]) -> list[Any]:
        order = lm.order(reqtype, requests) if hasattr(lm, "order") else range(len(requests))
        responses = zip(order, execute(self, lm, reqtype, [requests[index] for index in order]), strict=True)
        return [response for _, response in sorted(responses, key=itemgetter(0))]

    extract = ResponseCache._extract_cacheable

    def extract_with_counts(response: Any) -> Any:
        counts = response.token_counts.to_dict() if getattr(response, "token_counts", None) else {}
        return [response.text, counts] if counts else extract(response)

    ResponseCache.create = classmethod(create_bound)
    ResponseCache._extract_cacheable = staticmethod(extract_with_counts)
    ResponseCache.execute = execute_in_order


_bind_caches()
