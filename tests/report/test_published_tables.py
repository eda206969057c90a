"""The papers' tables as data files: complete, and consistent but where ``tables.json`` says that the print is not."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest

from report.printed_tables import DESCRIBED, FILES, load

ROWS = {
    "egoplan_table1": 28,
    "egoplan_table3": 7,
    "egoplan_table4": 26,
    "egothink_table3": 21,
    "egothink_table9": 3,
    "egothink_table10": 1,
    "egothink_table11": 18,
    "egointent_table3": 15,
    "actplan_table3": 4,
    "actplan_table4": 4,
    "actplan_table5": 4,
    "actplan_table6": 3,
    "actplan_table7": 2,
}
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
EMPTY = {("egothink_table9", "gpt_3_5_turbo"): 1, ("egothink_table9", "claude_2"): 2}


def printed(stem):
    """Cells as text, digits as in the print."""
    return pd.read_csv(FILES[stem], dtype=str, keep_default_na=False, encoding="utf-8")


def half_unit(number):
    return Decimal(1).scaleb(number.as_tuple().exponent) / 2


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
    assert set(FILES) == set(DESCRIBED) == set(ROWS)


@pytest.mark.parametrize("stem", ROWS)
def test_as_many_rows_as_in_the_paper(stem):
    assert len(printed(stem)) == ROWS[stem]


@pytest.mark.parametrize("stem", ROWS)
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
    assert re.fullmatch(r"Table \d+", table["table"])
    assert stem.endswith(table["table"].replace("Table ", "_table"))


@pytest.mark.parametrize("stem", ROWS)
def test_numbers_parse(stem):
    numbers, text = pd.read_csv(FILES[stem]), printed(stem)
    for column in DESCRIBED[stem]["scores"]:
        assert pd.api.types.is_float_dtype(numbers[column])
        assert numbers[column].isna().sum() == EMPTY.get((stem, column), 0)
        assert all(re.fullmatch(r"\d+\.\d+", cell) for cell in text[column] if cell)
        assert numbers[column].dropna().between(0, 100).all()


@pytest.mark.parametrize("stem", ROWS)
def test_label_and_no_stray_space(stem):
    text = printed(stem)
    assert text[DESCRIBED[stem]["label"]].str.len().min() > 0
    assert (text == text.apply(lambda column: column.str.strip())).all(axis=None)
    assert not text.apply(lambda column: column.str.contains(r"<|\*|\[|%", regex=True)).any(axis=None)
    names = [column for column in ("model", "group", "vlm", DESCRIBED[stem]["label"]) if column in text]
    assert not text.duplicated(list(dict.fromkeys(names))).any()


@pytest.mark.parametrize("stem", ROWS)
def test_derived_columns_have_the_stated_digits(stem):
    for derived in DESCRIBED[stem]["derived"]:
        for cell in printed(stem)[derived["column"]]:
            assert -Decimal(cell).as_tuple().exponent == derived["decimals"]


@pytest.mark.parametrize("stem", ROWS)
def test_derived_columns_come_out_but_for_the_exceptions(stem):
    listed = [(e["row"], e["column"], e["printed"], e["computed"]) for e in DESCRIBED[stem]["exceptions"]]
    assert sorted(not_coming_out(stem)) == sorted(listed)


@pytest.mark.parametrize("stem", ROWS)
def test_notes_name_every_exception(stem):
    for exception in DESCRIBED[stem]["exceptions"]:
        assert any(
            all(str(exception[key]) in note for key in ("row", "column", "printed", "computed"))
            for note in DESCRIBED[stem]["notes"]
        )


@pytest.mark.parametrize(
    ("stem", "told"),
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
    ],
)
def test_contradictions_inside_the_papers_are_notes_of_the_tables(stem, told):
    assert any(all(part in note for part in told) for note in load(stem).notes)


def test_egothink_text_against_table_3():
    """What the notes of Table 3 say of its own numbers."""
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


def test_egothink_table_10_has_means_of_three_people():
    """Over 50 questions: thirds of a point that grades of 0, 0.5 and 1 of three people can give, but for one score."""
    row = printed("egothink_table10").iloc[0]
    possible = {f"{100 * halves / 300:.1f}" for halves in range(301)}
    of_one = {f"{100 * halves / 100:.1f}" for halves in range(101)}
    scores = [row[name] for name in DESCRIBED["egothink_table10"]["scores"]]
    assert [score in possible for score in scores] == [False, True, True, True, True]
    assert [score in of_one for score in scores] == [False, False, False, True, True]


def test_egoplan_table_3_repeats_table_1():
    table1 = printed("egoplan_table1").set_index("model")["acc"]
    table3 = printed("egoplan_table3").set_index("model")["all"]
    assert [table1[name] for name in ("GPT-4V", "Video-LLaMA")] == [table3[name] for name in ("GPT-4V", "Video-LLaMA")]


def test_egoplan_table_4_leaves_two_models_out():
    table1, table4 = (printed(f"egoplan_table{number}") for number in (1, 4))
    left = table1[~table1["model"].isin(["Kosmos-2", "SEED-LLaMA"])]
    assert [name.lower() for name in left["model"]] == [name.lower() for name in table4["model"]]
    assert list(left["llm"]) == list(table4["llm"])


@pytest.mark.parametrize(("row6", "row7"), [("Gemini-Pro-1.5(w)", "w image"), ("Gemini-Pro-1.5(w/o)", "w/o image")])
@pytest.mark.parametrize("column", ["correctness", "commonsense", "avg_len"])
def test_actplan_table_7_gives_table_6(row6, row7, column):
    """Over 40 normal and 20 counterfactual activities (Section 5.5)."""
    total = Decimal(printed("actplan_table6").set_index("model").loc[row6, column])
    parts = printed("actplan_table7").set_index("model").loc[row7]
    normal, counterfactual = Decimal(parts[f"normal_{column}"]), Decimal(parts[f"counterfactual_{column}"])
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
def test_actplan_shares_are_whole_numbers_of_plans(stem, columns, plans):
    """What the notes say that they are over; 240 train, 81 val and 81 test instances are the 275 and 127."""
    shares = {str((Decimal(100 * number) / plans).quantize(Decimal("0.1"), ROUND_HALF_UP)) for number in range(plans)}
    assert set(printed(stem)[columns].to_numpy().ravel()) <= shares
    assert any(str(plans) in note for note in (*DESCRIBED[stem]["notes"], DESCRIBED[stem]["what"]))
    assert 240 + 81 + 81 == 275 + 127


@pytest.mark.parametrize("stem", ROWS)
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


@pytest.mark.parametrize("stem", ROWS)
def test_loaded_decimals_are_those_of_the_print(stem):
    odd = {("egothink_table11", "planning_assistance_claude_2"): {1, 2}}
    for column, places in load(stem).decimals.items():
        printed_places = {len(cell.partition(".")[2]) for cell in printed(stem)[column] if cell}
        assert printed_places == odd.get((stem, column), {places})
        assert places in printed_places
    assert load("egothink_table11").decimals["planning_assistance_claude_2"] == 1


def test_loaded_tables_name_paper_and_table():
    assert set(DESCRIBED) == set(ROWS)
    sources = {stem: load(stem).source for stem in DESCRIBED}
    assert sources["egoplan_table1"] == "EgoPlan-Bench, Table 1"
    assert sources["egothink_table11"] == "EgoThink, Table 11"
    assert sources["egointent_table3"] == "EgoIntent, Table 3"
    assert sources["actplan_table7"] == "ActPlan-1K, Table 7"
    assert load("actplan_table3").exceptions[0]["row"] == "Claude-3-sonnet"


@pytest.mark.parametrize("stem", ROWS)
def test_the_main_score_is_a_score(stem):
    assert load(stem).main in load(stem).higher_is_better


def test_an_unknown_table_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match=r"no published table 'table2' in .*; there are table1, "):
        load("egoplan_table2")
