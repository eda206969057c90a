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

from lmms_egoplan.annotation import conversion
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.study import ANNOTATOR, MAIN, QUALIFICATION, Study
from lmms_egoplan.annotation.tables import (
    APPLICATION_ID,
    FORMAT,
    check_whole,
    connect,
    create_tables,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import lock_file, whole_file, write_whole
from lmms_egoplan.text import clean_text
from lmms_egoplan.volumes import with_path_in_error

# Seed of the order of items.
_SEED = 0
# What a failed transaction means for the user, in messages.
_NOT_READ = "cannot read the database"
_NOT_SAVED = "nothing was saved"
_NOT_CONVERTED = "not converted, and unchanged"
# Roles of people who do not annotate.
LEAD = "lead"
SENIOR = "senior"


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
            create_tables(connection)
            settings = {"study": study.model_dump(), "secret": secrets.token_hex(32), "made": now()}
            connection.executemany(
                "INSERT INTO settings (name, value) VALUES (:name, :value)",
                [{"name": name, "value": json.dumps(value)} for name, value in settings.items()],
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
    """Append items in random order, and draw the samples of rounds.

    Only the first call for a database draws qualification items and the samples of rounds. Later
    items are in neither.

    Args:
        parts: Part of each item with `Item.known`, by id.

    Raises:
        LmmsEgoplanError: There are duplicate ids.
    """
    _refuse_duplicates(items)
    (first,) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM items").fetchone()
    is_first_call = first == 0
    order = list(items)
    random.Random(_SEED).shuffle(order)
    main_ids = [item.id for item in order if item.id not in parts]
    qualification = study.qualification if is_first_call else 0
    part_by_id = dict.fromkeys(main_ids[:qualification], QUALIFICATION) | parts
    samples = _draw_samples(study, main_ids[qualification:], is_first_call=is_first_call)
    for position, item in enumerate(order, first):
        part = part_by_id.get(item.id, MAIN)
        _insert_item(connection, position, item, part)
        for stage, item_ids in samples.items():
            if item.id in item_ids:
                connection.execute(
                    "INSERT INTO samples (item, stage) VALUES (:position, :stage)",
                    {"position": position, "stage": stage},
                )


def _refuse_duplicates(items: Sequence[Item]) -> None:
    counts = Counter(clean_text(item.id) for item in items)
    duplicates = [item_id for item_id, count in counts.items() if count > 1]
    if duplicates:
        raise LmmsEgoplanError(f"Duplicate item {duplicates[0]!r}; remove one")


def _draw_samples(
    study: Study, item_ids: Sequence[str], *, is_first_call: bool
) -> dict[str, set[str]]:
    """Draw the ids of the items of each round that has a sample.

    Later calls for a database draw none.
    """
    samples: dict[str, set[str]] = {}
    for round_ in study.rounds:
        if round_.sample is None:
            continue
        samples[round_.name] = set()
        if is_first_call:
            generator = random.Random(f"{_SEED} {round_.name}")
            samples[round_.name].update(generator.sample(item_ids, round_.sample))
    return samples


def _insert_item(connection: sqlite3.Connection, position: int, item: Item, part: str) -> None:
    connection.execute(
        """
        INSERT INTO items (position, id, part, shown, hidden, known)
        VALUES (:position, :id, :part, :shown, :hidden, :known)
        """,
        {
            "position": position,
            "id": clean_text(item.id),
            "part": part,
            "shown": as_json(item.contents),
            "hidden": as_json(item.hidden),
            "known": None if item.known is None else as_json(item.known),
        },
    )


def fixed_contents(item: Item) -> str:
    """Return what may not change of an item between starts, as JSON."""
    fixed = []
    for values in (item.contents, item.hidden):
        fixed.append({name: value for name, value in values.items() if name not in item.changing})
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
                connections.enter_context(_only_server(path))
                _convert_if_old(path)
            elif _is_old(path):
                with _only_server(path):
                    _convert_if_old(path)
            self._open(connections, exclusive=exclusive)
            self._connections = connections.pop_all()

    def close(self) -> None:
        """Close the database, so another server can open it."""
        self._connections.close()

    @cached_property
    def mark(self) -> str:
        """A public identifier, which differs between databases served at the same address."""
        return sha256(self.setting("secret").encode()).hexdigest()[:12]

    def backup(self, target: Path) -> int:
        """Copy the whole database with all saved labels. Works while it is served.

        Returns:
            The number of labels in the copy that count.

        Raises:
            StoreError: The database cannot be read, or the copy is damaged.
            OSError: The copy cannot be written.
        """
        with whole_file(target) as unfinished:
            unfinished.touch(0o600)
            with closing(sqlite3.connect(unfinished)) as copy, self._reading() as connection:
                with with_path_in_error(target):  # otherwise, the copied database is named
                    connection.backup(copy)
                check_whole(copy)
                (labels,) = copy.execute("SELECT count(*) FROM labelled").fetchone()
        return labels

    def rows(self, query: str, parameters: Mapping[str, Any] | None = None) -> list[sqlite3.Row]:
        """Return the committed rows of a query. Does not wait for writers.

        Args:
            query: SQL.
            parameters: Values of the query's parameters, by name.
        """
        with self._reading() as connection:
            return connection.execute(query, parameters or {}).fetchall()

    def setting(self, name: str) -> Any:
        """Return a value of the table ``settings``."""
        rows = self.rows("SELECT value FROM settings WHERE name = :name", {"name": name})
        return json.loads(rows[0]["value"])

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries in this context read the same state of the database."""
        with self._reading() as connection, connection:
            connection.execute("BEGIN")
            yield

    @contextmanager
    def writing(self, *, is_waited_for: bool = True) -> Iterator[sqlite3.Connection]:
        """Open an exclusive transaction, or continue that of this thread.

        The outer transaction decides when changes are stored.

        Args:
            is_waited_for: Whether the changes are on the disk when the context ends.
        """
        with self.lock, _storage_errors(self.path, _NOT_SAVED):
            if self._connection.in_transaction:
                yield self._connection
                return
            if _file_identity(self.path) != self._identity:
                raise StoreError(
                    f"{self.path}: moved, deleted or replaced while open, so nothing was saved. "
                    "Stop the server, restore the file and restart"
                )
            if is_waited_for:
                self._connection.execute("PRAGMA synchronous = FULL")
            else:
                self._connection.execute("PRAGMA synchronous = NORMAL")
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection

    def _open(self, connections: ExitStack, *, exclusive: bool) -> None:
        if not self.path.is_file():
            raise StoreError(f"{self.path}: no such database; create it with lmms-egoplan annotate")
        with _storage_errors(self.path, _NOT_READ):
            self._connection = connections.enter_context(closing(connect(self.path)))
            self._check_format()
            self._connection.execute("PRAGMA foreign_keys = ON")
            check_whole(self._connection)
            if exclusive:
                _check_single_name(self.path)
                # Merges a write-ahead log into the file.
                self._connection.execute("PRAGMA journal_mode = DELETE")
            self._identity = _file_identity(self.path)
            self._reader = connections.enter_context(closing(connect(self.path)))
            self._reader.execute("PRAGMA query_only = ON")
            self.study = Study(**self.setting("study"))

    def _check_format(self) -> None:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise StoreError(f"{self.path}: not a database of lmms-egoplan annotate")
        if version != FORMAT:
            writer = "a newer" if version > FORMAT else "an earlier"
            raise StoreError(
                f"{self.path}: created by {writer} lmms-egoplan, in format {version}; this "
                f"version reads format {FORMAT}. Export its labels with that version, or start "
                "with another --db"
            )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._reader_lock, _storage_errors(self.path, _NOT_READ):
            yield self._reader


@contextmanager
def _only_server(path: Path) -> Iterator[None]:
    """Lock a database against other servers. The lock ends with the process.

    Raises:
        StoreError: Another server has locked it.
    """
    database = path.resolve()
    with lock_file(database.with_name(f"{database.name}.lock")) as is_locked:
        if not is_locked:
            raise StoreError(f"{path}: in use by another server; stop that one first")
        yield


def _is_old(path: Path) -> bool:
    with _storage_errors(path, _NOT_READ):
        return conversion.is_old(path)


def _convert_if_old(path: Path) -> None:
    """Convert a database of an earlier format. The database is locked."""
    if not _is_old(path):
        return
    _check_single_name(path)
    with _storage_errors(path, _NOT_CONVERTED):
        conversion.convert(path)


def _check_single_name(path: Path) -> None:
    if path.stat().st_nlink > 1:
        raise StoreError(
            f"{path}: the file has a second name (a hard link), by which another server could open "
            f"it. Delete that name (find . -samefile {path.name}), or serve a copy"
        )


def add_people(connection: sqlite3.Connection, study: Study) -> None:
    """Add the lead, and those of the seniors and the study's people that do not exist yet."""
    _add_person(connection, LEAD, LEAD)
    for number in range(1, study.seniors + 1):
        _add_person(connection, f"senior-{number}", SENIOR)
    for name, group in study.names():
        _add_person(connection, name, ANNOTATOR, group)


def _add_person(connection: sqlite3.Connection, name: str, role: str, group: str = "") -> None:
    connection.execute(
        """
        INSERT INTO people (name, role, team, token)
        VALUES (:name, :role, :team, :token)
        ON CONFLICT (name) DO NOTHING
        """,
        {"name": name, "role": role, "team": group, "token": new_token()},
    )


def new_token() -> str:
    """Return the secret part of a new link."""
    return secrets.token_urlsafe(24)


def _file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if it does not exist."""
    with suppress(FileNotFoundError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


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
                f"{path}: the disk is full, so nothing was saved. Free some space, then send the "
                "form again"
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
            f"To copy what can be read: sqlite3 {path.name} .recover | sqlite3 recovered.sqlite"
        ) from error


def as_json(values: Mapping[str, Any]) -> str:
    """Return JSON that can be stored and shown, even if it contains unpaired surrogates."""
    return clean_text(json.dumps(values, ensure_ascii=False))


def now() -> str:
    """Return the current time in the stored format."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
