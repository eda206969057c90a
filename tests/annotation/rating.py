"""A small flow for tests: rate texts 0 or 1."""

import json

from lmms_egoplan.annotation.database import Database, Settings, create
from lmms_egoplan.annotation.flow import Export, ExportedFile, Flow, Item, Scale, Stage
from lmms_egoplan.annotation.forms import Choice, Form, Option, Prose
from lmms_egoplan.annotation.store import Store

LEVELS = ("0", "1")


class Rating(Flow):
    name = "rating"
    title = "Rate texts"
    stages = (Stage("rate", "Rating"),)

    def guide_to(self, contents):
        return ("Say 1 where the text is good.",)

    def form(self, contents, earlier=(), order=0):
        options = tuple(Option(level, level) for level in LEVELS)
        return Form((Prose("Text", contents["text"]),), (Choice("rating", "Rating", options),))

    def scales(self):
        return [Scale("Rating", (0, 1), lambda values: int(values["rating"]), is_ordered=True)]

    def differ(self, item, labels):
        return len({values["rating"] for values in labels}) > 1

    def export(self, labelled):
        ratings = {item.id: [label.values for label in labelled.of(item, "rate")] for item in labelled.items}
        complete = {name: values for name, values in ratings.items() if len(values) >= labelled.per_item}
        files = {"ratings.json": ExportedFile(json.dumps(complete), "ratings")} if complete else {}
        return Export([f"Rated: {len(complete)}"], files)

    def demo_items(self, source, folder):
        return texts(3)


def new_store(path, count, annotators, per_item, flow=Rating, exclusive=True, **settings):
    """Create and open a database of texts."""
    create(path, Settings(flow.name, annotators, per_item, **settings), texts(count), flow.stages)
    return Store(Database(path, exclusive=exclusive), flow())


class Reviewed(Rating):
    name = "reviewed"
    stages = (Stage("rate", "Rating", 1), Stage("review", "Review", 1))


def texts(count):
    return [
        Item(f"text/{number}", {"text": f"<b>text {number}</b>"}, {"model": "secret-model"}) for number in range(count)
    ]
