"""The four pages in a browser, each from the links to the export, by keyboard and by mouse, on the demo's sets."""

import json
import re

import pytest

from annotation.serving import export, served
from axe import flaws, skip_without_axe
from lmms_egoplan.annotation.egointent import read_items
from lmms_egoplan.annotation.flow import LABELLED, load_flow
from lmms_egoplan.annotation.serve import Team, media_folder, open_store
from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.jsonl import read_text
from patience import wait_until

LOOKS = [(width, scheme) for width in (400, 1024, 1440) for scheme in ("light", "dark")]
# Of EgoPlan's three questions one serves for the qualification, and one is skipped.
SETS = {benchmark.name: benchmark.demo.folder for benchmark in BENCHMARKS}
ITEMS = {"egoplan": 3, "egothink": 2, "egointent": 1, "actplan": 2}
QUALIFICATION = {"egoplan": 1}


def base_of(page):
    """The address before a person's paths."""
    return re.match(r".*/p/[0-9a-f]+", page.url)[0]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder with the demo's sets."""
    folder = tmp_path_factory.mktemp("demo")
    for benchmark in BENCHMARKS:
        if benchmark.name in LABELLED:
            copy_set(benchmark.demo, folder)
    return folder


@pytest.fixture
def start(demo, tmp_path, browser):
    """Opens a benchmark's database of a few items for two annotators."""
    opened = []

    def start(name):
        flow = load_flow(name)
        db = tmp_path / "labels.sqlite"
        items = flow.demo_items(demo / SETS[name], media_folder(db))[: ITEMS[name]]
        opened.append(open_store(flow, db, lambda _: items, "items", Team(2, 2, QUALIFICATION.get(name))))
        return opened[0]

    yield start
    for store in opened:
        store.close()


class Keyboard:
    """Touches nothing but keys."""

    def __init__(self, page):
        self.page = page

    def choose(self, name, value):
        """By the key that the page shows beside the option."""
        self.page.keyboard.press(self.page.get_attribute(f"[name={name}][value='{value}']", "data-key"))

    def mark(self, title, step):
        self.page.keyboard.press(self.page.get_attribute(f"summary:has-text('{title}')", "data-key"))
        for _ in range(step):
            self.page.keyboard.press("ArrowRight")
        self.page.keyboard.press("Space")

    def earlier(self):
        self.page.keyboard.press(",")

    def write(self, name, text):
        self.tab_to(f"[name={name}]")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Escape")

    def comment(self, text):
        self.page.keyboard.press("n")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Escape")

    def play(self):
        self.page.keyboard.press("Space")

    def save(self):
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def follow(self, selector):
        self.tab_to(selector)
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def tab_to(self, selector):
        for _ in range(200):
            if self.page.evaluate("selector => document.activeElement.matches(selector)", selector):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {selector}")


class Mouse:
    """Clicks; keys write texts alone."""

    def __init__(self, page):
        self.page = page

    def choose(self, name, value):
        self.page.click(f"label:has([name={name}][value='{value}'])")

    def mark(self, title, step):
        self.page.click(f"summary:has-text('{title}')")
        self.page.click(f"details:has-text('{title}') label:has([value$=':{step}'])")

    def earlier(self):
        self.page.click("[data-move='-1']")

    def write(self, name, text):
        self.page.fill(f"[name={name}]", text)

    def comment(self, text):
        self.page.fill("[name=comment]", text)

    def play(self):
        self.page.evaluate("document.querySelector('video').play()")  # The browser's own controls are in its shadow.

    def save(self):
        self.follow(".save button")

    def follow(self, selector):
        with self.page.expect_navigation():
            self.page.click(selector)


@pytest.fixture(
    params=[
        pytest.param((Keyboard, 1440, "light"), id="keyboard"),
        pytest.param((Mouse, 400, "dark"), id="mouse", marks=pytest.mark.whole),
    ]
)
def hand(request, browser):
    """Opens a person's page with the keyboard or the mouse; nothing may be wider than the screen."""
    kind, width, scheme = request.param

    def opened(address, store, name, do):
        with browser.tab(address, store, name, width, scheme) as page:
            done = do(kind(page))
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            return done

    return opened


def until(page, expression):
    """Waits; the page's own policy forbids Playwright to."""
    wait_until(lambda: page.evaluate(expression))


