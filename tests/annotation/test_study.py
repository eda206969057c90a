"""Run studies from their files: training, gold items, quotas, limits, restarts, and the papers' procedures."""

import json
import random
import re
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest
import yaml

from annotation.rating import LEVELS, Rating, Studied, texts
from annotation.serving import enter, form_in, post, run, served, visited
from lmms_egoplan.annotation.agreement import agreements
from lmms_egoplan.annotation.assignment import NotYoursError
from lmms_egoplan.annotation.database import StoreError
from lmms_egoplan.annotation.export import export
from lmms_egoplan.annotation.flow import FLOWS, Item, load_flow
from lmms_egoplan.annotation.forms import Choice, Form, Marks, Option, Prose
from lmms_egoplan.annotation.importing import import_file
from lmms_egoplan.annotation.serve import Team, media_folder, open_store
from lmms_egoplan.annotation.store import kept_predictions
from lmms_egoplan.annotation.study import _FOLDER, STUDIES, read_study
from lmms_egoplan.benchmarks.registry import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text

RATING = """
flow: rating
people:
  annotator: {count: 2}
rounds:
  - {name: rate}
"""
FINAL = """
flow: studied
people:
  annotator: {count: 4}
rounds:
  - {name: rate, per_item: 2}
  - {name: check, final: true}
  - {name: audit, final: true}
"""


@pytest.fixture
def start(tmp_path):
    """Open a database of texts with a study."""
    opened = []

    def start(study, count=6, flow=Rating, **files):
        """Write the study and its other files: known values by number of the text."""
        for name, known in files.items():
            lines = [json.dumps({"item": f"text/{number}", "values": values}) for number, values in known.items()]
            (tmp_path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / "study.yaml").write_text(study)
        team = Team(study=str(tmp_path / "study.yaml"))
        opened.append(open_store(flow(), tmp_path / "labels.sqlite", lambda _: texts(count), "texts.json", team))
        return opened[-1]

    yield start
    for store in opened:
        store.close()


def known(*numbers, rating="1"):
    return {number: {"rating": rating} for number in numbers}


def label(store, person, rating="1"):
    slot = store.assignments.next_slot(person)
    if slot is not None:
        store.save(slot, f"{person} {slot.id} {rating}", {"rating": rating}, seconds=2.0)
    return slot


def skip(store, person):
    slot = store.assignments.next_slot(person)
    store.save(slot, f"skip {slot.id}", None, skipped="dark")
    return slot


