"""The page of four runs on all benchmarks in a browser: visible and folded parts, and links of
bars.
"""

import json
import re

import pytest

from axe import flaws, skip_without_axe
from patience import FOREVER_S
from report.conftest import unfold
from report.four_runs import MODELS, QUESTIONS, write_report

NAMES = ["One-7B", "Two-7B", "Three-34B", "Four/checkpoint-200"]
WIDTHS = (1440, 1024, 400)
MOST_WORDS = 3000
MOST_PAGES = 12


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "no-data"))
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(folder / "no-encoder"))
        return write_report(folder)


@pytest.fixture
def tab(browser, out, request):
    """Open the page. Fail on requests to the network and on console messages."""
    context = browser.new_context(
        **({"viewport": {"width": 1440, "height": 900}} | getattr(request, "param", {}))
    )
    page, messages = context.new_page(), []
    page.set_default_timeout(1000 * FOREVER_S)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on(
        "request",
        lambda call: None if call.url.startswith(("file:", "data:")) else messages.append(call.url),
    )
    page.goto((out / "index.html").as_uri())
    yield page
    context.close()
    assert messages == []


def wait_for_count(page, count):
    page.wait_for_function(
        "(text) => document.querySelector('#count').textContent.startsWith(text)",
        arg=f"{count:,} of",
    )


def content(out):
    return json.loads((out / "report.json").read_text(encoding="utf-8"))


@pytest.mark.whole
def test_a_bar_opens_the_gallery_filtered_to_its_questions(tab, out):
    groups = {
        (part["attribute"], group["name"], group["run"]): group["questions"]
        for benchmark in content(out)["benchmarks"]
        for part in benchmark["slices"]
        for group in part["groups"]
    }
    unfold(tab)
    for attribute, name, run in (
        ("source", "Ego4D (out-of-domain)", "Two-7B"),
        ("past actions", "8 to 15", "Three-34B"),
        ("dimension", "spatial", "One-7B"),
        ("scenario", "Make Tea", "Two-7B"),
    ):
        link = tab.locator(f".slice a.plot[aria-label='{name}, {run}: show the questions']").first
        link.evaluate("(link) => link.click()")
        wait_for_count(tab, groups[attribute, name, run])
        assert tab.locator("select[name=run] option:checked").inner_text().endswith(run)
        assert tab.locator(f"[data-fact='{attribute}'] option:checked").inner_text() == name
    tab.locator(
        "#scores-egoplan a.plot[aria-label='Four/checkpoint-200: show the questions']"
    ).first.click()
    wait_for_count(tab, QUESTIONS)
    assert tab.locator("select[name=benchmark]").input_value() == "egoplan"
    tab.wait_for_function("document.querySelector('#gallery').getBoundingClientRect().top < 900")


@pytest.mark.nightly
def test_tokens_of_ranked_answers_are_shown(tab):
    tab.evaluate("location.hash = '#gallery/egoplan/1'")
    heads = tab.locator("#item-body .choices thead th")
    heads.first.wait_for()
    has_counts_by_run = {"One-7B": True, "Two-7B": False}  # lm-eval does not count tokens.
    for name, has_counts in has_counts_by_run.items():
        assert ("360 tokens in, 120 out" in heads.filter(has_text=name).inner_text()) == has_counts


@pytest.mark.nightly
def test_one_attribute_is_shown_at_a_time(tab):
    unfold(tab)
    box = tab.locator("#egothink .slices")
    names = box.locator("select option").all_inner_texts()
    assert names == ["capability", "dimension"]
    for name in names:
        box.locator("select").select_option(label=name)
        assert box.locator("h4:visible").count() == 0
        assert box.locator(".slice:visible thead th").first.inner_text().casefold() == name
        assert box.locator(".slice:visible").count() == 1
    assert box.locator(".slice:visible tbody").count() == 12


