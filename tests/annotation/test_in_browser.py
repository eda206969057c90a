"""Test the page in a browser: keys, drafts, and texts that look like scripts."""

from contextlib import ExitStack

import pytest

from annotation.rating import Rating, study_of, texts
from annotation.serving import served
from lmms_egoplan.annotation.database import Database, create
from lmms_egoplan.annotation.flow import Item
from lmms_egoplan.annotation.store import Store

HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>"


@pytest.fixture
def start(tmp_path):
    """Create databases of texts for one annotator."""
    opened = []

    def start(items):
        path = tmp_path / "labels.sqlite"
        create(path, study_of(Rating, 1, 1), items)
        store = Store(Database(path, exclusive=True), Rating())
        opened.append(store)
        return store

    yield start
    for store in opened:
        store.close()


def press(page, key):
    """Press a key that leads to another page."""
    with page.expect_navigation():
        page.keyboard.press(key)


@pytest.mark.nightly
def test_keys_save_open_and_comment(browser, start):
    store = start(texts(3))
    with served(store) as address, browser.tab(address, store, "annotator-1") as page:
        for _ in range(2):
            page.keyboard.press("1")
            press(page, "Enter")
        press(page, "z")
        with page.expect_navigation():
            page.click("main ul a")
        assert page.locator("input[value='1']").is_checked()
        page.keyboard.press("n")
        page.keyboard.type("2 odd")
        page.keyboard.press("Escape")
        page.keyboard.press("0")
        press(page, "Enter")
    labels = [label for item_labels in store.labelled().labels.values() for label in item_labels]
    assert [(label.values["rating"], label.comment) for label in labels] == [
        ("1", ""),
        ("0", "2 odd"),
    ]
    assert all(label.seconds is not None for label in labels)


@pytest.mark.nightly
def test_incomplete_form_is_not_sent(browser, start):
    store = start(texts(1))
    with served(store) as address, browser.tab(address, store, "annotator-1") as page:
        page.keyboard.press("Enter")
        assert page.locator("#label").count() == 1
    assert store.labelled().labels == {}


def test_draft_survives_a_reload_but_stays_with_its_item(browser, start):
    store = start(texts(2))
    with served(store) as address, browser.tab(address, store, "annotator-1") as page:
        page.keyboard.press("1")
        page.fill("[name=comment]", "half a thought")
        page.reload()
        assert page.locator("input[value='1']").is_checked()
        assert page.input_value("[name=comment]") == "half a thought"
        page.locator("[name=comment]").press("Escape")
        press(page, "Enter")
        assert page.locator("input:checked").count() == 0
        assert page.input_value("[name=comment]") == ""
    (label,) = [label for item_labels in store.labelled().labels.values() for label in item_labels]
    assert (label.values["rating"], label.comment) == ("1", "half a thought")


@pytest.mark.nightly
def test_held_key_acts_once(browser, start):
    store = start(texts(6))
    with served(store) as address, browser.tab(address, store, "annotator-1") as page:
        with page.expect_navigation():
            page.keyboard.down("z")
        page.wait_for_load_state()
        page.evaluate("document.body.dataset.here = 1")
        for _ in range(5):
            page.keyboard.down("z")  # The system repeats a held key.
        page.keyboard.up("z")
        page.wait_for_timeout(500)
        assert page.locator("body[data-here]").count() == 1


@pytest.mark.nightly
def test_draft_stays_with_its_database_and_keeps_its_time(browser, start, tmp_path):
    """Serve two databases in turn at one address. Their items have the same numbers."""
    store = start(texts(2))
    create(tmp_path / "other.sqlite", study_of(Rating, 1, 1), texts(2))
    other = Store(Database(tmp_path / "other.sqlite", exclusive=True), Rating())
    (token,) = (person.token for person in other.people() if person.role == "annotator")
    with ExitStack() as last, ExitStack() as first:
        address = first.enter_context(served(store))
        page = last.enter_context(browser.tab(address, store, "annotator-1"))
        page.keyboard.press("1")
        page.evaluate("clock.seconds += 100")
        page.reload()
        assert page.locator("input[value='1']").is_checked()
        page.reload()
        assert page.evaluate("clock.elapsed()") >= 100
        first.close()
        with served(other, int(address.rpartition(":")[2])):
            page.goto(f"{address}/enter/{token}")
            assert page.get_attribute("#label", "action").endswith("/label/1")
            assert page.locator("input:checked").count() == 0
            assert page.evaluate("clock.elapsed()") < 100
    other.close()


@pytest.mark.nightly
def test_input_survives_a_failed_save(browser, start):
    store = start(texts(1))
    with (
        served(store) as address,
        browser.tab(address, store, "annotator-1", refused="507") as page,
    ):
        page.keyboard.press("1")
        page.fill("[name=comment]", "long thought")
        store.database._connection.execute("PRAGMA query_only = ON")
        with page.expect_navigation() as refused:
            page.click(".save button")
        assert refused.value.status == 507
        store.database._connection.execute("PRAGMA query_only = OFF")
        page.go_back()
        assert page.input_value("[name=comment]") == "long thought"
        with page.expect_navigation():
            page.click(".save button")
        assert page.locator("#label").count() == 0
    ((label,),) = store.labelled().labels.values()
    assert (label.values["rating"], label.comment) == ("1", "long thought")


@pytest.mark.nightly
def test_two_tabs_of_one_person_save_one_label(browser, start):
    store = start(texts(1))
    with (
        served(store) as address,
        browser.tab(address, store, "annotator-1") as first_tab,
        browser.tab(address, store, "annotator-1", refused="409") as second_tab,
    ):
        for page, key in ((first_tab, "0"), (second_tab, "1")):
            page.keyboard.press(key)
            press(page, "Enter")
            if page is second_tab:
                assert page.locator("[role=alert]").count() == 1
                ((label,),) = store.labelled().labels.values()
                assert label.values["rating"] == "0"
                press(page, "Enter")
            assert page.locator("#label").count() == 0
    ((label,),) = store.labelled().labels.values()
    assert label.values["rating"] == "1"


@pytest.mark.nightly
def test_texts_are_not_run_as_scripts(browser, start):
    store = start(
        [Item(f"a{HOSTILE}", {"text": HOSTILE}), Item("b", {"text": "</textarea>" + HOSTILE})]
    )
    with served(store) as address:
        with browser.tab(address, store, "annotator-1") as page:
            for _ in range(2):
                assert "<script>" in page.inner_text(".part-prose p")
                page.fill("[name=comment]", f"</textarea>{HOSTILE}")
                page.locator("[name=comment]").press("Escape")
                page.keyboard.press("0")
                press(page, "Enter")
            press(page, "z")
            press(page, "Enter")
            assert page.input_value("[name=comment]") == f"</textarea>{HOSTILE}"
            page.keyboard.press("0")
            press(page, "Enter")
        with browser.tab(address, store, "lead") as page:
            assert page.inner_text("main").count("</textarea>") == 2
