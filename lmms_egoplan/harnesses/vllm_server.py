"""Rank on a running ``vllm serve``, with the same HTTP client as for judges."""

import asyncio
import math
import queue
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from loguru import logger
from pydantic import BaseModel, ValidationError

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.server_watch import CHECKING, SERVER_WAIT_S, ServerWatch
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import (
    EndpointError,
    NoAnswerError,
    RefusedRequestError,
    RetryPolicy,
)
from lmms_egoplan.judging.settings import NO_KEY, server_settings
from lmms_egoplan.judging.variables import SERVER_KEY
from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.engine.chat import (
    ChatQuestion,
    UnreadableError,
    body_of,
    chat_question,
    probe_body,
    read_probe,
    response_of,
)
from lmms_egoplan.ranking.engine.requests import (
    PROCESSOR,
    EngineError,
    EngineRequest,
    EngineResponse,
    NotForcedError,
)
from lmms_egoplan.ranking.question import RankingError

Result = TypeVar("Result")

# For the requests before the first question, which the user waits for.
STARTING = RetryPolicy(retries=2, read_s=60.0, retry_after_s=5.0, longer_s=0.0)
# As for judging, but with longer waits for contexts with many images.
PATIENCE = RetryPolicy(retries=12, read_s=600.0, retry_after_s=120.0, longer_s=1800.0)

# Number of attempts if the answers are not chat completions.
_TRIES = 3

# Text of the request that tests whether the server forces tokens.
_PROBE = "next step"

# Number of tokens forced by the probe: more than almost all candidates have.
_PROBED = 64


