"""Send chat completions through the openai library, with retries, limits and redaction."""

import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from email.utils import mktime_tz, parsedate_tz
from typing import Any, TypeVar
from urllib.parse import urlsplit

import openai
from anyio import CancelScope, fail_after, sleep

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.bounded_client import FILE_MIB, BodyError, BoundedClient
from lmms_egoplan.judging.endpoint import (
    EndpointError,
    NoAnswerError,
    RefusedRequestError,
    RetryPolicy,
)
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.redaction import Redactor, secrets_in
from lmms_egoplan.judging.retries import Retries
from lmms_egoplan.judging.settings import LIMIT_NAMES, JudgeSettings
from lmms_egoplan.judging.text import (
    is_filter_refusal,
    is_out_of_credit,
    judge_name,
    read_reply,
)
from lmms_egoplan.judging.variables import MAX_MIB, MAX_TOKENS, PARAMETERS, TIMEOUT
from lmms_egoplan.text import clean_text

Answer = TypeVar("Answer")
_CONNECT_S = 10.0
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
_CLIENT_VARIABLES = (
    "Check SSL_CERT_FILE, SSL_CERT_DIR, HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, OPENAI_ORG_ID, "
    "OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS"
)


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
        if prompt.schema is not None and self._target not in self._learnt.without_schema:
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
        """Send a request, and repeat it within the limits of the policy.

        Args:
            send: the request.
            on_retry: called before every retry; None for that of the client.
        """
        retries = Retries(self._policy)
        with CancelScope(deadline=retries.deadline) as scope:
            try:
                return await self._repeat(send, retries, scope, on_retry or self._on_retry)
            finally:
                self.rest = retries.rest()
        raise NoAnswerError(f"No answer within {self._policy.total_s:.3g} s", is_late=True)

    async def _repeat(
        self,
        send: Callable[[], Awaitable[Answer]],
        retries: Retries,
        scope: CancelScope,
        on_retry: Callable[[], None],
    ) -> Answer:
        """Send a request until it succeeds; move the deadline of all attempts."""
        while True:
            try:
                return await self._send_once(send)
            except NoAnswerError as error:
                wait_s = retries.wait_after(error)
                scope.deadline = retries.deadline
                if wait_s is None:
                    raise
            on_retry()
            await sleep(wait_s)

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
                    f"{FILE_MIB} MiB or more for files"
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
        has_schema = prompt.schema is not None and self._target not in self._learnt.without_schema
        try:
            return await self._send_limited(prompt)
        except openai.APIStatusError as error:
            is_about_schema = error.status_code in (400, 422) and not is_filter_refusal(
                error.response.text
            )
            if not (has_schema and is_about_schema):
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
                is_filtered = is_filter_refusal(error.response.text)
                return RefusedRequestError(message, is_filtered=is_filtered)
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
