"""Gold items: places and order for each person, the plan's number, and the stop after errors."""

import re
import shutil
from collections import Counter
from contextlib import closing

import pytest

from annotation.rating import Rating, known_texts, share_of, study_of
from annotation.serving import enter, served
from annotation.studies import RATING, known
from lmms_egoplan.annotation.database import Database, create
from lmms_egoplan.annotation.serve import plan
from lmms_egoplan.annotation.status import print_status
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import Gold
from lmms_egoplan.errors import LmmsEgoplanError

EVERY = 6
# A person's place in one block is one of seven.
BLOCK = EVERY + 1


def new_database(path, people, items, gold, every=EVERY):
    """Create a database of items that all people label, and gold items."""
    study = study_of(Rating, people, people, gold=Gold(labels="known.jsonl", every=every))
    create(path, study, *known_texts(items, gold))
    return path


def opened(path):
    return closing(Store(Database(path, exclusive=True), Rating()))


def label(store, person, rating="1"):
    slot = store.assignments.next_slot(person)
    if slot is not None:
        store.save(slot, f"{person} {slot.id}", {"rating": rating})
    return slot


def names(number):
    return [f"annotator-{index + 1}" for index in range(number)]


def items_of(store, person):
    """Return the stage and the id of each of a person's items, in the order of labelling."""
    rows = store.database.rows(
        """
        SELECT stage, items.id FROM slots JOIN items ON items.position = slots.item
        WHERE person = :person ORDER BY slots.id
        """,
        {"person": person},
    )
    return [tuple(row) for row in rows]


def label_to_the_end(store, people):
    while sum(label(store, person) is not None for person in people):
        pass
    return {person: items_of(store, person) for person in people}


def places(sequence):
    """Return the numbers of a person's gold items in the sequence of all items."""
    return [number for number, (stage, _) in enumerate(sequence) if stage == "gold"]


