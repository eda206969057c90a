"""Get replies from the batches of an OpenAI-compatible endpoint, within 24 hours for half the price.

API: https://platform.openai.com/docs/api-reference/batch
"""

import asyncio
import functools
import io
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import openai
from loguru import logger

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.cache import Claims, JudgementCache, default_cache_path, is_gone, new_owner
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import EndpointError, NoAnswerError, RefusedRequestError
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.progress import Progress
from lmms_egoplan.judging.settings import JudgeSettings

# The API allows 50,000 lines and 200 MB. Smaller files need less memory.
_FILE_LINES, _FILE_BYTES = 10_000, 50_000_000
# Seconds between polls: the first wait, the longest wait, and the factor between them.
_FIRST_POLL_S, _LONGEST_POLL_S, _POLL_GROWTH = 5.0, 60.0, 1.5
# Seconds between checks for prompts to send.
_TICK_S = 0.1
# If it is unknown whether the process of a batch has ended, wait this long until the endpoint lists the batch.
_LONGEST_CREATION_S = 900.0
# A batch may be this much older than its rows in the cache, because clocks differ.
_CLOCKS_S = 3600.0
_UNFINISHED = ("validating", "in_progress", "finalizing", "cancelling")
# Key of the token in a batch's metadata.
_TOKEN = "lmms_egoplan"


