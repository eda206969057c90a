"""Store people and their labels. Label rows are only appended, never changed."""

import json
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil
from statistics import median

from lmms_egoplan.annotation.assignment import (
    Assignments,
    NewerLabelError,
    NotYoursError,
    Slot,
    as_item,
    take,
)
from lmms_egoplan.annotation.database import (
    QUERIES,
    Database,
    StoreError,
    add_items,
    add_people,
    as_json,
    fixed_contents,
    now,
)
from lmms_egoplan.annotation.flow import ADJUDICATION, Flow, Item, Label, Labelled, Skip
from lmms_egoplan.annotation.forms import FormError, Values
from lmms_egoplan.annotation.study import ANNOTATOR, GOLD, QUALIFICATION, TRAINING, Group
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text

# Number of labels or lines of a list per page.
PAGE = 100


@dataclass(frozen=True)
class Person:
    """A person who may open the page.

    Attributes:
        name: Unique name, such as ``annotator-1``.
        role: `LEAD`, `SENIOR` or `ANNOTATOR`.
        token: Secret part of their link.
        called: Name chosen by the lead; None without one.
        is_closed: Whether their link is disabled.
        group: Their group in the study; "" for the lead and seniors.
    """

    name: str
    role: str
    token: str
    called: str | None = None
    is_closed: bool = False
    group: str = ""

    @property
    def title(self) -> str:
        """The displayed name."""
        return f"{self.called} ({self.name})" if self.called else self.name

    @property
    def base(self) -> str:
        """The path of their pages.

        Each path has its own cookie, so one browser can use several links.
        """
        return f"/p/{sha256(self.token.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Progress:
    """The progress of an annotator.

    Attributes:
        person: Name of the annotator.
        labelled: Number of items with their label.
        state: See `Assignments.state`.
        seconds: Median time per label; None without a label.
        gold_right: Number of gold items whose label has the known values.
        gold: Number of gold items with their label.
    """

    person: str
    labelled: int
    state: str
    seconds: float | None
    gold_right: int
    gold: int


