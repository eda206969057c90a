"""Addresses of the gallery, its search, and a question's link and JSON, in a browser."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest

from axe import flaws, skip_without_axe
from lmms_egoplan.report.document import Item, Section, ShownAnswer
from lmms_egoplan.report.page import write_page
from lmms_egoplan.report.run import Run
from report.conftest import watched_tab
from report.test_gallery import count

pytestmark = pytest.mark.nightly
COUNT = 230
ONE, TWO, OTHER = "org/One & co", "Two #2 <b>x</b>?", "Other"
MARKUP = "<img src=x onerror='hit=1'> & \"q\""
SECTIONS = [Section(key, title, "") for key, title in (("plan", "Plan"), ("look", "Look"))]


def question(number: int) -> Item:
    """Return a question with texts that no other question has. Runs differ on multiples of 5."""
    name = f"{number:03}"
    one = ShownAnswer(
        "wrong" if number % 5 == 0 else "right",
        f"answer-{name} {MARKUP}",
        rating="0 of 1",
        judgement=f"reason-{name}",
        reply=f"reply-{name}",
        prompt=f"prompt-{name}",
        tokens=(number, 0),
        task=("plan_val", "2.0"),
    )
    two = ShownAnswer("right", logprobs=(-0.5, None, -2.25), chosen=0, task=("plan_ranked", None))
    return Item(
        key=f"plan/{name}",
        benchmark="plan",
        question=f"What is next in {name}?",
        facts={"scene": ("kitchen & hall", "café")[number % 2]},
        choices=(f"choice-{name}", "open the tap", MARKUP),
        gold=2,
        references={"Goal": f"goal-{name}"},
        answers={(ONE, "plan_val"): one, (TWO, "plan_val"): two},
        tasks=("plan_val", "plan_ranked"),
        video=f"video-{name}",
        identity=f"identity-{name}",
    )


LOOK = Item(
    "look/1",
    "look",
    "What is on the table?",
    {},
    answers={(TWO, "look"): ShownAnswer("wrong", "a cup")},
)
ITEMS = [*map(question, range(COUNT)), LOOK]


def reordered(item: Item) -> Item:
    """Return the question with a further run, and the runs in another order."""
    return replace(
        item,
        answers={
            (OTHER, "plan_val"): ShownAnswer("unscored", "none"),
            **dict(reversed(item.answers.items())),
        },
    )


def write(folder: Path, items: list[Item]) -> str:
    runs = dict.fromkeys(name for item in items for name, _ in item.answers)
    write_page(folder, SECTIONS, items, [Run(name, Path(), "", "", "", {}) for name in runs], ())
    return (folder / "index.html").as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write(tmp_path_factory.mktemp("report"), ITEMS)


@pytest.fixture(scope="module")
def other_address(tmp_path_factory):
    """Write a report with another order of the questions and runs, and with other data under the
    key of question 7.
    """
    items = [
        replace(item, identity="other") if item.key == "plan/007" else item
        for item in reversed(ITEMS)
    ]
    moved = replace(question(8), key="plan/007 (2)", identity="identity-007", question="Moved?")
    return write(tmp_path_factory.mktemp("other"), [moved, *map(reordered, items)])


@pytest.fixture
def page(browser, address):
    with watched_tab(browser, address) as opened:
        yield opened


def query(page) -> dict[str, str]:
    path, _, text = urlsplit(page.url).fragment.partition("?")
    assert path.startswith("gallery")
    return dict(parse_qsl(text))


def form(page) -> dict[str, str]:
    """Return the values of all visible fields, by name."""
    values = (
        "all => all.map(x => [x.dataset.fact ?? x.name, (x.selectedOptions?.[0].textContent "
        "?? x.value)])"
    )
    return dict(page.locator("#filters :is(input, select):visible").evaluate_all(values))


def keys(page) -> list[str]:
    count(page)
    return page.locator("#items b").all_inner_texts()


def set_all_filters(page) -> None:
    page.select_option("[name=benchmark]", "plan")
    page.click("[data-show=differ]")
    page.select_option("[name=run]", TWO)
    page.select_option("[name=verdict]", "r")
    page.select_option("[name=one]", TWO)
    page.select_option("[name=two]", ONE)
    page.select_option("[data-fact=scene]", "=kitchen & hall")
    page.fill("[name=text]", 'next? onerror="x" %41')
    count(page)
    page.fill("[name=text]", "onerror='hit=1'> next")
    assert count(page).startswith("23 of")


def test_all_filters_are_in_the_address(page, browser, other_address):
    set_all_filters(page)
    filters = {
        "text": "onerror='hit=1'> next",
        "benchmark": "plan",
        "run": TWO,
        "verdict": "r",
        "show": "differ",
        "one": TWO,
        "two": ONE,
        "fact:scene": "kitchen & hall",
    }
    assert query(page) == filters
    before = (form(page), keys(page), count(page))
    page.reload()
    assert (form(page), keys(page), count(page)) == before
    with watched_tab(browser, f"{other_address}#{urlsplit(page.url).fragment}") as elsewhere:
        assert count(elsewhere).startswith("23 of")
        assert elsewhere.locator("[name=run] option:checked").inner_text() == TWO
        assert sorted(keys(elsewhere)) == sorted(before[1])
        assert not elsewhere.locator("#notice").is_visible()
    page.click("text=Clear filters")
    page.click("#after")
    assert query(page) == {"page": "2"}
    page.reload()
    assert page.locator("#page").inner_text() == "Page 2 of 10"
    page.go_back()
    page.go_back()
    page.wait_for_function("document.querySelector('#page').textContent.startsWith('Page 1 of 1')")
    assert (form(page), count(page)) == (before[0], before[2])


def test_back_and_forward_restore_filters_without_many_entries(page):
    entries = page.evaluate("history.length")
    page.select_option("[name=benchmark]", "plan")
    page.select_option("[name=run]", ONE)
    page.locator("[name=text]").press_sequentially("reason-10", delay=5)
    assert count(page).startswith("10 of")
    page.locator("[name=text]").press_sequentially("1")
    assert keys(page) == ["plan/101"]
    page.keyboard.press("Escape")  # Clears the field.
    assert page.evaluate("history.length") == entries + 3
    page.fill("[name=text]", "reason-101")
    assert keys(page) == ["plan/101"]
    for path, text, run, benchmark in (
        ("go_back", "", ONE, "Plan"),
        ("go_back", "", "any model", "Plan"),
        ("go_back", "", "any model", "all benchmarks"),
        ("go_forward", "", "any model", "Plan"),
        ("go_forward", "", ONE, "Plan"),
        ("go_forward", "reason-101", ONE, "Plan"),
    ):
        getattr(page, path)()
        page.wait_for_function(
            "([text, run, benchmark]) => { const { elements } = document.getElementById('filters');"
            " const label = (name) => elements[name].selectedOptions[0].textContent;"
            " return elements.text.value === text && label('run') === run && label('benchmark') "
            "=== benchmark; }",
            arg=[text, run, benchmark],
        )
    assert keys(page) == ["plan/101"]
    page.focus("[name=verdict]")
    for letter in "rw":
        page.keyboard.press("ArrowDown")
        page.wait_for_function("letter => location.hash.endsWith(`&verdict=${letter}`)", arg=letter)
    assert page.evaluate("history.length") == entries + 4


@pytest.mark.parametrize(
    ("part", "text", "number"),
    [
        ("?run=Old-7B", "Old-7B", 0),
        (f"?run={quote(ONE)}&benchmark=look", ONE, 0),
        (f"?{urlencode({'benchmark': MARKUP})}", MARKUP, 0),
        ("?verdict=z", "z", 0),
        ("?show=everything", "everything", 0),
        ("?show=differ&one=Old-7B", "Old-7B", 0),
        ("?benchmark=plan&fact:scene=attic", "attic", 0),
        ("?fact:no+such=attic", "no such", 0),
        (f"?{urlencode({MARKUP: 'x'})}", MARKUP, 0),
        ("?page=99", "last page", COUNT + 1),
        ("?page=x", "last page", COUNT + 1),
        ("/plan/999", "plan/999", COUNT + 1),
        (f"/{quote(MARKUP)}?benchmark=look", MARKUP, 1),
        ("/%", "%", COUNT + 1),
        ("/plan/007%20(2)?question=none", "plan/007 (2)", COUNT + 1),
    ],
)
def test_an_address_with_unknown_values_says_so(browser, address, part, text, number):
    with watched_tab(browser, f"{address}#gallery{part}") as page:
        notice = page.locator("#notice")
        notice.wait_for()
        assert text in notice.inner_text()
        assert count(page).startswith(f"{number} of")
        assert not page.locator("dialog").is_visible()
        page.click("text=Clear filters")
        notice.wait_for(state="hidden")
        assert count(page).startswith(f"{COUNT + 1} of")
        assert query(page) == {}


def test_a_fact_in_the_address_needs_no_benchmark(browser, address):
    with watched_tab(browser, f"{address}#gallery?fact:scene=caf%C3%A9") as page:
        assert count(page).startswith("115 of")
        assert not page.locator("#notice").is_visible()


def is_at_the_gallery(page):
    """Wait until the gallery's heading is just below the sticky header, and has the focus."""
    page.wait_for_function(
        """() => {
            const title = document.getElementById('gallery-title');
            const header = document.querySelector('.top').getBoundingClientRect();
            const below = title.getBoundingClientRect().top - header.bottom;
            return document.activeElement === title && below >= 0 && below < 100;
        }"""
    )


