"""Create batches at an OpenAI-compatible endpoint, and read their results.

API: https://platform.openai.com/docs/api-reference/batch
"""

import functools
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from loguru import logger

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import NoAnswerError, RefusedRequestError
from lmms_egoplan.judging.judgement import Judgement, Prompt

# A batch may be this much older than its rows in the cache, because clocks differ.
_CLOCKS_S = 3600.0
# Key of the token in a batch's metadata.
_TOKEN = "lmms_egoplan"

BatchOutcome = Judgement | RefusedRequestError | NoAnswerError
"""The reply to a request in a batch, or why there is none."""


class UnnamedBatchError(NoAnswerError):
    """A batch of these prompts may exist, but the endpoint does not keep its name.

    The message lists candidates.
    """

    def __init__(self, batches: str) -> None:
        super().__init__(
            "its batch may exist at the endpoint, which drops the metadata of batches "
            f"({batches}); drop --batch to request it again",
            may_pass=False,
        )


class MissingResultError(NoAnswerError):
    """The files of a batch have no result for a prompt."""


@dataclass(frozen=True)
class NewBatch:
    """A batch to create.

    Attributes:
        keys: Cache keys of its prompts.
        token: The token in its metadata.
        start: Time of the first attempt to create it, in seconds since the epoch.
        may_exist: Whether an earlier run may have created it.
    """

    keys: Sequence[str]
    token: str
    start: float
    may_exist: bool


class BatchEndpoint:
    """The batches of one endpoint."""

    def __init__(self, client: Client, prompts: Mapping[str, Prompt]) -> None:
        """Create it without sending anything.

        Args:
            client: the open client of the endpoint.
            prompts: prompts by cache key.
        """
        self._client = client
        self._prompts = prompts
        self._url: Any = "/v1/chat/completions"
        if client.settings.azure_endpoint:
            self._url = "/chat/completions"

    def line(self, key: str) -> bytes:
        """Return the line of a prompt in the file of requests."""
        line = {
            "custom_id": key,
            "method": "POST",
            "url": self._url,
            "body": self._client.body(self._prompts[key]),
        }
        return json.dumps(line).encode() + b"\n"

    async def create(self, batch: NewBatch) -> str:
        """Upload prompts and start their batch, unless it exists; return its id.

        Raises:
            UnnamedBatchError: it may exist, but the endpoint has batches without metadata that may
                be it.
            EndpointError: see `Client.call`.
        """
        creation = _Creation(self, self._client, self._url, batch, batch.may_exist)
        return self._client.clean(await self._client.call(creation.attempt))

    def problems(self, state: openai.types.Batch) -> str:
        """Return the endpoint's messages about a failed batch."""
        errors = (state.errors and state.errors.data) or []
        problems = (f"{error.code}: {error.message} (line {error.line})" for error in errors)
        return self._client.clean("; ".join(problems))

    async def outcomes(
        self, batch: str, state: openai.types.Batch, keys: Sequence[str]
    ) -> dict[str, BatchOutcome]:
        """Read the outcome of each prompt from the files of a finished batch.

        Args:
            batch: id of the batch.
            state: its last state.
            keys: cache keys of the prompts.
        """
        results = await self._results(batch, state, keys)
        missing_message = f"batch {batch} ({self._client.clean(state.status)}) has no result for it"
        if state.status == "completed":
            missing_message += "; drop --batch to request it again"
        outcomes: dict[str, BatchOutcome] = {}
        for key in keys:
            if not results[key]:
                outcomes[key] = MissingResultError(missing_message)
            elif _differ(results[key]):
                outcomes[key] = NoAnswerError(
                    f"batch {batch} has different results for it; a rerun requests it again"
                )
            else:
                outcomes[key] = _last_answer(results[key])
        return outcomes

    async def _results(
        self, batch: str, state: openai.types.Batch, keys: Sequence[str]
    ) -> dict[str, list[BatchOutcome]]:
        """Read all results of each prompt from the files of a batch."""
        results: dict[str, list[BatchOutcome]] = {key: [] for key in keys}
        for file in (state.error_file_id, state.output_file_id):
            if not file:
                continue
            content = await self._client.call(functools.partial(_download, file))
            for text in io.BytesIO(content.content):
                try:
                    line = decode(text)
                    key = line["custom_id"]
                    if key in results:
                        results[key].append(self._result(key, line, content.response))
                except (AttributeError, LookupError, TypeError, ValueError):
                    # Its prompt has no answer.
                    logger.warning(f"Batch {batch}, file {file}: unreadable line")
        return results

    def _result(self, key: str, line: Any, response: Any) -> BatchOutcome:
        """Read a line of a file of results.

        It is a reply, a refusal (HTTP 400, 413 and 422), or no answer (all other errors).
        """
        error = line.get("error")
        if error:
            return NoAnswerError(self._client.clean(f"{error['code']}: {error['message']}"))
        status = line["response"]["status_code"]
        body = line["response"]["body"]
        if status == 200:
            return self._client.read(self._prompts[key], json.dumps(body))
        answer = type(response)(status, json=body, request=response.request)
        failure = self._client.failure(
            openai.APIStatusError("", response=answer, body=body.get("error"))
        )
        if isinstance(failure, RefusedRequestError):
            return failure
        return NoAnswerError(str(failure))


