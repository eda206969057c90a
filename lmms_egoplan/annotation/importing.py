"""Import labels from Label Studio, and predictions as the first values of forms."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Annotated, Any

from lmms_egoplan.annotation.assignment import NotYoursError, Slot, take
from lmms_egoplan.annotation.database import as_json
from lmms_egoplan.annotation.export import task_data
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.forms import (
    Choice,
    Form,
    FormError,
    Marks,
    Moment,
    Values,
    check_values,
    read_values,
    with_allowed_options,
)
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import Study, read_known
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_text
from lmms_egoplan.progress import track
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import AnyText, Checked, Expected, Seconds, Text, read_as

# Start of the form tokens of imported labels. `Store.labelled` recognizes them by it.
_TOKEN = "label-studio"
# Outcomes of imported records; any other outcome is a reason why a record was not imported.
_DONE = ("new", "corrected", "unchanged", "predicted")


# The JSON format of Label Studio: https://labelstud.io/guide/task_format
class _Result(Checked):
    from_name: Text
    value: dict[
        str,
        Annotated[list[AnyText] | AnyText | float, Expected("a text, a list of texts or a number")],
    ]


class _Annotation(Checked):
    id: Annotated[int | str, Expected("a number or a text")]
    completed_by: Annotated[int | str | dict[str, Any], Expected("a user's number, name or object")]
    result: list[_Result]
    was_cancelled: bool = False
    lead_time: Seconds | None = None

    @property
    def user(self) -> tuple[str, str]:
        """The annotator's id and displayed name."""
        if isinstance(self.completed_by, dict):
            user_id = self.completed_by.get("id")
            email = self.completed_by.get("email")
        else:
            user_id = self.completed_by
            email = None
        return str(user_id), str(email or f"Label Studio user {user_id}")

    def sent(self, form: Form) -> dict[str, list[str]]:
        """Return what a browser would send.

        Raises:
            FormError: The form has no such field.
        """
        texts = self._texts()
        for field in form.fields:
            if isinstance(field, Choice | Marks):
                # Results contain a choice's alias, if it has one: https://labelstud.io/tags/choice
                values = {option.text: option.value for option in field.options}
                values |= {option.value: option.value for option in field.options}
                texts[field.name] = [values.get(text, text) for text in texts[field.name]]
            if isinstance(field, Marks):
                texts[field.name] = _marks(field.name, texts)
        unknown = {*texts} - {"comment", *(field.name for field in form.fields)}
        if unknown:
            raise FormError(f"no such field as {join_list(sorted(unknown))}")
        return texts

    def _texts(self) -> defaultdict[str, list[str]]:
        """Return the results as texts, by field."""
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for result in self.result:
            for content in result.value.values():
                if isinstance(content, list):
                    texts[result.from_name] += [str(text) for text in content]
                else:
                    texts[result.from_name].append(str(content))
        return texts


def _marks(field: str, texts: defaultdict[str, list[str]]) -> list[str]:
    """Return the values of a field's boxes: each marked option with each of its steps.

    Removes the steps, which Label Studio stores as texts with names such as ``errors_missing``.
    """
    marks = []
    for option in texts[field]:
        steps = " ".join(texts.pop(f"{field}_{option}", []))
        for step in steps.replace(",", " ").split() or [""]:
            marks.append(f"{option}:{step}")
    return marks


class _Task(Checked):
    data: dict[str, Any]
    annotations: list[_Annotation]


def import_file(store: Store, path: Path) -> list[str]:
    """Import labels that Label Studio exported, or predictions. An invalid record imports nothing.

    Labels are stored as if their annotators had used the page. A repeated import stores only what
    has changed.

    Args:
        store: Opened exclusively.
        path: JSON export of a Label Studio project with tasks of `write_label_studio`, or lines as
            for `read_known`.

    Returns:
        What was not imported, and a summary.

    Raises:
        LmmsEgoplanError: The file has another format, is about other items, or has an invalid
            value. The message names record and field.
    """
    is_labels = read_text(path).lstrip().startswith("[")
    outcomes: defaultdict[str, list[str]] = defaultdict(list)
    with store.database.writing() as connection:
        # Other connections of this process read the file until the transaction ends.
        connection.execute("PRAGMA cache_spill = OFF")
        import_records = _label if is_labels else _predict
        for name, outcome in import_records(store, connection, path):
            outcomes[outcome].append(name)
    return [*_failures(outcomes), f"{path}: {_summary(outcomes)}"]


def _failures(outcomes: Mapping[str, list[str]]) -> list[str]:
    """Return a line for each reason why records were not imported."""
    return [
        f"Not imported, because {reason}: {join_list(names, most=20)}"
        for reason, names in outcomes.items()
        if reason not in _DONE
    ]


def _summary(outcomes: Mapping[str, list[str]]) -> str:
    """Count the records of each outcome."""
    counts = [f"{len(outcomes[outcome])} {outcome}" for outcome in _DONE if outcome in outcomes]
    not_imported = sum(len(names) for outcome, names in outcomes.items() if outcome not in _DONE)
    return join_list([*counts, f"{not_imported} not imported"])


