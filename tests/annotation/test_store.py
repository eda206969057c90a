import random
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest

from annotation.rating import (
    STUDY,
    Apart,
    Rating,
    Reviewed,
    raise_annotators,
    share_of,
    study_of,
    texts,
)
from lmms_egoplan.annotation.assignment import NewerLabelError, NotYoursError
from lmms_egoplan.annotation.database import Database, StoreError, create
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import check_study
from lmms_egoplan.errors import LmmsEgoplanError
from patience import wait_until


@pytest.fixture
def open_store(tmp_path):
    opened = []

    def make(count=4, annotators=3, per_item=2, flow=Rating, name="labels.sqlite", **settings):
        path = tmp_path / name
        if not path.exists():
            study = study_of(flow, annotators, per_item, **settings)
            check_study(study, flow.name, flow.stages, count)
            create(path, study, texts(count))
        opened.append(Store(Database(path), flow()))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def label(store, person, rating="1", form=None):
    slot = store.assignments.next_slot(person)
    if slot is not None:
        store.save(slot, form or f"{person} {slot.id} {rating}", {"rating": rating}, seconds=2.0)
    return slot


def label_all(store, people, rating="1"):
    while sum(label(store, person, rating) is not None for person in people):
        pass


def test_every_item_gets_distinct_annotators(open_store):
    store = open_store(count=7, annotators=3, per_item=2)
    label_all(store, ["annotator-1", "annotator-2", "annotator-3"])
    labelled = store.labelled()
    for item in labelled.items:
        people = [label_.person for label_ in labelled.labels_of(item, "rate")]
        assert len(people) == len({*people}) == 2
    assert {progress.state for progress in store.progress()} == {"finished"}


def test_open_slot_survives_a_restart(open_store):
    store = open_store()
    first = store.assignments.next_slot("annotator-1")
    store.close()
    assert open_store().assignments.next_slot("annotator-1").id == first.id


def test_concurrent_annotators_never_share_a_slot(open_store):
    store = open_store(count=20, annotators=10, per_item=3)
    people = [f"annotator-{number}" for number in range(1, 11)]

    def work(person):
        slots = []
        while slot := store.assignments.next_slot(person):
            store.save(slot, f"form of {slot.id}", {"rating": "0"})
            slots.append((slot.id, slot.item.id))
        return slots

    with ThreadPoolExecutor(10) as pool:
        slots = [slot for saved in pool.map(work, people) for slot in saved]
    assert len({number for number, _ in slots}) == len(slots) == 60
    assert sum(map(len, store.labelled().labels.values())) == 60


def test_same_form_with_other_values_is_a_correction(open_store):
    store = open_store()
    slot = store.assignments.next_slot("annotator-1")
    for rating in ("0", "1"):
        assert store.save(slot, "form", {"rating": rating})
        assert not store.save(slot, "form", {"rating": rating})
        assert sum(map(len, store.labelled().labels.values())) == 1
    assert store.save(slot, "form", {"rating": "1"}, "a comment")
    ((saved,),) = store.labelled().labels.values()
    assert (saved.values, saved.comment) == ({"rating": "1"}, "a comment")
    assert share_of(store, "annotator-1")[0] == 1


def test_shares_are_of_all_labels_of_a_group(open_store):
    store = open_store(count=8, annotators=4, flow=Apart, people=STUDY.people, rounds=STUDY.rounds)
    label_all(store, ["annotator-1"])
    # Two labels each of 8 items, and one of the audit's 4, by 4 people; 2 of 5 and 1 of 8 items, by
    # 3 people.
    assert share_of(store, "annotator-1") == (8, 5)
    assert share_of(store, "reviewer-3") == (0, 6)


def test_median_of_two_times_is_their_mean(open_store):
    store = open_store(annotators=1, per_item=1)
    for number, seconds in enumerate((10.0, 100.0)):
        store.save(
            store.assignments.next_slot("annotator-1"),
            f"form {number}",
            {"rating": "1"},
            "",
            seconds,
        )
    assert next(store.progress()).seconds == 55.0


def change(store, person, rating="0"):
    """Replace a person's newest label."""
    number = store.own_labels(person, "", 0)[0].slot
    slot = store.assignments.slot(number, person)
    return store.save(slot, f"changed {slot.last}", {"rating": rating})