def test_a_link_lands_on_the_gallery(browser, address):
    part = "#gallery?benchmark=plan&text=reason-01"
    with watched_tab(browser, address) as page:
        for again in (False, True):
            page.evaluate("scrollTo(0, 0)")
            page.evaluate(
                "part => { const link = document.createElement('a'); link.href = part; "
                "document.body.prepend(link); link.textContent = 'Go'; link.focus(); }",
                part,
            )
            page.keyboard.press("Enter")
            is_at_the_gallery(page)
            assert count(page).startswith("10 of"), again
        page.click(".top a[href='#gallery']")
        is_at_the_gallery(page)
        assert count(page).startswith(f"{COUNT + 1} of")
    with watched_tab(browser, address + part, viewport={"width": 400, "height": 700}) as page:
        is_at_the_gallery(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "text"
    with watched_tab(browser, f"{address}#gallery/plan/030") as page:
        page.locator("#item-body:not([aria-busy])").wait_for()
        assert page.evaluate("document.activeElement.id") == "item-body"
        page.keyboard.press("Escape")
        page.wait_for_function("document.activeElement.textContent.includes('plan/030')")
        assert page.locator("#page").inner_text() == "Page 2 of 10"
        assert query(page) == {"page": "2"}
        assert page.evaluate("history.length") == 2  # of the empty tab and of the page


def test_an_open_question_has_an_address_below_the_filters(page):
    page.select_option("[name=run]", ONE)
    page.click("[data-show=wrong]")
    page.click("[data-show=differ]")
    assert count(page).startswith("46 of")
    filters = query(page)
    page.click("#items li:nth-child(2) a")
    entries = page.evaluate("history.length")
    assert "#gallery/plan/005?" in page.url
    assert query(page) == filters
    for _ in range(30):
        page.click("#item-after")
    page.keyboard.press("k")
    assert "#gallery/plan/150?" in page.url
    page.reload()
    page.locator("#item-body:not([aria-busy])").wait_for()
    assert page.locator("#item-place").inner_text() == "31 of 46"
    page.keyboard.press("Escape")
    page.wait_for_function(
        "!location.hash.includes('plan/150') && location.hash.includes('page=2')"
    )
    assert query(page) == filters | {"page": "2"}
    assert page.locator("#page").inner_text() == "Page 2 of 2"
    page.go_back()
    page.wait_for_function("document.querySelector('[name=show]').value !== 'differ'")
    page.go_forward()
    page.go_forward()
    page.wait_for_function("location.hash.startsWith('#gallery/plan/150')")
    page.locator("dialog[open] #item-body:not([aria-busy])").wait_for()
    page.go_back()
    page.locator("dialog").wait_for(state="hidden")
    page.wait_for_function("document.activeElement.textContent.includes('plan/150')")
    page.wait_for_function("location.hash.includes('page=2')")
    assert query(page) == filters | {"page": "2"}
    assert page.evaluate("history.length") == entries


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Answer-017", ["plan/017"]),
        ("reply-123", ["plan/123"]),
        ("reason-229", ["plan/229"]),
        ("choice-100", ["plan/100"]),
        ("video-099", ["plan/099"]),
        ("goal-200", ["plan/200"]),
        ("answer-017 reason-017 next", ["plan/017"]),
        ("answer-017 reason-018", []),
        ("a cup", ["look/1"]),
        (f"{MARKUP} in 012", ["plan/012"]),
        ("prompt-001", []),
    ],
)
def test_the_search_covers_all_texts(page, words, expected):
    page.evaluate(
        """() => {
            const count = document.getElementById("count");
            window.counts = [];
            const note = () => window.counts.push(count.textContent);
            new MutationObserver(note).observe(\
count, {characterData: true, childList: true, subtree: true});
        }"""
    )
    page.fill("[name=text]", words)
    page.wait_for_function("window.counts.length")
    assert page.evaluate("window.counts[0]") == "Searching…"
    assert page.locator("#count").get_attribute("role") == "status"
    assert keys(page) == expected
    assert page.locator("#count").inner_text() == f"{len(expected)} of {COUNT + 1} questions"


