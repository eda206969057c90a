"""Store judge replies in a SQLite database, to avoid paying for a reply twice.

The database contains replies with and without ratings, failures, and the claims of running
processes on prompts.
"""

import asyncio
import functools
import hashlib
import json
import math
import os
import platform
import re
import sqlite3
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path
from typing import Any

import psutil
from loguru import logger

from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, Judgement, Prompt
from lmms_egoplan.judging.text import judge_name
from lmms_egoplan.paths import data_root

# Other processes lock the file only for one transaction. This long limit is for busy or slow file
# systems.
_BUSY_S = 60.0
_KEYS_PER_QUERY = 500
# A claim expires after this time and is renewed three times within it. Claims of a lost machine
# therefore end.
LEASE_S = 30.0
# Ignore claims from clocks that are more than this many leases ahead.
_MOST_LEASES_AHEAD = 10
# Maximum number of prompts per lookup. The first lookup is for as many prompts as are claimed.
_LOOKUP_SIZE = 60
# Prompts of one kind have this many first characters in common.
_BEGINNING = 100
# Seconds between checks for results of other processes.
_POLL_S = 1.0


class CacheError(RuntimeError):
    """The database of judgements cannot be used. The message names the file and the remedy."""


_TABLES = ("judgements", "replies", "failures", "claims", "batches")
_TYPES = {"TEXT": str, "INTEGER": int, "REAL": float}


@dataclass(frozen=True)
class _Column:
    """A column of a table. `type` is the type of its values; only optional values may be None."""

    name: str
    type: type
    is_required: bool

    def accepts(self, value: Any) -> bool:
        """Return whether a value has the column's type. SQLite itself does not enforce types."""
        if value is None:
            return not self.is_required
        return isinstance(value, self.type)


@dataclass(frozen=True)
class Claim:
    """A prompt that a run has claimed.

    Attributes:
        owner: Machine, process and run.
        expires: Time of the end of its lease, in seconds since the epoch.
    """

    owner: str
    expires: float


@dataclass(frozen=True)
class BatchedPrompt:
    """A prompt in a batch without a stored outcome.

    Attributes:
        owner: The token in the batch's metadata.
        endpoint: Address of the endpoint.
        batch: Id of the batch; None until the endpoint has confirmed it.
        time: Start of the batch's creation, in seconds since the epoch.
    """

    owner: str
    endpoint: str
    batch: str | None
    time: float


def default_cache_path() -> Path:
    """Return the path of the database for all replies: ``<data root>/judgements.sqlite``."""
    return data_root() / "judgements.sqlite"


def cache_key(model: str, parameters: Mapping[str, Any], prompt: Prompt) -> str:
    """Return the cache key of a prompt.

    It is a hash of the requested model, its parameters and the full prompt: text, images and
    repeat. It excludes the endpoint, the token limit and the JSON schema of the reply. A reply that
    was stored without a schema is valid for the same prompt with one.

    A system message and a protocol are part of the key, except the default protocol: judgements
    stored before there were others stay valid.
    """
    parts: list[Any] = [model, parameters, prompt.text]
    if prompt.images:
        parts.append(prompt.images)
    if prompt.repeat:
        parts.append({"repeat": prompt.repeat})
    if prompt.system or prompt.protocol not in ("", DEFAULT_PROTOCOL):
        parts.append({"system": prompt.system, "protocol": prompt.protocol})
    question = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(question.encode()).hexdigest()


@functools.cache
def _schema() -> str:
    """Return the SQL that creates what is missing in a database."""
    return Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")


