"""The database of labels: every label an appended row, and who is to label what.

SQLite with a write-ahead log. A label that `Store.save` has returned is on the disk.
"""

import json
import os
import random
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from statistics import median
from threading import RLock
from typing import Any

from lmms_egoplan.annotation.flow import ADJUDICATION, QUALIFICATION, Item, Label, Labelled, Stage
from lmms_egoplan.annotation.forms import Values
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text

# Raised when the tables change.
_FORMAT = 2
_APPLICATION_ID = 0x4C45414E
_BUSY_S = 30.0
_NOT_READ, _NOT_SAVED = "the database cannot be read", "nothing was saved now"
_GIVEN_BACK = "this item was given back and is not yours any more"
LEAD, SENIOR, ANNOTATOR = "lead", "senior", "annotator"

_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE people (name TEXT PRIMARY KEY, role TEXT NOT NULL, token TEXT NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE items (
    position INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, part TEXT NOT NULL, shown TEXT NOT NULL, hidden TEXT NOT NULL
);
CREATE TABLE slots (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL REFERENCES items, stage TEXT NOT NULL,
    person TEXT NOT NULL REFERENCES people, since TEXT NOT NULL, released TEXT
);
CREATE UNIQUE INDEX live_slots ON slots (item, person) WHERE released IS NULL;
CREATE INDEX slots_of ON slots (person);
CREATE INDEX adjudications ON slots (item) WHERE stage = 'adjudication';
CREATE TABLE labels (
    id INTEGER PRIMARY KEY AUTOINCREMENT, slot INTEGER NOT NULL REFERENCES slots, form TEXT NOT NULL,
    choices TEXT, comment TEXT NOT NULL, seconds REAL, at TEXT NOT NULL
);
CREATE INDEX labels_of ON labels (slot);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, person TEXT NOT NULL REFERENCES people, senior TEXT NOT NULL,
    passed INTEGER NOT NULL, comment TEXT NOT NULL, at TEXT NOT NULL
);
CREATE VIEW counting AS
    SELECT labels.*, slots.item, slots.stage, slots.person FROM labels JOIN slots ON slots.id = labels.slot
    WHERE labels.choices IS NOT NULL AND labels.id = (SELECT max(id) FROM labels AS own WHERE own.slot = slots.id);
CREATE VIEW decided AS SELECT item FROM counting WHERE stage = 'adjudication';
CREATE VIEW failed AS
    SELECT DISTINCT person FROM verdicts WHERE NOT passed AND id = (
        SELECT max(id) FROM verdicts AS own WHERE own.person = verdicts.person AND own.senior = verdicts.senior
    );
