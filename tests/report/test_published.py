"""The papers' printed tables, and rows of runs in them."""

import csv
import math
import re
from decimal import ROUND_HALF_UP, Decimal

import pytest

from lmms_egoplan.report.page import show
from lmms_egoplan.report.published import published_with_runs
from lmms_egoplan.report.tables import Column, filled
from report.printed_tables import DESCRIBED, FILES, half_unit, load, printed

KEYS = {
    "paper", "table", "where", "what", "label", "scores", "higher_is_better", "best", "derived",
    "exceptions", "notes",
}  # fmt: skip


def computed(row, derived):
    """Compute a derived number from its printed parts, and the tolerance for rounded parts."""
    parts = [Decimal(row[column]) for column in derived["of"]]
    weights = derived["weights"] if derived["rule"] == "weighted_mean" else [1] * len(parts)
    assert derived["rule"] in ("mean", "weighted_mean")
    assert derived["parts"] in ("exact", "rounded")
    assert len(weights) == len(parts)
    mean = sum(part * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)
    return mean, Decimal(0) if derived["parts"] == "exact" else max(map(half_unit, parts))


def deviations_in(stem):
    """List the derived numbers whose printed value differs from the computed one."""
    deviations = []
    for _, row in printed(stem).iterrows():
        for derived in DESCRIBED[stem]["derived"]:
            number = Decimal(row[derived["column"]])
            mean, slack = computed(row, derived)
            if abs(number - mean) > half_unit(number) + slack:
                rounded = mean.quantize(Decimal(1).scaleb(-derived["decimals"]), ROUND_HALF_UP)
                deviations.append(
                    (
                        row[DESCRIBED[stem]["label"]],
                        derived["column"],
                        float(number),
                        float(rounded),
                    )
                )
    return deviations


# Number of rows in the papers.
ROWS = {
    **{"egoplan_table1": 28, "egoplan_table3": 7, "egoplan_table4": 26},
    **{
        "egothink_table2": 21,
        "egothink_table3": 21,
        "egothink_table9": 3,
        "egothink_table10": 1,
        "egothink_table11": 18,
    },
    **{"egointent_table3": 15, "egointent_leaderboard": 15},
    **{
        "actplan_table3": 4,
        "actplan_table4": 4,
        "actplan_table5": 4,
        "actplan_table6": 3,
        "actplan_table7": 2,
    },
}


def test_every_file_is_listed():
    assert set(FILES) == set(DESCRIBED) == set(ROWS)


def test_tables_have_as_many_rows_as_in_the_paper():
    assert {stem: len(printed(stem)) for stem in ROWS} == ROWS


def test_sources_name_the_benchmark_and_the_table():
    titles = {
        "egoplan": "EgoPlan-Bench",
        "egothink": "EgoThink",
        "egointent": "EgoIntent",
        "actplan": "ActPlan-1K",
    }
    sources = {"egointent_leaderboard": "EgoIntent, leaderboard of August 2026"}
    for stem in ROWS.keys() - sources:
        benchmark, _, number = stem.partition("_table")
        sources[stem] = f"{titles[benchmark]}, Table {number}"
    assert {stem: load(stem).source for stem in ROWS} == sources


CONTRADICTIONS = (
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
)


def test_contradictions_inside_a_paper_are_notes_of_its_tables():
    missing = [
        (stem, facts)
        for stem, facts in CONTRADICTIONS
        if not any(all(fact in note for fact in facts) for note in load(stem).notes)
    ]
    assert missing == []


