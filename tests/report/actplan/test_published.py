"""ActPlan-1K's tables as printed, and their contradictions."""

from decimal import ROUND_HALF_UP, Decimal

import pytest

from report.printed_tables import DESCRIBED, half_unit, load, printed


def test_the_exceptions_are_loaded():
    assert load("actplan_table3").exceptions[0]["row"] == "Claude-3-sonnet"


@pytest.mark.parametrize(
    ("row6", "row7"), [("Gemini-Pro-1.5(w)", "w image"), ("Gemini-Pro-1.5(w/o)", "w/o image")]
)
@pytest.mark.parametrize("column", ["correctness", "commonsense", "avg_len"])
def test_table_6_follows_from_table_7(row6, row7, column):
    """Table 6 has means over 40 normal and 20 counterfactual activities (Section 5.5)."""
    total = Decimal(printed("actplan_table6").set_index("model").loc[row6, column])
    parts = printed("actplan_table7").set_index("model").loc[row7]
    normal, counterfactual = (
        Decimal(parts[f"normal_{column}"]),
        Decimal(parts[f"counterfactual_{column}"]),
    )
    mean = (40 * normal + 20 * counterfactual) / 60
    assert abs(total - mean) <= half_unit(total) + max(half_unit(normal), half_unit(counterfactual))


@pytest.mark.parametrize(
    ("stem", "columns", "plans"),
    [
        ("actplan_table3", ["normal_correctness", "normal_commonsense"], 275),
        ("actplan_table3", ["counterfactual_correctness", "counterfactual_commonsense"], 127),
        ("actplan_table5", ["val_acc", "test_acc"], 81),
        ("actplan_table6", ["correctness", "commonsense"], 60),
        ("actplan_table7", ["normal_correctness", "normal_commonsense"], 40),
        ("actplan_table7", ["counterfactual_correctness", "counterfactual_commonsense"], 20),
    ],
)
def test_shares_are_whole_numbers_of_plans(stem, columns, plans):
    """Shares match the plan counts in the notes.

    Train (240), val (81) and test (81) have 275 + 127 instances.
    """
    shares = {
        str((Decimal(100 * number) / plans).quantize(Decimal("0.1"), ROUND_HALF_UP))
        for number in range(plans)
    }
    assert set(printed(stem)[columns].to_numpy().ravel()) <= shares
    assert any(str(plans) in note for note in (*DESCRIBED[stem]["notes"], DESCRIBED[stem]["what"]))
    assert 240 + 81 + 81 == 275 + 127
