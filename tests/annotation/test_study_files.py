"""Study files that are refused, and those that a restart accepts."""

import re

import pytest

from annotation.rating import LEVELS, Rating, Studied, texts
from annotation.studies import FINAL, RATING, known, open_store
from lmms_egoplan.annotation.database import StoreError
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.forms import Choice, Form, Marks, Option, Prose
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.annotation.study import _FOLDER, STUDIES, read_study
from lmms_egoplan.errors import LmmsEgoplanError

# Study files that are wrong, each with the fact that the message names.
WRONG = {
    "empty": ("", "expected an object, found nothing"),
    "list": ("- flow: rating", "expected an object"),
    "text": ("rating", "expected an object"),
    "tabs": (RATING.replace("  - {", "\t- {"), "not YAML"),
    "not YAML": ("flow: [", "not YAML"),
    "tag": ("flow: !!python/object/apply:os.getcwd []", "not YAML"),
    "date": (RATING.replace("flow: rating", "flow: 2026-01-01"), "flow: expected a text"),
    "no flow": (RATING.replace("flow: rating", ""), "flow: expected a text, found nothing"),
    (
        "no people"
    ): ("flow: rating\nrounds: [{name: rate}]", "people: expected an object, found nothing"),
    (
        "people is a list"
    ): (RATING.replace("  annotator: {count: 2}", "  - annotator"), "people: expected an object"),
    "no groups": (RATING.replace("  annotator: {count: 2}", "  {}"), "no group 'annotator'"),
    (
        "group's name is a number"
    ): (RATING.replace("annotator:", "1:"), "people.*1.*: expected a text"),
    (
        "group without count"
    ): (RATING.replace("count: 2", ""), "people.annotator.count: expected a number from 1"),
    (
        "negative count"
    ): (RATING.replace("count: 2", "count: -1"), (
        "count: expected a number from 1 to 500, found -1"
    )),
    "huge count": (RATING.replace("count: 2", "count: 501"), "count: .*501"),
    "count is a text": (RATING.replace("count: 2", "count: two"), "count: .*'two'"),
    "count is true": (RATING.replace("count: 2", "count: true"), "count: .*True"),
    (
        "unknown field of a group"
    ): (RATING.replace("count: 2", "count: 2, number: 2"), "people.annotator.number"),
    (
        "group named senior"
    ): (RATING.replace("annotator:", "annotator: {count: 2}\n  senior:"), "people, senior"),
    (
        "group named lead"
    ): (RATING.replace("annotator:", "annotator: {count: 2}\n  lead:"), "people, lead"),
    "no rounds": (RATING.replace("  - {name: rate}", "  []"), "rounds: .*at least 1"),
    (
        "rounds is an object"
    ): (RATING.replace("- {name: rate}", "rate: {}"), "rounds: expected a list"),
    "round without name": (RATING.replace("{name: rate}", "{per_item: 1}"), r"rounds\[0\].name"),
    (
        "unknown round"
    ): (RATING.replace("name: rate", "name: review"), "rounds: expected some of rate.*review"),
    "round twice": (RATING + "  - {name: rate}\n", "rounds: expected some of rate, in this order"),
    (
        "unknown field of a round"
    ): (RATING.replace("name: rate", "name: rate, perItem: 2"), r"rounds\[0\].perItem"),
    (
        "too many per item"
    ): (RATING.replace("name: rate", "name: rate, per_item: 3"), "count 2 of annotator"),
    (
        "no labels per item"
    ): (RATING.replace("name: rate", "name: rate, per_item: 0"), "per_item: .*0"),
    (
        "unknown group"
    ): (RATING.replace("name: rate", "name: rate, people: raters"), "no group 'raters'"),
    (
        "sampled first round"
    ): (RATING.replace("name: rate", "name: rate, sample: 2"), "rounds, rate: .*sample"),
    (
        "final first round"
    ): (RATING.replace("name: rate", "name: rate, final: true"), "rounds, rate: .*final"),
    (
        "too large a sample"
    ): (FINAL.replace("check,", "check, sample: 7,"), "rounds, check, sample 7: .*only 6"),
    (
        "final rounds first"
    ): (FINAL.replace("audit, final: true", "audit"), "final rounds must be the last"),
    (
        "rounds in another order"
    ): (FINAL.replace("check", "x").replace("audit", "check").replace("x", "audit"), "order"),
    "unknown field": (RATING + "round: 1\n", "round: "),
    "another flow": (RATING.replace("flow: rating", "flow: egoplan"), "flow: egoplan"),
    "negative qualification": (RATING + "qualification: -1\n", "qualification: .*-1"),
    "too large a qualification": (RATING + "qualification: 6\n", "qualification 6: .*only 6"),
    "too large a sample without the qualification": (
        FINAL.replace("check,", "check, sample: 6,") + "qualification: 1",
        "rounds, check, sample 6: .*only 5",
    ),
    (
        "qualification of two rounds"
    ): (FINAL.replace("check, final: true", "check") + "qualification: 1", "single stage"),
    (
        "missing training"
    ): (RATING + "training: known.jsonl\n", "known.jsonl: cannot read the known values"),
    "training is a list": (RATING + "training: [known.jsonl]\n", "training: expected a text"),
    (
        "gold without number"
    ): (RATING + "gold: {labels: known.jsonl}\n", "gold.every: expected a number from 1"),
    "gold without file": (RATING + "gold: {every: 2}\n", "gold.labels: expected a text"),
    (
        "missing gold"
    ): (RATING + (
        "gold: {labels: known.jsonl, every: 2}\n"
    ), "known.jsonl: cannot read the known values"),
    "gold stop 0": (
        RATING + "gold: {labels: known.jsonl, every: 2, stop_after_errors: 0}\n",
        "gold.stop_after_errors: .*0",
    ),
    "gold every 0": (RATING + "gold: {labels: known.jsonl, every: 0}\n", "gold.every: .*0"),
}  # fmt: skip


