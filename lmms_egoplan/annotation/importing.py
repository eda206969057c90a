"""Import labels from Label Studio, and predictions as the first values of forms."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import Connection
from typing import Annotated, Any

from lmms_egoplan.annotation.assignment import NotYoursError, Slot, take
from lmms_egoplan.annotation.database import QUERIES, as_json
from lmms_egoplan.annotation.export import task_data
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.forms import (
    Choice,
    Form,
    FormError,
    Marks,
    check_values,
    limited,
    read_values,
)
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import read_known
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_text
from lmms_egoplan.progress import track
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import AnyText, Checked, Expected, Seconds, Text, read_as

# Start of the form tokens of imported labels, as in queries.yaml.
_TOKEN = "label-studio"
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
        user = (
            self.completed_by if isinstance(self.completed_by, dict) else {"id": self.completed_by}
        )
        return str(user.get("id")), str(user.get("email") or f"Label Studio user {user.get('id')}")

    def sent(self, form: Form) -> dict[str, list[str]]:
        """Return what a browser would send.

        Raises:
            FormError: The form has no such field.
        """
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for result in self.result:
            for content in result.value.values():
                texts[result.from_name] += map(
                    str, content if isinstance(content, list) else [content]
                )
        for field in form.fields:
            if isinstance(field, Choice | Marks):
                # Results contain a choice's alias, if it has one: https://labelstud.io/tags/choice
                values = {option.text: option.value for option in field.options}
                values |= {option.value: option.value for option in field.options}
                texts[field.name] = [values.get(text, text) for text in texts[field.name]]
            if isinstance(field, Marks):
                marked = {
                    option: " ".join(texts.pop(f"{field.name}_{option}", []))
                    for option in texts[field.name]
                }
                steps = {
                    option: text.replace(",", " ").split() or [""]
                    for option, text in marked.items()
                }
                texts[field.name] = [
                    f"{option}:{step}" for option in steps for step in steps[option]
                ]
        if unknown := {*texts} - {"comment", *(field.name for field in form.fields)}:
            raise FormError(f"no such field as {join_list(sorted(unknown))}")
        return texts


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
        for name, outcome in (_label if is_labels else _predict)(store, connection, path):
            outcomes[outcome].append(name)
    missing = {why: names for why, names in outcomes.items() if why not in _DONE}
    counts = {outcome: len(outcomes[outcome]) for outcome in _DONE if outcome in outcomes}
    counts["not imported"] = sum(map(len, missing.values()))
    lines = [
        f"Not imported, because {why}: {join_list(names, most=20)}"
        for why, names in missing.items()
    ]
    return [
        *lines,
        f"{path}: {join_list([f'{count} {outcome}' for outcome, count in counts.items()])}",
    ]


def _predict(store: Store, connection: Connection, path: Path) -> Iterator[tuple[str, str]]:
    """Store predictions. Yield items with outcomes."""
    items = {item.id: (position, item) for position, item in enumerate(store.items())}
    stage = store.database.study.rounds[0].name
    for name, values in track(read_known(str(path)).items(), "Importing predictions"):
        if name not in items:
            raise LmmsEgoplanError(f"{path}, {name}: not one of the items; remove the line")
        position, item = items[name]
        check_values(store.flow.form(item.contents, (), 0, stage), values, f"{path}, {name}")
        is_stored = connection.execute(
            QUERIES["predict"], (as_json(values), position, stage)
        ).rowcount
        yield name, "predicted" if is_stored else "it is labelled, open, or not in the first round"


def _label(store: Store, connection: Connection, path: Path) -> Iterator[tuple[str, str]]:
    """Store the labels of Label Studio's tasks. Yield items and people with outcomes."""
    items = {str(position): item for position, item in enumerate(store.items())}
    people: dict[str, str] = {}
    for number, record in enumerate(
        track(parse_record(str(path), read_text(path)), "Importing labels"), 1
    ):
        where = f"{path}, task {number}"
        task = read_as(_Task, where, record)
        item = items.get(str(task.data.get("number")))
        if (
            item is None
            or not task_data(store.flow.form(item.contents)).items() <= task.data.items()
        ):
            raise LmmsEgoplanError(
                f"{where}, data: not from {store.database.path}; import it into its own database"
            )
        for annotation in task.annotations:
            user, called = annotation.user
            if user not in people:
                people[user] = _person(store, connection, f"{_TOKEN} {user} ", called)
            try:
                outcome = _save(
                    store, connection, int(task.data["number"]), item, people[user], annotation
                )
            except FormError as error:
                raise LmmsEgoplanError(f"{where}, annotation {annotation.id}, {error}") from error
            yield f"{item.id} ({people[user]})", outcome


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
    round_, study = store.database.study.rounds[0], store.database.study
    form = limited(
        store.flow.form(item.contents, (), 0, round_.name), study.limits(person, round_.people)
    )
    sent = annotation.sent(form)
    comment, is_skipped = "\n".join(sent.get("comment", ())), annotation.was_cancelled
    values = None if is_skipped else store.flow.check(item.contents, read_values(form, sent))
    reason = (comment or "skipped in Label Studio") if is_skipped else None
    ((stage, is_free, number, skipped, last, saved),) = connection.execute(
        QUERIES["place_of"], (person, position)
    )
    token = f"{_TOKEN} {annotation.user[0]} {annotation.id}"
    if number is None and not is_free:
        return "the item has all of its labels, or the person may not label it"
    if saved not in (None, token):
        return "another label of the person counts"
    number = take(connection, position, stage, person) if number is None else number
    slot = Slot(number, position, item, stage, person, (), None, "", last or 0, skipped)
    try:
        is_new = store.save(slot, token, values, comment, annotation.lead_time, skipped=reason)
    except NotYoursError as error:
        return str(error)
    return "unchanged" if not is_new else "corrected" if saved else "new"


def _person(store: Store, connection: Connection, token: str, called: str) -> str:
    """Return the annotator for a Label Studio user. Name a free or additional one after a new user."""
    study, group = store.database.study, store.database.study.rounds[0].people
    row = connection.execute(
        QUERIES["person_of"], {"group": group, "token": token, "called": called}
    ).fetchone()
    if row is None:
        count = study.people[group].count + 1
        store.change_people(
            {**study.people, group: study.people[group].model_copy(update={"count": count})}
        )
        row = (f"{group}-{count}", None)
    if not row[1]:
        store.call(row[0], called)
    return row[0]