def skip(store, person, reason="too dark"):
    slot = store.assignments.next_slot(person)
    assert store.save(slot, f"skip {slot.id}", None, skipped=reason)
    return slot


def test_own_labels_can_be_found_and_changed_and_rows_are_appended(open_store):
    store = open_store(count=5)
    first = label(store, "annotator-1", "0")
    skip(store, "annotator-1", "Too 100% dark_")
    label(store, "annotator-1"), label(store, "annotator-2")
    assert len(store.own_labels("annotator-1", "", 0)) == 3
    (row,) = store.own_labels("annotator-1", "100% DARK_", 0)
    assert row.skipped == "Too 100% dark_"
    assert (
        store.own_labels("annotator-1", "%", 1)
        == store.own_labels("annotator-1", "nothing of it", 0)
        == []
    )
    assert store.save(store.assignments.slot(first.id, "annotator-1"), "later", {"rating": "1"})
    assert store.labelled().labels[first.item.id][0].values == {"rating": "1"}
    with sqlite3.connect(store.database.path) as connection:
        assert connection.execute("SELECT count(*) FROM history").fetchone() == (5,)


def test_skipped_item_is_reassigned_for_good(open_store):
    store = open_store(count=1, annotators=3, per_item=2)
    slot = skip(store, "annotator-1")
    assert store.assignments.next_slot("annotator-1") is None
    assert (store.assignments.state("annotator-1"), share_of(store, "annotator-1")[0]) == (
        "finished",
        0,
    )
    label(store, "annotator-2")
    # nobody has it yet
    assert store.save(store.assignments.slot(slot.id, "annotator-1"), "after all", {"rating": "1"})
    assert store.labelled().skips == []
    again = store.assignments.slot(slot.id, "annotator-1")
    store.save(again, "no, I cannot", None, skipped="too dark")
    assert label(store, "annotator-3") is not None
    again = store.assignments.slot(slot.id, "annotator-1")
    with pytest.raises(NotYoursError):
        store.save(again, "yes, I can", {"rating": "1"})
    assert [(skip_.item, skip_.person, skip_.reason) for skip_ in store.labelled().skips] == [
        ("text/0", "annotator-1", "too dark")
    ]


def test_lead_may_decide_an_item_that_everyone_skipped(open_store):
    store = open_store(count=1, annotators=2, per_item=2)
    skip(store, "annotator-1"), skip(store, "annotator-2")
    assert [store.assignments.state(f"annotator-{number}") for number in (1, 2)] == ["finished"] * 2
    decide(store, 0)
    assert store.labelled().adjudicated(store.assignments.item(0)).values == {"rating": "1"}


def test_released_item_goes_to_another_person_first(open_store):
    store = open_store(count=3, annotators=2, per_item=1)
    slot = store.assignments.next_slot("annotator-1")
    with pytest.raises(NotYoursError):
        store.assignments.slot(slot.id, "annotator-2")
    assert store.assignments.release("annotator-1") == 1
    with pytest.raises(NotYoursError):
        store.save(slot, "late", {"rating": "1"})
    item_ids = [label(store, "annotator-1").item.id for _ in range(2)]
    assert slot.item.id not in item_ids
    assert store.assignments.next_slot("annotator-2").item == slot.item
    assert store.assignments.release("annotator-2") == 1
    assert store.assignments.next_slot("annotator-1").item == slot.item


def test_released_item_is_offered_to_people_who_had_finished(open_store):
    store = open_store(count=1, annotators=2, per_item=1)
    slot = store.assignments.next_slot("annotator-1")
    assert store.assignments.state("annotator-2") == "finished"
    store.assignments.release("annotator-1")
    assert store.assignments.state("annotator-2") == "working"
    assert store.assignments.next_slot("annotator-2").item == slot.item


def test_stale_form_cannot_replace_a_newer_label(open_store):
    store = open_store()
    slot = store.assignments.next_slot("annotator-1")
    store.save(slot, "one tab", {"rating": "1"})
    for values, skipped in (({"rating": "0"}, None), (None, "too dark")):
        with pytest.raises(NewerLabelError):
            store.save(slot, "another tab", values, skipped=skipped)
    assert store.save(
        store.assignments.slot(slot.id, "annotator-1"), "another tab", {"rating": "0"}
    )


