import pytest

from construction.actplan.problem_files import RELEASED, described
from lmms_egoplan.construction.actplan.bddl import parse_problem, read_problem
from lmms_egoplan.construction.actplan.soundness import flaws_in, problems_in

KITCHEN = """(define (problem kitchen_0) (:domain igibson)
    (:objects jar.n.01_1 jar.n.01_2 - jar.n.01 cherry.n.01_1 cherry.n.01_2 - cherry.n.01 \
shelf.n.01_1 - shelf.n.01
        table.n.02_1 - table.n.02 floor.n.01_1 floor.n.01_2 - floor.n.01 agent.n.01_1 - agent.n.01)
    (:init (ontop jar.n.01_1 table.n.02_1) (inside jar.n.01_2 shelf.n.01_1) \
(inside cherry.n.01_1 jar.n.01_1)
        (ontop cherry.n.01_2 table.n.02_1) (frozen cherry.n.01_1) (not (dusty jar.n.01_1))
        (inroom shelf.n.01_1 kitchen) (inroom floor.n.01_1 kitchen) (inroom floor.n.01_2 hall) {})
    (:goal {}))"""
DUSTY = "(dusty ?jar.n.01_1)"
CHERRIES = "(forall (?cherry.n.01 - cherry.n.01) {})"


def kitchen(facts="", goal=DUSTY):
    return parse_problem(KITCHEN.format(facts, goal), "p.bddl")


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        (
            "(frozen cherry.n.01_1)",
            "(perished cherry.n.01_1)",
            ["line 5", "(perished ?cherry.n.01_1)", "iGibson 2"],
        ),
        (
            "(frozen cherry.n.01_1)",
            "(going_bad cherry.n.01_1)",
            ["line 5", "(going_bad ?cherry.n.01_1)", "inside, "],
        ),
        (
            "(frozen cherry.n.01_1)",
            "(frozen cherry.n.01_1 x)",
            ["line 5", "(frozen ?cherry.n.01_1 ?x)", "1", "2"],
        ),
        (
            "(frozen cherry.n.01_1)",
            "(frozen cherry.n.01_3)",
            ["line 5", "(frozen ?cherry.n.01_3)", ":objects"],
        ),
        ("cherry.n.01_2 -", "cherry.n.01_2 cherry.n.01_2 -", ["cherry.n.01_2", "2 times"]),
        ("cherry.n.01_2 -", "cherry.n.01_2 plum.n.04_1 -", ["plum.n.04_1", "cherry.n.01_<number>"]),
        (
            "(not (dusty jar.n.01_1))",
            "(not (inside jar.n.01_1 shelf.n.01_1))",
            ["line 5", "jar.n.01_1 ?shelf.n.01_1)"],
        ),
        (DUSTY, "(exists (?lid.n.01 - lid.n.01) (dusty ?lid.n.01))", ["(?lid.n.01 - lid.n.01)"]),
        (" agent.n.01_1 - agent.n.01", "", ["agent"]),
        ("(:goal ", "(:goal (open ?jar.n.01_1) ", ["2", "(and ...)"]),
    ],
)
def test_flaws_of_a_problem_are_named(old, new, facts):
    text = KITCHEN.format("", DUSTY)
    assert old in text
    problem = parse_problem(text.replace(old, new, 1), "p.bddl")
    (flaw,) = problems_in(problem)
    assert all(fact in flaw for fact in facts)
    assert flaws_in(problem) == [flaw]


def test_burnt_is_a_valid_predicate():
    assert problems_in(kitchen("(burnt jar.n.01_1)")) == []


