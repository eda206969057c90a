"""A chat endpoint, asked through the openai library: how it is reached, waited for, and how it fails."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Any

from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.reply import Reply, is_out_of_credit, read_reply
from lmms_egoplan.judging.settings import JudgeSettings

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

# What is sent beside model and prompt; newer models refuse more.
PARAMETERS: dict[str, Any] = {"temperature": 0}

_CONNECT_S = 10.0
# Shorter keys are placeholders of local servers ("EMPTY"), which may well be words of a reply.
_SHORTEST_SECRET = 8
# Characters of an endpoint's message; some answer with a whole page.
_LONGEST_MESSAGE = 300


@dataclass(frozen=True)
class Patience:
    """How long an endpoint is waited for.

    retries: how often the library sends a request again.
    read_s: seconds of silence after which a request counts as lost.
    retry_after_s: the longest ``Retry-After`` that the library waits for, each time.
    longer_s: longer ones are waited for by `Endpoint.ask`, up to this sum of seconds for one answer.
    """

    retries: int
    read_s: float
    retry_after_s: float
    longer_s: float


# The library's waits grow from 0.5 to 8 s: together a little over a minute, which is the window of most rate limits.
# A long answer of a slow local model has time to arrive. The library waits two minutes for a Retry-After at most.
JUDGING = Patience(retries=12, read_s=600.0, retry_after_s=120.0, longer_s=1800.0)
# Someone waits for the probe: an unknown host is told after some 2 s, one that drops connections after half a minute.
PROBING = Patience(retries=2, read_s=60.0, retry_after_s=5.0, longer_s=0.0)


class ClientError(Exception):
    """The environment allows no client: certificates, proxies or headers are wrong."""


class RefusedError(Exception):
    """The endpoint refuses such requests: a 4xx other than 408, 409 and 429, or a 429 of an account without credit."""


class NoAnswerError(Exception):
    """The endpoint could not be reached, was too busy or failed, each time that it was asked."""


class BusyError(NoAnswerError):
    """The endpoint is there and knows the key, but was too busy (429) the last time that it was asked."""


class Endpoint:
    """The endpoint of some settings, as an async context manager.

    `on_retry` is called whenever something is sent again. Messages of errors, and replies, never hold the key.

    Raises:
        ClientError: no client can be made; the message names the exception, or the header that is wrong.
    """

    def __init__(self, settings: JudgeSettings, on_retry: Callable[[], None], patience: Patience) -> None:
        self._settings, self._on_retry, self._patience = settings, on_retry, patience
        try:
            self._client = self._open()
        except Exception as error:  # the libraries' errors over a wrong environment have no common base class
            # Others than these two may quote a proxy's address with its password.
            detail = f": {error}" if isinstance(error, OSError | ImportError) else ""
            raise ClientError(f"{type(error).__name__}{detail}") from error
        for name, value in self._client.default_headers.items():
            if isinstance(value, str) and not (value.isascii() and value.isprintable()):
                raise ClientError(f"the header {name} has other characters than printable ASCII")

    def _open(self) -> "AsyncOpenAI":
        from openai import AsyncAzureOpenAI, AsyncOpenAI, DefaultAsyncHttpxClient, Timeout

        hooks = {"request": [self._notice_retry], "response": [self._end_futile_retries]}
        options: dict[str, Any] = {
            "api_key": self._settings.api_key,
            "max_retries": self._patience.retries,
            "timeout": Timeout(self._patience.read_s, connect=_CONNECT_S),
            "http_client": DefaultAsyncHttpxClient(event_hooks=hooks),
        }
        if self._settings.azure_endpoint is None:
            return AsyncOpenAI(base_url=self._settings.where, **options)
        return AsyncAzureOpenAI(
            azure_endpoint=self._settings.azure_endpoint, api_version=self._settings.azure_api_version, **options
        )

    async def __aenter__(self) -> "Endpoint":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def ask(self, prompt: Prompt) -> tuple[Reply, float]:
        """Send one user message; returns the reply and the seconds that it took, without retries and waits.

        Timeouts, failed connections, 408, 409, 429 and 5xx are tried again by the library, exponentially with
        jitter or as ``Retry-After`` says, within the bounds of `Patience`.

        Raises:
            RefusedError: with the endpoint's message.
            NoAnswerError: tries or patience are at an end; with the last cause.
        """
        from openai import APIConnectionError, APIStatusError

        waited = 0.0
        while True:
            try:
                response = await self._client.chat.completions.with_raw_response.create(
                    model=self._settings.model, messages=[{"role": "user", "content": _content(prompt)}], **PARAMETERS
                )
                raw = response.http_response
                return self._redacted(read_reply(self._redact(raw.text))), raw.elapsed.total_seconds()
            except APIStatusError as error:
                failure, wait = self._failure(error)
            except APIConnectionError as error:
                cause = str(error.__cause__) or type(error.__cause__).__name__
                failure, wait = NoAnswerError(self._redact(f"{error} ({cause})")), None
            if wait is None or waited + wait > self._patience.longer_s:
                raise failure
            self._on_retry()
            waited += wait
            await asyncio.sleep(wait)

    def _failure(self, error: "APIStatusError") -> tuple[Exception, float | None]:
        """What an answer of 4xx or 5xx means, and how many seconds to wait where it may still end well."""
        status = error.status_code
        words = " ".join(self._redact(_endpoint_message(error)).split())
        message = f"HTTP {status}: {words[:_LONGEST_MESSAGE]}"
        if status < 500 and (status not in (408, 409, 429) or is_out_of_credit(error.response.text)):
            return RefusedError(message), None
        kind = BusyError if status == 429 else NoAnswerError
        wait = retry_after_s(error.response.headers)
        if wait is None or wait <= self._patience.retry_after_s:
            return kind(message), None
        return kind(f"{message} (Retry-After: {wait:.0f} s)"), wait

    async def _notice_retry(self, request: Any) -> None:
        if request.headers.get("x-stainless-retry-count", "0") != "0":
            self._on_retry()

    async def _end_futile_retries(self, response: Any) -> None:
        """Tell the library, by a header that it heeds, not to try again where that is of no use or too long a wait."""
        if response.status_code < 400:
            return
        await response.aread()
        if (retry_after_s(response.headers) or 0.0) > self._patience.retry_after_s or is_out_of_credit(response.text):
            response.headers["x-should-retry"] = "false"

    def _redacted(self, reply: Reply) -> Reply:
        """JSON can spell a key in ways that its body does not show."""
        text, model = (value and self._redact(value) for value in (reply.text, reply.model))
        return replace(reply, text=text, model=model)

    def _redact(self, text: str) -> str:
        key = self._settings.api_key
        if len(key) < _SHORTEST_SECRET:
            return text
        return text.replace(key, "[API key]")


def _content(prompt: Prompt) -> str | list[dict[str, Any]]:
    """A message's content: the text alone, or parts with the images first."""
    if not prompt.images:
        return prompt.text
    images = [{"type": "image_url", "image_url": {"url": url}} for url in prompt.images]
    return [*images, {"type": "text", "text": prompt.text}]


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
