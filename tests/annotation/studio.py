"""Label the items of the rendered sets on the page, and write the same labels for Label Studio."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.serving import post, run, visited
from annotation.studies import open_store
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.serve import Team, media_folder
from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set

# What a browser sends for the items at even and at odd positions.
SENT = {
    "egoplan": (
        {"choice": "B"},
        {"choice": "skip", "reason": "unclear", "comment": "no tea\nanywhere"},
    ),
    "egothink": ({"rating": "0.5"}, {"rating": "1", "comment": "fine"}),
    "actplan": (
        {
            "correct": "0",
            "commonsense": "1",
            "errors": ["object:2", "object:0", "missing_actions:1"],
        },
        {"correct": "1", "commonsense": "1"},
    ),
    "egointent": 2
    * (
        {
            "end_sec": None,
            **{
                f"supported_{name}": "yes"
                for name in ("local_intent", "global_intent", "next_step_plan")
            },
            "local_intent": "  wash the   cup ",
            "global_intent": "clean <up>",
            "next_step_plan": "dry it",
            "comment": "",
        },
    ),
}


def as_list(value):
    return value if isinstance(value, list) else [value]


def results(view, data, sent, texts=False):
    """Return the results of an annotation, as Label Studio writes them.

    They have aliases or, if `texts`, texts.
    """
    (target,) = {tag.get("toName") for tag in view.iter() if tag.get("toName")}
    tags = {tag.get("name"): tag for tag in view.iter() if tag.get("toName")}
    written = []

    def add(name, type_, value):
        assert tags[name].tag.lower() == type_
        written.append(
            {
                "id": f"r{len(written)}",
                "from_name": name,
                "to_name": target,
                "type": type_,
                "value": value,
            }
        )

    for name, value in sent.items():
        tag = tags[name]
        if tag.tag == "Choices":
            options = data[name] if tag.get("value") else [choice.attrib for choice in tag]
            texts_of = {option["alias"]: option["value"] for option in options}
            marks = [mark.partition(":") for mark in as_list(value)]
            chosen = list(dict.fromkeys(option for option, _, _ in marks))
            add(
                name,
                "choices",
                {"choices": [texts_of[option] if texts else option for option in chosen]},
            )
            if tag.get("choice") == "multiple":
                for option in chosen:
                    steps = ", ".join(step for other, _, step in marks if other == option)
                    add(f"{name}_{option}", "textarea", {"text": [steps]})
        elif tag.tag == "TextArea":
            if value:
                add(name, "textarea", {"text": [value] if name != "comment" else value.split("\n")})
        else:
            add(name, "number", {"number": float(value)})
    return written


@dataclass(frozen=True)
class LabelledStudy:
    """Two equal databases, one with a person's labels of all items.

    Attributes:
        labelled: Database with labels.
        unlabelled: Database without labels.
        in_studio: What a person would enter in Label Studio, for each item.
    """

    labelled: Path
    unlabelled: Path
    in_studio: list[dict[str, Any]]


def label_on_page(name, folder):
    """Label two items of a benchmark's rendered set over HTTP."""
    flow, db = FLOWS[name], folder / "labelled.sqlite"
    copy_set(DEMO_SETS[name], folder)
    items = flow.demo_items(folder / DEMO_SETS[name].folder, media_folder(db))[:2]
    team = Team(2) if name == "egointent" else Team(1, 1, 0)
    store = open_store(flow, db, lambda _: items, "items", team)
    items = store.items()
    store.close()
    unlabelled = folder / "unlabelled.sqlite"
    shutil.copy(db, unlabelled)
    media = folder / f"{db.name}.media"
    if media.exists():
        shutil.copytree(media, folder / f"{unlabelled.name}.media")
    in_studio = []
    store = open_store(flow, db, lambda _: items, "items", Team())
    with visited(store) as client:
        for number, item in enumerate(items):
            sent = dict(SENT[name][number % 2])
            in_studio.append(dict(sent))
            if "end_sec" in sent:
                times = item.contents["times"]
                sent["end_sec"] = times[3] + 0.001
                in_studio[-1]["end_sec"] = times[3] - times[0] + 0.001
            assert post(client, **sent).status_code == 200
    return LabelledStudy(db, unlabelled, in_studio)


def exported_labels(db):
    """Return the labels in a database's export, without their times."""
    out = db.with_suffix(".labels")
    code, output = run("annotate", "export", db, "--out", out)
    assert code == 0, output
    rows = [json.loads(line) for line in (out / "labels.jsonl").read_text().splitlines()]
    return [{key: row[key] for key in row if key not in ("seconds", "at")} for row in rows]
