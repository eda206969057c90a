import math
from statistics import fmean

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import PLANS, record, write_plans
from benchmarks.actplan.problem_files import RELEASED
from lmms_egoplan.benchmarks.actplan.goal_check import CheckedPlan, GoalCheck, agreement, check_labelled
from lmms_egoplan.benchmarks.actplan.plans import read_labelled_plans
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError

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


def test_figures_by_hand():
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
    assert figures["mcc"] == pytest.approx((true * wrong - false_positives * missed) / math.sqrt(4 * 5 * 5 * 6))
    shares = {True: [1] * 3 + [0.5] * 2, False: [1] + [0] * 4}
    wins = [(right > other) + (right == other) / 2 for right in shares[True] for other in shares[False]]
    assert figures["auc"] == pytest.approx(fmean(wins))
    assert figures["always_wrong"] == 0.5
    assert figures["condition_coverage"] == pytest.approx(20 / 25)
    assert (figures["step_coverage"], figures["name_coverage"]) == (0.75, 0.4)


def test_without_plans_that_have_a_value():
    figures = agreement([plan(True, 0, 0, 2)])
    assert (figures["plans"], figures["checked"], figures["accuracy"], figures["auc"]) == (1, 0, None, None)
    assert figures["condition_coverage"] == 0
    assert agreement([])["step_coverage"] is None
    assert agreement([plan(False, 0, 1)])["auc"] is None


def test_plans_without_a_problem_are_counted(tmp_path, monkeypatch):
    plans, _ = write_plans(tmp_path, [record(number) for number in range(3)], ["train"] * 3)
    write_problem(tmp_path / "bddl", 0)
    damaged = write_problem(tmp_path / "bddl", 1, "(define")
    checked, wrong = check_labelled(read_labelled_plans(plans), tmp_path / "bddl")
    assert wrong == [
        f"{damaged}:1: expected a ')' for the '(' of this line, found the end",
        f"filling_a_box_2: no problem0.bddl in {tmp_path / 'bddl'}",
    ]
    assert [(each.correct, each.check and each.check.share) for each in checked] == [
        (False, 0), (True, 1), (False, None), (True, None), (False, None), (True, None),
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(app, ["evaluate", "actplan-goal-check", str(plans), "--bddl", str(tmp_path / "bddl")])
    assert result.exit_code == 0, result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert dict(row[:2] for row in rows)["accuracy"] == "1.000"
    assert "Without a problem: 4 plans: " in result.stdout


def test_a_folder_without_these_activities_is_an_error(tmp_path):
    plans, _ = write_plans(tmp_path, [record(0)], ["train"])
    with pytest.raises(LmmsEgoplanError, match="no BDDL problem in it"):
        check_labelled(read_labelled_plans(plans), tmp_path)
    write_problem(tmp_path / "bddl", 7)
    with pytest.raises(LmmsEgoplanError, match=r"for any of the plans; the first: filling_a_box_0: no problem0\.bddl"):
        check_labelled(read_labelled_plans(plans), tmp_path / "bddl")


@pytest.mark.whole
@pytest.mark.skipif(not PLANS.is_file(), reason="no published plans in ../shared/data")
def test_the_published_plans():
    """What the tasks' README prints: in-sample."""
    checked, wrong = check_labelled(read_labelled_plans(PLANS), RELEASED)
    assert wrong == []
    figures = agreement(checked)
    assert (figures["plans"], figures["checked"]) == (642, 607)
    rounded = {name: round(value, 3) for name, value in figures.items() if name not in ("plans", "checked")}
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
