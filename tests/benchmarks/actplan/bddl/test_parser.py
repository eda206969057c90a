import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.bddl.problem_files import RELEASED, described, problems
from lmms_egoplan.benchmarks.actplan.bddl.check import problems_in
from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem, read_problem
from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Compound, Variable
from lmms_egoplan.errors import LmmsEgoplanError

TEXT = """; a comment with (parentheses
(define (problem Tea_0)
    (:domain igibson)
    (:objects cup.n.01_1 cup.n.01_2 - cup.n.01
        box.n.01_1 - box.n.01 agent.n.01_1 - agent.n.01)
    (:init (DUSTY cup.n.01_1) (not (open box.n.01_1)) (inroom box.n.01_1 kitchen))
    (:goal (and
        (forn (2) (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?box.n.01_1))
        (not (open ?box.n.01_1))
        (fornpairs (1) (?cup.n.01 - cup.n.01) (?box.n.01 - box.n.01) (inside ?cup.n.01 ?box.n.01)))))
"""


def test_reads_the_grammar():
    problem = parse_problem(TEXT, "p.bddl")
    assert (problem.name, problem.domain) == ("tea_0", "igibson")
    assert problem.of_type("cup.n.01") == ["cup.n.01_1", "cup.n.01_2"]
    assert problem.init[:2] == (Atom("dusty", ("cup.n.01_1",)), Compound("not", (Atom("open", ("box.n.01_1",)),)))
    cup, box = Variable("cup.n.01", "cup.n.01"), Variable("box.n.01", "box.n.01")
    assert problem.goal == (
        Compound(
            "and",
            (
                Compound("forn", (Atom("inside", ("cup.n.01", "box.n.01_1")),), (cup,), 2),
                Compound("not", (Atom("open", ("box.n.01_1",)),)),
                Compound("fornpairs", (Atom("inside", ("cup.n.01", "box.n.01")),), (cup, box), 1),
            ),
        ),
    )
    assert [fact.line for fact in problem.init if isinstance(fact, Atom)] == [6, 6]
    assert len(problem.conditions) == 3
    assert problems_in(problem) == []


@given(problems())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_back(problem):
    assert parse_problem(str(problem), "p.bddl") == problem


@given(st.text(alphabet="()?-:;andforll \nx1.", max_size=60) | st.text(max_size=40))
@settings(deadline=None, max_examples=100)
def test_any_other_text_is_one_error_with_a_line(text):
    with pytest.raises(LmmsEgoplanError, match=r"\Ap\.bddl:\d+: expected "):
        parse_problem(text, "p.bddl")


