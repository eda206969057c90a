"""Get replies from the batches of an OpenAI-compatible endpoint, within 24 hours for half the
price.

API: https://platform.openai.com/docs/api-reference/batch
"""

import asyncio
import io
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import openai
from loguru import logger

from lmms_egoplan.jsonl import decode
from lmms_egoplan.judging.cache import CacheError, Claims, JudgementCache, default_cache_path
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import EndpointError, NoAnswerError, RefusedRequestError
from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.judging.progress import Progress

# The API allows 50,000 lines and 200 MB. Smaller files need less memory.
_FILE_LINES, _FILE_BYTES = 10_000, 50_000_000
# Seconds between polls: the first wait, the longest wait, and the factor between them.
_FIRST_POLL_S, _LONGEST_POLL_S, _POLL_GROWTH = 5.0, 60.0, 1.5
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
            f"({batches}); drop --batch to "
            "request it again",
            may_pass=False,
        )


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
        self, client: Client, prompts: Mapping[str, Prompt], claims: Claims, progress: Progress
    ) -> None:
        """Create it without sending anything.

        Args:
            client: the open client of the endpoint.
            prompts: prompts by cache key.
            claims: the claims of the run.
            progress: the bar, for the number of requests that are done.
        """
        self._client, self._prompts, self._claims, self._progress = (
            client,
            prompts,
            claims,
            progress,
        )
        self._keys = {prompt: key for key, prompt in prompts.items()}
        self._unsent: list[str] = []
        self._futures: dict[str, asyncio.Future[Judgement | Exception]] = {}
        self._read: set[str] = set()
        self._url: Any = (
            "/chat/completions" if client.settings.azure_endpoint else "/v1/chat/completions"
        )

    async def __aenter__(self) -> "Batches":
        self._cache = JudgementCache(
            default_cache_path()
        )  # the run's threads use another connection
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
        self._unsent.append(key := self._keys[prompt])
        self._futures[key] = asyncio.get_running_loop().create_future()
        if isinstance(outcome := await self._futures[key], Exception):
            raise outcome
        return outcome

    async def _run(self) -> None:
        """Send prompts when no other prompt of the run can join them, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            if (
                self._unsent
                and self._claims.is_drained
                and len(self._futures) == len(self._progress.waiting)
            ):
                self._tasks.append(asyncio.create_task(self._answer(self._unsent)))
                self._unsent = []

    async def _answer(self, keys: Sequence[str]) -> None:
        """Get the outcomes of prompts from one or more batches.

        If one batch fails, all open prompts fail.
        """
        try:
            await asyncio.gather(*(self._collect(*group) for group in self._groups(keys)))
        except Exception as error:  # with any other end, the prompts would wait forever
            hint = (
                "Created batches continue: repeat the command to collect them. Drop --batch to "
                "request their prompts "
                "again, or if the endpoint has no batches"
            )
            failure = EndpointError(
                f"{error}. {hint}", getattr(error, "what", "sends an answer that cannot be read")
            )
            while self._futures:
                self._futures.popitem()[1].set_result(
                    error if isinstance(error, CacheError) else failure
                )

    def _groups(self, keys: Sequence[str]) -> list[tuple[list[str], dict[str, Any]]]:
        """Return the prompts of each batch, with the row of a batch of an earlier run."""
        groups: dict[Any, list[str]] = {}
        rows, count, size = dict(self._cache.rows("batches", keys)), 0, 0
        if elsewhere := {row["endpoint"] for row in rows.values()} - {self._client.settings.where}:
            logger.warning(
                f"Batches at {', '.join(elsewhere)} are not collected; their prompts are sent again"
            )
        for key in keys:
            row = rows.setdefault(key, {})
            if row and (
                row["endpoint"] != self._client.settings.where or row["batch"] in self._read
            ):
                rows[key] = row = {}
            groups.setdefault(
                row.get("owner", (count // _FILE_LINES, size // _FILE_BYTES)), []
            ).append(key)
            count, size = count + 1, size + len(self._line(key))
        return [(group, rows[group[0]]) for group in groups.values()]

    def _line(self, key: str) -> bytes:
        line = {
            "custom_id": key,
            "method": "POST",
            "url": self._url,
            "body": self._client.body(self._prompts[key]),
        }
        return json.dumps(line).encode() + b"\n"

    async def _create(self, keys: Sequence[str], row: Mapping[str, Any]) -> str:
        """Upload prompts and start their batch; return its id.

        It may exist, if an earlier run was killed (then there is its row), or if the answer to an
        earlier attempt was lost. As this run has claimed the prompts, no other process creates it.

        Raises:
            UnnamedBatchError: it may exist, but the endpoint has batches without metadata that may
                be it.
            EndpointError: see `Client.call`.
            CacheError: the database cannot be used.
        """
        may_exist = bool(row)
        owner, start = row.get("owner") or uuid.uuid4().hex, row.get("time") or time.time()
        rows = [
            (key, owner, self._client.settings.where, self._client.settings.model, None, start)
            for key in keys
        ]
        self._cache.write("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?)", rows)

        async def create(api: openai.AsyncOpenAI) -> str:
            nonlocal may_exist
            unnamed: list[str] = []
            keeps_metadata = False
            async for batch in api.batches.list(limit=100):  # the newest first
                if (batch.metadata or {}).get(_TOKEN) == owner:
                    return batch.id
                if batch.created_at < start - _CLOCKS_S:
                    break
                keeps_metadata = keeps_metadata or bool(batch.metadata)
                total = batch.request_counts.total if batch.request_counts else 0
                if not batch.metadata and total in (
                    0,
                    len(keys),
                ):  # 0 while the endpoint validates the file
                    unnamed.append(batch.id)
            if may_exist and unnamed and not keeps_metadata:
                raise UnnamedBatchError(self._client.clean(", ".join(unnamed)))
            file = await api.files.create(
                file=("in.jsonl", b"".join(map(self._line, keys))), purpose="batch"
            )
            to: Any = {"input_file_id": file.id, "endpoint": self._url, "metadata": {_TOKEN: owner}}
            may_exist = True
            created = await api.batches.create(**to, completion_window="24h")
            if (created.metadata or {}).get(_TOKEN) != owner:
                logger.warning(
                    f"{self._client.settings.where} drops the metadata of batches. If the answer "
                    "to the creation of a "
                    "batch is lost, its prompts stay unanswered until a run without --batch"
                )
            return created.id

        batch = self._client.clean(await self._client.call(create))
        self._cache.write(
            "UPDATE batches SET batch = ? WHERE key = ?", [(batch, key) for key in keys]
        )
        logger.info(
            f"{len(keys)} prompts are in batch {batch}; to collect it later, repeat the command"
        )
        return batch

    async def _collect(self, keys: Sequence[str], row: Mapping[str, Any]) -> None:
        """Wait for the end of the batch of these prompts, and read their outcomes."""
        try:
            batch = row.get("batch") or await self._create(keys, row)
        except UnnamedBatchError as error:
            self._settle(dict.fromkeys(keys, error))
            return
        wait_s, client = _FIRST_POLL_S, self._client
        while (
            state := await client.call(lambda api: api.batches.retrieve(batch))
        ).status in _UNFINISHED:
            if counts := state.request_counts:
                self._progress.batches[batch] = counts.completed + counts.failed, counts.total
                self._progress.refresh()
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * _POLL_GROWTH, _LONGEST_POLL_S)
        self._progress.batches.pop(batch, None)
        if state.status == "failed":
            self._cache.write("DELETE FROM batches WHERE batch = ?", [(batch,)])
            errors = (state.errors and state.errors.data) or []
            problem = "; ".join(
                f"{error.code}: {error.message} (line {error.line})" for error in errors
            )
            raise EndpointError(f"batch {batch} failed: {client.clean(problem)}")
        if state.status not in _FINISHED:  # its results may still come
            raise ValueError(f"batch {batch} has the unknown status {client.clean(state.status)!r}")
        # A completed batch has all results, so its files may become readable. Its prompts are not
        # paid for again.
        hint = "; drop --batch to request it again" * (state.status == "completed")
        missing = NoAnswerError(
            f"batch {batch} ({client.clean(state.status)}) has no result for it{hint}"
        )
        results: dict[str, list[Judgement | EndpointError]] = {key: [] for key in keys}
        for file in filter(None, (state.error_file_id, state.output_file_id)):
            content = await client.call(lambda api, file=file: api.files.content(file))  # type: ignore[misc]
            for text in io.BytesIO(content.content):
                try:
                    line = decode(text)
                    if (key := line["custom_id"]) in results:
                        results[key].append(self._outcome(key, line, content.response))
                except (
                    AttributeError,
                    LookupError,
                    TypeError,
                    ValueError,
                ):  # its prompt has no answer
                    logger.warning(f"Batch {batch}, file {file}: unreadable line")
        conflict = NoAnswerError(
            f"batch {batch} has different results for it; a rerun requests it again"
        )
        outcomes = {
            key: _only_outcome(of_key, missing, conflict) for key, of_key in results.items()
        }
        repeatable = (missing,) if hint else ()
        ended = [
            (key,)
            for key, x in outcomes.items()
            if isinstance(x, NoAnswerError) and x not in repeatable
        ]
        self._cache.write("DELETE FROM batches WHERE key = ?", ended)
        self._read.add(batch)
        self._settle(outcomes)

    def _settle(self, outcomes: Mapping[str, Judgement | EndpointError]) -> None:
        for key, outcome in outcomes.items():
            self._futures.pop(key).set_result(outcome)

    def _outcome(self, key: str, line: Any, response: Any) -> Judgement | EndpointError:
        """Read a result: a reply, a refusal (HTTP 400, 413 and 422), or no answer (all other
        errors).
        """
        if error := line.get("error"):
            return NoAnswerError(self._client.clean(f"{error['code']}: {error['message']}"))
        status, body = line["response"]["status_code"], line["response"]["body"]
        if status == 200:
            return self._client.read(self._prompts[key], json.dumps(body))
        answer = type(response)(status, json=body, request=response.request)
        failure = self._client.failure(
            openai.APIStatusError("", response=answer, body=body.get("error"))
        )
        return failure if isinstance(failure, RefusedRequestError) else NoAnswerError(str(failure))


def _only_outcome(
    results: Sequence[Judgement | EndpointError], missing: NoAnswerError, conflict: NoAnswerError
) -> Judgement | EndpointError:
    """Return the outcome of a request whose results in a batch agree.

    A reply or refusal counts more than errors such as 429, after which the endpoint may have asked
    again.

    Args:
        results: all results of the request.
        missing: the outcome without any result.
        conflict: the outcome if two replies or refusals differ.
    """
    answers = [result for result in results if not isinstance(result, NoAnswerError)]
    if not answers:
        return results[-1] if results else missing
    return answers[-1] if len(set(map(_content, answers))) == 1 else conflict


def _content(answer: Judgement | EndpointError) -> tuple[str | None, ...]:
    """Return what must be equal in two results of one request."""
    return (
        (answer.reply, answer.finish, answer.error)
        if isinstance(answer, Judgement)
        else (str(answer),)
    )