def slots_of(store, person):
    return store.database.rows("SELECT stage, item FROM slots WHERE person = ? ORDER BY id", person)


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
    "no people": ("flow: rating\nrounds: [{name: rate}]", "people: expected an object, found nothing"),
    "people is a list": (RATING.replace("  annotator: {count: 2}", "  - annotator"), "people: expected an object"),
    "no groups": (RATING.replace("  annotator: {count: 2}", "  {}"), "no group 'annotator'"),
    "group's name is a number": (RATING.replace("annotator:", "1:"), "people.*1.*: expected a text"),
    "group without count": (RATING.replace("count: 2", ""), "people.annotator.count: expected a number from 1"),
    "negative count": (RATING.replace("count: 2", "count: -1"), "count: expected a number from 1 to 500, found -1"),
    "huge count": (RATING.replace("count: 2", "count: 501"), "count: .*501"),
    "count is a text": (RATING.replace("count: 2", "count: two"), "count: .*'two'"),
    "count is true": (RATING.replace("count: 2", "count: true"), "count: .*True"),
    "quota of zero": (RATING.replace("count: 2", "count: 2, quota: 0"), "quota: .*0"),
    "unknown field of a group": (RATING.replace("count: 2", "count: 2, number: 2"), "people.annotator.number"),
    "name is a number": (RATING.replace("count: 2", "count: 2, names: [1]"), r"names\[0\]: expected a text"),
    "blank name": (RATING.replace("count: 2", "count: 2, names: ['']"), r"names\[0\]: expected a text"),
    "two equal names": (RATING.replace("count: 2", "count: 2, names: [Ana, Ana]"), "same name"),
    "another person's name": (RATING.replace("count: 2", "count: 2, names: [annotator-2]"), "same name"),
    "more names than people": (RATING.replace("count: 2", "count: 2, names: [A, B, C]"), "people, annotator: .*names"),
    "more limits than people": (
        RATING.replace("count: 2", "count: 2, limits: [{rating: ['0']}, {}, {}]"),
        "people, annotator: .*limits",
    ),
    "limits without options": (RATING.replace("count: 2", "count: 2, limits: [{rating: []}]"), "rating: .*at least 1"),
    "limits as numbers": (RATING.replace("count: 2", "count: 2, limits: [{rating: [0]}]"), r"rating\[0\]: expected"),
    "limits of an unknown field": (RATING.replace("count: 2", "count: 2, limits: [{score: ['0']}]"), "limits.*score"),
    "limits to an unknown option": (RATING.replace("count: 2", "count: 2, limits: [{rating: ['2']}]"), "limits.*'2'"),
    "group named senior": (RATING.replace("annotator:", "annotator: {count: 2}\n  senior:"), "people, senior"),
    "group named lead": (RATING.replace("annotator:", "annotator: {count: 2}\n  lead:"), "people, lead"),
    "no rounds": (RATING.replace("  - {name: rate}", "  []"), "rounds: .*at least 1"),
    "rounds is an object": (RATING.replace("- {name: rate}", "rate: {}"), "rounds: expected a list"),
    "round without name": (RATING.replace("{name: rate}", "{per_item: 1}"), r"rounds\[0\].name"),
    "unknown round": (RATING.replace("name: rate", "name: review"), "rounds: expected some of rate.*review"),
    "round twice": (RATING + "  - {name: rate}\n", "rounds: expected some of rate, in this order"),
    "unknown field of a round": (RATING.replace("name: rate", "name: rate, perItem: 2"), r"rounds\[0\].perItem"),
    "too many per item": (RATING.replace("name: rate", "name: rate, per_item: 3"), "count 2 of annotator"),
    "no labels per item": (RATING.replace("name: rate", "name: rate, per_item: 0"), "per_item: .*0"),
    "unknown group": (RATING.replace("name: rate", "name: rate, people: raters"), "no group 'raters'"),
    "apart from nobody": (RATING.replace("name: rate", "name: rate, apart: [check]"), "apart: no round check"),
    "sampled first round": (RATING.replace("name: rate", "name: rate, sample: 2"), "rounds, rate: .*sample"),
    "final first round": (RATING.replace("name: rate", "name: rate, final: true"), "rounds, rate: .*final"),
    "too large a sample": (FINAL.replace("check,", "check, sample: 7,"), "rounds, check, sample 7: .*only 6"),
    "final rounds first": (FINAL.replace("audit, final: true", "audit"), "final rounds must be the last"),
    "rounds in another order": (FINAL.replace("check", "x").replace("audit", "check").replace("x", "audit"), "order"),
    "unknown field": (RATING + "round: 1\n", "round: "),
    "another flow": (RATING.replace("flow: rating", "flow: egoplan"), "flow: egoplan"),
    "negative qualification": (RATING + "qualification: -1\n", "qualification: .*-1"),
    "too large a qualification": (RATING + "qualification: 6\n", "qualification 6: .*only 6"),
    "too large a sample without the qualification": (
        FINAL.replace("check,", "check, sample: 6,") + "qualification: 1",
        "rounds, check, sample 6: .*only 5",
    ),
    "qualification of two rounds": (FINAL.replace("check, final: true", "check") + "qualification: 1", "single stage"),
    "missing training": (RATING + "training: known.jsonl\n", "known.jsonl: cannot read the known values"),
    "training is a list": (RATING + "training: [known.jsonl]\n", "training: expected a text"),
    "gold without number": (RATING + "gold: {labels: known.jsonl}\n", "gold.every: expected a number from 1"),
    "gold without file": (RATING + "gold: {every: 2}\n", "gold.labels: expected a text"),
    "missing gold": (RATING + "gold: {labels: known.jsonl, every: 2}\n", "known.jsonl: cannot read the known values"),
    "gold every 0": (RATING + "gold: {labels: known.jsonl, every: 0}\n", "gold.every: .*0"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_study_files_are_refused(start, tmp_path, name):
    study, fact = WRONG[name]
    with pytest.raises(LmmsEgoplanError, match=fact) as error:
        start(study, flow=Studied if study.startswith(FINAL[:14]) else Rating)
    assert "study" in str(error.value)
    assert not (tmp_path / "labels.sqlite").exists()


class Marked(Rating):
    """A flow with marks, which may have no text field."""

    def form(self, contents, earlier=(), order=0, stage=""):
        options = tuple(Option(level, level) for level in LEVELS)
        marks = Marks("errors", "Errors", (Option("form", "Form"),), 3)
        return Form((Prose("Text", contents["text"]),), (Choice("rating", "Rating", options), marks))


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("", "no known values"),
        ("[]", "line 1: expected an object"),
        ("{", "line 1: invalid JSON"),
        ('{"item": "text/1"}', "line 1: values: expected an object"),
        ('{"item": 1, "values": {"rating": "1"}}', "line 1: item: expected a text"),
        ('{"item": "text/1", "values": {}}', "line 1: values: expected an object with at least one field"),
        ('{"item": "text/1", "values": {"rating": "1"}}\n' * 2, "line 2: item: 'text/1' has an earlier line"),
        ('{"item": "text/9", "values": {"rating": "1"}}', "text/9: is not one of the items"),
        ('{"item": "text/0", "values": {"rating": "1"}}', "text/0: is also in .*training.jsonl"),
        ('{"item": "text/1", "values": {"score": "1"}}', "text/1, score: no such field"),
        *((f'{{"item": "text/1", "values": {{"rating": {value}}}}}', "text/1, rating: .*does not accept")
          for value in ('"2"', "1", "0.5", "null", "true", '["1"]', '{"1": 1}')),
        *((f'{{"item": "text/1", "values": {{"errors": {value}}}}}', "text/1, errors: .*does not accept")
          for value in ('"form"', '{"form": 1}', '{"form": [4]}', '{"a": [1]}', '{"form": ["a"]}', '{"form": [2, 1]}')),
    ],
)  # fmt: skip
def test_wrong_known_values_are_refused(start, tmp_path, line, fact):
    (tmp_path / "known.jsonl").write_text(line)
    study = RATING + "gold: {labels: known.jsonl, every: 2}\ntraining: training.jsonl\n"
    with pytest.raises(LmmsEgoplanError, match=f"known.jsonl.*{fact}"):
        start(study, flow=Marked, training=known(0))
    assert not (tmp_path / "labels.sqlite").exists()


