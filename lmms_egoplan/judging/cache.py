"""Replies on disk, so that none is paid for twice: with and without ratings, failures, and who is asking for what."""

import asyncio
import hashlib
import json
import math
import os
import platform
import sqlite3
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path
from typing import Any

from loguru import logger

from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.paths import data_root, yaml_beside

# Another process holds the file for one transaction at a time; this is for a busy or slow file system.
_BUSY_S = 60.0
_KEYS_PER_QUERY = 500
# A claim ends by itself after so long, and is renewed three times in it, or else it would outlive a lost machine.
LEASE_S = 30.0
# Claims of a clock that is so many leases ahead are not waited for.
_CLOCKS_APART = 10
# Prompts that are looked up together.
_LOOKED_UP = 60
# How often those are looked at that another process asks.
_POLL_S = 1.0


class CacheError(RuntimeError):
    """The database of judgements cannot be used; the message names the file and says what to do."""


_SCHEMA = yaml_beside(__file__)
# By table, the kind of each column by its name.
_COLUMNS: dict[str, dict[str, str]] = _SCHEMA["tables"]
_OUTCOMES = ("replies", "judgements", "failures")
_TYPES = {"TEXT": str, "INTEGER": int, "REAL": float}


def default_cache_path() -> Path:
    """Return the database of everything that language models are asked: ``<data root>/judgements.sqlite``."""
    return data_root() / "judgements.sqlite"


def cache_key(model: str, parameters: Mapping[str, Any], prompt: Prompt) -> str:
    """Return the key of a question to a judge: the model asked for, its parameters, and the full prompt.

    The key has the prompt's text, images and repeat. It has neither the endpoint, the limit on tokens nor the JSON
    schema of the reply: replies that are stored without a schema are valid for the same prompt with one.
    """
    images = [prompt.images] if prompt.images else []
    repeat = [{"repeat": prompt.repeat}] if prompt.repeat else []
    question = json.dumps([model, parameters, prompt.text, *images, *repeat], sort_keys=True)
    return hashlib.sha256(question.encode()).hexdigest()


