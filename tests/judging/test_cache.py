import hashlib
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lmms_egoplan.judging import cache as cache_module
from lmms_egoplan.judging import default_cache_path
from lmms_egoplan.judging.cache import CacheError, Entry, JudgementCache, cache_key
from lmms_egoplan.judging.judgement import Prompt

_ENTRY = Entry(
    prompt="prompt \N{SNOWMAN}",
    reply="Rating: [[1]]\0",
    rating=1.0,
    model="gpt",
    endpoint="http://host/v1",
    prompt_tokens=12,
    completion_tokens=None,
    seconds=0.5,
    time="2026-01-01T00:00:00+00:00",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "judgements.sqlite"


def test_is_in_the_data_root(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    assert default_cache_path() == tmp_path / "judgements.sqlite"


def test_keeps_entries(path):
    entries = {f"key {n}": replace(_ENTRY, prompt=str(n)) for n in range(1200)}
    with JudgementCache(path) as cache:
        assert cache.load(entries) == {}
        cache.store(entries)
    with JudgementCache(path) as cache:
        assert cache.load([*entries, "absent"]) == entries
        cache.store({"key 7": replace(_ENTRY, rating=0.0)})
        assert cache.load(["key 7"])["key 7"].rating == 0.0
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "change",
    [
        "reply = CAST(reply AS BLOB)",
        "reply = CAST(x'fffe' AS TEXT)",
        "prompt = x'00'",
        "rating = 'good'",
        "prompt_tokens = 'many'",
        "seconds = x'00'",
    ],
)
def test_an_entry_of_wrong_types_is_absent(path, change):
    with JudgementCache(path) as cache:
        cache.store({"a": _ENTRY, "b": _ENTRY})
        cache._database.execute(f"UPDATE judgements SET {change} WHERE key = 'a'")
        assert cache.load(["a", "b"]) == {"b": _ENTRY}
        cache.store({"a": _ENTRY})
        assert cache.load(["a", "b"]) == {"a": _ENTRY, "b": _ENTRY}


def test_keys_tell_questions_apart():
    keys = {
        cache_key(model, {"temperature": temperature}, prompt)
        for model in ("a", "ab")
        for temperature in (0, 1)
        for text in ("bc", "c", "\ud800")
        for images in ((), ("x",), ("y",), ("x", "y"), ("y", "x"), ("xy",))
        for prompt in (Prompt(text, images),)
    }
    assert len(keys) == 72
    assert cache_key("a", {"x": 1, "y": 2}, Prompt("b")) == cache_key("a", {"y": 2, "x": 1}, Prompt("b"))


def test_keys_do_not_change():
    old = hashlib.sha256(b'["gpt", {"temperature": 0}, "how good?"]').hexdigest()
    assert cache_key("gpt", {"temperature": 0}, Prompt("how good?")) == old


def test_stores_all_or_nothing(path):
    with JudgementCache(path) as cache:
        with pytest.raises(CacheError):
            cache.store({"a": _ENTRY, "b": replace(_ENTRY, rating=None)})
        assert cache.load(["a"]) == {}
        cache.store({"a": _ENTRY})


def test_waits_for_other_writers(path):
    with JudgementCache(path) as cache, JudgementCache(path) as other:
        other._database.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, other._database.execute, ["COMMIT"]).start()
        cache.store({"a": _ENTRY})
        assert other.load(["a"]) == {"a": _ENTRY}


def test_a_writer_that_never_ends_is_told(path, monkeypatch):
    monkeypatch.setattr(cache_module, "_BUSY_S", 0.1)
    with JudgementCache(path) as cache:
        cache._database.execute("BEGIN IMMEDIATE")
        with pytest.raises(CacheError, match="locked"):
            JudgementCache(path)


def _garbage(path: Path):
    path.write_bytes(b"no database" * 1000)


def _torn(path: Path):
    with JudgementCache(path) as cache:
        cache.store({str(n): _ENTRY for n in range(1000)})
    path.write_bytes(path.read_bytes()[:40_000])


def _overwritten(path: Path):
    with JudgementCache(path) as cache:
        cache.store({str(n): _ENTRY for n in range(1000)})
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000] + b"\xff" * 8000 + whole[28_000:])


def _foreign(path: Path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE judgements (key TEXT, verdict TEXT)")
    database.close()


@pytest.mark.parametrize("damage", [_garbage, _torn, _overwritten, _foreign])
def test_damage_is_told_at_opening(path, damage):
    path.parent.mkdir()
    damage(path)
    before = path.read_bytes()
    with pytest.raises(CacheError, match="Move it away") as error:
        JudgementCache(path)
    assert str(path) in str(error.value)
    assert path.read_bytes() == before


def test_places_that_cannot_be_written_are_told(path):
    path.mkdir(parents=True)
    with pytest.raises(CacheError, match="LMMS_EGOPLAN_DATA"):
        JudgementCache(path)
    (path.parent / "file").touch()
    with pytest.raises(CacheError, match="LMMS_EGOPLAN_DATA"):
        JudgementCache(path.parent / "file" / "judgements.sqlite")
