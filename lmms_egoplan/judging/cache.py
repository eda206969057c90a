"""Store judge replies in a SQLite database, to avoid paying for a reply twice.

The database contains replies with and without ratings, failures, and the claims of running
processes on prompts.
"""

import asyncio
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
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path
from typing import Any

import psutil
from loguru import logger

from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, Judgement, Prompt
from lmms_egoplan.judging.text import judge_name
from lmms_egoplan.paths import data_root, module_yaml

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


_SCHEMA = module_yaml(__file__)
# Table name -> column name -> SQL type and constraint.
_COLUMNS: dict[str, dict[str, str]] = _SCHEMA["tables"]
_TYPES = {"TEXT": str, "INTEGER": int, "REAL": float}


def default_cache_path() -> Path:
    """Return the path of the database for all language model replies:
    ``<data root>/judgements.sqlite``.
    """
    return data_root() / "judgements.sqlite"


def cache_key(model: str, parameters: Mapping[str, Any], prompt: Prompt) -> str:
    """Return the cache key of a prompt: a hash of the requested model, its parameters and the full
    prompt.

    The key includes the prompt's text, images and repeat. It excludes the endpoint, the token limit
    and the JSON schema of the reply. A reply that was stored without a schema is valid for the same
    prompt with one.

    A system message and a protocol are part of the key, except the default protocol: judgements
    stored before there were others stay valid.
    """
    images = [prompt.images] if prompt.images else []
    repeat = [{"repeat": prompt.repeat}] if prompt.repeat else []
    is_default = not prompt.system and prompt.protocol in ("", DEFAULT_PROTOCOL)
    variant = [] if is_default else [{"system": prompt.system, "protocol": prompt.protocol}]
    question = json.dumps(
        [model, parameters, prompt.text, *images, *repeat, *variant], sort_keys=True
    )
    return hashlib.sha256(question.encode()).hexdigest()


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
        return {
            key: _judgement(row)
            for table in ("replies", "judgements")
            for key, row in self.rows(table, keys)
        }

    def reply_tokens(self, endpoint: str, model: str, prompts: Iterable[str]) -> tuple[int, float]:
        """Return the number of stored replies to prompts that begin alike, and the sum of their
        reply tokens.

        Only replies of the same endpoint and model count, and only those with known tokens. The
        endpoint may add a date to the model's name. Attempts without a rating are included in a
        reply's tokens.
        """
        beginnings = {prompt[:_BEGINNING] for prompt in prompts}
        name = re.compile(rf"(?:.*/)?{re.escape(model)}(?:-\d[\d-]*)?", re.IGNORECASE)
        replies, tokens = 0, 0.0
        for table in ("replies", "judgements"):
            query = (
                f"SELECT substr(prompt, 1, {_BEGINNING}), model, COUNT(*), "
                f"TOTAL(completion_tokens) FROM {table} "
                "WHERE endpoint = ? AND typeof(completion_tokens) = 'integer' GROUP BY 1, 2"
            )
            with self._explained():
                rows = self._database.execute(query, (endpoint,)).fetchall()
            for beginning, stored_model, count, total in rows:
                if (
                    beginning in beginnings
                    and isinstance(stored_model, str)
                    and name.fullmatch(stored_model)
                ):
                    replies += count
                    tokens += total
        return replies, tokens

    def load_failures(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Load stored failures, by key. Storing a reply deletes an earlier failure."""
        return {key: _judgement(row) for key, row in self.rows("failures", keys)}

    def store(self, judgements: Mapping[str, Judgement]) -> None:
        """Write all judgements, by key, or none.

        On return they are on disk. They replace earlier judgements.

        A reply deletes an earlier failure; a failure keeps an earlier reply. Both delete the
        prompt's claim and batch.
        """
        now = datetime.now(timezone.utc)
        with self.transaction():
            for key, judgement in judgements.items():
                table = "replies" if judgement.rating is None else "judgements"
                if judgement.error is not None:
                    table = "failures"
                values = vars(judgement) | {"key": key, "model": judgement.judge}
                values["time"] = (
                    now.timestamp() if table == "failures" else now.isoformat(timespec="seconds")
                )
                columns = _COLUMNS[table]
                statement = (
                    f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(columns))})"
                )
                self.write(statement, [[values[column] for column in columns]])

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement with every row of values, or with none if one fails."""
        if values := [*rows]:
            with self.transaction():
                self._database.executemany(statement, values)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete all stored outcomes of prompts that will be requested again."""
        rows = [(key,) for key in keys]
        with self.transaction():
            for table in ("replies", "judgements", "failures"):
                self.write(f"DELETE FROM {table} WHERE key = ?", rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of the block at its end, or none of them."""
        if self._database.in_transaction:
            yield
            return
        with self._explained(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def rows(self, table: str, keys: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rows with these keys, each after its key.

        Skip rows with a value of the wrong type.
        """
        columns, all_keys = _COLUMNS[table], [*keys]
        for start in range(0, len(all_keys), _KEYS_PER_QUERY):
            batch = all_keys[start : start + _KEYS_PER_QUERY]
            query = (
                f"SELECT {', '.join(columns)} FROM {table} WHERE key IN "
                f"({', '.join('?' * len(batch))})"
            )
            with self._explained():
                rows = self._database.execute(query, batch).fetchall()
            for key, *values in rows:
                if all(map(_is_of_kind, (key, *values), columns.values())):
                    yield key, dict(zip([*columns][1:], values, strict=True))

    def _check(self) -> None:
        """Create missing tables. Damage is reported, not repaired."""
        state = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        # Each judgement is a transaction. To delete the journal after it takes several times as
        # long as the rest.
        self._database.execute("PRAGMA journal_mode = TRUNCATE")
        with self.transaction():
            for table, columns in _COLUMNS.items():
                kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
                self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({kinds})")
            for trigger in _SCHEMA["triggers"]:
                self._database.execute(f"CREATE TRIGGER IF NOT EXISTS {trigger}")
            for table, columns in _COLUMNS.items():
                if [row[1] for row in self._database.execute(f"PRAGMA table_info({table})")] != [
                    *columns
                ]:
                    raise sqlite3.DatabaseError(f"table {table} has unexpected columns")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"{self._path}: cannot be used: {error}. It must be a writable file on a disk "
                "with free space, and no "
                f"other process may lock it for more than {_BUSY_S:.0f} s. LMMS_EGOPLAN_DATA sets "
                "the folder"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CacheError(
                f"{self._path}: damaged, or not a database of judgements: {error}. Move it away "
                "and rerun. A new "
                "database is created, and its prompts are requested again"
            ) from error


class Claims:
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
        self._open, self._busy = OrderedDict.fromkeys(keys), OrderedDict[str, None]()
        self._claimed = deque[str]()
        self._cache, self._read, self._settled = cache, read, settled
        self._owner = f"{_machine()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewed = self._looked = -math.inf
        self._finished: dict[str, Judgement | None] = {}
        self._waiting = 0
        self._is_failing = self._has_warned = self._is_stopped = False

    @property
    def is_drained(self) -> bool:
        """True if this run takes no more prompts, except those that other processes have claimed."""
        return self._is_stopped or not (self._open or self._claimed)

    @property
    def busy(self) -> int:
        """Number of prompts that other processes have claimed, if a slot of this run is idle; else
        0.
        """
        return len(self._busy) if self._waiting and not self._open else 0

    async def __aenter__(self) -> "Claims":
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
        """Return the key of the next prompt; None if no prompt is left and all results are stored,
        or after `stop`.

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
                await asyncio.sleep(
                    max(_POLL_S, self._waiting / 1000)
                )  # at most 1,000 checks per second
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
        """Store, renew and claim in one transaction; return the judgements that other processes
        have stored.
        """
        claimed, settled, busy = list[str](), dict[str, Judgement](), list[str]()
        finished = dict(self._finished)
        # One lookup of the prompts of other processes serves all slots.
        is_lookup_due = self._busy and time.monotonic() - self._looked > _POLL_S / 2
        is_looking = claim_count > 0 and bool(self._open or is_lookup_due)
        is_due = not 0 <= time.time() - self._renewed < LEASE_S / 3
        if not (finished or is_due or is_looking or is_last):
            return settled
        with self._cache.transaction():
            now = time.time()  # after waiting for the lock
            self._cache.store(
                {key: judgement for key, judgement in finished.items() if judgement is not None}
            )
            unanswered = [
                (key, self._owner) for key, judgement in finished.items() if judgement is None
            ]
            self._cache.write("DELETE FROM claims WHERE key = ? AND owner = ?", unanswered)
            if is_last:
                self._cache.write("DELETE FROM claims WHERE owner = ?", [(self._owner,)])
            elif is_due:
                self._cache.write(
                    "UPDATE claims SET expires = ? WHERE owner = ?", [(now + LEASE_S, self._owner)]
                )
            candidates, size = chain(self._open, self._busy), claim_count
            while (
                is_looking and len(claimed) < claim_count and (keys := [*islice(candidates, size)])
            ):
                size = min(2 * size, _LOOKUP_SIZE)
                stored = [*self._cache.load_failures(keys).items(), *self._cache.load(keys).items()]
                settled |= {
                    key: judgement
                    for key, outcome in stored
                    if (judgement := self._read(outcome)) is not None
                }
                foreign = {
                    key
                    for key, claim in self._cache.rows("claims", keys)
                    if self._is_foreign(**claim)
                }
                unsettled = [key for key in keys if key not in settled]
                free = [key for key in unsettled if key not in foreign]
                busy += [key for key in unsettled if key in foreign]
                claimed += free[: claim_count - len(claimed)]
            rows = [(key, self._owner, now + LEASE_S) for key in claimed]
            self._cache.write("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", rows)
        if is_due:
            self._renewed = now
        for key in finished:
            del self._finished[key]
        if is_looking:
            self._looked = time.monotonic()
            for key in (*claimed, *settled, *busy):
                self._open.pop(key, None)
                self._busy.pop(key, None)
            self._claimed += claimed
            self._busy |= dict.fromkeys(busy)
        return settled

    def _is_foreign(self, owner: str, expires: float) -> bool:
        """Return whether a claim is another process's and still valid: not expired, and its process
        may still run.
        """
        now = time.time()
        is_valid = now <= expires <= now + _MOST_LEASES_AHEAD * LEASE_S
        return owner != self._owner and is_valid and not _is_gone(owner)


def _is_gone(owner: str) -> bool:
    """Return whether the owner's process is known to have ended; always false for other machines."""
    machine, pid, *_ = [*owner.split(" "), ""]
    return machine == _machine() and pid.isdecimal() and not psutil.pid_exists(int(pid))


def _machine() -> str:
    """Identify this machine, its current boot and this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join("".join(part.split()) for part in parts)


def _is_of_kind(value: Any, kind: str) -> bool:
    """Return whether a value matches the column's type. SQLite itself does not enforce types."""
    name, _, constraint = kind.partition(" ")
    return isinstance(value, _TYPES[name]) or (value is None and not constraint)


def _judgement(row: dict[str, Any]) -> Judgement:
    return Judgement(judge=judge_name(row.pop("model")), **{"rating": None} | row)


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Decode a column's text; return damaged text as bytes, because an exception would fail the
    whole query.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
