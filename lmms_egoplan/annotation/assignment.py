"""Who is to label what: items taken, given back and free, and people's standing."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from lmms_egoplan.annotation.database import QUERIES, Database, now
from lmms_egoplan.annotation.flow import ADJUDICATION, QUALIFICATION, Item, Stage
from lmms_egoplan.annotation.forms import Values
from lmms_egoplan.errors import LmmsEgoplanError

_GIVEN_BACK = "this item was given back and is not yours any more"


class NotYoursError(LmmsEgoplanError):
    """A person asks for something that is not theirs, or no longer open."""


class NewerLabelError(LmmsEgoplanError):
    """A label was saved after the form was shown that would replace it."""


@dataclass(frozen=True)
class Slot:
    """One item that one person labels in one stage.

    earlier: of each stage before, the values that count.
    values, comment: of the person's last label, be it withdrawn; None and "" before the first.
    last: number of what the person last saved of it, be it a label, a skip or a withdrawal; 0 before the first.
    skipped: why the person skipped it; None if they did not.
    """

    id: int
    position: int
    item: Item
    stage: str
    person: str
    earlier: tuple[Values, ...]
    values: Values | None
    comment: str
    last: int = 0
    skipped: str | None = None


class Assignments:
    """What each person of a database has to label.

    Args:
        stages: of the database's flow.
    """

    def __init__(self, database: Database, stages: Sequence[Stage]) -> None:
        self._database, self._stages = database, tuple(stages)
        # By person, stage and query, an item before which nothing is free for them.
        self._first_free: dict[tuple[str, str, str], int] = {}

    def item(self, position: int) -> Item:
        """Return the item at a position.

        Raises:
            NotYoursError: there is none.
        """
        for row in self._database.rows("SELECT id, shown, hidden FROM items WHERE position = ?", position):
            return as_item(*row)
        raise NotYoursError("there is no such item")

    def next_slot(self, person: str) -> Slot | None:
        """Return what is open for a person, else assign them the next item.

        None if there is nothing, for now or for good; see `state`.
        """
        with self._database.lock:
            number = self._open_slot(person)
            if number is None:
                # Not waited for: a label of it, which is, brings it to the disk.
                with self._database.writing(is_waited_for=False) as connection:
                    free = self._free(person)
                    number = None if free is None else take(connection, *free, person)
        return None if number is None else self.slot(number, person)

    def upcoming(self, person: str) -> tuple[Item, tuple[Values, ...]] | None:
        """Return the item that a person would take next, with the values of earlier stages; it is not taken."""
        free = self._free(person)
        return None if free is None else (self.item(free[0]), self._earlier(*free))

    def slot(self, number: int, person: str) -> Slot:
        """Return a slot of a person.

        Raises:
            NotYoursError: there is none of theirs with this number.
        """
        rows = self._database.rows(QUERIES["slot"], number, person)
        if not rows:
            raise NotYoursError("this item is not yours to label")
        ((released, skipped, newest, stage, position, *item),) = rows
        if released:
            raise NotYoursError(_GIVEN_BACK)
        last = self._database.rows(QUERIES["last_label"], number)
        values, comment = (json.loads(last[0][0]), last[0][1]) if last else (None, "")
        earlier = self._earlier(position, stage)
        return Slot(number, position, as_item(*item), stage, person, earlier, values, comment, newest or 0, skipped)

    def num_needed(self, stage: str) -> int:
        """Return how many labels an item needs in a stage."""
        if stage == QUALIFICATION:
            return self._database.settings.annotators
        return next((self._database.settings.needed(known) for known in self._stages if known.name == stage), 1)

    def release(self, person: str) -> int:
        """Give back a person's items that have no label, or a withdrawn one; return how many."""
        with self._database.writing() as connection:
            self.search_from()
            return connection.execute(QUERIES["release"], (now(), person)).rowcount

    def verdicts(self, person: str) -> dict[str, bool]:
        """Return the last verdict on a person's qualification, by senior."""
        rows = self._database.rows("SELECT senior, passed FROM verdicts WHERE person = ? ORDER BY id", person)
        return {senior: bool(passed) for senior, passed in rows}

    def state(self, person: str) -> str:
        """Return ``working``, or why there is nothing to do: ``waiting`` (for seniors), ``failed`` or ``finished``."""
        standing = self.standing(person)
        if standing in ("waiting", "failed"):
            return standing
        is_busy = self._open_slot(person) is not None or self._free(person) is not None
        return "working" if is_busy else "finished"

    def _open_slot(self, person: str) -> int | None:
        rows = self._database.rows(QUERIES["open_slot"], person)
        return rows[0][0] if rows else None

    def _free(self, person: str) -> tuple[int, str] | None:
        """Find the item and stage that a person takes next: later stages first, last what they gave back."""
        standing = self.standing(person)
        if standing in ("waiting", "failed"):
            return None
        stages = [(stage.name, "main") for stage in reversed(self._stages)]
        if standing == "unqualified":
            stages = [(QUALIFICATION, QUALIFICATION)]
        with self._database.lock:
            for query in ("free_new", "free_again"):
                for stage, part in stages:
                    place = (person, stage, query)
                    rows = self._database.rows(QUERIES[query], stage, part, self._first_free.get(place, 0), person)
                    if rows:
                        self._first_free[place] = rows[0][0]
                        return rows[0][0], stage
        return None

    def search_from(self, position: int = 0) -> None:
        """Search for free items from this one on, or from an earlier one: it has changed."""
        self._first_free = {place: min(first, position) for place, first in self._first_free.items()}

    def standing(self, person: str) -> str:
        """Return ``passed``, ``unqualified`` (not done yet), ``waiting`` for the seniors, or ``failed``."""
        if not self._database.settings.qualification:
            return "passed"
        ((done,),) = self._database.rows(QUERIES["num_qualifying"], person)
        if done < self._database.settings.qualification:
            return "unqualified"
        verdicts = self.verdicts(person)
        if not all(verdicts.values()):
            return "failed"
        return "passed" if len(verdicts) >= self._database.settings.seniors else "waiting"

    def _earlier(self, position: int, stage: str) -> tuple[Values, ...]:
        names = [known.name for known in self._stages]
        before = names[: names.index(stage)] if stage in names else names[:-1] if stage == ADJUDICATION else []
        rows = self._database.rows("SELECT stage, choices FROM counting WHERE item = ? ORDER BY id", position)
        values = {name: json.loads(choices) for name, choices in reversed(rows)}
        return tuple(values[name] for name in before if name in values)

    def check_open(self, connection: sqlite3.Connection, slot: Slot) -> None:
        """Check that a slot's label may still be given, changed or withdrawn.

        Raises:
            NotYoursError: it may not; says why.
        """
        live = "SELECT 1 FROM slots WHERE id = ? AND person = ? AND released IS NULL"
        if not connection.execute(live, (slot.id, slot.person)).fetchone():
            raise NotYoursError(_GIVEN_BACK)
        if slot.stage == ADJUDICATION:
            self.check_complete(connection, slot.position)
            return
        if slot.stage == QUALIFICATION and self.verdicts(slot.person):
            raise NotYoursError("your qualification has been reviewed; its labels stay as they are")
        if connection.execute("SELECT 1 FROM failed WHERE person = ?", (slot.person,)).fetchone():
            raise NotYoursError("the seniors have not let your qualification pass, so your labels are not taken")
        if connection.execute("SELECT 1 FROM decided WHERE item = ?", (slot.position,)).fetchone():
            raise NotYoursError("the lead has decided on this item, so its labels stay as they are")
        full = "SELECT 1 FROM places WHERE item = ? AND stage = ? AND taken >= needed"
        if slot.skipped and connection.execute(full, (slot.position, slot.stage)).fetchone():
            raise NotYoursError("you skipped this item, and another person has it now")
        names = [stage.name for stage in self._stages]
        later = names[names.index(slot.stage) + 1 :] if slot.stage in names else []
        marks = ", ".join("?" * len(later))
        begun = f"SELECT 1 FROM slots WHERE item = ? AND released IS NULL AND stage IN ({marks})"
        if connection.execute(begun, (slot.position, *later)).fetchone():
            raise NotYoursError("another person works on this item already, so your label stays as it is")

    def check_complete(self, connection: sqlite3.Connection, position: int) -> None:
        """Check that the lead may decide on an item: it was skipped, or has all labels by people who have not failed.

        Raises:
            NotYoursError: it does not.
        """
        skipped = "SELECT 1 FROM slots WHERE item = ? AND skipped IS NOT NULL AND released IS NULL"
        if connection.execute(skipped, (position,)).fetchone():
            return
        for stage in self._stages:
            ((given,),) = connection.execute(QUERIES["num_counting"], (position, stage.name))
            if given < (needed := self.num_needed(stage.name)):
                raise NotYoursError(
                    f"this item has {given} of {needed} labels ({stage.title}); decide when it has all of them"
                )


def take(connection: sqlite3.Connection, position: int, stage: str, person: str) -> int:
    """Make a slot; return its number."""
    row = (position, stage, person, now())
    number = connection.execute("INSERT INTO slots (item, stage, person, since) VALUES (?, ?, ?, ?)", row).lastrowid
    assert number is not None
    return number


def as_item(item_id: str, shown: str, hidden: str) -> Item:
    """Read an item from its row."""
    return Item(item_id, json.loads(shown), json.loads(hidden))