def recount(connection, study, sampled):
    """Compute whether each place is free with slow queries, by stage and item."""
    failed = {row[0] for row in connection.execute("SELECT person FROM failed")}
    newest = dict(connection.execute("SELECT slot, max(id) FROM history GROUP BY slot"))
    choices = dict(connection.execute('SELECT id, "values" FROM history'))
    skips = dict(connection.execute("SELECT id, reason IS NOT NULL FROM history"))
    free = {}
    for item, part in connection.execute("SELECT position, part FROM items"):
        slots = connection.execute(
            "SELECT id, stage, person FROM slots WHERE item = ? AND state != 'released'", (item,)
        )
        labelled, taken = defaultdict(list), Counter()
        for slot, stage, person in slots:
            row = newest.get(slot)
            if row and choices[row] is not None:
                labelled[stage].append(choices[row])
            taken[stage] += person not in failed and not (row and skips[row])
        if part != "main":
            free[part, item] = taken[part] < study.learners
            continue
        rounds = [one for one in study.rounds if not one.sample or (one.name, item) in sampled]
        deciding = [one for one in rounds if not one.final]
        texts = [text for one in deciding for text in labelled[one.name]]
        is_decided, is_disputed = bool(labelled["adjudication"]), len({*texts}) > 1
        is_aside = any("aside" in text for text in texts)
        for number, one in enumerate(rounds):
            is_ready = all(
                len(labelled[other.name]) >= other.per_item for other in deciding[:number]
            )
            is_closed = is_disputed and not is_decided if one.final else is_decided
            is_open = not is_closed and (is_ready or (one.final and is_decided))
            is_needed = number == 0 or not is_aside
            free[one.name, item] = taken[one.name] < one.per_item and is_open and is_needed
    return free


def act(store, person, action, source, form, ratings):
    """Let a person or the lead do something random that may be refused.

    Args:
        action: One of the actions of `test_free_places_match_a_slow_count`.
        source: Generator of random numbers.
        form: Token of the person's form.
        ratings: Ratings from which the person chooses.
    """
    if action in ("label", "skip"):
        slot = store.assignments.next_slot(person)
        if slot is None:
            return
        if action == "skip":
            store.save(slot, form, None, skipped="dark")
        else:
            store.save(slot, form, {"rating": source.choice(ratings)})
    elif action == "change":
        rating = source.choice("01") if store.own_labels(person, "", 0) else None
        if rating:
            change(store, person, rating)
    elif action == "release":
        store.assignments.release(person)
    elif action == "verdict":
        store.judge_qualification(person, "senior-1", passed=source.random() < 0.8)
    elif action == "decide":
        decide(store, source.randrange(8))
    elif action == "take back":
        store.undo_decision(source.randrange(8))


def free_places(store):
    """Return all free places, by stage and item, for a person who never had an item."""
    study = store.database.study
    stages = {round_.name: "main" for round_ in study.rounds} | {"qualification": "qualification"}
    free = set()
    for stage, part in stages.items():
        position = store.assignments._first_new("nobody", stage, part, 0)
        while position is not None:
            free.add((stage, position))
            position = store.assignments._first_new("nobody", stage, part, position + 1)
    return free


def check_counts(store, sampled):
    """Compare free places and counts with slow queries."""
    with sqlite3.connect(store.database.path) as connection:
        places = recount(connection, store.database.study, sampled)
        assert free_places(store) == {place for place, is_free in places.items() if is_free}
        counts = dict(
            connection.execute(
                """
                SELECT person, count(*) FROM slots JOIN history ON history.id = slots.last
                WHERE history."values" IS NOT NULL GROUP BY person
                """
            )
        )
        aside = {
            item
            for (item,) in connection.execute(
                "SELECT item FROM slots JOIN history ON history.id = slots.last "
                "WHERE history.\"values\" LIKE '%aside%' AND stage IN ('rate', 'check')"
            )
        }
    needed = Counter()
    study = store.database.study
    for stage, item in places:
        round_ = next((one for one in study.rounds if one.name == stage), None)
        if round_ is None:
            needed[stage] += study.learners
        elif round_ is study.rounds[0] or item not in aside:
            needed[stage] += round_.per_item
    assert store.totals() == dict.fromkeys(store.totals(), 0) | needed
    for person in store.people():
        if person.group:
            assert share_of(store, person.name)[0] == counts.get(person.name, 0)


