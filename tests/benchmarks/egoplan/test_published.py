"""What EgoPlan-Bench's tables have, as printed, and what is odd about them."""

import pytest

from report.printed_tables import DESCRIBED, load, printed

ROWS = {"egoplan_table1": 28, "egoplan_table3": 7, "egoplan_table4": 26}


@pytest.mark.parametrize("stem", ROWS)
def test_as_many_rows_as_in_the_paper(stem):
    assert len(printed(stem)) == ROWS[stem]
    number = stem.partition("_table")[2]
    assert load(stem).source == f"EgoPlan-Bench, Table {number}"


def test_these_are_all_tables():
    assert {stem for stem in DESCRIBED if stem.startswith("egoplan_")} == set(ROWS)


@pytest.mark.parametrize(
    ("stem", "told"),
    [
        ("egoplan_table1", ("Section 3.4", "3,296", "Table 2", "3,269")),
        ("egoplan_table1", ("first version", "2,406", "2,407", "2,979", "2,538")),
    ],
)
def test_contradictions_inside_the_paper_are_notes_of_the_tables(stem, told):
    assert any(all(part in note for part in told) for note in load(stem).notes)


def test_table_3_repeats_table_1():
    table1 = printed("egoplan_table1").set_index("model")["acc"]
    table3 = printed("egoplan_table3").set_index("model")["all"]
    assert [table1[name] for name in ("GPT-4V", "Video-LLaMA")] == [table3[name] for name in ("GPT-4V", "Video-LLaMA")]


def test_table_4_leaves_two_models_out():
    table1, table4 = (printed(f"egoplan_table{number}") for number in (1, 4))
    left = table1[~table1["model"].isin(["Kosmos-2", "SEED-LLaMA"])]
    assert [name.lower() for name in left["model"]] == [name.lower() for name in table4["model"]]
    assert list(left["llm"]) == list(table4["llm"])
