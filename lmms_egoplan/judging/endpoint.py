"""A chat endpoint, asked through the openai library: how it is reached, waited for, and how it fails."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Any

from lmms_egoplan.judging.reply import Reply, read_reply
from lmms_egoplan.judging.settings import JudgeSettings

if TYPE_CHECKING:
    from openai import APIStatusError

# What is sent beside model and prompt; newer models refuse more.
PARAMETERS: dict[str, Any] = {"temperature": 0}

# The library's waits grow from 0.5 to 8 s: together a little over a minute, which is the window of most rate limits.
RETRIES = 12
# A long answer of a slow local model must have time to arrive.
_TIMEOUT_S = 600.0
# The library itself waits no longer than this for a Retry-After, and gives up where one asks for more.
_LIBRARY_WAITS_S = 120.0
# Longer ones are waited for here, up to half an hour in all for one answer.
LONGEST_WAIT_S = 1800.0
# Shorter keys are placeholders of local servers ("EMPTY"), which may well be words of a reply.
_SHORTEST_SECRET = 8
# Characters of an endpoint's message; some answer with a whole page.
_LONGEST_MESSAGE = 300


class RefusedError(Exception):
    """The endpoint refuses such requests: a 4xx other than 408, 409 and 429."""


class NoAnswerError(Exception):
    """The endpoint could not be reached, was too busy or failed, each time that it was asked."""


class Endpoint:
    """The endpoint of some settings, as an async context manager.

    `on_retry` is called whenever something is sent again; `retries` is how often the library does so. Messages of
    errors, and replies, never hold the key.
    """

    def __init__(self, settings: JudgeSettings, on_retry: Callable[[], None], retries: int = RETRIES) -> None:
        from openai import AsyncAzureOpenAI, AsyncOpenAI, DefaultAsyncHttpxClient

        async def notice_retries(request: Any) -> None:
            if request.headers.get("x-stainless-retry-count", "0") != "0":
                on_retry()

        self._settings, self._on_retry = settings, on_retry
        options: dict[str, Any] = {
            "api_key": settings.api_key,
            "max_retries": retries,
            "timeout": _TIMEOUT_S,
            "http_client": DefaultAsyncHttpxClient(event_hooks={"request": [notice_retries]}),
        }
        if settings.azure_endpoint is None:
            self._client = AsyncOpenAI(base_url=settings.where, **options)
        else:
            self._client = AsyncAzureOpenAI(
                azure_endpoint=settings.azure_endpoint, api_version=settings.azure_api_version, **options
            )

    async def __aenter__(self) -> "Endpoint":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def ask(self, prompt: str) -> tuple[Reply, float]:
        """Send one user message; returns the reply and the seconds that it took, without retries and waits.

        Timeouts, failed connections, 408, 409, 429 and 5xx are tried again by the library, exponentially with
        jitter or as ``Retry-After`` says; a ``Retry-After`` of over two minutes is waited for here, up to half an
        hour in all.

        Raises:
            RefusedError: with the endpoint's message.
            NoAnswerError: tries or patience are at an end; with the last cause.
        """
        from openai import APIConnectionError, APIStatusError

        waited = 0.0
        while True:
            try:
                response = await self._client.chat.completions.with_raw_response.create(
                    model=self._settings.model, messages=[{"role": "user", "content": prompt}], **PARAMETERS
                )
                raw = response.http_response
                return self._redacted(read_reply(self._redact(raw.text))), raw.elapsed.total_seconds()
            except APIStatusError as error:
                failure, wait = self._failure(error)
            except APIConnectionError as error:
                cause = f"{error} ({error.__cause__})" if error.__cause__ else str(error)
                failure, wait = NoAnswerError(self._redact(cause)), None
            if wait is None or waited + wait > LONGEST_WAIT_S:
                raise failure
            self._on_retry()
            waited += wait
            await asyncio.sleep(wait)

    def _failure(self, error: "APIStatusError") -> tuple[Exception, float | None]:
        """What an answer of 4xx or 5xx means, and how many seconds to wait where it may still end well."""
        status = error.status_code
        words = " ".join(self._redact(_endpoint_message(error)).split())
        message = f"HTTP {status}: {words[:_LONGEST_MESSAGE]}"
        if status < 500 and status not in (408, 409, 429):
            return RefusedError(message), None
        wait = retry_after_s(error.response.headers)
        if wait is None or wait <= _LIBRARY_WAITS_S:
            return NoAnswerError(message), None
        return NoAnswerError(f"{message} (Retry-After: {wait:.0f} s)"), wait

    def _redacted(self, reply: Reply) -> Reply:
        """JSON can spell a key in ways that its body does not show."""
        text, model = (value and self._redact(value) for value in (reply.text, reply.model))
        return replace(reply, text=text, model=model)

    def _redact(self, text: str) -> str:
        key = self._settings.api_key
        if len(key) < _SHORTEST_SECRET:
            return text
        return text.replace(key, "[API key]")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``Retry-After`` (a number or a date) or ``retry-after-ms`` asks for; None where neither does."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * factor
        except ValueError:
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    date = parsedate_tz(headers.get("retry-after", ""))
    try:
        return None if date is None else max(0.0, mktime_tz(date) - time.time())
    except (ValueError, OverflowError):
        return None


def _endpoint_message(error: "APIStatusError") -> str:
    """The endpoint's own words: what OpenAI's errors and those of FastAPI servers hold, else the whole body."""
    body = error.body
    if isinstance(body, dict):
        body = next((body[name] for name in ("message", "detail") if isinstance(body.get(name), str)), None)
    return body if body and isinstance(body, str) else error.response.text or "no message"
