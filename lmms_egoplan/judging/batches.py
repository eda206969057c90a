"""Get replies from the batches of an OpenAI-compatible endpoint.

They arrive within 24 hours, for half the price.

API: https://platform.openai.com/docs/api-reference/batch
"""

import asyncio
import functools
import io
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai
from loguru import logger

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.cache import (
    BatchedPrompt,
    CacheError,
    JudgementCache,
    default_cache_path,
)
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import EndpointError, NoAnswerError, RefusedRequestError
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.leases import PromptLeases
from lmms_egoplan.judging.progress import Progress

# The API allows 50,000 lines and 200 MB. Smaller files need less memory.
_FILE_LINES = 10_000
_FILE_BYTES = 50_000_000
# Seconds between polls: the first wait, the longest wait, and the factor between them.
_FIRST_POLL_S = 5.0
_LONGEST_POLL_S = 60.0
_POLL_GROWTH = 1.5
# Seconds between checks for prompts to send.
_TICK_S = 0.1
# A batch may be this much older than its rows in the cache, because clocks differ.
_CLOCKS_S = 3600.0
_UNFINISHED = ("validating", "in_progress", "finalizing", "cancelling")
_FINISHED = ("completed", "expired", "cancelled")
# Key of the token in a batch's metadata.
_TOKEN = "lmms_egoplan"


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


@dataclass
class _Group:
    """The prompts of one batch.

    Attributes:
        keys: Cache keys of the prompts.
        known: Its entry in the cache, from an earlier run; None for a new batch.
    """

    keys: list[str]
    known: BatchedPrompt | None


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


BatchOutcome = Judgement | EndpointError
"""The reply to a request in a batch, or why there is none."""


