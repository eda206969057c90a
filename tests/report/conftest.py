"""A page in a browser, opened from disk; and the small report of each benchmark."""

import pytest

from lmms_egoplan.report import build
from lmms_egoplan.report.page import write_page
from patience import FOREVER_S
from report.small_reports import SMALL
from report.two_models import ITEMS, RUNS, SECTIONS


@pytest.fixture(scope="module", autouse=True)
def unhurried():
    """Pictures get the time that they need on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "IMAGE_SECONDS", FOREVER_S)
        patch.setattr(build, "_SECONDS", 2 * FOREVER_S)
        yield


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of the report of `two_models`."""
    out = tmp_path_factory.mktemp("report")
    write_page(out, SECTIONS, ITEMS, RUNS, ("results/old: killed, no results file",), picture_seconds=FOREVER_S)
    return out


def unfold(page):
    """Open all that the page folds away."""
    page.evaluate("document.querySelectorAll('main details').forEach((part) => { part.open = true; })")


@pytest.fixture
def tab(browser, written, request):
    """The report, opened; nothing may be asked of the network, no script may fail, and no text may run."""
    settings = {"viewport": {"width": 1440, "height": 900}} | getattr(request, "param", {})
    context = browser.new_context(**settings)
    page = context.new_page()
    page.set_default_timeout(1000 * FOREVER_S)
    messages = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("requestfailed", lambda failed: messages.append(f"{failed.url}: {failed.failure}"))
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:")) else messages.append(asked.url))
    page.goto((written / "index.html").as_uri())
    unfold(page)
    yield page
    assert [message for message in messages if not message.endswith("net::ERR_ABORTED")] == []
    assert page.evaluate("window.hit") is None
    context.close()


@pytest.fixture(scope="module", params=SMALL)
def small(request, small_reports):
    with small_reports(request.param) as report:
        yield report
