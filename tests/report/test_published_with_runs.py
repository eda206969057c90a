"""Own rows among published ones."""

import csv
import math

import pytest

from lmms_egoplan.report.document import Column
from lmms_egoplan.report.page import show
from lmms_egoplan.report.published import published_with_runs
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


def test_own_rows_stand_above_the_published_ones_best_first():
    own = [{"model": "middling", "acc": 28.0}, {"model": "best", "acc": 99.0}, {"model": "worst", "acc": 0.5}]
    found = table(own)
    scores = column(found, "acc")
    assert scores[:3] == [99.0, 28.0, 0.5]
    assert scores[3:] == sorted(scores[3:], reverse=True)
    assert len(scores) == 31
    names = column(found, "model")
    assert names[:3] == ["best", "middling", "worst"]
    assert {name for name, row in zip(names, found.rows, strict=True) if row.is_own} == {"middling", "best", "worst"}


def test_best_and_second_best_are_over_published_and_own_rows():
    found = table([{"model": "mine", "acc": 37.99}])
    place = [each.key for each in found.columns].index("acc")
    marked = {mark: found.rows[index].values[0] for (index, where), mark in found.marks().items() if where == place}
    assert marked == {"best": "mine", "second": "GPT-4V"}


def test_a_row_over_other_data_is_never_marked_best_and_stands_apart():
    own = [{"model": "easy", "acc": 99.0, "apart": ("other data", "in part")}, {"model": "mine", "acc": 37.99}]
    found = table(own)
    place = [each.key for each in found.columns].index("acc")
    marked = {mark: found.rows[index].values[0] for (index, where), mark in found.marks().items() if where == place}
    assert marked == {"best": "mine", "second": "GPT-4V"}
    kept, apart = found.parted()
    assert column(kept, "model")[:2] == ["mine", "GPT-4V"]
    assert [each.key for each in apart.columns] == ["model", "acc", "why"]
    assert [row.values for row in apart.rows] == [("easy", 99.0, "other data; in part")]
    assert (apart.key, apart.title) == ("egoplan_table1_apart", "Do not compare: beside")
    assert table(own[1:]).parted() == [table(own[1:])]


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(27.0, 29.0, (8, 17)), (38.5, 60.0, (1, 1)), (1.0, 2.0, (29, 29)), (37.98, 60.0, (1, 1)), (1.0, 99.0, (1, 29))],
)
def test_where_an_own_row_would_stand_is_counted_among_the_published_rows(low, high, told):
    published = [float(row["acc"]) for row in load("egoplan_table1").rows]
    first, last = (1 + sum(score > end for score in published) for end in (high, low))
    if told[0] in (1, 29):
        assert (first, last) == told
    rows = [{"model": "mine", "acc": (low + high) / 2, "low": low, "high": high}]
    shown = str(first) if first == last else f"{first} to {last}"
    found = table(rows, extra=(*EXTRA, Column("high", "High", 2)))
    assert column(found, "would_stand")[0] == f"{shown} of {len(published) + 1}"
    assert set(column(found, "would_stand")[1:]) == {None}
    assert any(text.startswith("Would stand: ") for text in found.notes)


def test_without_an_interval_there_is_no_place():
    for own in ({"acc": 30.0}, {"acc": 30.0, "low": None, "high": None}, {"low": 29.0, "high": 31.0}):
        found = table([{"model": "mine"} | own], extra=(*EXTRA, Column("high", "High", 2)))
        assert "would_stand" not in [each.key for each in found.columns]


def test_rows_without_the_main_score_come_last():
    own = [{"model": "none", "acc": None}, {"model": "nan", "acc": math.nan}, {"model": "absent"}]
    found = table(own)
    assert column(found, "model")[:3] == ["none", "nan", "absent"]
    assert column(found, "acc")[:3] == [None, None, None]


def test_further_columns_are_filled_by_own_rows_alone():
    found = table([{"model": "mine", "acc": 30.0, "low": 29.0, "questions": 3298}])
    assert found.columns[-2:] == EXTRA
    filled = [row.values[-2:] for row in found.rows if row.is_own]
    assert filled == [(29.0, 3298)]
    assert all(row.values[-2:] == (None, None) for row in found.rows if not row.is_own)


def test_another_score_may_come_first():
    own = [{"model": "mine", "lcs": 99.0, "norm_lcs": 0.5}]
    assert column(table(own, "actplan_table4"), "model")[0] == "mine"
    second = {"model": "other", "lcs": 1.0, "norm_lcs": 0.6}
    assert column(table([*own, second], "actplan_table4", main="norm_lcs"), "model")[:2] == ["other", "mine"]
    assert column(table([*own, second], "actplan_table4"), "model")[:2] == ["mine", "other"]


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
