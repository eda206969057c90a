import hashlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import judge
from lmms_egoplan.judging import cache as cache_module
from lmms_egoplan.judging.cache import CacheError, JudgementCache, cache_key, default_cache_path
from lmms_egoplan.judging.judgement import Judgement, Prompt

_ENDPOINT = "http://host/v1"


def _rated(prompt="prompt \N{SNOWMAN}", **judgement):
    values = {
        "rating": 1.0,
        "reply": "Rating: [[1]]\0",
        "judge": "gpt",
        "prompt_tokens": 12,
        "seconds": 0.5,
    }
    return Judgement(**values | judgement, endpoint=_ENDPOINT, prompt=prompt)


def _loaded(cache, keys):
    """Return stored judgements without their time."""
    return {key: replace(judgement, time=None) for key, judgement in cache.load(keys).items()}


def _loaded_failures(cache, keys):
    return {
        key: replace(judgement, time=None) for key, judgement in cache.load_failures(keys).items()
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data" / "judgements.sqlite"


def test_the_default_path_is_in_the_data_root(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    assert default_cache_path() == tmp_path / "judgements.sqlite"


def test_stored_entries_are_loaded(path):
    entries = {f"key {n}": _rated(str(n)) for n in range(1200)}
    with JudgementCache(path) as cache:
        assert cache.load(entries) == {}
        cache.store(entries)
    with JudgementCache(path) as cache:
        assert _loaded(cache, [*entries, "absent"]) == entries
        cache.store({"key 7": _rated(rating=0.0)})
        assert cache.load(["key 7"])["key 7"].rating == 0.0
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "change",
    [
        *(
            "reply = CAST(reply AS BLOB)",
            "reply = CAST(x'fffe' AS TEXT)",
            "prompt = x'00'",
            "rating = 'good'",
        ),
        *("prompt_tokens = 'many'", "seconds = x'00'"),
    ],
)
def test_an_entry_of_wrong_types_is_ignored(path, change):
    with JudgementCache(path) as cache:
        cache.store({"a": _rated(), "b": _rated()})
        cache._database.execute(f"UPDATE judgements SET {change} WHERE key = 'a'")
        assert _loaded(cache, ["a", "b"]) == {"b": _rated()}
        cache.store({"a": _rated()})
        assert _loaded(cache, ["a", "b"]) == {"a": _rated(), "b": _rated()}


def test_different_questions_have_different_keys():
    keys = {
        cache_key(model, {"temperature": temperature}, prompt)
        for model in ("a", "ab")
        for temperature in (0, 1)
        for text in ("bc", "c", "\ud800")
        for images in ((), ("x",), ("y",), ("x", "y"), ("y", "x"), ("xy",))
        for prompt in (Prompt(text, images),)
    }
    assert len(keys) == 72
    assert cache_key("a", {"x": 1, "y": 2}, Prompt("b")) == cache_key(
        "a", {"y": 2, "x": 1}, Prompt("b")
    )


def test_keys_do_not_change():
    old = hashlib.sha256(b'["gpt", {"temperature": 0}, "how good?"]').hexdigest()
    assert cache_key("gpt", {"temperature": 0}, Prompt("how good?")) == old


def test_stores_all_or_nothing(path):
    with JudgementCache(path) as cache:
        with pytest.raises(CacheError):
            cache.store({"a": _rated(), "b": _rated(reply=None)})
        assert _loaded(cache, ["a"]) == {}
        cache.store({"a": _rated()})


def test_threads_create_a_database_together(path):
    together = threading.Barrier(8)

    def open_():
        together.wait()
        with JudgementCache(path) as cache:
            return cache.load(["a"])

    with ThreadPoolExecutor(8) as pool:
        assert [future.result() for future in [pool.submit(open_) for _ in range(8)]] == [{}] * 8


def test_a_table_with_other_columns_is_an_error(path):
    JudgementCache(path).__exit__()
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE judgements DROP COLUMN finish")
    with pytest.raises(CacheError, match=r"judgements\.sqlite.*judgements.*columns"):
        JudgementCache(path)


def test_stored_replies_without_finish_reason_count_if_they_end_with_a_rating(path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(path.parent))
    complete_replies = [
        "so [[1]]",
        "Rating: [[0.5]].",
        "**Rating: [[1]]**\n",
        "[[0]] or rather [[1]]",
        "<think>[[0]]</think>[[1]]",
    ]
    cut = [
        "It would get [[1]]. But let me compare",
        "[[1]] or",
        "<think>so [[1]]",
        "Rating: [[1]]\n\nThe reason: no",
    ]
    with JudgementCache(path) as cache:
        keys = {
            reply: cache_key("judge", {"temperature": 0}, Prompt(reply))
            for reply in complete_replies + cut
        }
        cache.store({key: _rated(reply, reply=reply) for reply, key in keys.items()})
    with JudgeServer(lambda *_: Reply("[[0]]")) as server:
        judgements = judge(server.url, complete_replies + cut)
        assert sorted(server.prompts) == sorted(cut)
        assert [judgement.cached for judgement in judgements] == [True] * len(complete_replies) + [
            False
        ] * len(cut)
        assert [judgement.rating for judgement in judgements] == [1, 0.5, 1, 1, 1, 0, 0, 0, 0]
        assert all(judgement.cached for judgement in judge(server.url, complete_replies + cut))


def test_a_read_only_database_is_an_error(path, monkeypatch):
    JudgementCache(path).__exit__()
    before = path.read_bytes()
    connect = sqlite3.connect
    monkeypatch.setattr(
        cache_module.sqlite3,
        "connect",
        lambda path, **options: connect(f"file:{path}?mode=ro", uri=True, **options),
    )
    with JudgementCache(path) as cache, pytest.raises(CacheError, match="writable"):
        cache.store({"a": _rated()})
    assert path.read_bytes() == before


def test_failures_are_kept_until_there_is_a_rating(path):
    words = "HTTP 400: too long"
    failure = Judgement(
        None, None, "judge", error=words, finish="length", endpoint=_ENDPOINT, max_tokens=4096
    )
    before = time.time()
    with JudgementCache(path) as cache:
        cache.store({"a": failure, "b": failure, "c": _rated()})
        assert _loaded_failures(cache, ["a", "b", "c"]) == {"a": failure, "b": failure}
        cache.store({"a": _rated()})
        assert _loaded_failures(cache, ["a", "b"]) == {"b": failure}
        assert before <= cache.load_failures(["b"])["b"].time <= time.time()
        assert _loaded(cache, ["a", "b", "c"]) == {"a": _rated(), "c": _rated()}


def test_waits_for_other_writers(path):
    with JudgementCache(path) as cache, JudgementCache(path) as other:
        other._database.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, other._database.execute, ["COMMIT"]).start()
        cache.store({"a": _rated()})
        assert _loaded(other, ["a"]) == {"a": _rated()}


