"""The rules for all tables: nothing empty, and what rows share is stated once."""

from dataclasses import replace

from lmms_egoplan.report.tables import (
    Column,
    Row,
    Table,
    condensed,
    csv_of,
    filled,
    markdown_of,
    share_notes,
)

COLUMNS = (
    Column("group", "Dimension"),
    Column("run", "Run"),
    Column("score", "Score", decimals=1, note="Score: of 100."),
    Column("low", "Low", decimals=1, end_of="score", note="Low: end of the interval."),
    Column("judge", "Judge", is_condition=True),
    Column("prompts", "Prompts", is_condition=True),
    Column("problem", "No value"),
)
NAN = float("nan")


def rows(*values):
    return tuple(Row(row, is_ours=True) for row in values)


def table(*values):
    return Table("key", "Title", COLUMNS, rows(*values), notes=("A note.",))


def test_rows_and_columns_without_values_are_dropped_and_named():
    result = filled(
        table(
            ("counting", "A", 0.0, None, "j", "p", ""),
            ("counting", "B", None, NAN, None, None, ""),
            ("spatial", "B", None, None, None, None, "no reply"),
            ("spatial", "C", NAN, None, "", "", None),
        )
    )
    assert [column.key for column in result.columns] == [
        *("group", "run", "score", "judge", "prompts", "problem"),
    ]
    assert [row.values[:2] for row in result.rows] == [("counting", "A"), ("spatial", "B")]
    assert result.notes == ("A note.", "Score: of 100.", "No values: counting, B; spatial, C.")
    assert filled(result) == result
    assert filled(table(("counting", "A", None, None, None, None, None))).rows == ()


def test_published_rows_need_a_value_after_their_name():
    published = replace(
        table(("counting", "A", 1.0, None, None, None, None)),
        rows=(Row(("GPT-4V", "text", None, None, None, None, None)), Row(("none", *[None] * 6))),
        role="published",
    )
    assert [row.values for row in filled(published).rows] == [("GPT-4V", "text")]


def test_conditions_that_rows_share_are_stated_once():
    long = table(
        ("counting", "A", 1.0, 0.5, "j", "p", None),
        ("counting", "B", 2.0, 0.5, "j", "q", None),
        ("spatial", "A", 3.0, 0.5, "j", "p", None),
        ("spatial", "B", 4.0, 0.5, "j", "q", None),
    )
    short = condensed(filled(long))
    assert [column.key for column in short.columns] == ["group", "run", "score", "low"]
    assert short.notes[:2] == ("Prompts: p (A); q (B).", "In all rows: Judge = j.")
    assert "Prompts: p (A); q (B)." in markdown_of(filled(long))
    assert csv_of(filled(long)).count(",j,") == 4
    differing = (*long.rows, *rows(("compare", "A", 5.0, 0.5, "j", "q", None)))
    assert "prompts" in [column.key for column in condensed(replace(long, rows=differing)).columns]
    mixed = replace(long, rows=(*long.rows[:1], Row(("GPT-4V", "", 9.0, None, None, None, None))))
    assert "In all rows of runs: Judge = j; Prompts = p." in condensed(mixed).notes
    single = filled(replace(long, rows=long.rows[:1]))
    assert condensed(single) == single


def test_reasons_are_stated_once_with_their_runs():
    published = replace(
        table(),
        columns=(Column("model", "Model"), Column("score", "Score", decimals=1)),
        rows=(
            Row(("A", 1.0), is_ours=True, why="other data; scripted"),
            Row(("B", 2.0), is_ours=True, why="other data"),
            Row(("GPT-4V", 3.0)),
        ),
        role="published",
    )
    comparable, apart = map(filled, published.parted())
    assert [row.values for row in comparable.rows] == [("GPT-4V", 3.0)]
    assert [row.values[-1] for row in apart.rows] == ["other data; scripted", "other data"]
    assert condensed(apart).notes == (
        "Not comparable with the published rows: other data (all rows); scripted (A).",
    )
    assert [row.values for row in condensed(apart).rows] == [("A", 1.0), ("B", 2.0)]


def test_notes_of_several_tables_are_shared():
    first = table(("counting", "A", 1.0, None, None, None, None))
    second = replace(first, key="second", notes=("A note.", "Another."))
    tables, shared = share_notes([first, second])
    assert shared == ("A note.",)
    assert [one.notes for one in tables] == [(), ("Another.",)]
