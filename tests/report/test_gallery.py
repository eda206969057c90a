"""The gallery in a browser, and its files."""

import io
import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from PIL import Image

from lmms_egoplan.outputs import output_folder, results_of
from lmms_egoplan.report import strips
from lmms_egoplan.report.document import Item, PeoplesRating, ShownAnswer
from lmms_egoplan.report.gallery import write_gallery
from lmms_egoplan.report.page import write_page
from lmms_egoplan.report.strips import strip_name
from lmms_egoplan.report.tables import Column, Row, Table
from report.two_models import (
    HOSTILE,
    LONG,
    RUNS,
    SECTIONS,
    SHOWN_HOSTILE,
    THOUGHT,
    images,
    plan_item,
)

ALL_WRONG = sum(number % 3 != 0 and number % 5 != 0 for number in range(1, 121))
DIFFER = sum((number % 3 == 0) != (number % 5 == 0) for number in range(1, 121))


def count(page) -> str:
    page.locator("#items:not([aria-busy])").wait_for(state="attached")
    return page.locator("#count").inner_text()


@pytest.mark.nightly
def test_the_gallery_filters_by_verdict(tab):
    assert count(tab) == "121 of 121 questions"
    tab.click("[data-show=wrong]")
    assert count(tab) == f"{ALL_WRONG} of 121 questions"
    tab.click("[data-show=differ]")
    assert count(tab) == f"{DIFFER} of 121 questions"
    tab.click("text=Clear filters")
    tab.select_option("[name=verdict]", "p")
    assert count(tab) == "1 of 121 questions"
    tab.select_option("[name=run]", LONG)
    assert count(tab) == "0 of 121 questions"
    tab.select_option("[name=verdict]", "r")
    assert count(tab) == "24 of 121 questions"


@pytest.mark.nightly
def test_the_gallery_filters_by_benchmark_fact_and_text(tab):
    assert tab.locator("#facts select").count() == 0
    tab.select_option("[name=benchmark]", "egoplan")
    assert count(tab) == "120 of 121 questions"
    tab.select_option("[data-fact=source]", "=Ego4D")
    assert count(tab) == "60 of 121 questions"
    assert tab.locator("[data-fact='past actions'] option").all_inner_texts()[:4] == [
        "any",
        "0",
        "1",
        "2",
    ]
    tab.fill("[name=text]", "WASH pan")
    assert count(tab) == "20 of 121 questions"
    tab.select_option("[name=benchmark]", "egothink")
    tab.fill("[name=text]", "</script>")
    assert count(tab) == "1 of 121 questions"


