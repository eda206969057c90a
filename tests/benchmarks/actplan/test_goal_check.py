import json
import math
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import PLANS, record, write_plans
from benchmarks.actplan.problem_files import RELEASED
from lmms_egoplan.benchmarks.actplan.bddl import parse_problem, read_problem
from lmms_egoplan.benchmarks.actplan.goal_check import (
    REACHABLE,
    CheckedPlan,
    GoalCheck,
    agreement,
    check_goal,
    check_labelled,
)
from lmms_egoplan.benchmarks.actplan.plans import read_labelled_plans
from lmms_egoplan.benchmarks.actplan.reply import one_per_line, parsed_steps
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError

KITCHEN = """(define (problem kitchen_0) (:domain igibson)
    (:objects plate.n.04_1 plate.n.04_2 plate.n.04_3 - plate.n.04 rag.n.01_1 - rag.n.01
        basket.n.01_1 basket.n.01_2 - basket.n.01
        sink.n.01_1 - sink.n.01 cabinet.n.01_1 - cabinet.n.01 table.n.02_1 - table.n.02 \
lamp.n.02_1 - lamp.n.02
        floor.n.01_1 floor.n.01_2 - floor.n.01 agent.n.01_1 - agent.n.01)
    (:init (ontop plate.n.04_1 table.n.02_1) (stained plate.n.04_1) \
(ontop plate.n.04_2 table.n.02_1)
        (inside plate.n.04_3 cabinet.n.01_1) (onfloor rag.n.01_1 floor.n.01_1) (dusty rag.n.01_1)
        (onfloor basket.n.01_1 floor.n.01_2) (onfloor basket.n.01_2 floor.n.01_2) \
(ontop lamp.n.02_1 table.n.02_1)
        (inroom sink.n.01_1 kitchen) (inroom cabinet.n.01_1 kitchen) \
(inroom table.n.02_1 living_room)
        (inroom floor.n.01_1 kitchen) (inroom floor.n.01_2 living_room))
    (:goal {}))"""


def check(goal, plan):
    return check_goal(parse_problem(KITCHEN.format(goal), "p.bddl"), plan.split("; "))


INSIDE = "(inside ?plate.n.04_1 ?cabinet.n.01_1)"
ALL_INSIDE = "(forall (?plate.n.04 - plate.n.04) (inside ?plate.n.04 ?cabinet.n.01_1))"
PAIRS = (
    "(forpairs (?plate.n.04 - plate.n.04) (?basket.n.01 - basket.n.01) (inside ?plate.n.04 "
    "?basket.n.01))"
)