def test_known_marks_are_accepted(start):
    store = start(
        RATING + "training: known.jsonl\n", flow=Marked, known={0: {"errors": {"form": [0, 3]}}, 1: {"errors": {}}}
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
    stages = {stage.name for stage in load_flow(study.flow).stages}
    assert {one.name for one in study.rounds} <= stages
    text = (_FOLDER / f"{name}.yaml").read_text()
    assert study.source.partition(" (")[0] in text
    assert "sec. " in study.source


def test_training_shows_the_known_label_only_after_saving(start):
    store = start(RATING + "training: known.jsonl\n", known=known(1, 4))
    with visited(store) as client:
        for rating, verdict in (("0", "differs from it"), ("1", "agrees with it")):
            assert "Training." in client.page.text
            assert "Known label" not in client.page.text
            assert not re.search(r"checked|agrees|differs", client.page.text)
            page = post(client, rating=rating)
            assert "Known label" in page.text
            assert verdict in page.text
            # Nothing else is open before the next click, and a correction is judged again.
            if rating == "0":
                assert "agrees with it" in post(client, rating="1").text
            client.page = client.get("/")
        assert "Training" not in client.page.text
        assert "Rating." in client.page.text
        assert [stage for stage, _ in slots_of(store, "annotator-1")] == ["training", "training", "rate"]


def test_released_and_skipped_training_items_come_before_others(start):
    store = start(RATING + "training: known.jsonl\n", known=known(1, 4, 5))
    first = store.assignments.next_slot("annotator-1")
    store.assignments.release("annotator-1")
    assert [label(store, "annotator-1").item.id, skip(store, "annotator-1").stage] != [first.item.id, "rate"]
    last = label(store, "annotator-1")
    assert (last.stage, last.item) == ("training", first.item)
    assert label(store, "annotator-1").stage == "rate"


GOLD = RATING.replace("count: 2", "count: 3, quota: 9") + "gold: {labels: known.jsonl, every: 3}\n"


def normalized(page):
    """Return a page without the item's text and number, and without secrets."""
    page = re.sub(r"text \d+|[0-9a-f]{24,}|\d{4}-\d\d-\d\d \d\d:\d\d|\d{4}-\d\d-\d\dT[^\"]*", "", page)
    return re.sub(r"(label/|skip/|media/|Item |data-draft=\"\w+ |labelled |; |value=\")\d+( items?)?", r"\1", page)


def test_gold_items_look_like_others_and_are_not_exported(start, tmp_path):
    golden = known(2, 5, 8, rating="0") | known(11)
    store = start(GOLD, count=30, known=golden)
    names = {item.contents["text"]: item for item in store.items()}
    answers = random.Random(0)
    rated = defaultdict(dict)
    pages = defaultdict(lambda: defaultdict(set))
    for person in ("annotator-1",):
        for restart in range(2):
            if restart:
                store.close()
                store = start(GOLD, count=30, known=golden)
            with served(store) as address:
                client = enter(address, store, person)
                while 'id="label"' in client.page.text and len(rated[person]) < (99 if restart else 5):
                    where, hidden = form_in(client.page.text)
                    item = names[
                        re.search(r"&lt;b&gt;.*?&lt;/b&gt;", client.page.text)[0]
                        .replace("&lt;", "<")
                        .replace("&gt;", ">")
                    ]
                    kind = bool(item.known)
                    if rated[person]:  # The guide is open at first.
                        pages["item"][kind].add(normalized(client.page.text))
                    if len(rated[person]) % 4 == 2:
                        refused = client.post(where.replace("label", "skip"), data=hidden)
                        pages["refused skip"][kind].add((refused.status_code, normalized(refused.text)))
                    rated[person][item.id] = answers.choice("01")
                    saved = client.post(where, data=hidden | {"rating": rated[person][item.id]}, follow_redirects=False)
                    pages["saved"][kind].add((saved.status_code, saved.headers["location"]))
                    saved_page = client.get(where.rpartition("/label")[1] and f"/label/{where.rpartition('/')[2]}")
                    pages["own"][kind].add(normalized(saved_page.text).replace(" checked", ""))
                    client.page = client.get("/")
                listed = client.get("/mine").text
                for row in re.findall(r'<li><a href="[^"]*/label/.*?</li>', listed):
                    number = int(re.search(r"label/(\d+)", row)[1])
                    kind = bool(store.assignments.slot(number, person).item.known)
                    pages["list"][kind].add(normalized(row).replace(" autofocus", ""))
    with served(store) as address:
        lead = enter(address, store, "lead").page.text
    for name, by_kind in pages.items():
        both = by_kind[True] & by_kind[False]
        assert both == by_kind[True], name
    for person, ratings in rated.items():
        stages = [stage for stage, _ in slots_of(store, person)]
        assert stages == (["rate", "rate", "rate", "gold"] * 3)[:-1]  # The quota ends the work.
        right = sum(
            ratings[f"text/{number}"] == golden[number]["rating"] for number in golden if f"text/{number}" in ratings
        )
        assert f'<td class="number">{right} of 2</td>' in re.search(rf'"row">{person}</th>.*', lead)[0]
        progress = next(row for row in store.progress() if row.person == person)
        assert (progress.gold_right, progress.gold) == (right, 2)
    out = tmp_path / "out"
    export(store.flow, store.labelled(), out)
    exported = [json.loads(line) for line in read_text(out / "labels.jsonl").splitlines()]
    golden_ids = {f"text/{number}" for number in golden}
    assert {row["item"] for row in exported} == {item for ratings in rated.values() for item in ratings} - golden_ids


def test_gold_items_have_predictions_and_no_position(start, tmp_path):
    store = start(GOLD, count=12, known=known(2, 5, 8))
    lines = [json.dumps({"item": item.id, "values": {"rating": "1"}}) for item in store.items()]
    (tmp_path / "predictions.jsonl").write_text("\n".join(lines))
    assert import_file(store, tmp_path / "predictions.jsonl")[-1].endswith("12 predicted and 0 not imported")
    with visited(store) as client:
        for stage in ("rate", "rate", "rate", "gold"):
            assert "The form starts with a prediction." in client.page.text
            assert slots_of(store, "annotator-1")[-1][0] == stage
            number = re.search(r"label/(\d+)", client.page.text)[1]
            assert f'data-draft="{store.database.mark} {number}"' in client.page.text
            post(client, rating="1")
        assert kept_predictions(store.labelled()) == ["Labels that started with a prediction: 3, kept unchanged: 3"]


def test_skipped_gold_items_are_not_exported_as_skipped(start, tmp_path):
    store = start(GOLD, count=12, known=known(2))
    for _ in range(3):
        label(store, "annotator-1")
    assert skip(store, "annotator-1").stage == "gold"
    assert label(store, "annotator-1").stage == "rate"
    lines = export(store.flow, store.labelled(), tmp_path / "out")
    assert not (tmp_path / "out" / "skipped.jsonl").exists()
    assert "Skipped" not in "".join(lines)
    assert [line.stage for line in store.labelled().skips] == ["gold"]


def test_quotas_are_never_exceeded_by_ten_people_at_once(start):
    study = RATING.replace("count: 2", "count: 10, quota: 3")
    store = start(study, count=40)
    people = [f"annotator-{number}" for number in range(1, 11)]

    def work(person):
        for step in range(12):
            if step % 5 == 1 and store.assignments.next_slot(person):
                skip(store, person)
            label(store, person)

    def num_labels():
        return Counter(person for (person,) in store.database.rows("SELECT person FROM counting"))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, people))
    assert num_labels() == dict.fromkeys(people, 3)
    # A skipped item cannot be labelled beyond the quota.
    for slot, person in store.database.rows("SELECT id, person FROM slots WHERE skipped IS NOT NULL"):
        with pytest.raises(NotYoursError):
            store.save(store.assignments.slot(slot, person), "after all", {"rating": "1"})
    store.close()
    store = start(study.replace("quota: 3", "quota: 4"), count=40)
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, people))
    assert num_labels() == dict.fromkeys(people, 4)


