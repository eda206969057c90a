import pytest

from construction.actplan.problem_files import RELEASED, described
from lmms_egoplan.construction.actplan.activities import without_instruction
from lmms_egoplan.construction.actplan.bddl import parse_problem, read_problem
from lmms_egoplan.construction.actplan.description import unnamed_objects

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


@pytest.mark.parametrize(
    ("old", "new", "unnamed"),
    [
        ("", "", []),
        ("sneakers", "gym shoe", []),
        ("high chair", "highchairs", []),
        ("high chair", "table", ["highchair.n.01"]),
        ("sneakers", "things", ["gym_shoe.n.01"]),
        ("cup", "mug", ["cup.n.01"]),
        # A name does not extend over the end of a sentence.
        ("high chair", "place. It is high. Chair", ["highchair.n.01"]),
        (TEXT, "", ["cup.n.01", "gym_shoe.n.01", "highchair.n.01", "electric_refrigerator.n.01"]),
    ],
)
def test_unnamed_objects_are_listed(old, new, unnamed):
    assert unnamed_objects(PROBLEM, TEXT.replace(old, new) if old else TEXT) == unnamed


@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_number_of_released_descriptions_that_name_all_objects():
    unnamed = [
        unnamed_objects(read_problem(problem), without_instruction(text.read_text()))
        for text, problem in described()
    ]
    assert len(unnamed) == 153
    assert unnamed.count([]) == 133
