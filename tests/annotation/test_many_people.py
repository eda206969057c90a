"""Many concurrent annotators over real HTTP, and killed servers."""

import random
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from annotation.rating import Rating, Studied, known_texts, new_store, study_of
from annotation.serving import enter, form_in, post, served, visited
from lmms_egoplan.annotation.database import Database, StoreError, create
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.annotation.study import Gold, Group, Round, Study
from lmms_egoplan.cli import app
from patience import FOREVER_S, wait_until
from ports import free_port

PEOPLE = 10
# Three rounds, one of them on a sample, and gold items. Final checks wait for the lead
# where labels differ.
STUDY = Study(
    flow="studied",
    people={"annotator": Group(count=7), "reviewer": Group(count=3)},
    rounds=[
        Round(name="rate", per_item=2),
        Round(name="check", people="reviewer", sample=10),
        Round(name="audit", people="reviewer", final=True),
    ],
    gold=Gold(labels="known.jsonl", every=4),
)


def label_all(address, store, name):
    """Label everything that a person gets. Return the slots."""
    client, slots = enter(address, store, name), []
    while 'id="label"' in client.page.text:
        where, _ = form_in(client.page.text)
        assert post(client, rating="1").status_code == 200
        slots.append(int(where.rpartition("/")[2]))
    return slots


def check_study(store, count):
    """Check who got what in a finished study of this many items.

    Each slot was labelled once.
    """
    database = store.database
    labelled = [slot for (slot,) in database.rows("SELECT slot FROM history ORDER BY slot")]
    assert labelled == [slot for (slot,) in database.rows("SELECT id FROM slots ORDER BY id")]
    rows = database.rows("SELECT stage, item, person FROM slots")
    stages = Counter(stage for stage, _, _ in rows)
    assert {**stages, "gold": None} == {
        "rate": 2 * count,
        "check": 10,
        "audit": count,
        "gold": None,
    }
    assert {
        person.partition("-")[0] for stage, _, person in rows if stage in ("check", "audit")
    } == {"reviewer"}
    for name, _ in STUDY.names():
        stages_of_person = [stage for stage, _, person in rows if person == name]
        num_gold = stages_of_person.count("gold")
        if name.startswith("reviewer"):
            assert num_gold == 0
        else:
            blocks = (len(stages_of_person) - num_gold) // 4
            assert num_gold in (min(3, blocks), min(3, blocks + 1))
    assert max(Counter((item, person) for _, item, person in rows).values()) == 1
    assert {progress.state for progress in store.progress()} == {"finished"}


@pytest.mark.nightly
def test_ten_people_in_a_study_of_three_rounds(tmp_path):
    count, path = 200, tmp_path / "labels.sqlite"
    create(path, STUDY, *known_texts(count, 3))
    store = Store(Database(path, exclusive=True), Studied())
    names = [name for name, _ in STUDY.names()]
    slots = []
    with served(store) as address, ThreadPoolExecutor(PEOPLE) as pool:
        while new_slots := [
            slot
            for slots in pool.map(lambda name: label_all(address, store, name), names)
            for slot in slots
        ]:
            slots += new_slots
    assert len(slots) == len({*slots}) == len(store.database.rows("SELECT id FROM history"))
    check_study(store, count)
    store.close()


_SERVER = """
import sys
from pathlib import Path
from annotation.rating import Rating, Studied
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.serve import serve
from lmms_egoplan.annotation.store import Store
database = Database(Path(sys.argv[1]), exclusive=True)
flow = Studied() if database.study.flow == "studied" else Rating()
serve(Store(database, flow), "127.0.0.1", int(sys.argv[2]))
"""


def label_until_it_dies(address, token, saved):
    """Label until the server stops responding.

    Add each slot whose label the server confirmed to `saved`.
    """
    try:
        with httpx.Client(base_url=address, timeout=FOREVER_S) as client:
            page = client.get(f"/enter/{token}", follow_redirects=True).text
            while 'id="label"' in page:
                where, hidden = form_in(page)
                if client.post(where, data=hidden | {"rating": "1"}).status_code == 303:
                    saved.append(int(where.rpartition("/")[2]))
                page = client.get(where.partition("label/")[0]).text
    except httpx.HTTPError:
        return


@contextmanager
def server_of(path):
    """Start a server in another process. Yield the process and the address."""
    port, tests = free_port(), Path(__file__).parents[1]
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, path, str(port)], stdout=subprocess.PIPE, cwd=tests
    )
    try:
        while b"labels.sqlite" not in server.stdout.readline():
            assert server.poll() is None
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def new_database(path, items, annotators=1, study=None):
    """Create a database. Return the tokens of the people who label."""
    create(
        path,
        study or study_of(Rating, annotators, annotators),
        *known_texts(items, 3 if study else 0),
    )
    with closing(Store(Database(path), Rating())) as store:
        return [person.token for person in store.people() if person.group]


def num_labels(path):
    with closing(Store(Database(path), Rating())) as store:
        return len(store.labelled().labels)