def _predict(store: Store, connection: Connection, path: Path) -> Iterator[tuple[str, str]]:
    """Store predictions. Yield items with outcomes."""
    items = {item.id: (position, item) for position, item in enumerate(store.items())}
    stage = store.database.study.rounds[0].name
    for name, values in track(read_known(str(path)).items(), "Importing predictions"):
        if name not in items:
            raise LmmsEgoplanError(f"{path}, {name}: not one of the items; remove the line")
        position, item = items[name]
        check_values(store.flow.form(item.contents, (), 0, stage), values, f"{path}, {name}")
        if _store_prediction(connection, position, stage, as_json(values)):
            yield name, "predicted"
        else:
            yield name, "it is labelled, open, or not in the first round"


def _store_prediction(connection: Connection, position: int, stage: str, values: str) -> bool:
    """Store a prediction, unless somebody has opened the item's form.

    Only the form of the first round starts with a prediction, and that of gold items, which look
    the same.

    Returns:
        Whether the prediction was stored.
    """
    cursor = connection.execute(
        """
        UPDATE items SET initial = :values
        WHERE position = :position AND part IN ('main', 'gold')
            AND NOT EXISTS (
                SELECT 1 FROM slots
                WHERE item = position AND stage IN (:stage, 'gold')
                    AND state IN ('open', 'labelled', 'aside')
            )
        """,
        {"values": values, "position": position, "stage": stage},
    )
    return bool(cursor.rowcount)


def _label(store: Store, connection: Connection, path: Path) -> Iterator[tuple[str, str]]:
    """Store the labels of Label Studio's tasks. Yield items and people with outcomes."""
    items = {str(position): item for position, item in enumerate(store.items())}
    people: dict[str, str] = {}
    outcomes: list[tuple[Item, _Annotation, str]] = []
    records = parse_record(str(path), read_text(path))
    for number, record in enumerate(track(records, "Importing labels"), 1):
        where = f"{path}, task {number}"
        task = read_as(_Task, where, record)
        item = items.get(str(task.data.get("number")))
        if item is None or not _is_task_of(task, store.flow.form(item.contents)):
            raise LmmsEgoplanError(
                f"{where}, data: not from {store.database.path}; import it into its own database"
            )
        for annotation in task.annotations:
            position = int(task.data["number"])
            try:
                outcome = _save_as_user(store, connection, position, item, people, annotation)
            except FormError as error:
                raise LmmsEgoplanError(f"{where}, annotation {annotation.id}, {error}") from error
            outcomes.append((item, annotation, outcome))
    names: dict[str, str] = {}
    for item, annotation, outcome in outcomes:
        user, called = annotation.user
        if user not in names:
            names[user] = _name(store, connection, user, called)
        yield f"{item.id} ({names[user]})", outcome


def _is_task_of(task: _Task, form: Form) -> bool:
    """Return whether a task shows what a form shows."""
    return task_data(form).items() <= task.data.items()


def _save_as_user(
    store: Store,
    connection: Connection,
    position: int,
    item: Item,
    people: dict[str, str],
    annotation: _Annotation,
) -> str:
    """Save a label of a Label Studio user. Return the outcome.

    The user becomes an annotator with the first label that is imported.

    Args:
        people: Annotators by user, for users with such a label. This function adds the user.

    Raises:
        FormError: A value is missing or invalid.
    """
    user, called = annotation.user
    if user in people:
        return _save(store, connection, position, item, people[user], annotation)
    study = store.database.study
    connection.execute("SAVEPOINT user")
    person = _person(store, connection, user, called)
    outcome = _save(store, connection, position, item, person, annotation)
    if outcome in _DONE:
        people[user] = person
    else:
        connection.execute("ROLLBACK TO user")
        store.database.study = study
    connection.execute("RELEASE user")
    return outcome


def _save(
    store: Store,
    connection: Connection,
    position: int,
    item: Item,
    person: str,
    annotation: _Annotation,
) -> str:
    """Save a label. Return the outcome.

    Raises:
        FormError: A value is missing or invalid.
    """
    sent = _read_annotation(store, item, person, annotation)
    place = _place(connection, store.database.study, person, position)
    user_id, _ = annotation.user
    token = f"{_TOKEN} {user_id} {annotation.id}"
    number = place["slot"]
    if number is None and not place["is_free"]:
        return "the item has all of its labels, or the person may not label it"
    if place["form"] not in (None, token):
        return "another label of the person counts"
    if number is None:
        number = take(connection, position, place["stage"], person)
    slot = Slot(
        id=number,
        position=position,
        item=item,
        stage=place["stage"],
        person=person,
        earlier=(),
        values=None,
        comment="",
        last=place["last"] or 0,
        skipped=place["skipped"],
    )
    try:
        is_new = store.save(
            slot, token, sent.values, sent.comment, annotation.lead_time, skipped=sent.skipped
        )
    except NotYoursError as error:
        return str(error)
    if not is_new:
        return "unchanged"
    return "corrected" if place["form"] else "new"