def test_descriptions_name_columns_of_the_table():
    for stem, table in DESCRIBED.items():
        columns = list(printed(stem).columns)
        assert set(table) in (KEYS, KEYS | {"unprinted"}), stem
        labels = list(printed(stem)[table["label"]])
        for key, facts in table.get("unprinted", {}).items():
            assert key not in columns, stem
            assert sorted(facts) == sorted(labels), (stem, key)
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column) for column in columns), stem
        assert columns[0] == table["label"], stem
        assert set(table["scores"]) <= set(columns) - {table["label"]}, stem
        assert list(table["higher_is_better"]) == table["scores"], stem
        assert all(value in (True, False, None) for value in table["higher_is_better"].values()), (
            stem
        )
        for derived in table["derived"]:
            assert {derived["column"], *derived["of"]} <= set(table["scores"]), stem
        for text in ("paper", "where", "what", "best"):
            assert table[text].strip(), (stem, text)
        assert re.fullmatch(r"Table \d+|leaderboard of \w+ \d{4}", table["table"]), stem
        assert stem.endswith(table["table"].partition(" of ")[0].replace("Table ", "_table")), stem


def test_scores_are_decimals_from_0_to_100():
    wrong = []
    for stem, table in DESCRIBED.items():
        may_be_empty = any("empty where" in note for note in table["notes"])
        for column in table["scores"]:
            wrong += [
                (stem, column, cell)
                for cell in printed(stem)[column]
                if not (
                    re.fullmatch(r"\d+\.\d+", cell) and float(cell) <= 100 if cell else may_be_empty
                )
            ]
    assert wrong == []


def test_rows_have_a_unique_label_and_cells_no_stray_signs():
    for stem, table in DESCRIBED.items():
        text = printed(stem)
        assert text[table["label"]].str.len().min() > 0, stem
        cells = {cell for row in text.values for cell in row}
        assert {
            cell for cell in cells if cell != cell.strip() or re.search(r"[<*\[%]", cell)
        } == set(), stem
        names = [column for column in ("model", "group", "vlm", table["label"]) if column in text]
        assert not text.duplicated(list(dict.fromkeys(names))).any(), stem


def test_derived_columns_have_the_stated_digits():
    wrong = [
        (stem, derived["column"], cell)
        for stem, table in DESCRIBED.items()
        for derived in table["derived"]
        for cell in printed(stem)[derived["column"]]
        if -Decimal(cell).as_tuple().exponent != derived["decimals"]
    ]
    assert wrong == []


def test_derived_columns_are_correct_except_for_the_listed_exceptions():
    listed = {
        stem: sorted(
            (e["row"], e["column"], e["printed"], e["computed"]) for e in table["exceptions"]
        )
        for stem, table in DESCRIBED.items()
    }
    assert {stem: sorted(deviations_in(stem)) for stem in DESCRIBED} == listed


def test_notes_name_every_exception():
    unnamed = [
        (stem, exception)
        for stem, table in DESCRIBED.items()
        for exception in table["exceptions"]
        if not any(
            all(str(exception[key]) in note for key in ("row", "column", "printed", "computed"))
            for note in table["notes"]
        )
    ]
    assert unnamed == []


def test_loaded_rows_equal_the_file():
    for stem, described in DESCRIBED.items():
        text, table = printed(stem), load(stem)
        assert (table.stem, table.label, table.columns) == (
            stem,
            described["label"],
            tuple(text.columns),
        )
        assert [list(row.values()) for row in table.printed] == text.values.tolist(), stem
        numbers = {
            column
            for column in text
            if not any(re.search(r"[^\d.]", cell) for cell in text[column])
        }
        assert numbers >= set(described["scores"]) == set(table.higher_is_better), stem
        assert set(table.decimals) == numbers, stem
        for column in text:
            expected = [
                float(cell) if cell and column in numbers else cell or None for cell in text[column]
            ]
            assert [row[column] for row in table.rows] == expected, (stem, column)


def test_loaded_decimals_are_the_printed_ones():
    for stem, table in DESCRIBED.items():
        for column, decimals in load(stem).decimals.items():
            printed_decimals = {
                len(cell.partition(".")[2]) for cell in printed(stem)[column] if cell
            }
            assert decimals in printed_decimals, (stem, column)
            is_noted = any(column in note and "decimals" in note for note in table["notes"])
            assert (len(printed_decimals) > 1) == is_noted, (stem, column)


