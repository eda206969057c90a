"""Labels, every one an appended row, the people who gave them, and how far they are."""

import json
import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import median

from lmms_egoplan.annotation.assignment import Assignments, NewerLabelError, NotYoursError, Slot, as_item, take
from lmms_egoplan.annotation.database import ANNOTATOR, LEAD, SENIOR, StoreError, add_people, as_json, digest, now
from lmms_egoplan.annotation.flow import ADJUDICATION, QUALIFICATION, Item, Label, Labelled, Skip
from lmms_egoplan.annotation.forms import FormError, Values
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text

# Labels, or lines of a list, on a page.
PAGE = 100


@dataclass(frozen=True)
class Person:
    """Who may open the page, and how.

    role: `LEAD`, `SENIOR` or `ANNOTATOR`.
    token: what their link holds; a secret.
    called: the name that the lead gave them; None for none.
    is_closed: whether their link opens nothing.
    """

    name: str
    role: str
    token: str
    called: str | None = None
    is_closed: bool = False

    @property
    def title(self) -> str:
        """What people see."""
        return f"{self.called} ({self.name})" if self.called else self.name

    @property
    def base(self) -> str:
        """The path of their pages; each has a cookie of its own, so that one browser can hold several links."""
        return f"/p/{sha256(self.token.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Progress:
    """How far a person is.

    labelled: items that have their label.
    state: ``working``, or why there is nothing to do: ``waiting`` (for the seniors), ``failed``, ``finished``.
    seconds: median time of a label; None without one.
    """

    person: str
    labelled: int
    state: str
    seconds: float | None


