"""A chat endpoint, asked through the openai library: how it is reached, waited for, and how it fails."""

import asyncio
import json
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.redaction import Redactor
from lmms_egoplan.judging.reply import Reply, is_out_of_credit, read_reply
from lmms_egoplan.judging.settings import LIMIT_NAMES, MAX_MIB, MAX_TOKENS, NO_KEY, PARAMETERS, TIMEOUT, JudgeSettings
from lmms_egoplan.text import clean_text

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

Answer = TypeVar("Answer")

_CONNECT_S = 10.0
# The waits before a request is sent again double from the first to the last of these, less up to a quarter.
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 8.0
# Characters of an endpoint's message; some answer with a whole page.
_LONGEST_MESSAGE = 300
_DAY_S = 86_400.0
# Scheme and host of an address.
_HOST = re.compile(r"(https?://)(?:[^/?#]*@)?([^/?#]*)", re.IGNORECASE)
# Content filters, prompts that are too long, malformed contents: the next request may be fine.
_OF_ONE_REQUEST = (400, 413, 422)
# Statuses that are worth another try: timeouts, conflicts, early and too many requests.
_SENT_AGAIN = (408, 409, 425, 429)
# Which limit's name an endpoint's model accepts, as this process has learnt it.
_learnt_names: dict[tuple[str, str], str] = {}
# Which of such endpoints' models refuse a JSON schema for their reply.
_without_schema: set[tuple[str, str]] = set()
# The library hands over what came, unread.
_RAW: Any = {"headers": {"X-Stainless-Raw-Response": "true"}}
# Headers that hold no secret.
_OPEN_HEADERS = ("accept", "content-type", "user-agent")


@dataclass(frozen=True)
class Patience:
    """How long an endpoint is waited for.

    retries: how often a request is sent again.
    timeouts: how often of these because no answer came in time.
    read_s: seconds after which a request without an answer counts as lost; less where `JudgeSettings.timeout` is.
    retry_after_s: the longest ``Retry-After`` that counts as a usual wait before a retry.
    longer_s: longer ones are waited for, too, up to this sum of seconds for one answer.
    """

    retries: int
    read_s: float
    retry_after_s: float
    longer_s: float
    timeouts: int = 2


# The waits between retries make a little over a minute, which is the window of most rate limits.
JUDGING = Patience(retries=12, read_s=math.inf, retry_after_s=120.0, longer_s=1800.0)
# Someone waits for the probe: an unknown host is told after some 2 s, one that drops connections after half a minute.
PROBING = Patience(retries=2, read_s=60.0, retry_after_s=5.0, longer_s=0.0)


class EndpointError(Exception):
    """A request has not been answered.

    WHAT: what the endpoint does instead, for messages; CHECK: the variables to look at.
    """

    WHAT = "refuses"
    CHECK = (
        "LMMS_EGOPLAN_JUDGE_MODEL, LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY (or the variables that "
        "stand in for them)"
    )


class ClientError(EndpointError):
    """The environment allows no client: certificates, proxies or headers are wrong."""

    WHAT = "cannot be asked"
    CHECK = (
        "SSL_CERT_FILE, SSL_CERT_DIR, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, OPENAI_ORG_ID, OPENAI_PROJECT_ID and "
        "OPENAI_CUSTOM_HEADERS"
    )


class RefusedError(EndpointError):
    """The endpoint refuses all requests: a 4xx that nothing below stands for, or an account without credit."""


class RefusedRequestError(EndpointError):
    """The endpoint refuses this request: 400, 413 or 422."""


