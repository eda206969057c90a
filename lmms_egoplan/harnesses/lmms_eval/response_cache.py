"""Cache the responses of lmms-eval's ``--use_cache`` by the weights that gave them.

The harness's keys contain the name of a checkpoint, not its content. `ModelCache` therefore adds
the identity of the evaluated model, including failed computation paths, to the model's arguments.

The harness stores only the text of a reply. Here, a stored response is an object with the reply,
its token counts, from which scoring knows whether the limit ended it, and the counts of its
question (`record.known`), whatever the backend. A resumed run then reports the same figures as an
undisturbed one.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.utils import simple_parse_args_string

from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.lmms_eval.package_tasks import has_package_tasks

_RUN_ID = "LMMS_CACHE_RUN_ID"
# Arguments that do not affect responses.
_SPEED = ("workers", "in_flight", "server_wait")


class CachedBackend(Protocol):
    """A backend whose responses depend on more than its arguments.

    Attributes:
        cache_run: See `cache_run`.
    """

    cache_run: str

    def open_cache(self, folder: Path) -> str:
        """Return the identity of this backend's responses in the folder of ``--use_cache``."""


def cache_run(backend: str, *arguments: Any) -> str:
    """Return an ID that all runs of the same model share.

    The harness stores the responses of an unfinished run under an ID, and reads them only under the
    same ID, which is random. With this one, it finds the responses of an interrupted run.

    Args:
        backend: The backend's name in the harness.
        arguments: Everything that the responses depend on.
    """
    digest = hashlib.sha256(json.dumps(arguments, default=str).encode()).hexdigest()[:16]
    return f"{backend}-{digest}"


class ModelCache:
    """The harness's ``ResponseCache``, opened with the first requests, when the model is known.

    The harness creates it from the name and the arguments of the model, and then passes the model
    with the requests. Responses of other projects' tasks and backends are cached as without this
    package.
    """

    def __init__(self, cache_root: str, arguments: Mapping[str, Any]) -> None:
        self._root = cache_root
        self._arguments = arguments
        self._cache: ResponseCache | None = None

    @classmethod
    def create(cls, cache_root: str, **arguments: Any) -> "ModelCache":
        """Take the arguments of ``ResponseCache.create``, and open nothing yet."""
        return cls(cache_root, arguments)

    def execute(self, lm: Any, reqtype: str, requests: list[Any]) -> list[Any]:
        """Return the responses, as the harness's cache does."""
        return self.opened(lm).execute(lm, reqtype, requests)

    def finalize(self, **arguments: Any) -> None:
        """Close the cache, as the harness's does; also one that got no requests."""
        if self._cache is not None:
            self._cache.finalize(**arguments)

    def opened(self, lm: Any) -> ResponseCache:
        """Return the cache of a model, which is opened at the first call."""
        if self._cache is None:
            self._cache = self._open(lm)
        return self._cache

    def _open(self, lm: Any) -> ResponseCache:
        is_bound = hasattr(lm, "open_cache")
        if not is_bound and not has_package_tasks(self._arguments.get("task_dict") or {}):
            return ResponseCache.create(self._root, **self._arguments)
        if not is_bound:
            return RecordedCache.create(self._root, **self._arguments)
        with _run_id(lm.cache_run):
            return RecordedCache.create(self._root, **self._bound(lm))

    def _bound(self, backend: CachedBackend) -> dict[str, Any]:
        """Return the arguments with the identity of the model."""
        # Keep symlinks, like the harness.
        folder = Path(os.path.abspath(self._root))  # noqa: PTH100
        if self._root.endswith(".db"):
            folder = folder.parent
        identity = backend.open_cache(folder)
        given = self._arguments.get("model_args")
        parsed = simple_parse_args_string(given) if isinstance(given, str) else dict(given or {})
        model_args = {name: value for name, value in parsed.items() if name not in _SPEED}
        return {**self._arguments, "model_args": model_args | {"weights": identity}}


@contextmanager
def _run_id(name: str) -> Iterator[None]:
    """Let the harness open a cache under this ID. An ID set by the user has priority."""
    if _RUN_ID in os.environ:
        yield
        return
    os.environ[_RUN_ID] = name
    try:
        yield
    finally:
        del os.environ[_RUN_ID]


class RecordedCache(ResponseCache):
    """A cache that stores the counts of a question with each response."""

    def execute(self, lm: Any, reqtype: str, requests: list[Any]) -> list[Any]:
        """Compute missing responses in the backend's order, and note the counts of cached ones."""
        order = lm.order(reqtype, requests) if hasattr(lm, "order") else range(len(requests))
        ordered = [requests[index] for index in order]
        responses = zip(order, super().execute(lm, reqtype, ordered), strict=True)
        return [
            _restored(requests[index], response)
            for index, response in sorted(responses, key=itemgetter(0))
        ]

    @staticmethod
    def _extract_cacheable(response: Any) -> Any:
        counts = response.token_counts.to_dict() if getattr(response, "token_counts", None) else {}
        if counts:
            return [response.text, counts]
        return ResponseCache._extract_cacheable(response)

    def _log_to_audit(
        self,
        kind: str,
        task: str,
        document: Any,
        index: int,
        arguments: Any,
        response: Any,
        **more: Any,
    ) -> None:
        recorded = _with_record(task, document, response)
        super()._log_to_audit(kind, task, document, index, arguments, recorded, **more)

    def _store(
        self,
        key: str,
        kind: str,
        task: str,
        document: Any,
        index: int,
        arguments: Any,
        response: Any,
    ) -> None:
        recorded = _with_record(task, document, response)
        super()._store(key, kind, task, document, index, arguments, recorded)


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