@dataclass(frozen=True)
class _Sent:
    """What an annotation contains for `Store.save`.

    Attributes:
        values: Values of the form; None if the item was skipped.
        comment: The annotator's comment.
        skipped: Reason for skipping the item; None if it was not skipped.
    """

    values: Values | None
    comment: str
    skipped: str | None


def _read_annotation(store: Store, item: Item, person: str, annotation: _Annotation) -> _Sent:
    """Read an annotation as the person's form of the first round would be read.

    Raises:
        FormError: A value is missing or invalid.
    """
    first_round = store.database.study.rounds[0]
    form = with_allowed_options(
        store.flow.form(item.contents, (), 0, first_round.name),
        store.allowed_options(person),
    )
    sent = annotation.sent(form)
    comment = "\n".join(sent.get("comment", ()))
    if annotation.was_cancelled:
        return _Sent(None, comment, comment or "skipped in Label Studio")
    sent |= _times_in_video(store.flow.form(item.contents), sent)
    return _Sent(store.flow.check(item.contents, read_values(form, sent)), comment, None)


def _times_in_video(form: Form, sent: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Convert the times in an annotation, which are seconds of the clip, to seconds of the video.

    Args:
        form: Form of the task. Its clip has no frame after the recorded end.

    Raises:
        FormError: A time is missing, or outside the clip.
    """
    return {
        field.name: [str(field.from_clip_time(sent.get(field.name, ())))]
        for field in form.fields
        if isinstance(field, Moment)
    }


def _place(connection: Connection, study: Study, person: str, position: int) -> Row:
    """Return an item's place in the first round or in its part, with the person's slot there.

    Columns are the place's ``stage`` and whether it ``is_free`` for the person; number (``slot``)
    and ``skipped`` of the person's slot; number (``last``) and ``form`` of the slot's last row of
    history. No place is free for people who failed, or in a qualification that was reviewed.
    """
    return connection.execute(
        """
        WITH place AS (
            SELECT
                iif(part = 'main', :first_round, part) AS stage,
                iif(part = 'main', :per_item, :learners) AS needed
            FROM items WHERE position = :position
        )
        SELECT
            place.stage,
            (
                SELECT count(*) FROM taken WHERE stage = place.stage AND item = :position
            ) < place.needed
                AND NOT EXISTS (SELECT 1 FROM decided WHERE item = :position)
                AND :person NOT IN (SELECT person FROM failed)
                AND NOT (
                    place.stage = 'qualification'
                    AND EXISTS (SELECT 1 FROM verdicts WHERE person = :person)
                ) AS is_free,
            slots.id AS slot, iif(slots.state = 'skipped', slots.reason, NULL) AS skipped,
            slots.last, history.form
        FROM place
        LEFT JOIN slots ON slots.stage = place.stage AND slots.item = :position
            AND slots.person = :person AND slots.state != 'released'
        LEFT JOIN history ON history.id = slots.last
        """,
        {
            "person": person,
            "position": position,
            "first_round": study.rounds[0].name,
            "per_item": study.rounds[0].per_item,
            "learners": study.learners,
        },
    ).fetchone()


def _person(store: Store, connection: Connection, user: str, called: str) -> str:
    """Return the annotator for a Label Studio user.

    A new user's name is given to an annotator without one, or to an additional one.
    """
    study = store.database.study
    group = study.rounds[0].people
    row = _annotator_of_user(connection, group, user, called)
    if row is None:
        count = study.people[group].count + 1
        larger_group = study.people[group].model_copy(update={"count": count})
        store.change_people({**study.people, group: larger_group})
        person = f"{group}-{count}"
        store.call(person, called)
        return person
    if not row["called"]:
        store.call(row["name"], called)
    return row["name"]


def _name(store: Store, connection: Connection, user: str, called: str) -> str:
    """Return the name of a Label Studio user's annotator, or of the user if there is none."""
    row = _annotator_of_user(connection, store.database.study.rounds[0].people, user, called)
    if row and (row["is_known"] or row["called"] == called):
        return row["name"]
    return called


def _annotator_of_user(connection: Connection, group: str, user: str, called: str) -> Row | None:
    """Find the annotator of a Label Studio user.

    The first of: one with labels of that user, one with that user's name, one without labels and
    name.
    """
    return connection.execute(
        """
        SELECT
            name, called,
            EXISTS (
                SELECT 1 FROM slots JOIN history ON history.slot = slots.id
                WHERE person = name AND substr(form, 1, length(:token)) = :token
            ) AS is_known
        FROM people
        WHERE team = :group
            AND (
                is_known
                OR called IS :called
                OR called IS NULL AND name NOT IN (SELECT person FROM slots)
            )
        ORDER BY NOT is_known, called IS NOT :called, length(name), name
        LIMIT 1
        """,
        {"group": group, "token": f"{_TOKEN} {user} ", "called": called},
    ).fetchone()