def test_a_locked_database_is_an_error(path, monkeypatch):
    monkeypatch.setattr(cache_module, "_BUSY_S", 0.1)
    with JudgementCache(path) as cache:
        cache._database.execute("BEGIN IMMEDIATE")
        with pytest.raises(CacheError, match="locked"):
            JudgementCache(path)


def _garbage(path: Path):
    path.write_bytes(b"no database" * 1000)


def _torn(path: Path):
    with JudgementCache(path) as cache:
        cache.store({str(n): _rated() for n in range(1000)})
    path.write_bytes(path.read_bytes()[:40_000])


def _overwritten(path: Path):
    with JudgementCache(path) as cache:
        cache.store({str(n): _rated() for n in range(1000)})
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000] + b"\xff" * 8000 + whole[28_000:])


def _foreign(path: Path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE judgements (key TEXT, verdict TEXT)")
    database.close()


@pytest.mark.parametrize("damage", [_garbage, _torn, _overwritten, _foreign])
def test_opening_a_damaged_database_names_the_file(path, damage):
    path.parent.mkdir()
    damage(path)
    before = path.read_bytes()
    with pytest.raises(CacheError, match="Move it away") as error:
        JudgementCache(path)
    assert str(path) in str(error.value)
    assert path.read_bytes() == before


def test_an_unwritable_folder_names_the_variable(path):
    path.mkdir(parents=True)
    with pytest.raises(CacheError, match="LMMS_EGOPLAN_DATA"):
        JudgementCache(path)
    (path.parent / "file").touch()
    with pytest.raises(CacheError, match="LMMS_EGOPLAN_DATA"):
        JudgementCache(path.parent / "file" / "judgements.sqlite")
