"""Render the HTML pages for annotators, seniors and the lead."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from lmms_egoplan.annotation.agreement import WHEN_UNDEFINED, agreements, people_agreements
from lmms_egoplan.annotation.assignment import Slot
from lmms_egoplan.annotation.flow import ADJUDICATION, Item, Label, Labelled, values_by_round
from lmms_egoplan.annotation.forms import Choice, Field, Form, FormError, Marks, Prose, Values
from lmms_egoplan.annotation.gold import has_known
from lmms_egoplan.annotation.store import PAGE, Person, Store, kept_predictions
from lmms_egoplan.annotation.study import ANNOTATOR, GOLD, QUALIFICATION, TRAINING

# A row of keys for each field with options. z, n and g have other uses. The fifth row has the
# digits that the first does not use. An option that begins with a number has its last digit as key:
# 5 for "0.5: partly right".
_KEYS = ("1234567890", "qwertyuiop", "asdfhjkl", "xcvbm", "67890")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
# Maximum length of an item's text in a list, in characters.
_EXCERPT = 120
_TEMPLATES = Path(__file__).parent / "templates"


def static_file(name: str) -> Path | None:
    """Return the path of a shared static file; None for any other name."""
    return {
        "style.css": _TEMPLATES.parents[1] / "report" / "templates" / "style.css",
        "annotation.css": _TEMPLATES / "annotation.css",
        "annotation.js": _TEMPLATES / "annotation.js",
    }.get(name)


@dataclass(frozen=True)
class QualificationRow:
    """A label of a qualification, as seniors see it.

    Attributes:
        position: Position of the item.
        item: The item.
        label: The label.
        agrees: Whether the label agrees with the recorded answer; None if there is none.
    """

    position: int
    item: Item
    label: Label
    agrees: bool | None


class Pages:
    """The pages of one database.

    Args:
        csrf: Returns the token that a person's forms must send back.
    """

    def __init__(self, store: Store, csrf: Callable[[Person], str]) -> None:
        self._store = store
        self._flow = store.flow
        self._csrf = csrf

    def item(self, person: Person, slot: Slot, form: Form, nonce: str, error: str = "") -> str:
        """Show an item with its form.

        Args:
            nonce: Token of the form, passed to `Store.save`.
            error: Why the previous input was not saved; `slot` contains that input.
        """
        return self._render(
            "item",
            person,
            slot=slot,
            form=form,
            nonce=nonce,
            stage=self.title_of(slot.stage),
            error=error,
            other_labels=self._labels_to_decide_on(slot),
            feedback=_feedback(slot, form),
        )

    def _labels_to_decide_on(self, slot: Slot) -> list[Label]:
        """Return the labels of an item that the lead decides on; none for other stages."""
        if slot.stage != ADJUDICATION:
            return []
        labels = self._store.labels_of(slot.position)
        return [label for label in labels if label.stage != ADJUDICATION]

    def title_of(self, stage: str) -> str:
        """Return the displayed name of a stage. Gold items look like those of the first round."""
        if stage == GOLD:
            stage = self._store.database.study.rounds[0].name
        titles = {flow_stage.name: flow_stage.title for flow_stage in self._flow.stages}
        return titles.get(stage, stage.capitalize())

    def mine(self, person: Person, words: str, page: int) -> str:
        """List a person's labels and skips, with links for changes."""
        labels = self._store.own_labels(person.name, words, page)
        rows = []
        for label in labels[:PAGE]:
            excerpt = self._excerpt(json.loads(label.contents)) or f"Item {label.slot}"
            rows.append({"label": label, "excerpt": excerpt, "stage": self.title_of(label.stage)})
        return self._render(
            "mine", person, words=words, page=page, rows=rows, is_last=len(labels) <= PAGE
        )

    def _excerpt(self, contents: Mapping[str, Any]) -> str:
        """Return the beginning of an item's texts."""
        parts = self._flow.form(contents).parts
        texts = [part.text for part in parts if isinstance(part, Prose)]
        return " · ".join(texts)[:_EXCERPT]

    def idle(self, person: Person) -> str:
        """Explain to an annotator why there is nothing to label."""
        return self._render("idle", person, state=self._store.assignments.state(person.name))

    def senior(self, person: Person) -> str:
        """Show a senior the qualifications to review."""
        labelled = self._store.labelled()
        positions = self._store.positions()
        items = [item for item in labelled.items if item.id in labelled.qualification]
        waiting = []
        for name in labelled.people:
            rows = self._qualification_rows(labelled, items, positions, name)
            skips = [
                skip
                for skip in labelled.skips
                if skip.person == name and skip.stage == QUALIFICATION
            ]
            if items and len(rows) + len(skips) == len(items):
                waiting.append((name, rows, skips, self._store.assignments.verdicts(name)))
        guide: dict[str, None] = {}
        for item in items:
            guide |= dict.fromkeys(self._flow.guide_to(item.contents))
        return self._render("senior", person, guide=guide, waiting=waiting)

    def _qualification_rows(
        self,
        labelled: Labelled,
        items: Sequence[Item],
        positions: Mapping[str, int],
        name: str,
    ) -> list[QualificationRow]:
        """Return a person's qualification labels, those that differ from the record first."""
        rows = []
        for item in items:
            for label in labelled.labels.get(item.id, ()):
                if label.person == name and label.stage == QUALIFICATION:
                    agrees = self._flow.agrees(item, label.values)
                    rows.append(QualificationRow(positions[item.id], item, label, agrees))
        return sorted(rows, key=lambda row: row.agrees is not False)

    def view(self, person: Person, position: int) -> str:
        """Show an item without a form."""
        item = self._store.assignments.item(position)
        return self._render(
            "view", person, item=item, form=self.viewed(position), position=position
        )

    def viewed(self, position: int) -> Form:
        """Return the form of an item after its latest labels."""
        assignments = self._store.assignments
        return self._flow.form(assignments.item(position).contents, assignments.earlier(position))

    def agreement(self, person: Person) -> str:
        """Show agreement. Computing its intervals takes time."""
        labelled = self._store.labelled()
        people = people_agreements(self._flow, labelled)
        rows = agreements(self._flow, labelled, people)
        return self._render(
            "agreement", person, agreements=rows, people=people, when_undefined=WHEN_UNDEFINED
        )

    def lead(self, person: Person, page: int) -> str:
        """Show the lead progress, disagreements, skipped items and comments, `PAGE` of each."""
        labelled = self._store.labelled()
        positions = self._store.positions()
        differing = {item.id for item in disputed(labelled, self._store)}
        decided = []
        for item in labelled.items:
            decision = labelled.adjudicated(item)
            if decision or item.id in differing:
                decided.append((positions[item.id], item.id, decision))
        comments = []
        for labels in labelled.labels.values():
            comments += [label for label in labels if label.comment]
        lists: dict[str, Sequence[Any]] = {
            "disputed": decided,
            "comments": comments,
            "skips": labelled.skips,
        }
        start = page * PAGE
        stop = start + PAGE
        return self._render(
            "lead",
            person,
            counts=stage_counts(labelled, self._store),
            page=page,
            positions=positions,
            numbers={name: len(lines) for name, lines in lists.items()},
            is_last=all(len(lines) <= stop for lines in lists.values()),
            remarks=[*self._flow.remarks(labelled), *kept_predictions(labelled)],
            **{name: lines[start:stop] for name, lines in lists.items()},
        )

    def _render(self, name: str, person: Person, **context: Any) -> str:
        template = environment().get_template(f"{name}.html.jinja")
        return template.render(
            flow=self._flow,
            store=self._store,
            person=person,
            base=person.base,
            csrf=self._csrf(person),
            **context,
        )


