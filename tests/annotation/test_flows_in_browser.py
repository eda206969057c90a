"""Test the four pages in a browser, from the links to the export, on the demo's sets.

The pages are operated by keyboard and by mouse.
"""

import json
import re

import pytest

from annotation.serving import export, served
from annotation.studies import open_store
from axe import flaws, skip_without_axe
from lmms_egoplan.annotation.egointent import read_items
from lmms_egoplan.annotation.flow import LABELLED
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.serve import Team, media_folder
from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.jsonl import read_text
from patience import wait_until

LOOKS = [(width, scheme) for width in (400, 1024, 1440) for scheme in ("light", "dark")]
# One of EgoPlan's three questions is the qualification, and one is skipped.
ITEMS = {"egoplan": 3, "egothink": 2, "egointent": 1, "actplan": 2}
QUALIFICATION = {"egoplan": 1}


def base_of(page):
    """Return the base address of a person's pages."""
    return re.match(r".*/p/[0-9a-f]+", page.url)[0]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Copy the demo's sets into a folder and return it."""
    folder = tmp_path_factory.mktemp("demo")
    for name, demo_set in DEMO_SETS.items():
        if name in LABELLED:
            copy_set(demo_set, folder)
    return folder


@pytest.fixture
def start(demo, tmp_path, browser):
    """Open a benchmark's database of a few items for two annotators."""
    opened = []

    def start(name):
        flow = FLOWS[name]
        db = tmp_path / "labels.sqlite"
        items = flow.demo_items(demo / DEMO_SETS[name].folder, media_folder(db))[: ITEMS[name]]
        opened.append(
            open_store(flow, db, lambda _: items, "items", Team(2, 2, QUALIFICATION.get(name)))
        )
        return opened[0]

    yield start
    for store in opened:
        store.close()


class Keyboard:
    """Operate a page with keys only."""

    def __init__(self, page):
        self.page = page

    def choose(self, name, value):
        """Press the key that the page shows next to the option."""
        self.page.keyboard.press(
            self.page.get_attribute(f"[name={name}][value='{value}']", "data-key")
        )

    def mark(self, title, step):
        self.page.keyboard.press(
            self.page.get_attribute(f"summary:has-text('{title}')", "data-key")
        )
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
    """Operate a page by mouse. Texts are typed."""

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
        # The browser's own controls are in its shadow.
        self.page.evaluate("document.querySelector('video').play()")

    def save(self):
        self.follow(".save button")

    def follow(self, selector):
        with self.page.expect_navigation():
            self.page.click(selector)


@pytest.fixture
def hand(request, browser):
    """Open a person's page with keyboard or mouse. No content may be wider than the screen."""
    kind, width, scheme = request.param

    def opened(address, store, name, do):
        with browser.tab(address, store, name, width, scheme) as page:
            done = do(kind(page))
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            return done

    return opened


def by_hand(keyboard, mouse):
    """Test by keyboard and by mouse, each in its tier."""
    hands = [
        pytest.param((Keyboard, 1440, "light"), id="keyboard", marks=keyboard),
        pytest.param((Mouse, 400, "dark"), id="mouse", marks=mouse),
    ]
    return pytest.mark.parametrize("hand", hands, indirect=True)


def until(page, expression):
    """Wait for an expression. The page's policy prevents Playwright from doing so."""
    wait_until(lambda: page.evaluate(expression))


VIDEO = "document.querySelector('video')"


def watch(hand):
    """See the clip play by itself, or again after the cut has moved, until it repeats."""
    until(hand.page, f"{VIDEO}.readyState >= 2")
    if hand.page.evaluate(f"{VIDEO}.paused"):
        hand.play()
    hand.page.evaluate(
        f"{VIDEO}.addEventListener('seeking', () => {{ {VIDEO}.dataset.repeats = 'yes'; }})"
    )
    until(hand.page, f"{VIDEO}.dataset.repeats === 'yes' && !{VIDEO}.paused")


