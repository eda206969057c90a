"""Assign items to people: take, release and count slots, and track qualifications."""

import json
import sqlite3
from dataclasses import dataclass
from itertools import product

from lmms_egoplan.annotation.database import QUERIES, Database, now
from lmms_egoplan.annotation.flow import ADJUDICATION, Item
from lmms_egoplan.annotation.forms import Values
from lmms_egoplan.annotation.study import GOLD, MAIN, QUALIFICATION, TRAINING
from lmms_egoplan.errors import LmmsEgoplanError

_RELEASED = "this item was released and is no longer yours"


class NotYoursError(LmmsEgoplanError):
    """A person requests an item that is not assigned to them, or is no longer open."""


class NewerLabelError(LmmsEgoplanError):
    """A newer label was saved after the form was shown."""


@dataclass(frozen=True)
class Slot:
    """One item that one person labels in one stage.

    Attributes:
        id: Number of the slot.
        position: Position of the item.
        item: The item to label.
        stage: Name of the stage.
        person: Name of the person.
        earlier: See `Flow.form`.
        values: Values of the person's last label, even if withdrawn. Before the first,
            `Item.initial` in the first round, else None.
        comment: Comment of that label; "" before the first.
        last: Number of the person's last saved row (label, skip or withdrawal); 0 before the first.
        skipped: Reason for skipping the item; None if it is not skipped.
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
    """Decide which items each person of a database labels."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # By person, stage and query: no item before this position is free for that person.
        self._first_free: dict[tuple[str, str, str], int] = {}

    def item(self, position: int) -> Item:
        """Return the item at a position.

        Raises:
            NotYoursError: There is no such item.
        """
        for row in self._database.rows(QUERIES["item"], position):
            return as_item(*row)
        raise NotYoursError("this item does not exist")

    def next_slot(self, person: str) -> Slot | None:
        """Return a person's open slot, or assign them the next item.

        Returns None if nothing is open or free; `state` says why.
        """
        with self._database.lock:
            number = self._open_slot(person)
            if number is None:
                # The new slot may reach the disk later: saving its label writes both.
                with self._database.writing(is_waited_for=False) as connection:
                    free = self._free(person)
                    number = None if free is None else take(connection, *free, person)
        return None if number is None else self.slot(number, person)

    def upcoming(self, person: str) -> tuple[Item, tuple[Values, ...], str] | None:
        """Return the item that a person would get next, with earlier values and its stage.

        Does not assign it.
        """
        free = self._free(person)
        return None if free is None else (self.item(free[0]), self.earlier(*free), free[1])

    def slot(self, number: int, person: str) -> Slot:
        """Return a slot of a person.

        Raises:
            NotYoursError: The person has no slot with this number.
        """
        rows = self._database.rows(QUERIES["slot"], number, person)
        if not rows:
            raise NotYoursError("this item is not yours to label")
        ((released, skipped, newest, stage, position, *item),) = rows
        if released:
            raise NotYoursError(_RELEASED)
        last = self._database.rows(QUERIES["last_label"], number)
        values, comment = (json.loads(last[0][0]), last[0][1]) if last else (None, "")
        labelled_item, earlier = as_item(*item), self.earlier(position, stage)
        if not last and stage in (self._database.study.rounds[0].name, GOLD):
            values = labelled_item.initial
        return Slot(
            number,
            position,
            labelled_item,
            stage,
            person,
            earlier,
            values,
            comment,
            newest or 0,
            skipped,
        )

    def release(self, person: str) -> int:
        """Release a person's items without a label, or with a withdrawn one. Returns their number."""
        with self._database.writing() as connection:
            self.search_from()
            return connection.execute(QUERIES["release"], (now(), person)).rowcount

    def verdicts(self, person: str) -> dict[str, bool]:
        """Return each senior's last verdict on a person's qualification."""
        rows = self._database.rows(
            "SELECT senior, passed FROM verdicts WHERE person = ? ORDER BY id", person
        )
        return {senior: bool(passed) for senior, passed in rows}

    def state(self, person: str) -> str:
        """Return ``working``, or why nothing is open:
        ``waiting`` (for seniors), ``failed`` or ``finished``.
        """
        standing = self.standing(person)
        if standing in ("waiting", "failed"):
            return standing
        is_busy = self._open_slot(person) is not None or self._free(person) is not None
        return "working" if is_busy else "finished"

    def _open_slot(self, person: str) -> int | None:
        rows = self._database.rows(QUERIES["open_slot"], person)
        return rows[0][0] if rows else None

    def _free(self, person: str) -> tuple[int, str] | None:
        """Find a person's next item and stage: later stages first, items that they released last."""
        standing, study, group = self.standing(person), self._database.study, self._group(person)
        if standing in ("waiting", "failed") or group not in study.people:
            return None
        stages = [(one.name, MAIN) for one in reversed(study.rounds) if one.people == group]
        if standing == "unqualified":
            stages = [(QUALIFICATION, QUALIFICATION)]
        elif (quota := study.people[group].quota) and self._num(
            QUERIES["num_in_rounds"], person
        ) >= quota:
            return None
        if group == study.rounds[0].people:
            if (
                study.gold
                and self._num(QUERIES["since_gold"], person, study.gold.every) >= study.gold.every
            ):
                stages.insert(0, (GOLD, GOLD))
            if study.training:
                stages.insert(0, (TRAINING, TRAINING))
        searches = product(("free_new", "free_again"), stages)
        with self._database.lock:
            # Released training items come before all others.
            for query, (stage, part) in sorted(
                searches, key=lambda search: search[1][0] != TRAINING
            ):
                key, rounds = (person, stage, query), json.dumps(study.apart(stage))
                rows = self._database.rows(
                    QUERIES[query], stage, part, self._first_free.get(key, 0), person, rounds
                )
                self._first_free[key] = rows[0][0] if rows else 2**62
                if rows:
                    return rows[0][0], stage
        return None

    def search_from(self, position: int = 0) -> None:
        """Make the next search for free items start at this position or earlier.

        Call this when slots change.
        """
        self._first_free = {key: min(first, position) for key, first in self._first_free.items()}

    def standing(self, person: str) -> str:
        """Return ``passed``, ``unqualified`` (not finished), ``waiting`` (for the seniors) or
        ``failed``.
        """
        study = self._database.study
        if not study.qualification or self._group(person) != study.rounds[0].people:
            return "passed"
        if self._num(QUERIES["num_qualifying"], person) < study.qualification:
            return "unqualified"
        verdicts = self.verdicts(person)
        if not all(verdicts.values()):
            return "failed"
        return "passed" if len(verdicts) >= study.seniors else "waiting"

    def rounds(self, position: int) -> dict[str, int]:
        """Return the rounds that determine an item's value, each with the number of labels that it
        needs.
        """
        needed = dict(self._database.rows(QUERIES["places_of"], position))
        return {
            one.name: needed[one.name]
            for one in self._database.study.deciding
            if one.name in needed
        }

    def _group(self, person: str) -> str:
        return person.rpartition("-")[0]

    def _num(self, query: str, *values: str | int) -> int:
        """Return the number that a query counts."""
        ((number,),) = self._database.rows(query, *values)
        return number

    def earlier(self, position: int, stage: str = "") -> tuple[Values, ...]:
        """Return the values of an item that a stage's form shows, see `Flow.form`.

        Without a stage, return all.
        """
        names = [*self.rounds(position)]
        before = (
            names[: names.index(stage)]
            if stage in names
            else names[:-1]
            if stage == ADJUDICATION
            else []
        )
        before = [*names, ADJUDICATION] if stage in ("", *self._database.study.final) else before
        rows = self._database.rows(
            "SELECT stage, choices FROM valid WHERE item = ? ORDER BY id", position
        )
        values = {name: json.loads(choices) for name, choices in reversed(rows)}
        return tuple(values[name] for name in before if name in values)

    def check_open(self, connection: sqlite3.Connection, slot: Slot) -> None:
        """Check that a slot's label can still be saved, changed or withdrawn.

        Raises:
            NotYoursError: The label is fixed. The message states the reason.
        """
        if not connection.execute(QUERIES["live_slot"], (slot.id, slot.person)).fetchone():
            raise NotYoursError(_RELEASED)
        if slot.stage == ADJUDICATION:
            self.check_complete(connection, slot.position)
            self.check_not_begun(connection, slot.position, self._database.study.final)
            return
        if slot.stage == QUALIFICATION and self.verdicts(slot.person):
            raise NotYoursError("your qualification has been reviewed, so its labels cannot change")
        if connection.execute("SELECT 1 FROM failed WHERE person = ?", (slot.person,)).fetchone():
            raise NotYoursError(
                "the seniors have not passed your qualification, so your labels are not accepted"
            )
        is_decided = connection.execute(
            "SELECT 1 FROM decided WHERE item = ?", (slot.position,)
        ).fetchone()
        if is_decided and slot.stage not in self._database.study.final:
            raise NotYoursError("the lead has decided on this item, so its labels cannot change")
        row = (
            slot.position,
            slot.stage,
            slot.person,
            self._database.study.people[self._group(slot.person)].quota,
        )
        if slot.skipped and connection.execute(QUERIES["full_place"], row).fetchone():
            raise NotYoursError(
                "you skipped this item, and it now belongs to another person or exceeds your quota"
            )
        names = [
            one.name
            for one in self._database.study.rounds
            if slot.stage not in self._database.study.final
        ]
        later = names[names.index(slot.stage) + 1 :] if slot.stage in names else []
        self.check_not_begun(connection, slot.position, later)

    def check_not_begun(
        self, connection: sqlite3.Connection, position: int, stages: list[str]
    ) -> None:
        """Check that nobody has begun one of these stages of an item.

        Raises:
            NotYoursError: Somebody has begun it.
        """
        if connection.execute(QUERIES["begun_stage"], (position, json.dumps(stages))).fetchone():
            raise NotYoursError(
                "another person already works on this item, so your label cannot change"
            )

    def check_complete(self, connection: sqlite3.Connection, position: int) -> None:
        """Check that the lead may decide on an item: it was skipped or is fully labelled.

        Failed people do not count.

        Raises:
            NotYoursError: The item was not skipped and lacks labels, or is in no round.
        """
        if not self.rounds(position):
            raise NotYoursError("this item is in no round, so there is nothing to decide")
        if connection.execute(QUERIES["skipped_item"], (position,)).fetchone():
            return
        for stage, needed in self.rounds(position).items():
            ((count,),) = connection.execute(QUERIES["num_counting"], (position, stage))
            if count < needed:
                raise NotYoursError(
                    f"this item has {count} of {needed} labels ({stage}); decide once it has all"
                )


def take(connection: sqlite3.Connection, position: int, stage: str, person: str) -> int:
    """Create a slot and return its number."""
    row = (position, stage, person, now())
    number = connection.execute(
        "INSERT INTO slots (item, stage, person, since) VALUES (?, ?, ?, ?)", row
    ).lastrowid
    assert number is not None
    return number


def as_item(
    item_id: str, contents: str, hidden: str, known: str | None, initial: str | None
) -> Item:
    """Create an item from its row."""
    recorded = (None if text is None else json.loads(text) for text in (known, initial))
    return Item(item_id, json.loads(contents), json.loads(hidden), (), *recorded)
