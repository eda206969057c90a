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


def test_every_file_is_listed():
    assert set(FILES) == set(DESCRIBED)


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