def replace_by_a_copy(path):
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def rename(path):
    path.rename(path.with_suffix(".old"))


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(replace_by_a_copy, marks=pytest.mark.whole),
        pytest.param(rename, marks=pytest.mark.nightly),
        pytest.param(Path.unlink, marks=pytest.mark.nightly),
    ],
)
def test_nothing_is_saved_after_the_database_is_moved_or_replaced(tmp_path, lose):
    path = tmp_path / "labels.sqlite"
    (token,) = new_database(path, 30)
    with (
        server_of(path) as (_, address),
        httpx.Client(base_url=address, timeout=FOREVER_S) as client,
    ):
        page = client.get(f"/enter/{token}", follow_redirects=True).text
        for number in range(20):
            where, hidden = form_in(page)
            assert client.post(where, data=hidden | {"rating": "1"}).status_code == 303
            page = client.get(where.partition("label/")[0]).text
            if number == 10:
                # A plain copy is complete.
                shutil.copy(path, tmp_path / "copy.sqlite")
                assert num_labels(tmp_path / "copy.sqlite") == 11
        lose(path)
        where, hidden = form_in(page)
        answer = client.post(where, data=hidden | {"rating": "1"})
        assert answer.status_code == 507
        assert "labels.sqlite" in answer.text
    databases = [file for file in (path, path.with_suffix(".old")) if file.exists()]
    assert [num_labels(file) for file in databases] == [20] * len(databases)


@pytest.mark.nightly
def test_second_server_cannot_open_a_hard_link(tmp_path):
    path, other = tmp_path / "labels.sqlite", tmp_path / "other.sqlite"
    new_database(path, 2)
    with server_of(path):
        other.hardlink_to(path)
        with pytest.raises(StoreError, match=r"other\.sqlite"):
            Store(Database(other, exclusive=True), Rating())


def backup(path, out, *options):
    """Run ``annotate backup``."""
    return CliRunner().invoke(app, ["annotate", "backup", str(path), "--out", str(out), *options])


def saved_slots(path):
    with closing(Store(Database(path), Rating())) as store:
        return {slot for (slot,) in store.database.rows("SELECT id FROM labelled")}


def test_backup_of_a_served_database(tmp_path):
    path, out = tmp_path / "labels.sqlite", tmp_path / "backups" / "monday.sqlite"
    store = new_store(path, 6, 1, 1)
    with visited(store) as client:
        for count in (2, 4):
            for _ in range(2):
                post(client, rating="1")
            # The second backup replaces the first.
            assert backup(path, out, "--overwrite").exit_code == 0
            assert len(saved_slots(out)) == count
        (tmp_path / "mine.sqlite").write_text("mine")
        assert backup(path, tmp_path / "mine.sqlite").exit_code == 1
        assert (tmp_path / "mine.sqlite").read_text() == "mine"
    assert out.stat().st_mode & 0o077 == 0
    assert [file.name for file in out.parent.iterdir()] == ["monday.sqlite"]


@pytest.mark.nightly
def test_backup_while_people_label(tmp_path):
    path, out = tmp_path / "labels.sqlite", tmp_path / "monday.sqlite"
    tokens, saved = new_database(path, 2000, 4), []
    with server_of(path) as (server, address), ThreadPoolExecutor(len(tokens)) as pool:
        for token in tokens:
            pool.submit(label_until_it_dies, address, token, saved)
        for count in (10, 40):
            wait_until(lambda count=count: len(saved) >= count)
            before = {*saved}
            assert backup(path, out, "--overwrite").exit_code == 0
            assert before <= saved_slots(out)
        server.kill()


@pytest.mark.parametrize(
    ("kills", "count"),
    [
        pytest.param(3, 60, marks=pytest.mark.whole),
        pytest.param(20, 600, marks=pytest.mark.nightly),
    ],
)
def test_ten_people_lose_no_confirmed_label_when_servers_are_killed(tmp_path, kills, count):
    """Kill the server after some labels. In the end, the people finish the study."""
    path, saved = tmp_path / "labels.sqlite", []
    tokens = new_database(path, count, study=STUDY)
    assert len(tokens) == PEOPLE
    rng = random.Random(0)
    for _ in range(kills):
        with server_of(path) as (server, address), ThreadPoolExecutor(PEOPLE) as pool:
            for token in tokens:
                pool.submit(label_until_it_dies, address, token, saved)
            enough = len(saved) + rng.randint(1, count // kills)
            wait_until(lambda enough=enough: len(saved) >= enough)
            server.kill()
    stored = saved_slots(path)
    assert len(saved) == len({*saved})
    assert {*saved} <= stored
    # A kill may hit between the write and the response: at most one label per person and kill.
    assert len(stored) - len(saved) <= kills * PEOPLE
    with closing(Store(Database(path, exclusive=True), Studied())) as store:
        assert [*map(tuple, store.database.rows("PRAGMA integrity_check"))] == [("ok",)]
        with served(store) as address, ThreadPoolExecutor(PEOPLE) as pool:
            names = [name for name, _ in STUDY.names()]
            while any(list(pool.map(lambda name: label_all(address, store, name), names))):
                pass
        check_study(store, count)