def test_a_search_reads_only_the_files_that_it_needs(browser, address):
    with watched_tab(browser, address) as page:
        files = []
        page.on("request", lambda call: files.append(call.url.rpartition("/")[2]))
        page.fill("[name=text]", "next")
        assert count(page).startswith("230 of")
        assert files == ["2.js"]  # Only the question of the other benchmark is undecided.
        page.select_option("[name=benchmark]", "plan")
        page.fill("[name=text]", "reason-003")
        page.fill("[name=text]", "reason-004")
        assert keys(page) == ["plan/004"]
        assert sorted(files) == ["0.js", "1.js", "2.js"]


def test_a_stale_search_is_dropped(page):
    page.fill("[name=text]", "reason-003")
    page.keyboard.press("Enter")
    page.fill("[name=text]", "reason-004")
    page.keyboard.press("Enter")
    assert keys(page) == ["plan/004"]
    assert query(page) == {"text": "reason-004"}


@pytest.mark.parametrize("damage", ["missing", "broken", "short"])
def test_a_search_names_missing_files_and_is_incomplete(browser, address, tmp_path, damage):
    out = tmp_path / "report"
    shutil.copytree(Path(urlsplit(address).path).parent, out)
    file = out / "gallery/1.js"
    text = file.read_text(encoding="utf-8")
    if damage == "missing":
        file.unlink()
    else:
        file.write_text(
            "reportChunk(1,[{" if damage == "broken" else "reportChunk(1,[]);", encoding="utf-8"
        )
    context = browser.new_context()
    page = context.new_page()
    page.goto((out / "index.html").as_uri())
    page.fill("[name=text]", "goal-1 reason-1")
    assert count(page) == f"0 of {COUNT + 1} questions (incomplete)"
    assert "gallery/1.js" in page.locator("#notice").inner_text()
    page.fill("[name=text]", "reason-003")
    assert keys(page) == ["plan/003"]
    assert count(page) == f"1 of {COUNT + 1} questions (incomplete)"
    file.write_text(text, encoding="utf-8")
    page.fill("[name=text]", "reason-13")
    assert count(page) == f"10 of {COUNT + 1} questions"
    assert not page.locator("#notice").is_visible()
    context.close()