@pytest.mark.parametrize("flow", [Rating, Reviewed, Apart])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_free_places_match_a_slow_count(open_store, flow, seed):
    source = random.Random(seed)
    settings = {"qualification": 2, "seniors": 1} if flow is Rating else {}
    if flow is Apart:
        settings = {"people": STUDY.people, "rounds": STUDY.rounds}
    store = open_store(
        count=8, annotators=5, per_item=2 if flow is Rating else 1, flow=flow, **settings
    )
    people = [name for name, _ in store.database.study.names()]
    sampled = {*map(tuple, store.database.rows("SELECT stage, item FROM samples"))}
    assert Counter(stage for stage, _ in sampled)["check"] == (5 if flow is Apart else 0)
    ratings = ["1"] * 8 + ["0", "aside" if flow is Apart else "0"]
    actions = ["label"] * 6 + [
        "skip",
        "change",
        "release",
        "verdict",
        "decide",
        "take back",
        "more",
    ]
    for step in range(150):
        person = source.choice(people)
        action = source.choice(actions)
        with suppress(LmmsEgoplanError):
            act(store, person, action, source, f"form {step}", ratings)
        if action == "more" and len(people) < 7 and flow is not Apart:
            raise_annotators(store, len(people) + 1)
            people.append(f"annotator-{len(people) + 1}")
        check_counts(store, sampled)
        for name in people:
            # The remembered search positions hide no free item.
            remembered = store.assignments._free(name)
            store.assignments._first_free.clear()
            assert store.assignments._free(name) == remembered
    if flow is Apart:
        slots = store.database.rows(
            "SELECT item, stage, person FROM slots WHERE state != 'released'"
        )
        for one in STUDY.rounds:
            apart = STUDY.apart(one.name, Apart.stages)
            pairs = [(item, person) for item, stage, person in slots if stage in apart]
            mine = {(item, person) for item, stage, person in slots if stage == one.name}
            assert all(pairs.count(pair) == 1 for pair in mine)
            assert {person.partition("-")[0] for _, person in mine} == {one.people}


def test_review_follows_and_needs_another_person(open_store):
    store = open_store(count=2, annotators=2, per_item=1, flow=Reviewed)
    first = label(store, "annotator-1")
    review = store.assignments.next_slot("annotator-2")
    assert (review.stage, review.item, review.earlier) == ("review", first.item, ({"rating": "1"},))
    with pytest.raises(NotYoursError):
        change(store, "annotator-1")
    label_all(store, ["annotator-1", "annotator-2"])
    for labels in store.labelled().labels.values():
        assert [label_.stage for label_ in labels] == ["rate", "review"]
        assert labels[0].person != labels[1].person


def test_qualification_comes_first_and_needs_all_seniors(open_store):
    store = open_store(count=6, annotators=2, per_item=2, qualification=2, seniors=2)
    with pytest.raises(NotYoursError, match="annotator-2"):
        store.judge_qualification("annotator-2", "senior-1", passed=True)
    label_all(store, ["annotator-1", "annotator-2"])
    assert store.assignments.state("annotator-1") == "waiting"
    assert store.assignments.next_slot("annotator-1") is None
    store.judge_qualification("annotator-1", "senior-1", passed=True)
    assert store.assignments.state("annotator-1") == "waiting"
    store.judge_qualification("annotator-1", "senior-2", passed=True)
    store.judge_qualification("annotator-2", "senior-1", "too fast", passed=False)
    assert store.assignments.state("annotator-2") == "failed"
    with pytest.raises(NotYoursError):
        change(store, "annotator-1")
    label_all(store, ["annotator-1", "annotator-2"])
    labelled = store.labelled()
    assert labelled.qualified == ["annotator-1"]
    assert len(labelled.qualification) == 2
    assert (
        sum(label_.stage == "rate" for labels in labelled.labels.values() for label_ in labels) == 4
    )


def decide(store, position, rating="1"):
    slot = store.adjudicate(position, "lead")
    store.save(slot, f"lead {slot.id} {rating}", {"rating": rating})
    return slot


