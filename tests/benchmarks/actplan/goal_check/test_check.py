import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.labelled_plans import PLANS
from benchmarks.actplan.problem_files import RELEASED
from lmms_egoplan.benchmarks.actplan.bddl import parse_problem, read_problem
from lmms_egoplan.benchmarks.actplan.goal_check import REACHABLE, check_goal
from lmms_egoplan.benchmarks.actplan.reply import one_per_line, parsed_steps

KITCHEN = """(define (problem kitchen_0) (:domain igibson)
    (:objects plate.n.04_1 plate.n.04_2 plate.n.04_3 - plate.n.04 rag.n.01_1 - rag.n.01
        basket.n.01_1 basket.n.01_2 - basket.n.01
        sink.n.01_1 - sink.n.01 cabinet.n.01_1 - cabinet.n.01 table.n.02_1 - table.n.02 lamp.n.02_1 - lamp.n.02
        floor.n.01_1 floor.n.01_2 - floor.n.01 agent.n.01_1 - agent.n.01)
    (:init (ontop plate.n.04_1 table.n.02_1) (stained plate.n.04_1) (ontop plate.n.04_2 table.n.02_1)
        (inside plate.n.04_3 cabinet.n.01_1) (onfloor rag.n.01_1 floor.n.01_1) (dusty rag.n.01_1)
        (onfloor basket.n.01_1 floor.n.01_2) (onfloor basket.n.01_2 floor.n.01_2) (ontop lamp.n.02_1 table.n.02_1)
        (inroom sink.n.01_1 kitchen) (inroom cabinet.n.01_1 kitchen) (inroom table.n.02_1 living_room)
        (inroom floor.n.01_1 kitchen) (inroom floor.n.01_2 living_room))
    (:goal {}))"""


def check(goal, plan):
    return check_goal(parse_problem(KITCHEN.format(goal), "p.bddl"), plan.split("; "))


INSIDE = "(inside ?plate.n.04_1 ?cabinet.n.01_1)"
ALL_INSIDE = "(forall (?plate.n.04 - plate.n.04) (inside ?plate.n.04 ?cabinet.n.01_1))"
PAIRS = "(forpairs (?plate.n.04 - plate.n.04) (?basket.n.01 - basket.n.01) (inside ?plate.n.04 ?basket.n.01))"


@pytest.mark.parametrize(
    ("goal", "plan"),
    [
        (INSIDE, "walk_to(table); grab(plate_1); walk_to(cabinet); place_inside(cabinet, plate_1)"),
        (INSIDE, "walk_to(table); grab(plate_1); walk_to(cabinet); place_inside(plate_1, cabinet)"),
        (INSIDE, "walk_to(table); grab(stained_plate); walk_to(cabinet); place_inside(cabinet)"),
        (INSIDE, "Walk to (table); **grab**(plate_1); go-to(kitchen_cabinet); put_inside(kitchen_cabinet, plate_1)"),
        (ALL_INSIDE, "walk_to(table); grab(plates_on_table); walk_to(cabinet); place_inside(cabinet, plates)"),
        (
            ALL_INSIDE,
            "walk_to(table); grab(plate); walk_to(cabinet); place_inside(cabinet, plate); walk_to(table); grab(plate); "
            "walk_to(cabinet); place_inside(cabinet, plate)",
        ),
        (
            PAIRS,
            "walk_to(table); grab(plate_A); walk_to(basket_1); place_inside(basket_1, plate_A); walk_to(table); "
            "grab(plate_B); walk_to(basket_2); place_inside(basket_2, plate_B)",
        ),
        # A basket is not named by number: the one after which the goal is nearest.
        (PAIRS, "grab(plate_1); place_inside(basket, plate_1); grab(plate_2); place_inside(basket, plate_2)"),
        ("(not (stained ?plate.n.04_1))", "walk_to(table); clean(plate_1, rag)"),
        ("(not (dusty ?rag.n.01_1))", "rinse(rag)"),
        (
            "(soaked ?rag.n.01_1)",
            "grab(rag); walk_to(sink); switch-on(faucet); place_inside(sink, rag); switch-off(faucet)",
        ),
        ("(soaked ?rag.n.01_1)", "grab(rag); walk_to(sink); place_on_top(sink, rag); open(sink)"),
        ("(toggled_on ?lamp.n.02_1)", "walk_to(lamp); switch_on(lamp)"),
        ("(not (toggled_on ?lamp.n.02_1))", "walk_to(lamp); switch_on(lamp); switch_off(lamp)"),
        ("(and (open ?cabinet.n.01_1) (not (open ?basket.n.01_1)))", "open(cabinet); open(basket1); close(basket1)"),
        (
            "(onfloor ?plate.n.04_3 ?floor.n.01_1)",
            "walk_to(cabinet); grab(plate_in_cabinet); place_on_top(kitchen_floor)",
        ),
        ("(onfloor ?plate.n.04_2 ?floor.n.01_2)", "grab(plate_2); walk_to(living_room); place_on_floor(plate_2)"),
        ("(under ?lamp.n.02_1 ?table.n.02_1)", "walk_to(table); grab(lamp); place_under(table, lamp)"),
        ("(under ?lamp.n.02_1 ?table.n.02_1)", "walk_to(table); grab(lamp); place_on_top(under_table, lamp)"),
        # What is in a thing comes along.
        (
            "(inside ?plate.n.04_1 ?cabinet.n.01_1)",
            "walk_to(table); grab(plate_1); walk_to(basket_1); place_inside(basket_1, plate_1); grab(basket_1); "
            "walk_to(cabinet); place_inside(cabinet, basket_1)",
        ),
        # A plan says on a basket; the problem only ever has things inside baskets.
        (PAIRS + " ", "grab(plate_1); place_on_top(basket_1, plate_1); grab(plate_2); place_on_top(basket_2, plate_2)"),
    ],
)
def test_reached(goal, plan):
    result = check(goal, plan)
    assert (result.missed, result.unchecked) == ((), ())
    assert result.share == result.coverage == 1
    assert result.understood == result.steps == len(plan.split("; "))


