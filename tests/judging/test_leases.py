"""Judge the same prompts in several processes.

Only one sends each prompt, and all replies are stored.
"""

import asyncio
import io
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import select
from judging.asked import SCALE, judge, start
from lmms_egoplan.judging import cache as cache_module
from lmms_egoplan.judging import client as client_module
from lmms_egoplan.judging import leases as leases_module
from lmms_egoplan.judging import run as run_module
from lmms_egoplan.judging.cache import JudgementCache, cache_key, default_cache_path
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import DEFAULT_PARAMETERS, JudgeSettings
from lmms_egoplan.judging.text import read_reply
from patience import FOREVER_S, running, wait_until

pytestmark = pytest.mark.usefixtures("data")


def ratings_of(process):
    out, err = process.communicate(timeout=FOREVER_S)
    assert process.returncode == 0, err
    return out.split()


def stored_prompts():
    return {prompt for (prompt,) in select("prompt", "judgements")}


def claim(prompt, owner, expires):
    key = cache_key("judge", DEFAULT_PARAMETERS, Prompt(prompt))
    with JudgementCache(default_cache_path()) as cache:
        row = {"key": key, "owner": owner, "expires": expires}
        cache.write("INSERT INTO claims VALUES (:key, :owner, :expires)", [row])


def other_process():
    """Open a connection to the cache, which can lock it like another process."""
    JudgementCache(default_cache_path()).__exit__()
    return sqlite3.connect(default_cache_path(), isolation_level=None, check_same_thread=False)


def claims():
    return select("*", "claims")


@pytest.mark.nightly
def test_three_processes_send_no_duplicate_requests():
    with JudgeServer(lambda *_: Reply(delay=0.05)) as server:
        processes = [start(server, first, first + 60) for first in (0, 0, 40)]
        assert [ratings_of(process) for process in processes] == [["1.0"] * 60] * 3
        prompts = [f"prompt {n}" for n in range(100)]
        assert sorted(server.prompts) == sorted(prompts)
        assert claims() == []
        assert [judgement.rating for judgement in judge(server.url, prompts)] == [1] * 100
        assert len(server.prompts) == 100


def test_a_refusal_of_another_process_is_reused():
    def reply(prompt, _):
        wait_until(lambda: len(server.prompts) >= 4)  # both have started
        return Reply(f"{prompt} is bad", status=400)

    with JudgeServer(reply) as server:
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda _: judge(server.url, "abcdefgh", 2), range(2)))
        assert sorted(server.prompts) == list("abcdefgh")
    for judgements in results:
        assert [j.error.partition("HTTP ")[2] for j in judgements] == [
            f"400: {name} is bad" for name in "abcdefgh"
        ]


def test_replies_are_stored_before_the_next_request():
    stored = []

    def reply(prompt, _):
        stored.append(stored_prompts())
        return Reply()

    with JudgeServer(reply) as server:
        judge(server.url, map(str, range(12)), concurrency=1)
    assert [len(prompts) for prompts in stored] == list(range(12))


@pytest.mark.nightly
def test_after_a_kill_stored_replies_are_reused_without_waiting():
    held = threading.Event()

    def reply(prompt, _):
        if prompt == "prompt 17":
            held.wait(FOREVER_S)
        return Reply()

    with JudgeServer(reply) as server:
        process = start(server, 0, 18, lease=200)
        # Newer replies to other slots of the process may not be stored yet.
        wait_until(
            lambda: len(server.prompts) == 18 and len(stored_prompts()) == 17, running(process)
        )
        process.kill()
        process.communicate()
        held.set()
        # claims of an ended process expire immediately
        assert ratings_of(start(server, 0, 18)) == ["1.0"] * 18
        assert server.prompts[18:] == ["prompt 17"]


@pytest.mark.whole
def test_a_claim_that_is_not_renewed_is_free():
    hangs = threading.Event()

    def reply(prompt, before):
        if prompt == "prompt 0" and not before:
            hangs.wait(FOREVER_S)
        return Reply()

    with JudgeServer(reply) as server:
        stopped = start(server, 0, 8, lease=1.0)
        try:
            wait_until(
                lambda: len(server.prompts) == 8 and len(stored_prompts()) == 7, running(stopped)
            )
            os.kill(stopped.pid, signal.SIGSTOP)
            assert ratings_of(start(server, 0, 8)) == ["1.0"] * 8
            assert server.prompts.count("prompt 0") == 2
            assert len(server.prompts) == 9
        finally:
            hangs.set()
            os.kill(stopped.pid, signal.SIGCONT)
        assert ratings_of(stopped) == ["1.0"] * 8