@pytest.mark.nightly
def test_the_navigation_marks_the_current_section(tab):
    current = tab.locator(".top nav a[aria-current]")
    assert current.all_inner_texts() == ["Results"]
    for key, title in (
        ("egointent", "EgoIntent"),
        ("actplan", "ActPlan-1K"),
        ("summary", "Results"),
    ):
        tab.evaluate("(id) => document.getElementById(id).scrollIntoView()", key)
        tab.wait_for_function(
            "(title) => document.querySelector('[aria-current]').textContent === title", arg=title
        )
        assert current.count() == 1
        assert tab.locator(".top").evaluate("(top) => top.getBoundingClientRect().top") == 0


@pytest.mark.nightly
def test_a_link_to_a_folded_part_unfolds_it(tab):
    assert not tab.locator("#table-egoplan_table1").is_visible()
    tab.evaluate("location.hash = '#table-egoplan_table1'")
    tab.locator("#table-egoplan_table1").wait_for(state="visible")


@pytest.mark.nightly
def test_a_print_is_short_and_has_the_table_and_every_figure(tab, tmp_path):
    pages = tab.pdf(format="A4").count(b"/Type /Page\n")
    assert 3 < pages <= MOST_PAGES
    tab.emulate_media(media="print")
    assert tab.locator("main details:not(.run)[open]").count() == 0
    assert tab.locator("main details:not(.run):visible").count() == 0
    for part in ("#results", ".scores >> nth=0", "#runs summary >> nth=0", ".on-paper"):
        assert tab.locator(part).first.is_visible()
    assert not tab.locator("#gallery").is_visible()
    drawings = tab.locator(".drawing svg")
    assert drawings.count() > 5
    assert all(drawing.is_visible() for drawing in drawings.all())
    head = tab.locator("#results thead")
    assert head.evaluate("(head) => getComputedStyle(head).display") == "table-header-group"


@pytest.fixture(scope="module", params=[12])
def long_names(tmp_path_factory, request):
    """Write a report on runs with long names."""
    folder = tmp_path_factory.mktemp("long")
    name = "llava-onevision-qwen2-7b-ov-hf_fine-tuned-on-egoplan-it_lora-r64_{}-frames"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "no-data"))
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(folder / "no-encoder"))
        return write_report(
            folder, 60, [f"org/{name.format(number)}" for number in range(request.param)]
        )


@pytest.mark.nightly
def test_everything_fits_a_printed_page(tab):
    check_print(tab)


@pytest.mark.nightly
def test_long_names_fit_a_printed_page(browser, long_names):
    page = browser.new_page()
    page.set_default_timeout(1000 * FOREVER_S)
    page.goto((long_names / "index.html").as_uri())
    check_print(page)
    page.close()


def check_print(tab):
    """Check that everything fits A4 without margins of 15 mm.

    Sections with a wide table are in landscape.
    """
    tab.emulate_media(media="print")
    unfold(tab)
    for millimetres, parts in ((180, "main > section:not(:has(.wide))"), (267, "main > section")):
        width = int(millimetres / 25.4 * 96)
        tab.set_viewport_size({"width": width, "height": 900})
        beyond = tab.locator(f"{parts} >> :is(table, th, td, .name, .note, svg)").evaluate_all(
            """(all, width) => all.filter((one) => one.getBoundingClientRect().right > width + 0.5)
                .map((one) => `${one.closest("[id]").id} ${one.textContent.slice(0, 40)}`)""",
            width,
        )
        assert beyond == []
    # Sections with wide tables that are unfolded are in landscape.
    for parts, millimetres in ((":has(.wide)", 160), (":not(:has(.wide))", 245)):
        heights = tab.locator(f"main > section{parts} .drawing svg").evaluate_all(
            "all => all.map((one) => one.getBoundingClientRect().height)"
        )
        assert max(heights, default=0) < millimetres / 25.4 * 96