def seen(page):
    """Wait until the pictures are loaded."""
    until(page, "[...document.images].every((image) => image.complete && image.naturalWidth)")


@by_hand(keyboard=pytest.mark.nightly, mouse=pytest.mark.nightly)
def test_egoplan(start, hand, tmp_path):
    store = start("egoplan")
    golden = {
        item.contents["goal"] + "".join(sorted(item.contents["choices"].values())): item
        for item in store.items()
    }
    skipped = store.items()[1].id

    def verify(user):
        if user.page.locator("#label").count():
            watch(user)
        while user.page.locator("#label").count():
            seen(user.page)
            goal = user.page.inner_text(".part-prose p")
            texts = user.page.locator("[data-name=choice] .option span").all_inner_texts()
            item = golden[goal + "".join(sorted(text for text in texts if text != "Skip"))]
            if item.id == skipped:
                user.choose("choice", "skip")
                user.choose("reason", "unclear")
                user.comment("dark")
            else:
                user.choose("choice", item.hidden["golden"])
            user.save()

    def let_pass(user):
        for section in (1, 2):
            user.follow(f"section:nth-of-type({section}) button[value=pass]")

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
    assert (
        len(
            json.loads(read_text(tmp_path / "out" / "EgoPlan_validation.json"))[
                "EgoPlan_validation"
            ]
        )
        == 1
    )


@by_hand(keyboard=pytest.mark.nightly, mouse=pytest.mark.nightly)
def test_egothink(start, hand, tmp_path):
    store = start("egothink")

    def rate(values):
        def do(user):
            for value in values:
                seen(user.page)
                user.choose("rating", value)
                user.save()
            assert user.page.locator("#label").count() == 0

        return do

    def look(user):
        assert "66.7" not in user.page.inner_text("main")
        user.follow("li a[href*='/adjudicate/']")
        user.choose("rating", "1")
        user.save()
        assert user.page.locator("form[action*='/undecide/']").count() == 1

    with served(store) as address:
        hand(address, store, "annotator-1", rate(["1", "0"]))
        hand(address, store, "annotator-2", rate(["1", "0.5"]))
        hand(address, store, "lead", look)
    output = export(store, tmp_path / "out")[0]
    assert "2 of 2" in output
    assert "decided by the lead: 1" in output
    lines = (tmp_path / "out" / "right-ratings.csv").read_text().splitlines()
    assert sorted(line.partition(",")[2] for line in lines[1:]) == ["0.0,0.5", "1.0,1.0"]


@pytest.mark.nightly
def test_pictures_are_next_to_the_numbered_steps(start, browser):
    store = start("actplan")
    with served(store) as address, browser.tab(address, store, "annotator-1") as page:
        seen(page)
        page.click("#guide summary")
        for width in (1440, 1024, 400):
            page.set_viewport_size({"width": width, "height": 900})
            steps, pictures = (
                page.locator(name).bounding_box() for name in (".steps", ".pictures")
            )
            is_next = pictures["x"] >= steps["x"] + steps["width"]
            assert is_next is (width >= 1024)
            assert (pictures["y"] < steps["y"] + steps["height"]) is is_next
            if is_next:  # Two of three pictures are in view from the start.
                assert page.locator(".pictures .part").nth(1).bounding_box()["y"] < 900
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@by_hand(keyboard=pytest.mark.nightly, mouse=pytest.mark.whole)
def test_actplan(start, hand, tmp_path):
    store = start("actplan")

    def label(user, correct="0"):
        while user.page.locator("#label").count():
            seen(user.page)
            user.choose("correct", correct)
            user.choose("commonsense", "1")
            user.mark("Missing actions", 0)
            user.mark("Incorrect form", 2)
            user.save()

    def decide(user):
        """Decide both plans, then withdraw the first decision and repeat it."""
        for number in (1, 2):
            user.follow(f"li:nth-of-type({number}) > a[href*='/adjudicate/']")
            assert "annotator-2" in user.page.inner_text("main")
            # The form starts with the marks that both people made.
            assert user.page.locator("details.marks[open]").count() == 2
            user.choose("correct", "0")
            user.save()
        assert user.page.locator("form[action*='/undecide/']").count() == 2
        user.follow("form[action*='/undecide/'] button")
        assert user.page.locator("form[action*='/undecide/']").count() == 1
        user.follow("li:nth-of-type(1) > a[href*='/adjudicate/']")
        user.save()

    with served(store) as address:
        hand(address, store, "annotator-1", label)
        hand(address, store, "annotator-2", lambda user: label(user, "1"))
        hand(address, store, "lead", decide)
    assert "2 of 2" in export(store, tmp_path / "out")[0]
    for line in read_text(tmp_path / "out" / "plans.jsonl").splitlines():
        plan = json.loads(line)
        labels = (plan["correct"], plan["commonsense"], plan["errors"])
        assert labels == (False, True, {"missing_actions": [0], "form": [2]})