CREATE VIEW taken AS SELECT * FROM slots WHERE released IS NULL AND person NOT IN (SELECT person FROM failed);
CREATE TRIGGER labels_stay BEFORE UPDATE ON labels BEGIN SELECT raise(ABORT, 'labels are only appended'); END;
CREATE TRIGGER labels_are_kept BEFORE DELETE ON labels BEGIN SELECT raise(ABORT, 'labels are only appended'); END;
"""


class StoreError(LmmsEgoplanError):
    """The database cannot be read or written; whatever was saved before is still there."""


class NotYoursError(LmmsEgoplanError):
    """A person asks for something that is not theirs, or no longer open."""


@dataclass(frozen=True)
class Settings:
    """How a database is used; as it was made.

    annotators: how many there are; more may come later.
    per_item: annotators of each item in stages that do not say otherwise.
    qualification: items that every annotator labels first, until the seniors let them go on; 0 for none.
    seniors: who review these.
    options: of the benchmark's own command; JSON.
    """

    benchmark: str
    annotators: int
    per_item: int
    qualification: int = 0
    seniors: int = 0
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Person:
    """Who may open the page, and how.

    role: `LEAD`, `SENIOR` or `ANNOTATOR`.
    token: what their link holds; a secret.
    """

    name: str
    role: str
    token: str


@dataclass(frozen=True)
class Slot:
    """One item that one person labels in one stage.

    earlier: of each stage before, the values that count.
    values, comment: of the person's last label, be it withdrawn; None and "" before the first.
    """

    id: int
    position: int
    item: Item
    stage: str
    person: str
    earlier: tuple[Values, ...]
    values: Values | None
    comment: str


@dataclass(frozen=True)
class Progress:
    """How far a person is.

    labelled: items that have their label.
    state: ``working``, or why there is nothing to do: ``waiting`` (for the seniors), ``failed``, ``finished``.
    seconds: median time of a label; None without one.
    """

    person: str
    role: str
    labelled: int
    state: str
    seconds: float | None


def create(path: Path, settings: Settings, items: Sequence[Item], stages: Sequence[Stage], seed: int = 0) -> None:
    """Make a new database, whole or not at all.

    Args:
        stages: of the benchmark's flow.
        items: stored in an order drawn from `seed`; the first `settings.qualification` of it serve for that.

    Raises:
        StoreError: it is there already, or cannot be written.
        LmmsEgoplanError: no items, two with one id, or too few annotators for each item.
    """
    _check(settings, items, stages)
    order = list(items)
    random.Random(seed).shuffle(order)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with _storage_errors(path, _NOT_SAVED):
            connection = sqlite3.connect(unfinished, isolation_level=None)
            try:
                connection.executescript(
                    f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_FORMAT}; BEGIN; {_TABLES}"
                )
                stored = asdict(settings) | {
                    "items": digest(items),
                    "secret": secrets.token_hex(32),
                    "made": _now(),
                    "seed": seed,
                }
                connection.executemany(
                    "INSERT INTO settings VALUES (?, ?)", [(name, json.dumps(value)) for name, value in stored.items()]
                )
                connection.executemany(
                    "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
                    [
                        (
                            position,
                            clean_text(item.id),
                            QUALIFICATION if position < settings.qualification else "main",
                            _text(item.shown),
                            _text(item.hidden),
                        )
                        for position, item in enumerate(order)
                    ],
                )
                _add_people(connection, settings.annotators, settings.seniors)
                connection.execute("COMMIT")
                connection.execute("PRAGMA journal_mode = WAL")
            finally:
                connection.close()
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise StoreError(f"{path}: is there already") from None
        except OSError:  # A file system without links.
            if path.exists():
                raise StoreError(f"{path}: is there already") from None
            unfinished.replace(path)
    finally:
        with suppress(FileNotFoundError):
            unfinished.unlink()


def benchmark_of(path: Path) -> str:
    """The benchmark whose items a database has.

    Raises:
        StoreError: as for `Store`.
    """
    store = Store(path, ())
    try:
        return store.settings.benchmark
    finally:
        store.close()


def digest(items: Sequence[Item]) -> str:
    """Another text for other items; their order and what is `Item.changing` do not matter."""
    contents = sorted(
        json.dumps(
            [
                item.id,
                *(
                    {name: value for name, value in values.items() if name not in item.changing}
                    for values in (item.shown, item.hidden)
                ),
            ],
            sort_keys=True,
        )
        for item in items
    )
    return sha256("\n".join(contents).encode()).hexdigest()


class Store:
    """An open database, for several threads of one process.

    All methods raise `StoreError` where the database cannot be read or written.
    """

    def __init__(self, path: Path, stages: Sequence[Stage], *, alone: bool = False) -> None:
        """Open a database.

        Args:
            stages: of its benchmark's flow.
            alone: refuse where another process has it open in this way, as a server does.

        Raises:
            StoreError: it is absent, damaged, of another version, or in use.
        """
        self.path = path
        self._stages = tuple(stages)
        self._lock = RLock()
        self._reader_lock = RLock()
        self._guard = _hold(path) if alone else None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database; it can then be opened by another server."""
        for connection in (getattr(self, "_reader", None), getattr(self, "_connection", None), self._guard):
            if connection is not None:
                connection.close()

    @cached_property
    def secret(self) -> str:
        """Of this database, for what its pages sign."""
        return self._setting("secret")

    @cached_property
    def mark(self) -> str:
        """Of this database, for all to see: tells it from others that were served at the same address."""
        return sha256(self.secret.encode()).hexdigest()[:12]

    def renew_items(self, items: Sequence[Item], where: str) -> None:
        """Check that the database was made of these items, and take over what is `Item.changing` in them.

        Raises:
            StoreError: it was made of others.
        """
        if digest(items) != self._setting("items"):
            raise StoreError(
                f"{where}: the items are not those that {self.path} was made of. Its labels are untouched. Give the "
                "items as they were, or another --db for the new ones"
            )
        kept = {item.id: item for item in self.items()}
        renewed = [(_text(item.shown), _text(item.hidden), clean_text(item.id)) for item in items]
        changed = [row for row in renewed if row[:2] != (_text(kept[row[2]].shown), _text(kept[row[2]].hidden))]
        if changed:
            with self._writing() as connection:
                connection.executemany("UPDATE items SET shown = ?, hidden = ? WHERE id = ?", changed)

    def add_annotators(self, annotators: int) -> None:
        """Add people until there are so many.

        Raises:
            LmmsEgoplanError: there are more already.
        """
        if annotators < self.settings.annotators:
            raise LmmsEgoplanError(
                f"--annotators {annotators}: {self.path} has {self.settings.annotators} already; people are only added"
            )
        with self._writing() as connection:
            _add_people(connection, annotators, self.settings.seniors)
            connection.execute("UPDATE settings SET value = ? WHERE name = 'annotators'", (json.dumps(annotators),))
        self.settings = self._settings()

    def people(self) -> list[Person]:
        """The lead, seniors and annotators, in this order."""
        rows = self._rows("SELECT name, role, token FROM people")
        roles = (LEAD, SENIOR, ANNOTATOR)
        return sorted(
            (Person(*row) for row in rows), key=lambda person: (roles.index(person.role), len(person.name), person.name)
        )

    def items(self) -> list[Item]:
        """In the order in which they are labelled."""
        return [_item(*row) for row in self._rows("SELECT id, shown, hidden FROM items ORDER BY position")]

    def item(self, position: int) -> Item:
        """An item by its place.

        Raises:
            NotYoursError: there is none.
        """
        for row in self._rows("SELECT id, shown, hidden FROM items WHERE position = ?", position):
            return _item(*row)
        raise NotYoursError("there is no such item")

    def num_items(self) -> int:
        """How many there are."""
        return self._rows("SELECT count(*) FROM items")[0][0]

    def num_labelled(self, person: str) -> int:
        """Labels of a person that count."""
        return self._rows("SELECT count(*) FROM counting WHERE person = ?", person)[0][0]

    def positions(self) -> dict[str, int]:
        """By item id, its place."""
        return dict(self._rows("SELECT id, position FROM items"))

    def next_slot(self, person: str) -> Slot | None:
        """What a person is to label: what is open for them, else the next item, which is then theirs.

        None where there is nothing, for now or for good; `progress` tells which.
        """
        with self._lock:
            number = self._open_slot(person)
            if number is None:
                # Not waited for: a label of it, which is, brings it to the disk.
                with self._writing(is_waited_for=False) as connection:
                    number = self._claim(connection, person)
        return None if number is None else self.slot(number, person)

    def upcoming(self, person: str) -> tuple[Item, tuple[Values, ...]] | None:
        """What a person would take if they had nothing open, with what stages before have made of it; not taken."""
        with self._reading() as connection:
            free = self._free(connection, person)
        return None if free is None else (self.item(free[0]), self._earlier(*free))

    def slot(self, number: int, person: str) -> Slot:
        """A slot of a person.

        Raises:
            NotYoursError: there is none of theirs with this number.
        """
        rows = self._rows(
            "SELECT slots.released, slots.stage, items.position, items.id, items.shown, items.hidden FROM slots JOIN "
            "items ON items.position = slots.item WHERE slots.id = ? AND slots.person = ?",
            number,
            person,
        )
        if not rows:
            raise NotYoursError("this item is not yours to label")
        ((released, stage, position, *item),) = rows
        if released:
            raise NotYoursError(_GIVEN_BACK)
        last = self._rows(
            "SELECT choices, comment FROM labels WHERE slot = ? AND choices IS NOT NULL ORDER BY id DESC LIMIT 1",
            number,
        )
        values, comment = (json.loads(last[0][0]), last[0][1]) if last else (None, "")
        earlier = self._earlier(position, stage)
        return Slot(number, position, _item(*item), stage, person, earlier, values, comment)

    def save(self, slot: Slot, form: str, values: Values, comment: str = "", seconds: float | None = None) -> bool:
        """Append a label; it is on the disk when this returns.

        Args:
            form: a text of the form that was sent. If it comes twice in a row with the same values and comment, the
                second is not stored; with others, it is a correction.

        Returns:
            Whether it was stored.

        Raises:
            NotYoursError: the slot is gone, the lead has decided, or a later stage of the item has begun.
        """
        sent = (form, _text(values), clean_text(comment))
        with self._writing() as connection:
            last = "SELECT form, choices, comment FROM labels WHERE slot = ? ORDER BY id DESC LIMIT 1"
            if connection.execute(last, (slot.id,)).fetchone() == sent:
                return False
            self._check_open(connection, slot)
            connection.execute(
                "INSERT INTO labels (slot, form, choices, comment, seconds, at) VALUES (?, ?, ?, ?, ?, ?)",
                (slot.id, *sent, seconds, _now()),
            )
        return True

    def undo(self, person: str) -> bool:
        """Withdraw a person's last label: a row is appended that says so, and the item is open for them again.

        Returns:
            Whether there was one.

        Raises:
            NotYoursError: the lead has decided, or a later stage of the item has begun.
        """
        rows = self._rows(
            "SELECT slot FROM counting WHERE person = ? AND stage != ? ORDER BY id DESC LIMIT 1", person, ADJUDICATION
        )
        if not rows:
            return False
        slot = self.slot(rows[0][0], person)
        with self._writing() as connection:
            self._check_open(connection, slot)
            _withdraw(connection, slot.id)
        return True

    def undo_decision(self, position: int) -> bool:
        """Withdraw what the lead has decided on an item; its annotators may change their labels again.

        Returns:
            Whether there was a decision.
        """
        with self._writing() as connection:
            rows = connection.execute(
                "SELECT slot FROM counting WHERE item = ? AND stage = ?", (position, ADJUDICATION)
            ).fetchall()
            for (slot,) in rows:
                _withdraw(connection, slot)
        return bool(rows)

    def release(self, person: str) -> int:
        """Give back what is open for a person, for others to take; returns how many items.

        Open is what has no label, or one that was withdrawn.
        """
        with self._writing() as connection:
            return connection.execute(
                "UPDATE slots SET released = ? WHERE person = ? AND released IS NULL AND NOT EXISTS "
                "(SELECT 1 FROM counting WHERE counting.slot = slots.id)",
                (_now(), person),
            ).rowcount

    def adjudicate(self, position: int, lead: str) -> Slot:
        """The lead's slot of an item.

        Raises:
            NotYoursError: the item does not have all of its labels.
        """
        self.item(position)
        slot = "SELECT id FROM slots WHERE item = ? AND stage = ? AND released IS NULL"
        with self._writing() as connection:
            self._check_complete(connection, position)
            if not connection.execute(slot, (position, ADJUDICATION)).fetchone():
                _take(connection, position, ADJUDICATION, lead)
            (number,) = connection.execute(slot, (position, ADJUDICATION)).fetchone()
        return self.slot(number, lead)

    def judge_qualification(self, person: str, senior: str, passed: bool, comment: str) -> None:
        """Append a senior's verdict on a person's qualification.

        Raises:
            NotYoursError: the person is still at it.
        """
        if self._standing(person) == "unqualified":
            raise NotYoursError(f"{person} has not labelled all items of the qualification yet")
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO verdicts (person, senior, passed, comment, at) VALUES (?, ?, ?, ?, ?)",
                (person, senior, passed, comment, _now()),
            )

    def verdicts(self, person: str) -> dict[str, bool]:
        """By senior, the last verdict on a person's qualification."""
        rows = self._rows("SELECT senior, passed FROM verdicts WHERE person = ? ORDER BY id", person)
        return {senior: bool(passed) for senior, passed in rows}

    def labelled(self) -> Labelled:
        """All items with the labels that count."""
        with self._snapshot():
            labels: dict[str, list[Label]] = {}
            for item, stage, person, values, comment, seconds, at in self._rows(
                "SELECT items.id, stage, person, choices, comment, seconds, at FROM counting JOIN items ON "
                "items.position = counting.item ORDER BY counting.id"
            ):
                label = Label(item, stage, person, json.loads(values), comment, seconds, at)
                labels.setdefault(item, []).append(label)
            annotators = [person.name for person in self.people() if person.role == ANNOTATOR]
            served = frozenset(row[0] for row in self._rows("SELECT id FROM items WHERE part = ?", QUALIFICATION))
            return Labelled(
                self.items(),
                labels,
                annotators,
                [person for person in annotators if self._standing(person) == "passed"],
                served,
                self.settings.per_item,
                self.settings.options or {},
            )

    def progress(self) -> list[Progress]:
        """Of every annotator."""
        found = []
        for person in self.people():
            if person.role != ANNOTATOR:
                continue
            rows = self._rows("SELECT seconds FROM counting WHERE person = ?", person.name)
            times = [seconds for (seconds,) in rows if seconds is not None]
            middle = median(times) if times else None
            found.append(Progress(person.name, person.role, len(rows), self.state(person.name), middle))
        return found

    def state(self, person: str) -> str:
        """As `Progress.state`."""
        standing = self._standing(person)
        if standing in ("waiting", "failed"):
            return standing
        with self._reading() as connection:
            is_busy = self._open_slot(person) is not None or self._free(connection, person) is not None
            return "working" if is_busy else "finished"

    def num_needed(self, stage: str) -> int:
        """Labels that an item needs in a stage."""
        if stage == QUALIFICATION:
            return self.settings.annotators
        own = next((known.per_item for known in self._stages if known.name == stage), 1)
        return self.settings.per_item if own is None else own

    def _open(self) -> None:
        if not self.path.is_file():
            raise StoreError(f"{self.path}: no such database; --items makes one")
        with _storage_errors(self.path, _NOT_READ):
            self._connection = _connect(self.path)
            (application,) = self._connection.execute("PRAGMA application_id").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            if application != _APPLICATION_ID:
                raise StoreError(f"{self.path}: no database of lmms-egoplan annotate")
            if version != _FORMAT:
                writer = "a newer" if version > _FORMAT else "an earlier"
                raise StoreError(
                    f"{self.path}: {writer} version of lmms-egoplan made it, in format {version}; this version reads "
                    f"format {_FORMAT}. Export its labels with that version, or begin with another --db"
                )
            self._connection.execute("PRAGMA foreign_keys = ON")
            problems = [row[0] for row in self._connection.execute("PRAGMA quick_check(3)")]
            if problems != ["ok"]:
                raise sqlite3.DatabaseError(problems[0])
            self._reader = _connect(self.path)
            self._reader.execute("PRAGMA query_only = ON")
            self.settings = self._settings()

    def _settings(self) -> Settings:
        stored = {name: json.loads(value) for name, value in self._rows("SELECT name, value FROM settings")}
        return Settings(**{name: stored[name] for name in Settings.__dataclass_fields__})

    def _setting(self, name: str) -> Any:
        ((value,),) = self._rows("SELECT value FROM settings WHERE name = ?", name)
        return json.loads(value)

    def _open_slot(self, person: str) -> int | None:
        rows = self._rows(
            "SELECT id FROM taken WHERE person = ? AND stage != ? AND item NOT IN (SELECT item FROM decided) AND "
            "NOT EXISTS (SELECT 1 FROM counting WHERE counting.slot = taken.id) ORDER BY id LIMIT 1",
            person,
            ADJUDICATION,
        )
        return rows[0][0] if rows else None

    def _claim(self, connection: sqlite3.Connection, person: str) -> int | None:
        free = self._free(connection, person)
        if free is None:
            return None
        return _take(connection, *free, person)

    def _free(self, connection: sqlite3.Connection, person: str) -> tuple[int, str] | None:
        """The item and stage that a person takes next: later stages first, items that others have begun first."""
        standing = self._standing(person)
        if standing in ("waiting", "failed"):
            return None
        if standing == "unqualified":
            return self._free_in(connection, person, QUALIFICATION, QUALIFICATION, ())
        for index in reversed(range(len(self._stages))):
            before = [stage.name for stage in self._stages[:index]]
            if found := self._free_in(connection, person, "main", self._stages[index].name, before):
                return found
        return None

    def _free_in(
        self, connection: sqlite3.Connection, person: str, part: str, stage: str, before: Sequence[str]
    ) -> tuple[int, str] | None:
        ready = " AND (SELECT count(*) FROM counting WHERE counting.item = items.position AND counting.stage = ?) >= ?"
        counts = [value for name in before[-1:] for value in (name, self.num_needed(name))]
        fits = (
            "items.part = ? AND items.position NOT IN (SELECT item FROM decided) AND NOT EXISTS (SELECT 1 FROM slots "
            "WHERE slots.item = items.position AND slots.person = ? AND slots.released IS NULL)"
            f"{ready if counts else ''}"
        )
        row = connection.execute(
            "SELECT items.position FROM (SELECT item, count(*) AS number FROM taken WHERE stage = ? GROUP BY item "
            f"HAVING number < ?) JOIN items ON items.position = item WHERE {fits} "
            "ORDER BY number DESC, items.position LIMIT 1",
            (stage, self.num_needed(stage), part, person, *counts),
        ).fetchone()
        row = (
            row
            or connection.execute(
                f"SELECT items.position FROM items WHERE {fits} AND NOT EXISTS (SELECT 1 FROM taken WHERE "
                "taken.item = items.position AND taken.stage = ?) ORDER BY items.position LIMIT 1",
                (part, person, *counts, stage),
            ).fetchone()
        )
        return None if row is None else (row[0], stage)

    def _standing(self, person: str) -> str:
        """``passed``, ``unqualified`` (still at it), ``waiting`` for the seniors, or ``failed``."""
        if not self.settings.qualification:
            return "passed"
        ((done,),) = self._rows("SELECT count(*) FROM counting WHERE person = ? AND stage = ?", person, QUALIFICATION)
        if done < self.settings.qualification:
            return "unqualified"
        verdicts = self.verdicts(person)
        if not all(verdicts.values()):
            return "failed"
        return "passed" if len(verdicts) >= self.settings.seniors else "waiting"

    def _earlier(self, position: int, stage: str) -> tuple[Values, ...]:
        names = [known.name for known in self._stages]
        before = names[: names.index(stage)] if stage in names else names[:-1] if stage == ADJUDICATION else []
        rows = self._rows("SELECT stage, choices FROM counting WHERE item = ? ORDER BY id", position)
        values = {name: json.loads(choices) for name, choices in reversed(rows)}
        return tuple(values[name] for name in before if name in values)

    def _check_open(self, connection: sqlite3.Connection, slot: Slot) -> None:
        live = "SELECT 1 FROM slots WHERE id = ? AND person = ? AND released IS NULL"
        if not connection.execute(live, (slot.id, slot.person)).fetchone():
            raise NotYoursError(_GIVEN_BACK)
        if slot.stage == ADJUDICATION:
            self._check_complete(connection, slot.position)
            return
        if slot.stage == QUALIFICATION and self.verdicts(slot.person):
            raise NotYoursError("your qualification has been reviewed; its labels stay as they are")
        if connection.execute("SELECT 1 FROM failed WHERE person = ?", (slot.person,)).fetchone():
            raise NotYoursError("the seniors have not let your qualification pass, so your labels are not taken")
        if connection.execute("SELECT 1 FROM decided WHERE item = ?", (slot.position,)).fetchone():
            raise NotYoursError("the lead has decided on this item, so its labels stay as they are")
        names = [stage.name for stage in self._stages]
        later = names[names.index(slot.stage) + 1 :] if slot.stage in names else []
        marks = ", ".join("?" * len(later))
        begun = f"SELECT 1 FROM slots WHERE item = ? AND released IS NULL AND stage IN ({marks})"
        if connection.execute(begun, (slot.position, *later)).fetchone():
            raise NotYoursError("another person works on this item already, so your label stays as it is")

    def _check_complete(self, connection: sqlite3.Connection, position: int) -> None:
        """The lead decides on items that have all of their labels, by people who have not failed."""
        number = (
            "SELECT count(*) FROM counting WHERE item = ? AND stage = ? AND person NOT IN (SELECT person FROM failed)"
        )
        for stage in self._stages:
            ((given,),) = connection.execute(number, (position, stage.name))
            if given < (needed := self.num_needed(stage.name)):
                raise NotYoursError(
                    f"this item has {given} of {needed} labels ({stage.title}); decide when it has all of them"
                )

    def _rows(self, query: str, *values: Any) -> list[tuple]:
        with self._reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """What is committed; does not wait for those who write."""
        with self._reader_lock, _storage_errors(self.path, _NOT_READ):
            yield self._reader

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Several readings of one state."""
        with self._reading() as connection:
            connection.execute("BEGIN")
            try:
                yield
            finally:
                connection.execute("COMMIT")

    @contextmanager
    def _writing(self, is_waited_for: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction, which no other process can be in; on the disk in the end, if that is waited for."""
        with self._lock, _storage_errors(self.path, _NOT_SAVED):
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_waited_for else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk has ended the transaction already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _check(settings: Settings, items: Sequence[Item], stages: Sequence[Stage]) -> None:
    if not items:
        raise LmmsEgoplanError("there are no items to label")
    if len({item.id for item in items}) < len(items):
        twice = next(item.id for index, item in enumerate(items) if item.id in {other.id for other in items[:index]})
        raise LmmsEgoplanError(f"item {twice!r} is there twice; remove one")
    needed = sum(settings.per_item if stage.per_item is None else stage.per_item for stage in stages)
    if settings.per_item < 1 or needed > settings.annotators:
        raise LmmsEgoplanError(f"each item needs {needed} annotators and there are {settings.annotators}; give more")
    if settings.qualification and len(stages) > 1:
        raise LmmsEgoplanError("a qualification serves items that are labelled in one stage, and these have several")
    if settings.qualification >= len(items):
        raise LmmsEgoplanError(
            f"--qualification {settings.qualification}: there are {len(items)} items in all; give fewer, or 0 for none"
        )