@pytest.mark.nightly
def test_a_question_opens_with_choices_log_probabilities_and_frames(tab):
    tab.fill("[name=text]", "egoplan/115")
    assert count(tab) == "1 of 121 questions"
    tab.click("#items a")
    assert tab.url.endswith("#gallery/egoplan/115?text=egoplan%2F115")
    rows = tab.locator(".choices tbody tr")
    assert " ".join(rows.nth(2).inner_text().split()) == (
        "C. open cupboard right answer chosen by 2 \u22129.500 \u22126.745 chosen"
    )
    assert "chosen" in rows.nth(1).locator("td").nth(0).inner_text()
    bars = rows.locator("td:last-child .bar").evaluate_all(
        "bars => bars.map((bar) => bar.style.getPropertyValue('--length'))"
    )
    assert [round(float(bar.rstrip("%"))) for bar in bars] == [66, 76, 100, 23]
    frames = tab.locator(".frames img")
    frames.first.wait_for()
    assert frames.count() == 12
    assert tab.locator(".frames figcaption").all_inner_texts()[0] == "1 of 35"
    assert tab.locator(".frames figcaption").all_inner_texts()[-1] == "35 of 35, the last"
    tab.wait_for_function(
        "[...document.querySelectorAll('.frames img')].every((image) => "
        "image.naturalWidth === 12 * 320)"
    )
    last = tab.locator(".frames .tile").last
    with Image.open(io.BytesIO(last.screenshot())) as shot:
        pixel = shot.convert("RGB").getpixel((shot.width // 2, shot.height // 2))
    assert max(abs(a - b) for a, b in zip(pixel, images(35)[-1].getpixel((0, 0)), strict=True)) < 12


@pytest.mark.nightly
def test_a_link_to_a_question_opens_it_and_hostile_texts_are_texts(tab, page_folder):
    tab.goto(f"{(page_folder / 'index.html').as_uri()}#gallery/egothink/existence/1")
    tab.reload()
    answer = tab.locator(".rated tbody tr").nth(0)
    answer.wait_for()
    assert answer.locator(".answer .words").text_content() == SHOWN_HOSTILE
    assert tab.locator("dialog .asked").text_content() == SHOWN_HOSTILE
    assert answer.locator(".judgement p").text_content() == "Partly.\nOne half."
    assert "0.5 of 1" in answer.inner_text()
    assert (
        tab.locator(".rated tbody tr").nth(1).locator(".answer").inner_text()
        == "The answer was not logged."
    )
    assert tab.locator("h1").text_content() == "Egocentric planning: runs and published results"
    tab.wait_for_function("document.querySelector('.frames img.only').naturalWidth === 720")


@pytest.mark.nightly
def test_a_link_to_a_missing_question_shows_a_message(tab, page_folder):
    tab.goto(f"{(page_folder / 'index.html').as_uri()}#gallery/egoplan/9999")
    tab.reload()
    assert "egoplan/9999" in tab.locator("#notice").inner_text()
    assert not tab.locator("dialog").is_visible()


@pytest.mark.nightly
def test_a_question_opens_while_another_is_closing(tab):
    tab.evaluate("location.hash = '#gallery/egoplan/3'")
    tab.locator(".choices").wait_for()
    tab.evaluate(
        (
            "dialog => { dialog.close(); location.hash = '#gallery/egoplan/5'; "
            "dialog.dispatchEvent(new Event('close')); }"
        ),
        tab.locator("dialog").element_handle(),
    )
    tab.wait_for_function("document.getElementById('item-key').textContent.endsWith('egoplan/5')")
    assert tab.locator("dialog").is_visible()
    assert tab.url.endswith("#gallery/egoplan/5")


@pytest.mark.nightly
def test_the_gallery_works_with_the_keyboard(tab):
    focused = "document.activeElement.getAttribute('href')"
    tab.keyboard.press("/")
    tab.keyboard.type("Ego4D")
    assert tab.locator("[name=text]").input_value() == "Ego4D"
    assert count(tab) == "60 of 121 questions"
    tab.locator("#count").click()
    tab.keyboard.press("j")
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate(focused) == "#gallery/egoplan/3?text=Ego4D"
    tab.keyboard.press("k")
    assert tab.evaluate(focused) == "#gallery/egoplan/1?text=Ego4D"
    tab.keyboard.press("Enter")
    tab.locator(".choices").wait_for()
    tab.keyboard.press("j")
    assert tab.locator("#item-key").inner_text() == "EgoPlan-Bench: egoplan/3"
    assert tab.url.endswith("#gallery/egoplan/3?text=Ego4D")
    tab.keyboard.press("Escape")
    tab.wait_for_function(f"{focused} === '#gallery/egoplan/3?text=Ego4D'")
    assert not tab.locator("dialog").is_visible()
    for _ in range(24):
        tab.keyboard.press("j")
    assert tab.locator("#page").inner_text() == "Page 2 of 3"
    assert tab.evaluate(focused) == "#gallery/egoplan/51?text=Ego4D"


class Tags(HTMLParser):
    """The tags of a page, with the names of their attributes."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, [name for name, _ in attributes]))


def page_with(folder, text):
    """Write a page that has a text everywhere. Return its tags, and the first file of questions."""
    table = Table("plans", text, (Column("a", text),), (Row((text,)),), text, (text,))
    section = replace(
        SECTIONS[1], title=text, lead=text, tables=(table,), figures=(), remarks=(text,)
    )
    item = replace(
        THOUGHT, question=text, facts={"dimension": text}, images=None, references={text: text}
    )
    write_page(folder, [section], [item], RUNS, (text,))
    return Tags((folder / "index.html").read_text(encoding="utf-8")).tags, (
        folder / "gallery/0.js"
    ).read_text()


def test_hostile_texts_are_no_markup(tmp_path):
    tags, script = page_with(tmp_path / "hostile", HOSTILE)
    assert tags == page_with(tmp_path / "harmless", "harmless")[0]
    assert "<" not in script
    (question,) = json.loads(script[script.index("[") : script.rindex("]") + 1])
    assert question["question"] == SHOWN_HOSTILE
    assert question["references"] == [[SHOWN_HOSTILE, SHOWN_HOSTILE]]


def test_pictures_are_drawn_as_asked_and_reused(tmp_path, monkeypatch):
    def broken():
        raise OSError("no such video")

    monkeypatch.setattr(strips, "SOME", 2)
    # The runs disagree on question 4.
    items = [plan_item(number, (True, number != 4)) for number in range(1, 6)]
    items += [
        replace(items[1], key="egoplan/broken", images=broken),
        replace(items[1], images=None),
    ]
    items += [replace(items[0], key="other/1", benchmark="other")]

    def pictured():
        return {path.name for path in (tmp_path / "gallery" / "images").iterdir()}

    def names(*numbers):
        return {strip_name(items[number - 1]) for number in numbers}

    def gallery(pictures):
        return write_gallery(tmp_path, items, lambda *_: None, pictures)

    assert (gallery("none").pictured, pictured()) == (0, set())
    assert [*gallery("none").missing.values()] == [7, 1]
    some = gallery("some")
    assert (some.pictured, [*some.missing.values()], pictured()) == (3, [4, 1], names(4, 1, 8))
    assert some.pictures.startswith("3 of 8 questions have pictures; 4 were not asked for")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "gallery" / "images").iterdir()}
    whole = gallery("all")
    assert (whole.pictured, [*whole.missing.values()], pictured()) == (
        6,
        [1, 1],
        names(1, 2, 3, 4, 5, 8),
    )
    assert gallery("none").pictured == 6
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


def test_an_interrupted_report_keeps_finished_pictures_and_starts_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(strips, "cpu_count", lambda: 1)
    items = [plan_item(number, (True, True)) for number in range(1, 39)]

    def interrupt(step, done, _):
        if (step, done) == ("pictures", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_gallery(tmp_path, items, interrupt)
    finished = [*(tmp_path / "gallery" / "images").glob("*.jpg")]
    assert 3 <= len(finished) < len(items)
    times = {path: path.stat().st_mtime_ns for path in finished}
    assert write_gallery(tmp_path, items, lambda *_: None).pictured == len(items)
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())


def test_questions_with_the_same_key_have_different_pictures(tmp_path):
    item = plan_item(1, (True, True))
    assert write_gallery(tmp_path, [item], lambda *_: None).pictured == 1
    other = replace(item, question="Another file's question 1?")
    for changed in (replace(other, images=lambda: []), replace(item, images=None)):
        gallery = write_gallery(tmp_path, [changed], lambda *_: None)
        assert gallery.pictured == 0


def test_answers_are_listed_by_task_then_model(tmp_path):
    """The main task comes first, although the first question was not asked in it."""
    disputed = ShownAnswer("partly", "a", people=PeoplesRating("0 of 1", is_disputed=True))
    gained = ShownAnswer("right", "b", gain=(0.5, -0.25))
    tasks = ("main", "written")
    first = Item("x/1", "x", "One?", {}, answers={("B", "written"): disputed}, tasks=tasks)
    answers = {("B", "main"): gained, ("A", "written"): ShownAnswer("unscored")}
    second = replace(first, key="x/2", answers=answers)
    other = Item("y/1", "y", "Two?", {}, answers={("A", "other"): ShownAnswer("wrong")})
    gallery = write_gallery(
        tmp_path, [first, second, other], lambda *_: None, models=("A", "Mute", "B")
    )
    index = json.loads(gallery.index)
    assert (index["runs"], index["tasks"]) == (["A", "Mute", "B"], ["main", "written", "other"])
    assert index["columns"] == [[[2, 0], [0, 1], [2, 1]], [[0, 2]]]
    assert [item[4] for item in index["items"]] == ["--p", "ru-", "w"]
    assert index["gains"] == {"1": [[0, 0.5, -0.25]]}
    assert index["disputed"] == {"0": [2]}


def test_a_smaller_report_deletes_the_files_of_a_larger_one(tmp_path):
    many = [replace(plan_item(number, (True, False)), images=None) for number in range(101)]
    for items in (many, many[:100]):
        with output_folder(tmp_path, "report"), results_of(tmp_path) as folder:
            write_gallery(folder, items, lambda *_: None)
    assert [path.name for path in (tmp_path / "gallery").glob("*.js")] == ["0.js"]