def test_lead_decides_once_an_item_has_all_labels(open_store):
    store = open_store(count=1, annotators=2, per_item=2)
    with pytest.raises(NotYoursError, match="0 of 2"):
        store.adjudicate(0, "lead")
    label(store, "annotator-1", "0"), label(store, "annotator-2", "1")
    slot = store.adjudicate(0, "lead")
    assert change(store, "annotator-1", "1")
    assert not store.undo_decision(0)
    assert store.save(slot, "decision", {"rating": "1"})
    with pytest.raises(NotYoursError):
        change(store, "annotator-1")
    assert store.assignments.next_slot("annotator-1") is None
    assert store.undo_decision(0)
    assert store.labelled().adjudicated(store.assignments.item(0)) is None
    assert change(store, "annotator-1", "0")
    assert store.adjudicate(0, "lead").values == {"rating": "1"}
    assert sorted(label_.values["rating"] for label_ in store.labelled().labels["text/0"]) == [
        "0",
        "1",
    ]


def test_decided_items_are_not_shown(open_store):
    """An annotator fails, another takes the item, and the first one passes after all."""
    store = open_store(count=3, annotators=3, per_item=1, qualification=1, seniors=1)
    people = pass_all(store, 3)
    open_ = store.assignments.next_slot(people[0])
    store.judge_qualification(people[0], "senior-1", passed=False)
    assert store.assignments.next_slot(people[0]) is None
    label(store, people[1])
    store.judge_qualification(people[0], "senior-1", passed=True)
    decide(store, open_.position)
    assert store.assignments.next_slot(people[0]).item != open_.item
    with pytest.raises(NotYoursError):
        store.save(open_, "late", {"rating": "0"})
    for person in people:
        slot = store.assignments.next_slot(person)
        assert slot is None or slot.position != open_.position


def pass_all(store, count):
    """Return the annotators after all have passed their qualification."""
    people = [f"annotator-{number}" for number in range(1, count + 1)]
    label_all(store, people)
    for person in people:
        store.judge_qualification(person, "senior-1", passed=True)
    return people


def test_places_of_a_failed_annotator_are_reassigned(open_store):
    store = open_store(count=4, annotators=3, per_item=2, qualification=1, seniors=1)
    people = pass_all(store, 3)
    for _ in range(3):
        label(store, people[0], "0"), label(store, people[1], "1")
    assert store.assignments.next_slot(people[2]) is None
    slot = store.assignments.slot(
        store.database.rows("SELECT max(slot) FROM history")[0][0], people[1]
    )
    store.judge_qualification(people[1], "senior-1", "seen later", passed=False)
    assert store.assignments.next_slot(people[1]) is None
    with pytest.raises(NotYoursError):
        store.save(slot, "late", {"rating": "1"})
    label_all(store, people)
    labelled = store.labelled()
    for item in labelled.items:
        if item.id not in labelled.qualification:
            assert {label_.person for label_ in labelled.labels_of(item, "rate")} == {
                people[0],
                people[2],
            }


def test_adding_annotators_keeps_existing_links(open_store):
    store = open_store(annotators=2)
    before = store.people()
    raise_annotators(store, 3)
    after = store.people()
    assert {*before} < {*after}
    assert len({person.token for person in after}) == 4
    with pytest.raises(LmmsEgoplanError, match="--annotators 1"):
        raise_annotators(store, 1)


def test_other_items_are_refused(open_store):
    store = open_store(count=4)
    store.renew_items(texts(4)[::-1], "items.json")
    with pytest.raises(StoreError, match=r"items\.json"):
        store.renew_items(texts(5), "items.json")


KNOWN = [replace(item, id=f"gold/{item.id}", known={"rating": "1"}) for item in texts(2)]