def test_a_question_has_a_link_that_other_reports_resolve(page, browser, address, other_address):
    page.select_option("[name=run]", ONE)
    page.evaluate("location.hash = '#gallery/plan/007?verdict=r'")
    for has_command in (True, False):
        if not has_command:  # Neither interface of the clipboard works.
            page.evaluate(
                "document.execCommand = () => false; Object.defineProperty(navigator, 'clipboard', "
                "{ value: undefined })"
            )
        page.locator("#item-link:not([disabled])").click()
        page.wait_for_function("document.getElementById('item-copied').textContent !== ''")
        link = page.locator("#item-address")
        assert link.input_value() == f"{address}#gallery/plan/007?question=identity-007"
        assert page.evaluate("getSelection().toString()") == link.input_value()
        assert ("Copied" in page.locator("#item-copied").inner_text()) == has_command
        page.click("#item-after")
        assert not link.is_visible()
        page.click("#item-before")
    part = urlsplit(page.url).fragment
    assert part == "gallery/plan/007?verdict=r"
    for report, asked in ((address, "What is next in 007?"), (other_address, "Moved?")):
        with watched_tab(browser, f"{report}#gallery/plan/007?question=identity-007") as opened:
            opened.locator("#item-body:not([aria-busy])").wait_for()
            assert opened.locator("dialog .asked").inner_text() == asked
    with watched_tab(browser, f"{other_address}#gallery/plan/007?question=none") as opened:
        opened.locator("#notice").wait_for()
        assert "plan/007" in opened.locator("#notice").inner_text()
        assert not opened.locator("dialog").is_visible()


