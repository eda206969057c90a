import random

import pytest

from construction.actplan.problem_files import RELEASED, described
from lmms_egoplan.construction.actplan.bddl import parse_problem, read_problem
from lmms_egoplan.construction.actplan.description import unnamed

PROBLEM = parse_problem(
    """(define (problem tea_0) (:domain igibson)
    (:objects cup.n.01_1 cup.n.01_2 - cup.n.01 gym_shoe.n.01_1 - gym_shoe.n.01 \
highchair.n.01_1 - highchair.n.01
        electric_refrigerator.n.01_1 - electric_refrigerator.n.01 window.n.01_1 - window.n.01 \
agent.n.01_1 - agent.n.01)
    (:init (dusty cup.n.01_1) (ontop cup.n.01_1 highchair.n.01_1) (inroom window.n.01_1 kitchen)
        (stained gym_shoe.n.01_1))
    (:goal (and
        (forall (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?electric_refrigerator.n.01_1))
        (not (stained ?gym_shoe.n.01_1)))))""",
    "p.bddl",
)
TEXT = (
    "There are dusty cups on the high chair. Put all cups into the refrigerator, and clean "
    "the sneakers."
)


def test_a_complete_text_has_no_missing_parts():
    result = unnamed(PROBLEM, TEXT)
    assert not result


@pytest.mark.parametrize(
    ("old", "new", "objects", "conditions"),
    [
        ("high chair", "table", ("highchair.n.01",), ()),
        ("sneakers", "things", ("gym_shoe.n.01",), ("(not (stained ?gym_shoe.n.01_1)): gym_shoe",)),
        ("clean the", "look at the", (), ("(not (stained ?gym_shoe.n.01_1)): not stained",)),
        (
            "Put all cups into",
            "Close",
            (),
            ("(inside ?cup.n.01 ?electric_refrigerator.n.01_1): cup, inside",),
        ),
        ("all cups", "all", (), ("(inside ?cup.n.01 ?electric_refrigerator.n.01_1): cup",)),
        ("cup", "mug", ("cup.n.01",), ("(inside ?cup.n.01 ?electric_refrigerator.n.01_1): cup",)),
    ],
)
def test_missing_parts_are_named(old, new, objects, conditions):
    result = unnamed(PROBLEM, TEXT.replace(old, new))
    assert (result.objects, result.conditions) == (objects, conditions)
    assert result


@pytest.mark.parametrize(
    ("sentence", "is_stated"),
    [
        ("Put both cups into the refrigerator", True),
        ("Put all of the two cups into the refrigerator", True),
        ("Each cup must be inside the refrigerator", True),
        ("The refrigerator should contain the spoons, forks, knives, plates and cups", True),
        ("Cup 1 and cup 2 belong in the refrigerator", True),
        ("There are three cups, which belong in the refrigerator", False),
        ("Put one cup into the refrigerator", False),
        ("Put a cup into the refrigerator", False),
        ("Put the cup into the refrigerator", False),
        ("Put the cups into two refrigerators", False),
        ("Put the cups next to the refrigerator", False),
        ("The cups must not be inside the refrigerator", False),
        ("Take the cups. Then open the refrigerator. Put them in", False),
        ("cup cups all inside refrigerator", False),
        ("the cups the the inside refrigerator all", False),
        ("cups, refrigerator: inside", False),
        ("Put the cups into the refrigerator " + "and look again " * 30, False),
    ],
)
def test_one_sentence_states_objects_relation_and_number(sentence, is_stated):
    text = f"There is a high chair. Clean the sneakers. {sentence}."
    expected = "(inside ?cup.n.01 ?electric_refrigerator.n.01_1)"
    lacking = [
        condition
        for condition in unnamed(PROBLEM, text).conditions
        if condition.startswith(expected)
    ]
    assert (not lacking) is is_stated


@pytest.mark.parametrize(
    ("sentence", "is_stated"),
    [
        ("The sneakers must not be stained", True),
        ("Remove the stains from the sneakers", True),
        ("The sneakers should be free of stains", True),
        ("Wash the gym shoes", True),
        ("The sneakers are stained", False),
        # Words in an object's name are not a predicate.
        ("There is a scrub brush next to the sneakers", False),
    ],
)
def test_a_negated_condition_needs_a_word_for_the_contrary(sentence, is_stated):
    problem = parse_problem(
        """(define (problem tea_0) (:domain igibson)
        (:objects gym_shoe.n.01_1 - gym_shoe.n.01 scrub_brush.n.01_1 - scrub_brush.n.01)
        (:init (stained gym_shoe.n.01_1)) (:goal (not (stained ?gym_shoe.n.01_1))))""",
        "p.bddl",
    )
    assert (unnamed(problem, f"{sentence}.").conditions == ()) is is_stated


@pytest.mark.nightly
@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_number_of_complete_released_descriptions():
    texts = [
        (read_problem(problem), text.read_text().partition("Generate")[0])
        for text, problem in described()
    ]
    results = [unnamed(problem, text) for problem, text in texts]
    assert len(results) == 153
    assert sum(not result for result in results) == 91
    assert sum(not result.objects for result in results) == 133
    assert sum(not result.conditions for result in results) == 96
    chance = random.Random(0)
    for (problem, text), result in zip(texts, results, strict=True):
        words = text.split()
        bags = [
            sorted(words),
            sorted({*words}),
            sorted(words, key=len),
            chance.sample(words, len(words)),
        ]
        bags.append([word.strip(".,") for word in bags[-1]])
        assert result or all(unnamed(problem, " ".join(bag)) for bag in bags)
