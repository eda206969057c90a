"""Create, open, lock and write the SQLite file with the labels.

SQLite uses a rollback journal: when a transaction ends, everything it wrote is on the disk in this
one file.
"""

import json
import os
import random
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timezone
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import RLock
from typing import Any

from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.study import ANNOTATOR, MAIN, QUALIFICATION, Study
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import lock_file, write_whole
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text

# Increase when the tables change.
_FORMAT = 4
_APPLICATION_ID = 0x4C45414E
_BUSY_S = 30.0
# Seed of the order of items.
_SEED = 0
_NOT_READ, _NOT_SAVED = "cannot read the database", "nothing was saved"
LEAD, SENIOR = "lead", "senior"

_TABLES = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")
QUERIES: dict[str, str] = module_yaml(str(Path(__file__).with_name("queries")))


class StoreError(LmmsEgoplanError):
    """The database cannot be read or written."""


def create(
    path: Path, study: Study, items: Sequence[Item], parts: dict[str, str] | None = None
) -> None:
    """Create a new database atomically.

    Args:
        study: Checked by `check_study`.
        items: Items, stored in random order.
        parts: Part of each item with `Item.known`, by id. The first `Study.qualification` of the
            other items serve for the qualification.

    Raises:
        StoreError: The file exists or cannot be written.
        LmmsEgoplanError: There are no items, or duplicate ids.
    """
    if not items:
        raise LmmsEgoplanError("no items to label")
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent) as unfinished:
        with (
            _storage_errors(path, _NOT_SAVED),
            closing(sqlite3.connect(unfinished.name, isolation_level=None)) as connection,
        ):
            connection.executescript(
                f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = "
                f"{_FORMAT}; BEGIN; {_TABLES}"
            )
            stored = {"study": study.model_dump(), "secret": secrets.token_hex(32), "made": now()}
            connection.executemany(
                "INSERT INTO settings VALUES (?, ?)",
                [(name, json.dumps(value)) for name, value in stored.items()],
            )
            add_people(connection, study)
            add_items(connection, study, items, parts or {})
            connection.execute("COMMIT")
        try:
            os.link(unfinished.name, path)
        except OSError:  # The file exists, or the file system has no hard links.
            if os.path.lexists(path):
                raise StoreError(f"{path}: already exists; choose another --db") from None
            write_whole(path, Path(unfinished.name).read_bytes())
            path.chmod(0o600)


def add_items(
    connection: sqlite3.Connection, study: Study, items: Sequence[Item], parts: dict[str, str]
) -> None:
    """Append items in random order, with places for their labels.

    Only the first call for a database draws qualification items and the samples of rounds. Later
    items are in neither.

    Args:
        parts: Part of each item with `Item.known`, by id.

    Raises:
        LmmsEgoplanError: There are duplicate ids.
    """
    if duplicates := [
        id_ for id_, count in Counter(clean_text(item.id) for item in items).items() if count > 1
    ]:
        raise LmmsEgoplanError(f"Duplicate item {duplicates[0]!r}; remove one")
    ((first,),) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items")
    qualification = 0 if first else study.qualification
    order = list(items)
    random.Random(_SEED).shuffle(order)
    main = [item.id for item in order if item.id not in parts]
    parts = dict.fromkeys(main[:qualification], QUALIFICATION) | parts
    sampled = {
        one.name: {
            *random.Random(f"{_SEED} {one.name}").sample(
                main[qualification:], 0 if first else one.sample
            )
        }
        for one in study.rounds
        if one.sample
    }
    rows: list[tuple[Any, ...]] = []
    for position, item in enumerate(order, first):
        part = parts.get(item.id, MAIN)
        known = None if item.known is None else as_json(item.known)
        row = (
            position,
            clean_text(item.id),
            part,
            as_json(item.contents),
            as_json(item.hidden),
            known,
        )
        connection.execute(QUERIES["new_item"], row)
        if part != MAIN:
            rows.append((position, part, part, None, study.learners, True, False))
            continue
        after = None
        for one in study.rounds:
            if item.id in sampled.get(one.name, (item.id,)):
                rows.append(
                    (position, one.name, MAIN, after, one.per_item, after is None, one.final)
                )
                after = after if one.final else one.name
    connection.executemany(QUERIES["new_place"], rows)


def fixed_contents(item: Item) -> str:
    """Return what may not change of an item between starts, as JSON."""
    values = [item.contents, item.hidden]
    fixed = [
        {name: value for name, value in part.items() if name not in item.changing}
        for part in values
    ]
    return clean_text(json.dumps(fixed, sort_keys=True, ensure_ascii=False))