def test_limits_and_names_are_those_of_each_person(start):
    store = start(RATING.replace("count: 2", "count: 3, names: [Ana, Ben], limits: [{rating: ['1']}, {}]"))
    with served(store) as address:
        for person, title, options in (
            ("annotator-1", "Ana (annotator-1)", ["1"]),
            ("annotator-2", "Ben (annotator-2)", ["0", "1"]),
            ("annotator-3", "annotator-3", ["0", "1"]),
        ):
            client = enter(address, store, person)
            assert re.findall(r'name="rating" value="(.)"', client.page.text) == options
            assert f'<span class="person">{title}</span>' in client.page.text
        client = enter(address, store, "annotator-1")
        assert post(client, rating="0").status_code == 422
        assert store.labelled().labels == {}
        assert post(client, rating="1").status_code == 200


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
        ("count: 2", "count: 3, names: [Ana, Ana]", "same name"),
        ("count: 2", "count: 3, limits: [{score: ['1']}]", "limits"),
    ],
)
def test_restart_refuses_another_study(start, tmp_path, old, new, fact):
    study = RATING + "gold: {labels: known.jsonl, every: 2}\n"
    files = {"known": known(1), "other": known(1, rating="0")}
    start(study, **files).close()
    content = (tmp_path / "labels.sqlite").read_bytes()
    with pytest.raises(LmmsEgoplanError, match=fact):
        start(study.replace(old, new), **files)
    assert (tmp_path / "labels.sqlite").read_bytes() == content


