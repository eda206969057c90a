"""Videos of steps, studies of texts, and a strict browser.

The browser fails on foreign requests and script errors.
"""

import json
from contextlib import contextmanager

import pytest

from annotation.rating import Rating, texts
from annotation.studies import open_store
from benchmarks.egointent.source import write_videos
from lmms_egoplan.annotation.serve import Team
from patience import FOREVER_S


class Browser:
    """Open tabs that forbid requests to other hosts and script errors."""

    def __init__(self, chromium):
        self._chromium = chromium

    @contextmanager
    def tab(self, address, store, name, width=1440, scheme="light", refused=""):
        """Open a person's link. The console may only report responses with the status `refused`."""
        context = self._chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        page = context.new_page()
        page.set_default_timeout(1000 * FOREVER_S)
        messages = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith((address, "data:")) else messages.append(request.url)
            ),
        )
        (token,) = (person.token for person in store.people() if person.name == name)
        page.goto(f"{address}/enter/{token}")
        assert token not in page.url
        yield page
        assert [
            message for message in messages if not refused or f"status of {refused}" not in message
        ] == []
        assert page.evaluate("window.hit") is None
        context.close()


@pytest.fixture(scope="session")
def numbered_videos(tmp_path_factory):
    """Write the videos of EgoIntent's steps, which no test changes."""
    return write_videos(tmp_path_factory.mktemp("egointent") / "videos")


@pytest.fixture
def start_study(tmp_path):
    """Return a function that opens a database of texts with a study."""
    opened = []

    def start(study, count=6, flow=Rating, **files):
        """Write the study and its other files: known values by number of the text."""
        for name, known in files.items():
            lines = [
                json.dumps({"item": f"text/{number}", "values": values})
                for number, values in known.items()
            ]
            (tmp_path / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        (tmp_path / "study.yaml").write_text(study)
        team = Team(study=str(tmp_path / "study.yaml"))
        opened.append(
            open_store(
                flow(), tmp_path / "labels.sqlite", lambda _: texts(count), "texts.json", team
            )
        )
        return opened[-1]

    yield start
    for store in opened:
        store.close()


@pytest.fixture(scope="module")
def browser(browser):
    return Browser(browser)
