"""Summary, tables and figures of the page in a browser."""

import re
import zlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lmms_egoplan.report.charts import svg_of
from lmms_egoplan.report.document import ShownAnswer
from lmms_egoplan.report.page import write_page
from lmms_egoplan.report.result_table import result_table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.tables import Column, Row, Table, csv_of, show
from lmms_egoplan.text import percent
from patience import processor_time_below
from report.two_models import LONG, RUNS, SECTIONS, SHORT, figure, plan_item


def column(page, table: str, number: int) -> list[str]:
    return [
        text.strip()
        for text in page.locator(
            f"#table-{table} tbody tr > :nth-child({number})"
        ).all_inner_texts()
    ]


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    """Write the page without questions and return its text."""
    out = tmp_path_factory.mktemp("html")
    write_page(out, SECTIONS, [], RUNS, ("results/old: killed, no results file",))
    return (out / "index.html").read_text(encoding="utf-8").replace("<wbr>", "")


def cells(part):
    """Return the content of each cell in each row of the table in a part of the page."""
    body = part.partition("<tbody>")[2].partition("</tbody>")[0]
    return [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("</tr>")[:-1]
    ]


def table_in(html, key):
    return html.partition(f' id="table-{key}">')[2].partition("</figure>")[0]


def texts(cell):
    """Return the texts of a cell, without its tags."""
    return [text.strip() for text in re.split("<[^>]*>", cell) if text.strip()]


def test_the_page_begins_with_the_table_of_results(html):
    results = result_table(SECTIONS)
    first_table = html.partition("<table")[2].partition("</table>")[0]
    expected = []
    for row in results.rows:
        texts_of_row = [[row.model]]
        for column, cell in zip(results.columns, row.cells, strict=True):
            texts_of_row.append(["\u2013"] if cell is None else texts_of(column, cell))
        expected.append(texts_of_row)
    assert [[*map(texts, row)] for row in cells(first_table)] == expected
    heads = re.findall("<button[^>]*>([^<]*)", first_table)
    assert heads == ["Model", *(column.section.title for column in results.columns)]
    footer = first_table.partition("<tfoot>")[2]
    rows = [
        [*map(texts, re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row))] for row in footer.split("<tr>")
    ]
    assert rows[1:] == [
        [["Best published"], ["37.90", "GPT-4V"], ["\u2013"]],
        [["Chance"], ["25.00"], ["\u2013"]],
        [["Questions"], ["3,298 to 3,355"], ["700"]],
    ]
    for text in results.footnotes:
        assert html.count(f"<li>{text}</li>") == 1
    assert "results/old: killed, no results file" in html.partition("</section>")[0]


def texts_of(column, cell):
    """Return the texts of a cell of the table of results."""
    score = show(cell.headline.value, column.decimals)
    numbers = [",".join(map(str, sorted(cell.footnotes)))] if cell.footnotes else []
    if cell.headline.interval is None:
        return [score, *numbers, "no interval"]
    low, high = (show(end, column.decimals) for end in cell.headline.interval)
    return [score, *numbers, f"{low} to {high}"]


def test_the_chart_of_a_benchmark_has_its_scores_and_says_what_is_missing(html):
    chart = html.partition('id="scores-egoplan"')[2].partition("</figure>")[0]
    first, second = [[*map(texts, row)] for row in cells(chart)]
    assert first == [[LONG], ["41.52", "no interval: no samples"], [], ["3,355"]]
    assert second == [
        [SHORT, "98.3\u202f% covered"], ["37.98", "36.31 to 39.66"], [], ["3,298"]
    ]  # fmt: skip
    assert "chance 25.00" in chart
    assert "GPT-4V, Table 1: 37.90" in chart
    others = html.partition("Other tasks")[2].partition("</figure>")[0]
    written, unscored = [[*map(texts, row)] for row in cells(others) if len(row) > 1]
    assert written[0] == [LONG, "truncation unknown"]
    assert unscored[0][1].endswith("30.0\u202f% truncated of 51 answers whose length is known")
    assert unscored[1] == ["\u2013", "no score"]


def test_published_scores_are_under_the_task_that_they_belong_to(html):
    published = html.partition('<details class="more" id="published">')[2].partition("</details>")[
        0
    ]
    rows = [[*map(texts, row)] for row in cells(published)]
    own = [row[0][0] for row in rows if row[-1] == ["own"]]
    assert own == [SHORT, LONG]
    assert rows[2:] == [
        [["GPT-4V"], ["37.90"], ["EgoPlan-Bench, Table 1"]],
        [["AnyMAL"], ["24.1"], ["A ledger", "frames: 8"]],
    ]