def test_restart_adds_people_quotas_limits_and_names(start, tmp_path, monkeypatch):
    study = RATING + "training: known.jsonl\n"
    store = start(study, known=known(1))
    label(store, "annotator-1"), label(store, "annotator-1")
    tokens = {person.name: person.token for person in store.people()}
    store.close()
    store = start(study.replace("count: 2", "count: 4, quota: 2, names: [Ana, Ben, Cleo]"), known=known(1))
    assert tokens.items() <= {person.name: person.token for person in store.people()}.items()
    assert [person.called for person in store.people() if person.name == "annotator-3"] == ["Cleo"]
    for person in ("annotator-3", "annotator-4"):
        assert [label(store, person).stage for _ in range(3)] == ["training", "rate", "rate"]
        assert store.assignments.next_slot(person) is None
    store.close()
    # The same study by another path, and without --study.
    monkeypatch.chdir(tmp_path)
    for study_file in ("study.yaml", None):
        team = Team(study=study_file)
        open_store(Rating(), tmp_path / "labels.sqlite", lambda _: texts(6), "texts.json", team).close()


def test_options_that_do_not_fit_a_study_are_refused(start, tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"--study nothing: no such file.*egoplan"):
        read_study("nothing")
    start(RATING.replace("annotator", "rater").replace("name: rate", "name: rate, people: rater")).close()
    for team in (Team(annotators=4), Team(per_item=2), Team(qualification=1)):
        with pytest.raises(StoreError, match="drop --"):
            open_store(Rating(), tmp_path / "labels.sqlite", lambda _: texts(6), "texts.json", team)
    with pytest.raises(LmmsEgoplanError, match="--annotators: the study"):
        open_store(Rating(), tmp_path / "labels.sqlite", lambda _: [], "", Team(3, study=str(tmp_path / "study.yaml")))


def decide(store, position, rating="1"):
    slot = store.adjudicate(position, "lead")
    store.save(slot, f"lead {slot.id} {slot.last} {rating}", {"rating": rating})


def test_final_rounds_come_with_training_gold_and_other_people(start):
    """Nobody checks an item in both final rounds or their own label, whichever round comes first."""
    study = FINAL + "training: known.jsonl\ngold: {labels: gold.jsonl, every: 2}\n"
    store = start(study, count=8, flow=Studied, known=known(1), gold=known(2, 3))
    people = [f"annotator-{number}" for number in range(1, 5)]
    while sum(label(store, person) is not None for person in people):
        pass
    pairs = [
        (item, person)
        for stage, item, person in store.database.rows("SELECT stage, item, person FROM slots")
        if stage in ("rate", "check", "audit")
    ]
    assert len(pairs) == len({*pairs}) == 5 * 4
    assert {row.state for row in store.progress()} == {"finished"}


def test_decisions_stay_once_a_final_round_has_begun(start):
    store = start(FINAL, count=1, flow=Studied)
    label(store, "annotator-1", "0"), label(store, "annotator-2", "1")
    assert store.assignments.next_slot("annotator-3") is None
    decide(store, 0, "0")
    decide(store, 0, "1")
    check = store.assignments.next_slot("annotator-3")
    assert check.earlier[-1] == {"rating": "1"}
    for change in (lambda: decide(store, 0, "0"), lambda: store.undo_decision(0)):
        with pytest.raises(NotYoursError, match="works on this item"):
            change()
    store.assignments.release("annotator-3")
    assert store.undo_decision(0)
    assert store.assignments.next_slot("annotator-3") is None
    decide(store, 0, "0")
    assert store.assignments.next_slot("annotator-3").earlier[-1] == {"rating": "0"}


def test_failed_people_count_for_no_final_round(start):
    study = FINAL.replace("  - {name: audit, final: true}\n", "") + "qualification: 1\nseniors: 1\n"
    store = start(study, count=2, flow=Studied)
    people = [f"annotator-{number}" for number in range(1, 5)]
    for person in people:
        assert label(store, person).stage == "qualification"
        store.judge_qualification(person, "senior-1", passed=True)
    label(store, people[0], "0"), label(store, people[1], "0")
    assert store.assignments.upcoming(people[2])[2] == "check"
    store.judge_qualification(people[0], "senior-1", passed=False)
    # The item lacks a label again.
    assert label(store, people[2], "1").stage == "rate"
    # The labels that count differ, so the check waits for the lead.
    assert store.assignments.next_slot(people[3]) is None
    decide(store, 1, "1")
    (check,) = [store.assignments.next_slot(people[3])]
    assert (check.stage, check.earlier) == ("check", ({"rating": "0"}, {"rating": "1"}))


