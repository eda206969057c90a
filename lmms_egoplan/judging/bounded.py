"""An HTTP client that follows no redirect and reads no more of a body than a limit."""

from typing import Any

import httpx
from openai import DefaultAsyncHttpxClient

# Each enlarges what is read at once (64 KiB) about a thousandfold at most; several together, or newer ones, far more.
_ENCODINGS = ("", "identity", "gzip", "deflate")
# Headers that do not hold for a body that has been read.
_OF_TRANSFER = ("content-encoding", "content-length", "transfer-encoding")


class BodyError(httpx.DecodingError):
    """A response's body is too large, or encoded so that its size cannot be limited."""


class BoundedClient(DefaultAsyncHttpxClient):
    """The openai library's client, with bodies of at most `largest` bytes after decompression."""

    def __init__(self, largest: int) -> None:
        super().__init__(follow_redirects=False, headers={"Accept-Encoding": "gzip, deflate"})
        self._largest = largest

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request and read its response.

        Raises:
            BodyError: see there.
            httpx.HTTPError: as `httpx.AsyncClient.send`.
        """
        response = await super().send(request, **options | {"stream": True, "follow_redirects": False})
        try:
            encoding = response.headers.get("content-encoding", "").strip().lower()
            if encoding not in _ENCODINGS:
                raise BodyError(f"its answer is encoded as {encoding[:50]!r}, not as gzip or deflate")
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > self._largest:
                    raise BodyError("its answer is too large")
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_TRANSFER]
        read = httpx.Response(response.status_code, headers=headers, content=bytes(body), request=request)
        read.elapsed = response.elapsed
        return read