@pytest.mark.nightly
def test_a_renewed_claim_outlives_its_lease(monkeypatch):
    monkeypatch.setattr(leases_module, "LEASE_S", 6.0)
    with JudgeServer(lambda *_: Reply(delay=9)) as server:
        first = start(server, 0, 1, lease=6.0)
        wait_until(lambda: server.prompts, running(first))
        (judgement,) = judge(server.url, ["prompt 0"])
        assert ratings_of(first) == ["1.0"]
        assert server.prompts == ["prompt 0"]
    assert (judgement.rating, judgement.cached) == (1, True)


def test_a_claim_is_renewed_during_its_request(monkeypatch):
    """The reply is sent when the claim expires later than at first."""
    monkeypatch.setattr(leases_module, "LEASE_S", 0.3)
    renewed = []

    def reply(*_):
        first = select("expires", "claims")
        wait_until(lambda: select("expires", "claims") > first)
        renewed.append(len(first))
        return Reply()

    with JudgeServer(reply) as server:
        assert judge(server.url, ["a"])[0].rating == 1
    assert renewed == [1]


def test_a_claim_of_an_ended_process_is_free(monkeypatch):
    monkeypatch.setattr(leases_module, "LEASE_S", FOREVER_S)
    ended = subprocess.Popen(["true"])
    ended.wait()
    expires = time.time() + FOREVER_S
    claim("a", f"{leases_module._machine()} {ended.pid} x", expires)
    with JudgeServer(lambda *_: Reply()) as server:
        assert judge(server.url, ["a"])[0].rating == 1
    assert time.time() < expires


def test_waiting_for_another_process_is_shown(monkeypatch):
    """The other process ends its claim when the bar shows it."""
    monkeypatch.setattr(run_module, "_TICK_S", 0.1)
    monkeypatch.setattr(leases_module, "LEASE_S", FOREVER_S)
    monkeypatch.setattr(sys, "stderr", bar := io.StringIO())
    claim("a", "another-machine 1 x", time.time() + FOREVER_S)

    def end_claim():
        wait_until(lambda: "1 asked by another process" in bar.getvalue())
        with JudgementCache(default_cache_path()) as cache:
            owner = {"owner": "another-machine 1 x"}
            cache.write("DELETE FROM claims WHERE owner = :owner", [owner])

    other = threading.Thread(target=end_claim)
    other.start()
    with JudgeServer(lambda *_: Reply()) as server:
        judgements = judge(server.url, ["a", "b"])
        assert server.prompts == ["b", "a"]
    other.join()
    assert [judgement.rating for judgement in judgements] == [1, 1]
    assert "1 asked by another process" in bar.getvalue()


@pytest.mark.parametrize(
    "owner",
    [f"another-machine {2**22 + 7} x", f"{leases_module._machine()} {os.getpid()} x", "odd"],
    ids=["another machine", "this machine", "odd"],
)
@pytest.mark.parametrize("expires_in", [-1, 1e9])
def test_expired_claims_and_claims_of_wrong_clocks_are_ignored(owner, expires_in):
    claim("a", owner, time.time() + expires_in)
    with JudgeServer(lambda *_: Reply()) as server:
        assert judge(server.url, ["a"])[0].rating == 1


def test_a_failed_run_leaves_no_claim():
    with JudgeServer(
        lambda prompt, _: Reply(status=401) if prompt == "3" else Reply(delay=0.1)
    ) as server:
        with pytest.raises(JudgeError):
            judge(server.url, map(str, range(20)), concurrency=4)
        assert claims() == []


def new_run(cache, url, prompts, concurrency=1):
    """Create a run over prompts, for tests with their own event loop."""
    settings = JudgeSettings("judge", url, concurrency=concurrency)
    answers = {Prompt(prompt): [prompt] for prompt in prompts}
    return run_module.PromptRun(run_module.PromptSet(answers, SCALE, settings), cache)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_run_cancelled_as_a_reply_arrives_ends(concurrency, monkeypatch):
    """Before Python 3.12, `asyncio.wait_for` loses a cancellation at that moment."""

    async def cancel_at_first_reply(cache, url):
        with closing(new_run(cache, url, map(str, range(40)), concurrency)) as run:
            task = asyncio.create_task(run.ask())
            monkeypatch.setattr(
                client_module, "read_reply", lambda *reply: task.cancel() and read_reply(*reply)
            )
            with pytest.raises(asyncio.CancelledError):
                await task

    with JudgeServer(lambda *_: Reply()) as server, JudgementCache(default_cache_path()) as cache:
        asyncio.run(cancel_at_first_reply(cache, server.url))
        assert len(server.prompts) <= 2 * concurrency
        assert claims() == []


