"""Replies on disk, so that none is paid for twice: with and without ratings, failures, and who is asking for what."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lmms_egoplan.judging.judgement import Judgement, Prompt
from lmms_egoplan.paths import data_root, yaml_beside

# Another process holds the file for one transaction at a time; this is for a busy or slow file system.
_BUSY_S = 60.0
_KEYS_PER_QUERY = 500


class CacheError(RuntimeError):
    """The database of judgements cannot be used; the message names the file and says what to do."""


@dataclass(frozen=True)
class Outcome:
    """What a prompt has come to: a rated reply; one that can be used, and was not rated; or a failure, with its error.

    endpoint: the address that was asked.
    prompt: its text; images are in the key alone. max_tokens: of the requests. What is read has one of the two, a
        reply its prompt and a failure its limit.
    time: of storing, of a reply in ISO 8601, of a failure in seconds since the epoch; None before.
    """

    judgement: Judgement
    endpoint: str
    prompt: str | None = None
    max_tokens: int | None = None
    time: str | float | None = None

    @property
    def table(self) -> str:
        """Table that stores it."""
        if self.judgement.error is not None:
            return "failures"
        return "replies" if self.judgement.rating is None else "judgements"


# By table, the kind of each column by its name.
_COLUMNS: dict[str, dict[str, str]] = yaml_beside(__file__)
_OUTCOMES = ("replies", "judgements", "failures")
_TYPES = {"TEXT": str, "INTEGER": int, "REAL": float}
_TRIGGERS = (
    *(
        f"{name} AFTER INSERT ON {table} BEGIN DELETE FROM failures WHERE key = NEW.key; "
        "DELETE FROM claims WHERE key = NEW.key; END"
        for name, table in (("rated", "judgements"), ("replied", "replies"))
    ),
    "failed AFTER INSERT ON failures BEGIN DELETE FROM claims WHERE key = NEW.key; END",
)


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

    def load(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """Load stored replies, by key; one with values of wrong types counts as missing."""
        wanted = list(keys)
        return self._rows("replies", wanted) | self._rows("judgements", wanted)

    def load_failures(self, keys: Iterable[str]) -> dict[str, Outcome]:
        """Load stored failures, by key; a reply that was stored later ends them."""
        return self._rows("failures", list(keys))

    def store(self, outcomes: Mapping[str, Outcome]) -> None:
        """Write all outcomes, by key, or none; they are on the disk on return, in place of older ones.

        A reply ends an earlier failure, a failure no earlier reply; both end claims.
        """
        now = datetime.now(timezone.utc)
        with self.transaction():
            for key, outcome in outcomes.items():
                is_failure = outcome.table == "failures"
                time = now.timestamp() if is_failure else now.isoformat(timespec="seconds")
                values = vars(outcome.judgement) | vars(outcome)
                values |= {"key": key, "model": outcome.judgement.judge, "time": time}
                columns = _COLUMNS[outcome.table]
                self._database.execute(
                    f"INSERT OR REPLACE INTO {outcome.table} ({', '.join(columns)}) "
                    f"VALUES ({', '.join('?' * len(columns))})",
                    [values[column] for column in columns],
                )

    def look_up(self, keys: Sequence[str]) -> tuple[dict[str, tuple[str, float]], set[str]]:
        """Look up who has claimed prompts, at most 240, and until when, by key; and which have an outcome.

        A claim with values of wrong types counts as absent.
        """
        places = ", ".join("?" * len(keys))
        query = " UNION ALL ".join(
            f"SELECT key, {columns} FROM {table} WHERE key IN ({places})"
            for table, columns in (("claims", "owner, expires"), *((table, "NULL, 0") for table in _OUTCOMES))
        )
        with self._explained():
            rows = self._database.execute(query, [*keys] * (1 + len(_OUTCOMES))).fetchall()
        kinds = _COLUMNS["claims"].values()
        claims = {row[0]: row[1:] for row in rows if all(map(_is_of_kind, row, kinds))}
        return claims, {key for key, owner, _ in rows if owner is None}

    def claim(self, keys: Iterable[str], owner: str, expires: float) -> None:
        """Make prompts the owner's to ask until then, in seconds since the epoch, whoever has claimed them before."""
        with self.transaction():
            rows = [(key, owner, expires) for key in keys]
            self._database.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", rows)

    def renew(self, owner: str, expires: float) -> None:
        """Let all of an owner's claims expire later."""
        with self.transaction():
            self._database.execute("UPDATE claims SET expires = ? WHERE owner = ?", [expires, owner])

    def release(self, owner: str, keys: Iterable[str] | None = None) -> None:
        """End an owner's claims; None: all of them."""
        with self.transaction():
            if keys is None:
                self._database.execute("DELETE FROM claims WHERE owner = ?", [owner])
            else:
                rows = [(key, owner) for key in keys]
                self._database.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", rows)

    def forget(self, keys: Iterable[str]) -> None:
        """Delete all outcomes of prompts that are requested again."""
        with self.transaction():
            rows = [(key,) for key in keys]
            for table in _OUTCOMES:
                self._database.executemany(f"DELETE FROM {table} WHERE key = ?", rows)

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

    def _rows(self, table: str, wanted: Sequence[str]) -> dict[str, Outcome]:
        columns = _COLUMNS[table]
        found: dict[str, Outcome] = {}
        with self._explained():
            for start in range(0, len(wanted), _KEYS_PER_QUERY):
                some = wanted[start : start + _KEYS_PER_QUERY]
                query = f"SELECT {', '.join(columns)} FROM {table} WHERE key IN ({', '.join('?' * len(some))})"
                for values in self._database.execute(query, some):
                    if all(map(_is_of_kind, values, columns.values())):
                        row = dict(zip(columns, values, strict=True))
                        key = row.pop("key")
                        found[key] = _outcome(row)
        return found

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
            for trigger in _TRIGGERS:
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


def _is_of_kind(value: Any, kind: str) -> bool:
    """Return whether a value fits a column of this kind: sqlite stores values of other types, too."""
    name, _, constraint = kind.partition(" ")
    return isinstance(value, _TYPES[name]) or (value is None and not constraint)


def _outcome(row: dict[str, Any]) -> Outcome:
    others = {name: row.pop(name) for name in ("endpoint", "prompt", "max_tokens", "time") if name in row}
    return Outcome(Judgement(judge=row.pop("model"), **{"rating": None} | row), **others)


def _text_or_bytes(raw: bytes) -> str | bytes:
    """Decode a column's text; a damaged one stays bytes, or else a single row would spoil a whole query."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