def _feedback(slot: Slot, form: Form) -> list[tuple[str, str]]:
    """Return the known values of a training item after a label, and how the label compares."""
    known = slot.item.known
    if slot.stage != TRAINING or not (slot.last and known and slot.values):
        return []
    verdict = "agrees with it" if has_known(known, slot.values) else "differs from it"
    return [*described(form, known), ("Your label", verdict)]


def message_page(title: str, text: str, base: str | None) -> str:
    """Render a page with one message.

    Args:
        base: Path of the visitor's pages, for style sheets and a link to continue. None for unknown
            visitors.
    """
    template = environment().get_template("message.html.jinja")
    return template.render(title=title, text=text, base=base)


def disputed(labelled: Labelled, store: Store) -> list[Item]:
    """Return the fully labelled items whose labels differ."""
    items = []
    for item in labelled.items:
        labels = labelled.complete(item)
        if labels and store.flow.differ(item, values_by_round(labels)):
            items.append(item)
    return items


def stage_counts(labelled: Labelled, store: Store) -> Iterator[tuple[str, int, int]]:
    """Yield each stage's title, number of labels and number of labels needed."""
    main = [item for item in labelled.items if item.id not in labelled.qualification]
    if labelled.qualification:
        number = sum(len(labelled.labels.get(item, ())) for item in labelled.qualification)
        yield "Qualification", number, labelled.study.learners * len(labelled.qualification)
    titles = {stage.name: stage.title for stage in store.flow.stages}
    needed = store.totals()
    for round_ in labelled.study.rounds:
        number = sum(len(labelled.labels_of(item, round_.name)) for item in main)
        yield titles[round_.name], number, needed.get(round_.name, 0)