def test_verdicts_change_which_items_wait_for_the_lead(start):
    """A person fails, is replaced by one who disagrees, and passes after all."""
    study = FINAL.replace("  - {name: audit, final: true}\n", "") + "qualification: 1\nseniors: 1\n"
    store = start(study.replace("count: 4", "count: 5"), count=2, flow=Studied)
    people = [f"annotator-{number}" for number in range(1, 6)]
    for person in people:
        label(store, person)
        store.judge_qualification(person, "senior-1", passed=True)
    label(store, people[0], "0"), label(store, people[1], "1")
    assert store.assignments.next_slot(people[4]) is None
    store.judge_qualification(people[0], "senior-1", passed=False)
    label(store, people[2], "1")
    assert store.assignments.upcoming(people[4])[2] == "check"
    store.judge_qualification(people[0], "senior-1", passed=True)
    assert store.assignments.upcoming(people[4]) is None


def test_correction_after_a_later_round_has_begun_is_refused(start):
    study = FINAL.replace("check, final: true", "check, sample: 1").replace("count: 4", "count: 5")
    store = start(study, count=2, flow=Studied)
    slots = [label(store, f"annotator-{number}") for number in (1, 2, 1, 2)]
    taken = [label(store, "annotator-3") for _ in range(2)]
    assert sorted(slot.stage for slot in taken) == ["audit", "check"]
    (check,) = [slot for slot in taken if slot.stage == "check"]
    for slot in slots:
        again = store.assignments.slot(slot.id, slot.person)
        with pytest.raises(NotYoursError, match="works on this item"):
            store.save(again, "changed", {"rating": "0"})
    assert store.save(store.assignments.slot(check.id, check.person), "changed", {"rating": "1"}, "sure")
    assert label(store, "annotator-4").stage == "audit"
    with pytest.raises(NotYoursError, match="works on this item"):
        store.save(store.assignments.slot(check.id, check.person), "changed again", {"rating": "1"})
    # The label of a final round can change.
    (audit,) = [slot for slot in taken if slot.stage == "audit"]
    assert store.save(store.assignments.slot(audit.id, audit.person), "changed", {"rating": "0"})


def answering(reliability, options, truth):
    """Return answers of people of known reliability, by person and item, and the log of all answers."""
    log = {}

    def answer(person, item):
        source = random.Random(f"{person} {item}")
        other_options = [option for option in options if option != truth(item)]
        log[person, item] = truth(item) if source.random() < reliability(person) else source.choice(other_options)
        return log[person, item]

    return answer, log


def alpha(units, distance=lambda a, b: a != b):
    """Compute Krippendorff's alpha from its definition."""
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(sum(distance(a, b) for a in unit for b in unit) / (len(unit) - 1) for unit in units) / len(values)
    chance = sum(distance(a, b) for a in values for b in values) / len(values) / (len(values) - 1)
    return 1 - observed / chance


def kappa(pairs):
    """Compute Cohen's kappa of two people; None if one of them uses a single level."""
    levels = {value for pair in pairs for value in pair}
    firsts, seconds = zip(*pairs, strict=True)
    observed = sum(a == b for a, b in pairs) / len(pairs)
    chance = sum(firsts.count(level) * seconds.count(level) for level in levels) / len(pairs) ** 2
    return None if min(len({*firsts}), len({*seconds})) < 2 else (observed - chance) / (1 - chance)


def check_agreement(row, units, distance=lambda a, b: a != b):
    """Compare a row of agreement with its definitions. `units` are values by person, one dictionary per item."""
    pairs = [pair for unit in units for pair in combinations(unit.values(), 2)]
    assert row.items == sum(len(unit) > 1 for unit in units)
    assert row.percent == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))
    assert row.krippendorff == pytest.approx(alpha([[*unit.values()] for unit in units], distance))
    people = sorted({person for unit in units for person in unit})
    shared = [
        [(unit[first], unit[second]) for unit in units if first in unit and second in unit]
        for first, second in combinations(people, 2)
    ]
    kappas = [(kappa(each), len(each)) for each in shared if len(each) >= 10 and kappa(each) is not None]
    mean = sum(value * number for value, number in kappas) / sum(number for _, number in kappas) if kappas else None
    assert row.cohen == (mean if mean is None else pytest.approx(mean))


def label_alone(store, values_of):
    """Label all that people get, all at once. `values_of` maps person and item's text to values."""

    def work(address, name):
        client = enter(address, store, name)
        while 'id="label"' in client.page.text:
            assert post(client, **values_of(name, client.page.text)).status_code == 200

    people = [progress.person for progress in store.progress()]
    with served(store) as address, ThreadPoolExecutor(len(people)) as pool:
        list(pool.map(lambda name: work(address, name), people))


def packaged(tmp_path, name, **changes):
    """Copy a packaged study with changes, and return its path."""
    study = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text()) | changes
    for one in study["rounds"]:
        if "sample" in one:
            one["sample"] = changes["sample"]
    study.pop("sample", None)
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(study))
    return path