@given(st.integers(0, len(TEXT) - 3))
@settings(deadline=None, max_examples=60)
def test_a_text_cut_off_is_an_error(end):
    with pytest.raises(LmmsEgoplanError, match=r"\Ap\.bddl:\d+: expected "):
        parse_problem(TEXT[:end], "p.bddl")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("(:init", "(:start", "6: expected one of (:domain ...), (:objects ...), (:init ...), (:goal ...), found"),
        (
            "(:domain igibson)",
            "(:domain igibson) (:domain x)",
            "3: expected one of (:domain ...), (:objects ...), (:init",
        ),
        ("(:domain igibson)", "", "2: expected a section (:domain ...), found"),
        ("- agent.n.01)", ")", "5: expected '-' and a type after the objects' names, found 'agent.n.01_1'"),
        ("(forn (2)", "(forn (two)", "8: expected (NUMBER), found '(two)'"),
        ("(forn (2)", "(forn", "8: expected (forn (NUMBER) (?NAME - TYPE) CONDITION), found"),
        (
            "(?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?box.n.01_1)",
            "(cup) (open ?cup)",
            "8: expected (?NAME - TYPE), found",
        ),
        ("(not (open ?box.n.01_1))", "(not)", "9: expected (not CONDITION), found '(not)'"),
        ("(not (open ?box.n.01_1))", "(and)", "9: expected (and CONDITION ...), found '(and)'"),
        ("(not (open ?box.n.01_1))", "open", "9: expected (PREDICATE NAME ...) or (and CONDITION ...), "),
        ("(DUSTY cup.n.01_1)", "(or (dusty cup.n.01_1))", "6: expected a fact, or (not FACT), found"),
        ("(define", "(define (define", "2: expected a ')' for the '(' of this line, found the end"),
        ("; a comment with (parentheses", ")", "1: expected no ')' here: none is open"),
        (
            "(not (open ?box.n.01_1))",
            "(not " * 60 + "x" + ")" * 60,
            "9: expected at most 50 parentheses in one another",
        ),
    ],
)
def test_errors_name_the_line_and_what_was_expected(old, new, told):
    assert old in TEXT
    with pytest.raises(LmmsEgoplanError, match=re.escape(f"p.bddl:{told}")):
        parse_problem(TEXT.replace(old, new, 1), "p.bddl")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"none\.bddl: cannot be read: No such file"):
        read_problem(tmp_path / "none.bddl")
    (tmp_path / "latin.bddl").write_bytes(b"(define \xe9)")
    with pytest.raises(LmmsEgoplanError, match=r"latin\.bddl: .*UTF-8.* position 8"):
        read_problem(tmp_path / "latin.bddl")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("(DUSTY cup", "(perished cup", "line 6: (perished ?cup.n.01_1): iGibson 2 has no state perished, though"),
        (
            "(DUSTY cup",
            "(going_bad cup",
            "line 6: (going_bad ?cup.n.01_1): no predicate going_bad; expected one of inside,",
        ),
        ("(DUSTY cup.n.01_1)", "(dusty cup.n.01_1 x)", "line 6: (dusty ?cup.n.01_1 ?x): expected 1 arguments, found 2"),
        (
            "(DUSTY cup.n.01_1)",
            "(dusty cup.n.01_3)",
            "line 6: (dusty ?cup.n.01_3): cup.n.01_3 is not declared under :objects",
        ),
        ("cup.n.01_2 -", "cup.n.01_1 -", "object cup.n.01_1 is declared 2 times"),
        (
            "cup.n.01_2 -",
            "mug.n.04_1 -",
            "object mug.n.04_1 is declared of type cup.n.01; expected a name cup.n.01_<number>",
        ),
        (
            "(not (open box.n.01_1))",
            "(not (inside cup.n.01_1 box.n.01_1))",
            "an initial fact cannot say where an object is",
        ),
        (
            "(?box.n.01 - box.n.01)",
            "(?box.n.01 - jar.n.01)",
            "(?box.n.01 - jar.n.01): no object is declared of type jar.n.01",
        ),
        (" agent.n.01_1 - agent.n.01", "", "no agent is declared under :objects"),
        (
            "(:goal (and",
            "(:goal (open ?box.n.01_1) (and",
            "the goal has 2 conditions side by side; expected one, as (and ...)",
        ),
    ],
)
def test_what_is_wrong_with_a_problem(old, new, told):
    assert old in TEXT
    (problem,) = problems_in(parse_problem(TEXT.replace(old, new, 1), "p.bddl"))
    assert told in problem


def test_burnt_can_be_said():
    assert problems_in(parse_problem(TEXT.replace("DUSTY", "burnt"), "p.bddl")) == []


@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_all_released_problems_are_read():
    read = {problem: read_problem(problem) for _, problem in described()}
    assert len(read) == 153
    assert all(parse_problem(str(problem), "written") == problem for problem in read.values())
    wrong = {
        f"{path.parent.name} {path.stem[-1]}": told for path, problem in read.items() if (told := problems_in(problem))
    }
    assert {name: len(told) for name, told in wrong.items()} == {
        "cleaning_microwave_oven 1": 3,
        "collect_misplaced_items 0": 1,
        "packing_lunches 1": 1,
        "re-shelving_library_books 0": 11,
    }
    assert wrong["collect_misplaced_items 0"] == [
        "line 36: (ontop ?walker.n.04_1 ?table.n.02_2): walker.n.04_1 is not declared under :objects"
    ]