class Batches:
    """Ask prompts with the interface of `Client`. Prompts that wait together are sent in one batch.

    More than `_FILE_LINES` prompts are sent in several batches. Each prompt has a row in the cache's table ``batches``
    from before its upload until its outcome is stored. A later run finds the batch by the id in its rows, or by the
    token in its metadata.

    Use it as an async context manager. On exit, batches continue at the endpoint.
    """

    def __init__(
        self, client: Client, settings: JudgeSettings, prompts: Mapping[str, Prompt], claims: Claims, progress: Progress
    ) -> None:
        """Create it without sending anything.

        Args:
            client: the open client of the endpoint.
            settings: the judge.
            prompts: prompts by cache key.
            claims: the claims of the run.
            progress: the bar, for the number of requests that are done.
        """
        self._client, self._settings, self._prompts, self._claims = client, settings, prompts, claims
        self._progress, self._keys = progress, {prompt: key for key, prompt in prompts.items()}
        self._unsent: dict[str, asyncio.Future[Judgement | Exception]] = {}
        self._sent: dict[str, asyncio.Future[Judgement | Exception]] = {}
        self._failures: dict[str, Exception] = {}
        self._read_owners: set[str] = set()
        self._uploading = asyncio.Lock()
        self._url: Any = "/v1/chat/completions" if settings.azure_endpoint is None else "/chat/completions"

    async def __aenter__(self) -> "Batches":
        self._cache = JudgementCache(default_cache_path())  # the run's threads use another connection
        self._running = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)
        self._cache.__exit__()

    async def ask(self, prompt: Prompt) -> Judgement:
        """Send one prompt in the next batch; return the unrated reply.

        Raises:
            RefusedRequestError: the endpoint refuses this request.
            NoAnswerError: the batch has no reply to this request, for example because it expired.
            EndpointError: the batch failed, or the endpoint cannot be reached. Raised after all other batches are read.
            CacheError: the database cannot be used.
        """
        future = self._unsent[self._keys[prompt]] = asyncio.get_running_loop().create_future()
        if isinstance(outcome := await future, Exception):
            raise outcome
        return outcome

    async def _run(self) -> None:
        """Send prompts when no other prompt of the run can join them, until cancelled."""
        tasks: list[asyncio.Task[None]] = []
        try:
            while True:
                await asyncio.sleep(_TICK_S)
                are_together = len(self._unsent) + len(self._sent) == len(self._progress.waiting)
                if self._unsent and are_together and self._claims.is_drained:
                    keys = [*self._unsent]
                    self._sent, self._unsent = self._sent | self._unsent, {}
                    with self._keeping_errors(keys):
                        tasks += [asyncio.create_task(self._answer(*group)) for group in self._groups(keys)]
                if self._failures.keys() == self._sent.keys():
                    for key, error in self._failures.items():
                        self._sent.pop(key).set_result(error)
                    self._failures = {}
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def _keeping_errors(self, keys: Iterable[str]) -> Iterator[None]:
        """Keep an error for these prompts until all other batches are read."""
        try:
            yield
        except Exception as error:  # `ask` raises it
            if isinstance(error, NoAnswerError):
                error = EndpointError(f"{error}. Batches go on; to collect them, repeat the command", error.what)
            self._failures |= dict.fromkeys(keys, error)

    def _groups(self, keys: Iterable[str]) -> list[tuple[list[str], dict[str, Any]]]:
        """Return the prompts of each batch, with the row of a batch of an earlier run."""
        rows = {
            key: row
            for key, row in self._cache.load_batches([*keys]).items()
            if row["endpoint"] == self._settings.where and row["owner"] not in self._read_owners
        }
        groups: dict[Any, list[str]] = defaultdict(list)
        count = size = 0
        for key in keys:
            groups[rows[key]["owner"] if key in rows else (count // _FILE_LINES, size // _FILE_BYTES)].append(key)
            count, size = count + (key not in rows), size + len(self._line(key))
        return [(group, rows.get(group[0], {})) for group in groups.values()]

    def _line(self, key: str) -> bytes:
        body = self._client.body(self._prompts[key])
        return json.dumps({"custom_id": key, "method": "POST", "url": self._url, "body": body}).encode() + b"\n"

    async def _answer(self, keys: list[str], row: Mapping[str, Any]) -> None:
        """Get the outcomes of the prompts of one batch, from the batch in the row if that exists."""
        with self._keeping_errors(keys):
            owner, batch = row.get("owner", new_owner()), row and (row["batch"] or await self._lookup(row))
            if batch:
                logger.info(f"Collecting {len(keys)} replies of batch {batch}, which an earlier run created")
            else:
                owner = new_owner()
                batch = await self._create(keys, owner)
            outcomes = await self._collect(batch, keys)
            self._read_owners.add(owner)
            unanswered = [(key,) for key, outcome in outcomes.items() if isinstance(outcome, NoAnswerError)]
            self._cache.write("DELETE FROM batches WHERE key = ?", unanswered)
            for key, outcome in outcomes.items():
                self._sent.pop(key).set_result(outcome)

    async def _create(self, keys: Iterable[str], owner: str) -> str:
        """Upload prompts and start their batch; return its id."""
        start, metadata = time.time(), {_TOKEN: owner.split()[-1]}
        async with self._uploading:  # only one file is in memory
            rows = [(key, owner, self._settings.where, self._settings.model, None, start) for key in keys]
            self._cache.write("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?)", rows)
            content = b"".join(map(self._line, keys))

            async def create(api: openai.AsyncOpenAI) -> str:
                if batch := await _find(api, owner, start):  # an earlier attempt's answer was lost
                    return batch
                file = await api.files.create(file=("requests.jsonl", content), purpose="batch")
                to = {"input_file_id": file.id, "endpoint": self._url}
                return (await api.batches.create(**to, completion_window="24h", metadata=metadata)).id

            try:
                batch = await self._client.call(create)
            except EndpointError as error:
                if not isinstance(error, NoAnswerError):  # without an answer, the batch may exist
                    self._cache.write("DELETE FROM batches WHERE owner = ?", [(owner,)])
                raise
            self._cache.write("UPDATE batches SET batch = ? WHERE owner = ?", [(batch, owner)])
        logger.info(f"Created batch {batch} at {self._settings.where}")
        return batch

    async def _lookup(self, row: Mapping[str, Any]) -> str | None:
        """Return the id of a batch whose creation was not confirmed; None if it was never created."""
        owner, start = row["owner"], row["time"]
        while True:
            is_over = is_gone(owner) or time.time() - start > _LONGEST_CREATION_S  # before looking
            batch = await self._client.call(functools.partial(_find, owner=owner, start=start))
            if batch or is_over:
                self._cache.write("UPDATE batches SET batch = ? WHERE owner = ?", [(batch, owner)])
                return batch
            await asyncio.sleep(_FIRST_POLL_S)

    async def _collect(self, batch: str, keys: Iterable[str]) -> dict[str, Judgement | EndpointError]:
        """Wait for the end of a batch; return the outcomes of these prompts, in order."""
        wait_s = _FIRST_POLL_S
        while (state := await self._client.call(functools.partial(_state, batch=batch)))[0] in _UNFINISHED:
            self._progress.batches[batch] = state[1]
            self._progress.refresh()
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * _POLL_GROWTH, _LONGEST_POLL_S)
        self._progress.batches.pop(batch, None)
        status, _, files, problem = state
        if status == "failed":
            self._cache.write("DELETE FROM batches WHERE batch = ?", [(batch,)])
            raise EndpointError(f"batch {batch} failed: {self._client.clean(problem)}")
        outcomes: dict[str, Judgement | EndpointError] = {}
        for file in files:
            response = await self._client.call(functools.partial(_content, file=file))
            for line in io.BytesIO(response.content if response else b""):
                try:
                    key, outcome = self._outcome(decode(line), response)
                    outcomes.setdefault(key, outcome)
                except (AttributeError, LookupError, TypeError, ValueError):  # its prompt has no answer
                    logger.warning(f"Batch {batch}, file {file}: unreadable line")
        missing = f"batch {batch} ({self._client.clean(status)}) has no result for it"
        return {key: outcomes.get(key) or NoAnswerError(missing) for key in keys}

    def _outcome(self, line: Any, response: Any) -> tuple[str, Judgement | EndpointError]:
        """Read a result: a reply, a refusal (HTTP 400, 413 and 422), or no answer (all other errors)."""
        key, error, result = line["custom_id"], line.get("error"), line.get("response")
        if error or not result:
            return key, NoAnswerError(self._client.clean(f"{error['code']}: {error['message']}"))
        status, body = result["status_code"], result["body"]
        if status == 200 and key in self._prompts:
            return key, self._client.read(self._prompts[key], json.dumps(body))
        answer = type(response)(status, json=body, request=response.request)
        failure = self._client.failure(openai.APIStatusError("", response=answer, body=body.get("error")))
        return key, failure if isinstance(failure, RefusedRequestError) else NoAnswerError(str(failure))


async def _find(api: openai.AsyncOpenAI, owner: str, start: float) -> str | None:
    """Return the id of the batch with the owner's token. The endpoint lists the newest batches first."""
    async for batch in api.batches.list(limit=100):
        if (batch.metadata or {}).get(_TOKEN) == owner.split()[-1]:
            return batch.id
        if batch.created_at < start - _CLOCKS_S:
            break
    return None


async def _state(api: openai.AsyncOpenAI, batch: str) -> tuple[str, tuple[int, int], list[str], str]:
    """Return the status of a batch, its number of requests that are done and of all, its files, and its errors."""
    try:
        answer = await api.batches.retrieve(batch)
    except openai.NotFoundError:
        return "unknown to the endpoint", (0, 0), [], ""
    counts, errors = answer.request_counts, (answer.errors and answer.errors.data) or []
    done = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
    problem = "; ".join(f"{error.code}: {error.message} (line {error.line})" for error in errors)
    return answer.status, done, [file for file in (answer.output_file_id, answer.error_file_id) if file], problem


async def _content(api: openai.AsyncOpenAI, file: str) -> Any:
    """Return the response with a file; None if the endpoint has deleted the file."""
    try:
        return (await api.files.content(file)).response
    except openai.NotFoundError:
        return None