def test_places_and_order_are_random_for_each_person(tmp_path):
    people = names(6)
    path = new_database(tmp_path / "labels.sqlite", len(people), 20 * EVERY, 20)
    with opened(path) as store:
        sequences = label_to_the_end(store, people)
    offsets = Counter()
    for sequence in sequences.values():
        gold = [item for stage, item in sequence if stage == "gold"]
        # All gold items, each once, and one in each block.
        assert sorted(gold) == sorted({*gold})
        assert len(gold) == 20
        assert [place // BLOCK for place in places(sequence)] == [*range(20)]
        offsets.update(place % BLOCK for place in places(sequence))
        others = [item for stage, item in sequence if stage == "rate"]
        assert len(others) == len({*others}) == 20 * EVERY
    # All places occur, and no block or person predicts another.
    assert {*offsets} == {*range(BLOCK)}
    for sequence in sequences.values():
        numbers = places(sequence)
        for period in range(1, 6):
            gaps = {
                later - earlier for earlier, later in zip(numbers, numbers[period:], strict=False)
            }
            assert len(gaps) > 1
    distinct_places = {tuple(places(sequence)) for sequence in sequences.values()}
    distinct_orders = set()
    for sequence in sequences.values():
        distinct_orders.add(tuple(item for stage, item in sequence if stage == "gold"))
    assert len(distinct_places) == len(distinct_orders) == len(people)


def test_a_restart_changes_neither_places_nor_order(tmp_path):
    path = new_database(tmp_path / "labels.sqlite", 2, 5 * EVERY, 5)
    other = new_database(tmp_path / "other.sqlite", 2, 5 * EVERY, 5)
    shutil.copy(path, tmp_path / "copy.sqlite")
    with opened(path) as store:
        expected = label_to_the_end(store, names(2))
    finished = False
    while not finished:
        with opened(tmp_path / "copy.sqlite") as store:
            finished = not sum(label(store, person) is not None for person in names(2))
            repeated = {person: items_of(store, person) for person in names(2)}
    assert repeated == expected
    # Another database has another secret.
    with opened(other) as store:
        assert label_to_the_end(store, names(2)) != expected


def test_released_gold_items_return_after_all_others(tmp_path):
    path = new_database(tmp_path / "labels.sqlite", 1, 3, 3, every=1)
    with opened(path) as store:
        while store.assignments.next_slot("annotator-1").stage != "gold":
            label(store, "annotator-1")
        first = store.assignments.next_slot("annotator-1").item
        assert store.assignments.release("annotator-1") == 1
        sequence = label_to_the_end(store, ["annotator-1"])["annotator-1"]
        labelled = [item for stage, item in sequence if stage == "gold"][1:]
        assert labelled[-1] == first.id
        assert len({*labelled}) == len(labelled) == 3


@pytest.mark.parametrize(
    ("people", "items", "gold", "fewest", "most"),
    [
        # Eight blocks of six items, and perhaps the item in the first place of the ninth block.
        (8, 48, 10, 64, 72),
        # The tenth block ends with its gold item, and there are only ten.
        (8, 60, 10, 80, 80),
        (3, 5, 10, 0, 3),
    ],
)
def test_a_plan_counts_the_gold_labels_that_people_will_give(
    tmp_path, people, items, gold, fewest, most
):
    with opened(new_database(tmp_path / "labels.sqlite", people, items, gold)) as store:
        line = next(line for line in plan(store) if line.startswith("Gold: "))
        share = share_of(store, "annotator-1")[1]
        sequences = label_to_the_end(store, names(people))
    number = sum(len(places(sequence)) for sequence in sequences.values())
    assert line == (
        f"Gold: {gold} items, {number} labels if all {people} annotators label the same number"
    )
    assert fewest <= number <= most
    # The page states the same share for everybody.
    assert abs(share - items - min(gold, items / EVERY)) < 1


STOPPING = RATING + ("gold: {labels: known.jsonl, every: 1, stop_after_errors: 2}\n")


def test_people_get_no_items_after_a_number_of_errors(start_study, capsys):
    gold = known(2, 5, 8, 11)
    store = start_study(STOPPING, count=16, known=gold)
    while label(store, "annotator-1", "0") is not None:
        pass
    sequence = items_of(store, "annotator-1")
    assert len(places(sequence)) == 2
    assert sequence[-1][0] == "gold"
    assert store.assignments.upcoming("annotator-1") is None
    # Their labels still count, and others get the remaining items.
    assert store.assignments.standing("annotator-1") == "passed"
    states = {row.person: row.state for row in store.progress()}
    assert states == {"annotator-1": "stopped", "annotator-2": "working"}
    print_status(store)
    assert re.search(r"annotator-1.*stopped.*0 of 2", capsys.readouterr().out)
    # Corrections do not reveal the gold items.
    for row in store.database.rows("SELECT id FROM slots WHERE person = 'annotator-1'"):
        slot = store.assignments.slot(row["id"], "annotator-1")
        store.save(slot, f"corrected {slot.id}", {"rating": "1"})
        assert store.assignments.next_slot("annotator-1") is None
    with served(store) as address:
        pages = {name: enter(address, store, name).page.text for name in ("annotator-1", "lead")}
    assert "contact the person who leads this study" in pages["annotator-1"]
    assert re.search(r"annotator-1</th>.*stopped", pages["lead"])
    store.close()
    with pytest.raises(LmmsEgoplanError, match="change only people and stop_after_errors"):
        start_study(STOPPING.replace("every: 1", "every: 2"), count=16, known=gold)
    # The lead lets the person continue by raising the number.
    store = start_study(STOPPING.replace("errors: 2", "errors: 3"), count=16, known=gold)
    assert store.assignments.state("annotator-1") == "working"
    while label(store, "annotator-1", "0") is not None:
        pass
    assert len(places(items_of(store, "annotator-1"))) == 3


def test_people_who_are_right_are_not_stopped(start_study):
    store = start_study(STOPPING, count=16, known=known(2, 5, 8, 11))
    sequences = label_to_the_end(store, names(2))
    assert {row.state for row in store.progress()} == {"finished"}
    assert sum(len(sequence) for sequence in sequences.values()) == 12 + sum(
        len(places(sequence)) for sequence in sequences.values()
    )
