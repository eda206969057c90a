import pytest

from benchmarks.actplan.bddl.problem_files import RELEASED, described
from lmms_egoplan.benchmarks.actplan.bddl.description import names_of_type, singulars, unnamed
from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem, read_problem

PROBLEM = parse_problem(
    """(define (problem tea_0) (:domain igibson)
    (:objects cup.n.01_1 cup.n.01_2 - cup.n.01 gym_shoe.n.01_1 - gym_shoe.n.01 highchair.n.01_1 - highchair.n.01
        electric_refrigerator.n.01_1 - electric_refrigerator.n.01 window.n.01_1 - window.n.01 agent.n.01_1 - agent.n.01)
    (:init (dusty cup.n.01_1) (ontop cup.n.01_1 highchair.n.01_1) (inroom window.n.01_1 kitchen)
        (stained gym_shoe.n.01_1))
    (:goal (and
        (forall (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?electric_refrigerator.n.01_1))
        (not (stained ?gym_shoe.n.01_1)))))""",
    "p.bddl",
)
TEXT = "There are dusty cups on the high chair. Put all cups into the refrigerator, and clean the sneakers."


def test_a_text_that_names_all():
    result = unnamed(PROBLEM, TEXT)
    assert not result
    assert result.scenery == ("window.n.01",)


@pytest.mark.parametrize(
    ("old", "new", "objects", "conditions"),
    [
        ("high chair", "table", ("highchair.n.01",), ()),
        ("sneakers", "things", ("gym_shoe.n.01",), ("(not (stained ?gym_shoe.n.01_1)): gym_shoe",)),
        ("clean the", "look at the", (), ("(not (stained ?gym_shoe.n.01_1)): not stained",)),
        ("Put all cups into", "Close", (), ("(inside ?cup.n.01 ?electric_refrigerator.n.01_1): inside",)),
        ("cup", "mug", ("cup.n.01",), ("(inside ?cup.n.01 ?electric_refrigerator.n.01_1): cup",)),
    ],
)
def test_what_is_left_out_is_named(old, new, objects, conditions):
    result = unnamed(PROBLEM, TEXT.replace(old, new))
    assert (result.objects, result.conditions) == (objects, conditions)
    assert result


@pytest.mark.parametrize(
    ("plural", "singular"),
    [("cups", "cup"), ("boxes", "box"), ("candies", "candy"), ("shelves", "shelf"), ("knives", "knife")],
)
def test_plurals(plural, singular):
    assert singular in singulars(plural)
    assert singulars(singular) == set()


def test_names_of_types():
    assert names_of_type("piece_of_cloth.n.01") == [("piece", "of", "cloth"), ("cloth",)]


@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_how_many_released_descriptions_name_all():
    results = [unnamed(read_problem(problem), text.read_text()) for text, problem in described()]
    assert len(results) == 153
    assert sum(not result for result in results) == 130
    assert sum(not result.objects for result in results) == 133
    assert sum(not result.conditions for result in results) == 137