@by_hand(keyboard=pytest.mark.whole, mouse=pytest.mark.nightly)
def test_egointent(start, hand, tmp_path):
    store = start("egointent")
    (item,) = store.items()

    def answer(user, text=None):
        until(user.page, "document.querySelector('video').readyState >= 2")
        if text is not None:
            user.earlier()
            user.earlier()
            user.write("next_step_plan", text)
            user.choose("supported_next_step_plan", "no")
        else:
            user.choose("boundary", "yes")
            user.choose("supported_next_step_plan", "yes")
        watch(user)
        user.choose("supported_local_intent", "yes")
        user.choose("supported_global_intent", "yes")
        user.save()

    with served(store) as address:
        hand(address, store, "annotator-1", lambda user: answer(user, "wash the cloth"))
        hand(address, store, "annotator-2", answer)
    assert "1 of 1" in export(store, tmp_path / "out")[0]
    step = json.loads(read_text(tmp_path / "out" / "steps.jsonl"))
    assert step["next_step_plan"] == "wash the cloth"
    # Two steps from the end, which is after the last frame: to that frame, then to the previous
    # one.
    assert step["end_sec"] == item.contents["times"][-2]


@by_hand(keyboard=pytest.mark.nightly, mouse=pytest.mark.nightly)
def test_egointent_names_the_place_of_unverified_steps(demo, hand, tmp_path):
    """Five fields have options, each with its own keys.

    The second person sees the choices of the first.
    """
    root = demo / "egointent-steps"
    step = json.loads(read_text(root / "steps.jsonl").splitlines()[0])
    step |= {
        "unverified": True,
        "scenario": None,
        "environment": None,
        "next_step_plan_candidates": ["rest a while"],
    }
    steps = tmp_path / "steps.jsonl"
    steps.write_text(json.dumps(step) + "\n", encoding="utf-8")
    flow = FLOWS["egointent"]
    store = open_store(
        flow,
        tmp_path / "labels.sqlite",
        lambda _: read_items(steps, root / "videos"),
        "steps",
        Team(2),
    )

    def answer(user):
        until(user.page, "document.querySelector('video').readyState >= 2")
        if user.page.locator("[name=boundary]").count():
            user.choose("boundary", "yes")
            assert user.page.is_checked("[name=environment][value=outdoor]")
            assert user.page.input_value("[name=scenario]") == "yard"
        else:
            assert "rest a while" in user.page.inner_text("[data-name=next_step_plan]")
            user.choose("environment", "outdoor")
            user.write("scenario", "yard")
        for field in ("local_intent", "global_intent", "next_step_plan"):
            user.choose(f"supported_{field}", "yes")
        user.save()

    with served(store) as address:
        for name in ("annotator-1", "annotator-2"):
            hand(address, store, name, answer)
    assert "1 of 1" in export(store, tmp_path / "out")[0]
    store.close()
    revised = json.loads(read_text(tmp_path / "out" / "steps.jsonl"))
    assert (revised["environment"], revised["scenario"]) == ("outdoor", "yard")


