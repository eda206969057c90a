"""Get replies from the batches of an OpenAI-compatible endpoint, within 24 hours for half the price.

API: https://platform.openai.com/docs/api-reference/batch
"""

import asyncio
import io
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import openai
from loguru import logger

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.cache import CacheError, Claims, JudgementCache, default_cache_path, is_gone, new_owner
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
# If a process of another machine may still create a batch, wait this long until the endpoint lists it.
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
        self._read: set[str] = set()

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
                    groups = self._groups()
                    self._sent, self._unsent = self._sent | self._unsent, {}
                    tasks += [asyncio.create_task(self._answer(*group)) for group in groups]
                if self._failures.keys() == self._sent.keys():  # all other batches are read
                    while self._failures:
                        key, error = self._failures.popitem()
                        self._sent.pop(key).set_result(error)
        except CacheError as error:
            for future in (*self._sent.values(), *self._unsent.values()):
                future.set_result(error)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _groups(self) -> list[tuple[list[str], dict[str, Any]]]:
        """Return the unsent prompts of each batch, with the row of a batch of an earlier run."""
        groups, rows = defaultdict[Any, list[str]](list), self._cache.load_batches(self._unsent)
        count = size = 0
        for key in self._unsent:
            row = rows.get(key, {})
            if not row or row["endpoint"] != self._settings.where or row["batch"] in self._read:
                rows[key], count, size = {}, count + 1, size + len(self._line(key))
            groups[rows[key].get("owner", ((count - 1) // _FILE_LINES, size // _FILE_BYTES))].append(key)
        return [(group, rows[group[0]]) for group in groups.values()]

    def _line(self, key: str) -> bytes:
        url, body = self._url(), self._client.body(self._prompts[key])
        return json.dumps({"custom_id": key, "method": "POST", "url": url, "body": body}).encode() + b"\n"

    def _url(self) -> Any:
        return "/v1/chat/completions" if self._settings.azure_endpoint is None else "/chat/completions"

    async def _answer(self, keys: list[str], row: Mapping[str, Any]) -> None:
        """Get the outcomes of the prompts of one batch, from the batch in the row if that exists."""
        try:
            batch = row.get("batch") or await self._create(keys, row)
            outcomes = await self._collect(batch, keys)
        except Exception as error:  # raised by `ask`
            if isinstance(error, NoAnswerError):
                error = EndpointError(f"{error}. Batches go on; to collect them, repeat the command", error.what)
            self._failures |= dict.fromkeys(keys, error)
        else:
            for key in keys:
                self._sent.pop(key).set_result(outcomes[key])

    async def _create(self, keys: Iterable[str], row: Mapping[str, Any]) -> str:
        """Upload prompts and start their batch; return its id.

        A row of an earlier run means that the endpoint may already have the batch. Repeated requests look for it, too.
        """
        owner, start = row.get("owner") or new_owner(), row.get("time") or time.time()
        process, _, token = owner.rpartition(" ")
        rows = [(key, owner, self._settings.where, self._settings.model, None, start) for key in keys]
        self._cache.write("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?)", rows)

        async def create(api: openai.AsyncOpenAI) -> str:
            is_free = is_gone(owner) or process == new_owner().rpartition(" ")[0]  # before looking
            async for batch in api.batches.list(limit=100):  # the newest first
                if (batch.metadata or {}).get(_TOKEN) == token:
                    return batch.id
                if batch.created_at < start - _CLOCKS_S:
                    break
            if not is_free and time.time() - start < _LONGEST_CREATION_S:
                return ""
            content = b"".join(map(self._line, keys))
            file = (await api.files.create(file=("requests.jsonl", content), purpose="batch")).id
            to: Any = {"input_file_id": file, "endpoint": self._url(), "metadata": {_TOKEN: token}}
            return (await api.batches.create(**to, completion_window="24h")).id

        while not (batch := await self._client.call(create)):
            if batch is None:
                raise EndpointError("it offers no batches (HTTP 404); repeat the command without --batch")
            await asyncio.sleep(_FIRST_POLL_S)
        self._cache.write("UPDATE batches SET batch = ? WHERE key = ?", [(batch, key) for key in keys])
        logger.info(f"Batch {batch} at {self._settings.where} has {len(rows)} prompts")
        return batch

    async def _collect(self, batch: str, keys: Iterable[str]) -> dict[str, Judgement | EndpointError]:
        """Wait for the end of a batch; return the outcomes of these prompts."""
        wait_s = _FIRST_POLL_S
        while True:
            state = await self._client.call(lambda api: _state(api, batch))
            status, counts, files, problem = state or ("unknown to the endpoint", (0, 0), [], "")
            if status not in _UNFINISHED:
                self._progress.batches.pop(batch, None)
                break
            self._progress.batches[batch] = counts
            self._progress.refresh()
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * _POLL_GROWTH, _LONGEST_POLL_S)
        if status == "failed":
            self._cache.write("DELETE FROM batches WHERE batch = ?", [(batch,)])
            raise EndpointError(f"batch {batch} failed: {self._client.clean(problem)}")
        missing = f"batch {batch} ({self._client.clean(status)}) has no result for it"
        outcomes: dict[str, Judgement | EndpointError] = {key: NoAnswerError(missing) for key in keys}
        for file in reversed(files):  # a result replaces an error
            content = await self._client.call(lambda api, file=file: api.files.content(file))  # type: ignore[misc]
            for line in io.BytesIO(content.content if content else b""):
                try:
                    outcomes |= self._outcome(decode(line), content.response)
                except (AttributeError, LookupError, TypeError, ValueError):  # its prompt has no answer
                    logger.warning(f"Batch {batch}, file {file}: unreadable line")
        unanswered = [(key,) for key, outcome in outcomes.items() if isinstance(outcome, NoAnswerError)]
        self._cache.write("DELETE FROM batches WHERE key = ?", unanswered)
        self._read.add(batch)
        return outcomes

    def _outcome(self, line: Any, response: Any) -> dict[str, Judgement | EndpointError]:
        """Read a result: a reply, a refusal (HTTP 400, 413 and 422), or no answer (all other errors)."""
        key, error, result = line["custom_id"], line.get("error"), line.get("response")
        if error or not result:
            return {key: NoAnswerError(self._client.clean(f"{error['code']}: {error['message']}"))}
        status, body = result["status_code"], result["body"]
        if status == 200:
            return {key: self._client.read(self._prompts[key], json.dumps(body))}
        answer = type(response)(status, json=body, request=response.request)
        failure = self._client.failure(openai.APIStatusError("", response=answer, body=body.get("error")))
        return {key: failure if isinstance(failure, RefusedRequestError) else NoAnswerError(str(failure))}


async def _state(api: openai.AsyncOpenAI, batch: str) -> tuple[str, tuple[int, int], list[str], str]:
    """Return the status of a batch, its numbers of done and of all requests, its files, and its errors."""
    answer = await api.batches.retrieve(batch)
    counts, errors = answer.request_counts, (answer.errors and answer.errors.data) or []
    progress = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
    problem = "; ".join(f"{error.code}: {error.message} (line {error.line})" for error in errors)
    return answer.status, progress, [file for file in (answer.output_file_id, answer.error_file_id) if file], problem