class NoAnswerError(EndpointError):
    """The endpoint could not be reached, was too busy or failed, each time that it was asked."""

    WHAT = "does not answer"


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
        self._read_s = min(patience.read_s, settings.timeout)
        try:
            self._client = self._open()
        except Exception as error:  # the libraries' errors over a wrong environment have no common base class
            # Others than these two may quote a proxy's address with its password.
            detail = f": {error}" if isinstance(error, OSError | ImportError) else ""
            raise ClientError(f"{type(error).__name__}{detail}") from error
        headers = {name: value for name, value in self._client.default_headers.items() if isinstance(value, str)}
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ClientError(f"the header {name} has other characters than printable ASCII")
        proxies = [*_proxy_users()]
        secrets = (text for _, user_info, password in proxies for text in (user_info, password))
        users = (user for user, _, _ in proxies)
        self._redactor = Redactor([*_secrets(settings.api_key, headers), *secrets], users)

    def _open(self) -> "AsyncOpenAI":
        from openai import AsyncAzureOpenAI, AsyncOpenAI, Timeout

        from lmms_egoplan.judging.bounded import BoundedClient

        options: dict[str, Any] = {
            "api_key": self._settings.api_key,
            "max_retries": 0,  # how often, and for how long, is told by `Patience`
            "timeout": Timeout(self._read_s, connect=_CONNECT_S),
            "http_client": BoundedClient(self._settings.max_mib * 2**20),
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

        Raises as `post`.
        """
        return await self._patiently(lambda: self._send(prompt))

    async def post(self, body: Mapping[str, Any]) -> str:
        """Send a chat completion with a body of one's own; returns the body of the answer, as it came.

        Timeouts, failed connections, 408, 409, 429 and 5xx are tried again, exponentially with jitter or as
        ``Retry-After`` says, within the bounds of `Patience`.

        Raises:
            RefusedError, RefusedRequestError: with the endpoint's message.
            NoAnswerError: tries or patience are at an end; with the last cause.
        """

        async def send() -> str:
            return (await self._post(body)).text

        return await self._patiently(send)

    async def models(self) -> str:
        """Return the body of the list of models; raise as `post`."""

        async def send() -> str:
            response: Any = await self._client.get("/models", cast_to=object, options=_RAW)
            return response.http_response.text

        return await self._patiently(send)

    async def _patiently(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        from openai import APIConnectionError, APIStatusError

        from lmms_egoplan.judging.bounded import BodyError

        retries = timeouts = 0
        waited = 0.0
        while True:
            wait = None
            try:
                return await self._send_in_time(send)
            except APIStatusError as error:
                failure, wait = self._failure(error)
                if isinstance(failure, RefusedError | RefusedRequestError) or not _may_be_sent_again(error):
                    raise failure from None
            except APIConnectionError as error:
                if isinstance(error.__cause__, BodyError):
                    hint = f"; {MAX_MIB} sets the limit, {self._settings.max_mib} MiB now"
                    raise NoAnswerError(f"{error.__cause__}{hint}") from None
                cause = type(error.__cause__).__name__
                timeouts += cause == "ReadTimeout"
                failure = self._lost(f"{error} ({str(error.__cause__) or cause})", is_late=cause == "ReadTimeout")
            except TimeoutError:  # bytes came, but no whole answer
                timeouts += 1
                failure = self._lost("Request timed out.", is_late=True)
            if wait is not None and wait > self._patience.retry_after_s:
                waited += wait
                if waited > self._patience.longer_s:
                    raise failure
            else:
                retries += 1
                if retries > self._patience.retries or timeouts > self._patience.timeouts:
                    raise failure
            self._on_retry()
            await asyncio.sleep(wait or _wait_s(retries))

    async def _send_in_time(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send and return the answer; raise TimeoutError if it takes too long.

        Not by `asyncio.wait_for`: before Python 3.12 it forgets a cancellation that comes together with the reply.
        """
        sending = asyncio.ensure_future(send())
        try:
            await asyncio.wait([sending], timeout=self._read_s + _CONNECT_S)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if sending.cancelled():
            raise TimeoutError
        return sending.result()

    async def _send(self, prompt: Prompt) -> tuple[Reply, float]:
        """Send one request, with the prompt's schema unless the endpoint's model is known to refuse schemas.

        A refusal is followed by one request without the schema. If that succeeds, no schema is sent there again.
        """
        from openai import APIStatusError

        place = (self._settings.where, self._settings.model)
        plain = replace(prompt, schema=None)
        if prompt.schema is None or place in _without_schema:
            return await self._send_limited(plain, place)
        try:
            return await self._send_limited(prompt, place)
        except APIStatusError as error:
            if error.status_code not in (400, 422):
                raise
        self._on_retry()
        answer = await self._send_limited(plain, place)
        _without_schema.add(place)
        return answer

    async def _send_limited(self, prompt: Prompt, place: tuple[str, str]) -> tuple[Reply, float]:
        """Send one request; again with the limit under its other name if the endpoint refuses the first."""
        from openai import APIStatusError

        if self._settings.limit_name is not None:
            return await self._create(prompt, self._settings.limit_name)
        name = _learnt_names.get(place) or _first_name(self._settings)
        try:
            return await self._create(prompt, name)
        except APIStatusError as error:
            if not _names(error, name):
                raise
            refusal = error
        other = next(each for each in LIMIT_NAMES if each != name)
        self._on_retry()
        try:
            answer = await self._create(prompt, other)
        except APIStatusError as error:
            if _names(error, other):
                raise refusal from None
            if error.status_code in _OF_ONE_REQUEST:
                _learnt_names[place] = other
            raise
        _learnt_names[place] = other
        return answer

    async def _create(self, prompt: Prompt, limit_name: str) -> tuple[Reply, float]:
        body = {
            "model": self._settings.model,
            "messages": [{"role": "user", "content": _content(prompt)}],
            **self._settings.parameters,
            limit_name: self._settings.max_tokens,
        }
        if prompt.schema is not None:
            form = {"name": "reply", "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        raw = await self._post(body)
        return self._redacted(read_reply(raw.text)), raw.elapsed.total_seconds()

    async def _post(self, body: Mapping[str, Any]) -> Any:
        # Not through `chat.completions`, whose parameters' types the library reads anew for each request.
        response: Any = await self._client.post("/chat/completions", cast_to=object, body=body, options=_RAW)
        return response.http_response

    def _failure(self, error: "APIStatusError") -> tuple[Exception, float | None]:
        """Return what an answer of 3xx, 4xx or 5xx means, and the seconds that it asks to wait."""
        status, body = error.status_code, error.response.text
        words = " ".join(self._redactor.in_error(clean_text(_endpoint_message(error))).split())
        message = f"HTTP {status}: {words[:_LONGEST_MESSAGE]}"
        if error.response.has_redirect_location:
            target = _HOST.match(error.response.headers["location"])
            place = self._redactor.in_error(target[1] + target[2]) if target else "another path"
            message = f"HTTP {status}: it redirects to {place}, and no redirect is followed"
        if status < 500 and (status not in _SENT_AGAIN or is_out_of_credit(body)):
            if any(_names(error, name) for name in LIMIT_NAMES):
                message += f" ({MAX_TOKENS} sets the limit, {self._settings.max_tokens} tokens now)"
            elif named := [name for name in self._settings.parameters if _names(error, name)]:
                message += f" ({PARAMETERS} can change or remove {', '.join(named)})"
            is_of_one = status in _OF_ONE_REQUEST and not is_out_of_credit(body)
            return (RefusedRequestError if is_of_one else RefusedError)(message), None
        kind = BusyError if status == 429 else NoAnswerError
        wait = retry_after_s(error.response.headers)
        if wait is not None and wait > self._patience.retry_after_s:
            message += f" (Retry-After: {f'{wait:.0f} s' if wait < _DAY_S else 'a day or more'})"
        return kind(message), wait

    def _lost(self, message: str, *, is_late: bool) -> NoAnswerError:
        late = f" No answer in {self._read_s:g} s" if is_late else ""
        hint = f"; {TIMEOUT} sets the limit" if late and self._read_s == self._settings.timeout else ""
        return NoAnswerError(self._redactor.in_error(message) + late + hint)

    def _redacted(self, reply: Reply) -> Reply:
        return replace(
            reply,
            text=reply.text and self._redactor.in_reply(reply.text),
            problem=reply.problem and self._redactor.in_error(reply.problem),
            model=reply.model and self._redactor.in_reply(reply.model),
            finish=self._redactor.in_reply(reply.finish),
        )


def _secrets(key: str, headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the key and what the environment puts into headers, alone and with what precedes it there."""
    if key != NO_KEY:
        yield from (key, f"Bearer {key}")
    for name, value in headers.items():
        plain = name.lower()
        if plain in _OPEN_HEADERS or plain.startswith("x-stainless") or value == f"Bearer {NO_KEY}":
            continue
        yield value
        if plain.endswith("authorization"):
            yield value.partition(" ")[2]


def _proxy_users() -> Iterator[tuple[str, str, str]]:
    """Yield user, both, and password of the environment's proxies, as they are written and as they are sent."""
    for url in getproxies().values():
        user_info = url.rpartition("@")[0].rpartition("//")[2]
        for text in (user_info, unquote(user_info)):
            user, _, password = text.partition(":")
            yield user, text, password


def _first_name(settings: JudgeSettings) -> str:
    host = urlsplit(settings.where).hostname or ""
    return LIMIT_NAMES[settings.azure_endpoint is None and f".{host}".endswith(".openai.com")]


def _names(error: "APIStatusError", parameter: str) -> bool:
    """Return whether an error of a request is about this parameter."""
    return error.status_code in (400, 422) and bool(re.search(rf"\b{parameter}\b", error.response.text))


def _may_be_sent_again(error: "APIStatusError") -> bool:
    """Return whether a request is worth sending again: OpenAI says by a header if it is not."""
    return error.response.headers.get("x-should-retry") != "false"


def _wait_s(retry: int) -> float:
    """Return the seconds before the first, second, ... retry."""
    return min(_FIRST_WAIT_S * 2 ** (retry - 1), _LONGEST_WAIT_S) * (1 - random.random() / 4)


def _content(prompt: Prompt) -> str | list[dict[str, Any]]:
    """Return a message's content: the text alone, or parts with the images first."""
    if not prompt.images:
        return prompt.text
    images = [{"type": "image_url", "image_url": {"url": url}} for url in prompt.images]
    return [*images, {"type": "text", "text": prompt.text}]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that ``Retry-After`` (a number or a date) or ``retry-after-ms`` asks for; else None."""
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
    """Return the endpoint's message as in errors of OpenAI and of FastAPI servers, else the whole body."""
    body = error.body
    if isinstance(body, dict):
        body = next((body[name] for name in ("message", "detail") if isinstance(body.get(name), str)), None)
    return body if body and isinstance(body, str) else _plain_json(error.response.text) or "no message"


def _plain_json(text: str) -> str:
    r"""Return JSON without ``\u0041`` and the like, in which a key would not be found; other text as it is."""
    try:
        return json.dumps(decode(text), ensure_ascii=False)
    except ValueError:
        return text