@pytest.mark.nightly
def test_figures_are_dark_in_a_dark_theme(tab):
    def colours():
        return tab.evaluate(
            """[...document.querySelectorAll('.drawing')].map((drawing) => {
                const ground = drawing.querySelector('svg g path');
                const text = drawing.querySelector('svg text');  \
// of an axis: texts on cells keep their colour
                return [getComputedStyle(ground).fill, getComputedStyle(text).fill];
            })"""
        )

    def light(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    for scheme, is_dark in (("light", False), ("dark", True)):
        tab.emulate_media(color_scheme=scheme)
        pairs = colours()
        assert len(pairs) > 5
        for ground, text in pairs:
            assert (light(ground) < 150) == is_dark, ground
            assert (light(text) > 450) == is_dark, text


@pytest.mark.nightly
def test_the_unfolded_page_is_short(tab):
    words = tab.evaluate("document.body.innerText.split(/\\s+/).filter(Boolean).length")
    assert 300 < words <= MOST_WORDS


@pytest.mark.nightly
@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_is_on_the_first_screen_and_the_models_stay_visible(tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    table = tab.locator("#results table")
    assert table.locator("tbody tr").last.bounding_box()["y"] < 900
    box = tab.locator("#results .scroll")
    is_cut = table.bounding_box()["width"] > box.bounding_box()["width"] + 1
    cue = "(is_cut) => document.querySelector('#results .cue').hidden !== is_cut"
    tab.wait_for_function(cue, arg=is_cut)
    tab.wait_for_function("(width) => document.documentElement.scrollWidth <= width", arg=width)
    box.evaluate("(box) => { box.scrollLeft = 1000; }")
    for part in tab.locator(
        "#results tbody th .name, .scores:visible :is(.name, .score, a.plot)"
    ).all():
        rectangle = part.bounding_box()
        assert rectangle["x"] >= 0
        assert rectangle["x"] + rectangle["width"] <= width
    unfold(tab)
    ends = "(rows) => rows.map((row) => row.getBoundingClientRect().right)"
    assert max(tab.locator(".slice a.plot, .summary td.rank").evaluate_all(ends)) <= width
    suffix = tab.locator(".slice td[data-n]").first.evaluate(
        "(cell) => getComputedStyle(cell, '::after').content"
    )
    assert suffix.startswith('"n = ') == (width == 400)


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tab, scheme):
    skip_without_axe()
    tab.emulate_media(color_scheme=scheme)
    tab.evaluate(
        "document.querySelectorAll('main details').forEach((part) => { part.open = true; })"
    )
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        assert flaws(tab) == []
        tab.evaluate("location.hash = '#gallery/egothink/existence/1'")
        tab.locator("#item-body .rated").first.wait_for()
        tab.evaluate(
            "document.querySelectorAll('#item-body details').forEach((part) => { "
            "part.open = true; })"
        )
        assert flaws(tab) == []
        tab.click("#item-close")


@pytest.mark.nightly
def test_a_run_with_the_demo_judge_is_named_at_the_top_and_not_compared(tab, out):
    (egothink,) = (part for part in content(out)["benchmarks"] if part["key"] == "egothink")
    assert {score["run"] for score in egothink["scores"] if score["is_demo"]} == {"One-7B"}
    # Only its scores in EgoThink are the demo judge's.
    assert "One-7B (EgoThink)." in tab.locator(".demo").inner_text()
    assert tab.locator(".demo").bounding_box()["y"] < 300
    assert all(
        pair["why"]
        for pair in egothink["differences"]
        if "One-7B" in (pair["first"], pair["second"])
    )
    assert len(egothink["scores"]) == len(MODELS) * 7  # all dimensions, and six capabilities
    # The demo judge's scores share no column with the others.
    heads = tab.locator("#results thead th").all_inner_texts()
    columns = [number for number, head in enumerate(heads, 1) if "EgoThink" in head]
    assert len(columns) == 2
    for number in columns:
        cells = tab.locator(f"#results tbody tr :nth-child({number})").all_inner_texts()
        filled = [name for name, text in zip(NAMES, cells, strict=True) if text.strip() != "\u2013"]
        assert filled in (["One-7B"], NAMES[1:])
