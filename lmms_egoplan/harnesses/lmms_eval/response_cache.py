"""Bind lmms-eval's ``--use_cache`` to the weights.

Let it store what a run reports about each response, too.

The harness's keys contain the name of a checkpoint, not its content. `ResponseCache.create`
therefore gets the identity of the backend's model, including failed computation paths, as an
additional model argument.

The harness stores only the text of a reply. Here, a stored response is an object with the reply,
its token counts, from which scoring knows whether the limit ended it, and the counts of its
question (`record.known`), whatever the backend. A resumed run then reports the same figures as an
undisturbed one.
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

from lmms_egoplan.harnesses import record

_RUN_ID = "LMMS_CACHE_RUN_ID"
_BACKENDS = ("hf_vlm", "vllm_ranker")


class CachedBackend(Protocol):
    """A backend whose responses depend on more than its arguments."""

    def open_cache(self, folder: Path) -> str:
        """Return the identity of this backend's responses in the folder of ``--use_cache``."""


_backend: weakref.ref[Any] | None = None


def bind_next_cache(backend: CachedBackend) -> None:
    """Bind the next response cache to this backend, which was loaded last."""
    global _backend
    _backend = weakref.ref(backend)


def resume(backend: str, *arguments: Any) -> None:
    """Let the harness's ``--use_cache`` find the responses of an interrupted run of the same model.

    The harness stores the responses of an unfinished run under an ID, and reads them only under the
    same ID. The ID is random unless the harness's environment variable sets it. An ID set by the
    user is kept.

    Args:
        backend: The backend's name in the harness.
        arguments: Everything that this run's responses depend on.
    """
    digest = hashlib.sha256(json.dumps(arguments, default=str).encode()).hexdigest()[:16]
    prefixes = tuple(f"{name}-" for name in _BACKENDS)
    if os.environ.get(_RUN_ID, prefixes[0]).startswith(prefixes):
        os.environ[_RUN_ID] = f"{backend}-{digest}"


@functools.cache
def bind_caches() -> None:
    """Change the harness's response cache, once, for all backends."""
    create = ResponseCache.create.__func__

    @functools.wraps(create)
    def create_bound(
        cls: type[ResponseCache],
        cache_root: str,
        *,
        model_args: str | Mapping[str, Any] | None = "",
        **kwargs: Any,
    ) -> ResponseCache:
        backend = _backend() if _backend is not None else None
        if backend is not None:
            # Keep symlinks, like the harness.
            folder = Path(os.path.abspath(cache_root))  # noqa: PTH100
            identity = backend.open_cache(folder.parent if cache_root.endswith(".db") else folder)
            arguments = (
                simple_parse_args_string(model_args)
                if isinstance(model_args, str)
                else dict(model_args or {})
            )
            for name in ("workers", "in_flight", "server_wait"):  # they do not affect responses
                arguments.pop(name, None)
            model_args = arguments | {"weights": identity}
        return create(cls, cache_root, model_args=model_args, **kwargs)

    execute = ResponseCache.execute

    @functools.wraps(execute)
    def execute_in_order(
        self: ResponseCache, lm: Any, reqtype: str, requests: list[Any]
    ) -> list[Any]:
        order = lm.order(reqtype, requests) if hasattr(lm, "order") else range(len(requests))
        ordered = [requests[index] for index in order]
        responses = zip(order, execute(self, lm, reqtype, ordered), strict=True)
        return [
            _restored(requests[index], response)
            for index, response in sorted(responses, key=itemgetter(0))
        ]

    extract = ResponseCache._extract_cacheable

    def extract_with_counts(response: Any) -> Any:
        counts = response.token_counts.to_dict() if getattr(response, "token_counts", None) else {}
        return [response.text, counts] if counts else extract(response)

    log = ResponseCache._log_to_audit
    store = ResponseCache._store

    @functools.wraps(log)
    def log_with_record(
        self: ResponseCache,
        kind: str,
        task: str,
        document: Any,
        index: int,
        arguments: Any,
        response: Any,
        **more: Any,
    ) -> None:
        log(
            self,
            kind,
            task,
            document,
            index,
            arguments,
            _with_record(task, document, response),
            **more,
        )

    @functools.wraps(store)
    def store_with_record(
        self: ResponseCache,
        key: str,
        kind: str,
        task: str,
        document: Any,
        index: int,
        arguments: Any,
        response: Any,
    ) -> None:
        store(
            self,
            key,
            kind,
            task,
            document,
            index,
            arguments,
            _with_record(task, document, response),
        )

    ResponseCache.create = classmethod(create_bound)
    ResponseCache._log_to_audit = log_with_record
    ResponseCache._store = store_with_record
    ResponseCache._extract_cacheable = staticmethod(extract_with_counts)
    ResponseCache.execute = execute_in_order


def _with_record(task: str, document: Any, response: Any) -> dict[str, Any]:
    return {"response": response, "record": record.known(task, document)}


def _restored(request: Any, response: Any) -> Any:
    """Return a response as the harness knows it.

    Note the counts of its question if it comes from the cache.
    """
    if not isinstance(response, dict):
        return response
    record.note(request, **response["record"])
    return response["response"]


bind_caches()