def test_the_main_score_is_a_score():
    assert [stem for stem in DESCRIBED if load(stem).main not in load(stem).higher_is_better] == []


def test_an_unknown_table_is_an_error_that_lists_the_tables():
    with pytest.raises(ValueError, match=r"published: .*'table2'.* table1, table3, table4"):
        load("egoplan_table2")


EXTRA = (Column("low", "Low", 2), Column("questions", "Questions"))


def table(run_rows, stem="egoplan_table1", extra=EXTRA, **options):
    return published_with_runs("Title", load(stem), run_rows, extra, **options)


def column(published_table, key):
    index = [field.key for field in published_table.columns].index(key)
    return [row.values[index] for row in published_table.rows]


def marked(published_table, key):
    """Return the names of the rows with the best and second best values of a column."""
    index = [field.key for field in published_table.columns].index(key)
    marks = published_table.marks().items()
    return {
        mark: published_table.rows[row].values[0]
        for (row, column), mark in marks
        if column == index
    }


def test_without_runs_the_table_is_as_in_the_paper():
    # The only number with more digits than the other numbers in its column.
    rounded = {("egothink_table11", "18.06"): "18.1"}
    for stem, path in FILES.items():
        with path.open(encoding="utf-8", newline="") as lines:
            head, *printed_rows = csv.reader(lines)
        published_table = table((), stem)
        assert [field.key for field in published_table.columns] == head, stem
        assert not any(row.is_ours for row in published_table.rows), stem
        texts = [
            [
                show(value, field.decimals)
                for value, field in zip(row.values, published_table.columns, strict=True)
            ]
            for row in published_table.rows
        ]
        expected = [
            [rounded.get((stem, cell), cell) or "\u2013" for cell in row] for row in printed_rows
        ]
        assert texts == expected, stem


def test_headings_are_different_words():
    for stem in DESCRIBED:
        titles = [field.title for field in table((), stem).columns]
        assert len(set(titles)) == len(titles), stem
        assert all(title[0].isupper() and "_" not in title for title in titles), stem


def test_own_rows_are_above_the_published_ones_best_first():
    run_rows = [
        {"model": "middling", "acc": 28.0},
        {"model": "best", "acc": 99.0},
        {"model": "worst", "acc": 0.5},
    ]
    combined = table(run_rows)
    scores = column(combined, "acc")
    assert scores[:3] == [99.0, 28.0, 0.5]
    assert scores[3:] == sorted(scores[3:], reverse=True)
    assert len(scores) == 31
    names = column(combined, "model")
    assert names[:3] == ["best", "middling", "worst"]
    assert {name for name, row in zip(names, combined.rows, strict=True) if row.is_ours} == {
        "middling",
        "best",
        "worst",
    }


def test_best_and_second_best_include_published_and_own_rows():
    combined = table([{"model": "mine", "acc": 37.99}])
    assert marked(combined, "acc") == {"best": "mine", "second": "GPT-4V"}


def test_a_row_over_other_data_is_in_a_separate_table_and_never_marked():
    run_rows = [
        {"model": "easy", "acc": 99.0, "apart": ("other data", "in part")},
        {"model": "mine", "acc": 37.99},
    ]
    combined = table(run_rows)
    assert marked(combined, "acc") == {"best": "mine", "second": "GPT-4V"}
    comparable, incomparable = combined.parted()
    assert column(comparable, "model")[:2] == ["mine", "GPT-4V"]
    incomparable = filled(incomparable)
    assert [field.key for field in incomparable.columns] == ["model", "acc", "why"]
    assert [row.values for row in incomparable.rows] == [("easy", 99.0, "other data; in part")]
    assert (incomparable.key, incomparable.title) == (
        "egoplan_table1_apart",
        "Not comparable: title",
    )
    assert table(run_rows[1:]).parted() == [table(run_rows[1:])]