def opened(tmp_path, name, items, **changes):
    """Open a database of items with a copy of a packaged study."""
    flow, path = load_flow(name), packaged(tmp_path, name, **changes)
    return open_store(flow, tmp_path / "labels.sqlite", lambda _: items, "items", Team(study=str(path)))


def number_in(page):
    return int(re.search(r"item (\d+)\b", page)[1])


def careless(*people):
    """Return the reliability of people: 0.6 if they are careless, else 0.95."""
    return lambda person: 0.6 if person in people else 0.95


@pytest.mark.whole
def test_egoplan_procedure(tmp_path):
    letters = "ABCD"
    truth = {number: letters[number % 4] for number in range(26)}
    items = [
        Item(
            str(number),
            {"goal": f"item {number}", "choices": dict(zip(letters, "wxyz", strict=True)), "video": "", "frames": [],
             "fps": 10.0, "observation": 1},
            {"golden": truth[number], "record": {"sample_id": number}},
        )
        for number in truth
    ]  # fmt: skip
    store = opened(tmp_path, "egoplan", items, qualification=8)
    answer, log = answering(careless("annotator-4", "annotator-9"), letters, truth.get)
    qualification = {}

    def values_of(person, page):
        item = number_in(page)
        qualification[item] = "Qualification." in page
        return {"choice": answer(person, item)}

    label_alone(store, values_of)
    qualifying = {item for item, is_first in qualification.items() if is_first}
    assert len(qualifying) == 8
    right = Counter(person for (person, item), choice in log.items() if choice == truth[item])
    failed = {person for person in right if right[person] < 7}
    assert {"annotator-4", "annotator-9"} & failed
    assert len(right) == 10
    with served(store) as address:
        for senior in ("senior-1", "senior-2"):
            client = enter(address, store, senior)
            for person in right:
                csrf = form_in(client.page.text, "/qualify")[1]["csrf"]
                sent = {"csrf": csrf, "person": person, "verdict": "fail" if person in failed else "pass"}
                assert client.post("/qualify", data=sent).status_code == 200
    label_alone(store, values_of)
    units = [
        {person: choice for (person, other), choice in log.items() if other == item and person not in failed}
        for item in truth
        if item not in qualifying
    ]
    assert {len(unit) for unit in units} == {2}
    check_agreement(agreements(store.flow, store.labelled())[0], units)
    kept_ids = [
        item
        for item, unit in zip((item for item in truth if item not in qualifying), units, strict=True)
        if {*unit.values()} == {truth[item]}
    ]
    assert 0 < len(kept_ids) < 18
    export(store.flow, store.labelled(), tmp_path / "out")
    verified = json.loads(read_text(tmp_path / "out" / "EgoPlan_validation.json"))["EgoPlan_validation"]
    assert sorted(record["sample_id"] for record in verified) == kept_ids
    assert len(read_text(tmp_path / "out" / "rejected.csv").splitlines()) == 1 + 26 - len(kept_ids)
    store.close()


@pytest.mark.whole
def test_egothink_procedure_with_gold_items(tmp_path):
    levels = ("0", "0.5", "1")
    truth = {number: levels[number % 3] for number in range(36)}
    items = [
        Item(
            f"existence/{number} of model",
            {"image": "", "question": f"item {number}", "reference": "yes", "answer": "no"},
            {"question": f"existence/{number}", "model": "model", "judge": None, "rating": None},
        )
        for number in truth
    ]
    golden = {number: truth[number] for number in (3, 10, 20, 31)}
    lines = [json.dumps({"item": items[number].id, "values": {"rating": rating}}) for number, rating in golden.items()]
    (tmp_path / "gold.jsonl").write_text("\n".join(lines))
    store = opened(tmp_path, "egothink", items, gold={"labels": "gold.jsonl", "every": 6})
    answer, log = answering(careless("annotator-3"), levels, truth.get)
    label_alone(store, lambda person, page: {"rating": answer(person, number_in(page))})
    rated = [item for item in truth if item not in golden]
    units = [
        {person: float(log[person, item]) for person in ("annotator-1", "annotator-2", "annotator-3")} for item in rated
    ]
    check_agreement(agreements(store.flow, store.labelled())[0], units, lambda a, b: (a - b) ** 2)
    export(store.flow, store.labelled(), tmp_path / "out")
    rows = [line.split(",") for line in read_text(tmp_path / "out" / "model-pooled.csv").splitlines()[1:]]
    means = {item: sum(unit.values()) / 3 for item, unit in zip(rated, units, strict=True)}
    assert {int(row[0].partition("/")[2]): float(row[1]) for row in rows} == pytest.approx(means)
    code, status = run("annotate", "status", tmp_path / "labels.sqlite")
    assert code == 0, status
    for person in ("annotator-1", "annotator-2", "annotator-3"):
        right = sum(log[person, item] == rating for item, rating in golden.items())
        assert re.search(rf"{person}.* 36 .*\b{right} of 4\b", status)
    store.close()