def test_a_table_marks_own_rows_best_and_second_best(html):
    table = table_in(html, "egoplan_table1")
    rows = cells(table)
    assert table.count('<tr class="own">') == 2
    assert [texts(row[0])[1:] for row in rows] == [[], [], [], [], ["own"], ["own"]]
    assert [re.findall(r"<(strong|u)\b", row[2]) for row in rows] == [
        [],
        [],
        ["u"],
        [],
        ["u"],
        ["strong"],
    ]
    assert [texts(row[2])[0] for row in rows[-2:]] == ["37.98", "41.52"]
    assert 'title="no value"' in rows[2][3]
    assert texts(rows[2][3]) == ["\u2013"]
    assert re.findall('<a href="([^"]*)"', table) == [
        "tables/egoplan_table1.csv",
        "tables/egoplan_table1.md",
    ]


def test_a_table_of_only_own_runs_marks_no_rows(html):
    table = table_in(html, "egoplan_scores")
    assert [texts(row[1]) for row in cells(table)][:2] == [
        ["egoplan_val"],
        ["egoplan_val_generate"],
    ]
    assert "own" not in re.findall(r'class="([^"]*)"', table)
    assert "own-mark" not in table


def test_the_ends_of_an_interval_are_below_their_value(tmp_path):
    columns = (
        Column("run", "Run"),
        Column("low", "Low", 1, None, "acc"),
        Column("acc", "Accuracy", 2, True),
    )
    columns += (
        Column("n", "n"),
        Column("high", "High", 1, None, "acc"),
        Column("other_low", "Other low", 1, None, "x"),
    )
    rows = (Row(("a", 30.25, 40.126, 7, 50.0, 1.5)), Row(("b", None, 41.0, 8, None, 2.5)))
    table = Table("shown", "Shown", columns, rows)
    assert table.intervals() == {2: (1, 4)}
    write_page(tmp_path, [replace(SECTIONS[0], tables=(table,))], [], [], ())
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    (html,) = re.findall('<table class="sortable".*?</table>', page, re.DOTALL)
    assert re.findall("<button[^>]*>(.*?)</button>", html) == ["Run", "Accuracy", "n", "Other low"]
    first, second = (
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in html.split("<tr>")[2:]
    )
    assert re.sub("<[^>]*>", "|", first[1]).split() == ["|40.13||30.2", "to", "50.0|"]
    assert [len(first), len(second), re.sub("<[^>]*>", "", second[1]).strip()] == [4, 4, "41.00"]
    assert csv_of(table).splitlines()[0] == "run,low,acc,n,high,other_low,own"


@pytest.mark.nightly
def test_p_values_are_0_only_if_exactly_0(tab):
    assert column(tab, "egoplan_scores", 11)[:3] == ["0.0000", "<0.0001", "0.0001"]
    assert column(tab, "egoplan_scores", 12)[:3] == ["1.0000", "<0.0001", "0.0312"]
    tab.locator("#table-egoplan_scores thead th:nth-child(11) button").click()
    assert column(tab, "egoplan_scores", 11)[::2] == ["0.0001", "<0.0001", "0.0000"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "tab",
    [{"viewport": {"width": width, "height": 900}} for width in (1440, 400)],
    indirect=True,
    ids=["1440", "400"],
)
def test_no_word_is_broken_in_a_table(tab):
    broken = """() => {
        const texts = [...document.querySelectorAll("main table .name")]\
.flatMap((name) => [...name.childNodes]);
        const words = texts.filter((text) => text.data).flatMap(
            (text) => [...text.data.matchAll(/[^\\s\\-]+/g)]\
.map((word) => [text, word.index, word[0]]));
        return words.filter(([text, start, word]) => {
            const range = document.createRange();
            range.setStart(text, start);
            range.setEnd(text, start + word.length);
            return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
        }).map(([, , word]) => word);
    }"""
    assert tab.evaluate(broken) == []


@pytest.mark.nightly
def test_rows_of_a_wide_table_are_at_most_two_lines_high(tab):
    measured = tab.locator("#table-egoplan_scores tbody tr").evaluate_all(
        "rows => rows.map((row) => [row.getBoundingClientRect().height, "
        "parseFloat(getComputedStyle(row).lineHeight)])"
    )
    assert len(measured) == 6
    assert all(height < 3 * line for height, line in measured)


