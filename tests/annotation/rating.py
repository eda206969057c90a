"""A small flow for tests: rate texts 0 or 1."""

import json
from dataclasses import replace

from lmms_egoplan.annotation.database import Database, create
from lmms_egoplan.annotation.flow import Export, ExportedFile, Flow, Item, Scale, all_values
from lmms_egoplan.annotation.forms import Choice, Form, Option, Prose
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import (
    GOLD,
    Group,
    Round,
    Stage,
    Study,
    check_study,
    default_study,
)

LEVELS = ("0", "1")


class Rating(Flow):
    name = "rating"
    title = "Rate texts"
    stages = (Stage("rate", "Rating"),)

    def guide_to(self, contents):
        return ("Say 1 where the text is good.",)

    def form(self, contents, earlier=(), order=0, stage=""):
        options = tuple(Option(level, level) for level in LEVELS)
        return Form((Prose("Text", contents["text"]),), (Choice("rating", "Rating", options),))

    def scales(self, labelled):
        return [Scale("Rating", (0, 1), lambda values: int(values["rating"]), is_ordered=True)]

    def differ(self, item, rounds):
        return len({values["rating"] for values in all_values(rounds)}) > 1

    def export(self, labelled):
        ratings = {
            item.id: [label.values for label in labelled.labels_of(item, "rate")]
            for item in labelled.items
        }
        complete = {
            name: values for name, values in ratings.items() if len(values) >= labelled.per_item
        }
        files = {"ratings.json": ExportedFile(json.dumps(complete), "ratings")} if complete else {}
        return Export([f"Rated: {len(complete)}"], files)

    def demo_items(self, source, folder):
        return texts(3)


def study_of(flow, annotators, per_item, **settings):
    """Return a study of one group."""
    study = default_study(flow.name, flow.stages, annotators, per_item)
    return study.model_copy(update=settings)


def raise_annotators(store, count):
    store.change_people({"annotator": Group(count=count)})


def share_of(store, name):
    (person,) = (person for person in store.people() if person.name == name)
    return store.share(person)


def new_store(path, count, annotators, per_item, flow=Rating, exclusive=True, **settings):
    """Create and open a database of texts."""
    study = study_of(flow, annotators, per_item, **settings)
    check_study(study, flow.name, flow.stages, count)
    create(path, study, texts(count))
    return Store(Database(path, exclusive=exclusive), flow())


class Reviewed(Rating):
    name = "reviewed"
    stages = (Stage("rate", "Rating", 1), Stage("review", "Review", 1))


class Studied(Rating):
    name = "studied"

    def sets_aside(self, values):
        return values["rating"] == "aside"

    stages = (
        Stage("rate", "Rating"),
        Stage("check", "Check"),
        Stage("audit", "Audit"),
        Stage("recheck", "Recheck"),
    )


class Apart(Studied):
    """A flow whose auditors may audit labels of their own, unlike those who check them again."""

    name = "apart"
    stages = (
        *Studied.stages[:2],
        replace(Studied.stages[2], apart=()),
        replace(Studied.stages[3], apart=("rate", "audit")),
    )


STUDY = Study(
    flow="apart",
    people={"annotator": Group(count=4), "reviewer": Group(count=3)},
    rounds=[
        Round(name="rate", per_item=2),
        Round(name="check", people="reviewer", per_item=2, sample=5),
        Round(name="audit", people="annotator", sample=4, final=True),
        Round(name="recheck", people="reviewer", final=True),
    ],
)


def texts(count):
    return [
        Item(f"text/{number}", {"text": f"<b>text {number}</b>"}, {"model": "secret-model"})
        for number in range(count)
    ]


def known_texts(count, known):
    """Return texts, the first of them as gold items, and the parts of these."""
    items = [replace(item, known={"rating": "1"}) for item in texts(known)]
    return [*items, *texts(known + count)[known:]], dict.fromkeys([item.id for item in items], GOLD)
