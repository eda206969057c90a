"""Open databases of format 4, which had more tables, and triggers that kept counts.

`format_4` has dumps of three that its version wrote: rounds with samples, training and gold items,
items that were set aside, skips, released items and decisions; a qualification with verdicts; and a
finished study, in which a decision was withdrawn.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from annotation.rating import Rating, Studied
from lmms_egoplan.annotation import conversion
from lmms_egoplan.annotation.database import Database, StoreError
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.files import lock_file

DUMPS = Path(__file__).parent / "format_4"


@pytest.fixture(params=["rounds", "qualification", "finished"])
def old(request, tmp_path):
    """Return the path of a database of format 4."""
    path = tmp_path / "labels.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DUMPS / f"{request.param}.sql").read_text(encoding="utf-8"))
    return path


def original(path):
    return path.with_name("labels.sqlite.format-4")


def open_store(path, exclusive=True):
    database = Database(path, exclusive=exclusive)
    return Store(database, Studied() if database.study.flow == "studied" else Rating())


def rows(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_every_label_and_row_of_history_is_kept(old):
    content = old.read_bytes()
    with closing(open_store(old)) as store:
        labels = store.labelled().labels
        saved = [
            (label.stage, label.person, json.dumps(label.values), label.comment, label.at)
            for item_labels in labels.values()
            for label in item_labels
        ]
    assert saved
    counting = rows(original(old), "SELECT stage, person, choices, comment, at FROM counting")
    assert sorted(saved) == sorted(counting)
    assert original(old).read_bytes() == content
    for new_query, old_query in (
        (
            'SELECT id, slot, form, "values", comment, seconds, reason, at FROM history',
            "SELECT id, slot, form, choices, comment, seconds, skipped, at FROM labels",
        ),
        ("SELECT * FROM verdicts", "SELECT * FROM verdicts"),
        ("SELECT * FROM items", "SELECT * FROM items"),
        (
            "SELECT name, role, team, token, called FROM people",
            "SELECT name, role, team, token, called FROM people",
        ),
        ("SELECT id, item, stage, person FROM slots", "SELECT id, item, stage, person FROM slots"),
        (
            "SELECT id, reason FROM slots WHERE state = 'skipped'",
            "SELECT id, skipped FROM slots WHERE skipped IS NOT NULL",
        ),
        (
            "SELECT id FROM slots WHERE state = 'released'",
            "SELECT id FROM slots WHERE released IS NOT NULL",
        ),
        (
            "SELECT id FROM slots WHERE state = 'open'",
            "SELECT id FROM slots WHERE released IS NULL AND label IS NULL AND skipped IS NULL",
        ),
        (
            'SELECT id, "values" FROM slots',
            "SELECT id, (SELECT choices FROM labels WHERE slot = slots.id AND choices IS NOT NULL "
            "ORDER BY id DESC LIMIT 1) FROM slots",
        ),
    ):
        assert sorted(rows(old, new_query)) == sorted(rows(original(old), old_query))


def free_places(store, stages):
    """Return all free places, by stage and item, for a person who never had an item."""
    free = set()
    for stage, part in stages:
        position = store.assignments._first_new("nobody", stage, part, 0)
        while position is not None:
            free.add((position, stage))
            position = store.assignments._first_new("nobody", stage, part, position + 1)
    return free


def test_people_continue_where_they_were(old):
    with closing(open_store(old)) as store:
        places = rows(original(old), "SELECT item, stage, part, needed, is_free FROM places")
        stages = {(stage, part) for _, stage, part, _, _ in places}
        free = {(item, stage) for item, stage, _, _, is_free in places if is_free}
        assert free_places(store, stages) == free
        totals = rows(original(old), "SELECT stage, needed FROM totals WHERE needed")
        assert {stage: needed for stage, needed in store.totals().items() if needed} == dict(totals)
        num_labelled = dict(rows(original(old), "SELECT name, num_labelled FROM people"))
        for person in store.people():
            if person.group:
                assert store.share(person)[0] == num_labelled[person.name]
        ((before,),) = rows(old, "SELECT count(*) FROM history")
        slots = [
            store.assignments.next_slot(person.name) for person in store.people() if person.group
        ]
        open_slots = [slot for slot in slots if slot is not None]
        for slot in open_slots:
            assert store.save(slot, "after the conversion", {"rating": "1"})
        assert [(before + len(open_slots),)] == rows(old, "SELECT count(*) FROM history")


def test_a_database_is_converted_once(old):
    open_store(old).close()
    content = old.read_bytes()
    open_store(old, exclusive=False).close()
    assert old.read_bytes() == content
    assert {path.name for path in old.parent.iterdir()} == {
        "labels.sqlite",
        "labels.sqlite.lock",
        "labels.sqlite.format-4",
    }


def test_an_interrupted_conversion_is_repeated(old, monkeypatch):
    content = old.read_bytes()

    def fail(connection):
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_convert_rows", fail)
        with pytest.raises(StoreError, match="not converted, and unchanged: disk I/O error"):
            open_store(old)
    assert old.read_bytes() == content
    with closing(open_store(old)) as store:
        assert store.labelled().labels
    assert original(old).read_bytes() == content
    assert not old.with_name("labels.sqlite.format-4-2").exists()


_KILLED = """
import os, sys
from pathlib import Path
from lmms_egoplan.annotation import conversion
steps = ["_keep_original", "_convert_settings", "_convert_rows"]
step = sys.argv[2]
if step in steps:
    run = getattr(conversion, step)
    def killed(*arguments):
        run(*arguments)
        os.kill(os.getpid(), 9)
    setattr(conversion, step, killed)
from lmms_egoplan.annotation.database import Database
Database(Path(sys.argv[1]), exclusive=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("step", ["_keep_original", "_convert_settings", "_convert_rows", "end"])
def test_a_killed_conversion_leaves_the_original_or_the_converted_database(old, step):
    content = old.read_bytes()
    killed = subprocess.run([sys.executable, "-c", _KILLED, old, step], cwd="tests", check=False)
    assert killed.returncode == -9
    assert (old.read_bytes() == content) == (step != "end")
    with closing(open_store(old)) as store:
        labels = sum(map(len, store.labelled().labels.values()))
    assert [(labels,)] == rows(original(old), "SELECT count(*) FROM counting")
    assert original(old).read_bytes() == content


def test_an_earlier_copy_of_another_database_is_not_overwritten(old):
    original(old).write_text("mine")
    content = old.read_bytes()
    open_store(old).close()
    assert original(old).read_text() == "mine"
    assert old.with_name("labels.sqlite.format-4-2").read_bytes() == content


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_served_database_is_not_converted(old, exclusive):
    content = old.read_bytes()
    with (
        lock_file(old.with_name("labels.sqlite.lock")),
        pytest.raises(StoreError, match="another server"),
    ):
        open_store(old, exclusive=exclusive)
    assert old.read_bytes() == content
    assert not original(old).exists()


def test_a_database_behind_a_symbolic_link_is_converted_in_its_folder(old, tmp_path):
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(old)
    open_store(link).close()
    assert link.is_symlink()
    assert original(old).exists()
    shutil.copy(original(old), old)
    other = tmp_path / "other.sqlite"
    other.hardlink_to(old)
    with pytest.raises(StoreError, match="second name"):
        open_store(old)
