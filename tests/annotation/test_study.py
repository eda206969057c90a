"""Run studies from their files: training, gold items, limits, restarts and final rounds."""

import json
import random
import re
from collections import Counter, defaultdict

import httpx
import pytest

from annotation.rating import Rating, Studied, texts
from annotation.serving import enter, form_in, post, served, visited
from annotation.studies import FINAL, RATING, known, open_store
from lmms_egoplan.annotation.assignment import NotYoursError
from lmms_egoplan.annotation.export import export
from lmms_egoplan.annotation.importing import import_file
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.annotation.store import kept_predictions
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text


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
    rows = store.database.rows(
        "SELECT stage, item FROM slots WHERE person = :person ORDER BY id", {"person": person}
    )
    return [tuple(row) for row in rows]


def test_training_shows_the_known_label_only_after_saving(start_study):
    store = start_study(RATING + "training: known.jsonl\n", known=known(1, 4))
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
        assert [stage for stage, _ in slots_of(store, "annotator-1")] == [
            "training",
            "training",
            "rate",
        ]


def test_released_and_skipped_training_items_come_before_others(start_study):
    store = start_study(RATING + "training: known.jsonl\n", known=known(1, 4, 5))
    first = store.assignments.next_slot("annotator-1")
    store.assignments.release("annotator-1")
    assert [label(store, "annotator-1").item.id, skip(store, "annotator-1").stage] != [
        first.item.id,
        "rate",
    ]
    last = label(store, "annotator-1")
    assert (last.stage, last.item) == ("training", first.item)
    assert label(store, "annotator-1").stage == "rate"


GOLD = RATING.replace("count: 2", "count: 3") + "gold: {labels: known.jsonl, every: 3}\n"


def normalized(page):
    """Return a page without the item's text and number, and without secrets."""
    page = re.sub(
        r"text \d+|[0-9a-f]{24,}|\d{4}-\d\d-\d\d \d\d:\d\d|\d{4}-\d\d-\d\dT[^\"]*", "", page
    )
    return re.sub(
        r"(label/|skip/|media/|Item |data-draft=\"\w+ |labelled |; |value=\")\d+( items?)?",
        r"\1",
        page,
    )


def test_gold_items_look_like_others_and_are_not_exported(start_study, tmp_path):
    golden = known(2, 5, 8, rating="0") | known(11)
    store = start_study(GOLD, count=30, known=golden)
    names = {item.contents["text"]: item for item in store.items()}
    answers = random.Random(0)
    rated = defaultdict(dict)
    pages = defaultdict(lambda: defaultdict(set))
    for person in ("annotator-1",):
        for restart in range(2):
            if restart:
                store.close()
                store = start_study(GOLD, count=30, known=golden)
            with served(store) as address:
                client = enter(address, store, person)
                while 'id="label"' in client.page.text and len(rated[person]) < (
                    11 if restart else 5
                ):
                    where, hidden = form_in(client.page.text)
                    item = names[
                        re.search(r"&lt;b&gt;.*?&lt;/b&gt;", client.page.text)[0]
                        .replace("&lt;", "<")
                        .replace("&gt;", ">")
                    ]
                    kind = bool(item.known)
                    if rated[person]:  # The guide is open at first.
                        pages["item"][kind].add(normalized(client.page.text))
                        refused = client.post(where.replace("label", "skip"), data=hidden)
                        pages["refused skip"][kind].add(
                            (refused.status_code, normalized(refused.text))
                        )
                    rated[person][item.id] = answers.choice("01")
                    saved = client.post(
                        where,
                        data=hidden | {"rating": rated[person][item.id]},
                        follow_redirects=False,
                    )
                    pages["saved"][kind].add((saved.status_code, saved.headers["location"]))
                    saved_page = client.get(
                        where.rpartition("/label")[1] and f"/label/{where.rpartition('/')[2]}"
                    )
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
        stages = Counter(stage for stage, _ in slots_of(store, person))
        assert stages == {"rate": 9, "gold": 3}  # with the item that is open
        num_gold = sum(f"text/{number}" in ratings for number in golden)
        right = sum(
            ratings[f"text/{number}"] == golden[number]["rating"]
            for number in golden
            if f"text/{number}" in ratings
        )
        assert (
            f'<td class="number">{right} of {num_gold}</td>'
            in re.search(rf'"row">{person}</th>.*', lead)[0]
        )
        progress = next(row for row in store.progress() if row.person == person)
        assert (progress.gold_right, progress.gold) == (right, num_gold)
    out = tmp_path / "out"
    export(store.flow, store.labelled(), out)
    exported = [json.loads(line) for line in read_text(out / "labels.jsonl").splitlines()]
    golden_ids = {f"text/{number}" for number in golden}
    assert {row["item"] for row in exported} == {
        item for ratings in rated.values() for item in ratings
    } - golden_ids


