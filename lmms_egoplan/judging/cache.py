"""Judgements on disk, so that no reply is paid for twice."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.paths import data_root

# Another process holds the file for one transaction at a time; this is for a busy or slow file system.
_BUSY_S = 60.0
_KEYS_PER_QUERY = 500


class CacheError(RuntimeError):
    """The database of judgements cannot be used; the message names the file and says what to do."""


@dataclass(frozen=True)
class Entry:
    """A rated reply.

    prompt: its text; images are in the key alone. model: that answered; endpoint: the address that was asked; seconds:
    from the request to the reply; time: of storing, ISO 8601, UTC.
    """

    prompt: str
    reply: str
    rating: float
    model: str
    endpoint: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    time: str


_COLUMNS = tuple(field.name for field in fields(Entry))
_TYPES = tuple(get_type_hints(Entry).values())


def default_cache_path() -> Path:
    """The database that all benchmarks share: ``<data root>/judgements.sqlite``."""
    return data_root() / "judgements.sqlite"


def cache_key(model: str, parameters: Mapping[str, Any], prompt: Prompt) -> str:
    """What tells a question to a judge from any other: the model asked for, its parameters, and the full prompt."""
    images = [prompt.images] if prompt.images else []
    question = json.dumps([model, parameters, prompt.text, *images], sort_keys=True)
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

    def load(self, keys: Iterable[str]) -> dict[str, Entry]:
        """The entries that are there, by key; one with values of wrong types counts as absent."""
        wanted = list(keys)
        found: dict[str, Entry] = {}
        with self._explained():
            for start in range(0, len(wanted), _KEYS_PER_QUERY):
                some = wanted[start : start + _KEYS_PER_QUERY]
                query = f"SELECT key, {', '.join(_COLUMNS)} FROM judgements WHERE key IN ({', '.join('?' * len(some))})"
                for key, *values in self._database.execute(query, some):
                    if all(map(isinstance, values, _TYPES)):
                        found[key] = Entry(*values)
        return found

    def store(self, entries: Mapping[str, Entry]) -> None:
        """Write all entries, by key, or none; they are on the disk on return, in place of older ones."""
        places = ", ".join("?" * (1 + len(_COLUMNS)))
        with self._explained(), self._transaction():
            self._database.executemany(
                f"INSERT OR REPLACE INTO judgements (key, {', '.join(_COLUMNS)}) VALUES ({places})",
                [(key, *astuple(entry)) for key, entry in entries.items()],
            )

    def _check(self) -> None:
        with self._transaction():
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS judgements (key TEXT PRIMARY KEY, prompt TEXT NOT NULL, "
                "reply TEXT NOT NULL, rating REAL NOT NULL, model TEXT NOT NULL, endpoint TEXT NOT NULL, "
                "prompt_tokens INTEGER, completion_tokens INTEGER, seconds REAL, time TEXT NOT NULL)"
            )
        columns = [row[1] for row in self._database.execute("PRAGMA table_info(judgements)")]
        state = self._database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if columns != ["key", *_COLUMNS]:
            state = "its table of judgements has other columns"
        if state != "ok":
            raise sqlite3.DatabaseError(state)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

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


def _text_or_bytes(raw: bytes) -> str | bytes:
    """A column's text; one that is damaged stays what it is, or else a single row would spoil a whole query."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
