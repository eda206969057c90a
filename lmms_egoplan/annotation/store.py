"""Store people and their labels. Label rows are only appended, never changed."""

import json
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
    Database,
    StoreError,
    add_items,
    add_people,
    as_json,
    fixed_contents,
    new_token,
    now,
)
from lmms_egoplan.annotation.flow import ADJUDICATION, Flow, Item, Label, Labelled, Skip
from lmms_egoplan.annotation.forms import FormError, Values
from lmms_egoplan.annotation.gold import has_known
from lmms_egoplan.annotation.study import (
    ANNOTATOR,
    MAIN,
    QUALIFICATION,
    TRAINING,
    Gold,
    Group,
    Round,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import clean_text, join_list

# Number of labels or lines of a list per page.
PAGE = 100
# No item has a greater position.
_LAST_POSITION = 2**62


@dataclass(frozen=True)
class Person:
    """A person who may open the page.

    Attributes:
        name: Unique name, such as ``annotator-1``.
        role: `LEAD`, `SENIOR` or `ANNOTATOR`.
        token: Secret part of their link.
        called: Name of their user in Label Studio; None without one.
        group: Their group in the study; "" for the lead and seniors.
    """

    name: str
    role: str
    token: str
    called: str | None = None
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


@dataclass(frozen=True)
class OwnLabel:
    """An item that a person labelled or skipped.

    The item's id is omitted, because it may contain a model's name.

    Attributes:
        slot: Number of the slot.
        contents: Contents of the item, as JSON.
        stage: Name of the stage.
        skipped: Reason for skipping the item; None if it is not skipped.
        at: Time of saving, UTC, ISO 8601.
    """

    slot: int
    contents: str
    stage: str
    skipped: str | None
    at: str


class Store:
    """The labels and people of an open database. A label is on the disk when `save` returns.

    All methods raise `StoreError` if the database cannot be read or written.

    Attributes:
        assignments: Decides who labels which item.

    Args:
        flow: Flow of the database's benchmark.
    """

    def __init__(self, database: Database, flow: Flow) -> None:
        self.database = database
        self.flow = flow
        self.assignments = Assignments(database, flow)

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    def renew_items(
        self, items: Sequence[Item], where: str, *, skip_missing: bool = False, more: bool = False
    ) -> int:
        """Check that the database has exactly these items, and update their `Item.changing` values.

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
        has_duplicates = len(known) < len(items) - len(new)
        if skip_missing:
            is_accepted = bool(known)
        else:
            is_accepted = len(known) == len(stored) and not has_duplicates and (more or not new)
        if not is_accepted or not _are_same(known, stored):
            raise StoreError(
                f"{where}: the items differ from those in {self.database.path}, whose labels are "
                "unchanged. Restore the items, add new ones with --more, or use another --db for "
                "them"
            )
        added = new if more else []
        changed = _changed_rows(known, stored)
        if changed or added:
            with self.database.writing() as connection:
                connection.executemany(
                    "UPDATE items SET shown = :shown, hidden = :hidden WHERE id = :id", changed
                )
                add_items(connection, self.database.study, added, {})
        return len(added)

    def change_people(self, people: Mapping[str, Group], gold: Gold | None = None) -> None:
        """Add people to the groups.

        Args:
            people: All groups by name.
            gold: New settings of the gold items; None to keep those of the database.

        Raises:
            LmmsEgoplanError: A group has more people already, or there are other groups.
        """
        self._check_groups(people)
        gold = gold or self.database.study.gold
        study = self.database.study.model_copy(update={"people": dict(people), "gold": gold})
        with self.database.writing() as connection:
            add_people(connection, study)
            self.assignments.search_from()
            connection.execute(
                "UPDATE settings SET value = :study WHERE name = 'study'",
                {"study": json.dumps(study.model_dump())},
            )
        self.database.study = study

    def _check_groups(self, people: Mapping[str, Group]) -> None:
        """Check that the groups are those of the database, and that none has fewer people.

        Raises:
            LmmsEgoplanError: They are not.
        """
        stored = self.database.study.people
        if people.keys() != stored.keys():
            raise LmmsEgoplanError(
                f"people: {self.database.path} has other groups, which are fixed"
            )
        for name, group in people.items():
            number = stored[name].count
            if group.count < number:
                if name == ANNOTATOR:
                    option = f"--annotators {group.count}"
                else:
                    option = f"{name}, count {group.count}"
                raise LmmsEgoplanError(
                    f"{option}: {self.database.path} already has {number}; the number can only "
                    "increase"
                )

    def people(self) -> list[Person]:
        """Return the lead, then seniors, then annotators."""
        rows = self.database.rows(
            """
            SELECT name, role, token, called, team FROM people
            ORDER BY role = 'annotator', role = 'senior', team, length(name), name
            """
        )
        return [
            Person(
                name=row["name"],
                role=row["role"],
                token=row["token"],
                called=row["called"],
                group=row["team"],
            )
            for row in rows
        ]

    def allowed_options(self, person: str) -> Mapping[str, Sequence[str]]:
        """Return the options that a person may use, by field name. Absent fields keep all."""
        group, _, number = person.rpartition("-")
        study = self.database.study
        if group != study.rounds[0].people:
            return {}
        return self.flow.allowed_options(int(number), study.people[group].count)

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
                "UPDATE people SET called = :called WHERE name = :person",
                {"called": called or None, "person": person},
            )

    def renew_links(self, names: Sequence[str]) -> None:
        """Replace people's links by new ones. The old links and their cookies stop working.

        Raises:
            LmmsEgoplanError: A name is not that of a person.
        """
        known = [person.name for person in self.people()]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise LmmsEgoplanError(
                f"--renew {unknown[0]}: there is no such person; choose one of {join_list(known)}"
            )
        with self.database.writing() as connection:
            for name in names:
                connection.execute(
                    "UPDATE people SET token = :token WHERE name = :name",
                    {"token": new_token(), "name": name},
                )

    def _annotators(self) -> list[str]:
        return [person.name for person in self.people() if person.role == ANNOTATOR]

    def items(self) -> list[Item]:
        """Return all items in labelling order."""
        rows = self.database.rows(
            "SELECT id, shown, hidden, known, initial FROM items ORDER BY position"
        )
        return [as_item(row) for row in rows]

    def num_items(self) -> int:
        """Return the number of items."""
        return self.database.rows("SELECT count(*) AS number FROM items")[0]["number"]

    def totals(self) -> dict[str, int]:
        """Return the number of labels that all items need, by stage."""
        study = self.database.study
        rows = self.database.rows("SELECT part, count(*) AS number FROM items GROUP BY part")
        num_items = {row["part"]: row["number"] for row in rows}
        totals = {study.rounds[0].name: study.rounds[0].per_item * num_items.pop(MAIN, 0)}
        for round_ in study.rounds[1:]:
            totals[round_.name] = round_.per_item * self._num_items_in(round_)
        for part, number in num_items.items():
            totals[part] = study.learners * number
        return totals

    def _num_items_in(self, round_: Round) -> int:
        """Return the number of items of a later round, without those that a label sets aside."""
        rows = self.database.rows(
            """
            SELECT
                iif(
                    :is_sampled,
                    (SELECT count(*) FROM samples WHERE stage = :stage),
                    (SELECT count(*) FROM items WHERE part = 'main')
                ) - (
                    -- the index on people finds the few rows with this state
                    SELECT count(DISTINCT item)
                    FROM people CROSS JOIN slots ON slots.person = people.name
                    WHERE state = 'aside' AND stage IN (SELECT value FROM json_each(:deciding))
                        AND person NOT IN (SELECT person FROM failed)
                        AND (
                            NOT :is_sampled
                            OR EXISTS (
                                SELECT 1 FROM samples
                                WHERE stage = :stage AND item = slots.item
                            )
                        )
                ) AS number
            """,
            {
                "is_sampled": round_.sample is not None,
                "stage": round_.name,
                "deciding": json.dumps([other.name for other in self.database.study.deciding]),
            },
        )
        return rows[0]["number"]

    def share(self, person: Person) -> tuple[int, int]:
        """Return the number of a person's labels, and their share of all labels of their group.

        Everybody in a group has the same share. Both numbers include training, qualification and
        gold items, the second one the mean number of these.
        """
        study = self.database.study
        group = study.people[person.group]
        totals = self.totals()
        in_rounds = sum(
            totals.get(round_.name, 0) for round_ in study.rounds if round_.people == person.group
        )
        share = in_rounds / group.count
        if person.group == study.rounds[0].people:
            share += self.assignments.gold.mean_asked(share)
            in_parts = sum(totals.get(part, 0) for part in (TRAINING, QUALIFICATION))
            share += in_parts / group.count
        rows = self.database.rows(
            "SELECT count(*) AS number FROM labelled WHERE person = :person",
            {"person": person.name},
        )
        return rows[0]["number"], ceil(share)

    def positions(self) -> dict[str, int]:
        """Return the position of each item by its id."""
        rows = self.database.rows("SELECT id, position FROM items")
        return {row["id"]: row["position"] for row in rows}

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
        sent = _SavedForm(
            form=form,
            values=None if values is None else as_json(values),
            comment=clean_text(comment),
            reason=None if skipped is None else clean_text(skipped),
        )
        with self.database.writing() as connection:
            last, saved = _last_saved(connection, slot.id)
            if saved == sent:
                return False
            self.assignments.check_open(connection, slot)
            is_withdrawn = saved.values is None and saved.reason is None
            if slot.last != last and saved.form != form and not is_withdrawn:
                raise NewerLabelError(
                    "this item was saved in another tab or window after this page was opened"
                )
            state = "skipped" if values is None else self._state_of_label(slot.stage, values)
            _append(connection, slot.id, state, sent, seconds)
            self.assignments.search_from(slot.position, slot.stage)
        return True

    def _state_of_label(self, stage: str, values: Values) -> str:
        """Return the state of a slot with a label: only deciding rounds can set an item aside."""
        is_deciding = stage in [round_.name for round_ in self.database.study.deciding]
        return "aside" if is_deciding and self.flow.sets_aside(values) else "labelled"

    def undo_decision(self, position: int) -> bool:
        """Withdraw the lead's decision on an item, so its annotators may change their labels again.

        Returns:
            Whether there was a decision.

        Raises:
            NotYoursError: A final round of the item has begun.
        """
        with self.database.writing() as connection:
            self.assignments.check_not_begun(connection, position, self.database.study.final)
            rows = connection.execute(
                "SELECT id FROM labelled WHERE stage = 'adjudication' AND item = :position",
                {"position": position},
            ).fetchall()
            for row in rows:
                withdrawal = _SavedForm(form="", values=None, comment="", reason=None)
                _append(connection, row["id"], "open", withdrawal, None)
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
            row = connection.execute(
                """
                SELECT id FROM slots
                WHERE stage = 'adjudication' AND item = :position AND state != 'released'
                """,
                {"position": position},
            ).fetchone()
            number = row["id"] if row else take(connection, position, ADJUDICATION, lead)
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
            connection.execute(
                """
                INSERT INTO verdicts (person, senior, passed, comment, at)
                VALUES (:person, :senior, :passed, :comment, :at)
                """,
                {
                    "person": person,
                    "senior": senior,
                    "passed": passed,
                    "comment": comment,
                    "at": now(),
                },
            )
            # The verdict changes which labels count.
            self.assignments.search_from()

    def own_labels(self, person: str, words: str, page: int) -> list[OwnLabel]:
        """Find the items that a person labelled or skipped, newest first, one more than on a page.

        Args:
            words: Text to find in the item, the label, its comment or the reason for a skip.
            page: Number of the page, from 0.
        """
        rows = self.database.rows(
            """
            SELECT slots.id, items.shown, slots.stage, slots.state, slots.reason, slots.at
            FROM slots JOIN items ON items.position = slots.item
            WHERE person = :person AND state IN ('labelled', 'aside', 'skipped')
                AND instr(
                    lower(
                        items.shown || ' '
                        || iif(state = 'skipped', reason, "values" || ' ' || comment)
                    ),
                    lower(:words)
                )
            ORDER BY slots.id DESC LIMIT :most OFFSET :start
            """,
            {"person": person, "words": words, "most": PAGE + 1, "start": page * PAGE},
        )
        return [
            OwnLabel(
                slot=row["id"],
                contents=row["shown"],
                stage=row["stage"],
                skipped=row["reason"] if row["state"] == "skipped" else None,
                at=row["at"],
            )
            for row in rows
        ]

    def labelled(self) -> Labelled:
        """Return all items with the labels that count."""
        with self.database.snapshot():
            annotators = self._annotators()
            return Labelled(
                study=self.database.study,
                items=[item for item in self.items() if item.known is None],
                labels=self._labels(),
                people=annotators,
                qualified=[
                    person for person in annotators if self.assignments.standing(person) == "passed"
                ],
                qualification=self._qualification_ids(),
                samples={
                    round_.name: self._ids_in_sample(round_.name)
                    for round_ in self.database.study.rounds
                    if round_.sample
                },
                skips=self._skips(),
            )

    def labels_of(self, position: int) -> list[Label]:
        """Return the labels of one item that count."""
        labels: list[Label] = []
        for item_labels in self._labels(position, position).values():
            labels += item_labels
        return labels

    def is_valid(self, label: Label) -> bool:
        """Return whether a label is from the lead, or from a person who has passed."""
        return label.stage == ADJUDICATION or self.assignments.standing(label.person) == "passed"

    def _labels(self, first: int = 0, last: int = _LAST_POSITION) -> dict[str, list[Label]]:
        """Return the labels that count, by item, for the items between two positions."""
        # A form starts with a prediction only in the first round, and not if the person's first
        # label is imported.
        rows = self.database.rows(
            """
            SELECT items.id, stage, person, "values", comment, seconds, at,
                CASE
                    WHEN initial IS NOT NULL AND stage = :first_round
                        AND (
                            SELECT form FROM history
                            WHERE slot = labelled.id AND "values" IS NOT NULL
                            ORDER BY id LIMIT 1
                        ) NOT LIKE 'label-studio %'
                    THEN initial
                    ELSE 'null'
                END AS prediction
            FROM labelled JOIN items ON items.position = labelled.item
            WHERE stage IN (SELECT value FROM json_each(:stages))
                AND item BETWEEN :first AND :last
            ORDER BY labelled.last
            """,
            {
                "first_round": self.database.study.rounds[0].name,
                "stages": json.dumps(self.database.study.stages),
                "first": first,
                "last": last,
            },
        )
        labels: dict[str, list[Label]] = {}
        for row in rows:
            label = Label(
                item=row["id"],
                stage=row["stage"],
                person=row["person"],
                values=json.loads(row["values"]),
                comment=row["comment"],
                seconds=row["seconds"],
                at=row["at"],
                initial=json.loads(row["prediction"]),
            )
            labels.setdefault(label.item, []).append(label)
        return labels

    def _qualification_ids(self) -> frozenset[str]:
        """Return the ids of the qualification items."""
        rows = self.database.rows("SELECT id FROM items WHERE part = 'qualification'")
        return frozenset(row["id"] for row in rows)

    def _ids_in_sample(self, stage: str) -> frozenset[str]:
        """Return the ids of the items in a round's sample."""
        rows = self.database.rows(
            """
            SELECT items.id FROM samples JOIN items ON items.position = samples.item
            WHERE samples.stage = :stage
            """,
            {"stage": stage},
        )
        return frozenset(row["id"] for row in rows)

    def _skips(self) -> list[Skip]:
        """Return the items that people skipped."""
        rows = self.database.rows(
            """
            SELECT items.id, stage, person, reason FROM slots
            JOIN items ON items.position = slots.item
            WHERE state = 'skipped'
            ORDER BY slots.id
            """
        )
        return [Skip(row["id"], row["stage"], row["person"], row["reason"]) for row in rows]

    def progress(self) -> Iterator[Progress]:
        """Yield the progress of every annotator."""
        for person in self._annotators():
            rows = self.database.rows(
                "SELECT seconds FROM labelled WHERE person = :person", {"person": person}
            )
            times = [row["seconds"] for row in rows if row["seconds"] is not None]
            gold = self._gold_results(person)
            yield Progress(
                person=person,
                labelled=len(rows),
                state=self.assignments.state(person),
                seconds=median(times) if times else None,
                gold_right=sum(gold),
                gold=len(gold),
            )

    def _gold_results(self, person: str) -> list[bool]:
        """Return, for each of a person's gold items, whether the label has the known values."""
        rows = self.database.rows(
            """
            SELECT "values", known FROM labelled JOIN items ON items.position = labelled.item
            WHERE person = :person AND stage = 'gold'
            """,
            {"person": person},
        )
        return [has_known(json.loads(row["known"]), json.loads(row["values"])) for row in rows]


@dataclass(frozen=True)
class _SavedForm:
    """The stored part of a form; a repeated submission has an equal one."""

    form: str
    values: str | None
    comment: str
    reason: str | None


def _last_saved(connection: sqlite3.Connection, slot: int) -> tuple[int, _SavedForm]:
    """Return the number and contents of a slot's last row of history; an empty form without one."""
    row = connection.execute(
        """
        SELECT history.id, form, history."values", history.comment, history.reason
        FROM slots JOIN history ON history.id = slots.last
        WHERE slots.id = :slot
        """,
        {"slot": slot},
    ).fetchone()
    if row is None:
        return 0, _SavedForm(form="", values=None, comment="", reason=None)
    saved = _SavedForm(
        form=row["form"], values=row["values"], comment=row["comment"], reason=row["reason"]
    )
    return row["id"], saved


def _append(
    connection: sqlite3.Connection, slot: int, state: str, saved: _SavedForm, seconds: float | None
) -> None:
    """Append a row to the history of a slot, and give the slot its state.

    A slot keeps its last values when it is skipped or its label is withdrawn.
    """
    row = {
        "slot": slot,
        "state": state,
        "form": saved.form,
        "values": saved.values,
        "comment": saved.comment,
        "seconds": seconds,
        "reason": saved.reason,
        "at": now(),
    }
    last = connection.execute(
        """
        INSERT INTO history (slot, form, "values", comment, seconds, reason, at)
        VALUES (:slot, :form, :values, :comment, :seconds, :reason, :at)
        """,
        row,
    ).lastrowid
    connection.execute(
        """
        UPDATE slots SET state = :state, reason = :reason, at = :at, last = :last WHERE id = :slot
        """,
        {**row, "last": last},
    )
    if saved.values is not None:
        connection.execute(
            """
            UPDATE slots SET "values" = :values, comment = :comment, seconds = :seconds
            WHERE id = :slot
            """,
            row,
        )


def _are_same(known: Mapping[str, Item], stored: Mapping[str, Item]) -> bool:
    """Return whether items differ from the stored ones only in `Item.changing` values."""
    return all(
        fixed_contents(item) == fixed_contents(replace(stored[name], changing=item.changing))
        for name, item in known.items()
    )


def _changed_rows(known: Mapping[str, Item], stored: Mapping[str, Item]) -> list[dict[str, str]]:
    """Return id and contents of the items whose stored contents must be updated."""
    rows = []
    for name, item in known.items():
        shown = as_json(item.contents)
        hidden = as_json(item.hidden)
        if shown != as_json(stored[name].contents) or hidden != as_json(stored[name].hidden):
            rows.append({"id": name, "shown": shown, "hidden": hidden})
    return rows


def kept_predictions(labelled: Labelled) -> list[str]:
    """Return a line that counts the labels with all values of the prediction.

    Without predictions, there is no line.
    """
    number = 0
    unchanged = 0
    for labels in labelled.labels.values():
        for label in labels:
            if label.initial:
                number += 1
                unchanged += has_known(label.initial, label.values)
    if not number:
        return []
    return [f"Labels that started with a prediction: {number}, kept unchanged: {unchanged}"]