def downloaded(page, key):
    page.evaluate("key => { location.hash = `#gallery/${key}`; }", key)
    page.locator(f"#item-key:has-text('{key}')").wait_for()
    with page.expect_download() as download:
        page.locator("#item-json:not([disabled])").click()
    return download.value.suggested_filename, json.loads(
        Path(download.value.path()).read_text(encoding="utf-8")
    )


def test_a_question_is_downloaded_as_json(page):
    name, content = downloaded(page, "plan/010")
    assert name == "plan_010.json"
    assert content == {
        "schema": 1,
        "key": "plan/010",
        "benchmark": "plan",
        "title": "Plan",
        "tasks": [{"name": "plan_val", "version": "2.0"}, {"name": "plan_ranked", "version": None}],
        "video": "video-010",
        "question": "What is next in 010?",
        "choices": ["choice-010", "open the tap", MARKUP],
        "gold": 2,
        "references": {"Goal": "goal-010"},
        "gold_plans": {},
        "facts": {"scene": "kitchen & hall"},
        "prompts": ["prompt-010"],
        "runs": [
            {
                "name": ONE,
                "task": "plan_val",
                "version": "2.0",
                "prompt": 0,
                "answer": f"answer-010 {MARKUP}",
                "reply": "reply-010",
                "chosen": None,
                "log_probabilities": None,
                "gain": None,
                "margin_gain": None,
                "verdict": "wrong",
                "rating": "0 of 1",
                "reason": "reason-010",
                "parts": [],
                "steps": [],
                "alignments": [],
                "people": None,
                "is_disputed": False,
                "is_demo": False,
                "input_tokens": 10,
                "output_tokens": 0,
            },
            {
                "name": TWO,
                "task": "plan_ranked",
                "version": None,
                "prompt": None,
                "answer": None,
                "reply": None,
                "chosen": 0,
                "log_probabilities": [-0.5, None, -2.25],
                "gain": None,
                "margin_gain": None,
                "verdict": "right",
                "rating": None,
                "reason": None,
                "parts": [],
                "steps": [],
                "alignments": [],
                "people": None,
                "is_disputed": False,
                "is_demo": False,
                "input_tokens": None,
                "output_tokens": None,
            },
        ],
    }
    _, content = downloaded(page, "look/1")
    assert [key for key, value in content.items() if value is None] == ["video", "gold"]
    assert [key for key, value in content.items() if value == []] == ["tasks", "choices", "prompts"]
    documented = (Path(__file__).parents[2] / "docs/report-json.md").read_text(encoding="utf-8")
    names = {*content, *content["runs"][0]}
    assert {
        name for name in names if f"`{name}`" not in documented and f"`{name}[]`" not in documented
    } == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state_of_the_gallery(browser, address, scheme):
    skip_without_axe()
    for width in (1440, 400):
        settings = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
        with watched_tab(browser, address, **settings) as page:
            set_all_filters(page)
            assert flaws(page) == []
            page.fill("[name=text]", "no such text")
            assert flaws(page) == []
            assert count(page).startswith("0 of")
            assert flaws(page) == []
            page.evaluate("location.hash = '#gallery?run=Old&x=y'")
            page.locator("#notice").wait_for()
            assert flaws(page) == []
            page.evaluate("location.hash = '#gallery/plan/010'")
            page.locator("#item-link:not([disabled])").click()
            page.locator("#item-address").wait_for()
            assert flaws(page) == []
            assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0