@pytest.mark.whole
def test_actplan_procedure(tmp_path):
    truth = {number: str(number % 3 % 2) for number in range(40)}
    items = [
        Item(
            f"plan {number}",
            {"description": f"item {number}", "images": [], "plan": "1. Wash.\n2. Dry."},
            {"id": f"plan {number}", "model": "model", "images": [], "references": []},
        )
        for number in truth
    ]
    store = opened(tmp_path, "actplan", items)
    answer, log = answering(careless("annotator-2"), "01", truth.get)
    label_alone(store, lambda person, page: {"correct": answer(person, number_in(page)), "commonsense": "1"})
    units = [{person: choice for (person, other), choice in log.items() if other == item} for item in truth]
    assert {len(unit) for unit in units} == {3}
    check_agreement(agreements(store.flow, store.labelled())[0], units)
    export(store.flow, store.labelled(), tmp_path / "out")
    plans = [json.loads(line) for line in read_text(tmp_path / "out" / "plans.jsonl").splitlines()]
    expected = {
        f"plan {item}": unit.popitem()[1] == "1" for item, unit in enumerate(units) if len({*unit.values()}) == 1
    }
    assert {plan["id"]: plan["correct"] for plan in plans} == expected
    assert 0 < len(expected) < 40
    store.close()


def demo_items(name, tmp_path):
    """Return two items of a study's flow from the demo's rendered sets."""
    benchmark = name.partition("-")[0]
    copy_set(DEMO_SETS[benchmark], tmp_path)
    folder = media_folder(tmp_path / "labels.sqlite")
    items = load_flow(benchmark).demo_items(tmp_path / DEMO_SETS[benchmark].folder, folder)[:2]
    if name == "egothink-questions":
        hidden = {"video": "a", "frame": 1, "digest": ""}
        return [
            Item(f"{n}.png", {"image": item.contents["image"]}, {"image": f"{n}.png", **hidden})
            for n, item in enumerate(items)
        ]
    return items


# The choices of people in the browser, and what the export says. Other fields get their first option.
CHOICES = {"correct": "1", "commonsense": "1", "rating": "1", "use": "yes"}
EXPORTED = {
    "egoplan": "Questions kept: 1 of 2",
    "egothink": "2 of 2 answers have all 3 ratings",
    "actplan": "Plans labelled: 2 of 2",
    "egothink-questions": "Questions accepted: 2 of 2",
    "egointent": "2 of 2",
}


@pytest.mark.whole
@pytest.mark.parametrize("name", STUDIES)
def test_packaged_studies_run_in_a_browser(tmp_path, browser, name):
    """Label two items in every round."""
    pytest.importorskip(f"lmms_egoplan.annotation.{name.replace('-', '_')}")
    store = opened(tmp_path, name, demo_items(name, tmp_path), qualification=int(name == "egoplan"), sample=1)
    study = store.database.study
    seen, choices = set(), CHOICES | {"choice": store.items()[1].hidden.get("golden")}

    def work(page, person):
        """Label until nothing is open."""
        while page.locator("#label").count():
            seen.add(page.inner_text("p.lead").partition(".")[0])
            for field in page.locator("fieldset[data-name]").all():
                name = field.get_attribute("data-name")
                values = [radio.get_attribute("value") for radio in field.locator("input[type=radio]").all()]
                if values and field.is_visible():
                    assert {*values} <= {*study.limits(person, person.rpartition("-")[0]).get(name, values)}
                    value = choices.get(name, values[0])
                    page.click(f"label:has([name={name}][value='{value if value in values else values[0]}'])")
                elif (
                    field.locator("textarea").count() and field.is_visible() and not page.input_value(f"[name={name}]")
                ):
                    page.fill(f"[name={name}]", "some words")
            with page.expect_navigation():
                page.click(".save button")
            assert page.locator("[role=alert]").count() == 0

    def work_as(people):
        for person in people:
            with browser.tab(address, store, person) as page:
                work(page, person)

    with served(store) as address:
        first = [f"{study.rounds[0].people}-{number + 1}" for number in range(study.rounds[0].per_item)]
        work_as(first if study.qualification else ())
        for senior in range(study.seniors):
            with browser.tab(address, store, f"senior-{senior + 1}") as page:
                for person in first:
                    with page.expect_navigation():
                        page.click(f"form:has([value='{person}']) button[value=pass]")
        busy = Counter()
        for one in study.rounds:
            count = study.people[one.people].count
            work_as([f"{one.people}-{(busy[one.people] + number) % count + 1}" for number in range(one.per_item)])
            busy[one.people] += one.per_item
        with browser.tab(address, store, "lead") as page:
            assert "annotator-1" in page.inner_text("main")
    assert len(seen) == len(study.rounds) + bool(study.qualification)
    code, output = run("annotate", "export", tmp_path / "labels.sqlite", "--out", tmp_path / "out")
    assert code == 0, output
    assert EXPORTED[name] in output
    store.close()
