from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from construction.actplan.problem_files import RELEASED, described, problems
from construction.actplan.slow_goals import naive
from lmms_egoplan.annotation.actplan_circumstances import PREDICATES
from lmms_egoplan.construction.actplan import bddl
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
        (fornpairs (1) (?cup.n.01 - cup.n.01) (?box.n.01 - box.n.01) \
(inside ?cup.n.01 ?box.n.01)))))
"""


def test_the_whole_grammar_is_parsed():
    problem = bddl.parse_problem(TEXT, "p.bddl")
    assert (problem.name, problem.domain) == ("tea_0", "igibson")
    assert problem.of_type("cup.n.01") == ["cup.n.01_1", "cup.n.01_2"]
    is_open = bddl.Formula("open", arguments=("box.n.01_1",))
    assert problem.init[:2] == (
        bddl.Formula("dusty", arguments=("cup.n.01_1",)),
        bddl.Formula("not", (is_open,)),
    )
    cup, box = bddl.Variable("cup.n.01", "cup.n.01"), bddl.Variable("box.n.01", "box.n.01")
    in_one_box = bddl.Formula("inside", arguments=("cup.n.01", "box.n.01_1"))
    in_a_box = bddl.Formula("inside", arguments=("cup.n.01", "box.n.01"))
    parts = (
        bddl.Formula("forn", (in_one_box,), (cup,), 2),
        bddl.Formula("not", (is_open,)),
        bddl.Formula("fornpairs", (in_a_box,), (cup, box), 1),
    )
    assert problem.goal == (bddl.Formula("and", parts),)
    assert [fact.line for fact in problem.init if fact.is_atom] == [6, 6]
    assert len(problem.conditions) == 3


@given(problems())
@settings(max_examples=40)
def test_a_written_problem_parses_to_the_same_problem(problem):
    assert bddl.parse_problem(str(problem), "p.bddl") == problem


def test_a_text_that_is_cut_off_raises_one_error_with_a_line():
    for end in range(len(TEXT) - 2):
        with pytest.raises(LmmsEgoplanError, match=r"\Ap\.bddl:\d+: expected "):
            bddl.parse_problem(TEXT[:end], "p.bddl")


@given(st.text(alphabet="()?-:;andforll \nx1.", max_size=60) | st.text(max_size=40))
@settings(max_examples=60)
def test_any_other_text_raises_one_error_with_a_line(text):
    with pytest.raises(LmmsEgoplanError, match=r"\Ap\.bddl:\d+: expected "):
        bddl.parse_problem(text, "p.bddl")


@pytest.mark.parametrize(
    ("old", "new", "line", "facts"),
    [
        ("(:init", "(:start", 6, r"\(:domain .*\(:objects .*\(:init .*\(:goal .*:start"),
        ("(:domain igibson)", "(:domain igibson) (:domain x)", 3, r"\(:domain .*once.*:domain x"),
        ("(:domain igibson)", "", 2, r"\(:domain"),
        ("- agent.n.01)", ")", 5, "type.*'agent.n.01_1'"),
        ("(forn (2)", "(forn (two)", 8, r"\(NUMBER\).*'\(two\)'"),
        ("(forn (2)", "(forn", 8, r"\(forn \(NUMBER\) \(\?NAME - TYPE\) CONDITION\)"),
        (
            "(?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?box.n.01_1)",
            "(cup) (open ?cup)",
            8,
            r"\(\?NAME - TYPE\).*\(cup\)",
        ),
        ("(not (open ?box.n.01_1))", "(not)", 9, r"\(not CONDITION\).*'\(not\)'"),
        ("(not (open ?box.n.01_1))", "(and)", 9, r"\(and CONDITION \.\.\.\).*'\(and\)'"),
        ("(not (open ?box.n.01_1))", "open", 9, r"\(PREDICATE NAME .*\(and CONDITION .*'open'"),
        ("(DUSTY cup.n.01_1)", "(or (dusty cup.n.01_1))", 6, r"\(not FACT\).*\(or "),
        ("(define", "(define (define", 2, r"'\)'.*end"),
        ("; a comment with (parentheses", ")", 1, r"'\)'"),
        ("(not (open ?box.n.01_1))", "(not " * 60 + "x" + ")" * 60, 9, "50"),
    ],
)
def test_errors_name_the_line_and_the_expected_form(old, new, line, facts):
    assert old in TEXT
    with pytest.raises(LmmsEgoplanError, match=rf"\Ap\.bddl:{line}: .*{facts}"):
        bddl.parse_problem(TEXT.replace(old, new, 1), "p.bddl")


def test_unreadable_files_raise_an_error(tmp_path):
    (tmp_path / "latin.bddl").write_bytes(b"(define \xe9)")
    for name, facts in (("none.bddl", "No such file"), ("latin.bddl", "UTF-8.* position 8")):
        with pytest.raises(LmmsEgoplanError, match=f"{name}: .*{facts}"):
            bddl.read_problem(tmp_path / name)


@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_all_released_problems_are_parsed():
    problems = [bddl.read_problem(path) for _, path in described()]
    assert len(problems) == 153
    assert all(bddl.parse_problem(str(problem), "written") == problem for problem in problems)


def plain(facts):
    """Return a function for which exactly these facts hold."""
    return lambda predicate, arguments: (predicate, *arguments) in facts


@st.composite
def situations(draw):
    """Draw a problem and half of the facts about its objects, so some conditions hold and others do
    not.
    """
    problem = draw(problems())
    names = [thing.name for thing in problem.objects]
    possible = [
        (name, *arguments)
        for name, predicate in sorted(bddl.PREDICATES.items())
        if "room" not in predicate.arguments
        for arguments in product(names, repeat=len(predicate.arguments))
    ]
    chance = draw(st.randoms(use_true_random=False))
    return problem, {fact for fact in possible if chance.random() < 0.5}


@given(situations())
@settings(max_examples=40)
def test_goals_equal_the_slow_check(situation):
    problem, facts = situation
    (goal,) = problem.goal
    result = bddl.holds(problem, goal, plain(facts))
    assert result == naive(problem, goal, facts)
    conditions = bddl.grounded(problem)
    assert result == all(
        bddl.holds(problem, goal_condition, plain(facts)) for goal_condition in conditions
    )


def goal(
    text, objects="cup.n.01_1 cup.n.01_2 - cup.n.01 box.n.01_1 box.n.01_2 box.n.01_3 - box.n.01"
):
    return bddl.parse_problem(
        f"(define (problem x_0) (:domain igibson) (:objects {objects}) (:init) (:goal {text}))",
        "p.bddl",
    )


PAIRS = "(forpairs (?cup.n.01 - cup.n.01) (?box.n.01 - box.n.01) (inside ?cup.n.01 ?box.n.01))"


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(1, 1), (2, 2)], True),
        ([(1, 1), (2, 1)], False),  # two cups in one box
        ([(1, 1), (1, 2)], False),
        ([(1, 3), (2, 1)], True),
        ([], False),
    ],
)
def test_pairs_need_partners_on_both_sides(pairs, expected):
    facts = plain({("inside", f"cup.n.01_{cup}", f"box.n.01_{box}") for cup, box in pairs})
    problem = goal(PAIRS)
    assert bddl.holds(problem, problem.goal[0], facts) is expected


def test_grounding_replaces_the_variables_of_quantifiers():
    conditions = bddl.grounded(
        goal("(forall (?cup.n.01 - cup.n.01) (or (open ?cup.n.01) (dusty ?cup.n.01)))")
    )
    assert list(map(str, conditions)) == [
        f"(or (open ?cup.n.01_{number}) (dusty ?cup.n.01_{number}))" for number in (1, 2)
    ]


def test_duplicate_conditions_count_once():
    assert (
        len(
            bddl.grounded(
                goal("(and (open ?box.n.01_1) (open ?box.n.01_1) (not (open ?box.n.01_1)))")
            )
        )
        == 2
    )


def test_the_annotation_page_names_the_same_predicates():
    assert bddl.predicates_text() == PREDICATES
