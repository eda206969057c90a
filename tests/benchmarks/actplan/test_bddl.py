import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.problem_files import RELEASED, described, problems
from lmms_egoplan.benchmarks.actplan.bddl import Formula, Variable, parse_problem, read_problem
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
    is_open = Formula("open", arguments=("box.n.01_1",))
    assert problem.init[:2] == (Formula("dusty", arguments=("cup.n.01_1",)), Formula("not", (is_open,)))
    cup, box = Variable("cup.n.01", "cup.n.01"), Variable("box.n.01", "box.n.01")
    in_one_box = Formula("inside", arguments=("cup.n.01", "box.n.01_1"))
    in_a_box = Formula("inside", arguments=("cup.n.01", "box.n.01"))
    parts = (
        Formula("forn", (in_one_box,), (cup,), 2),
        Formula("not", (is_open,)),
        Formula("fornpairs", (in_a_box,), (cup, box), 1),
    )
    assert problem.goal == (Formula("and", parts),)
    assert [fact.line for fact in problem.init if fact.is_atom] == [6, 6]
    assert len(problem.conditions) == 3


@given(problems())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_back(problem):
    assert parse_problem(str(problem), "p.bddl") == problem


CUT_OFF = st.integers(0, len(TEXT) - 3).map(lambda end: TEXT[:end])


@given(st.text(alphabet="()?-:;andforll \nx1.", max_size=60) | st.text(max_size=40) | CUT_OFF)
@settings(deadline=None, max_examples=160)
def test_any_other_text_is_one_error_with_a_line(text):
    with pytest.raises(LmmsEgoplanError, match=r"\Ap\.bddl:\d+: expected "):
        parse_problem(text, "p.bddl")


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
def test_errors_name_the_line_and_what_was_expected(old, new, line, facts):
    assert old in TEXT
    with pytest.raises(LmmsEgoplanError, match=rf"\Ap\.bddl:{line}: .*{facts}"):
        parse_problem(TEXT.replace(old, new, 1), "p.bddl")


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.bddl").write_bytes(b"(define \xe9)")
    for name, facts in (("none.bddl", "No such file"), ("latin.bddl", "UTF-8.* position 8")):
        with pytest.raises(LmmsEgoplanError, match=f"{name}: .*{facts}"):
            read_problem(tmp_path / name)


@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_all_released_problems_are_read():
    problems = [read_problem(path) for _, path in described()]
    assert len(problems) == 153
    assert all(parse_problem(str(problem), "written") == problem for problem in problems)
