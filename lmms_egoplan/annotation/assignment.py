"""Assign items to people: take, release and count slots, and track qualifications."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.flow import ADJUDICATION, Flow, Item
from lmms_egoplan.annotation.forms import Values
from lmms_egoplan.annotation.gold import GoldItems
from lmms_egoplan.annotation.study import GOLD, MAIN, QUALIFICATION, TRAINING, Round
from lmms_egoplan.errors import LmmsEgoplanError

_RELEASED = "this item was released and is no longer yours"
# States of a slot in which its person has finished it.
_SAVED = ("labelled", "aside", "skipped")
# Greater than the position of every item.
_NO_POSITION = 2**62


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
    """Decide which items each person of a database labels.

    Attributes:
        gold: Decides who gets which gold item.
    """

    def __init__(self, database: Database, flow: Flow) -> None:
        self._database = database
        self._flow = flow
        self.gold = GoldItems(database)
        # By person, stage and "new" or "again": no item before this position is free for that
        # person.
        self._first_free: dict[tuple[str, str, str], int] = {}

    def item(self, position: int) -> Item:
        """Return the item at a position.

        Raises:
            NotYoursError: There is no such item.
        """
        rows = self._database.rows(
            "SELECT id, shown, hidden, known, initial FROM items WHERE position = :position",
            {"position": position},
        )
        if not rows:
            raise NotYoursError("this item does not exist")
        return as_item(rows[0])

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
                    if free is not None:
                        position, stage = free
                        number = take(connection, position, stage, person)
        return None if number is None else self.slot(number, person)

    def upcoming(self, person: str) -> tuple[Item, tuple[Values, ...], str] | None:
        """Return the item that a person would get next, with earlier values and its stage.

        Does not assign it.
        """
        free = self._free(person)
        if free is None:
            return None
        position, stage = free
        return self.item(position), self.earlier(position, stage), stage

    def slot(self, number: int, person: str) -> Slot:
        """Return a slot of a person.

        Raises:
            NotYoursError: The person has no slot with this number.
        """
        rows = self._database.rows(
            """
            SELECT
                slots.stage, slots.state, slots."values", slots.comment, slots.reason, slots.last,
                items.position, items.id, items.shown, items.hidden, items.known, items.initial
            FROM slots
            JOIN items ON items.position = slots.item
            WHERE slots.id = :slot AND slots.person = :person
            """,
            {"slot": number, "person": person},
        )
        if not rows:
            raise NotYoursError("this item is not yours to label")
        row = rows[0]
        if row["state"] == "released":
            raise NotYoursError(_RELEASED)
        item = as_item(row)
        values: Values | None = None
        if row["values"] is not None:
            values = json.loads(row["values"])
        elif row["stage"] in (self._database.study.rounds[0].name, GOLD):
            values = item.initial
        return Slot(
            id=number,
            position=row["position"],
            item=item,
            stage=row["stage"],
            person=person,
            earlier=self.earlier(row["position"], row["stage"]),
            values=values,
            comment=row["comment"],
            last=row["last"],
            skipped=row["reason"] if row["state"] == "skipped" else None,
        )

    def release(self, person: str) -> int:
        """Release a person's items that have no label, or a withdrawn one.

        Returns:
            The number of released items.
        """
        with self._database.writing() as connection:
            self.search_from()
            cursor = connection.execute(
                "UPDATE slots SET state = 'released' WHERE person = :person AND state = 'open'",
                {"person": person},
            )
            return cursor.rowcount

    def verdicts(self, person: str) -> dict[str, bool]:
        """Return each senior's last verdict on a person's qualification."""
        rows = self._database.rows(
            "SELECT senior, passed FROM verdicts WHERE person = :person ORDER BY id",
            {"person": person},
        )
        return {row["senior"]: bool(row["passed"]) for row in rows}

    def state(self, person: str) -> str:
        """Return ``working``, or why nothing is open.

        The reason is ``waiting`` (for seniors), ``failed``, ``stopped`` (too many errors in gold
        items) or ``finished``.
        """
        standing = self.standing(person)
        if standing in ("waiting", "failed"):
            return standing
        if self.gold.is_stopped(person):
            return "stopped"
        if self._open_slot(person) is not None or self._free(person) is not None:
            return "working"
        return "finished"

    def _open_slot(self, person: str) -> int | None:
        """Return a person's first slot without a label, unless the lead has decided on its item."""
        rows = self._database.rows(
            """
            SELECT id FROM slots
            WHERE person = :person AND state = 'open' AND stage != 'adjudication'
                AND person NOT IN (SELECT person FROM failed)
                AND (
                    stage IN (SELECT value FROM json_each(:final))
                    OR item NOT IN (SELECT item FROM decided)
                )
            ORDER BY id LIMIT 1
            """,
            {"person": person, "final": json.dumps(self._database.study.final)},
        )
        return rows[0]["id"] if rows else None

    def _free(self, person: str) -> tuple[int, str] | None:
        """Find a person's next item and its stage.

        Later stages come first, items that the person released come last. Released training items
        come before all others.
        """
        standing = self.standing(person)
        study = self._database.study
        group = self._group(person)
        is_learner = study.rounds[0].people == group
        is_excluded = standing in ("waiting", "failed") or self.gold.is_stopped(person)
        if is_excluded or group not in study.people:
            return None
        with self._database.lock:
            if is_learner and study.training:
                free = self._first_item(person, [(TRAINING, TRAINING)])
                if free is not None:
                    return free
            if standing == "unqualified":
                return self._first_item(person, [(QUALIFICATION, QUALIFICATION)])
            gold_item = self.gold.next_item(person) if is_learner else None
            if gold_item is not None:
                return gold_item, GOLD
            stages = [
                (round_.name, MAIN) for round_ in reversed(study.rounds) if round_.people == group
            ]
            return self._first_item(person, stages)

    def _first_item(self, person: str, stages: Sequence[tuple[str, str]]) -> tuple[int, str] | None:
        """Find the first free item of these stages: new items, then those the person released.

        Args:
            person: Name of the person.
            stages: Name and part of each stage, in the order of the search.
        """
        for find, mark in ((self._first_new, "new"), (self._first_again, "again")):
            for stage, part in stages:
                key = (person, stage, mark)
                position = find(person, stage, part, self._first_free.get(key, 0))
                self._first_free[key] = _NO_POSITION if position is None else position
                if position is not None:
                    return position, stage
        return None

    def _first_new(self, person: str, stage: str, part: str, start: int) -> int | None:
        """Find a free item from a position on that a person never had in a stage.

        They did not have it in the rounds apart from the stage, either.
        """
        return self._first(person, stage, part, start, ["open", *_SAVED, "released"])

    def _first_again(self, person: str, stage: str, part: str, start: int) -> int | None:
        """Find a free item as `_first_new` does, or one that the person released."""
        return self._first(person, stage, part, start, ["open", *_SAVED])

    def _first(
        self, person: str, stage: str, part: str, start: int, had: Sequence[str]
    ) -> int | None:
        """Find a free item from a position on.

        Args:
            had: A person who has a slot of the item in one of these states does not get it.
        """
        round_ = self._round(stage)
        parameters = {
            "person": person,
            "stage": stage,
            "apart_stages": json.dumps(self._database.study.apart(stage, self._flow.stages)),
            "had": json.dumps(had),
            "start": start,
        }
        if round_ is None or round_ is self._database.study.rounds[0]:
            return self._first_of_part(part, round_, parameters)
        position = self._first_of_later_round(round_, parameters)
        while position is not None and round_.final and not self.is_settled(position):
            parameters["start"] = position + 1
            position = self._first_of_later_round(round_, parameters)
        return position

    def _round(self, stage: str) -> Round | None:
        """Return the round of a stage; None for training, qualification and gold items."""
        for round_ in self._database.study.rounds:
            if round_.name == stage:
                return round_
        return None

    def _first_of_part(
        self, part: str, round_: Round | None, parameters: Mapping[str, Any]
    ) -> int | None:
        """Find an item of a part, or of the first round, that lacks people."""
        needed = round_.per_item if round_ else self._database.study.learners
        rows = self._database.rows(
            """
            SELECT position FROM items
            WHERE part = :part AND position >= :start
                AND (
                    SELECT count(*) FROM taken WHERE stage = :stage AND item = items.position
                ) < :needed
                AND NOT EXISTS (SELECT 1 FROM decided WHERE item = items.position)
                AND NOT EXISTS (
                    SELECT 1 FROM slots
                    WHERE stage IN (SELECT value FROM json_each(:apart_stages))
                        AND item = items.position
                        AND state IN (SELECT value FROM json_each(:had)) AND person = :person
                )
            ORDER BY position LIMIT 1
            """,
            {**parameters, "part": part, "needed": needed},
        )
        return rows[0]["position"] if rows else None

    def _first_of_later_round(self, round_: Round, parameters: Mapping[str, Any]) -> int | None:
        """Find an item whose earlier rounds have all of their labels, and that lacks people.

        The lead's decision opens the final rounds of an item, and closes all others. A label that
        sets the item aside closes all later rounds.
        """
        study = self._database.study
        earlier = study.deciding
        if not round_.final:
            earlier = earlier[: earlier.index(round_)]
        # The last earlier round of all items: an item without its labels need not be looked at.
        previous = [other.name for other in earlier if not other.sample][-1]
        rows = self._database.rows(
            """
            SELECT item FROM (
                SELECT item FROM slots
                WHERE stage = :previous AND item >= :start AND state = 'labelled'
                UNION ALL
                SELECT item FROM decided WHERE item >= :start
            ) AS begun
            WHERE (SELECT count(*) FROM taken WHERE stage = :stage AND item = begun.item) < :needed
                AND (
                    NOT :is_sampled
                    OR EXISTS (SELECT 1 FROM samples WHERE stage = :stage AND item = begun.item)
                )
                AND NOT EXISTS (
                    SELECT 1 FROM valid
                    WHERE stage IN (SELECT json_extract(value, '$.name') FROM json_each(:deciding))
                        AND item = begun.item AND state = 'aside'
                )
                AND CASE
                    WHEN EXISTS (SELECT 1 FROM decided WHERE item = begun.item) THEN :is_final
                    ELSE NOT EXISTS (
                        SELECT 1 FROM (
                            SELECT
                                json_extract(value, '$.name') AS stage,
                                json_extract(value, '$.per_item') AS per_item,
                                json_extract(value, '$.sample') AS sample
                            FROM json_each(:earlier)
                        ) AS other
                        WHERE (
                                sample IS NULL
                                OR EXISTS (
                                    SELECT 1 FROM samples
                                    WHERE stage = other.stage AND item = begun.item
                                )
                            )
                            AND (
                                SELECT count(*) FROM valid
                                WHERE stage = other.stage AND item = begun.item
                            ) < other.per_item
                    )
                END
                AND NOT EXISTS (
                    SELECT 1 FROM slots
                    WHERE stage IN (SELECT value FROM json_each(:apart_stages))
                        AND item = begun.item
                        AND state IN (SELECT value FROM json_each(:had)) AND person = :person
                )
            ORDER BY item LIMIT 1
            """,
            {
                **parameters,
                "previous": previous,
                "needed": round_.per_item,
                "is_sampled": round_.sample is not None,
                "is_final": round_.final,
                "deciding": _as_json(study.deciding),
                "earlier": _as_json(earlier),
            },
        )
        return rows[0]["item"] if rows else None

    def is_settled(self, position: int) -> bool:
        """Return whether the lead has decided on an item, or all of its labels agree."""
        rounds = self._values(position)
        return ADJUDICATION in rounds or not self._flow.differ(self.item(position), rounds)

    def search_from(self, position: int = 0, changed_stage: str = ADJUDICATION) -> None:
        """Make the next search for free items start at this position or earlier.

        Call this when slots change.

        Args:
            changed_stage: Stage of the slot that changed. This cannot free an item of an earlier
                round. The lead's decision can change every stage.
        """
        changed = {changed_stage, *self._later_stages(changed_stage)}
        for key, first in self._first_free.items():
            _, stage, _ = key
            if stage in changed or changed_stage == ADJUDICATION:
                self._first_free[key] = min(first, position)

    def standing(self, person: str) -> str:
        """Return how far a person is with the qualification.

        Returns:
            ``passed``, ``unqualified`` (not finished), ``waiting`` (for the seniors) or ``failed``.
        """
        study = self._database.study
        if not study.qualification or self._group(person) != study.rounds[0].people:
            return "passed"
        if self._num_qualifying(person) < study.qualification:
            return "unqualified"
        verdicts = self.verdicts(person)
        if not all(verdicts.values()):
            return "failed"
        return "passed" if len(verdicts) >= study.seniors else "waiting"

    def _num_qualifying(self, person: str) -> int:
        """Return the number of qualification items that a person has labelled or skipped."""
        rows = self._database.rows(
            """
            SELECT count(*) AS number FROM slots
            WHERE person = :person AND state IN (SELECT value FROM json_each(:saved))
                AND stage = 'qualification'
            """,
            {"person": person, "saved": json.dumps(_SAVED)},
        )
        return rows[0]["number"]

    def rounds(self, position: int) -> dict[str, int]:
        """Return the rounds that determine an item's value, with the number of labels of each."""
        rows = self._database.rows(
            """
            SELECT stage FROM samples
            WHERE stage IN (SELECT value FROM json_each(:stages)) AND item = :position
            UNION ALL
            SELECT 'main' FROM items WHERE position = :position AND part = 'main'
            """,
            {"position": position, "stages": json.dumps(self._database.study.stages)},
        )
        sampled = {row["stage"] for row in rows}
        if MAIN not in sampled:
            return {}
        rounds = self._database.study.deciding
        is_aside = self._is_aside(position)
        needed = {rounds[0].name: rounds[0].per_item}
        for round_ in rounds[1:]:
            if round_.sample is None or round_.name in sampled:
                needed[round_.name] = 0 if is_aside else round_.per_item
        return needed

    def _is_aside(self, position: int) -> bool:
        """Return whether a label sets an item aside."""
        rows = self._database.rows(
            """
            SELECT 1 FROM valid
            WHERE stage IN (SELECT json_extract(value, '$.name') FROM json_each(:deciding))
                AND item = :position AND state = 'aside'
            """,
            {"position": position, "deciding": _as_json(self._database.study.deciding)},
        )
        return bool(rows)

    def _group(self, person: str) -> str:
        return person.rpartition("-")[0]

    def earlier(self, position: int, stage: str = "") -> tuple[Values, ...]:
        """Return the values of an item that a stage's form shows, see `Flow.form`.

        Without a stage, return all.
        """
        names = [*self.rounds(position)]
        if stage in ("", *self._database.study.final):
            shown_stages = [*names, ADJUDICATION]
        elif stage in names:
            shown_stages = names[: names.index(stage)]
        elif stage == ADJUDICATION:
            shown_stages = names[:-1]
        else:
            shown_stages = []
        values = self._values(position)
        # The first label of each stage.
        return tuple(values[name][0] for name in shown_stages if name in values)

    def _values(self, position: int) -> dict[str, list[Values]]:
        """Return the values of an item's valid labels by stage, in the order of the rounds.

        The lead's decision comes last.
        """
        stages = [*(round_.name for round_ in self._database.study.deciding), ADJUDICATION]
        rows = self._database.rows(
            """
            SELECT stage, "values" FROM valid
            WHERE stage IN (SELECT value FROM json_each(:stages)) AND item = :position
            ORDER BY last
            """,
            {"position": position, "stages": json.dumps(stages)},
        )
        values: dict[str, list[Values]] = {}
        for stage in stages:
            stage_values = [json.loads(row["values"]) for row in rows if row["stage"] == stage]
            if stage_values:
                values[stage] = stage_values
        return values

    def check_open(self, connection: sqlite3.Connection, slot: Slot) -> None:
        """Check that a slot's label can still be saved, changed or withdrawn.

        Raises:
            NotYoursError: The label is fixed. The message states the reason.
        """
        if not _is_live(connection, slot):
            raise NotYoursError(_RELEASED)
        final_stages = self._database.study.final
        if slot.stage == ADJUDICATION:
            self.check_complete(connection, slot.position)
            self.check_not_begun(connection, slot.position, final_stages)
            return
        if slot.stage == QUALIFICATION and self.verdicts(slot.person):
            raise NotYoursError("your qualification has been reviewed, so its labels cannot change")
        if _has_failed(connection, slot.person):
            raise NotYoursError(
                "the seniors have not passed your qualification, so your labels are not accepted"
            )
        if slot.stage not in final_stages and _is_decided(connection, slot.position):
            raise NotYoursError("the lead has decided on this item, so its labels cannot change")
        if slot.skipped and self._is_place_full(connection, slot):
            raise NotYoursError("you skipped this item, and it now belongs to another person")
        self.check_not_begun(connection, slot.position, self._later_stages(slot.stage))

    def _is_place_full(self, connection: sqlite3.Connection, slot: Slot) -> bool:
        """Return whether other people have an item that a person skipped."""
        round_ = self._round(slot.stage)
        needed = round_.per_item if round_ else self._database.study.learners
        return num_taken(connection, slot.position, slot.stage) >= needed

    def _later_stages(self, stage: str) -> list[str]:
        """Return the rounds after a round; none after final rounds and other stages."""
        study = self._database.study
        names = [round_.name for round_ in study.rounds]
        if stage in study.final or stage not in names:
            return []
        return names[names.index(stage) + 1 :]

    def check_not_begun(
        self, connection: sqlite3.Connection, position: int, stages: list[str]
    ) -> None:
        """Check that nobody has begun one of these stages of an item.

        Raises:
            NotYoursError: Somebody has begun it.
        """
        row = connection.execute(
            """
            SELECT 1 FROM slots
            WHERE stage IN (SELECT value FROM json_each(:stages)) AND item = :position
                AND state != 'released'
            """,
            {"position": position, "stages": json.dumps(stages)},
        ).fetchone()
        if row is not None:
            raise NotYoursError(
                "another person already works on this item, so your label cannot change"
            )

    def check_complete(self, connection: sqlite3.Connection, position: int) -> None:
        """Check that the lead may decide on an item: it was skipped or is fully labelled.

        Failed people do not count.

        Raises:
            NotYoursError: The item was not skipped and lacks labels, or is in no round.
        """
        rounds = self.rounds(position)
        if not rounds:
            raise NotYoursError("this item is in no round, so there is nothing to decide")
        if _is_skipped(connection, position, [*rounds, *self._database.study.final]):
            return
        for stage, needed in rounds.items():
            (count,) = connection.execute(
                "SELECT count(*) FROM valid WHERE stage = :stage AND item = :position",
                {"position": position, "stage": stage},
            ).fetchone()
            if count < needed:
                raise NotYoursError(
                    f"this item has {count} of {needed} labels ({stage}); decide once it has all"
                )


