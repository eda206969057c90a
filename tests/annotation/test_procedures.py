"""Follow the papers' procedures with simulated people.

The results are compared with slow computations.
"""

import json
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest

from annotation.serving import enter, form_in, post, run, served
from annotation.studies import opened
from lmms_egoplan.annotation.agreement import agreements
from lmms_egoplan.annotation.export import export
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.jsonl import read_text


def answering(reliability, options, truth):
    """Return answers of people of known reliability, and the log of all answers.

    The answers are by person and item.
    """
    log = {}

    def answer(person, item):
        source = random.Random(f"{person} {item}")
        other_options = [option for option in options if option != truth(item)]
        log[person, item] = (
            truth(item) if source.random() < reliability(person) else source.choice(other_options)
        )
        return log[person, item]

    return answer, log


def alpha(units, distance=lambda a, b: a != b):
    """Compute Krippendorff's alpha from its definition."""
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    observed = sum(
        sum(distance(a, b) for a in unit for b in unit) / (len(unit) - 1) for unit in units
    ) / len(values)
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
    """Compare a row of agreement with its definitions.

    `units` are values by person, one dictionary per item.
    """
    pairs = [pair for unit in units for pair in combinations(unit.values(), 2)]
    assert row.items == sum(len(unit) > 1 for unit in units)
    assert row.percent == pytest.approx(100 * sum(a == b for a, b in pairs) / len(pairs))
    assert row.krippendorff == pytest.approx(alpha([[*unit.values()] for unit in units], distance))
    people = sorted({person for unit in units for person in unit})
    shared = [
        [(unit[first], unit[second]) for unit in units if first in unit and second in unit]
        for first, second in combinations(people, 2)
    ]
    kappas = [
        (kappa(each), len(each)) for each in shared if len(each) >= 10 and kappa(each) is not None
    ]
    mean = (
        sum(value * number for value, number in kappas) / sum(number for _, number in kappas)
        if kappas
        else None
    )
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


def number_in(page):
    return int(re.search(r"item (\d+)\b", page)[1])


def careless(*people):
    """Return the reliability of people: 0.6 if they are careless, else 0.95."""
    return lambda person: 0.6 if person in people else 0.95


@pytest.mark.nightly
def test_egoplan_procedure(tmp_path):
    letters = "ABCD"
    truth = {number: letters[number % 4] for number in range(26)}
    items = [
        Item(
            str(number),
            {"goal": (
                f"item {number}"
            ), "choices": dict(zip(letters, "wxyz", strict=True)), "video": "", "frames": [],
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
                sent = {
                    "csrf": csrf,
                    "person": person,
                    "verdict": "fail" if person in failed else "pass",
                }
                assert client.post("/qualify", data=sent).status_code == 200
    label_alone(store, values_of)
    units = [
        {
            person: choice
            for (person, other), choice in log.items()
            if other == item and person not in failed
        }
        for item in truth
        if item not in qualifying
    ]
    assert {len(unit) for unit in units} == {2}
    check_agreement(agreements(store.flow, store.labelled())[0], units)
    kept_ids = [
        item
        for item, unit in zip(
            (item for item in truth if item not in qualifying), units, strict=True
        )
        if {*unit.values()} == {truth[item]}
    ]
    assert 0 < len(kept_ids) < 18
    export(store.flow, store.labelled(), tmp_path / "out")
    verified = json.loads(read_text(tmp_path / "out" / "EgoPlan_validation.json"))[
        "EgoPlan_validation"
    ]
    assert sorted(record["sample_id"] for record in verified) == kept_ids
    assert len(read_text(tmp_path / "out" / "rejected.csv").splitlines()) == 1 + 26 - len(kept_ids)
    store.close()


@pytest.mark.nightly
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
    lines = [
        json.dumps({"item": items[number].id, "values": {"rating": rating}})
        for number, rating in golden.items()
    ]
    (tmp_path / "gold.jsonl").write_text("\n".join(lines))
    store = opened(tmp_path, "egothink", items, gold={"labels": "gold.jsonl", "every": 6})
    answer, log = answering(careless("annotator-3"), levels, truth.get)
    label_alone(store, lambda person, page: {"rating": answer(person, number_in(page))})
    rated = [item for item in truth if item not in golden]
    units = [
        {
            person: float(log[person, item])
            for person in ("annotator-1", "annotator-2", "annotator-3")
        }
        for item in rated
    ]
    check_agreement(agreements(store.flow, store.labelled())[0], units, lambda a, b: (a - b) ** 2)
    export(store.flow, store.labelled(), tmp_path / "out")
    rows = [
        line.split(",")
        for line in read_text(tmp_path / "out" / "model-pooled.csv").splitlines()[1:]
    ]
    means = {item: sum(unit.values()) / 3 for item, unit in zip(rated, units, strict=True)}
    assert {int(row[0].partition("/")[2]): float(row[1]) for row in rows} == pytest.approx(means)
    code, status = run("annotate", "status", tmp_path / "labels.sqlite")
    assert code == 0, status
    for person in ("annotator-1", "annotator-2", "annotator-3"):
        right = sum(log[person, item] == rating for item, rating in golden.items())
        assert re.search(rf"{person}.* 36 .*\b{right} of 4\b", status)
    store.close()


@pytest.mark.nightly
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
    label_alone(
        store, lambda person, page: {"correct": answer(person, number_in(page)), "commonsense": "1"}
    )
    units = [
        {person: choice for (person, other), choice in log.items() if other == item}
        for item in truth
    ]
    assert {len(unit) for unit in units} == {3}
    check_agreement(agreements(store.flow, store.labelled())[0], units)
    export(store.flow, store.labelled(), tmp_path / "out")
    plans = [json.loads(line) for line in read_text(tmp_path / "out" / "plans.jsonl").splitlines()]
    expected = {
        f"plan {item}": unit.popitem()[1] == "1"
        for item, unit in enumerate(units)
        if len({*unit.values()}) == 1
    }
    assert {plan["id"]: plan["correct"] for plan in plans} == expected
    assert 0 < len(expected) < 40
    store.close()
