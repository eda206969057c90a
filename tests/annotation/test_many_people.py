"""Many people at once over real HTTP, and servers that are killed."""

import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from annotation.rating import Rating, texts
from annotation.serving import enter, form_in, post, served
from lmms_egoplan.annotation.database import Settings, create
from lmms_egoplan.annotation.store import Store
from patience import FOREVER_S

PEOPLE = 10


def label_all(address, store, name):
    """Labels all that is served to a person; the slots that the browser was told, and the seconds of each answer."""
    client, slots, times = enter(address, store, name), [], []
    while 'action="/label/' in client.page.text:
        where, _ = form_in(client.page.text)
        began = time.perf_counter()
        assert post(client, rating=random.choice("01")).status_code == 200
        times.append(time.perf_counter() - began)
        slots.append(int(where.rpartition("/")[2]))
    return slots, times


def label_at_once(folder, count, per_item):
    """The store, and of each of `PEOPLE` what `label_all` gives."""
    path = folder / "labels.sqlite"
    create(path, Settings(Rating.name, PEOPLE, per_item), texts(count), Rating.stages)
    store = Store(path, Rating.stages, alone=True)
    with served(store, Rating()) as address, ThreadPoolExecutor(PEOPLE) as pool:
        names = [f"annotator-{number}" for number in range(1, PEOPLE + 1)]
        return store, list(pool.map(lambda name: label_all(address, store, name), names))


def check(store, found, count, per_item):
    slots = [slot for own, _ in found for slot in own]
    assert len(slots) == len({*slots}) == count * per_item
    labels = store.labelled().labels
    assert len(labels) == count
    for given in labels.values():
        assert len({label.person for label in given}) == len(given) == per_item
    assert len(store._rows("SELECT id FROM labels")) == count * per_item


def test_ten_people_at_once(tmp_path):
    store, found = label_at_once(tmp_path, 20, 3)
    check(store, found, 20, 3)
    store.close()


@pytest.mark.whole
def test_ten_people_on_500_items(tmp_path):
    store, found = label_at_once(tmp_path, 500, 2)
    check(store, found, 500, 2)
    store.close()
    times = sorted(seconds for _, own in found for seconds in own)
    print(f"answer to a label, with the next page: 95 % under {1000 * times[int(0.95 * len(times))]:.0f} ms")


_SERVER = """
import sys
from pathlib import Path
from annotation.rating import Rating
from lmms_egoplan.annotation.serve import serve
from lmms_egoplan.annotation.store import Store
serve(Store(Path(sys.argv[1]), Rating.stages, alone=True), Rating(), "127.0.0.1", int(sys.argv[2]))
"""


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def label_until_it_dies(address, token, saved):
    """What a browser is told is saved, until there is no answer any more."""
    try:
        with httpx.Client(base_url=address, timeout=FOREVER_S) as client:
            page = client.get(f"/enter/{token}", follow_redirects=True).text
            while 'action="/label/' in page:
                where, hidden = form_in(page)
                if client.post(where, data=hidden | {"rating": "1"}).status_code == 303:
                    saved.append(int(where.rpartition("/")[2]))
                page = client.get("/").text
    except httpx.HTTPError:
        return


@pytest.mark.whole
def test_killed_servers_lose_nothing_that_a_browser_was_told(tmp_path):
    path = tmp_path / "labels.sqlite"
    create(path, Settings(Rating.name, 4, 4), texts(2000), Rating.stages)
    store = Store(path, Rating.stages)
    tokens = [person.token for person in store.people() if person.role == "annotator"]
    store.close()
    saved = []
    chance = random.Random(0)
    for _ in range(20):
        port = free_port()
        tests = Path(__file__).parents[1]
        server = subprocess.Popen([sys.executable, "-c", _SERVER, path, str(port)], stdout=subprocess.PIPE, cwd=tests)
        while b"Stop with" not in server.stdout.readline():
            assert server.poll() is None
        with ThreadPoolExecutor(len(tokens)) as pool:
            for token in tokens:
                pool.submit(label_until_it_dies, f"http://127.0.0.1:{port}", token, saved)
            before, patience = len(saved), time.monotonic() + FOREVER_S
            while len(saved) == before and time.monotonic() < patience:
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.5))
            server.kill()
        server.wait()
        server.stdout.close()
    store = Store(path, Rating.stages)
    stored = {slot for (slot,) in store._rows("SELECT slot FROM counting")}
    assert len(saved) == len({*saved}) > 20
    assert {*saved} <= stored
    # A kill may hit between the disk and the answer: one label for each person and kill at most.
    assert len(stored) - len(saved) <= 20 * len(tokens)
    assert re.fullmatch("ok", store._rows("PRAGMA integrity_check")[0][0])
    store.close()