def test_gold_items_have_predictions_and_no_position(start_study, tmp_path):
    store = start_study(GOLD, count=12, known=known(2, 5, 8))
    lines = [json.dumps({"item": item.id, "values": {"rating": "1"}}) for item in store.items()]
    (tmp_path / "predictions.jsonl").write_text("\n".join(lines))
    assert import_file(store, tmp_path / "predictions.jsonl")[-1].endswith(
        "12 predicted and 0 not imported"
    )
    with visited(store) as client:
        for _ in range(4):
            assert "The form starts with a prediction." in client.page.text
            number = re.search(r"label/(\d+)", client.page.text)[1]
            assert f'data-draft="{store.database.mark} {number}"' in client.page.text
            post(client, rating="1")
        stages = Counter(stage for stage, _ in slots_of(store, "annotator-1")[:4])
        assert stages == {"rate": 3, "gold": 1}
        assert kept_predictions(store.labelled()) == [
            "Labels that started with a prediction: 3, kept unchanged: 3"
        ]


def test_skipped_gold_items_are_not_exported_as_skipped(start_study, tmp_path):
    store = start_study(GOLD, count=12, known=known(2))
    while store.assignments.next_slot("annotator-1").stage != "gold":
        label(store, "annotator-1")
    assert skip(store, "annotator-1").stage == "gold"
    assert label(store, "annotator-1").stage == "rate"
    lines = export(store.flow, store.labelled(), tmp_path / "out")
    assert not (tmp_path / "out" / "skipped.jsonl").exists()
    assert "Skipped" not in "".join(lines)
    assert [line.stage for line in store.labelled().skips] == ["gold"]


class Limited(Rating):
    """A flow whose first person may only choose 1."""

    def allowed_options(self, number, count):
        assert count == 2
        return {"rating": ["1"]} if number == 1 else {}


def test_limits_are_those_of_each_person(start_study):
    store = start_study(RATING, flow=Limited)
    with served(store) as address:
        for person, options in (("annotator-1", ["1"]), ("annotator-2", ["0", "1"])):
            client = enter(address, store, person)
            assert re.findall(r'name="rating" value="(.)"', client.page.text) == options
        client = enter(address, store, "annotator-1")
        assert post(client, rating="0").status_code == 422
        assert store.labelled().labels == {}
        assert post(client, rating="1").status_code == 200


def reopened(store, tmp_path, **options):
    """Close a store and open its database again, as a restart does."""
    store.close()
    team = Team(**options)
    return open_store(Rating(), tmp_path / "labels.sqlite", lambda _: texts(6), "texts.json", team)


def test_restart_adds_people(start_study, tmp_path, monkeypatch):
    study = RATING + "training: known.jsonl\n"
    store = start_study(study, known=known(1))
    label(store, "annotator-1"), label(store, "annotator-1")
    tokens = {person.name: person.token for person in store.people()}
    store.close()
    store = start_study(study.replace("count: 2", "count: 4"), known=known(1))
    assert tokens.items() <= {person.name: person.token for person in store.people()}.items()
    for person in ("annotator-3", "annotator-4"):
        assert [label(store, person).stage for _ in range(3)] == ["training", "rate", "rate"]
    # The same study by another path, and without --study.
    monkeypatch.chdir(tmp_path)
    for study_file in ("study.yaml", None):
        store = reopened(store, tmp_path, study=study_file)
    store.close()


