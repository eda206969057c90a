"""Test the statistics of published questions against hand counts, a slow reference, and real
narrations.
"""

import csv
import json
import random
from types import SimpleNamespace

import pytest

from lmms_egoplan.benchmarks.egoplan.statistics import (
    TABLE_2,
    statistics,
    texts_of,
    verb_and_object,
)
from lmms_egoplan.report.egoplan.statistics import statistics_files
from shared_data import DATA

EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
EXAMPLES = DATA / "egoplan" / "examples.json"


@pytest.mark.parametrize(
    ("phrase", "parts"),
    [
        ("put down plate", ("put", "plate")),
        ("turn on the tap", ("turn", "tap")),
        ("put yogurt on meat", ("put", "yogurt")),
        ("look for chopping board", ("look", "chopping board")),
        ("stir", ("stir", "")),
        ("", ("", "")),
    ],
)
def test_verb_and_object(phrase, parts):
    assert verb_and_object(phrase) == parts


@pytest.mark.skipif(not EXAMPLES.exists(), reason=f"needs {EXAMPLES}")
def test_the_published_example_has_the_counts_that_one_reads_in_it():
    (record,) = json.loads(EXAMPLES.read_text())["EgoPlan_validation"]
    question = SimpleNamespace(**record, choices=[record[f"choice_{letter}"] for letter in "abcd"])
    stats = statistics([texts_of(question)])
    assert stats.counts == (
        1,
        1,
        4,
        3,
        3,
        1,
    )  # put, take, open; cereal box, cereal bag, cupboard; kitchen P01
    assert stats.verbs[0] == ("put", 2, (("cereal bag", 1), ("cereal box", 1)))
    assert stats.words == (("cereal", 1), ("store", 1))


def test_counts_match_a_slow_reference():
    chance = random.Random(0)
    choices = [
        f"{verb} {thing}"
        for verb in ("take", "wash", "put down the")
        for thing in ("cup", "lid", "cup on rack", "big pan")
    ]
    questions = []
    for number in range(200):
        source, video = (
            ("Ego4D", f"v{number % 9}")
            if number % 4 == 0
            else ("EpicKitchens", f"P0{number % 7}_{number}")
        )
        goal = f"goal {chance.randrange(60)}"
        texts = chance.sample(choices, 4)
        questions.append(
            SimpleNamespace(task_goal=goal, choices=texts, video_id=video, video_source=source)
        )
    stats = statistics(map(texts_of, questions))
    offered = [choice for question in questions for choice in question.choices]
    verbs = [choice.split()[0] for choice in offered]
    things = [next(x for x in ("big pan", "cup", "lid") if x in choice) for choice in offered]
    scenes = {x.video_id if x.video_source == "Ego4D" else x.video_id[:3] for x in questions}
    goals = {question.task_goal for question in questions}
    assert stats.counts == (
        200,
        len(goals),
        len({*offered}),
        len({*verbs}),
        len({*things}),
        len(scenes),
    )
    for verb, total, objects in stats.verbs:
        of_verb = [thing for thing, other in zip(things, verbs, strict=True) if other == verb]
        assert total == len(of_verb)
        assert dict(objects) == {thing: of_verb.count(thing) for thing in of_verb}


@pytest.mark.skipif(not EPIC.exists(), reason=f"needs {EPIC}")
def test_the_rule_finds_most_of_the_annotated_verbs_and_objects():
    with EPIC.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    pairs = [
        (verb_and_object(row["narration"]), row["verb"].split("-")[0], row["noun"].split(":")[0])
        for row in rows
    ]
    assert sum(parts[0] == verb for parts, verb, _ in pairs) / len(pairs) > 0.95
    assert sum(noun in parts[1] for parts, _, noun in pairs) / len(pairs) > 0.9


def test_table_2_has_the_differences_from_the_papers_row():
    stats = statistics([("make tea", ["take cup", "take lid", "stir", "open box"], "P01")])
    table = list(
        csv.reader(statistics_files({"EgoPlan-Test, counted": stats})["table_2.csv"].splitlines())
    )
    assert table[1] == ["EgoPlan-Test, counted", "1", "1", "4", "3", "3", "1"]
    assert table[2][1:] == [f"{x - y:+}" for x, y in zip(stats.counts, TABLE_2[1][1:], strict=True)]
    assert [row[0] for row in table[3:]] == ["EgoPlan-Val", "EgoPlan-Test", "EgoPlan-Bench"]
