"""Send chat completions through the openai library, with retries, limits and redaction."""

import base64
import html
import json
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from email.utils import mktime_tz, parsedate_tz
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies

import openai
from anyio import CancelScope, current_time, fail_after
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.endpoint import (
    EndpointError,
    NoAnswerError,
    RefusedRequestError,
    RetryPolicy,
)
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.settings import LIMIT_NAMES, NO_KEY, JudgeSettings
from lmms_egoplan.judging.text import is_out_of_credit, judge_name, read_reply
from lmms_egoplan.judging.variables import MAX_MIB, MAX_TOKENS, PARAMETERS, TIMEOUT
from lmms_egoplan.text import clean_text

Answer = TypeVar("Answer")
_CONNECT_S = 10.0
# Maximum size of a file of results, in MiB, unless the limit of other answers is higher.
_FILE_MIB = 512
# Maximum characters of an endpoint's message. Some endpoints send a whole page.
_LONGEST_MESSAGE = 300
_DAY_S = 86_400.0
# Scheme and host of an address.
_HOST = re.compile(r"(https?://)(?:[^/?#]*@)?([^/?#]*)", re.IGNORECASE)
# Content filters, prompts that are too long, malformed content: the next request may succeed.
_REQUEST_ERRORS = (400, 413, 422)
# Statuses worth a retry: timeouts, conflicts, early requests and too many requests.
_RETRIED_STATUSES = (408, 409, 425, 429)
# The library returns the raw response.
_RAW: Any = {"headers": {"X-Stainless-Raw-Response": "true"}}
# These encodings expand a chunk (64 KiB) at most about a thousandfold. Newer or combined encodings
# expand far more.
_ENCODINGS = ("", "identity", "gzip", "deflate")
_CLIENT_VARIABLES = (
    "Check SSL_CERT_FILE, SSL_CERT_DIR, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, OPENAI_ORG_ID, "
    "OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS"
)
# Headers that no longer apply once the body has been read.
_TRANSFER_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
_REPLACEMENT = "[API key]"
# Shorter keys are placeholders for local servers ("EMPTY"), which may occur as words in a reply.
_SHORTEST_IN_REPLIES = 8
_SHORTEST_IN_BASE64 = 4
# Headers without secrets.
_OPEN_HEADERS = ("accept", "content-type", "user-agent")
_RATING = re.compile(r"(\[\[\s*[0-9]{1,3}(?:\.[0-9]*)?\s*\]\])")


# Waits before a retry double from the first to the longest, minus random jitter of up to a quarter.
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0


class BodyError(openai.OpenAIError):
    """A response body is too large, or its decompressed size cannot be limited."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """The openai library's client, with bounded bodies and without redirects.

    Bodies have at most `largest` bytes after decompression. The contents of files may have
    `_FILE_MIB` MiB, if that is more.
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
                largest = max(largest, _FILE_MIB * 2**20)
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