def area(page, selector):
    """Return the area of an element, in square pixels."""
    box = page.locator(selector).first.bounding_box()
    return box["width"] * box["height"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("egointent", marks=pytest.mark.whole),
        pytest.param("egoplan", marks=pytest.mark.nightly),
    ],
)
def test_clip_is_the_largest_element_and_choices_stay_visible(start, browser, name):
    store = start(name)
    with served(store) as address, browser.tab(address, store, "annotator-1") as page:
        assert page.evaluate(f"{VIDEO}.muted && {VIDEO}.loop")
        until(page, f"{VIDEO}.currentTime > 0 && !{VIDEO}.paused")
        page.keyboard.press("g")  # closes the guide
        for width in (1440, 1024):
            page.set_viewport_size({"width": width, "height": 900})
            clip = area(page, "video")
            for other in ("#label", "img"):
                assert not page.locator(other).count() or area(page, other) < clip
        page.set_viewport_size({"width": 390, "height": 844})
        clip = page.locator("video").bounding_box()
        option = page.locator(".option").first.bounding_box()
        save = page.locator(".save button").bounding_box()
        assert 0 < clip["y"] < option["y"]
        assert option["y"] + option["height"] <= save["y"]
        assert save["y"] + save["height"] <= 844
        # Half of the clip is above the form.
        form = page.locator("#label").bounding_box()
        assert clip["y"] + clip["height"] / 2 < form["y"]
        # The speed stays for the next clip.
        for key, speed in (("+", 1.5), ("+", 2), ("-", 1.5), ("-", 1), ("-", 0.5)):
            page.keyboard.press(key)
            assert page.evaluate(f"{VIDEO}.playbackRate") == speed
        page.click("button:has-text('Slower')")
        page.reload()
        assert page.evaluate(f"{VIDEO}.playbackRate") == 0.25
        assert page.inner_text(".speed output") == "0.25\u00d7"
        page.keyboard.press("-")
        assert page.evaluate(f"{VIDEO}.playbackRate") == 0.25
        page.emulate_media(reduced_motion="reduce")
        page.reload()
        assert page.evaluate(f"{VIDEO}.paused")


@pytest.mark.nightly
@pytest.mark.parametrize("name", LABELLED)
def test_axe_finds_no_flaws(start, browser, name):
    skip_without_axe()
    store = start(name)

    def check(page, *looks):
        for width, scheme in looks:
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert flaws(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width

    def label(page):
        """Choose the first option of each field, for all items."""
        while page.locator("#label").count():
            page.evaluate(
                "document.querySelectorAll('.option:first-child input').forEach((input) "
                "=> input.click())"
            )
            with page.expect_navigation():
                page.click(".save button")

    with served(store) as address:
        with browser.tab(address, store, "annotator-1", refused="4") as page:
            page.evaluate(
                "document.querySelectorAll('details').forEach((details) => { "
                "details.open = true; })"
            )
            check(page, *LOOKS)
            page.evaluate("document.getElementById('label').submit()")
            page.wait_for_selector("[role=alert]")
            check(page, (400, "light"), (1440, "dark"))
            page.goto(f"{base_of(page)}/item/0")
            check(page, (1024, "dark"))
        for name in ("annotator-1", "annotator-2"):
            with browser.tab(address, store, name) as page:
                label(page)
        for person in store.people():
            if person.role != "annotator":
                # A senior may not open an item that is not theirs; the page that says so is
                # checked, too.
                with browser.tab(address, store, person.name, refused="403") as page:
                    check(page, *LOOKS)
                    page.goto(f"{base_of(page)}/item/0")
                    check(page, (400, "light"))
                    if person.role == "lead":
                        page.goto(f"{base_of(page)}/adjudicate/0")
                        check(page, (1440, "dark"))
                        label(page)
                        check(page, *LOOKS)
