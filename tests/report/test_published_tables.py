"""The papers' tables as data files: complete, and consistent but where ``tables.json`` says that the print is not."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest

from report.printed_tables import DESCRIBED, FILES, half_unit, load, printed

KEYS = {
    "paper",
    "table",
    "where",
    "what",
    "label",
    "scores",
    "higher_is_better",
    "best",
    "derived",
    "exceptions",
    "notes",
}


def computed(row, derived):
    """The derived number out of its printed parts, and how far off the print may be."""
    parts = [Decimal(row[column]) for column in derived["of"]]
    weights = derived["weights"] if derived["rule"] == "weighted_mean" else [1] * len(parts)
    assert derived["rule"] in ("mean", "weighted_mean")
    assert derived["parts"] in ("exact", "rounded")
    assert len(weights) == len(parts)
    mean = sum(part * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)
    return mean, Decimal(0) if derived["parts"] == "exact" else max(map(half_unit, parts))


def not_coming_out(stem):
    found = []
    for _, row in printed(stem).iterrows():
        for derived in DESCRIBED[stem]["derived"]:
            number = Decimal(row[derived["column"]])
            mean, slack = computed(row, derived)
            if abs(number - mean) > half_unit(number) + slack:
                shown = mean.quantize(Decimal(1).scaleb(-derived["decimals"]), ROUND_HALF_UP)
                found.append((row[DESCRIBED[stem]["label"]], derived["column"], float(number), float(shown)))
    return found


# Rows in the papers.
ROWS = {
    **{"egoplan_table1": 28, "egoplan_table3": 7, "egoplan_table4": 26},
    **{"egothink_table3": 21, "egothink_table9": 3, "egothink_table10": 1, "egothink_table11": 18},
    **{"egointent_table3": 15, "egointent_leaderboard": 15},
    **{"actplan_table3": 4, "actplan_table4": 4, "actplan_table5": 4, "actplan_table6": 3, "actplan_table7": 2},
}


def test_every_file_is_listed():
    assert set(FILES) == set(DESCRIBED) == set(ROWS)


@pytest.mark.parametrize("stem", ROWS)
def test_as_many_rows_as_in_the_paper(stem):
    assert len(printed(stem)) == ROWS[stem]
    benchmark, _, number = stem.partition("_table")
    titles = {"egoplan": "EgoPlan-Bench", "egothink": "EgoThink", "egointent": "EgoIntent", "actplan": "ActPlan-1K"}
    leaderboard = "EgoIntent, leaderboard of August 2026"
    assert load(stem).source == (f"{titles[benchmark]}, Table {number}" if number else leaderboard)


@pytest.mark.parametrize(
    ("stem", "facts"),
    [
        ("egoplan_table1", ("Section 3.4", "3,296", "Table 2", "3,269")),
        ("egoplan_table1", ("first version", "2,406", "2,407", "2,979", "2,538")),
        ("egothink_table3", ("Section 4.2", "60.0 in navigation", "64.0")),
        ("egothink_table3", ("Section 4.2", "localization", "comparison", "50.0 to 48.0")),
        ("egothink_table3", ("Section 1", "activity and counting", "best in both")),
        ("egothink_table9", ("Section 5.2", "0.81")),
        ("egothink_table10", ("means of three people's grades",)),
        ("egointent_table3", ("leaderboard", "missing predictions receive zero")),
        ("egointent_table3", ("52.71", "33.31")),
        ("egointent_leaderboard", ("Missing predictions receive zero", "overall_missing_zero")),
        ("egointent_leaderboard", ("Judges", "differ")),
    ],
)
def test_contradictions_inside_a_paper_are_notes_of_its_tables(stem, facts):
    assert any(all(fact in note for fact in facts) for note in load(stem).notes)


@pytest.mark.parametrize("stem", DESCRIBED)
def test_described_by_its_own_columns(stem):
    table, columns = DESCRIBED[stem], list(printed(stem).columns)
    assert set(table) == KEYS
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column) for column in columns)
    assert columns[0] == table["label"]
    assert set(table["scores"]) <= set(columns) - {table["label"]}
    assert list(table["higher_is_better"]) == table["scores"]
    assert all(isinstance(value, bool) for value in table["higher_is_better"].values())
    for derived in table["derived"]:
        assert {derived["column"], *derived["of"]} <= set(table["scores"])
    for text in ("paper", "where", "what", "best"):
        assert table[text].strip()
    assert re.fullmatch(r"Table \d+|leaderboard of \w+ \d{4}", table["table"])
    assert stem.endswith(table["table"].partition(" of ")[0].replace("Table ", "_table"))


@pytest.mark.parametrize("stem", DESCRIBED)
def test_numbers_parse(stem):
    numbers, text = pd.read_csv(FILES[stem]), printed(stem)
    for column in DESCRIBED[stem]["scores"]:
        assert pd.api.types.is_float_dtype(numbers[column])
        assert not numbers[column].isna().any() or any("empty where" in note for note in DESCRIBED[stem]["notes"])
        assert all(re.fullmatch(r"\d+\.\d+", cell) for cell in text[column] if cell)
        assert numbers[column].dropna().between(0, 100).all()


@pytest.mark.parametrize("stem", DESCRIBED)
def test_label_and_no_stray_space(stem):
    text = printed(stem)
    assert text[DESCRIBED[stem]["label"]].str.len().min() > 0
    assert (text == text.apply(lambda column: column.str.strip())).all(axis=None)
    assert not text.apply(lambda column: column.str.contains(r"<|\*|\[|%", regex=True)).any(axis=None)
    names = [column for column in ("model", "group", "vlm", DESCRIBED[stem]["label"]) if column in text]
    assert not text.duplicated(list(dict.fromkeys(names))).any()


@pytest.mark.parametrize("stem", DESCRIBED)
def test_derived_columns_have_the_stated_digits(stem):
    for derived in DESCRIBED[stem]["derived"]:
        for cell in printed(stem)[derived["column"]]:
            assert -Decimal(cell).as_tuple().exponent == derived["decimals"]


@pytest.mark.parametrize("stem", DESCRIBED)
def test_derived_columns_come_out_but_for_the_exceptions(stem):
    listed = [(e["row"], e["column"], e["printed"], e["computed"]) for e in DESCRIBED[stem]["exceptions"]]
    assert sorted(not_coming_out(stem)) == sorted(listed)


@pytest.mark.parametrize("stem", DESCRIBED)
def test_notes_name_every_exception(stem):
    for exception in DESCRIBED[stem]["exceptions"]:
        assert any(
            all(str(exception[key]) in note for key in ("row", "column", "printed", "computed"))
            for note in DESCRIBED[stem]["notes"]
        )


@pytest.mark.parametrize("stem", DESCRIBED)
def test_loaded_rows_are_those_of_the_file(stem):
    text, table = printed(stem), load(stem)
    assert (table.stem, table.label, table.columns) == (stem, DESCRIBED[stem]["label"], tuple(text.columns))
    assert [list(row.values()) for row in table.printed] == text.values.tolist()
    numbers = {column for column in text if not any(re.search(r"[^\d.]", cell) for cell in text[column])}
    assert numbers >= set(DESCRIBED[stem]["scores"]) == set(table.higher_is_better)
    assert set(table.decimals) == numbers
    for column in text:
        expected = [float(cell) if cell and column in numbers else cell or None for cell in text[column]]
        assert [row[column] for row in table.rows] == expected


@pytest.mark.parametrize("stem", DESCRIBED)
def test_loaded_decimals_are_those_of_the_print(stem):
    for column, places in load(stem).decimals.items():
        printed_places = {len(cell.partition(".")[2]) for cell in printed(stem)[column] if cell}
        assert places in printed_places
        is_noted = any(column in note and "decimals" in note for note in DESCRIBED[stem]["notes"])
        assert (len(printed_places) > 1) == is_noted


@pytest.mark.parametrize("stem", DESCRIBED)
def test_the_main_score_is_a_score(stem):
    assert load(stem).main in load(stem).higher_is_better


def test_an_unknown_table_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match=r"no published table 'table2' in .*; there are table1, "):
        load("egoplan_table2")