def watch(hand):
    """The clip is there and plays to its end, or to the cut."""
    until(hand.page, "document.querySelector('video').readyState >= 2")
    hand.play()
    until(hand.page, "document.querySelector('video').paused && document.querySelector('video').currentTime > 0")


def seen(page):
    """Pictures have come."""
    until(page, "[...document.images].every((image) => image.complete && image.naturalWidth)")


@pytest.mark.whole
def test_egoplan(start, hand, tmp_path):
    store = start("egoplan")
    golden = {item.shown["goal"] + "".join(sorted(item.shown["choices"].values())): item for item in store.items()}
    skipped = store.items()[1].id

    def verify(own):
        if own.page.locator("#label").count():
            watch(own)
        while own.page.locator("#label").count():
            seen(own.page)
            goal = own.page.inner_text(".part-prose p")
            texts = own.page.locator("[data-name=choice] .option span").all_inner_texts()
            item = golden[goal + "".join(sorted(text for text in texts if text != "Skip"))]
            if item.id == skipped:
                own.choose("choice", "skip")
                own.choose("reason", "unclear")
                own.comment("dark")
            else:
                own.choose("choice", item.hidden["golden"])
            own.save()

    def let_pass(own):
        for place in (0, 1):
            own.follow(f"section:nth-of-type({place + 1}) button[value=pass]")

    with served(store) as address:
        for name in ("annotator-1", "annotator-2"):
            hand(address, store, name, verify)
        for name in ("senior-1", "senior-2"):
            hand(address, store, name, let_pass)
        for name in ("annotator-1", "annotator-2"):
            hand(address, store, name, verify)
    output = export(store, tmp_path / "out")[0]
    assert "1 of 3" in output
    assert "skipped: unclear" in (tmp_path / "out" / "rejected.csv").read_text()
    assert len(json.loads(read_text(tmp_path / "out" / "EgoPlan_validation.json"))["EgoPlan_validation"]) == 1


def test_egothink(start, hand, tmp_path):
    store = start("egothink")

    def rate(values):
        def do(own):
            for value in values:
                seen(own.page)
                own.choose("rating", value)
                own.save()
            assert own.page.locator("#label").count() == 0

        return do

    def look(own):
        assert "66.7" not in own.page.inner_text("main")
        own.follow("li a[href*='/item/']")
        assert own.page.locator("#label").count() == 0

    with served(store) as address:
        hand(address, store, "annotator-1", rate(["1", "0"]))
        hand(address, store, "annotator-2", rate(["1", "0.5"]))
        hand(address, store, "lead", look)
    assert "2 of 2" in export(store, tmp_path / "out")[0]
    lines = (tmp_path / "out" / "right-ratings.csv").read_text().splitlines()
    assert sorted(line.partition(",")[2] for line in lines[1:]) == ["0.0,0.5", "1.0,1.0"]


@pytest.mark.whole
def test_actplan(start, hand, tmp_path):
    store = start("actplan")

    def label(own, correct="0"):
        while own.page.locator("#label").count():
            seen(own.page)
            own.choose("correct", correct)
            own.choose("commonsense", "1")
            own.mark("Missing actions", 0)
            own.mark("Incorrect form", 2)
            own.save()

    def decide(own):
        """On both plans, and once more on the first, whose decision is taken back."""
        for place in (1, 2):
            own.follow(f"li:nth-of-type({place}) > a[href*='/adjudicate/']")
            assert "annotator-2" in own.page.inner_text("main")
            # Marks are those that both people made.
            assert own.page.locator("details.marks[open]").count() == 2
            own.choose("correct", "0")
            own.save()
        assert own.page.locator("form[action*='/undecide/']").count() == 2
        own.follow("form[action*='/undecide/'] button")
        assert own.page.locator("form[action*='/undecide/']").count() == 1
        own.follow("li:nth-of-type(1) > a[href*='/adjudicate/']")
        own.save()

    with served(store) as address:
        hand(address, store, "annotator-1", label)
        hand(address, store, "annotator-2", lambda own: label(own, "1"))
        hand(address, store, "lead", decide)
    assert "2 of 2" in export(store, tmp_path / "out")[0]
    for line in read_text(tmp_path / "out" / "plans.jsonl").splitlines():
        plan = json.loads(line)
        labels = (plan["correct"], plan["commonsense"], plan["errors"])
        assert labels == (False, True, {"missing_actions": [0], "form": [2]})