@pytest.mark.parametrize("skip_missing", [False, True])
@pytest.mark.parametrize(
    "study", [STUDY, study_of(Rating, 3, 2, qualification=2), study_of(Rating, 3, 2)]
)
def test_new_items_are_added_at_a_restart(study, skip_missing, tmp_path):
    flow, path = Apart() if study is STUDY else Rating(), tmp_path / "labels.sqlite"
    items = [*texts(6), *KNOWN]
    create(path, study, items, {KNOWN[0].id: "training", KNOWN[1].id: "gold"})

    def stored():
        items = store.database.rows("SELECT * FROM items ORDER BY position")
        return [*map(tuple, items)], [*map(tuple, store.database.rows("SELECT * FROM samples"))]

    store = Store(Database(path, exclusive=True), flow)
    label(store, "annotator-1")
    items_before, samples_before = stored()
    renewed = [replace(item, known=None) for item in [*texts(9), *KNOWN]]
    seen = renewed[1:] if skip_missing else renewed
    assert store.renew_items(seen, "items", skip_missing=skip_missing, more=True) == 3
    assert store.renew_items(seen, "items", skip_missing=skip_missing, more=True) == 0
    items_after, samples_after = stored()
    assert items_after[: len(items_before)] == items_before
    assert samples_after == samples_before
    assert sorted(store.positions().values()) == [*range(11)]
    assert len(store.labelled().items) == 9
    store.close()
    store = Store(Database(path, exclusive=True), flow)
    assert store.renew_items(renewed, "items") == 0
    for current in (renewed[1:], [*renewed, *texts(10)[9:]], [*renewed[1:], renewed[1]]):
        with pytest.raises(StoreError, match="--more"):
            store.renew_items(current, "items")
    with pytest.raises(LmmsEgoplanError, match="Duplicate item 'text/9'"):
        store.renew_items([*renewed, *2 * texts(10)[9:]], "items", more=True)
    changed = replace(renewed[0], contents={"text": "another"})
    with pytest.raises(StoreError, match="differ"):
        store.renew_items([changed, *texts(11)[1:], *KNOWN], "items", more=True)
    assert store.num_items() == 11
    people = ["annotator-1", "annotator-2", "annotator-3"]
    if study is not STUDY and not study.qualification:
        label_all(store, people)
        assert all(
            len(store.labelled().labels_of(item, "rate")) == 2 for item in store.labelled().items
        )
    store.close()


ADD = """
import sys
from pathlib import Path
from annotation.rating import Rating, texts
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.store import Store

store = Store(Database(Path(sys.argv[1]), exclusive=True), Rating())
print("open", flush=True)
store.renew_items(texts(8000), "items", more=True)
"""


@pytest.mark.whole
def test_killed_additions_add_all_items_or_none(open_store):
    path = open_store().database.path
    journal = path.with_name(f"{path.name}-journal")
    for milliseconds in (0, 100, 200):
        process = subprocess.Popen(
            [sys.executable, "-c", ADD, str(path)], cwd="tests", stdout=subprocess.PIPE
        )
        process.stdout.readline()
        wait_until(lambda process=process: journal.exists() or process.poll() is not None)
        with suppress(subprocess.TimeoutExpired):
            process.wait(milliseconds / 1000)
        process.kill()
        process.communicate()
        store = open_store()
        assert store.num_items() in (4, 8000)
    assert store.renew_items(texts(8000), "items", more=True) in (0, 7996)
    assert store.renew_items(texts(8000), "items") == 0


def test_only_changing_values_are_updated(open_store, tmp_path):
    def items(path, text="text"):
        return [Item("id", {"text": text, "place": path}, {"rating": path}, ("place", "rating"))]

    create(tmp_path / "labels.sqlite", study_of(Rating, 1, 1), items("old"))
    store = open_store()
    store.renew_items(items("new"), "items")
    assert store.assignments.item(0).contents == {"text": "text", "place": "new"}
    assert store.assignments.item(0).hidden == {"rating": "new"}
    with pytest.raises(StoreError, match=r"labels\.sqlite"):
        store.renew_items(items("new", "other"), "items")


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"count": 0}, None),
        ({"per_item": 4}, r"--annotators.*\b3\b.*\b4\b"),
        ({"flow": Reviewed, "annotators": 1, "per_item": 1}, r"--annotators.*\b1\b.*\b2\b"),
        ({"qualification": 4}, "qualification 4"),
        ({"flow": Reviewed, "per_item": 1, "qualification": 1}, None),
    ],
)
def test_impossible_settings_are_refused(open_store, tmp_path, settings, facts):
    with pytest.raises(LmmsEgoplanError, match=facts):
        open_store(**settings)
    assert list(tmp_path.iterdir()) == []


def test_existing_database_is_not_overwritten(open_store):
    store = open_store()
    label(store, "annotator-1")
    with pytest.raises(StoreError, match=r"labels\.sqlite"):
        create(store.database.path, store.database.study, texts(4))
    assert len(open_store().labelled().labels) == 1