class Database:
    """An open database, for several threads of one process.

    All methods raise `StoreError` if the database cannot be read or written.

    Attributes:
        study: The stored study.
        lock: Held by the thread that writes.
    """

    study: Study

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        """Open a database.

        Args:
            exclusive: Lock the database, as servers do. Fails if another process holds the lock.

        Raises:
            StoreError: The file is missing, damaged, of another version, or in use.
        """
        self.path = path
        self.lock = RLock()
        self._reader_lock = RLock()
        with ExitStack() as connections:
            if exclusive:
                # Prevents a second server. The lock ends with the process.
                lock = lock_file(path.resolve().with_name(f"{path.resolve().name}.lock"))
                if lock is None:
                    raise StoreError(f"{path}: in use by another server; stop that one first")
                connections.enter_context(closing(lock))
            self._open(connections, exclusive=exclusive)
            self._connections = connections.pop_all()

    def close(self) -> None:
        """Close the database, so another server can open it."""
        self._connections.close()

    @cached_property
    def mark(self) -> str:
        """A public identifier that differs from that of other databases served at the same address."""
        return sha256(self.setting("secret").encode()).hexdigest()[:12]

    def backup(self, target: Path) -> int:
        """Copy the whole database with all saved labels. Works while it is served.

        Returns:
            The number of labels in the copy that count.

        Raises:
            StoreError: The database cannot be read, or the copy is damaged.
            OSError: The copy cannot be written.
        """
        with NamedTemporaryFile(prefix=f".{target.name}.", dir=target.parent) as unfinished:
            with closing(sqlite3.connect(unfinished.name)) as copy, self._reading() as connection:
                connection.backup(copy)
                _check_whole(copy)
                ((labels,),) = copy.execute("SELECT count(*) FROM counting")
            write_whole(target, Path(unfinished.name).read_bytes())
        target.chmod(0o600)
        return labels

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return the committed rows of a query. Does not wait for writers."""
        with self._reading() as connection:
            return connection.execute(query, values).fetchall()

    def setting(self, name: str) -> Any:
        """Return a value of the table ``settings``."""
        ((value,),) = self.rows("SELECT value FROM settings WHERE name = ?", name)
        return json.loads(value)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries in this context read the same state of the database."""
        with self._reading() as connection, connection:
            connection.execute("BEGIN")
            yield

    @contextmanager
    def writing(self, *, is_waited_for: bool = True) -> Iterator[sqlite3.Connection]:
        """Open an exclusive transaction, or continue that of this thread, which then decides when
        changes are stored.

        If `is_waited_for`, the changes are on the disk when the context ends.
        """
        with self.lock, _storage_errors(self.path, _NOT_SAVED):
            if self._connection.in_transaction:
                yield self._connection
                return
            if _file_identity(self.path) != self._identity:
                raise StoreError(
                    f"{self.path}: moved, deleted or replaced while open, so nothing was saved. "
                    "Stop the server, "
                    "restore the file and restart"
                )
            self._connection.execute(
                f"PRAGMA synchronous = {'FULL' if is_waited_for else 'NORMAL'}"
            )
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection

    def _open(self, connections: ExitStack, *, exclusive: bool) -> None:
        if not self.path.is_file():
            raise StoreError(f"{self.path}: no such database; create it with lmms-egoplan annotate")
        with _storage_errors(self.path, _NOT_READ):
            self._connection = connections.enter_context(closing(_connect(self.path)))
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if application != _APPLICATION_ID:
                raise StoreError(f"{self.path}: not a database of lmms-egoplan annotate")
            if version != _FORMAT:
                writer = "a newer" if version > _FORMAT else "an earlier"
                raise StoreError(
                    f"{self.path}: created by {writer} lmms-egoplan, in format {version}; this "
                    "version reads "
                    f"format {_FORMAT}. Export its labels with that version, or start with "
                    "another --db"
                )
            self._connection.execute("PRAGMA foreign_keys = ON")
            _check_whole(self._connection)
            if exclusive and self.path.stat().st_nlink > 1:
                raise StoreError(
                    f"{self.path}: the file has a second name (a hard link), by which another "
                    "server could open it. "
                    f"Delete that name (find . -samefile {self.path.name}), or serve a copy"
                )
            if exclusive:  # Merges a write-ahead log into the file.
                self._connection.execute("PRAGMA journal_mode = DELETE")
            self._identity = _file_identity(self.path)
            self._reader = connections.enter_context(closing(_connect(self.path)))
            self._reader.execute("PRAGMA query_only = ON")
            self.study = Study(**self.setting("study"))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._reader_lock, _storage_errors(self.path, _NOT_READ):
            yield self._reader


def add_people(connection: sqlite3.Connection, study: Study) -> None:
    """Add the lead, and those of the seniors and the study's people that do not exist yet."""
    people: list[tuple[str, str, str, str | None]] = [(LEAD, LEAD, "", None)]
    people += [(f"senior-{number}", SENIOR, "", None) for number in range(1, study.seniors + 1)]
    people += [(name, ANNOTATOR, group, called) for name, group, called in study.names()]
    connection.executemany(
        QUERIES["new_person"], [(*row, secrets.token_urlsafe(24)) for row in people]
    )


def _check_whole(connection: sqlite3.Connection) -> None:
    problems = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
    if problems != ["ok"]:
        raise sqlite3.DatabaseError(problems[0])


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if it does not exist."""
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


@contextmanager
def _storage_errors(path: Path, consequence: str) -> Iterator[None]:
    """Convert SQLite errors to `StoreError`.

    Args:
        consequence: Text for messages about a database that is neither damaged nor full.
    """
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            raise StoreError(
                f"{path}: the disk is full, so nothing was saved. Free some space, then "
                "send the form again"
            ) from error
        if isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError):
            advice = ""
            if consequence == _NOT_READ and name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                advice = (
                    ". SQLite needs a writable folder, even for reading. Copy the database into one"
                )
            raise StoreError(f"{path}: {consequence}: {error}{advice}") from error
        raise StoreError(
            f"{path}: the database is damaged ({error}). Do not change it or its -journal file. "
            "To copy what can be "
            f"read: sqlite3 {path.name} .recover | sqlite3 recovered.sqlite"
        ) from error


def as_json(values: Mapping[str, Any]) -> str:
    """Return JSON that can be stored and shown, even if it contains unpaired surrogates."""
    return clean_text(json.dumps(values, ensure_ascii=False))


def now() -> str:
    """Return the current time in the stored format."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