class Store(Assignments):
    """An open database of labels. A label that `save` has returned is on the disk.

    All methods raise `StoreError` where the database cannot be read or written.
    """

    def renew_items(self, items: Sequence[Item], where: str, skip_missing: bool = False) -> None:
        """Check that the database was made of these items, and take over what is `Item.changing` in them.

        Args:
            where: names their file in messages.
            skip_missing: some of them are enough, and others are left out.

        Raises:
            StoreError: it was made of others.
        """
        kept = {item.id: item for item in self.items()}
        known = self._setting("items")
        if skip_missing:
            items = [item for item in items if clean_text(item.id) in kept]
            known = items and digest(
                [replace(kept[clean_text(one.id)], id=one.id, changing=one.changing) for one in items]
            )
        if digest(items) != known:
            raise StoreError(
                f"{where}: the items are not those that {self.path} was made of. Its labels are untouched. Give the "
                "items as they were, or another --db for the new ones"
            )
        renewed = [(as_json(item.shown), as_json(item.hidden), clean_text(item.id)) for item in items]
        changed = [row for row in renewed if row[:2] != (as_json(kept[row[2]].shown), as_json(kept[row[2]].hidden))]
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
            add_people(connection, annotators, self.settings.seniors)
            connection.execute("UPDATE places SET needed = ? WHERE stage = ?", (annotators, QUALIFICATION))
            connection.execute("UPDATE slots SET since = since WHERE stage = ?", (QUALIFICATION,))  # counts again
            self._first_free.clear()
            connection.execute("UPDATE settings SET value = ? WHERE name = 'annotators'", (json.dumps(annotators),))
        self.settings = self._settings()

    def people(self) -> list[Person]:
        """The lead, seniors and annotators, in this order."""
        rows = self._rows("SELECT name, role, token, called, is_closed FROM people")
        roles = (LEAD, SENIOR, ANNOTATOR)
        return sorted(
            (Person(*row[:4], bool(row[4])) for row in rows),
            key=lambda person: (roles.index(person.role), len(person.name), person.name),
        )

    def call(self, person: str, called: str) -> None:
        """Give a person a name that people see; "" for none.

        Raises:
            FormError: somebody else has it.
        """
        taken = [other.title for other in self.people() if called in (other.called, other.name)]
        if called and taken:
            raise FormError(f"the name {called!r} is that of {taken[0]}; give another one")
        with self._writing() as connection:
            connection.execute("UPDATE people SET called = ? WHERE name = ?", (called or None, person))

    def change_link(self, person: str, *, is_closed: bool) -> None:
        """Make a person's link invalid; without `is_closed`, they get a new one."""
        with self._writing() as connection:
            row = (secrets.token_urlsafe(24), is_closed, person)
            connection.execute("UPDATE people SET token = ?, is_closed = ? WHERE name = ?", row)

    def _annotators(self) -> list[str]:
        return [person.name for person in self.people() if person.role == ANNOTATOR]

    def items(self) -> list[Item]:
        """In the order in which they are labelled."""
        return [as_item(*row) for row in self._rows("SELECT id, shown, hidden FROM items ORDER BY position")]

    def num_items(self) -> int:
        """How many there are."""
        return self._rows("SELECT count(*) FROM items")[0][0]

    def num_labelled(self, person: str) -> int:
        """Labels of a person that count."""
        return self._rows("SELECT count(*) FROM slots WHERE person = ? AND label IS NOT NULL", person)[0][0]

    def positions(self) -> dict[str, int]:
        """By item id, its place."""
        return dict(self._rows("SELECT id, position FROM items"))

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
        """Append a label; it is on the disk when this returns.

        Args:
            slot: as it was when the form was shown, by its `last`.
            form: a text of the form that was sent. If it comes twice in a row with the same values and comment, the
                second is not stored; with others, it is a correction.
            values: None if the item is skipped.
            skipped: why it is.

        Returns:
            Whether it was stored.

        Raises:
            NotYoursError: the slot is gone, the lead has decided, or a later stage of the item has begun.
            NewerLabelError: another form has saved a label meanwhile.
        """
        sent = (form, None if values is None else as_json(values), clean_text(comment), skipped and clean_text(skipped))
        with self._writing() as connection:
            newest = "SELECT id, form, choices, comment, skipped FROM labels WHERE slot = ? ORDER BY id DESC LIMIT 1"
            last, *saved = connection.execute(newest, (slot.id,)).fetchone() or (0, "", None, "", None)
            if tuple(saved) == sent:
                return False
            self.check_open(connection, slot)
            is_withdrawn = saved[1] is None and saved[3] is None
            if slot.last != last and saved[0] != form and not is_withdrawn:
                raise NewerLabelError("this item was saved in another tab or window after this page was opened")
            connection.execute(
                "INSERT INTO labels (slot, form, choices, comment, skipped, seconds, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (slot.id, *sent, seconds, now()),
            )
            self._count_from(slot.position)
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
            self._count_from(position)
        return bool(rows)

    def adjudicate(self, position: int, lead: str) -> Slot:
        """The lead's slot of an item.

        Raises:
            NotYoursError: the item does not have all of its labels.
        """
        self.item(position)
        slot = "SELECT id FROM slots WHERE item = ? AND stage = ? AND released IS NULL"
        with self._writing() as connection:
            self.check_complete(connection, position)
            if not connection.execute(slot, (position, ADJUDICATION)).fetchone():
                take(connection, position, ADJUDICATION, lead)
            (number,) = connection.execute(slot, (position, ADJUDICATION)).fetchone()
        return self.slot(number, lead)

    def judge_qualification(self, person: str, senior: str, passed: bool, comment: str) -> None:
        """Append a senior's verdict on a person's qualification.

        Raises:
            NotYoursError: the person is still at it.
        """
        if self.standing(person) == "unqualified":
            raise NotYoursError(f"{person} has not labelled all items of the qualification yet")
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO verdicts (person, senior, passed, comment, at) VALUES (?, ?, ?, ?, ?)",
                (person, senior, passed, comment, now()),
            )
            self._first_free.clear()

    def own_labels(self, person: str, words: str, page: int) -> list[tuple[int, str, str, str | None, str]]:
        """What a person labelled or skipped, the newest first, `PAGE` at a time.

        Args:
            words: of what is shown of the item, or of the label, its comment or the reason of a skip.
            page: from 0.

        Returns:
            Slot, what is shown (JSON; the item's id may name a model), stage, reason of a skip, and time.
        """
        return self._rows(
            "SELECT slots.id, items.shown, slots.stage, slots.skipped, labels.at FROM slots "
            "JOIN items ON items.position = slots.item "
            "JOIN labels ON labels.id = (SELECT max(id) FROM labels WHERE slot = slots.id) "
            "WHERE person = ? AND released IS NULL AND (label IS NOT NULL OR slots.skipped IS NOT NULL) AND "
            "instr(lower(items.shown || ' ' || coalesce(choices, labels.skipped) || ' ' || comment), lower(?)) "
            "ORDER BY slots.id DESC LIMIT ? OFFSET ?",
            *(person, words, PAGE + 1, page * PAGE),
        )

    def skips(self) -> list[Skip]:
        """Items that people skipped and have not labelled since."""
        return [
            Skip(*row)
            for row in self._rows(
                "SELECT items.id, stage, person, skipped FROM slots JOIN items ON items.position = slots.item "
                "WHERE skipped IS NOT NULL AND released IS NULL ORDER BY slots.id"
            )
        ]

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
            annotators = self._annotators()
            served = frozenset(row[0] for row in self._rows("SELECT id FROM items WHERE part = ?", QUALIFICATION))
            return Labelled(
                self.items(),
                labels,
                annotators,
                [person for person in annotators if self.standing(person) == "passed"],
                served,
                self.settings.per_item,
                self.settings.options or {},
                self.skips(),
            )

    def progress(self) -> list[Progress]:
        """Of every annotator."""
        found = []
        for name in self._annotators():
            rows = self._rows("SELECT seconds FROM counting WHERE person = ?", name)
            times = [seconds for (seconds,) in rows if seconds is not None]
            found.append(Progress(name, len(rows), self.state(name), median(times) if times else None))
        return found


def _withdraw(connection: sqlite3.Connection, slot: int) -> None:
    """Append the row that withdraws a slot's label."""
    connection.execute(
        "INSERT INTO labels (slot, form, choices, comment, at) VALUES (?, '', NULL, '', ?)", (slot, now())
    )