def refusal(open_study, path):
    """Return the message of the error, or what happened instead."""
    try:
        open_study()
    except LmmsEgoplanError as error:
        return "wrote a database" if path.exists() else str(error)
    path.unlink()
    return "accepted"


def test_wrong_study_files_are_refused(start_study, tmp_path):
    messages = {
        name: refusal(
            lambda study=study: start_study(
                study, flow=Studied if study.startswith(FINAL[:14]) else Rating
            ),
            tmp_path / "labels.sqlite",
        )
        for name, (study, _) in WRONG.items()
    }
    unexplained = {
        name: message
        for name, message in messages.items()
        if "study" not in message or not re.search(WRONG[name][1], message)
    }
    assert unexplained == {}


class Marked(Rating):
    """A flow with marks, which may have no text field."""

    def form(self, contents, earlier=(), order=0, stage=""):
        options = tuple(Option(level, level) for level in LEVELS)
        marks = Marks("errors", "Errors", (Option("form", "Form"),), 3)
        return Form(
            (Prose("Text", contents["text"]),), (Choice("rating", "Rating", options), marks)
        )


# Lines of known values that are wrong, each with the fact that the message names.
WRONG_LINES = [
    ("", "no known values"),
    ("[]", "line 1: expected an object"),
    ("{", "line 1: invalid JSON"),
    ('{"item": "text/1"}', "line 1: values: expected an object"),
    ('{"item": 1, "values": {"rating": "1"}}', "line 1: item: expected a text"),
    ((
        '{"item": "text/1", "values": {}}'
    ), "line 1: values: expected an object with at least one field"),
    ((
        '{"item": "text/1", "values": {"rating": "1"}}\n'
    ) * 2, "line 2: item: 'text/1' has an earlier line"),
    ('{"item": "text/9", "values": {"rating": "1"}}', "text/9: is not one of the items"),
    ('{"item": "text/0", "values": {"rating": "1"}}', "text/0: is also in .*training.jsonl"),
    ('{"item": "text/1", "values": {"score": "1"}}', "text/1, score: no such field"),
    *(((
        f'{{"item": "text/1", "values": {{"rating": {value}}}}}'
    ), "text/1, rating: .*does not accept")
      for value in ('"2"', "1", "0.5", "null", "true", '["1"]', '{"1": 1}')),
    *(((
        f'{{"item": "text/1", "values": {{"errors": {value}}}}}'
    ), "text/1, errors: .*does not accept")
      for value in ('"form"', '{"form": 1}', (
          '{"form": [4]}'
      ), '{"a": [1]}', '{"form": ["a"]}', '{"form": [2, 1]}')),
]  # fmt: skip


