"""ActPlan-1K by setting, length and type of activity, beside what is counted here from the files of the runs."""

import random

import pytest

from benchmarks.actplan.report.synthetic_runs import GOOD, LENGTHS, PART, TEXT, WEAK, defined, interval, mean, percent
from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES
from report.joined import near, run_rows


@pytest.mark.parametrize(
    ("key", "by", "order"),
    [("actplan_by_length", "length", LENGTHS), ("actplan_by_activity_type", "activity_type", ACTIVITY_TYPES)],
)
def test_breakdowns_are_means_of_the_groups(section, logged, key, by, order):
    found = run_rows(section, key)
    assert [row["group"] for row in found] == sorted((row["group"] for row in found), key=order.index)
    for name, plans in logged.items():
        own = {row["group"]: row for row in found if row["model"] == name}
        assert set(own) == {plan[by] for plan in plans}
        for group, row in own.items():
            members = [plan for plan in plans if plan[by] == group]
            assert row["plans"] == len(defined(members, "Norm. LCS"))
            assert row["lcs_norm"] == near(mean(members, "Norm. LCS"))
            assert (row["low"], row["high"]) == near(interval(members, "Norm. LCS"))
            assert row["lcs"] == near(mean(members, "LCS, steps"))
            assert row["lcs_norm_parsed"] == near(mean(members, "Norm. LCS, parsed"))
            assert row["verdicts"] == (len(members) if name != WEAK else None)
            assert row["bleurt_correct"] == near(percent(mean(members, "Correct by classifier")))
            ends = tuple(map(percent, interval(members, "Correct by classifier")))
            assert (row["correct_low"], row["correct_high"]) == near(ends)


def test_settings_stand_side_by_side(section, logged):
    found = {(row["measure"], row["model"]): row for row in run_rows(section, "actplan_by_setting")}
    for name in (GOOD, TEXT, WEAK):
        for measure in (
            "Norm. LCS",
            "Norm. LCS, parsed",
            "Form validity",
            "Plan length, steps",
            "Correct by classifier",
        ):
            if not defined(logged[name], measure):
                assert (measure, name) not in found
                continue
            row, means = found[measure, name], []
            for setting in ("normal", "counterfactual"):
                plans = [plan for plan in logged[name] if plan["setting"] == setting]
                means.append(mean(plans, measure))
                assert row[setting] == near(means[-1])
                assert (row[f"{setting}_low"], row[f"{setting}_high"]) == near(interval(plans, measure))
                assert row[f"{setting}_plans"] == len(defined(plans, measure))
            assert row["difference"] == near(means[0] - means[1])
    part = found["Norm. LCS", PART]
    assert (part["counterfactual"], part["counterfactual_plans"], part["difference"]) == (None, None, None)


def test_the_interval_of_the_difference_between_settings_draws_whole_activities(section, logged):
    """A slow bootstrap of another seed, whose ends differ by chance alone."""
    chance = random.Random(0)
    by_activity = {}
    for plan in logged[GOOD]:
        by_activity.setdefault(plan["activity"], []).append(plan)
    differences = []
    for _ in range(1500):
        drawn = [plan for _ in by_activity for plan in by_activity[chance.choice(list(by_activity))]]
        parts = [[p for p in drawn if p["setting"] == setting] for setting in ("normal", "counterfactual")]
        differences.append(mean(parts[0], "Plan length, steps") - mean(parts[1], "Plan length, steps"))
    differences.sort()
    (row,) = (
        row
        for row in run_rows(section, "actplan_by_setting")
        if (row["measure"], row["model"]) == ("Plan length, steps", GOOD)
    )
    width = row["difference_high"] - row["difference_low"]
    assert row["difference_low"] == pytest.approx(differences[37], abs=0.1 * width)
    assert row["difference_high"] == pytest.approx(differences[1462], abs=0.1 * width)
