"""Ask prompts in the batches of an OpenAI-compatible endpoint.

The replies arrive within 24 hours, for half the price.
"""

import asyncio
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import openai
from loguru import logger

from lmms_egoplan.judging.batch_endpoint import (
    BatchEndpoint,
    BatchOutcome,
    MissingResultError,
    NewBatch,
    UnnamedBatchError,
)
from lmms_egoplan.judging.cache import (
    BatchedPrompt,
    CacheError,
    JudgementCache,
    default_cache_path,
)
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import EndpointError, NoAnswerError
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.leases import PromptLeases
from lmms_egoplan.judging.progress import RequestProgress

# The API allows 50,000 lines and 200 MB. Smaller files need less memory.
_FILE_LINES = 10_000
_FILE_BYTES = 50_000_000
# Seconds between polls: the first wait, the longest wait, and the factor between them.
_FIRST_POLL_S = 5.0
_LONGEST_POLL_S = 60.0
_POLL_GROWTH = 1.5
# Seconds between checks for prompts to send.
_TICK_S = 0.1
_UNFINISHED = ("validating", "in_progress", "finalizing", "cancelling")
_FINISHED = ("completed", "expired", "cancelled")


@dataclass
class _Group:
    """The prompts of one batch.

    Attributes:
        keys: Cache keys of the prompts.
        known: Its entry in the cache, from an earlier run; None for a new batch.
    """

    keys: list[str] = field(default_factory=list)
    known: BatchedPrompt | None = None


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
        progress: RequestProgress,
    ) -> None:
        """Create it without sending anything.

        Args:
            client: the open client of the endpoint.
            prompts: prompts by cache key.
            leases: the prompts of the run.
            progress: the bar, for the number of requests that are done.
        """
        self._client = client
        self._endpoint = BatchEndpoint(client, prompts)
        self._leases = leases
        self._progress = progress
        self._keys = {prompt: key for key, prompt in prompts.items()}
        self._unsent: list[str] = []
        self._futures: dict[str, asyncio.Future[Judgement | Exception]] = {}
        self._read: set[str] = set()

    async def __aenter__(self) -> "Batches":
        # The run's threads use another connection.
        self._cache = JudgementCache(default_cache_path())
        self._tasks = [asyncio.create_task(self._send_until_cancelled())]
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

    async def _send_until_cancelled(self) -> None:
        """Send prompts when no other prompt of the run can join them."""
        while True:
            await asyncio.sleep(_TICK_S)
            # The run waits for the replies to as many prompts as are here.
            are_all_waiting = len(self._futures) == len(self._progress.waiting)
            if self._unsent and self._leases.is_drained and are_all_waiting:
                self._tasks.append(asyncio.create_task(self._answer(self._unsent)))
                self._unsent = []

    async def _answer(self, keys: Sequence[str]) -> None:
        """Get the outcomes of prompts from one or more batches.

        If one batch fails, all open prompts fail.
        """
        try:
            known = self._known_batches(keys)
            new_keys = [key for key in keys if key not in known]
            groups = [*_groups_by_batch(known), *self._new_groups(new_keys)]
            await asyncio.gather(*(self._collect(group) for group in groups))
        except Exception as error:  # with any other end, the prompts would wait forever
            failure = _failure_of_all(error)
            while self._futures:
                _, future = self._futures.popitem()
                future.set_result(failure)

    def _known_batches(self, keys: Sequence[str]) -> dict[str, BatchedPrompt]:
        """Return the batches of earlier runs at this endpoint that are still to be read, by key."""
        where = self._client.settings.where
        stored = self._cache.load_batches(keys)
        elsewhere = {batch.endpoint for batch in stored.values()} - {where}
        if elsewhere:
            logger.warning(
                f"Batches at {', '.join(elsewhere)} are not collected; their prompts are sent again"
            )
        known = {}
        for key in keys:
            batch = stored.get(key)
            if batch and batch.endpoint == where and batch.batch not in self._read:
                known[key] = batch
        return known

    def _new_groups(self, keys: Iterable[str]) -> list[_Group]:
        """Divide prompts among new batches."""
        groups: list[_Group] = []
        num_bytes = 0
        for key in keys:
            if not groups or len(groups[-1].keys) >= _FILE_LINES or num_bytes >= _FILE_BYTES:
                groups.append(_Group())
                num_bytes = 0
            groups[-1].keys.append(key)
            num_bytes += len(self._endpoint.line(key))
        return groups

    async def _collect(self, group: _Group) -> None:
        """Wait for the end of the batch of these prompts, and read their outcomes."""
        batch = group.known.batch if group.known else None
        try:
            if batch is None:
                batch = await self._create(group)
        except UnnamedBatchError as error:
            self._settle(dict.fromkeys(group.keys, error))
            return
        state = await self._wait_for_end(batch)
        if state.status == "failed":
            self._cache.write("DELETE FROM batches WHERE batch = :batch", [{"batch": batch}])
            raise EndpointError(f"batch {batch} failed: {self._endpoint.problems(state)}")
        if state.status not in _FINISHED:  # its results may still come
            status = self._client.clean(state.status)
            raise ValueError(f"batch {batch} has the unknown status {status!r}")
        outcomes = await self._endpoint.outcomes(batch, state, group.keys)
        self._forget_unanswered(outcomes, state)
        self._read.add(batch)
        self._settle(outcomes)

    async def _create(self, group: _Group) -> str:
        """Create the batch of these prompts, unless it exists; return its id.

        As this run has claimed the prompts, no other process creates it. Until its id is stored,
        the cache has its token.

        Raises:
            UnnamedBatchError, EndpointError: see `BatchEndpoint.create`.
            CacheError: the database cannot be used.
        """
        if group.known is None:
            new = NewBatch(group.keys, uuid.uuid4().hex, time.time(), may_exist=False)
        else:
            new = NewBatch(group.keys, group.known.owner, group.known.time, may_exist=True)
        self._store_start(new)
        batch = await self._endpoint.create(new)
        self._cache.write(
            "UPDATE batches SET batch = :batch WHERE key = :key",
            [{"batch": batch, "key": key} for key in group.keys],
        )
        logger.info(
            f"{len(group.keys)} prompts are in batch {batch}; to collect it later, repeat the "
            "command"
        )
        return batch

    def _store_start(self, new: NewBatch) -> None:
        """Store that a batch of these prompts is about to be created."""
        statement = """
            INSERT OR REPLACE INTO batches
            VALUES (:key, :owner, :endpoint, :model, NULL, :start)
        """
        batch = {
            "owner": new.token,
            "endpoint": self._client.settings.where,
            "model": self._client.settings.model,
            "start": new.start,
        }
        self._cache.write(statement, [{"key": key, **batch} for key in new.keys])

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

    def _forget_unanswered(
        self, outcomes: Mapping[str, BatchOutcome], state: openai.types.Batch
    ) -> None:
        """Delete the rows of the prompts that a later run may send again.

        A completed batch has all results, so its files may become readable. Its prompts are not
        paid for again.
        """
        unanswered = []
        for key, outcome in outcomes.items():
            may_appear = state.status == "completed" and isinstance(outcome, MissingResultError)
            if isinstance(outcome, NoAnswerError) and not may_appear:
                unanswered.append({"key": key})
        self._cache.write("DELETE FROM batches WHERE key = :key", unanswered)

    def _settle(self, outcomes: Mapping[str, BatchOutcome]) -> None:
        """Pass on the outcomes of prompts."""
        for key, outcome in outcomes.items():
            self._futures.pop(key).set_result(outcome)


def _groups_by_batch(known: Mapping[str, BatchedPrompt]) -> list[_Group]:
    """Return the prompts of each batch of an earlier run."""
    groups: dict[str, _Group] = {}
    for key, batch in known.items():
        if batch.owner not in groups:
            groups[batch.owner] = _Group(known=batch)
        groups[batch.owner].keys.append(key)
    return [*groups.values()]


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