def _is_live(connection: sqlite3.Connection, slot: Slot) -> bool:
    """Return whether a slot is still its person's: not released since the page was opened."""
    row = connection.execute(
        "SELECT 1 FROM slots WHERE id = :id AND person = :person AND state != 'released'",
        {"id": slot.id, "person": slot.person},
    ).fetchone()
    return row is not None


def _has_failed(connection: sqlite3.Connection, person: str) -> bool:
    """Return whether a senior has not passed a person's qualification."""
    row = connection.execute(
        "SELECT 1 FROM failed WHERE person = :person", {"person": person}
    ).fetchone()
    return row is not None


def _is_decided(connection: sqlite3.Connection, position: int) -> bool:
    """Return whether the lead has decided on an item."""
    row = connection.execute(
        "SELECT 1 FROM decided WHERE item = :position", {"position": position}
    ).fetchone()
    return row is not None


def _is_skipped(connection: sqlite3.Connection, position: int, stages: Sequence[str]) -> bool:
    """Return whether a person has skipped an item in one of these stages."""
    row = connection.execute(
        """
        SELECT 1 FROM slots
        WHERE stage IN (SELECT value FROM json_each(:stages)) AND item = :position
            AND state = 'skipped'
        """,
        {"position": position, "stages": json.dumps(stages)},
    ).fetchone()
    return row is not None


def num_taken(connection: sqlite3.Connection, position: int, stage: str) -> int:
    """Return how many people have an item in a stage, or have labelled it there."""
    (number,) = connection.execute(
        "SELECT count(*) FROM taken WHERE stage = :stage AND item = :position",
        {"stage": stage, "position": position},
    ).fetchone()
    return number


def take(connection: sqlite3.Connection, position: int, stage: str, person: str) -> int:
    """Create a slot and return its number."""
    number = connection.execute(
        "INSERT INTO slots (item, stage, person) VALUES (:position, :stage, :person)",
        {"position": position, "stage": stage, "person": person},
    ).lastrowid
    assert number is not None
    return number


def _as_json(rounds: Sequence[Round]) -> str:
    """Return rounds as a parameter of a query."""
    return json.dumps([round_.model_dump() for round_ in rounds])


def as_item(row: sqlite3.Row) -> Item:
    """Create an item from its row of the table ``items``."""
    return Item(
        id=row["id"],
        contents=json.loads(row["shown"]),
        hidden=json.loads(row["hidden"]),
        known=None if row["known"] is None else json.loads(row["known"]),
        initial=None if row["initial"] is None else json.loads(row["initial"]),
    )