@pytest.mark.nightly
def test_a_column_sorts_with_missing_values_last_and_back(tab):
    before = column(tab, "egoplan_table1", 4)
    head = tab.locator("#table-egoplan_table1 thead th:nth-child(4)")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert column(tab, "egoplan_table1", 4) == [
        "43.25",
        "39.01",
        "28.40",
        "25.90",
        "22.50",
        "\u2013",
    ]
    head.locator("button").focus()
    tab.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(tab, "egoplan_table1", 4) == [
        "22.50",
        "25.90",
        "28.40",
        "39.01",
        "43.25",
        "\u2013",
    ]
    tab.keyboard.press("Space")
    assert head.get_attribute("aria-sort") is None
    assert column(tab, "egoplan_table1", 4) == before


@pytest.mark.nightly
def test_columns_with_lower_is_better_and_texts_sort_ascending_first(tab):
    tab.locator("#table-egoplan_table1 thead th:nth-child(5) button").click()
    assert column(tab, "egoplan_table1", 5)[:3] == ["3", "12", "\u2013"]
    tab.locator("#table-egoplan_table1 thead th:nth-child(1) button").click()
    assert [name.split()[0] for name in column(tab, "egoplan_table1", 1)][:3] == [
        "AnyMAL",
        "BLIP-2",
        "GPT-4V",
    ]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "tab", [{"viewport": {"width": 1440, "height": 300}}], indirect=True, ids=["low window"]
)
def test_the_head_of_a_table_stays_in_view(tab):
    tab.wait_for_selector("#table-egoplan_table1 .fits")
    last = tab.locator("#table-egoplan_table1 tbody tr").last
    last.evaluate("row => row.scrollIntoView({ block: 'end', behavior: 'instant' })")
    head = tab.locator("#table-egoplan_table1 thead th").first.bounding_box()
    assert head["y"] == pytest.approx(tab.locator(".top").bounding_box()["height"], abs=2)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "tab",
    [
        {"viewport": {"width": w, "height": 900}, "color_scheme": scheme}
        for w in (1440, 400)
        for scheme in ("light", "dark")
    ],
    indirect=True,
    ids=["1440 light", "1440 dark", "400 light", "400 dark"],
)
def test_nothing_overflows_the_page(tab):
    def overflow():
        return tab.evaluate("document.scrollingElement.scrollWidth - innerWidth")

    dark = tab.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    red = int(re.search(r"\d+", tab.evaluate("getComputedStyle(document.body).backgroundColor"))[0])
    assert (red < 60) == dark
    assert overflow() <= 0
    for key in ("egoplan/115", "egothink/existence/1"):
        tab.evaluate(f"location.hash = '#gallery/{key}'")
        tab.locator("dialog[open] #item-body:not([aria-busy])").wait_for()
        assert overflow() <= 0
        assert (
            tab.evaluate(
                "(body => body.scrollWidth - "
                "body.clientWidth)(document.getElementById('item-body'))"
            )
            <= 0
        )
        tab.keyboard.press("Escape")


@pytest.mark.nightly
def test_print_shows_whole_tables_and_no_controls(tab):
    tab.set_viewport_size({"width": 680, "height": 960})
    tab.emulate_media(media="print")
    assert not tab.locator("#filters").is_visible()
    assert not tab.locator("#theme").is_visible()
    cut = (
        "[...document.querySelectorAll('.scroll')].filter((box) => "
        "getComputedStyle(box).overflow !== 'visible').length"
    )
    assert tab.evaluate(cut) == 0
    assert tab.locator("#table-egoplan_table1 table").evaluate(
        "table => table.getBoundingClientRect().right <= innerWidth"
    )
    tab.set_viewport_size({"width": 1000, "height": 680})
    ends = tab.locator("figure.wide table").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().right)"
    )
    assert len(ends) == 2
    assert max(ends) <= 1000


@pytest.mark.nightly
def test_print_breaks_no_word_of_a_column_into_letters(tab):
    tab.set_viewport_size({"width": 1000, "height": 680})
    tab.emulate_media(media="print")
    lines = tab.locator("figure.wide thead th.number button, figure.wide .name").evaluate_all(
        """names => names.map((name) => {
            const range = document.createRange();
            range.selectNodeContents(name);
            const side = name.matches("button") ? "left" : "top";  \
// Headings of numbers are vertical.
            return [name.textContent, new Set(\
[...range.getClientRects()].map((box) => Math.round(box[side]))).size];
        })"""
    )
    assert len(lines) > 20
    assert [text for text, count in lines if len(text) / count < 4 and count > 1] == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    "tab", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True, ids=str
)
def test_a_pdf_has_the_marks_of_the_charts(tab, tmp_path):
    tab.evaluate(
        "document.documentElement.dataset.theme = matchMedia('(prefers-color-scheme: "
        "dark)').matches ? 'dark' : 'light'"
    )
    content = pdf_content(tab, tmp_path / "page.pdf")
    series, own_row = ("#0072b2", "#e9f1f7")  # of the light theme
    assert fills(content, series) > 2
    assert fills(content, own_row) > 2
    assert fills(content, "#1c1f23") == 0  # the dark theme's surface


