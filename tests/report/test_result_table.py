"""The table of results: its columns, marks and footnotes."""

import csv
import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.report.document import Difference, Headline, Section
from lmms_egoplan.report.result_table import formatted, result_table


def line(run, value, interval=(0.0, 100.0), **fields):
    settings = {"is_main": True, "protocol": "task, version 1"} | fields
    return Headline(run, "Bench", "task", "accuracy", value, 1, interval, 700, 1.0, **settings)


def pair(first, second, value, low, high, **fields):
    return Difference(first, second, "task", value, low, high, 700, 9, 5, **fields)


def section(*lines, pairs=(), key="bench", title="Bench"):
    return Section(key, title, "", lines, differences=tuple(pairs))


def standings(result):
    return {
        row.model: [cell.standing if cell else None for cell in row.cells] for row in result.rows
    }


def footnotes_of(result, model):
    """Return the texts of the footnotes of a model's cells and of their columns."""
    (row,) = (row for row in result.rows if row.model == model)
    texts = []
    for column, cell in zip(result.columns, row.cells, strict=True):
        if cell is not None:
            texts += [result.footnotes[n - 1] for n in (*column.footnotes, *cell.footnotes)]
    return texts


def test_no_main_score_makes_no_table():
    assert result_table([]) is None
    assert result_table([section(line("A", 1.0, is_main=False))]) is None


def test_only_a_real_difference_is_below_the_best():
    lines = [line(name, value) for name, value in zip("ABCDE", (50, 49, 40, 30, 50), strict=True)]
    pairs = [
        pair("B", "A", -1.0, -3.0, 1.0),
        pair("A", "C", 10.0, 6.0, 14.0),
        pair("A", "D", 20.0, None, None, no_interval="few"),
    ]
    result = result_table([section(*lines, pairs=pairs)])
    assert standings(result) == {
        "A": ["best"], "B": ["tied"], "C": ["below"], "D": ["unknown"], "E": ["best"],
    }  # fmt: skip
    assert all(mark in result.legend for mark in "*≈?")


def test_a_higher_score_that_is_beaten_on_the_same_questions_is_not_the_best():
    lines = [line("Trial", 77.5), line("Whole", 51.5), line("Worst", 20.0)]
    pairs = [
        pair("Trial", "Whole", -21.0, -28.0, -14.0),
        pair("Whole", "Worst", 30.0, 20.0, 40.0),
        pair("Trial", "Worst", 9.0, 1.0, 17.0),
    ]
    result = result_table([section(*lines, pairs=pairs)])
    assert standings(result) == {"Trial": ["below"], "Whole": ["best"], "Worst": ["below"]}
    (text,) = footnotes_of(result, "Trial")
    assert all(fact in text for fact in ("Trial", "Whole", "700 questions"))


def test_a_single_score_has_no_mark():
    result = result_table([section(line("A", 50.0), line("B", None))])
    assert standings(result) == {"A": ["alone"], "B": ["alone"]}
    assert result.legend == ""
    assert footnotes_of(result, "A") == []
    (text,) = footnotes_of(result, "B")
    assert text.startswith("No score")
    markdown = formatted(result, "md")
    assert "| B | \u2013¹ |" in markdown


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=6), st.data())
def test_scores_share_a_column_only_under_one_protocol(protocols, data):
    lines = [
        line(f"M{number}", float(number), protocol=f"task, judge {protocol}")
        for number, protocol in enumerate(protocols)
    ]
    main = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    lines = [replace(x, is_main=is_main) for x, is_main in zip(lines, main, strict=True)]
    result = result_table([section(*lines)])
    shown = {x.protocol for x in lines if x.is_main}
    if not shown:
        assert result is None
        return
    assert [column.protocol for column in result.columns] == [
        *dict.fromkeys(x.protocol for x in lines if x.is_main)
    ]
    cells = {
        (row.model, column.protocol): cell.headline.value
        for row in result.rows
        for column, cell in zip(result.columns, row.cells, strict=True)
        if cell is not None
    }
    assert cells == {(x.run, x.protocol): x.value for x in lines if x.protocol in shown}
    titles = [column.title for column in result.columns]
    keys = [column.key for column in result.columns]
    assert len(set(titles)) == len(titles)
    assert len(set(keys)) == len(keys)
    if len(titles) > 1:
        assert all(
            f"judge {column.protocol[-1]}" in column.title and "task" not in column.title
            for column in result.columns
        )


