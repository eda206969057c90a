from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
from lmms_egoplan.benchmarks.actplan.goal_check import check_goal
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.demo import DATA


def test_gold_plans_reach_the_goals_of_their_problems(data):
    assert prepare_actplan(DATA / "actplan-annotation")["without_bddl"] == 0
    for row in ACTPLAN.load("test").remove_columns("images"):
        problem = parse_problem(row["problem"], row["id"])
        for number in (1, 2):
            result = check_goal(problem, row[f"gold_plan_{number}"])
            assert (result.share, result.coverage) == (1, 1), (row["id"], number, result.missed)
            assert result.understood == result.steps
        assert check_goal(problem, row["gold_plan_1"][:1]).share < 1