def test_restart_replaces_links_and_keeps_labels(start_study, tmp_path):
    store = start_study(RATING)
    label(store, "annotator-1")
    before = {person.name: person.token for person in store.people()}
    labels = store.labelled().labels
    content = store.database.path.read_bytes()
    with pytest.raises(LmmsEgoplanError, match=r"--renew Ana: .*annotator-2"):
        reopened(store, tmp_path, renew=["annotator-1", "Ana"])
    assert store.database.path.read_bytes() == content
    store = reopened(store, tmp_path, renew=["annotator-1", "lead"])
    after = {person.name: person.token for person in store.people()}
    assert [name for name in before if before[name] != after[name]] == ["lead", "annotator-1"]
    assert store.labelled().labels == labels
    with served(store) as address:
        client = enter(address, store, "annotator-1")
        # The cookie of the new link, with the old token.
        cookies = dict.fromkeys(client.cookies, before["annotator-1"])
        assert httpx.get(str(client.page.url), cookies=cookies, verify=False).status_code == 403
        assert client.get(f"/enter/{before['annotator-1']}").status_code == 403
        assert "labelled 1 item." in client.page.text
    store.close()
    with pytest.raises(LmmsEgoplanError, match=r"--renew: .*new\.sqlite"):
        open_store(
            Rating(), tmp_path / "new.sqlite", lambda _: texts(6), "", Team(renew=["annotator-1"])
        )


def decide(store, position, rating="1"):
    slot = store.adjudicate(position, "lead")
    store.save(slot, f"lead {slot.id} {slot.last} {rating}", {"rating": rating})


def test_final_rounds_come_with_training_gold_and_other_people(start_study):
    """Nobody checks an item in both final rounds, or their own label."""
    study = FINAL + "training: known.jsonl\ngold: {labels: gold.jsonl, every: 2}\n"
    store = start_study(study, count=8, flow=Studied, known=known(1), gold=known(2, 3))
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


def test_forms_show_no_labels_of_their_own_round(start_study):
    study = FINAL.replace("check, final: true", "check, per_item: 2").replace(
        "count: 4", "count: 5"
    )
    store = start_study(study, count=1, flow=Studied)
    assert [label(store, f"annotator-{number}", "0").earlier for number in (1, 2)] == [(), ()]
    assert [label(store, f"annotator-{number}", "1").earlier for number in (3, 4)] == [
        ({"rating": "0"},)
    ] * 2


def test_decisions_stay_once_a_final_round_has_begun(start_study):
    store = start_study(FINAL, count=1, flow=Studied)
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


def test_failed_people_count_for_no_final_round(start_study):
    study = FINAL.replace("  - {name: audit, final: true}\n", "") + "qualification: 1\nseniors: 1\n"
    store = start_study(study, count=2, flow=Studied)
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


def test_verdicts_change_which_items_wait_for_the_lead(start_study):
    """A person fails, is replaced by one who disagrees, and passes after all."""
    study = FINAL.replace("  - {name: audit, final: true}\n", "") + "qualification: 1\nseniors: 1\n"
    store = start_study(study.replace("count: 4", "count: 5"), count=2, flow=Studied)
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


def test_correction_after_a_later_round_has_begun_is_refused(start_study):
    study = FINAL.replace("check, final: true", "check, sample: 1").replace("count: 4", "count: 5")
    store = start_study(study, count=2, flow=Studied)
    slots = [label(store, f"annotator-{number}") for number in (1, 2, 1, 2)]
    taken = [label(store, "annotator-3") for _ in range(2)]
    assert sorted(slot.stage for slot in taken) == ["audit", "check"]
    (check,) = [slot for slot in taken if slot.stage == "check"]
    for slot in slots:
        again = store.assignments.slot(slot.id, slot.person)
        with pytest.raises(NotYoursError, match="works on this item"):
            store.save(again, "changed", {"rating": "0"})
    assert store.save(
        store.assignments.slot(check.id, check.person), "changed", {"rating": "1"}, "sure"
    )
    assert label(store, "annotator-4").stage == "audit"
    with pytest.raises(NotYoursError, match="works on this item"):
        store.save(store.assignments.slot(check.id, check.person), "changed again", {"rating": "1"})
    # The label of a final round can change.
    (audit,) = [slot for slot in taken if slot.stage == "audit"]
    assert store.save(store.assignments.slot(audit.id, audit.person), "changed", {"rating": "0"})