def test_a_run_cancelled_at_its_end_stores_its_replies(monkeypatch):
    """After two replies, a request is refused.

    The run is cancelled while the replies wait for the disk.
    """
    is_closing = asyncio.Event()
    close = leases_module.PromptLeases.__aexit__
    runs = []

    async def announce_close(claims_, *error):
        is_closing.set()
        await close(claims_, *error)

    monkeypatch.setattr(leases_module.PromptLeases, "__aexit__", announce_close)

    def reply(prompt, _):
        wait_until(lambda: len(server.prompts) == 3)
        if prompt == "0":
            holder.execute("BEGIN IMMEDIATE")
        if prompt == "2":
            wait_until(lambda: len(runs[0].judgements) == 2)
            return Reply(status=401)
        return Reply()

    async def cancel_at_end(cache, server):
        runs.append(new_run(cache, server.url, "012", concurrency=3))
        task = asyncio.create_task(runs[0].ask())
        await is_closing.wait()
        task.cancel()
        await asyncio.sleep(0.1)
        holder.execute("ROLLBACK")
        with pytest.raises(asyncio.CancelledError):
            await task
        runs[0].close()

    holder = other_process()
    with (
        closing(holder),
        JudgeServer(reply) as server,
        JudgementCache(default_cache_path()) as cache,
    ):
        asyncio.run(cancel_at_end(cache, server))
        assert stored_prompts() == {"0", "1"}
        assert claims() == []


def test_a_claim_starts_when_the_lock_is_acquired():
    """Otherwise, after a long wait for the lock, a new claim would already be expired."""
    holder = other_process()
    freed = []

    def free():
        freed.append(time.time())
        holder.execute("ROLLBACK")

    async def take(cache):
        async with leases_module.PromptLeases(
            ["a"], cache, lambda outcome: None, lambda *_: None
        ) as claimed_prompts:
            assert await claimed_prompts.take() == "a"
            return claims()

    with closing(holder), JudgementCache(default_cache_path()) as cache:
        holder.execute("BEGIN IMMEDIATE")
        threading.Timer(0.3, free).start()
        ((_, _, expires),) = asyncio.run(take(cache))
    assert expires >= freed[0] + leases_module.LEASE_S


@pytest.mark.parametrize(("owner", "expires"), [(b"\xff", None), ("someone else", "never")])
def test_a_damaged_claim_is_ignored(owner, expires):
    JudgementCache(default_cache_path()).__exit__()
    key = cache_key("judge", DEFAULT_PARAMETERS, Prompt("a"))
    with closing(sqlite3.connect(default_cache_path(), isolation_level=None)) as database:
        database.execute(
            "INSERT INTO claims VALUES (?, ?, ?)", [key, owner, expires or time.time() + 100]
        )
    with JudgeServer(lambda *_: Reply()) as server:
        assert judge(server.url, ["a"])[0].rating == 1


def test_a_cache_failure_loses_no_answer(log):
    """All prompts are sent without claims. Unstored replies are stored once the cache works."""

    def reply(prompt, _):
        if change := {"4": "claims RENAME TO other", "9": "other RENAME TO claims"}.get(prompt):
            with closing(sqlite3.connect(default_cache_path(), timeout=60)) as database:
                database.execute(f"ALTER TABLE {change}")
        return Reply()

    with JudgeServer(reply) as server:
        judgements = judge(server.url, map(str, range(12)), concurrency=1)
        assert server.prompts == [str(n) for n in range(12)]
    assert [judgement.rating for judgement in judgements] == [1] * 12
    assert sum("Judgements are not stored: " in line for line in log) == 1
    assert stored_prompts() == {str(n) for n in range(12)}


@pytest.mark.nightly
def test_a_locked_cache_does_not_delay_requests(monkeypatch, log):
    """Lookups in a locked file are slow. Requests must continue meanwhile."""
    monkeypatch.setattr(cache_module, "_BUSY_S", 2.0)
    locked = []

    def reply(prompt, _):
        if not locked:
            locked.append(holder.execute("BEGIN IMMEDIATE"))
        return Reply()

    holder = other_process()
    with closing(holder), JudgeServer(reply) as server:
        started = time.monotonic()
        judgements = judge(server.url, map(str, range(60)), concurrency=1)
        assert time.monotonic() - started < 60  # not 2 s per answer
        assert sorted(server.prompts) == sorted(map(str, range(60)))
    assert [judgement.rating for judgement in judgements] == [1] * 60
    assert sum("Judgements are not stored: " in line for line in log) == 1


def test_an_error_reading_another_processs_reply_ends_the_run():
    def read(verdict):
        if verdict == "[[0]]":
            raise LookupError("no such verdict")
        return 1.0

    def reply(prompt, _):
        if prompt == "a":
            judge(server.url, ["b"])  # like another process
        return Reply("[[1]]" if prompt == "a" else "[[0]]")

    with JudgeServer(reply) as server, pytest.raises(LookupError, match="no such verdict"):
        judge(server.url, ["a", "b"], concurrency=1, scale=replace(SCALE, read=read))