@pytest.mark.parametrize(
    ("low", "high", "ranks"),
    [
        (27.0, 29.0, (8, 17)),
        (38.5, 60.0, (1, 1)),
        (1.0, 2.0, (29, 29)),
        (37.98, 60.0, (1, 1)),
        (1.0, 99.0, (1, 29)),
    ],
)
def test_the_rank_of_an_own_row_is_among_the_published_rows(low, high, ranks):
    published = [float(row["acc"]) for row in load("egoplan_table1").rows]
    first, last = (1 + sum(score > end for score in published) for end in (high, low))
    if ranks[0] in (1, 29):
        assert (first, last) == ranks
    rows = [{"model": "mine", "acc": (low + high) / 2, "low": low, "high": high}]
    text = str(first) if first == last else f"{first} to {last}"
    combined = table(rows, extra=(*EXTRA, Column("high", "High", 2)))
    assert column(combined, "would_stand")[0] == f"{text} of {len(published) + 1}"
    assert set(column(combined, "would_stand")[1:]) == {None}
    assert any(note.startswith("Would rank: ") for note in combined.notes)


def test_without_an_interval_there_is_no_rank():
    for run_row in (
        {"acc": 30.0},
        {"acc": 30.0, "low": None, "high": None},
        {"low": 29.0, "high": 31.0},
    ):
        combined = table([{"model": "mine"} | run_row], extra=(*EXTRA, Column("high", "High", 2)))
        assert "would_stand" not in [field.key for field in combined.columns]


def test_rows_without_the_main_score_come_last():
    run_rows = [
        {"model": "none", "acc": None},
        {"model": "nan", "acc": math.nan},
        {"model": "absent"},
    ]
    combined = table(run_rows)
    assert column(combined, "model")[:3] == ["none", "nan", "absent"]
    assert column(combined, "acc")[:3] == [None, None, None]


def test_only_own_rows_fill_further_columns():
    combined = table([{"model": "mine", "acc": 30.0, "low": 29.0, "questions": 3298}])
    assert combined.columns[-2:] == EXTRA
    filled = [row.values[-2:] for row in combined.rows if row.is_ours]
    assert filled == [(29.0, 3298)]
    assert all(row.values[-2:] == (None, None) for row in combined.rows if not row.is_ours)


def test_tables_can_be_sorted_by_another_score():
    run_rows = [{"model": "mine", "lcs": 99.0, "norm_lcs": 0.5}]
    assert column(table(run_rows, "actplan_table4"), "model")[0] == "mine"
    second = {"model": "other", "lcs": 1.0, "norm_lcs": 0.6}
    assert column(table([*run_rows, second], "actplan_table4", main="norm_lcs"), "model")[:2] == [
        "other",
        "mine",
    ]
    assert column(table([*run_rows, second], "actplan_table4"), "model")[:2] == ["mine", "other"]


def test_tables_are_sorted_by_averages_and_totals():
    main = {stem: load(stem).main for stem in DESCRIBED}
    assert main["egoplan_table3"] == "all"
    assert main["egothink_table3"] == "average"
    assert main["egointent_table3"] == "overall"
    assert main["actplan_table3"] == "total_correctness"
    assert main["egoplan_table1"] == "acc"


def test_source_and_notes_name_the_origin_of_the_numbers():
    combined = table([{"model": "mine", "acc": 30.0}], notes=("Other frames.",))
    assert combined.source == "EgoPlan-Bench, Table 1, and the runs"
    published_table = load("egoplan_table1")
    assert combined.notes == (published_table.what, "Other frames.", *published_table.notes)
    assert table(()).source == "EgoPlan-Bench, Table 1"


@pytest.mark.parametrize(
    "row", [{"acc": 30.0}, {"model": "", "acc": 30.0}, {"model": "mine", "accuracy": 30.0}]
)
def test_a_value_without_column_and_a_row_without_name_are_errors(row):
    with pytest.raises(
        ValueError,
        match="egoplan_table1: expected model and any of model, llm, acc, low, questions",
    ):
        table([row])