class JudgementCache:
    """An open database of judgements, as a context manager; used by one thread at a time, by any.

    Several processes may use the file at once, and any of them may be killed at any moment: sqlite's rollback
    journal (its other journal does not work on network file systems) undoes what was not committed.

    Raises:
        CacheError: from every method, and on opening: damaged, of another kind, not writable, or locked for a minute.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CacheError(f"{path}: {error}; LMMS_EGOPLAN_DATA sets the folder") from error
        with self._explained():
            self._database = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        self._database.text_factory = _text_or_bytes
        try:
            with self._explained():
                self._check()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> "JudgementCache":
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def load(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Load stored replies, by key; one with values of wrong types counts as missing."""
        return {key: _judgement(row) for table in ("replies", "judgements") for key, row in self._rows(table, keys)}

    def load_failures(self, keys: Collection[str]) -> dict[str, Judgement]:
        """Load stored failures, by key; a reply that was stored later ends them."""
        return {key: _judgement(row) for key, row in self._rows("failures", keys)}

    def load_claims(self, keys: Collection[str]) -> dict[str, tuple[str, float]]:
        """Load who has claimed prompts and until when, by key; one with values of wrong types counts as absent."""
        return {key: (row["owner"], row["expires"]) for key, row in self._rows("claims", keys)}

    def store(self, judgements: Mapping[str, Judgement]) -> None:
        """Write all judgements, by key, or none; they are on the disk on return, in place of older ones.

        A reply ends an earlier failure, a failure no earlier reply; both end claims.
        """
        now = datetime.now(timezone.utc)
        with self.transaction():
            for key, judgement in judgements.items():
                table = "replies" if judgement.rating is None else "judgements"
                if judgement.error is not None:
                    table = "failures"
                values = vars(judgement) | {"key": key, "model": judgement.judge}
                values["time"] = now.timestamp() if table == "failures" else now.isoformat(timespec="seconds")
                columns = _COLUMNS[table]
                statement = f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(columns))})"
                self.write(statement, [[values[column] for column in columns]])

    def write(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement with each row of values, or none."""
        with self.transaction():
            self._database.executemany(statement, rows)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete all outcomes of prompts that are requested again."""
        rows = [(key,) for key in keys]
        with self.transaction():
            for table in _OUTCOMES:
                self.write(f"DELETE FROM {table} WHERE key = ?", rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything within together at the end, or nothing."""
        if self._database.in_transaction:
            yield
            return
        with self._explained():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _rows(self, table: str, keys: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        columns, wanted = _COLUMNS[table], [*keys]
        for start in range(0, len(wanted), _KEYS_PER_QUERY):
            some = wanted[start : start + _KEYS_PER_QUERY]
            query = f"SELECT {', '.join(columns)} FROM {table} WHERE key IN ({', '.join('?' * len(some))})"
            with self._explained():
                rows = self._database.execute(query, some).fetchall()
            for key, *values in rows:
                if all(map(_is_of_kind, (key, *values), columns.values())):
                    yield key, dict(zip([*columns][1:], values, strict=True))

    def _check(self) -> None:
        """Make missing tables, and update those of earlier versions; damage stays."""
        state = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if state != "ok":
            raise sqlite3.DatabaseError(state)
        with self.transaction():
            for table, columns in _COLUMNS.items():
                kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
                self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({kinds})")
            if self._columns("judgements") == [*_COLUMNS["judgements"]][:-1]:  # before it had the last one
                self._database.execute("ALTER TABLE judgements ADD COLUMN finish TEXT")
            for trigger in _SCHEMA["triggers"]:
                self._database.execute(f"CREATE TRIGGER IF NOT EXISTS {trigger}")
            for table, columns in _COLUMNS.items():
                if self._columns(table) != [*columns]:
                    raise sqlite3.DatabaseError(f"its table of {table} has other columns")

    def _columns(self, table: str) -> list[str]:
        return [row[1] for row in self._database.execute(f"PRAGMA table_info({table})")]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"{self._path}: cannot be used: {error}. It must be a writable file on a disk with room, and no other "
                f"process may hold it for over {_BUSY_S:.0f} s; LMMS_EGOPLAN_DATA sets the folder"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CacheError(
                f"{self._path}: not a whole database of judgements: {error}. Move it away; a new one will be made, and "
                "what it held is asked again"
            ) from error


class Claims:
    """The prompts of one run, by their keys in the cache, shared with the runs of other processes.

    What all slots of the run hand in, and their next prompts, go through one transaction at a time, so that many wait
    for one disk together. A claim ends with its outcome, when the run is left, when its process is gone, or when it is
    not renewed. Where the cache fails, a warning tells, and the rest is asked without claims.
    """

    def __init__(
        self,
        keys: Iterable[str],
        cache: JudgementCache,
        read: Callable[[Judgement], Judgement | None],
        settled: Callable[[str, Judgement], None],
    ) -> None:
        """Hand out prompts in the order of their keys.

        Args:
            read: what an outcome that another process has stored says about a prompt; None if it says nothing.
            settled: is told a prompt that another process has asked, and what it has come to.
        """
        self._open, self._busy = OrderedDict.fromkeys(keys), OrderedDict[str, None]()
        self._claimed = deque[str]()
        self._cache, self._read, self._settled = cache, read, settled
        self._owner = f"{_place()} {os.getpid()} {uuid.uuid4().hex}"
        self._renewed = self._looked = -math.inf
        self._finished: dict[str, Judgement | None] = {}
        self._waiting = 0
        self._is_failing = self._has_warned = False

    @property
    def busy(self) -> int:
        """Number of prompts that another process asks, while a slot has nothing else to do."""
        return len(self._busy) if self._waiting and not self._open else 0

    async def __aenter__(self) -> "Claims":
        self._lock = asyncio.Lock()
        self._renewing = asyncio.create_task(self._renew())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Store what has come, and release what is claimed, also where the caller is cancelled meanwhile."""
        self._renewing.cancel()
        closing = asyncio.create_task(self._exchange(is_last=True))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await closing
            raise

    async def take(self) -> str | None:
        """Return the next prompt to ask, or None, once what was finished before is stored.

        Raises:
            Exception: whatever reading another process's outcome raised.
        """
        self._waiting += 1
        try:
            while True:
                if not self._is_failing:
                    await asyncio.shield(self._exchange(is_claiming=True))
                if self._claimed:
                    return self._claimed.popleft()
                left = self._open or self._busy
                if not left:
                    return None
                if self._is_failing:
                    return left.popitem(last=False)[0]
                await asyncio.sleep(_POLL_S)
        finally:
            self._waiting -= 1

    def finish(self, key: str, judgement: Judgement | None) -> None:
        """End a prompt; without a judgement to store, another process may ask it."""
        self._finished[key] = judgement

    async def _renew(self) -> None:
        """Keep claims alive, and store what could not be stored before."""
        while True:
            await asyncio.sleep(min(_POLL_S, LEASE_S / 3))
            await asyncio.shield(self._exchange())

    async def _exchange(self, *, is_claiming: bool = False, is_last: bool = False) -> None:
        """Store what has come and, where asked to, claim prompts for all slots that wait, or release all.

        To be shielded: the caller may be cancelled, the transaction in its thread may not.
        """
        async with self._lock:
            if is_claiming and self._is_failing:
                return
            wanted = self._waiting - len(self._claimed) if is_claiming else 0
            try:
                settled = await asyncio.to_thread(self._transact, wanted, is_last=is_last)
            except CacheError as error:
                self._is_failing = True
                # The judgements are still in the result; only a repeated run would ask for them again.
                if not self._has_warned:
                    logger.warning(f"Judgements are not stored: {error}")
                self._has_warned = True
                return
            self._is_failing = False
            for key, judgement in settled.items():
                self._settled(key, judgement)

    def _transact(self, wanted: int, *, is_last: bool) -> dict[str, Judgement]:
        """Store, renew and claim in one transaction; return what other processes have settled."""
        claimed, settled, busy = list[str](), dict[str, Judgement](), list[str]()
        finished = dict(self._finished)
        # What others ask is looked at once for all slots.
        is_due_to_look = self._busy and time.monotonic() - self._looked > _POLL_S / 2
        is_looking = wanted > 0 and bool(self._open or is_due_to_look)
        is_due = not 0 <= time.time() - self._renewed < LEASE_S / 3
        if not (finished or is_due or is_looking or is_last):
            return settled
        with self._cache.transaction():
            now = time.time()  # another process may have held the file until then
            self._cache.store({key: judgement for key, judgement in finished.items() if judgement is not None})
            unanswered = [(key, self._owner) for key, judgement in finished.items() if judgement is None]
            self._cache.write("DELETE FROM claims WHERE key = ? AND owner = ?", unanswered)
            if is_last:
                self._cache.write("DELETE FROM claims WHERE owner = ?", [(self._owner,)])
            elif is_due:
                self._cache.write("UPDATE claims SET expires = ? WHERE owner = ?", [(now + LEASE_S, self._owner)])
            candidates = chain(self._open, self._busy)
            while is_looking and len(claimed) < wanted and (keys := [*islice(candidates, _LOOKED_UP)]):
                stored = [*self._cache.load_failures(keys).items(), *self._cache.load(keys).items()]
                settled |= {key: known for key, outcome in stored if (known := self._read(outcome)) is not None}
                claims, rest = self._cache.load_claims(keys), [key for key in keys if key not in settled]
                others = [key for key in rest if key in claims and self._is_anothers(*claims[key])]
                free = [key for key in rest if key not in others]
                busy += others
                claimed += free[: wanted - len(claimed)]
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

    def _is_anothers(self, owner: str, expires: float) -> bool:
        """Return whether another process asks: its claim has not lapsed, and it has not ended as far as known."""
        now = time.time()
        is_valid = now <= expires <= now + _CLOCKS_APART * LEASE_S
        return owner != self._owner and is_valid and not _is_gone(owner)


def _is_gone(owner: str) -> bool:
    """Return whether the owner's process is known to have ended; on another machine none is."""
    place, _, rest = owner.partition(" ")
    pid = rest.partition(" ")[0]
    if os.name != "posix" or place != _place() or not pid.isdecimal():
        return False
    try:
        os.kill(int(pid), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False


def _place() -> str:
    """Identify this machine, since it was started, and this container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join("".join(part.split()) for part in parts)


def _is_of_kind(value: Any, kind: str) -> bool:
    """Return whether a value fits a column of this kind: sqlite stores values of other types, too."""
    name, _, constraint = kind.partition(" ")
    return isinstance(value, _TYPES[name]) or (value is None and not constraint)


def _judgement(row: dict[str, Any]) -> Judgement:
    return Judgement(judge=row.pop("model"), **{"rating": None} | row)


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Decode a column's text; a damaged one stays bytes, or else a single row would spoil a whole query."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