def test_wrong_known_values_are_refused(start_study, tmp_path):
    study = RATING + "gold: {labels: known.jsonl, every: 2}\ntraining: training.jsonl\n"
    unexplained = []
    for line, fact in WRONG_LINES:
        (tmp_path / "known.jsonl").write_text(line)
        message = refusal(
            lambda: start_study(study, flow=Marked, training=known(0)), tmp_path / "labels.sqlite"
        )
        if not re.search(f"known.jsonl.*{fact}", message):
            unexplained.append((line, message))
    assert unexplained == []


def test_known_marks_are_accepted(start_study):
    store = start_study(
        RATING + "training: known.jsonl\n",
        flow=Marked,
        known={0: {"errors": {"form": [0, 3]}}, 1: {"errors": {}}},
    )
    assert {item.id: item.known for item in store.items() if item.known} == {
        "text/0": {"errors": {"form": [0, 3]}},
        "text/1": {"errors": {}},
    }


@pytest.mark.parametrize("name", STUDIES)
def test_packaged_studies_fit_their_flows(name):
    study = read_study(name)
    pytest.importorskip(f"lmms_egoplan.annotation.{study.flow.replace('-', '_')}")
    assert study.flow in FLOWS
    stages = {stage.name for stage in FLOWS[study.flow].stages}
    assert {one.name for one in study.rounds} <= stages
    text = (_FOLDER / f"{name}.yaml").read_text()
    assert study.source.partition(" (")[0] in text
    assert "sec. " in study.source


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("{name: rate}", "{name: rate, per_item: 2}", "another study"),
        ("flow: rating", "flow: rating\nqualification: 1", "another study"),
        ("every: 2", "every: 3", "another study"),
        ("known.jsonl", "other.jsonl", "known values"),
        ("annotator: {count: 2}", "annotator: {count: 2}\n  reviewer: {count: 1}", "another study"),
        ("annotator: {count: 2}", "reviewer: {count: 2}", "another study|no group"),
        ("count: 2", "count: 1", "already has 2"),
    ],
)
def test_restart_refuses_another_study(start_study, tmp_path, old, new, fact):
    study = RATING + "gold: {labels: known.jsonl, every: 2}\n"
    files = {"known": known(1), "other": known(1, rating="0")}
    start_study(study, **files).close()
    content = (tmp_path / "labels.sqlite").read_bytes()
    with pytest.raises(LmmsEgoplanError, match=fact):
        start_study(study.replace(old, new), **files)
    assert (tmp_path / "labels.sqlite").read_bytes() == content


def test_options_that_do_not_fit_a_study_are_refused(start_study, tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"--study nothing: no such file.*egoplan"):
        read_study("nothing")
    start_study(
        RATING.replace("annotator", "rater").replace("name: rate", "name: rate, people: rater")
    ).close()
    for team in (Team(annotators=4), Team(per_item=2), Team(qualification=1)):
        with pytest.raises(StoreError, match="drop --"):
            open_store(Rating(), tmp_path / "labels.sqlite", lambda _: texts(6), "texts.json", team)
    with pytest.raises(LmmsEgoplanError, match="--annotators: the study"):
        open_store(
            Rating(),
            tmp_path / "labels.sqlite",
            lambda _: [],
            "",
            Team(3, study=str(tmp_path / "study.yaml")),
        )