class ServedEngine:
    """An engine that uses a server's chat completions.

    The server may have other users at the same time.

    Args:
        base_url: URL of the server; ``/v1`` is appended if it has no path.
        model: The checkpoint, as in ``vllm serve``, or its served name.
        tokenizer: The checkpoint's tokenizer.
        server_wait: Seconds to wait for a server that no longer answers. Requests are then sent
            again.

    Raises:
        LmmsEgoplanError: The URL, the key or `server_wait` is malformed.
        EngineError: The server does not answer, rejects the request, or serves another model.
    """

    is_float32 = False
    how_to_force = (
        f"this server does not force tokens. Start it with --logits-processors {PROCESSOR}"
    )

    def __init__(
        self,
        base_url: str,
        model: str,
        tokenizer: Callable[..., Mapping[str, list[int]]],
        server_wait: float = SERVER_WAIT_S,
    ) -> None:
        wait_s = _seconds(server_wait)
        settings = server_settings(
            base_url if urlsplit(base_url).path.strip("/") else f"{base_url.rstrip('/')}/v1", model
        )
        self.where = settings.where
        self._responses: queue.SimpleQueue[tuple[str, EngineResponse | RankingError]] = (
            queue.SimpleQueue()
        )
        self._sent: dict[str, Future[None]] = {}
        self._loop = asyncio.new_event_loop()
        self._requests = self._image_bytes = 0
        self._watching: Future[None] | None = None
        threading.Thread(target=self._loop.run_forever, name="vllm server", daemon=True).start()
        try:
            self._client = Client(settings, lambda: None, STARTING)
            checks = Client(settings, lambda: None, CHECKING)
            self._watch = ServerWatch(self._loop, self.where, checks.models, wait_s)
            self.name, self.limit = self._wait(self._served(model))
            tokens = tokenizer(_PROBE, add_special_tokens=False)["input_ids"] * _PROBED
            self.forces, self._most = self._wait(
                self._probed(tokens[: min(_PROBED, self.limit // 2)])
            )
            self._client = Client(settings, lambda: None, PATIENCE)
            self.description = f" served as {self.name} at {self.where}"
        except EndpointError as error:
            raise EngineError(self._message(error)) from None
        most = "" if self._most is None else f", at most {self._most} per request"
        forced = (
            f"forces tokens{most}"
            if self.forces
            else f"every candidate needs a prefill: {self.how_to_force}"
        )
        key = "no key" if settings.api_key == NO_KEY else f"the key in {SERVER_KEY}"
        logger.info(
            f"The server at {self.where} serves {self.name} ({self.limit} tokens); "
            f"{forced}; sending {key}"
        )

    def to_question(
        self,
        encoder: QuestionEncoder,
        messages: Sequence[Message],
        candidates: Sequence[str],
        question_id: str,
    ) -> ChatQuestion:
        """See `Engine`."""
        question = chat_question(encoder, messages, candidates, question_id)
        is_short = self._most is None or question.longest_candidate - question.surplus <= self._most
        return replace(question, can_force=question.can_force and is_short)

    def submit(self, name: str, question: ChatQuestion, request: EngineRequest) -> None:
        """See `Engine`."""
        responses = self._responses

        async def run() -> None:
            responses.put((name, await self._answered(question, request)))

        if self._watching is None:
            self._watching = asyncio.run_coroutine_threadsafe(self._watch.run(), self._loop)
        self._sent[name] = asyncio.run_coroutine_threadsafe(run(), self._loop)

    def poll(self) -> list[tuple[str, EngineResponse | RankingError]]:
        """See `Engine`."""
        name, response = self._responses.get()
        del self._sent[name]
        return [(name, response)]

    def abort(self, names: Sequence[str]) -> None:
        """Cancel requests. The server stops a request when its connection is closed."""
        for name in names:
            sent = self._sent.pop(name, None)
            if sent is not None:
                sent.cancel()
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        # names may be reused; late answers must not reach the new queue
        self._responses = queue.SimpleQueue()
        if self._image_bytes:
            logger.info(
                f"Sent {self._image_bytes / 2**20:,.1f} MiB of images in "
                f"{self._requests:,} requests"
            )
            self._image_bytes = self._requests = 0

    async def _answered(
        self, question: ChatQuestion, request: EngineRequest
    ) -> EngineResponse | RankingError:
        try:
            return await self._ask(question, request)
        except UnreadableError as error:
            return error
        except Exception as error:  # otherwise `poll` would wait forever
            return self._failure(question, request, error)

    def _failure(
        self, question: ChatQuestion, request: EngineRequest, error: Exception
    ) -> RankingError:
        """Return the error to report for a request that failed."""
        name = f"question {question.question_id}"
        failure = EngineError if request.takes_prompt_logprobs else NotForcedError
        if isinstance(error, EngineError):
            return failure(str(error))
        if isinstance(error, RankingError):
            return error
        if isinstance(error, RefusedRequestError):
            return failure(f"{name}: the server rejects this question: {error}")
        if isinstance(error, EndpointError):
            return EngineError(
                f"{name}: {self._message(error)}. --use_cache keeps all scores so far"
            )
        return EngineError(f"{name}: {type(error).__name__}: {error}")

    async def _ask(self, question: ChatQuestion, request: EngineRequest) -> EngineResponse:
        """Send a request, with the images unless the server still has them in its cache."""

        async def send(*, is_stored: bool) -> EngineResponse:
            self._requests += 1
            self._image_bytes += 0 if is_stored else question.image_bytes
            body = body_of(question, request, self.name, is_stored=is_stored)
            return await self._read(body, lambda answer: response_of(question, request, answer))

        if question.media and not question.first_answer:
            question.first_answer.append(self._loop.create_future())
            try:
                return await send(is_stored=False)
            finally:
                question.first_answer[0].set_result(None)
        if question.media:
            await asyncio.shield(question.first_answer[0])
            with suppress(RefusedRequestError):
                return await send(is_stored=True)
        return await send(is_stored=False)

    async def _read(self, body: dict[str, Any], read: Callable[[str], Result]) -> Result:
        for remaining in reversed(range(_TRIES)):
            answer = await self._post(body)
            try:
                return read(answer)
            except UnreadableError:
                if not remaining:
                    raise
        raise AssertionError

    async def _post(self, body: dict[str, Any]) -> str:
        """Send a request to the server.

        If the server was lost meanwhile, wait for it and send the request again.
        """
        while True:
            await self._watch.reachable()
            losses = self._watch.losses
            post = asyncio.ensure_future(self._client.post(body))
            try:
                await asyncio.wait(
                    {post, self._watch.given_up}, return_when=asyncio.FIRST_COMPLETED
                )
                if post.done():
                    return post.result()
            except NoAnswerError:
                if self._watch.losses == losses:
                    raise
            finally:
                post.cancel()

    async def _served(self, model: str) -> tuple[str, int]:
        """Return the name of the served model, and the maximum number of tokens of a request."""
        try:
            models = _Models.model_validate_json(await self._client.models()).data
        except ValidationError:
            raise EngineError(
                f"{self.where}/models is not a vLLM server's list of models; check base_url"
            ) from None
        matching = [served for served in models if model in (served.id, served.root)]
        if not matching:
            names = ", ".join(sorted(served.id for served in models)) or "no model"
            raise EngineError(
                f"The server at {self.where} serves {names}, not {model}; set model to a "
                "served model"
            )
        return matching[0].id, matching[0].max_model_len

    async def _probed(self, tokens: Sequence[int]) -> tuple[bool, int | None]:
        """Return whether the server forces tokens, and the maximum that it generates.

        The maximum is None if it generates as many as requested.
        """
        try:
            return await self._read(
                probe_body(self.name, tokens), lambda answer: read_probe(tokens, answer)
            )
        except RefusedRequestError:  # versions without these arguments
            return False, None
        except EngineError as error:
            raise EngineError(f"The server at {self.where}: {error}") from None

    def _message(self, error: EndpointError) -> str:
        return (
            f"The server at {self.where} {error.what}: {error}. Check base_url, model and "
            f"{SERVER_KEY}"
        )

    def _wait(self, main: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(main, self._loop).result()


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise LmmsEgoplanError(
            f"server_wait must be a number of seconds, at least 0, got {value!r}"
        )
    return seconds


class _Model(BaseModel):
    id: str
    root: str | None = None
    max_model_len: int


class _Models(BaseModel):
    data: list[_Model]
