"""The page in a browser: by keyboard alone, at three widths, light and dark."""

from pathlib import Path

import pytest

from annotation.rating import Rating, texts
from annotation.serving import served
from lmms_egoplan.annotation.store import Settings, Store, create
from patience import FOREVER_S

_CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not _CHROMIUM.exists():
        pytest.skip(f"{_CHROMIUM} is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(_CHROMIUM), args=["--no-sandbox"], timeout=1000 * FOREVER_S
        )
        yield browser
        browser.close()


@pytest.fixture
def server(tmp_path):
    path = tmp_path / "labels.sqlite"
    create(path, Settings(Rating.name, 1, 1), texts(3), Rating.stages)
    store = Store(path, Rating.stages, alone=True)
    with served(store, Rating()) as address:
        yield address, store
    store.close()


@pytest.mark.parametrize("width", [400, 1024, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_keyboard_alone(browser, server, width, scheme):
    address, store = server
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(1000 * FOREVER_S)
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    (token,) = (person.token for person in store.people() if person.role == "annotator")
    page.goto(f"{address}/enter/{token}")
    assert token not in page.url
    for _ in range(2):
        page.keyboard.press("2")
        with page.expect_navigation():
            page.keyboard.press("Enter")
    with page.expect_navigation():
        page.keyboard.press("z")
    assert page.locator("input[value='1']").is_checked()
    page.keyboard.press("n")
    page.keyboard.type("2 odd")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    labels = [label for given in store.labelled().labels.values() for label in given]
    assert [(label.values["rating"], label.comment) for label in labels] == [("1", ""), ("0", "2 odd")]
    assert all(label.seconds is not None for label in labels)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert messages == []
    context.close()