@pytest.mark.whole
def test_egointent(start, hand, tmp_path):
    store = start("egointent")
    (item,) = store.items()

    def answer(own, text=None):
        until(own.page, "document.querySelector('video').readyState >= 2")
        if text is not None:
            own.earlier()
            own.earlier()
            own.write("next_step_plan", text)
            own.choose("supported_next_step_plan", "no")
        else:
            own.choose("boundary", "yes")
            own.choose("supported_next_step_plan", "yes")
        watch(own)
        own.choose("supported_local_intent", "yes")
        own.choose("supported_global_intent", "yes")
        own.save()

    with served(store) as address:
        hand(address, store, "annotator-1", lambda own: answer(own, "wash the cloth"))
        hand(address, store, "annotator-2", answer)
    assert "1 of 1" in export(store, tmp_path / "out")[0]
    step = json.loads(read_text(tmp_path / "out" / "steps.jsonl"))
    assert step["next_step_plan"] == "wash the cloth"
    # From the end, which lies behind the last frame, to that frame, and to the one before it.
    assert step["end_sec"] == item.shown["times"][-2]


def test_egointent_names_the_place_of_unverified_steps(demo, hand, tmp_path):
    """Five fields with options, each with keys of its own; the second person finds what the first has chosen."""
    root = demo / "egointent-steps"
    step = json.loads(read_text(root / "steps.jsonl").splitlines()[0])
    step |= {"unverified": True, "scenario": None, "environment": None, "next_step_plan_candidates": ["rest a while"]}
    steps = tmp_path / "steps.jsonl"
    steps.write_text(json.dumps(step) + "\n", encoding="utf-8")
    flow = load_flow("egointent")
    store = open_store(flow, tmp_path / "labels.sqlite", lambda _: read_items(steps, root / "videos"), "steps", Team(2))

    def answer(own):
        until(own.page, "document.querySelector('video').readyState >= 2")
        if own.page.locator("[name=boundary]").count():
            own.choose("boundary", "yes")
            assert own.page.is_checked("[name=environment][value=outdoor]")
            assert own.page.input_value("[name=scenario]") == "yard"
        else:
            assert "rest a while" in own.page.inner_text("[data-name=next_step_plan]")
            own.choose("environment", "outdoor")
            own.write("scenario", "yard")
        for field in ("local_intent", "global_intent", "next_step_plan"):
            own.choose(f"supported_{field}", "yes")
        own.save()

    with served(store) as address:
        for name in ("annotator-1", "annotator-2"):
            hand(address, store, name, answer)
    assert "1 of 1" in export(store, tmp_path / "out")[0]
    store.close()
    revised = json.loads(read_text(tmp_path / "out" / "steps.jsonl"))
    assert (revised["environment"], revised["scenario"]) == ("outdoor", "yard")


@pytest.mark.whole
@pytest.mark.parametrize("name", LABELLED)
def test_no_page_has_a_flaw_that_axe_finds(start, browser, name):
    skip_without_axe()
    store = start(name)

    def check(page, *looks):
        for width, scheme in looks:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert flaws(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width

    def label(page):
        """What is first in each field, of all items."""
        while page.locator("#label").count():
            page.evaluate("document.querySelectorAll('.option:first-child input').forEach((one) => one.click())")
            with page.expect_navigation():
                page.click(".save button")

    with served(store) as address:
        with browser.tab(address, store, "annotator-1", refused="4") as page:
            page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
            check(page, *LOOKS)
            page.evaluate("document.getElementById('label').submit()")
            page.wait_for_selector("[role=alert]")
            check(page, (400, "light"), (1440, "dark"))
            page.goto(f"{base_of(page)}/item/0")
            check(page, (1024, "dark"))
        for name in ("annotator-1", "annotator-2") if store.flow.is_adjudicated else ():
            with browser.tab(address, store, name) as page:
                label(page)
        for person in store.people():
            if person.role != "annotator":
                with browser.tab(address, store, person.name) as page:
                    check(page, *LOOKS)
                    page.goto(f"{base_of(page)}/item/0")
                    check(page, (400, "light"))
                    if store.flow.is_adjudicated and person.role == "lead":
                        page.goto(f"{base_of(page)}/adjudicate/0")
                        check(page, (1440, "dark"))
                        label(page)
                        check(page, *LOOKS)