def test_a_reason_is_stated_once_and_on_the_column_if_all_share_it():
    demo = ("rendered scenes",)
    lines = (line("A", 50.0, apart=demo), line("B", 40.0, apart=(*demo, "scripted replies")))
    other = (replace(x, benchmark="Other") for x in lines)
    result = result_table([section(*lines), section(*other, key="other", title="Other")])
    shared, own = result.footnotes
    assert shared.endswith("rendered scenes.")
    assert own.endswith("scripted replies.")
    assert [column.footnotes for column in result.columns] == [(1,), (1,)]
    assert footnotes_of(result, "A") == [shared, shared]
    assert footnotes_of(result, "B") == [shared, own, shared, own]
    markdown = formatted(result, "md")
    assert markdown.count("rendered scenes") == markdown.count("scripted replies") == 1


def test_what_a_score_lacks_is_a_footnote():
    lines = (
        line("A", 50.0, truncated=0.25),
        line("B", 40.0, None, no_interval="6 videos, fewer than 10"),
        line("C", 30.0, remarks=("The model has no chat template.",)),
    )
    pairs = [pair("A", "B", 10.0, 5.0, 15.0, why="different decoding")]
    result = result_table([section(*lines, pairs=pairs)])
    (truncated,) = footnotes_of(result, "A")
    assert truncated.replace("\u202f", " ") == "Truncated answers: A 25.0 %."
    assert footnotes_of(result, "B") == [
        truncated,
        "No interval: 6 videos, fewer than 10.",
        "B and A are not comparable: different decoding.",
    ]
    assert footnotes_of(result, "C") == [truncated, "The model has no chat template."]
    assert standings(result)["B"] == ["unknown"]


def test_two_scores_of_one_checkpoint_have_their_difference():
    lines = (
        line("A (monday)", 50.0, checkpoint="x"),
        line("A (friday)", 52.5, checkpoint="x"),
        line("B", 10.0, checkpoint="y"),
        line("C", 10.0),
        line("D", 10.0),
    )
    result = result_table([section(*lines, pairs=[pair("A (monday)", "A (friday)", -2.5, -4, 1)])])
    (text,) = footnotes_of(result, "A (monday)")
    assert footnotes_of(result, "A (friday)") == [text]
    assert "A (friday) minus A (monday): 2.5 (95\u202f% interval \u22121.0 to 4.0)" in text
    assert all(footnotes_of(result, name) == [] for name in "BCD")


def test_all_forms_have_the_same_scores():
    lines = (line("A_1", 50.04, (45.0, 55.0)), line("B", 0.0, None, no_interval="no samples"))
    second = section(replace(lines[0], task="other"), key="other", title="Other")
    result = result_table([section(*lines), second])
    markdown = formatted(result, "md").splitlines()
    assert [text for text in markdown if text.startswith(("| A", "| B"))] == [
        "| A_1 | 50.0 (45.0\u201355.0)\\* | 50.0 (45.0\u201355.0) |",
        "| B | 0.0?¹ | \u2013 |",
    ]
    latex = formatted(result, "latex").splitlines()
    body = latex[latex.index(r"\midrule") + 1 : latex.index(r"\bottomrule")]
    assert body == [
        r"A\_1 & 50.0{*} & 50.0 \\",
        r" & 45.0--55.0 & 45.0--55.0 \\",
        r"B & 0.0?\textsuperscript{1} & -- \\",
        r" &  &  \\",
    ]
    rows = list(csv.DictReader(io.StringIO(formatted(result, "csv"))))
    assert [(row["model"], row["task"], row["task_low"], row["other"]) for row in rows] == [
        ("A_1", "50.04", "45.0", "50.04"),
        ("B", "0.0", "", ""),
    ]