class Client(AbstractAsyncContextManager["Client"]):
    """A client of one endpoint, as an async context manager. `settings` are its settings.

    `rest` is the policy with the time that the last request has left over, for a request that
    continues it.
    `on_retry` is called before every retry of a chat completion. Error messages and replies never
    contain the key.

    Raises:
        EndpointError: no client can be created. The message names the exception or the wrong
            header.
    """

    def __init__(
        self, settings: JudgeSettings, on_retry: Callable[[], None], policy: RetryPolicy
    ) -> None:
        self.settings = settings
        self.rest = policy
        self._on_retry = on_retry
        self._policy = policy
        self._read_s = min(policy.read_s, settings.timeout)
        self._target = (settings.where, settings.model)
        self._learnt = settings.usage.learnt
        self._client: openai.AsyncOpenAI
        options: dict[str, Any] = {
            "api_key": settings.api_key,
            "max_retries": 0,  # `RetryPolicy` controls retries
            "timeout": openai.Timeout(self._read_s, connect=_CONNECT_S),
        }
        try:
            self._http = BoundedClient(settings.max_mib * 2**20)
            self._timeout = options["timeout"]
            options["http_client"] = self._http
            if settings.azure_endpoint is None:
                self._client = openai.AsyncOpenAI(base_url=settings.where, **options)
            else:
                options["azure_endpoint"] = settings.azure_endpoint
                options["api_version"] = settings.azure_api_version
                self._client = openai.AsyncAzureOpenAI(**options)
        except Exception as error:  # errors about a wrong environment have no common base class
            # Other exceptions may quote a proxy's address with its password.
            detail = f": {error}" if isinstance(error, OSError | ImportError) else ""
            raise EndpointError(
                f"{type(error).__name__}{detail}", "cannot be asked", _CLIENT_VARIABLES
            ) from error
        headers = {
            name: value
            for name, value in self._client.default_headers.items()
            if isinstance(value, str)
        }
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                problem = f"the header {name} must be printable ASCII"
                raise EndpointError(problem, "cannot be asked", _CLIENT_VARIABLES)
        self._headers = {"Authorization": f"Bearer {settings.api_key}"} | headers
        self._url = f"{str(self._client.base_url).rstrip('/')}/chat/completions"
        self._redactor = Redactor(*secrets_in(settings.api_key, headers))

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def ask(self, prompt: Prompt) -> Judgement:
        """Send one prompt; return the unrated reply and its duration in seconds.

        The duration is without retries and waits.

        Raises:
            EndpointError, RefusedRequestError, NoAnswerError: see `post`.
        """
        return await self._with_retries(lambda: self._send(prompt))

    async def post(self, body: Mapping[str, Any]) -> str:
        """Send a chat completion with a custom body; return the raw body of the answer.

        Retries timeouts, failed connections, 408, 409, 429 and 5xx within the limits of
        `RetryPolicy`. Waits grow exponentially with jitter, or follow ``Retry-After``.

        Raises:
            EndpointError, RefusedRequestError: the endpoint refused; contains its message.
            NoAnswerError: the limits of `RetryPolicy` are exceeded; contains the last cause.
        """
        return (await self._with_retries(lambda: self._post(body))).text

    async def models(self) -> str:
        """Return the body of the list of models. Raises the same errors as `post`."""
        response: Any = await self.call(
            lambda client: client.get("/models", cast_to=object, options=_RAW)
        )
        return response.http_response.text

    async def call(self, function: Callable[[openai.AsyncOpenAI], Awaitable[Answer]]) -> Answer:
        """Call the openai library with the retries of `post`, uncounted.

        Raises the same errors as `post`.
        """
        return await self._with_retries(lambda: function(self._client), lambda: None)

    def body(self, prompt: Prompt, limit_name: str | None = None) -> dict[str, Any]:
        """Return the body of a request.

        Args:
            prompt: the prompt.
            limit_name: name of the token limit; None for the name that is known so far.
        """
        messages = []
        if prompt.system:
            messages.append({"role": "system", "content": prompt.system})
        content: Any = prompt.text
        if prompt.images:
            content = [
                {"type": "image_url", "image_url": {"url": image}} for image in prompt.images
            ]
            content.append({"type": "text", "text": prompt.text})
        messages.append({"role": "user", "content": content})
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": messages,
            **self.settings.parameters,
            limit_name or self._limit_name(): self.settings.max_tokens,
        }
        if prompt.schema is not None:
            form = {"name": "reply", "schema": prompt.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body

    def read(self, prompt: Prompt, text: str) -> Judgement:
        """Read the body of a chat completion; return the unrated reply without its duration."""
        judgement = read_reply(text, self.settings.model)
        redactor = self._redactor
        return replace(
            judgement,
            reply=judgement.reply and redactor.in_reply(judgement.reply),
            error=judgement.error and redactor.in_error(judgement.error),
            judge=judge_name(redactor.in_reply(judgement.judge)),
            finish=judgement.finish and redactor.in_reply(judgement.finish),
            endpoint=self.settings.where,
            prompt=prompt.text,
            max_tokens=self.settings.max_tokens,
        )

    def clean(self, message: object) -> str:
        """Return an endpoint's message in one line, shortened and without secrets."""
        redacted = self._redactor.in_error(clean_text(str(message)))
        return " ".join(redacted.split())[:_LONGEST_MESSAGE]

    def _limit_name(self) -> str:
        """Return the name of the token limit: the set one, the accepted one, or the likeliest."""
        if self.settings.limit_name:
            return self.settings.limit_name
        return self._learnt.limit_names.get(self._target) or _first_name(self.settings)

    async def _with_retries(
        self, send: Callable[[], Awaitable[Answer]], on_retry: Callable[[], None] | None = None
    ) -> Answer:
        started = current_time()
        with CancelScope(deadline=started + self._policy.total_s) as scope:
            try:
                return await self._send_once(send)
            except NoAnswerError as error:
                return await self._retry(send, error, scope, started, on_retry or self._on_retry)
            finally:
                total_s = max(0.0, scope.deadline - current_time())
                loading_s = max(0.0, started + self._policy.loading_s - current_time())
                self.rest = replace(self._policy, total_s=total_s, loading_s=loading_s)
        raise NoAnswerError(f"No answer within {self._policy.total_s:.3g} s", is_late=True)

    async def _retry(
        self,
        send: Callable[[], Awaitable[Answer]],
        first: NoAnswerError,
        scope: CancelScope,
        started: float,
        on_retry: Callable[[], None],
    ) -> Answer:
        """Repeat a request after its first failure.

        Most requests have none, and do not need the time for this.

        Args:
            send: the request.
            first: the first failure.
            scope: contains all attempts; its deadline moves while the endpoint replies 503.
            started: time of the first attempt, on the clock of `scope`.
            on_retry: called before every retry.
        """
        policy = self._policy
        failures: list[NoAnswerError] = []
        known = [first]
        backoff = wait_exponential(multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S)
        loading_end = started + policy.loading_s
        last_start = loading_end - _LONGEST_WAIT_S  # leaves time for a last attempt

        def is_loading(error: NoAnswerError) -> bool:
            return error.is_loading and policy.loading_s > 0

        def is_retried(error: BaseException) -> bool:
            if not (isinstance(error, NoAnswerError) and error.may_pass):
                return False
            failures.append(error)
            if is_loading(error):
                scope.deadline = min(current_time() + error.wait_s + policy.total_s, loading_end)
                return current_time() < last_start
            counted = [failure for failure in failures if not is_loading(failure)]
            long_waits = [
                failure.wait_s for failure in counted if failure.wait_s > policy.retry_after_s
            ]
            num_retries = len(counted) - len(long_waits)
            num_timeouts = sum(failure.is_late for failure in counted)
            return (
                num_retries <= policy.retries
                and num_timeouts <= policy.timeouts
                and sum(long_waits) <= policy.longer_s
            )

        def wait(state: RetryCallState) -> float:
            last = failures[-1]
            wait_s = last.wait_s or backoff(state) * (1 - random.random() / 4)
            if is_loading(last):
                wait_s = min(wait_s, max(0.0, last_start - current_time()))
            return wait_s

        async def attempt() -> Answer:
            if known:
                raise known.pop()
            return await self._send_once(send)

        retrying = AsyncRetrying(
            retry=retry_if_exception(is_retried),
            wait=wait,
            before_sleep=lambda _: on_retry(),
        )
        return await retrying(attempt)

    async def _send_once(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            with fail_after(self._read_s + _CONNECT_S):
                return await send()
        except openai.APIStatusError as error:
            raise self.failure(error) from None
        except (openai.APIConnectionError, BodyError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, BodyError):
                hint = (
                    f"; {MAX_MIB} sets the limit: {self.settings.max_mib} MiB, and "
                    f"{_FILE_MIB} MiB or more for files"
                )
                raise NoAnswerError(f"{cause}{hint}", may_pass=False) from None
            name = type(cause).__name__
            message = f"{error} ({str(cause) or name})"
            is_late = name == "ReadTimeout"
        except TimeoutError:  # the endpoint sent bytes, but no complete answer
            message = "Request timed out."
            is_late = True
        message = self._redactor.in_error(message)
        if is_late:
            message += f" No answer within {self._read_s:g} s"
            if self._read_s == self.settings.timeout:
                message += f"; {TIMEOUT} sets the limit"
        raise NoAnswerError(message, is_late=is_late)

    async def _send(self, prompt: Prompt) -> Judgement:
        """Send one request with the prompt's schema, unless the model is known to refuse schemas.

        After a refusal, repeat the request without the schema. If that succeeds, stop sending
        schemas to this model.
        """
        schema = None if self._target in self._learnt.without_schema else prompt.schema
        try:
            return await self._send_limited(replace(prompt, schema=schema))
        except openai.APIStatusError as error:
            if schema is None or error.status_code not in (400, 422):
                raise
        self._on_retry()
        answer = await self._send_limited(replace(prompt, schema=None))
        self._learnt.without_schema.add(self._target)
        return answer

    async def _send_limited(self, prompt: Prompt) -> Judgement:
        """Send one request.

        If the endpoint refuses the name of the token limit, repeat it with the other name.
        """
        name = self._limit_name()
        try:
            return await self._create(prompt, name)
        except openai.APIStatusError as error:
            if self.settings.limit_name is not None or not _names(error, name):
                raise
            refusal = error
        other_name = next(limit_name for limit_name in LIMIT_NAMES if limit_name != name)
        self._on_retry()
        try:
            answer = await self._create(prompt, other_name)
        except openai.APIStatusError as error:
            if _names(error, other_name):
                raise refusal from None
            if error.status_code in _REQUEST_ERRORS:
                self._learnt.limit_names[self._target] = other_name
            raise
        self._learnt.limit_names[self._target] = other_name
        return answer

    async def _create(self, prompt: Prompt, limit_name: str) -> Judgement:
        raw = await self._post(self.body(prompt, limit_name))
        return replace(self.read(prompt, raw.text), seconds=raw.elapsed.total_seconds())

    async def _post(self, body: Mapping[str, Any]) -> Any:
        """Send a request; return the response.

        Raises:
            openai.OpenAIError: see the openai library.
        """
        if self.settings.azure_endpoint is not None:
            # The library adds the deployment to the address.
            answer: Any = await self._client.post(
                "/chat/completions", cast_to=object, body=body, options=_RAW
            )
            return answer.http_response
        # The library takes a third longer, because it builds address, headers and options anew for
        # each request.
        request = self._http.build_request(
            "POST", self._url, json=body, headers=self._headers, timeout=self._timeout
        )
        try:
            response = await self._http.send(request)
        except Exception as error:  # all of them, like the library
            if "Timeout" in type(error).__name__:
                raise openai.APITimeoutError(request=request) from error
            raise openai.APIConnectionError(request=request) from error
        if not response.is_success:
            detail = _json_or_text(response.text)
            if isinstance(detail, dict):
                detail = detail.get("error", detail)
            raise openai.APIStatusError("", response=response, body=detail)
        return response

    def failure(self, error: openai.APIStatusError) -> EndpointError:
        """Convert a 3xx, 4xx or 5xx answer to one of our exceptions."""
        status = error.status_code
        headers = error.response.headers
        is_without_credit = is_out_of_credit(error.response.text)
        message = f"HTTP {status}: {self._detail(error)}"
        if status < 500 and (status not in _RETRIED_STATUSES or is_without_credit):
            message += self._setting_hint(error)
            if status in _REQUEST_ERRORS and not is_without_credit:
                return RefusedRequestError(message)
            return EndpointError(message)
        wait_s = retry_after_s(headers) or 0.0
        if wait_s > self._policy.retry_after_s:
            wait = f"{wait_s:.0f} s" if wait_s < _DAY_S else "a day or more"
            message += f" (Retry-After: {wait})"
        return NoAnswerError(
            message,
            wait_s=wait_s,
            is_busy=status == 429,
            is_loading=status == 503,
            # OpenAI sends this header if a retry is useless.
            may_pass=headers.get("x-should-retry") != "false",
        )

    def _detail(self, error: openai.APIStatusError) -> str:
        """Return the message of an answer, or the address that it redirects to."""
        if not error.response.has_redirect_location:
            return self.clean(_endpoint_message(error))
        target = _HOST.match(error.response.headers["location"])
        location = "another path"
        if target:
            location = self._redactor.in_error(target[1] + target[2])
        return f"it redirects to {location}; redirects are not followed"

    def _setting_hint(self, error: openai.APIStatusError) -> str:
        """Return which setting a refusal is about; "" if it is about none."""
        if any(_names(error, name) for name in LIMIT_NAMES):
            return f" (the limit is {self.settings.max_tokens} tokens, set by {MAX_TOKENS})"
        parameters = [name for name in self.settings.parameters if _names(error, name)]
        if parameters:
            return f" ({PARAMETERS} can change or remove {', '.join(parameters)})"
        return ""


def _json_or_text(text: str) -> Any:
    try:
        return decode(text)
    except ValueError:
        return text


def _first_name(settings: JudgeSettings) -> str:
    """Return the name of the token limit that an endpoint probably accepts."""
    old_name, new_name = LIMIT_NAMES
    host = urlsplit(settings.where).hostname or ""
    is_openai = settings.azure_endpoint is None and f".{host}".endswith(".openai.com")
    return new_name if is_openai else old_name


def _names(error: openai.APIStatusError, parameter: str) -> bool:
    """Return whether a 400 or 422 answer mentions this parameter."""
    if error.status_code not in (400, 422):
        return False
    return re.search(rf"\b{parameter}\b", error.response.text) is not None


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the wait in seconds that an answer asks for; None without one.

    It is in ``retry-after-ms`` or in ``Retry-After`` (a number or a date).
    """
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


def _endpoint_message(error: openai.APIStatusError) -> str:
    r"""Return the endpoint's message, in the format of OpenAI or of FastAPI servers.

    In other formats, it is the whole body. A JSON body is rewritten without escapes like
    ``\u0041``, because they could hide a key from redaction.
    """
    body = error.body
    if isinstance(body, dict):
        texts = [body[name] for name in ("message", "detail") if isinstance(body.get(name), str)]
        body = texts[0] if texts else None
    if body and isinstance(body, str):
        return body
    try:
        return json.dumps(decode(error.response.text), ensure_ascii=False)
    except ValueError:
        return error.response.text or "no message"


class Redactor:
    """Replace secrets, also as spelled in JSON, URLs, HTML and base64.

    User names are replaced only in errors.
    """

    def __init__(self, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        nonblank = {secret for secret in secrets if secret.strip()}
        self._all = _pattern(nonblank | {name for name in names if name.strip()})
        long = [secret for secret in nonblank if len(secret) >= _SHORTEST_IN_REPLIES]
        self._long = _pattern(long)
        self._escaped = re.compile("|".join(map(_with_escapes, long)) or r"(?!)", re.IGNORECASE)

    def in_error(self, text: str) -> str:
        """Replace secrets of any length; those under 8 characters only as whole words."""
        return self._all.sub(_REPLACEMENT, self._unescaped(text))

    def in_reply(self, text: str) -> str:
        """Replace secrets of 8 characters or more, but never a rating such as ``[[0.5]]``."""
        parts = _RATING.split(self._unescaped(text))
        return "".join(
            part if index % 2 else self._long.sub(_REPLACEMENT, part)
            for index, part in enumerate(parts)
        )

    def _unescaped(self, text: str) -> str:
        r"""Replace long secrets hidden by JSON escapes, such as ``\u0073k-...`` and ``a\/b``."""
        if "\\" not in text:
            return text
        return self._escaped.sub(_REPLACEMENT, text)


def _with_escapes(secret: str) -> str:
    return "".join(rf"(?:\\?{re.escape(letter)}|\\u{ord(letter):04x})" for letter in secret)


def _pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    spelled = {form for secret in secrets for form in _spellings(secret)}
    longest_first = sorted(spelled, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_whole, longest_first)) or r"(?!)")


def _spellings(secret: str) -> Iterable[str]:
    yield from (
        secret,
        json.dumps(secret)[1:-1],
        quote(secret),
        quote(secret, safe=""),
        html.escape(secret),
    )
    if len(secret) >= _SHORTEST_IN_BASE64:
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(secret.encode()).decode().rstrip("=")


def _whole(form: str) -> str:
    escaped = re.escape(form)
    return escaped if len(form) >= _SHORTEST_IN_REPLIES else rf"(?<!\w){escaped}(?!\w)"


def secrets_in(key: str, headers: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the secrets of a client, and the user names of the environment's proxies.

    Secrets are:

    - the key;
    - header values from the environment, with and without their scheme (``Bearer``);
    - passwords of proxies, with and without the user name, URL-encoded and decoded.
    """
    secrets = [] if key == NO_KEY else [key, f"Bearer {key}"]
    for name, value in headers.items():
        plain_name = name.lower()
        is_open = plain_name in _OPEN_HEADERS or plain_name.startswith("x-stainless")
        if is_open or value == f"Bearer {NO_KEY}":
            continue
        secrets.append(value)
        if plain_name.endswith("authorization"):
            _, _, without_scheme = value.partition(" ")
            secrets.append(without_scheme)
    users = []
    for url in getproxies().values():
        user_info = url.rpartition("@")[0].rpartition("//")[2]
        for text in (user_info, unquote(user_info)):
            user, _, password = text.partition(":")
            users.append(user)
            secrets += [text, password]
    return secrets, users
