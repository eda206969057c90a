"""Check EgoThink's published tables, including their known errors."""

from lmms_egoplan.report.models import parse_name
from report.printed_tables import DESCRIBED, load, printed

ROWS = {
    "egothink_table2": 21,
    "egothink_table3": 21,
    "egothink_table9": 3,
    "egothink_table10": 1,
    "egothink_table11": 18,
}


def test_half_of_a_symmetric_table_is_empty():
    empty = {
        (stem, column): count
        for stem in ROWS
        for column in DESCRIBED[stem]["scores"]
        if (count := (printed(stem)[column] == "").sum())
    }
    assert empty.pop(("egothink_table2", "total_billions")) == 1  # GPT-4V
    assert empty == {("egothink_table9", "gpt_3_5_turbo"): 1, ("egothink_table9", "claude_2"): 2}


def test_one_number_has_two_decimals():
    assert "18.06" in set(printed("egothink_table11")["planning_assistance_claude_2"])
    assert load("egothink_table11").decimals["planning_assistance_claude_2"] == 1


def test_names_in_table_2_state_the_sizes_of_its_groups():
    """A name's size is near the total, which also has the image encoder and the alignment module
    (sec. 5.1).
    """
    for _, row in printed("egothink_table2").iterrows():
        _, billions, _ = parse_name(row["model"])
        if billions is not None:
            assert billions <= float(row["total_billions"]) + 0.5 < billions + 2
            assert row["group"] == f"~{7 if billions < 10 else 13}B Models"


def test_text_against_table_3():
    """Check the notes of Table 3 about its own numbers."""
    table = printed("egothink_table3").set_index("model")
    gpt_4v, blip = table.loc["GPT-4V"], table.loc["BLIP-2-11B"]
    dimensions = DESCRIBED["egothink_table3"]["derived"][0]["of"]
    assert gpt_4v["navigation"] == "64.0"
    assert [name for name in dimensions if float(blip[name]) > float(gpt_4v[name])] == [
        "location",
        "spatial",
        "comparison",
    ]
    for name in ("activity", "counting"):
        assert float(gpt_4v[name]) == table[name].astype(float).max()


def test_table_10_has_means_of_three_people():
    """Over 50 questions, three people's grades of 0, 0.5 and 1 give thirds of a point.

    One printed score does not.
    """
    row = printed("egothink_table10").iloc[0]
    possible = {f"{100 * halves / 300:.1f}" for halves in range(301)}
    of_one = {f"{100 * halves / 100:.1f}" for halves in range(101)}
    scores = [row[name] for name in DESCRIBED["egothink_table10"]["scores"]]
    assert [score in possible for score in scores] == [False, True, True, True, True]
    assert [score in of_one for score in scores] == [False, False, False, True, True]
