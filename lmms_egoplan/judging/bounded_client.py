"""Limit what the openai library reads from an endpoint."""

from typing import Any

import openai

# Maximum size of a file of results, in MiB, unless the limit of other answers is higher.
FILE_MIB = 512
# These encodings expand a chunk (64 KiB) at most about a thousandfold. Newer or combined encodings
# expand far more.
_ENCODINGS = ("", "identity", "gzip", "deflate")
# Headers that no longer apply once the body has been read.
_TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")


class BodyError(openai.OpenAIError):
    """A response body is too large, or its decompressed size cannot be limited."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """The openai library's client, with bounded bodies and without redirects.

    Bodies have at most `largest` bytes after decompression. The contents of files may have
    `FILE_MIB` MiB, if that is more.
    """

    def __init__(self, largest: int) -> None:
        super().__init__(follow_redirects=False, headers={"Accept-Encoding": "gzip, deflate"})
        self._largest = largest

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request and read its response.

        Raises:
            BodyError: the body is too large or has another encoding than gzip or deflate.
            Exception: any error of the library's client.
        """
        response = await super().send(
            request, **options | {"stream": True, "follow_redirects": False}
        )
        try:
            encoding = response.headers.get("content-encoding", "").strip().lower()
            if encoding not in _ENCODINGS:
                raise BodyError(f"its answer has encoding {encoding[:50]!r}, not gzip or deflate")
            body = bytearray()
            largest = self._largest
            if request.url.path.endswith("/content"):
                largest = max(largest, FILE_MIB * 2**20)
            async for part in response.aiter_bytes():
                body += part
                if len(body) > largest:
                    raise BodyError("its answer is too large")
        finally:
            await response.aclose()
        headers = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name not in _TRANSFER_HEADERS
        ]
        read = type(response)(
            response.status_code, headers=headers, content=bytes(body), request=request
        )
        read.elapsed = response.elapsed
        return read