@dataclass
class _Creation:
    """The creation of a batch, in one or more attempts.

    Attributes:
        endpoint: The endpoint.
        client: Its client.
        url: Path of the requests.
        batch: The batch.
        may_exist: Whether an earlier run or attempt may have created it.
    """

    endpoint: BatchEndpoint
    client: Client
    url: Any
    batch: NewBatch
    may_exist: bool

    async def attempt(self, api: openai.AsyncOpenAI) -> str:
        """Create the batch, unless it is in the endpoint's list; return its id."""
        listed = await self._find(api)
        if listed.id is not None:
            return listed.id
        if self.may_exist and listed.unnamed and not listed.keeps_metadata:
            raise UnnamedBatchError(self.client.clean(", ".join(listed.unnamed)))
        content = b"".join(self.endpoint.line(key) for key in self.batch.keys)
        file = await api.files.create(file=("in.jsonl", content), purpose="batch")
        self.may_exist = True
        created = await api.batches.create(
            input_file_id=file.id,
            endpoint=self.url,
            metadata={_TOKEN: self.batch.token},
            completion_window="24h",
        )
        if (created.metadata or {}).get(_TOKEN) != self.batch.token:
            logger.warning(
                f"{self.client.settings.where} drops the metadata of batches. If the answer to "
                "the creation of a batch is lost, its prompts stay unanswered until a run without "
                "--batch"
            )
        return created.id

    async def _find(self, api: openai.AsyncOpenAI) -> "_Listed":
        """Search the endpoint's batches for this one."""
        listed = _Listed()
        async for other in api.batches.list(limit=100):  # the newest first
            if (other.metadata or {}).get(_TOKEN) == self.batch.token:
                listed.id = other.id
                break
            if other.created_at < self.batch.start - _CLOCKS_S:
                break
            if other.metadata:
                listed.keeps_metadata = True
                continue
            total = other.request_counts.total if other.request_counts else 0
            if total in (0, len(self.batch.keys)):  # 0 while the endpoint validates the file
                listed.unnamed.append(other.id)
        return listed


@dataclass
class _Listed:
    """The endpoint's list of batches, searched for one of them.

    Attributes:
        id: Id of the batch; None if it is not in the list.
        unnamed: Ids of the batches without metadata that may be it.
        keeps_metadata: Whether the endpoint keeps the metadata of batches.
    """

    id: str | None = None
    unnamed: list[str] = field(default_factory=list)
    keeps_metadata: bool = False


async def _download(file: str, api: openai.AsyncOpenAI) -> Any:
    """Return the content of a file."""
    return await api.files.content(file)


def _answers(results: Sequence[BatchOutcome]) -> list[Judgement | RefusedRequestError]:
    """Return the replies and refusals.

    They count more than errors such as 429, after which the endpoint may have asked again.
    """
    return [result for result in results if not isinstance(result, NoAnswerError)]


def _differ(results: Sequence[BatchOutcome]) -> bool:
    """Return whether two replies or refusals of one request differ."""
    return len({_content(answer) for answer in _answers(results)}) > 1


def _last_answer(results: Sequence[BatchOutcome]) -> BatchOutcome:
    """Return the last reply or refusal; without any, the last error."""
    return [*results, *_answers(results)][-1]


def _content(answer: Judgement | RefusedRequestError) -> tuple[str | None, ...]:
    """Return the values that must be equal in two results of one request."""
    if isinstance(answer, Judgement):
        return (answer.reply, answer.finish, answer.error)
    return (str(answer),)