@functools.cache
def _columns() -> Mapping[str, Sequence[_Column]]:
    """Return the columns of the schema, by table."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        database.executescript(_schema())
        return {table: _columns_of(database, table) for table in _TABLES}


def _columns_of(database: sqlite3.Connection, table: str) -> list[_Column]:
    """Return the columns of a table of the schema."""
    query = 'SELECT name, type, "notnull" OR pk AS is_required FROM pragma_table_info(:table)'
    return [
        _Column(row["name"], _TYPES[row["type"]], bool(row["is_required"]))
        for row in database.execute(query, {"table": table})
    ]


class JudgementCache(AbstractContextManager["JudgementCache"]):
    """An open database of judgements, as a context manager.

    Any thread may use it, one at a time. Several processes may share the file, and any of them may
    be killed at any moment: SQLite's rollback journal undoes uncommitted changes. (The WAL journal
    fails on network file systems.) While the database is open, an empty journal lies next to it.

    Raises:
        CacheError: from the constructor and every method. The file is damaged, is no database of
            judgements, is not writable, or was locked for a minute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CacheError(f"{path}: {error}; LMMS_EGOPLAN_DATA sets the folder") from error
        with self._explained():
            self._database = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        self._database.text_factory = _text_or_bytes
        self._database.row_factory = sqlite3.Row
        try:
            with self._explained():
                self._check()
        except BaseException:
            self._database.close()
            raise

    def __exit__(self, *_: object) -> None:
        with suppress(sqlite3.Error):  # the empty journal may also stay
            self._database.execute("PRAGMA journal_mode = DELETE")
        self._database.close()

    def load(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Load stored replies, by key."""
        stored = {}
        for row in self._rows("replies", "SELECT * FROM replies WHERE key IN", keys):
            stored[row["key"]] = _reply(row, rating=None)
        for row in self._rows("judgements", "SELECT * FROM judgements WHERE key IN", keys):
            stored[row["key"]] = _reply(row, rating=row["rating"])
        return stored

    def reply_tokens(self, endpoint: str, model: str, prompts: Iterable[str]) -> tuple[int, float]:
        """Count the stored replies to prompts that begin alike, and their reply tokens.

        Only replies of the same endpoint and model count, and only those with known tokens. The
        endpoint may add a date to the model's name. Attempts without a rating are included in a
        reply's tokens.
        """
        beginnings = {prompt[:_BEGINNING] for prompt in prompts}
        name = re.compile(rf"(?:.*/)?{re.escape(model)}(?:-\d[\d-]*)?", re.IGNORECASE)
        query = """
            SELECT substr(prompt, 1, :length) AS beginning, model,
                COUNT(*) AS replies, TOTAL(completion_tokens) AS tokens
            FROM (
                SELECT prompt, model, endpoint, completion_tokens FROM replies
                UNION ALL
                SELECT prompt, model, endpoint, completion_tokens FROM judgements
            )
            WHERE endpoint = :endpoint AND typeof(completion_tokens) = 'integer'
            GROUP BY beginning, model
        """
        with self._explained():
            rows = self._database.execute(
                query, {"length": _BEGINNING, "endpoint": endpoint}
            ).fetchall()
        replies = 0
        tokens = 0.0
        for row in rows:
            if row["beginning"] not in beginnings:
                continue
            if isinstance(row["model"], str) and name.fullmatch(row["model"]):
                replies += row["replies"]
                tokens += row["tokens"]
        return replies, tokens

    def load_failures(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Load stored failures, by key. Storing a reply deletes an earlier failure."""
        rows = self._rows("failures", "SELECT * FROM failures WHERE key IN", keys)
        return {row["key"]: _failure(row) for row in rows}

    def load_claims(self, keys: Collection[str]) -> dict[str, Claim]:
        """Load the claims of prompts, by key."""
        rows = self._rows("claims", "SELECT * FROM claims WHERE key IN", keys)
        return {row["key"]: Claim(row["owner"], row["expires"]) for row in rows}

    def load_batches(self, keys: Collection[str]) -> dict[str, BatchedPrompt]:
        """Load the batches of prompts without a stored outcome, by key."""
        rows = self._rows("batches", "SELECT * FROM batches WHERE key IN", keys)
        return {
            row["key"]: BatchedPrompt(row["owner"], row["endpoint"], row["batch"], row["time"])
            for row in rows
        }

    def store(self, judgements: Mapping[str, Judgement]) -> None:
        """Write all judgements, by key, or none.

        On return they are on disk. They replace earlier judgements.

        A reply deletes an earlier failure; a failure keeps an earlier reply. Both delete the
        prompt's claim and batch.
        """
        now = datetime.now(timezone.utc)
        with self.transaction():
            for key, judgement in judgements.items():
                if judgement.error is not None:
                    self._store_failure(key, judgement, now)
                elif judgement.rating is None:
                    self._store_reply(key, judgement, now)
                else:
                    self._store_judgement(key, judgement, now)

    def _store_judgement(self, key: str, judgement: Judgement, now: datetime) -> None:
        statement = """
            INSERT OR REPLACE INTO judgements
            VALUES (:key, :prompt, :reply, :rating, :model, :endpoint, :prompt_tokens,
                :completion_tokens, :seconds, :time, :finish)
        """
        values = _reply_values(key, judgement, now) | {"rating": judgement.rating}
        self.write(statement, [values])

    def _store_reply(self, key: str, judgement: Judgement, now: datetime) -> None:
        statement = """
            INSERT OR REPLACE INTO replies
            VALUES (:key, :prompt, :reply, :model, :endpoint, :prompt_tokens,
                :completion_tokens, :seconds, :time, :finish)
        """
        self.write(statement, [_reply_values(key, judgement, now)])

    def _store_failure(self, key: str, judgement: Judgement, now: datetime) -> None:
        statement = """
            INSERT OR REPLACE INTO failures
            VALUES (:key, :error, :reply, :model, :endpoint, :max_tokens, :finish, :time)
        """
        values = {
            "key": key,
            "error": judgement.error,
            "reply": judgement.reply,
            "model": judgement.judge,
            "endpoint": judgement.endpoint,
            "max_tokens": judgement.max_tokens,
            "finish": judgement.finish,
            "time": now.timestamp(),
        }
        self.write(statement, [values])

    def write(self, statement: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute a statement with the named parameters of every row, or with none if one fails."""
        all_values = [*rows]
        if all_values:
            with self.transaction():
                self._database.executemany(statement, all_values)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete all stored outcomes of prompts that will be requested again."""
        rows = [{"key": key} for key in keys]
        with self.transaction():
            self.write("DELETE FROM replies WHERE key = :key", rows)
            self.write("DELETE FROM judgements WHERE key = :key", rows)
            self.write("DELETE FROM failures WHERE key = :key", rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of the block at its end, or none of them."""
        if self._database.in_transaction:
            yield
            return
        with self._explained(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def _rows(self, table: str, query: str, keys: Collection[str]) -> Iterator[sqlite3.Row]:
        """Yield the rows with these keys.

        Skip rows with a value of the wrong type.

        Args:
            table: the table.
            query: the query, without the list of keys at its end.
            keys: the keys.
        """
        columns = _columns()[table]
        all_keys = [*keys]
        for start in range(0, len(all_keys), _KEYS_PER_QUERY):
            batch = all_keys[start : start + _KEYS_PER_QUERY]
            placeholders = ", ".join("?" * len(batch))
            with self._explained():
                rows = self._database.execute(f"{query} ({placeholders})", batch).fetchall()
            for row in rows:
                if all(column.accepts(row[column.name]) for column in columns):
                    yield row

    def _check(self) -> None:
        """Create missing tables. Damage is reported, not repaired."""
        (state,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        # Each judgement is a transaction. To delete the journal after it takes several times as
        # long as the rest.
        self._database.execute("PRAGMA journal_mode = TRUNCATE")
        with self._database:
            # The script begins the transaction itself, because `executescript` commits an open one.
            self._database.executescript(f"BEGIN IMMEDIATE;\n{_schema()}")
            for table, columns in _columns().items():
                query = "SELECT name FROM pragma_table_info(:table)"
                rows = self._database.execute(query, {"table": table}).fetchall()
                if [row["name"] for row in rows] != [column.name for column in columns]:
                    raise sqlite3.DatabaseError(f"table {table} has unexpected columns")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"{self._path}: cannot be used: {error}. It must be a writable file on a disk "
                "with free space, and no other process may lock it for more than "
                f"{_BUSY_S:.0f} s. LMMS_EGOPLAN_DATA sets the folder"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CacheError(
                f"{self._path}: damaged, or not a database of judgements: {error}. Move it away "
                "and rerun. A new database is created, and its prompts are requested again"
            ) from error


@dataclass
class _Lookup:
    """The state of prompts in the database.

    Attributes:
        free: Prompts that this run claims.
        settled: Judgements that other processes have stored, by key.
        busy: Prompts that other processes have claimed.
    """

    free: list[str] = field(default_factory=list)
    settled: dict[str, Judgement] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)


class PromptLeases:
    """The prompts of one run, by cache key, coordinated with the runs of other processes.

    - A process claims a prompt before it sends the request.
    - A claim ends when its outcome is stored, its run closes, its process ends, or its lease
      expires.
    - Many slots wait for one disk. Therefore one transaction stores their results and claims their
      next prompts.
    - If the cache fails, a warning is logged, and the remaining prompts are requested without
      claims.
    """

    def __init__(
        self,
        keys: Iterable[str],
        cache: JudgementCache,
        read: Callable[[Judgement], Judgement | None],
        settled: Callable[[str, Judgement], None],
    ) -> None:
        """Offer the prompts in this order.

        Args:
            keys: cache keys of the prompts.
            cache: the open database.
            read: converts an outcome that another process stored; None if it does not count for
                this run.
            settled: called with key and judgement of each prompt that another process has finished.
        """
        self._open = OrderedDict.fromkeys(keys)
        self._busy: OrderedDict[str, None] = OrderedDict()
        self._claimed: deque[str] = deque()
        self._cache = cache
        self._read = read
        self._settled = settled
        self._owner = f"{_machine()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewed = -math.inf
        self._looked = -math.inf
        self._finished: dict[str, Judgement | None] = {}
        self._waiting = 0
        self._is_failing = False
        self._has_warned = False
        self._is_stopped = False

    @property
    def is_drained(self) -> bool:
        """True if this run takes no more prompts, except those claimed by other processes."""
        return self._is_stopped or not (self._open or self._claimed)

    @property
    def busy(self) -> int:
        """Number of prompts that other processes have claimed; 0 if all slots are used."""
        is_idle = self._waiting > 0 and not self._open
        return len(self._busy) if is_idle else 0

    async def __aenter__(self) -> "PromptLeases":
        self._lock = asyncio.Lock()
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store all results and release all claims, even if the caller is cancelled meanwhile."""
        self._renewing.cancel()
        closing = asyncio.create_task(self._exchange(is_last=True))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    def stop(self) -> None:
        """Offer no more prompts, not even those that other processes have claimed."""
        self._is_stopped = True

    async def take(self) -> str | None:
        """Return the key of the next prompt.

        Returns None if no prompt is left and all results are stored, or after `stop`.

        Raises:
            Exception: any error from reading an outcome of another process.
        """
        self._waiting += 1
        try:
            while True:
                if not (self._is_failing or self._is_stopped):
                    await asyncio.shield(self._exchange(is_claiming=True))
                if self._is_stopped:
                    return None
                if self._claimed:
                    return self._claimed.popleft()
                remaining = self._open or self._busy
                if not remaining:
                    return None
                if self._is_failing:
                    return remaining.popitem(last=False)[0]
                # At most 1,000 checks per second.
                await asyncio.sleep(max(_POLL_S, self._waiting / 1000))
        finally:
            self._waiting -= 1

    def finish(self, key: str, judgement: Judgement | None) -> None:
        """Finish a prompt.

        With None for the judgement, nothing is stored, and another process may request it.
        """
        self._finished[key] = judgement

    async def _renew(self) -> None:
        """Renew claims, and retry failed writes; repeat until cancelled."""
        while True:
            await asyncio.sleep(min(_POLL_S, LEASE_S / 3))
            await asyncio.shield(self._exchange())

    async def _exchange(self, *, is_claiming: bool = False, is_last: bool = False) -> None:
        """Store results; on request, claim prompts for all waiting slots, or release all claims.

        Call it through `asyncio.shield`: the caller may be cancelled, but the transaction in its
        thread may not.
        """
        async with self._lock:
            if is_claiming and self._is_failing:
                return
            claim_count = self._waiting - len(self._claimed) if is_claiming else 0
            try:
                settled = await asyncio.to_thread(self._transact, claim_count, is_last=is_last)
            except CacheError as error:
                self._is_failing = True
                # The run still returns these judgements. Only a repeated run would request them
                # again.
                if not self._has_warned:
                    logger.warning(f"Judgements are not stored: {error}")
                self._has_warned = True
                return
            self._is_failing = False
            for key, judgement in settled.items():
                self._settled(key, judgement)

    def _transact(self, claim_count: int, *, is_last: bool) -> dict[str, Judgement]:
        """Store, renew and claim in one transaction.

        Returns the judgements that other processes have stored.
        """
        finished = dict(self._finished)
        # One lookup of the prompts of other processes serves all slots.
        is_lookup_due = bool(self._busy) and time.monotonic() - self._looked > _POLL_S / 2
        is_looking = claim_count > 0 and (bool(self._open) or is_lookup_due)
        is_renewal_due = not 0 <= time.time() - self._renewed < LEASE_S / 3
        if not (finished or is_renewal_due or is_looking or is_last):
            return {}
        lookup = _Lookup()
        with self._cache.transaction():
            now = time.time()  # after waiting for the lock
            self._store(finished)
            if is_last:
                self._release()
            elif is_renewal_due:
                self._extend(now)
            if is_looking:
                lookup = self._look_up(claim_count)
                self._claim(lookup.free, now)
        if is_renewal_due:
            self._renewed = now
        for key in finished:
            del self._finished[key]
        if is_looking:
            self._looked = time.monotonic()
            self._sort(lookup)
        return lookup.settled

    def _store(self, finished: Mapping[str, Judgement | None]) -> None:
        """Store results, and release the claims of prompts without a result."""
        results = {}
        unanswered = []
        for key, judgement in finished.items():
            if judgement is None:
                unanswered.append({"key": key, "owner": self._owner})
            else:
                results[key] = judgement
        self._cache.store(results)
        self._cache.write("DELETE FROM claims WHERE key = :key AND owner = :owner", unanswered)

    def _release(self) -> None:
        """Release all claims."""
        self._cache.write("DELETE FROM claims WHERE owner = :owner", [{"owner": self._owner}])

    def _extend(self, now: float) -> None:
        """Extend the leases of all claims."""
        self._cache.write(
            "UPDATE claims SET expires = :expires WHERE owner = :owner",
            [{"expires": now + LEASE_S, "owner": self._owner}],
        )

    def _claim(self, keys: Iterable[str], now: float) -> None:
        """Claim prompts."""
        self._cache.write(
            "INSERT OR REPLACE INTO claims VALUES (:key, :owner, :expires)",
            [{"key": key, "owner": self._owner, "expires": now + LEASE_S} for key in keys],
        )

    def _look_up(self, claim_count: int) -> _Lookup:
        """Look prompts up until enough of them are free. Open prompts come first."""
        lookup = _Lookup()
        candidates = chain(self._open, self._busy)
        size = claim_count
        while len(lookup.free) < claim_count:
            keys = [*islice(candidates, size)]
            if not keys:
                break
            size = min(2 * size, _LOOKUP_SIZE)
            stored = [*self._cache.load_failures(keys).items(), *self._cache.load(keys).items()]
            for key, outcome in stored:
                judgement = self._read(outcome)
                if judgement is not None:
                    lookup.settled[key] = judgement
            claims = self._cache.load_claims(keys)
            for key in keys:
                if key in lookup.settled:
                    continue
                if key in claims and self._is_foreign(claims[key]):
                    lookup.busy.append(key)
                elif len(lookup.free) < claim_count:
                    lookup.free.append(key)
        return lookup

    def _sort(self, lookup: _Lookup) -> None:
        """Move the prompts of a lookup to those that are claimed, settled or busy."""
        for key in (*lookup.free, *lookup.settled, *lookup.busy):
            self._open.pop(key, None)
            self._busy.pop(key, None)
        self._claimed += lookup.free
        for key in lookup.busy:
            self._busy[key] = None

    def _is_foreign(self, claim: Claim) -> bool:
        """Return whether a claim is another process's and still valid.

        A valid claim has not expired, and its process may still run.
        """
        if claim.owner == self._owner:
            return False
        now = time.time()
        is_valid = now <= claim.expires <= now + _MOST_LEASES_AHEAD * LEASE_S
        return is_valid and not _is_gone(claim.owner)


def _is_gone(owner: str) -> bool:
    """Return whether the owner's process is known to have ended.

    This is never known for other machines.
    """
    machine, _, process_and_run = owner.partition(" ")
    pid, _, _ = process_and_run.partition(" ")
    if machine != _machine() or not pid.isdecimal():
        return False
    return not psutil.pid_exists(int(pid))


def _machine() -> str:
    """Identify this machine, its current boot and this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join("".join(part.split()) for part in parts)


def _reply_values(key: str, judgement: Judgement, now: datetime) -> dict[str, Any]:
    """Return the values of a reply's row, by column."""
    return {
        "key": key,
        "prompt": judgement.prompt,
        "reply": judgement.reply,
        "model": judgement.judge,
        "endpoint": judgement.endpoint,
        "prompt_tokens": judgement.prompt_tokens,
        "completion_tokens": judgement.completion_tokens,
        "seconds": judgement.seconds,
        "time": now.isoformat(timespec="seconds"),
        "finish": judgement.finish,
    }


def _reply(row: sqlite3.Row, rating: float | None) -> Judgement:
    """Return the judgement of a row of the table `replies` or `judgements`."""
    return Judgement(
        rating=rating,
        reply=row["reply"],
        judge=judge_name(row["model"]),
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        seconds=row["seconds"],
        finish=row["finish"],
        endpoint=row["endpoint"],
        prompt=row["prompt"],
        time=row["time"],
    )


def _failure(row: sqlite3.Row) -> Judgement:
    """Return the judgement of a row of the table `failures`."""
    return Judgement(
        rating=None,
        reply=row["reply"],
        judge=judge_name(row["model"]),
        error=row["error"],
        finish=row["finish"],
        endpoint=row["endpoint"],
        max_tokens=row["max_tokens"],
        time=row["time"],
    )


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Decode a column's text; return damaged text as bytes.

    An exception would fail the whole query.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