def _add_people(connection: sqlite3.Connection, annotators: int, seniors: int) -> None:
    people = [(LEAD, LEAD)]
    people += [(f"senior-{number}", SENIOR) for number in range(1, seniors + 1)]
    people += [(f"annotator-{number}", ANNOTATOR) for number in range(1, annotators + 1)]
    connection.executemany(
        "INSERT INTO people VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
        [(name, role, secrets.token_urlsafe(24)) for name, role in people],
    )


def _take(connection: sqlite3.Connection, position: int, stage: str, person: str) -> int | None:
    """A new slot."""
    return connection.execute(
        "INSERT INTO slots (item, stage, person, since) VALUES (?, ?, ?, ?)", (position, stage, person, _now())
    ).lastrowid


def _withdraw(connection: sqlite3.Connection, slot: int) -> None:
    """Append the row that withdraws a slot's label."""
    connection.execute(
        "INSERT INTO labels (slot, form, choices, comment, at) VALUES (?, '', NULL, '', ?)", (slot, _now())
    )


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _hold(path: Path) -> sqlite3.Connection:
    """Keeps a second server off; the system lets go of it when the process ends, however it does."""
    lock = path.resolve()
    guard = sqlite3.connect(
        lock.with_name(f"{lock.name}.lock"), timeout=0, isolation_level=None, check_same_thread=False
    )
    try:
        guard.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        guard.close()
        raise StoreError(f"{path}: another server has it open; stop that one first") from error
    return guard


@contextmanager
def _storage_errors(path: Path, what: str) -> Iterator[None]:
    """Tells of SQLite's errors.

    Args:
        what: has come of it, where the database is not damaged.
    """
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            raise StoreError(
                f"{path}: the disk is full, so nothing was saved now. Make room, then send it again"
            ) from error
        if isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError):
            name = getattr(error, "sqlite_errorname", "")
            advice = ""
            if what == _NOT_READ and name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                advice = ". Even to read it, SQLite writes files beside it: copy it to a folder that you may write"
            raise StoreError(f"{path}: {what}: {error}{advice}") from error
        raise StoreError(
            f"{path}: the database is damaged ({error}). Leave it as it is, with the -wal file beside it, and copy "
            f"what can be read: sqlite3 {path.name} .recover | sqlite3 recovered.sqlite"
        ) from error


def _text(values: Mapping[str, Any]) -> str:
    """As JSON that can be stored and shown, whatever halves of surrogate pairs there are."""
    return clean_text(json.dumps(values, ensure_ascii=False))


def _item(item_id: str, shown: str, hidden: str) -> Item:
    return Item(item_id, json.loads(shown), json.loads(hidden))


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