def field_keys(form: Form) -> dict[str, dict[str, str]]:
    """Assign keyboard keys to options, by field and option. Each field uses one row of `_KEYS`.

    In a row of digits, an option that begins with a number gets that number's last digit. No other
    option gets it.
    """
    fields = [field for field in form.fields if isinstance(field, Choice | Marks)]
    keys: dict[str, dict[str, str]] = {}
    taken: set[str] = set()
    for field, row in zip(fields, _KEYS, strict=False):
        digits = _digits(field)
        free = iter([key for key in row if key not in taken | {*digits.values()}])
        keys[field.name] = {}
        for option in field.options:
            if option.value in digits and not row.isalpha():
                key: str | None = digits[option.value]
            else:
                key = next(free, None)
            if key is not None and key not in taken:
                keys[field.name][option.value] = key
                taken.add(key)
    return keys


def _digits(field: Choice | Marks) -> dict[str, str]:
    """Return the last digit of the number with which an option begins, by option."""
    digits = {}
    for option in field.options:
        number = _NUMBER.match(option.text.strip())
        if number:
            digits[option.value] = number[0][-1]
    return digits


def as_sent(form: Form, sent: Mapping[str, Sequence[str]]) -> Values:
    """Read the valid fields of a rejected form, to show them again."""
    values: Values = {}
    for field in form.fields:
        with suppress(FormError):
            values[field.name] = field.read(sent.get(field.name, ()))
    return values


def described(form: Form, values: Values) -> Iterator[tuple[str, str]]:
    """Yield the field titles and the values of a label, in words."""
    for field in form.fields:
        if field.name not in values:
            continue
        yield field.title, _in_words(field, values[field.name])


def _in_words(field: Field, value: Any) -> str:
    """Return a field's value in words."""
    if isinstance(field, Choice):
        texts = {option.value: option.text for option in field.options}
        return texts.get(value, str(value))
    if isinstance(field, Marks):
        texts = {option.value: option.text for option in field.options}
        return "; ".join(f"{texts[name]}: {_steps(steps)}" for name, steps in value.items())
    return f"{value:.3f} s" if isinstance(value, float) else str(value)


def _steps(steps: Sequence[int]) -> str:
    """Return marked steps in words. Step 0 means the whole plan."""
    return ", ".join("all" if step == 0 else str(step) for step in steps)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates of the pages and of the Label Studio interface."""
    environment = Environment(
        loader=PackageLoader("lmms_egoplan.annotation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "annotator": ANNOTATOR,
        "field_keys": field_keys,
        "described": described,
    }
    return environment