@pytest.fixture(scope="module")
def sortable_address(tmp_path_factory):
    """Write a report in which two runs have gains on most questions of one benchmark."""
    items = []
    for number in range(60):
        item = question(number)
        gains = {ONE: (number % 7 - 3.0, -1.0 * number), TWO: (0.5 * number, 1.0)}
        answers = {
            (name, task): replace(
                answer,
                gain=gains[name] if number % 6 or (name == ONE and number % 12) else (None, None),
            )
            for (name, task), answer in item.answers.items()
        }
        items.append(replace(item, answers=answers))
    return write(tmp_path_factory.mktemp("sortable"), [*items, LOOK]), items


def gain_of(item, run, position):
    gains = [
        answer.gain[position] for (name, _), answer in item.answers.items() if run in ("", name)
    ]
    known = [gain for gain in gains if gain is not None]
    return sum(known) / len(known) if known else None


@pytest.mark.parametrize(
    ("run", "name", "position"), [("", "gain", 0), (ONE, "margin", 1), (TWO, "gain", 0)]
)
def test_questions_are_sorted_by_gain_and_those_without_come_last(
    browser, sortable_address, run, name, position
):
    address, items = sortable_address
    gains = {item.key: gain_of(item, run, position) for item in items} | (
        {} if run == ONE else {LOOK.key: None}
    )
    with_gain = [key for key, gain in gains.items() if gain is not None]
    with watched_tab(browser, address) as page:
        page.select_option("[name=run]", run)
        for sort, sign in ((name, -1), (f"{name}-up", 1)):
            page.select_option("[name=sort]", sort)
            listed = keys(page)
            while page.locator("#after").is_enabled():
                page.click("#after")
                listed += keys(page)
            assert query(page)["sort"] == sort
            assert listed == [
                *sorted(with_gain, key=lambda key: sign * gains[key]),
                *(key for key, gain in gains.items() if gain is None),
            ]


def test_sorting_works_by_keyboard_and_from_an_address(browser, sortable_address):
    address, items = sortable_address
    with watched_tab(browser, address) as page:
        page.locator("[name=verdict]").focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "sort"
        page.keyboard.press("ArrowDown")
        first = keys(page)
        assert query(page)["sort"] == "gain"
        largest = max(
            (item for item in items if gain_of(item, "", 0) is not None),
            key=lambda x: gain_of(x, "", 0),
        )
        assert first[0] == largest.key
        line = page.locator("#items .gain").first.inner_text()
        assert f"mean gain +{gain_of(largest, '', 0):.2f}" in line
        page.reload()
        assert keys(page) == first
        page.locator("#items a").first.click()
        head = page.locator(".choices thead").inner_text()
        assert f"{largest.answers[TWO, 'plan_val'].gain[0]:.2f} nats" in head
        page.keyboard.press("j")
        assert page.locator("#item-key").inner_text().endswith(first[1])


def test_without_gains_there_is_nothing_to_sort_by(page, browser, address):
    assert not page.locator("[name=sort]").is_visible()
    with watched_tab(browser, f"{address}#gallery?sort=gain") as other:
        assert count(other).startswith("0 of")
        assert "gain" in other.locator("#notice").inner_text()


def test_the_json_of_a_question_has_the_gain(browser, sortable_address):
    address, items = sortable_address
    with watched_tab(browser, f"{address}#gallery/plan/001") as page:
        with page.expect_download() as download:
            page.click("#item-json")
        runs = {
            run["name"]: run for run in json.loads(Path(download.value.path()).read_text())["runs"]
        }
    assert {name: (run["gain"], run["margin_gain"]) for name, run in runs.items()} == {
        name: answer.gain for (name, _), answer in items[1].answers.items()
    }