@pytest.mark.parametrize("version", [1, 9])
def test_other_formats_are_refused_with_advice(open_store, version):
    path = open_store().database.path
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(StoreError, match=f"format {version}.*--db"):
        Store(Database(path), Rating())


def test_error_names_the_damaged_file(open_store, tmp_path):
    store = open_store(count=300)
    store.close()
    content = bytearray(store.database.path.read_bytes())
    content[4096:12288] = bytes(8192)
    (tmp_path / "damaged.sqlite").write_bytes(content)
    (tmp_path / "text.sqlite").write_text("no database at all, " * 100)
    for name in ("damaged.sqlite", "text.sqlite", "absent.sqlite"):
        with pytest.raises(StoreError, match=name):
            Store(Database(tmp_path / name), Rating())


def test_sqlite_messages_are_passed_on(open_store):
    store = open_store()
    slot = store.assignments.next_slot("annotator-1")
    store.database._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="attempt to write"):
        store.save(slot, "form", {"rating": "1"})
    with pytest.raises(StoreError, match="no such table"):
        store.database.rows("SELECT * FROM absent")


def test_opening_writes_nothing(open_store):
    """Readers without write access can see the status."""
    path = open_store().database.path
    assert path.stat().st_mode & 0o077 == 0
    before = path.read_bytes()
    Store(Database(path), Rating()).close()
    assert path.read_bytes() == before
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_unpaired_surrogates_are_stored_as_question_marks(open_store, tmp_path):
    path = tmp_path / "labels.sqlite"
    create(
        path, study_of(Rating, 1, 1), [Item("a\ud83d", {"text": "b\ud83d"}, {"c": "\ud83d\ude00"})]
    )
    store = open_store()
    (item,) = store.items()
    assert (item.id, item.contents, item.hidden) == ("a?", {"text": "b?"}, {"c": "\U0001f600"})
    store.save(
        store.assignments.next_slot("annotator-1"),
        "form",
        {"rating": "1", "text": "\ud83d"},
        "\ud83d",
    )
    ((saved,),) = store.labelled().labels.values()
    assert (saved.values["text"], saved.comment) == ("?", "?")


def test_full_disk_loses_nothing(open_store):
    store = open_store()
    label(store, "annotator-1")
    (pages,) = store.database._connection.execute("PRAGMA page_count").fetchone()
    store.database._connection.execute(f"PRAGMA max_page_count = {pages}")
    slot = store.assignments.next_slot("annotator-1")
    with pytest.raises(StoreError, match=r"labels\.sqlite"):
        store.save(slot, "large", {"rating": "x" * 100_000})
    store.database._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert store.save(slot, "large", {"rating": "x" * 100_000})
    assert len(open_store().labelled().labels) == 2


def test_second_server_is_refused(open_store, tmp_path):
    open_store().close()
    first = Store(Database(tmp_path / "labels.sqlite", exclusive=True), Rating())
    with pytest.raises(StoreError, match=r"labels\.sqlite"):
        Store(Database(tmp_path / "labels.sqlite", exclusive=True), Rating())
    Store(Database(tmp_path / "labels.sqlite"), Rating()).close()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "labels.sqlite")
    with pytest.raises(StoreError, match=r"link\.sqlite"):
        Store(Database(tmp_path / "link.sqlite", exclusive=True), Rating())
    first.close()
    Store(Database(tmp_path / "link.sqlite", exclusive=True), Rating()).close()


_KILLED = """
import os, sys
from pathlib import Path
from annotation.rating import Rating
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.store import Store
store = Store(Database(Path(sys.argv[1]), exclusive=True), Rating())
while slot := store.assignments.next_slot("annotator-1"):
    store.save(slot, f"form {slot.id}", {"rating": "1"})
    print(slot.item.id, flush=True)
    if slot.id % 5 == 0:
        os.kill(os.getpid(), 9)
"""


@pytest.mark.nightly
def test_kill_loses_no_saved_label(open_store):
    path = open_store(count=23, annotators=1, per_item=1).database.path
    saved = []
    for _ in range(5):
        process = subprocess.run(
            [sys.executable, "-c", _KILLED, path], capture_output=True, text=True, cwd="tests"
        )
        assert process.stderr == ""
        saved += process.stdout.split()
    assert (
        sorted(open_store().labelled().labels)
        == sorted(saved)
        == sorted(item.id for item in texts(23))
    )