class Store:
    """The labels and people of an open database. A label is on the disk when `save` returns.

    All methods raise `StoreError` if the database cannot be read or written.

    Attributes:
        assignments: Decides who labels which item.

    Args:
        flow: Flow of the database's benchmark.
    """

    def __init__(self, database: Database, flow: Flow) -> None:
        self.database, self.flow = database, flow
        self.assignments = Assignments(database)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def renew_items(
        self, items: Sequence[Item], where: str, *, skip_missing: bool = False, more: bool = False
    ) -> int:
        """Check that the database contains exactly these items, and update their `Item.changing`
        values.

        Args:
            where: File name of the items, for messages.
            skip_missing: Accept a subset of the items and skip unknown ones.
            more: Add items that the database does not contain. Rounds with a sample keep it.

        Returns:
            The number of added items.

        Raises:
            StoreError: The items differ.
            LmmsEgoplanError: There are duplicates among the new items.
        """
        stored = {item.id: item for item in self.items()}
        new = [item for item in items if clean_text(item.id) not in stored]
        known = {clean_text(item.id): item for item in items if clean_text(item.id) in stored}
        is_same = all(
            fixed_contents(item) == fixed_contents(replace(stored[name], changing=item.changing))
            for name, item in known.items()
        )
        is_whole = len(known) == len(stored) == len(items) - len(new) and (more or not new)
        if not (is_same and (bool(known) if skip_missing else is_whole)):
            raise StoreError(
                f"{where}: the items differ from those in {self.database.path}, whose labels are "
                "unchanged. "
                "Restore the items, add new ones with --more, or use another --db for them"
            )
        rows = [
            (as_json(item.contents), as_json(item.hidden), name) for name, item in known.items()
        ]
        changed = [
            row
            for row in rows
            if row[:2] != (as_json(stored[row[2]].contents), as_json(stored[row[2]].hidden))
        ]
        if changed or (more and new):
            with self.database.writing() as connection:
                connection.executemany(
                    "UPDATE items SET shown = ?, hidden = ? WHERE id = ?", changed
                )
                add_items(connection, self.database.study, new if more else [], {})
        return len(new) if more else 0

    def change_people(self, people: Mapping[str, Group]) -> None:
        """Change quotas and limits, and add people to the groups.

        Raises:
            LmmsEgoplanError: A group has more people already, or there are other groups.
        """
        study = self.database.study.model_copy(update={"people": dict(people)})
        if people.keys() != self.database.study.people.keys():
            raise LmmsEgoplanError(
                f"people: {self.database.path} has other groups, which are fixed"
            )
        for name, group in people.items():
            if group.count < (number := self.database.study.people[name].count):
                option = (
                    f"--annotators {group.count}"
                    if name == ANNOTATOR
                    else f"{name}, count {group.count}"
                )
                raise LmmsEgoplanError(
                    f"{option}: {self.database.path} already has {number}; the number "
                    "can only increase"
                )
        with self.database.writing() as connection:
            add_people(connection, study)
            connection.execute(
                "UPDATE places SET needed = ? WHERE part != 'main'", (study.learners,)
            )
            # Update the rows to recount the slots.
            connection.execute(QUERIES["recount"])
            self.assignments.search_from()
            row = (json.dumps(study.model_dump()),)
            connection.execute("UPDATE settings SET value = ? WHERE name = 'study'", row)
        self.database.study = study

    def people(self) -> list[Person]:
        """Return the lead, then seniors, then annotators."""
        return [Person(*row) for row in self.database.rows(QUERIES["people"])]

    def call(self, person: str, called: str) -> None:
        """Set the displayed name of a person; "" removes it.

        Raises:
            FormError: Another person has that name.
        """
        taken = [user.title for user in self.people() if called in (user.called, user.name)]
        if called and taken:
            raise FormError(f"the name {called!r} belongs to {taken[0]}; choose another one")
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE people SET called = ? WHERE name = ?", (called or None, person)
            )

    def change_link(self, person: str, *, is_closed: bool) -> None:
        """Replace a person's link by a new one, or close it if `is_closed`."""
        with self.database.writing() as connection:
            row = (secrets.token_urlsafe(24), is_closed, person)
            connection.execute("UPDATE people SET token = ?, is_closed = ? WHERE name = ?", row)

    def _annotators(self) -> list[str]:
        return [person.name for person in self.people() if person.role == ANNOTATOR]

    def items(self) -> list[Item]:
        """Return all items in labelling order."""
        return [as_item(*row) for row in self.database.rows(QUERIES["items"])]

    def num_items(self) -> int:
        """Return the number of items."""
        return self.database.rows("SELECT count(*) FROM items")[0][0]

    def totals(self) -> dict[str, int]:
        """Return the number of labels that all items need, by stage."""
        return dict(self.database.rows("SELECT stage, needed FROM totals"))

    def share(self, person: Person) -> tuple[int, int]:
        """Return the number of a person's labels, and how many they give if all people of a group
        do the same number.

        Both include training, qualification and gold items. A quota limits the second number.
        """
        study, totals = self.database.study, self.totals()
        group = study.people[person.group]
        share = (
            sum(totals.get(one.name, 0) for one in study.rounds if one.people == person.group)
            / group.count
        )
        share = share if group.quota is None else min(share, group.quota)
        if person.group == study.rounds[0].people:
            share += (
                sum(totals.get(part, 0) for part in (TRAINING, QUALIFICATION, GOLD)) / group.count
            )
        ((labelled,),) = self.database.rows(QUERIES["num_labelled"], person.name)
        return labelled, ceil(share)

    def positions(self) -> dict[str, int]:
        """Return the position of each item by its id."""
        return dict(self.database.rows("SELECT id, position FROM items"))

    def save(
        self,
        slot: Slot,
        form: str,
        values: Values | None,
        comment: str = "",
        seconds: float | None = None,
        *,
        skipped: str | None = None,
    ) -> bool:
        """Append a label. It is on the disk when this returns.

        Args:
            slot: The slot. Its `last` is the value from when the form was displayed.
            form: Token of the submitted form. A repeated submission with the same values and
                comment is not stored again. With other values, it is a correction.
            values: Values of the form; None if the item is skipped.
            comment: The annotator's comment.
            seconds: Time spent on the item.
            skipped: Reason for skipping the item.

        Returns:
            Whether the label was stored.

        Raises:
            NotYoursError: The slot was released, the lead has decided, or a later stage of the item
                has begun.
            NewerLabelError: Another form has saved a label in the meantime.
        """
        sent = (
            form,
            None if values is None else as_json(values),
            clean_text(comment),
            skipped and clean_text(skipped),
        )
        with self.database.writing() as connection:
            newest = connection.execute(QUERIES["newest_label"], (slot.id,)).fetchone()
            last, *saved = newest or (0, "", None, "", None)
            if tuple(saved) == sent:
                return False
            self.assignments.check_open(connection, slot)
            is_withdrawn = saved[1] is None and saved[3] is None
            if slot.last != last and saved[0] != form and not is_withdrawn:
                raise NewerLabelError(
                    "this item was saved in another tab or window after this page was opened"
                )
            connection.execute(QUERIES["new_label"], (slot.id, *sent, seconds, now()))
            if slot.stage not in self.database.study.final:
                self._open_later_rounds(connection, slot.position)
            self.assignments.search_from(slot.position)
        return True

    def _open_later_rounds(self, connection: sqlite3.Connection, position: int) -> None:
        """Close an item's later rounds if a label sets it aside, and its final rounds while a
        decision is needed.
        """
        study, rounds = self.database.study, self.assignments.rounds(position)
        if not rounds or len(study.rounds) == 1:
            return
        rows = connection.execute(
            QUERIES["values_of"], (position, json.dumps([*rounds]))
        ).fetchall()
        values = [
            json.loads(choices) for stage in rounds for other, choices in rows if stage == other
        ]
        is_aside = any(map(self.flow.sets_aside, values))
        needed = [(0 if is_aside else one.per_item, position, one.name) for one in study.rounds[1:]]
        connection.executemany("UPDATE places SET needed = ? WHERE item = ? AND stage = ?", needed)
        is_settled = not is_aside and len(values) >= sum(rounds.values())
        is_settled = is_settled and not self.flow.differ(self.assignments.item(position), values)
        connection.execute(
            QUERIES["hold"], ([*rounds][-1] if is_settled else ADJUDICATION, position)
        )
        connection.execute("UPDATE slots SET since = since WHERE item = ?", (position,))

    def undo_decision(self, position: int) -> bool:
        """Withdraw the lead's decision on an item, so its annotators may change their labels again.

        Returns:
            Whether there was a decision.

        Raises:
            NotYoursError: A final round of the item has begun.
        """
        with self.database.writing() as connection:
            self.assignments.check_not_begun(connection, position, self.database.study.final)
            rows = connection.execute(QUERIES["decisions"], (position,)).fetchall()
            connection.executemany(QUERIES["withdraw"], [(slot, now()) for (slot,) in rows])
            self.assignments.search_from(position)
        return bool(rows)

    def adjudicate(self, position: int, lead: str) -> Slot:
        """Return the lead's slot of an item.

        Raises:
            NotYoursError: The item does not have all of its labels.
        """
        self.assignments.item(position)
        with self.database.writing() as connection:
            self.assignments.check_complete(connection, position)
            row = connection.execute(QUERIES["decided_slot"], (position,)).fetchone()
            number = row[0] if row else take(connection, position, ADJUDICATION, lead)
        return self.assignments.slot(number, lead)

    def judge_qualification(
        self, person: str, senior: str, comment: str = "", *, passed: bool
    ) -> None:
        """Append a senior's verdict on a person's qualification.

        Raises:
            NotYoursError: The person has not finished the qualification.
        """
        if self.assignments.standing(person) == "unqualified":
            raise NotYoursError(f"{person} has not labelled all qualification items yet")
        with self.database.writing() as connection:
            connection.execute(QUERIES["new_verdict"], (person, senior, passed, comment, now()))
            for (position,) in connection.execute(QUERIES["checked"], (person,)).fetchall():
                self._open_later_rounds(connection, position)
            self.assignments.search_from()

    def own_labels(
        self, person: str, words: str, page: int
    ) -> list[tuple[int, str, str, str | None, str]]:
        """Find the items that a person labelled or skipped, newest first, one more than fits on a
        page.

        Args:
            words: Text to find in the item, the label, its comment or the reason for a skip.
            page: Number of the page, from 0.

        Returns:
            Slot number, item contents (JSON), stage, reason for a skip, and time. The item's id is
            omitted, because it may contain a model's name.
        """
        return self.database.rows(QUERIES["own_labels"], person, words, PAGE + 1, page * PAGE)

    def labelled(self) -> Labelled:
        """Return all items with the labels that count."""
        with self.database.snapshot():
            labels: dict[str, list[Label]] = {}
            rows = self.database.rows(QUERIES["labelled"], self.database.study.rounds[0].name)
            for item, stage, person, values, comment, seconds, at, initial in rows:
                label = Label(
                    item,
                    stage,
                    person,
                    json.loads(values),
                    comment,
                    seconds,
                    at,
                    json.loads(initial),
                )
                labels.setdefault(item, []).append(label)
            annotators = self._annotators()
            qualified = [
                person for person in annotators if self.assignments.standing(person) == "passed"
            ]
            rows = self.database.rows("SELECT id FROM items WHERE part = 'qualification'")
            skips = [Skip(*row) for row in self.database.rows(QUERIES["skips"])]
            qualification, study, samples = (
                frozenset(name for (name,) in rows),
                self.database.study,
                {},
            )
            for stage in [one.name for one in study.rounds if one.sample]:
                samples[stage] = frozenset(
                    item for (item,) in self.database.rows(QUERIES["sampled"], stage)
                )
            items = [item for item in self.items() if item.known is None]
            return Labelled(
                study, items, labels, annotators, qualified, qualification, samples, skips
            )

    def progress(self) -> Iterator[Progress]:
        """Yield the progress of every annotator."""
        for name in self._annotators():
            rows = self.database.rows("SELECT seconds FROM counting WHERE person = ?", name)
            times = [seconds for (seconds,) in rows if seconds is not None]
            rows_of_gold = self.database.rows(QUERIES["gold"], name)
            gold = [
                has_known(json.loads(known), json.loads(choices)) for choices, known in rows_of_gold
            ]
            state, seconds = self.assignments.state(name), median(times) if times else None
            yield Progress(name, len(rows), state, seconds, sum(gold), len(gold))


def has_known(known: Values, values: Values) -> bool:
    """Return whether a label has all of the known values."""
    return all(values.get(name) == value for name, value in known.items())


def kept_predictions(labelled: Labelled) -> list[str]:
    """Return a line that counts the labels with all values of the prediction; none without
    predictions.
    """
    labels = [label for labels in labelled.labels.values() for label in labels if label.initial]
    unchanged = sum(has_known(label.initial or {}, label.values) for label in labels)
    return (
        [f"Labels that started with a prediction: {len(labels)}, kept unchanged: {unchanged}"]
        if labels
        else []
    )
