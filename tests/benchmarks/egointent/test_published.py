"""What EgoIntent's tables have, as printed, and what is odd about them."""

import pytest

from report.printed_tables import DESCRIBED, load, printed

ROWS = {"egointent_table3": 15, "egointent_leaderboard": 15}


@pytest.mark.parametrize("stem", ROWS)
def test_as_many_rows_as_in_the_paper(stem):
    assert len(printed(stem)) == ROWS[stem]
    sources = {"egointent_table3": "Table 3", "egointent_leaderboard": "leaderboard of August 2026"}
    assert load(stem).source == f"EgoIntent, {sources[stem]}"


def test_these_are_all_tables():
    assert {stem for stem in DESCRIBED if stem.startswith("egointent_")} == set(ROWS)


@pytest.mark.parametrize(
    ("stem", "told"),
    [
        ("egointent_table3", ("leaderboard", "missing predictions receive zero")),
        ("egointent_table3", ("52.71", "33.31")),
        ("egointent_leaderboard", ("Missing predictions receive zero", "overall_missing_zero")),
        ("egointent_leaderboard", ("Judges", "differ")),
    ],
)
def test_contradictions_inside_the_paper_are_notes_of_the_tables(stem, told):
    assert any(all(part in note for part in told) for note in load(stem).notes)
