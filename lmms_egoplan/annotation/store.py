"""Labels, each an appended row, and the people who give them."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from statistics import median

from lmms_egoplan.annotation.assignment import Assignments, NewerLabelError, NotYoursError, Slot, as_item, take
from lmms_egoplan.annotation.database import (
    ANNOTATOR,
    LEAD,
    QUERIES,
    SENIOR,
    Database,
    StoreError,
    add_people,
    as_json,
    digest,
    now,
)
from lmms_egoplan.annotation.flow import ADJUDICATION, QUALIFICATION, Flow, Item, Label, Labelled, Skip
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
        """The name that people see."""
        return f"{self.called} ({self.name})" if self.called else self.name

    @property
    def base(self) -> str:
        """The path of their pages; each has a cookie of its own, so that one browser can hold several links."""
        return f"/p/{sha256(self.token.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Progress:
    """How far a person is.

    labelled: items that have their label.
    state: see `Assignments.state`.
    seconds: median time of a label; None without one.
    """

    person: str
    labelled: int
    state: str
    seconds: float | None


class Store:
    """The labels and people of an open database. A label that `save` has returned is on the disk.

    All methods raise `StoreError` if the database cannot be read or written.

    assignments: who labels what.

    Args:
        flow: of the database's benchmark.
    """

    def __init__(self, database: Database, flow: Flow) -> None:
        self.database, self.flow = database, flow
        self.assignments = Assignments(database, flow.stages)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def renew_items(self, items: Sequence[Item], where: str, *, skip_missing: bool = False) -> None:
        """Check that the database was made of these items, and take over their `Item.changing` values.

        Args:
            where: names their file in messages.
            skip_missing: some of them are enough, and others are left out.

        Raises:
            StoreError: it was made of others.
        """
        stored = {item.id: item for item in self.items()}
        if skip_missing:
            items = [item for item in items if clean_text(item.id) in stored]
            same = [replace(stored[clean_text(item.id)], id=item.id, changing=item.changing) for item in items]
            is_same = bool(items) and digest(items) == digest(same)
        else:
            is_same = digest(items) == self.database.setting("items")
        if not is_same:
            raise StoreError(
                f"{where}: the items are not those that {self.database.path} was made of. Its labels are untouched. "
                "Give the items as they were, or another --db for the new ones"
            )
        renewed = [(as_json(item.shown), as_json(item.hidden), clean_text(item.id)) for item in items]
        changed = [row for row in renewed if row[:2] != (as_json(stored[row[2]].shown), as_json(stored[row[2]].hidden))]
        if changed:
            with self.database.writing() as connection:
                connection.executemany("UPDATE items SET shown = ?, hidden = ? WHERE id = ?", changed)

    def add_annotators(self, annotators: int) -> None:
        """Add people until there are this many.

        Raises:
            LmmsEgoplanError: there are more already.
        """
        if annotators < (number := self.database.settings.annotators):
            raise LmmsEgoplanError(
                f"--annotators {annotators}: {self.database.path} has {number} already; people are only added"
            )
        with self.database.writing() as connection:
            add_people(connection, annotators, self.database.settings.seniors)
            connection.execute("UPDATE places SET needed = ? WHERE stage = ?", (annotators, QUALIFICATION))
            connection.execute("UPDATE slots SET since = since WHERE stage = ?", (QUALIFICATION,))  # counts again
            self.assignments.search_from()
            connection.execute("UPDATE settings SET value = ? WHERE name = 'annotators'", (json.dumps(annotators),))
        self.database.read_settings()

    def people(self) -> list[Person]:
        """Return the lead, seniors and annotators, in this order."""
        rows = self.database.rows("SELECT name, role, token, called, is_closed FROM people")
        people = [Person(name, role, token, called, bool(is_closed)) for name, role, token, called, is_closed in rows]
        roles = (LEAD, SENIOR, ANNOTATOR)
        return sorted(people, key=lambda person: (roles.index(person.role), len(person.name), person.name))

    def call(self, person: str, called: str) -> None:
        """Give a person a name that people see; "" for none.

        Raises:
            FormError: somebody else has it.
        """
        taken = [other.title for other in self.people() if called in (other.called, other.name)]
        if called and taken:
            raise FormError(f"the name {called!r} is that of {taken[0]}; give another one")
        with self.database.writing() as connection:
            connection.execute("UPDATE people SET called = ? WHERE name = ?", (called or None, person))

    def change_link(self, person: str, *, is_closed: bool) -> None:
        """Make a person's link invalid; without `is_closed`, they get a new one."""
        with self.database.writing() as connection:
            row = (secrets.token_urlsafe(24), is_closed, person)
            connection.execute("UPDATE people SET token = ?, is_closed = ? WHERE name = ?", row)

    def _annotators(self) -> list[str]:
        return [person.name for person in self.people() if person.role == ANNOTATOR]

    def items(self) -> list[Item]:
        """Return all items in the order in which they are labelled."""
        return [as_item(*row) for row in self.database.rows("SELECT id, shown, hidden FROM items ORDER BY position")]

    def num_items(self) -> int:
        """Return the number of items."""
        return self.database.rows("SELECT count(*) FROM items")[0][0]

    def num_labelled(self, person: str) -> int:
        """Return how many labels of a person count."""
        return self.database.rows("SELECT count(*) FROM slots WHERE person = ? AND label IS NOT NULL", person)[0][0]

    def positions(self) -> dict[str, int]:
        """Return the positions of the items by their ids."""
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
        """Append a label; it is on the disk when this returns.

        Args:
            slot: as it was when the form was shown, by its `last`.
            form: a text of the form that was sent. If it comes twice in a row with the same values and comment, the
                second is not stored; with others, it is a correction.
            values: None if the item is skipped.
            skipped: why the item is skipped.

        Returns:
            Whether the label was stored.

        Raises:
            NotYoursError: the slot is gone, the lead has decided, or a later stage of the item has begun.
            NewerLabelError: another form has saved a label meanwhile.
        """
        sent = (form, None if values is None else as_json(values), clean_text(comment), skipped and clean_text(skipped))
        with self.database.writing() as connection:
            newest = connection.execute(QUERIES["newest_label"], (slot.id,)).fetchone()
            last, *saved = newest or (0, "", None, "", None)
            if tuple(saved) == sent:
                return False
            self.assignments.check_open(connection, slot)
            is_withdrawn = saved[1] is None and saved[3] is None
            if slot.last != last and saved[0] != form and not is_withdrawn:
                raise NewerLabelError("this item was saved in another tab or window after this page was opened")
            connection.execute(QUERIES["new_label"], (slot.id, *sent, seconds, now()))
            self.assignments.search_from(slot.position)
        return True

    def undo_decision(self, position: int) -> bool:
        """Withdraw what the lead has decided on an item; its annotators may change their labels again.

        Returns:
            Whether there was a decision.
        """
        with self.database.writing() as connection:
            decisions = "SELECT slot FROM counting WHERE item = ? AND stage = ?"
            rows = connection.execute(decisions, (position, ADJUDICATION)).fetchall()
            connection.executemany(QUERIES["withdraw"], [(slot, now()) for (slot,) in rows])
            self.assignments.search_from(position)
        return bool(rows)

    def adjudicate(self, position: int, lead: str) -> Slot:
        """Return the lead's slot of an item.

        Raises:
            NotYoursError: the item does not have all of its labels.
        """
        self.assignments.item(position)
        slot = "SELECT id FROM slots WHERE item = ? AND stage = ? AND released IS NULL"
        with self.database.writing() as connection:
            self.assignments.check_complete(connection, position)
            row = connection.execute(slot, (position, ADJUDICATION)).fetchone()
            number = row[0] if row else take(connection, position, ADJUDICATION, lead)
        return self.assignments.slot(number, lead)

    def judge_qualification(self, person: str, senior: str, comment: str = "", *, passed: bool) -> None:
        """Append a senior's verdict on a person's qualification.

        Raises:
            NotYoursError: the person is still at it.
        """
        if self.assignments.standing(person) == "unqualified":
            raise NotYoursError(f"{person} has not labelled all items of the qualification yet")
        with self.database.writing() as connection:
            connection.execute(QUERIES["new_verdict"], (person, senior, passed, comment, now()))
            self.assignments.search_from()

    def own_labels(self, person: str, words: str, page: int) -> list[tuple[int, str, str, str | None, str]]:
        """Find what a person labelled or skipped, newest first, `PAGE` at a time.

        Args:
            words: in the item, the label, its comment or the reason of a skip.
            page: from 0.

        Returns:
            Slot, what is shown (JSON; the item's id may name a model), stage, reason of a skip, and time.
        """
        return self.database.rows(QUERIES["own_labels"], person, words, PAGE + 1, page * PAGE)

    def skips(self) -> list[Skip]:
        """Return the items that people skipped and have not labelled since."""
        return [Skip(*row) for row in self.database.rows(QUERIES["skips"])]

    def labelled(self) -> Labelled:
        """Return all items with the labels that count."""
        with self.database.snapshot():
            labels: dict[str, list[Label]] = {}
            for item, stage, person, values, comment, seconds, at in self.database.rows(QUERIES["labelled"]):
                label = Label(item, stage, person, json.loads(values), comment, seconds, at)
                labels.setdefault(item, []).append(label)
            annotators = self._annotators()
            served = self.database.rows("SELECT id FROM items WHERE part = ?", QUALIFICATION)
            qualified = [person for person in annotators if self.assignments.standing(person) == "passed"]
            qualification, per_item = frozenset(item for (item,) in served), self.database.settings.per_item
            return Labelled(self.items(), labels, annotators, qualified, qualification, per_item, self.skips())

    def progress(self) -> list[Progress]:
        """Return the progress of every annotator."""
        progress = []
        for name in self._annotators():
            rows = self.database.rows("SELECT seconds FROM counting WHERE person = ?", name)
            times = [seconds for (seconds,) in rows if seconds is not None]
            progress.append(Progress(name, len(rows), self.assignments.state(name), median(times) if times else None))
        return progress