def pdf_content(tab, path):
    """Print the page and return the drawing operators of the PDF."""
    tab.pdf(path=path, prefer_css_page_size=True)
    streams = re.findall(rb"stream\r?\n(.*?)endstream", path.read_bytes(), re.DOTALL)
    texts = []
    for stream in streams:
        with suppress(zlib.error):
            texts.append(zlib.decompress(stream))
    return b"\n".join(texts).decode("latin-1")


def fills(content, colour):
    """Count how often a colour is set for filling."""
    channels = tuple(int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    colours = re.findall(r"([\d.]+) ([\d.]+) ([\d.]+) rg", content)
    return sum(tuple(map(float, rgb)) == pytest.approx(channels, abs=2e-3) for rgb in colours)


@pytest.mark.nightly
def test_the_theme_can_be_chosen_and_is_stored(tab):
    colour = "getComputedStyle(document.body).backgroundColor"
    system = tab.evaluate(colour)
    tab.click("#theme")
    tab.click("#theme")
    chosen = tab.evaluate(colour)
    assert chosen != system
    tab.reload()
    tab.wait_for_function(f"{colour} === '{chosen}'")


def test_figures_share_no_ids_and_carry_no_styles():
    first, second = svg_of(figure("one")), svg_of(figure("two"))
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (first, second)]
    assert ids[0]
    assert not ids[0] & ids[1]
    used = {*re.findall(r"url\(#([^)]+)\)", first), *re.findall(r'href="#([^"]+)"', first)}
    assert used
    assert used <= ids[0]
    assert "<style" not in first
    assert "metadata" not in first
    assert ">past actions</text>" in first


def test_numbers_are_formatted_for_readers():
    values = ((None, 1), (float("nan"), 1), (-0.04, 1), (-2.25, 2), (3355, None))
    texts = ["\u2013", "\u2013", "0.0", "\u22122.25", "3,355"]
    assert [show(value, decimals) for value, decimals in values] == texts
    assert [show(value, 4, "p_holm") for value in (1e-300, 0.00004, 0.00005, 0.0)] == [
        "<0.0001", "<0.0001", "0.0001", "0.0000"
    ]  # fmt: skip
    assert show(1e-300, 4) == show(-0.00004, 4, "p_value") == "0.0000"
    shares = (0.0, 1e-5, 0.98301, 0.99999, 1.0, 1.2)
    assert [percent(share).replace("\u202f", " ") for share in shares] == [
        "0 %", "< 0.1 %", "98.3 %", "> 99.9 %", "100 %", "100 %"
    ]  # fmt: skip


def test_a_page_of_a_complete_validation_set_is_small(tmp_path):
    names = [f"{LONG}-{number}" for number in range(4)]
    answers = {
        (name, "egoplan_val"): ShownAnswer(
            "wrong", None, (-7.15712345, -7.0161234, -6.7451234, -8.2341234), 1
        )
        for name in names
    }
    items = [
        replace(plan_item(number, (True, True)), images=None, answers=answers)
        for number in range(3355)
    ]
    with processor_time_below(30):  # usually 1
        write_page(
            tmp_path, SECTIONS, items, [Run(name, Path(), "", "", "", {}) for name in names], ()
        )
    size = (tmp_path / "index.html").stat().st_size
    assert size < 2**20


def test_a_run_without_answers_in_the_gallery_has_no_link_to_it(tmp_path):
    line = SECTIONS[0].headlines[0]
    items = [replace(plan_item(1, (True, True)), images=None)]
    for headline, leads in (
        (line, True),
        (replace(line, run="Mute"), False),
        (replace(line, task="egoplan_val_generate"), False),
    ):
        write_page(
            tmp_path, [replace(SECTIONS[0], headlines=(headline,), tables=())], items, [], ()
        )
        page = (tmp_path / "index.html").read_text(encoding="utf-8")
        assert ('href="#gallery?benchmark=egoplan&amp;run=' in page) is leads