class Batches:
    """Ask prompts with the interface of `Client`. Prompts that wait together are sent in one batch.

    More than `_FILE_LINES` prompts are sent in several batches. Each prompt has a row in the
    cache's table ``batches`` from before its upload until its outcome is stored. A later run finds
    the batch by the id in its rows, or by the token in its metadata. If the endpoint may have
    dropped the token, the prompts stay unanswered, because a second batch would be paid for as
    well.

    Use it as an async context manager. On exit, batches continue at the endpoint.
    """

    def __init__(
        self,
        client: Client,
        prompts: Mapping[str, Prompt],
        leases: PromptLeases,
        progress: Progress,
    ) -> None:
        """Create it without sending anything.

        Args:
            client: the open client of the endpoint.
            prompts: prompts by cache key.
            leases: the prompts of the run.
            progress: the bar, for the number of requests that are done.
        """
        self._client = client
        self._prompts = prompts
        self._leases = leases
        self._progress = progress
        self._keys = {prompt: key for key, prompt in prompts.items()}
        self._unsent: list[str] = []
        self._futures: dict[str, asyncio.Future[Judgement | Exception]] = {}
        self._read: set[str] = set()
        self._url: Any = "/v1/chat/completions"
        if client.settings.azure_endpoint:
            self._url = "/chat/completions"

    async def __aenter__(self) -> "Batches":
        # The run's threads use another connection.
        self._cache = JudgementCache(default_cache_path())
        self._tasks = [asyncio.create_task(self._run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._cache.__exit__()

    async def ask(self, prompt: Prompt) -> Judgement:
        """Send one prompt in the next batch; return the unrated reply.

        Raises:
            RefusedRequestError: the endpoint refuses this request.
            NoAnswerError: the batch has no reply to this request, for example because it expired.
            EndpointError: the batch failed, or the endpoint refuses or cannot be reached.
            CacheError: the database cannot be used.
        """
        key = self._keys[prompt]
        self._unsent.append(key)
        self._futures[key] = asyncio.get_running_loop().create_future()
        outcome = await self._futures[key]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _run(self) -> None:
        """Send prompts when no other prompt of the run can join them, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            are_all_waiting = len(self._futures) == len(self._progress.waiting)
            if self._unsent and self._leases.is_drained and are_all_waiting:
                self._tasks.append(asyncio.create_task(self._answer(self._unsent)))
                self._unsent = []

    async def _answer(self, keys: Sequence[str]) -> None:
        """Get the outcomes of prompts from one or more batches.

        If one batch fails, all open prompts fail.
        """
        try:
            await asyncio.gather(*(self._collect(group) for group in self._groups(keys)))
        except Exception as error:  # with any other end, the prompts would wait forever
            failure = _failure_of_all(error)
            while self._futures:
                _, future = self._futures.popitem()
                future.set_result(failure)

    def _groups(self, keys: Sequence[str]) -> list[_Group]:
        """Return the prompts of each batch, with its entry in the cache if there is one."""
        where = self._client.settings.where
        known_batches = self._cache.load_batches(keys)
        elsewhere = {known.endpoint for known in known_batches.values()} - {where}
        if elsewhere:
            logger.warning(
                f"Batches at {', '.join(elsewhere)} are not collected; their prompts are sent again"
            )
        groups: dict[Any, _Group] = {}
        size = 0
        for count, key in enumerate(keys):
            known = known_batches.get(key)
            if known and (known.endpoint != where or known.batch in self._read):
                known = None
            name: Any = known.owner if known else (count // _FILE_LINES, size // _FILE_BYTES)
            groups.setdefault(name, _Group([], known)).keys.append(key)
            size += len(self._line(key))
        return [*groups.values()]

    def _line(self, key: str) -> bytes:
        """Return the line of a prompt in the file of requests."""
        line = {
            "custom_id": key,
            "method": "POST",
            "url": self._url,
            "body": self._client.body(self._prompts[key]),
        }
        return json.dumps(line).encode() + b"\n"

    async def _create(self, group: _Group) -> str:
        """Upload prompts and start their batch; return its id.

        It may exist, if an earlier run was killed (then the cache has an entry), or if the answer
        to an earlier attempt was lost. As this run has claimed the prompts, no other process
        creates it.

        Raises:
            UnnamedBatchError: it may exist, but the endpoint has batches without metadata that may
                be it.
            EndpointError: see `Client.call`.
            CacheError: the database cannot be used.
        """
        may_exist = group.known is not None
        owner = uuid.uuid4().hex
        start = time.time()
        if group.known:
            owner = group.known.owner or owner
            start = group.known.time or start
        self._store_start(group.keys, owner, start)

        async def create(api: openai.AsyncOpenAI) -> str:
            nonlocal may_exist
            listed = await self._find(api, owner, start, len(group.keys))
            if listed.id is not None:
                return listed.id
            if may_exist and listed.unnamed and not listed.keeps_metadata:
                raise UnnamedBatchError(self._client.clean(", ".join(listed.unnamed)))
            content = b"".join(self._line(key) for key in group.keys)
            file = await api.files.create(file=("in.jsonl", content), purpose="batch")
            may_exist = True
            created = await api.batches.create(
                input_file_id=file.id,
                endpoint=self._url,
                metadata={_TOKEN: owner},
                completion_window="24h",
            )
            if (created.metadata or {}).get(_TOKEN) != owner:
                logger.warning(
                    f"{self._client.settings.where} drops the metadata of batches. If the answer "
                    "to the creation of a batch is lost, its prompts stay unanswered until a run "
                    "without --batch"
                )
            return created.id

        batch = self._client.clean(await self._client.call(create))
        self._cache.write(
            "UPDATE batches SET batch = :batch WHERE key = :key",
            [{"batch": batch, "key": key} for key in group.keys],
        )
        logger.info(
            f"{len(group.keys)} prompts are in batch {batch}; to collect it later, repeat the "
            "command"
        )
        return batch

    def _store_start(self, keys: Sequence[str], owner: str, start: float) -> None:
        """Store that a batch of these prompts is about to be created."""
        statement = """
            INSERT OR REPLACE INTO batches
            VALUES (:key, :owner, :endpoint, :model, NULL, :start)
        """
        batch = {
            "owner": owner,
            "endpoint": self._client.settings.where,
            "model": self._client.settings.model,
            "start": start,
        }
        self._cache.write(statement, [{"key": key, **batch} for key in keys])

    async def _find(
        self, api: openai.AsyncOpenAI, owner: str, start: float, num_requests: int
    ) -> _Listed:
        """Search the endpoint's batches for one with this token.

        Args:
            api: the openai library's client.
            owner: the token.
            start: time of the first attempt to create the batch.
            num_requests: number of requests in the batch.
        """
        listed = _Listed()
        async for batch in api.batches.list(limit=100):  # the newest first
            if (batch.metadata or {}).get(_TOKEN) == owner:
                listed.id = batch.id
                break
            if batch.created_at < start - _CLOCKS_S:
                break
            if batch.metadata:
                listed.keeps_metadata = True
                continue
            total = batch.request_counts.total if batch.request_counts else 0
            if total in (0, num_requests):  # 0 while the endpoint validates the file
                listed.unnamed.append(batch.id)
        return listed

    async def _collect(self, group: _Group) -> None:
        """Wait for the end of the batch of these prompts, and read their outcomes."""
        batch = group.known.batch if group.known else None
        try:
            batch = batch or await self._create(group)
        except UnnamedBatchError as error:
            self._settle(dict.fromkeys(group.keys, error))
            return
        state = await self._wait_for_end(batch)
        status = self._client.clean(state.status)
        if state.status == "failed":
            self._cache.write("DELETE FROM batches WHERE batch = :batch", [{"batch": batch}])
            raise EndpointError(f"batch {batch} failed: {self._problems(state)}")
        if state.status not in _FINISHED:  # its results may still come
            raise ValueError(f"batch {batch} has the unknown status {status!r}")
        missing_message = f"batch {batch} ({status}) has no result for it"
        is_completed = state.status == "completed"
        if is_completed:
            missing_message += "; drop --batch to request it again"
        missing = NoAnswerError(missing_message)
        conflict = NoAnswerError(
            f"batch {batch} has different results for it; a rerun requests it again"
        )
        results = await self._results(state, batch, group.keys)
        outcomes = {
            key: _only_outcome(of_key, missing, conflict) for key, of_key in results.items()
        }
        ended = []
        for key, outcome in outcomes.items():
            # A completed batch has all results, so its files may become readable. Its prompts are
            # not paid for again.
            may_appear = is_completed and outcome is missing
            if isinstance(outcome, NoAnswerError) and not may_appear:
                ended.append({"key": key})
        self._cache.write("DELETE FROM batches WHERE key = :key", ended)
        self._read.add(batch)
        self._settle(outcomes)

    async def _wait_for_end(self, batch: str) -> openai.types.Batch:
        """Poll a batch until it ends; return its last state."""
        wait_s = _FIRST_POLL_S
        while True:
            state = await self._client.call(lambda api: api.batches.retrieve(batch))
            if state.status not in _UNFINISHED:
                break
            counts = state.request_counts
            if counts:
                num_done = counts.completed + counts.failed
                self._progress.batches[batch] = (num_done, counts.total)
                self._progress.refresh()
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * _POLL_GROWTH, _LONGEST_POLL_S)
        self._progress.batches.pop(batch, None)
        return state

    def _problems(self, state: openai.types.Batch) -> str:
        """Return the endpoint's messages about a failed batch."""
        errors = (state.errors and state.errors.data) or []
        problems = (f"{error.code}: {error.message} (line {error.line})" for error in errors)
        return self._client.clean("; ".join(problems))

    async def _results(
        self, state: openai.types.Batch, batch: str, keys: Sequence[str]
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
                        results[key].append(self._outcome(key, line, content.response))
                except (AttributeError, LookupError, TypeError, ValueError):
                    # Its prompt has no answer.
                    logger.warning(f"Batch {batch}, file {file}: unreadable line")
        return results

    def _settle(self, outcomes: Mapping[str, BatchOutcome]) -> None:
        """Pass on the outcomes of prompts."""
        for key, outcome in outcomes.items():
            self._futures.pop(key).set_result(outcome)

    def _outcome(self, key: str, line: Any, response: Any) -> BatchOutcome:
        """Read a result.

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


async def _download(file: str, api: openai.AsyncOpenAI) -> Any:
    """Return the content of a file."""
    return await api.files.content(file)


def _failure_of_all(error: Exception) -> Exception:
    """Return the failure of all open prompts after an error about one batch."""
    if isinstance(error, CacheError):
        return error
    hint = (
        "Created batches continue: repeat the command to collect them. Drop --batch to request "
        "their prompts again, or if the endpoint has no batches"
    )
    reaction = getattr(error, "what", "sends an answer that cannot be read")
    return EndpointError(f"{error}. {hint}", reaction)


def _only_outcome(
    results: Sequence[BatchOutcome], missing: NoAnswerError, conflict: NoAnswerError
) -> BatchOutcome:
    """Return the outcome of a request whose results in a batch agree.

    A reply or refusal counts more than errors such as 429, after which the endpoint may have asked
    again.

    Args:
        results: all results of the request.
        missing: the outcome without any result.
        conflict: the outcome if two replies or refusals differ.
    """
    answers = [result for result in results if not isinstance(result, NoAnswerError)]
    if answers:
        contents = {_content(answer) for answer in answers}
        return answers[-1] if len(contents) == 1 else conflict
    return results[-1] if results else missing


def _content(answer: BatchOutcome) -> tuple[str | None, ...]:
    """Return the values that must be equal in two results of one request."""
    if isinstance(answer, Judgement):
        return (answer.reply, answer.finish, answer.error)
    return (str(answer),)