@pytest.mark.parametrize(
    ("goal", "plan"),
    [
        (INSIDE, "walk_to(table); grab(plate_1); walk_to(cabinet)"),
        (INSIDE, "walk_to(table); grab(plate_2); walk_to(cabinet); place_inside(cabinet, plate_2)"),
        # Table 8's missing action: the agent has not walked there.
        (INSIDE, "walk_to(table); grab(plate_1); place_inside(cabinet, plate_1)"),
        (INSIDE, "walk_to(cabinet); grab(plate_1); place_inside(cabinet, plate_1)"),
        (INSIDE, "walk_to(table); grab(plate_1); walk_to(cabinet); place_inside(cabinet, plate_1); grab(plate_1)"),
        (PAIRS, "grab(plate_1); place_inside(basket_1, plate_1); grab(plate_2); place_inside(basket_1, plate_2)"),
        ("(not (stained ?plate.n.04_1))", "walk_to(sink); clean(plate_1)"),
        ("(soaked ?rag.n.01_1)", "grab(rag); walk_to(sink); place_inside(sink, rag)"),
        ("(toggled_on ?lamp.n.02_1)", "walk_to(lamp); open(lamp)"),
    ],
)
def test_missed(goal, plan):
    result = check(goal, plan)
    assert result.reached == ()
    assert len(result.missed) == 1
    assert (result.share, result.coverage) == (0, 1)


def test_what_is_not_checked_is_counted():
    goal = "(and (nextto ?plate.n.04_1 ?sink.n.01_1) (open ?cabinet.n.01_1) (dusty ?jar.n.01_1) (burnt ?plate.n.04_1))"
    result = check(goal, "open(cabinet); sing(song); Repeat for all")
    assert result.reached == ("(open ?cabinet.n.01_1)",)
    assert result.unchecked == ("(nextto ?plate.n.04_1 ?sink.n.01_1)", "(dusty ?jar.n.01_1)", "(burnt ?plate.n.04_1)")
    assert (result.share, result.coverage) == (1, 0.25)
    assert (result.steps, result.understood) == (3, 1)


@pytest.mark.parametrize("plan", ["sing(song)", "Take the plate"])
def test_without_a_step_that_is_understood_there_is_no_value(plan):
    result = check("(not (open ?cabinet.n.01_1))", plan)
    assert (result.share, result.coverage, result.understood) == (None, 0, 0)
    assert check("(nextto ?plate.n.04_1 ?sink.n.01_1)", "walk_to(sink)").share is None


