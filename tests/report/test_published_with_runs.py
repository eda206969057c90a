"""Own rows among published ones."""

import csv
import math

import pytest

from lmms_egoplan.report.document import Column
from lmms_egoplan.report.page import show
from lmms_egoplan.report.published_with_runs import published_with_runs
from report.printed_tables import DESCRIBED, FILES, load

EXTRA = (Column("low", "Low", 2), Column("questions", "Questions"))


def table(own, stem="egoplan_table1", extra=EXTRA, **more):
    return published_with_runs("Beside", load(stem), own, extra, **more)


def column(found, key):
    place = [each.key for each in found.columns].index(key)
    return [row.values[place] for row in found.rows]


@pytest.mark.parametrize("stem", DESCRIBED)
def test_published_rows_alone_stand_as_the_paper_prints_them(stem):
    with FILES[stem].open(encoding="utf-8", newline="") as lines:
        head, *printed = csv.reader(lines)
    found = table((), stem)
    assert [each.key for each in found.columns] == head
    assert not any(row.is_own for row in found.rows)
    shown = [
        [show(value, each.decimals) for value, each in zip(row.values, found.columns, strict=True)]
        for row in found.rows
    ]
    # The one number that has more digits than the others of its column.
    rounded = {("egothink_table11", "18.06"): "18.1"}
    assert shown == [[rounded.get((stem, cell), cell) or "\u2013" for cell in row] for row in printed]


@pytest.mark.parametrize("stem", DESCRIBED)
def test_heads_are_words(stem):
    titles = [each.title for each in table((), stem).columns]
    assert len(set(titles)) == len(titles)
    assert all(title[0].isupper() and "_" not in title for title in titles)


def test_own_rows_stand_among_the_published_ones_best_first():
    own = [{"model": "middling", "acc": 28.0}, {"model": "best", "acc": 99.0}, {"model": "worst", "acc": 0.5}]
    found = table(own)
    scores = column(found, "acc")
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 31
    names = column(found, "model")
    assert (names[0], names[-1]) == ("best", "worst")
    assert 1 < names.index("middling") < 29
    assert {name for name, row in zip(names, found.rows, strict=True) if row.is_own} == {"middling", "best", "worst"}


def test_best_and_second_best_are_over_published_and_own_rows():
    found = table([{"model": "mine", "acc": 37.99}])
    place = [each.key for each in found.columns].index("acc")
    marked = {mark: found.rows[index].values[0] for (index, where), mark in found.marks().items() if where == place}
    assert marked == {"best": "mine", "second": "GPT-4V"}


def test_a_row_over_other_data_is_never_marked_best():
    own = [{"model": "easy", "acc": 99.0, "compares": False}, {"model": "mine", "acc": 37.99, "compares": True}]
    found = table(own)
    place = [each.key for each in found.columns].index("acc")
    marked = {mark: found.rows[index].values[0] for (index, where), mark in found.marks().items() if where == place}
    assert marked == {"best": "mine", "second": "GPT-4V"}
    assert column(found, "model")[0] == "easy"
    note = "Own rows that are not over all official questions, or that the demo judge rated, are not marked best."
    assert note in found.notes
    assert note not in table(own[1:]).notes


def test_equal_as_shown_is_equal_and_the_paper_comes_first():
    names = column(table([{"model": "mine", "acc": 37.984}]), "model")
    assert names[:2] == ["GPT-4V", "mine"]


def test_rows_without_the_main_score_come_last():
    own = [{"model": "none", "acc": None}, {"model": "nan", "acc": math.nan}, {"model": "absent"}]
    found = table(own)
    assert column(found, "model")[-3:] == ["none", "nan", "absent"]
    assert column(found, "acc")[-3:] == [None, None, None]


def test_further_columns_are_filled_by_own_rows_alone():
    found = table([{"model": "mine", "acc": 30.0, "low": 29.0, "questions": 3298}])
    assert found.columns[-2:] == EXTRA
    filled = [row.values[-2:] for row in found.rows if row.is_own]
    assert filled == [(29.0, 3298)]
    assert all(row.values[-2:] == (None, None) for row in found.rows if not row.is_own)


def test_another_score_may_come_first():
    own = [{"model": "mine", "lcs": 99.0, "norm_lcs": 0.5}]
    assert column(table(own, "actplan_table4"), "model")[0] == "mine"
    assert column(table(own, "actplan_table4", main="norm_lcs"), "model")[2] == "mine"


def test_averages_and_totals_are_what_tables_are_sorted_by():
    main = {stem: load(stem).main for stem in DESCRIBED}
    assert main["egoplan_table3"] == "all"
    assert main["egothink_table3"] == "average"
    assert main["egointent_table3"] == "overall"
    assert main["actplan_table3"] == "total_correctness"
    assert main["egoplan_table1"] == "acc"


def test_source_and_notes_tell_where_the_numbers_are_from():
    found = table([{"model": "mine", "acc": 30.0}], notes=("Other frames.",))
    assert found.source == "EgoPlan-Bench, Table 1, and the runs"
    told = load("egoplan_table1")
    assert found.notes == (told.what, "Other frames.", *told.notes)
    assert table(()).source == "EgoPlan-Bench, Table 1"


@pytest.mark.parametrize("row", [{"acc": 30.0}, {"model": "", "acc": 30.0}, {"model": "mine", "accuracy": 30.0}])
def test_a_value_for_no_column_and_a_row_without_name_are_errors(row):
    with pytest.raises(ValueError, match="egoplan_table1: expected model and any of model, llm, acc, low, questions"):
        table([row])
