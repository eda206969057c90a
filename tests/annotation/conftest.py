"""Videos of steps, and a browser that fails on foreign requests and script errors."""

from contextlib import contextmanager

import pytest

from patience import FOREVER_S


class Browser:
    """Open tabs that forbid requests to other hosts and script errors."""

    def __init__(self, chromium):
        self._chromium = chromium

    @contextmanager
    def tab(self, address, store, name, width=1440, scheme="light", refused=""):
        """Open a person's link. The console may only report responses with the status `refused`."""
        context = self._chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        page.set_default_timeout(1000 * FOREVER_S)
        messages = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith((address, "data:")) else messages.append(request.url),
        )
        (token,) = (person.token for person in store.people() if person.name == name)
        page.goto(f"{address}/enter/{token}")
        assert token not in page.url
        yield page
        assert [message for message in messages if not refused or f"status of {refused}" not in message] == []
        assert page.evaluate("window.hit") is None
        context.close()


@pytest.fixture(scope="session")
def numbered_videos(tmp_path_factory):
    """Write the videos of EgoIntent's steps, which no test changes."""
    from benchmarks.egointent.source import write_videos

    return write_videos(tmp_path_factory.mktemp("egointent") / "videos")


@pytest.fixture(scope="module")
def browser(browser):
    return Browser(browser)
