"""Fixtures: a page in a browser, opened from disk, and the small report of each benchmark."""

from contextlib import contextmanager

import pytest

from lmms_egoplan.report import page
from patience import FOREVER_S
from report.small_reports import SMALL
from report.two_models import ITEMS, RUNS, SECTIONS


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    """Write the report of `two_models` and return its folder."""
    out = tmp_path_factory.mktemp("report")
    page.write_page(out, SECTIONS, ITEMS, RUNS, ("results/old: killed, no results file",))
    return out


def unfold(tab):
    """Unfold all parts of the page."""
    tab.evaluate(
        "document.querySelectorAll('main details').forEach((part) => { part.open = true; })"
    )


@contextmanager
def watched_tab(browser, address, **settings):
    """Open an address.

    Fail on requests to the network, errors of scripts, and texts that run as scripts.
    """
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | settings)
    opened = context.new_page()
    opened.set_default_timeout(1000 * FOREVER_S)
    messages = []
    local = ("file:", "data:", "blob:")
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.on("requestfailed", lambda request: messages.append(f"{request.url}: {request.failure}"))
    opened.on(
        "request", lambda call: None if call.url.startswith(local) else messages.append(call.url)
    )
    opened.goto(address)
    yield opened
    assert [message for message in messages if not message.endswith("net::ERR_ABORTED")] == []
    assert opened.evaluate("window.hit") is None
    context.close()


@pytest.fixture
def tab(browser, page_folder, request):
    """Open the report in a `watched_tab`, and unfold it."""
    with watched_tab(
        browser, (page_folder / "index.html").as_uri(), **getattr(request, "param", {})
    ) as opened:
        unfold(opened)
        yield opened


@pytest.fixture(scope="module", params=SMALL)
def any_small(request, small_reports):
    with small_reports(request.param) as report:
        yield report


@pytest.fixture(scope="module")
def small(request, small_reports):
    """The small report of the benchmark that a test module's folder names."""
    with small_reports(request.path.parent.name) as report:
        yield report


@pytest.fixture(scope="module")
def runs(small):
    return small.runs


@pytest.fixture(scope="module")
def section(small):
    return small.section


@pytest.fixture(scope="module")
def written(small):
    return small.folder


@pytest.fixture(scope="module")
def logged(small):
    return small.counting.answers(small.folder)


@pytest.fixture(scope="module")
def bert(small):
    return small.inputs.similarity


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data root that does not exist yet."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"