@pytest.mark.parametrize(
    ("facts", "names"),
    [
        ("(not (frozen cherry.n.01_1))", "(not (frozen ?cherry.n.01_1))"),
        ("(dusty jar.n.01_1)", "(not (dusty ?jar.n.01_1))"),
        ("(burnt cherry.n.01_2) (not (burnt cherry.n.01_2))", "(not (burnt ?cherry.n.01_2))"),
        ("(inside jar.n.01_1 jar.n.01_1)", "jar.n.01_1 would be"),
        ("(nextto jar.n.01_1 jar.n.01_1)", "jar.n.01_1 would be"),
        ("(under table.n.02_1 table.n.02_1)", "table.n.02_1 would be"),
        ("(inside jar.n.01_1 cherry.n.01_1)", "jar.n.01_1 would be"),
        ("(ontop table.n.02_1 cherry.n.01_1)", "table.n.02_1 would be"),
        ("(inside cherry.n.01_2 shelf.n.01_1)", "cherry.n.01_2 cannot be"),
        ("(onfloor cherry.n.01_2 floor.n.01_1)", "cherry.n.01_2 cannot be"),
        ("(under cherry.n.01_2 table.n.02_1)", "cherry.n.01_2 cannot be"),
        ("(inroom shelf.n.01_1 hall)", "shelf.n.01_1 cannot be"),
    ],
)
def test_initial_facts_that_contradict_are_named(facts, names):
    problem = kitchen(facts, "(open ?jar.n.01_1)")
    assert problems_in(problem) == []
    flaws = flaws_in(problem)
    assert flaws
    assert all(flaw.startswith("initial facts: ") for flaw in flaws)
    assert names in " ".join(flaws)


@pytest.mark.parametrize(
    ("goal", "names"),
    [
        (
            f"(and {CHERRIES.format('(frozen ?cherry.n.01)')} (not (frozen ?cherry.n.01_2)))",
            "(not (frozen",
        ),
        (f"(and (open ?jar.n.01_1) (not (open ?jar.n.01_1)) {DUSTY})", "(not (open ?jar.n.01_1))"),
        ("(inside ?jar.n.01_1 ?jar.n.01_1)", "jar.n.01_1 would be"),
        ("(forall (?jar.n.01 - jar.n.01) (nextto ?jar.n.01 ?jar.n.01))", "jar.n.01_1 would be"),
        (
            "(and (inside ?jar.n.01_1 ?jar.n.01_2) (ontop ?jar.n.01_2 ?jar.n.01_1))",
            "jar.n.01_1 would be",
        ),
        (
            "(and (inside ?jar.n.01_1 ?shelf.n.01_1) (onfloor ?jar.n.01_1 ?floor.n.01_2))",
            "cannot be in both",
        ),
        ("(ontop ?jar.n.01_1 ?table.n.02_1)", "holds at the start"),
        ("(not (dusty ?jar.n.01_1))", "holds at the start"),
        ("(exists (?cherry.n.01 - cherry.n.01) (frozen ?cherry.n.01))", "holds at the start"),
    ],
)
def test_goals_that_contradict_or_hold_at_the_start_are_named(goal, names):
    assert problems_in(kitchen(goal=goal)) == []
    (flaw, *_) = flaws_in(kitchen(goal=goal))
    assert flaw.startswith("goal: ")
    assert names in flaw


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        # An object in a jar on the table is on the table too.
        ("(ontop cherry.n.01_1 table.n.02_1)", "(open ?jar.n.01_1)"),
        (
            "(nextto jar.n.01_1 cherry.n.01_2) (nextto cherry.n.01_2 jar.n.01_1)",
            "(open ?jar.n.01_1)",
        ),
        ("(under jar.n.01_2 table.n.02_1)", "(open ?jar.n.01_1)"),
        ("", "(and (inside ?jar.n.01_1 ?shelf.n.01_1) (inside ?cherry.n.01_1 ?jar.n.01_1))"),
        ("", "(or (frozen ?cherry.n.01_2) (not (frozen ?cherry.n.01_1)))"),
    ],
)
def test_valid_problems_have_no_contradiction(facts, goal):
    assert flaws_in(kitchen(facts, goal)) == []


@pytest.mark.nightly
@pytest.mark.skipif(not RELEASED.is_dir(), reason="no published BDDL problems in ../shared/data")
def test_only_damaged_released_problems_have_flaws():
    problems = {
        f"{path.parent.name} {path.stem[-1]}": read_problem(path) for _, path in described()
    }
    damaged = {name: flaws for name, problem in problems.items() if (flaws := problems_in(problem))}
    assert {name: len(flaws) for name, flaws in damaged.items()} == {
        "cleaning_microwave_oven 1": 3,
        "collect_misplaced_items 0": 1,
        "packing_lunches 1": 1,
        "re-shelving_library_books 0": 11,
    }
    (flaw,) = damaged["collect_misplaced_items 0"]
    assert all(
        fact in flaw
        for fact in ("line 36", "(ontop ?walker.n.04_1 ?table.n.02_2)", "walker.n.04_1 is")
    )
    assert {name for name, problem in problems.items() if flaws_in(problem)} == damaged.keys()