@pytest.mark.parametrize(
    ("goal", "plan"),
    [
        (INSIDE, "walk_to(table); grab(plate_1); walk_to(cabinet); place_inside(cabinet, plate_1)"),
        (INSIDE, "walk_to(table); grab(plate_1); walk_to(cabinet); place_inside(plate_1, cabinet)"),
        (INSIDE, "walk_to(table); grab(stained_plate); walk_to(cabinet); place_inside(cabinet)"),
        (
            INSIDE,
            (
                "Walk to (table); **grab**(plate_1); go-to(kitchen_cabinet); "
                "put_inside(kitchen_cabinet, plate_1)"
            ),
        ),
        (
            ALL_INSIDE,
            (
                "walk_to(table); grab(plates_on_table); walk_to(cabinet); "
                "place_inside(cabinet, plates)"
            ),
        ),
        (
            ALL_INSIDE,
            "walk_to(table); grab(plate); walk_to(cabinet); place_inside(cabinet, plate); "
            "walk_to(table); grab(plate); walk_to(cabinet); place_inside(cabinet, plate)",
        ),
        (
            PAIRS,
            "walk_to(table); grab(plate_A); walk_to(basket_1); place_inside(basket_1, plate_A); "
            "walk_to(table); grab(plate_B); walk_to(basket_2); place_inside(basket_2, plate_B)",
        ),
        # No basket is named by number, so the check chooses the one that brings the goal nearest.
        (
            PAIRS,
            (
                "grab(plate_1); place_inside(basket, plate_1); grab(plate_2); "
                "place_inside(basket, plate_2)"
            ),
        ),
        ("(not (stained ?plate.n.04_1))", "walk_to(table); clean(plate_1, rag)"),
        ("(not (dusty ?rag.n.01_1))", "rinse(rag)"),
        (
            "(soaked ?rag.n.01_1)",
            (
                "grab(rag); walk_to(sink); switch-on(faucet); place_inside(sink, rag); "
                "switch-off(faucet)"
            ),
        ),
        ("(soaked ?rag.n.01_1)", "grab(rag); walk_to(sink); place_on_top(sink, rag); open(sink)"),
        ("(toggled_on ?lamp.n.02_1)", "walk_to(lamp); switch_on(lamp)"),
        ("(not (toggled_on ?lamp.n.02_1))", "walk_to(lamp); switch_on(lamp); switch_off(lamp)"),
        (
            "(and (open ?cabinet.n.01_1) (not (open ?basket.n.01_1)))",
            "open(cabinet); open(basket1); close(basket1)",
        ),
        (
            "(onfloor ?plate.n.04_3 ?floor.n.01_1)",
            "walk_to(cabinet); grab(plate_in_cabinet); place_on_top(kitchen_floor)",
        ),
        (
            "(onfloor ?plate.n.04_2 ?floor.n.01_2)",
            "grab(plate_2); walk_to(living_room); place_on_floor(plate_2)",
        ),
        (
            "(under ?lamp.n.02_1 ?table.n.02_1)",
            "walk_to(table); grab(lamp); place_under(table, lamp)",
        ),
        (
            "(under ?lamp.n.02_1 ?table.n.02_1)",
            "walk_to(table); grab(lamp); place_on_top(under_table, lamp)",
        ),
        # An object moves together with its content.
        (
            "(inside ?plate.n.04_1 ?cabinet.n.01_1)",
            "walk_to(table); grab(plate_1); walk_to(basket_1); place_inside(basket_1, plate_1); "
            "grab(basket_1); walk_to(cabinet); place_inside(cabinet, basket_1)",
        ),
        # The plan says on a basket, but in the problem objects are only inside baskets.
        (
            PAIRS + " ",
            (
                "grab(plate_1); place_on_top(basket_1, plate_1); grab(plate_2); "
                "place_on_top(basket_2, plate_2)"
            ),
        ),
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
        # The missing action in Table 8: the agent did not walk there.
        (INSIDE, "walk_to(table); grab(plate_1); place_inside(cabinet, plate_1)"),
        (INSIDE, "walk_to(cabinet); grab(plate_1); place_inside(cabinet, plate_1)"),
        (
            INSIDE,
            (
                "walk_to(table); grab(plate_1); walk_to(cabinet); place_inside(cabinet, "
                "plate_1); grab(plate_1)"
            ),
        ),
        (
            PAIRS,
            (
                "grab(plate_1); place_inside(basket_1, plate_1); grab(plate_2); "
                "place_inside(basket_1, plate_2)"
            ),
        ),
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


def test_unchecked_conditions_are_counted():
    goal = (
        "(and (nextto ?plate.n.04_1 ?sink.n.01_1) (open ?cabinet.n.01_1) (dusty ?jar.n.01_1) "
        "(burnt ?plate.n.04_1))"
    )
    result = check(goal, "open(cabinet); sing(song); Repeat for all")
    assert result.reached == ("(open ?cabinet.n.01_1)",)
    assert result.unchecked == (
        "(nextto ?plate.n.04_1 ?sink.n.01_1)",
        "(dusty ?jar.n.01_1)",
        "(burnt ?plate.n.04_1)",
    )
    assert (result.share, result.coverage) == (1, 0.25)
    assert (result.steps, result.understood) == (3, 1)


@pytest.mark.parametrize("plan", ["sing(song)", "Take the plate"])
def test_a_plan_without_an_understood_step_has_no_value(plan):
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
def test_a_plan_whose_names_match_nothing_has_no_value(plan, names, named, has_value):
    result = check("(not (open ?cabinet.n.01_1))", plan)
    assert result.understood == result.steps
    assert (result.names, result.named, result.share is not None) == (names, named, has_value)
    assert result.coverage == float(has_value)


def test_only_predicates_that_actions_decide_are_reachable():
    assert {"nextto", "touching", "burnt", "inroom"}.isdisjoint(REACHABLE)
    assert {
        "inside",
        "ontop",
        "onfloor",
        "under",
        "open",
        "toggled_on",
        "soaked",
        "frozen",
        "cooked",
    } < REACHABLE


_THINGS = [
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
]
_WORDS = st.sampled_from([*_THINGS, "kitchen_floor", "next_to_sink", "stained_plate", "moon"])
_PLACING = ["place_inside", "place_on_top", "place_under", "place_on_floor"]
_CHANGES = ["open", "close", "switch_on", "clean", "rinse", "soak", "pour", "slice"]
_ACTIONS = st.sampled_from(["walk_to", "grab", *_PLACING, *_CHANGES])
_STEPS = st.builds(
    lambda action, names: f"{action}({', '.join(names)})", _ACTIONS, st.lists(_WORDS, max_size=3)
)


@given(st.lists(_STEPS | st.text(max_size=20), max_size=25))
@settings(max_examples=60)
def test_an_object_is_in_one_place_after_any_plan(steps):
    problem = parse_problem(KITCHEN.format(f"(and {ALL_INSIDE} {PAIRS})"), "p.bddl")
    result = check_goal(problem, steps)
    assert len(result.reached + result.missed + result.unchecked) == 4
    assert (result.share is None) == (result.named == 0)
    again = check_goal(problem, steps)
    assert again == result


def test_facts_of_another_arity_are_ignored():
    """The parser accepts them, since it checks only names and parentheses.

    They must not abort the scoring of a run.
    """
    text = KITCHEN.replace(
        "(:init ", "(:init (dusty) (ontop plate.n.04_2) (inside lamp.n.02_1) (perished rag.n.01_1) "
    )
    problem = parse_problem(text.format(INSIDE), "p.bddl")
    steps = [
        "walk_to(table)",
        "grab(plate)",
        "walk_to(cabinet)",
        "place_inside(cabinet, plate)",
        "wash(lamp)",
    ]
    assert check_goal(problem, steps).share == 1


@pytest.mark.parametrize("quantifier", ["exists", "forn (1)"])
def test_a_condition_of_a_type_without_objects_is_not_checkable(quantifier):
    check_result = check(
        f"(and {INSIDE} ({quantifier} (?pig.n.01 - pig.n.01) (dusty ?pig.n.01)))", "grab(plate)"
    )
    assert (len(check_result.unchecked), len(check_result.missed)) == (1, 1)


@pytest.mark.skipif(not PLANS.is_file(), reason="no published plans in ../shared/data")
def test_gold_plans_reach_more_than_their_beginnings():
    """On average over the published gold plans, each third of a plan reaches more conditions."""
    shares = [0.0] * 3
    for line in PLANS.read_text().splitlines()[::8]:
        record = json.loads(line)
        activity, description = record["activity"], record["path"].split("/")[-2]
        problem = read_problem(RELEASED / activity / f"problem{description}.bddl")
        for plan in record["gold_gpt"]:
            steps = parsed_steps(one_per_line(plan))
            for part in range(3):
                shares[part] += (
                    check_goal(problem, steps[: len(steps) * (part + 1) // 3]).share or 0
                )
    assert all(low < high for low, high in pairwise(shares))


PROBLEM = """(define (problem filling_0) (:domain igibson)
    (:objects thing.n.01_1 - thing.n.01 box.n.01_1 - box.n.01)
    (:init (open box.n.01_1)) (:goal (not (open ?box.n.01_1))))"""


def write_problem(folder, number, text=PROBLEM):
    path = folder / f"filling_a_box_{number}" / "problem0.bddl"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def plan(correct, reached, missed, unchecked=0):
    conditions = [tuple(map(str, range(number))) for number in (reached, missed, unchecked)]
    return CheckedPlan("normal", correct, GoalCheck(*conditions, 4, 3, 5, 2))


def test_agreement_equals_manual_counts():
    plans = [
        *(plan(True, 2, 0, 1) for _ in range(3)),
        *(plan(True, 1, 1) for _ in range(2)),
        *(plan(False, 2, 0) for _ in range(1)),
        *(plan(False, 0, 2) for _ in range(4)),
        plan(False, 0, 0, 2),
        CheckedPlan("normal", False, None),
    ]
    figures = agreement(plans)
    assert (figures["plans"], figures["checked"]) == (12, 10)
    assert (figures["correct"], figures["reached"]) == (0.5, 0.4)
    assert figures["accuracy"] == pytest.approx(7 / 10)
    true, false_positives, missed, wrong = 3, 1, 2, 4
    assert figures["mcc"] == pytest.approx(
        (true * wrong - false_positives * missed) / math.sqrt(4 * 5 * 5 * 6)
    )
    shares = {True: [1] * 3 + [0.5] * 2, False: [1] + [0] * 4}
    wins = [
        (right > other) + (right == other) / 2 for right in shares[True] for other in shares[False]
    ]
    assert figures["auc"] == pytest.approx(fmean(wins))
    assert figures["always_wrong"] == 0.5
    assert figures["condition_coverage"] == pytest.approx(20 / 25)
    assert (figures["step_coverage"], figures["name_coverage"]) == (0.75, 0.4)


def test_agreement_without_plans_that_have_a_value():
    figures = agreement([plan(True, 0, 0, 2)])
    assert (figures["plans"], figures["checked"], figures["accuracy"], figures["auc"]) == (
        1,
        0,
        None,
        None,
    )
    assert figures["condition_coverage"] == 0
    assert agreement([])["step_coverage"] is None
    assert agreement([plan(False, 0, 1)])["auc"] is None


def test_plans_without_a_problem_are_counted(tmp_path, monkeypatch):
    plans, _ = write_plans(tmp_path, [record(number) for number in range(3)], ["train"] * 3)
    write_problem(tmp_path / "bddl", 0)
    damaged = write_problem(tmp_path / "bddl", 1, "(define")
    checked, reasons = check_labelled(read_labelled_plans(plans), tmp_path / "bddl")
    first, second = reasons
    assert first.startswith(f"{damaged}:1: ")
    assert second == f"filling_a_box_2: no problem0.bddl in {tmp_path / 'bddl'}"
    assert [(plan.correct, plan.check and plan.check.share) for plan in checked] == [
        (False, 0), (True, 1), (False, None), (True, None), (False, None), (True, None),
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(
        app, ["evaluate", "actplan-goal-check", str(plans), "--bddl", str(tmp_path / "bddl")]
    )
    assert result.exit_code == 0, result.output
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in result.stdout.splitlines()
        if "│" in line
    ]
    assert dict(row[:2] for row in rows)["accuracy"] == "1.000"
    assert "4 plans: " in result.stdout


def test_a_folder_without_these_activities_raises_an_error(tmp_path):
    plans, _ = write_plans(tmp_path, [record(0)], ["train"])
    with pytest.raises(LmmsEgoplanError, match="no BDDL problem"):
        check_labelled(read_labelled_plans(plans), tmp_path)
    write_problem(tmp_path / "bddl", 7)
    with pytest.raises(LmmsEgoplanError, match=r"bddl: .*filling_a_box_0: no problem0\.bddl"):
        check_labelled(read_labelled_plans(plans), tmp_path / "bddl")


@pytest.mark.whole
@pytest.mark.skipif(not PLANS.is_file(), reason="no published plans in ../shared/data")
def test_the_published_plans():
    """Check the in-sample figures in the tasks' README."""
    checked, wrong = check_labelled(read_labelled_plans(PLANS), RELEASED)
    assert wrong == []
    figures = agreement(checked)
    assert (figures["plans"], figures["checked"]) == (642, 607)
    rounded = {
        name: round(value, 3) for name, value in figures.items() if name not in ("plans", "checked")
    }
    assert rounded == {
        "correct": 0.277,
        "reached": 0.287,
        "accuracy": 0.763,
        "mcc": 0.414,
        "auc": 0.733,
        "always_wrong": 0.723,
        "condition_coverage": 0.845,
        "step_coverage": 0.993,
        "name_coverage": 0.945,
    }
