"""Store judge replies in a SQLite database, to avoid paying for a reply twice.

The database contains replies with and without ratings, failures, and the claims of running
processes on prompts.
"""

import functools
import hashlib
import json
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, Judgement, Prompt
from lmms_egoplan.judging.text import judge_name
from lmms_egoplan.paths import data_root
from lmms_egoplan.volumes import state_of_volume

# Other processes lock the file only for one transaction. This long limit is for busy or slow file
# systems.
_BUSY_S = 60.0
_KEYS_PER_QUERY = 500
# Prompts of one kind have this many first characters in common.
_BEGINNING = 100


class CacheError(RuntimeError):
    """The database of judgements cannot be used. The message names the file and the remedy."""


_TABLES = ("judgements", "replies", "failures", "claims", "batches")
_TYPES = {"TEXT": str, "INTEGER": int, "REAL": float}


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
def _columns() -> dict[str, dict[str, type]]:
    """Return the type of each column of the schema, by table and name."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_schema())
        return {table: _columns_of(database, table) for table in _TABLES}


def _columns_of(database: sqlite3.Connection, table: str) -> dict[str, type]:
    """Return the type of each column of a table, in their order."""
    query = "SELECT name, type FROM pragma_table_info(:table)"
    return {name: _TYPES[type_] for name, type_ in database.execute(query, {"table": table})}


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
        with self._with_path_in_errors():
            self._database = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
        self._database.text_factory = _text_or_bytes
        self._database.row_factory = sqlite3.Row
        try:
            with self._with_path_in_errors():
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
        for row in self._rows("replies", keys):
            stored[row["key"]] = _reply(row, rating=None)
        for row in self._rows("judgements", keys):
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
        with self._with_path_in_errors():
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
        rows = self._rows("failures", keys)
        return {row["key"]: _failure(row) for row in rows}

    def load_claims(self, keys: Collection[str]) -> dict[str, Claim]:
        """Load the claims of prompts, by key."""
        rows = self._rows("claims", keys)
        return {row["key"]: Claim(row["owner"], row["expires"]) for row in rows}

    def load_batches(self, keys: Collection[str]) -> dict[str, BatchedPrompt]:
        """Load the batches of prompts without a stored outcome, by key."""
        rows = self._rows("batches", keys)
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
        time = datetime.now(timezone.utc)
        failures = []
        replies = []
        ratings = []
        for key, judgement in judgements.items():
            if judgement.error is not None:
                failures.append(_failure_values(key, judgement, time))
            elif judgement.rating is None:
                replies.append(_reply_values(key, judgement, time))
            else:
                ratings.append(_rating_values(key, judgement, time))
        with self.transaction():
            self.write(
                """
                INSERT OR REPLACE INTO failures
                VALUES (:key, :error, :reply, :model, :endpoint, :max_tokens, :finish, :time)
                """,
                failures,
            )
            self.write(
                """
                INSERT OR REPLACE INTO replies
                VALUES (:key, :prompt, :reply, :model, :endpoint, :prompt_tokens,
                    :completion_tokens, :seconds, :time, :finish)
                """,
                replies,
            )
            self.write(
                """
                INSERT OR REPLACE INTO judgements
                VALUES (:key, :prompt, :reply, :rating, :model, :endpoint, :prompt_tokens,
                    :completion_tokens, :seconds, :time, :finish)
                """,
                ratings,
            )
            self.write("DELETE FROM failures WHERE key = :key", [*replies, *ratings])
            finished = [{"key": key} for key in judgements]
            self.write("DELETE FROM claims WHERE key = :key", finished)
            self.write("DELETE FROM batches WHERE key = :key", finished)

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
        with self._with_path_in_errors(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            yield

    def _rows(self, table: str, keys: Collection[str]) -> Iterator[sqlite3.Row]:
        """Yield the rows of a table with these keys. Skip rows with a value of the wrong type."""
        all_keys = [*keys]
        for start in range(0, len(all_keys), _KEYS_PER_QUERY):
            some_keys = all_keys[start : start + _KEYS_PER_QUERY]
            placeholders = ", ".join("?" * len(some_keys))
            query = f"SELECT * FROM {table} WHERE key IN ({placeholders})"
            with self._with_path_in_errors():
                rows = self._database.execute(query, some_keys).fetchall()
            for row in rows:
                if _is_well_typed(row, _columns()[table]):
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
                if [row["name"] for row in rows] != [*columns]:
                    raise sqlite3.DatabaseError(f"table {table} has unexpected columns")

    @contextmanager
    def _with_path_in_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise CacheError(
                f"{self._path}: cannot be used: {error}. It must be a writable file on a disk "
                f"with free space ({state_of_volume(self._path.absolute())}), and no other process "
                f"may lock it for more than {_BUSY_S:.0f} s. LMMS_EGOPLAN_DATA sets the folder"
            ) from error
        except sqlite3.DatabaseError as error:
            raise CacheError(
                f"{self._path}: damaged, or not a database of judgements: {error}. Move it away "
                "and rerun. A new database is created, and its prompts are requested again"
            ) from error


def _failure_values(key: str, judgement: Judgement, time: datetime) -> dict[str, Any]:
    """Return the row of a failure, by column."""
    return {
        "key": key,
        "error": judgement.error,
        "reply": judgement.reply,
        "model": judgement.judge,
        "endpoint": judgement.endpoint,
        "max_tokens": judgement.max_tokens,
        "finish": judgement.finish,
        "time": time.timestamp(),
    }


def _reply_values(key: str, judgement: Judgement, time: datetime) -> dict[str, Any]:
    """Return the row of a reply without a rating, by column."""
    return {
        "key": key,
        "prompt": judgement.prompt,
        "reply": judgement.reply,
        "model": judgement.judge,
        "endpoint": judgement.endpoint,
        "prompt_tokens": judgement.prompt_tokens,
        "completion_tokens": judgement.completion_tokens,
        "seconds": judgement.seconds,
        "time": time.isoformat(timespec="seconds"),
        "finish": judgement.finish,
    }


def _rating_values(key: str, judgement: Judgement, time: datetime) -> dict[str, Any]:
    """Return the row of a reply with a rating, by column."""
    return _reply_values(key, judgement, time) | {"rating": judgement.rating}


def _is_well_typed(row: sqlite3.Row, types: Mapping[str, type]) -> bool:
    """Return whether all values of a row have the types of their columns, or are null.

    SQLite itself enforces only that required values are not null.
    """
    for name, type_ in types.items():
        if row[name] is not None and not isinstance(row[name], type_):
            return False
    return True


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