@pytest.mark.parametrize(
    ("plan", "names", "named", "has_value"),
    [
        ("walk_to(dustbin); grab(burger); place_inside(dustbin, burger)", 4, 0, False),
        ("walk_to(table); grab(burger); walk_to(kitchen)", 3, 2, True),
        ("walk_to(next_to_sink); grab(the stained plates)", 2, 2, True),
        ("wait(plate); wait()", 0, 0, False),
        ("walk_to(); grab()", 0, 0, False),
    ],
)
def test_a_plan_whose_names_fit_nothing_has_no_value(plan, names, named, has_value):
    result = check("(not (open ?cabinet.n.01_1))", plan)
    assert result.understood == result.steps
    assert (result.names, result.named, result.share is not None) == (names, named, has_value)
    assert result.coverage == float(has_value)


def test_only_what_actions_decide_is_reachable():
    assert {"nextto", "touching", "burnt", "inroom"}.isdisjoint(REACHABLE)
    assert {"inside", "ontop", "onfloor", "under", "open", "toggled_on", "soaked", "frozen", "cooked"} < REACHABLE


_WORDS = st.sampled_from(
    [
        "plate",
        "plate_1",
        "plates",
        "rag",
        "basket",
        "basket_2",
        "sink",
        "cabinet",
        "table",
        "lamp",
        "floor",
        "kitchen_floor",
        "next_to_sink",
        "stained_plate",
        "moon",
    ]
)
_ACTIONS = st.sampled_from(
    [
        "walk_to",
        "grab",
        "place_inside",
        "place_on_top",
        "place_under",
        "place_on_floor",
        "open",
        "close",
        "switch_on",
        "clean",
        "rinse",
        "soak",
        "pour",
        "slice",
    ]
)
_STEPS = st.builds(lambda action, names: f"{action}({', '.join(names)})", _ACTIONS, st.lists(_WORDS, max_size=3))


@given(st.lists(_STEPS | st.text(max_size=20), max_size=25))
@settings(deadline=None, max_examples=80)
def test_any_plan_has_a_value_and_a_thing_is_in_one_place(steps):
    problem = parse_problem(KITCHEN.format(f"(and {ALL_INSIDE} {PAIRS})"), "p.bddl")
    result = check_goal(problem, steps)
    assert len(result.reached + result.missed + result.unchecked) == 4
    assert (result.share is None) == (result.named == 0)
    again = check_goal(problem, steps)
    assert again == result


def test_facts_of_another_arity_are_no_facts():
    """Parsed, since only names and parentheses count there; they must not stop the scoring of a run."""
    text = KITCHEN.replace("(:init ", "(:init (dusty) (ontop plate.n.04_2) (inside lamp.n.02_1) (perished rag.n.01_1) ")
    problem = parse_problem(text.format(INSIDE), "p.bddl")
    steps = ["walk_to(table)", "grab(plate)", "walk_to(cabinet)", "place_inside(cabinet, plate)", "wash(lamp)"]
    assert check_goal(problem, steps).share == 1


@pytest.mark.parametrize("quantifier", ["exists", "forn (1)"])
def test_a_condition_of_a_type_without_objects_is_not_checkable(quantifier):
    found = check(f"(and {INSIDE} ({quantifier} (?pig.n.01 - pig.n.01) (dusty ?pig.n.01)))", "grab(plate)")
    assert (len(found.unchecked), len(found.missed)) == (1, 1)


@pytest.mark.skipif(not PLANS.is_file(), reason="no published plans in ../shared/data")
def test_gold_plans_reach_more_than_their_beginnings():
    """On average over the published gold plans, each third of a plan adds conditions that hold."""
    shares = [0.0] * 3
    for line in PLANS.read_text().splitlines()[::8]:
        record = json.loads(line)
        activity, description = record["activity"], record["path"].split("/")[-2]
        problem = read_problem(RELEASED / activity / f"problem{description}.bddl")
        for plan in record["gold_gpt"]:
            steps = parsed_steps(one_per_line(plan))
            for part in range(3):
                shares[part] += check_goal(problem, steps[: len(steps) * (part + 1) // 3]).share or 0
    assert all(low < high for low, high in pairwise(shares))
