"""Judge through batches: the same results as live requests, and no prompt is paid for twice."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY, SCALE, environment, judge, request
from lmms_egoplan.judging import batches
from lmms_egoplan.judging.cache import JudgementCache, cache_key, default_cache_path
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
from patience import FOREVER_S, running, wait_until

PROMPTS = [f"prompt {number}" for number in range(12)]


@pytest.fixture(autouse=True)
def impatient(data, monkeypatch):
    """Use an empty data root, and poll often."""
    shorten(monkeypatch.setattr)


def shorten(change):
    change(batches, "_FIRST_POLL_S", 0.02)
    change(batches, "_LONGEST_POLL_S", 0.05)
    change(batches, "_TICK_S", 0.01)


def in_batches(url, prompts=PROMPTS, **settings):
    return judge(url, prompts, usage=LlmUsage(LlmOptions(batch=True)), **settings)


def pending():
    with sqlite3.connect(default_cache_path()) as database:
        return database.execute("SELECT key, owner, batch FROM batches").fetchall()


def mixed(prompt, before):
    """Reply in all ways: rated, unclear and then rated, cut off and then rated, never rated,
    refused.
    """
    number = int(re.search(r"\d+", prompt)[0])
    if number == 1:
        return Reply("The prompt is filtered.", status=400)
    if number == 2 and not before:
        return Reply("I am not sure.")
    if number == 3 and not before:
        return Reply("Rating: [[1]]", finish="length")
    if number == 4:
        return Reply("I never know.")
    return Reply(f"Good. Rating: [[{number % 3 / 2:g}]]")


def outcomes(folder):
    """Return the stored judgements and failures without times."""
    with sqlite3.connect(folder / "judgements.sqlite") as database:
        names = "key, prompt, reply, rating, model, prompt_tokens, completion_tokens, finish"
        rows = database.execute(f"SELECT {names} FROM judgements ORDER BY key").fetchall()
        failures = database.execute(
            "SELECT key, error, reply, model, max_tokens, finish FROM failures ORDER BY key"
        )
        return rows, failures.fetchall()


def test_batches_and_live_requests_give_the_same_outcomes(tmp_path, monkeypatch, log):
    judged, stored, summaries, prompts = [], [], [], []
    for is_batch in (False, True):
        folder = tmp_path / str(is_batch)
        monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        with JudgeServer(mixed) as server:
            judged.append(
                judge(server.url, PROMPTS, 12, usage=LlmUsage(LlmOptions(batch=is_batch)))
            )
            prompts.append(sorted(server.prompts))
            assert len(server.batches) == 3 * is_batch
            port = server.url.split(":")[2]
        stored.append(outcomes(folder))
        summaries.append(
            re.sub(
                r".*Judging: | in [\d.]+ s:",
                "",
                next(line for line in reversed(log) if "not reached" in line),
            )
        )
        log.clear()
    live, batch = judged
    for one, other in zip(live, batch, strict=True):
        assert [vars(one)[name] for name in vars(one) if name not in ("seconds", "endpoint")] == [
            vars(other)[name] for name in vars(other) if name not in ("seconds", "endpoint")
        ]
    assert stored[0] == stored[1]
    assert summaries[0] == summaries[1]
    assert prompts[0] == prompts[1]
    assert [judgement.rating for judgement in batch[:5]] == [0, None, 1, 0, None]
    assert batch[2].prompt_tokens == 4  # of both attempts
    assert not pending()
    assert port


def test_a_rerun_requests_what_expired(log):
    with JudgeServer(lambda *_: Reply()) as server:
        server.unfinished = lambda prompt: prompt in PROMPTS[:3]
        judged = in_batches(server.url)
        assert [judgement.rating for judgement in judged] == [None] * 3 + [1] * 9
        assert all("batch_expired" in judgement.error for judgement in judged[:3])
        assert len(server.prompts) == 9
        assert not pending()
        server.unfinished = lambda prompt: False
        assert [judgement.rating for judgement in in_batches(server.url)] == [1] * 12
        assert sorted(server.prompts) == sorted(PROMPTS)
        assert len(server.batches) == 2


def test_different_results_for_one_request_are_no_rating(monkeypatch):
    """Equal results count once, and a result counts more than an error of another attempt."""
    lines_of = {
        "prompt 0": ["[[0]]", "[[1]]"],
        "prompt 1": ["[[0]]", "[[0]]"],
        "prompt 2": ["[[0]]", 429],
        "prompt 3": [429, "[[0]]"],
        "prompt 4": ["[[0]]", 400],
        "prompt 5": ["[[0]]", "[[1]]", "[[0]]"],
        "prompt 6": ["[[0]]", "I am not sure."],
    }
    prompts = {cache_key("judge", {"temperature": 0}, Prompt(prompt)): prompt for prompt in PROMPTS}

    def repeated(line):
        """Return the lines of a result, or the result itself."""
        body = line["response"]["body"]
        for text in lines_of.get(
            prompts[line["custom_id"]], [body["choices"][0]["message"]["content"]]
        ):
            status = text if isinstance(text, int) else 200
            message = (
                {"error": {"message": "no"}} if status != 200 else json.loads(json.dumps(body))
            )
            if status == 200:
                message["choices"][0]["message"]["content"] = text
            yield json.dumps(line | {"response": {"status_code": status, "body": message}}).encode()

    with JudgeServer(lambda *_: Reply()) as server:
        written = set()

        def repeat(method, path):
            name = path.split("/")[-2]
            if path.endswith("/content") and not written:
                written.add(name)
                lines = map(json.loads, server.files[name].splitlines())
                server.files[name] = b"\n".join(part for line in lines for part in repeated(line))

        server.on_batch = repeat
        judged = in_batches(server.url)
        assert [judgement.rating for judgement in judged] == [
            None,
            0,
            0,
            0,
            None,
            None,
            None,
            *[1] * 5,
        ]
        assert {
            index for index, item in enumerate(judged) if "different results" in (item.error or "")
        } == {0, 4, 5, 6}
        assert "batch_1" in judged[0].error
        assert not pending()
        assert [judgement.rating for judgement in in_batches(server.url)] == [
            1,
            0,
            0,
            0,
            1,
            1,
            1,
            *[1] * 5,
        ]
        assert len(server.batches) == 2
        assert len(server.prompts) == 12 + 4


@pytest.mark.parametrize("is_lost", [False, True])
def test_an_endpoint_that_drops_metadata_is_named_and_not_paid_twice(monkeypatch, log, is_lost):
    with JudgeServer(lambda *_: Reply()) as server:
        create, lost = server.create_batch, []
        monkeypatch.setattr(
            server, "create_batch", lambda request: create(request | {"metadata": None})
        )

        def drop_one(method, path):
            if method == "created" and is_lost and not lost:
                lost.append(path)
                raise ConnectionError

        server.on_batch = drop_one
        judged = in_batches(server.url)
        assert len(server.batches) == 1
        if not is_lost:
            assert [judgement.rating for judgement in judged] == [1] * 12
            assert any("metadata" in line and "WARNING" in line for line in log)
            return
        assert [judgement.rating for judgement in judged] == [None] * 12
        assert all("metadata" in item.error and "batch_1" in item.error for item in judged)
        assert [judgement.rating for judgement in in_batches(server.url)] == [None] * 12
        assert len(server.batches) == 1
        assert [judgement.rating for judgement in judge(server.url, PROMPTS)] == [1] * 12


@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_errors_of_lines_are_no_refusals(status):
    with JudgeServer(
        lambda prompt, _: Reply(status=status if prompt == PROMPTS[5] else 200)
    ) as server:
        judged = in_batches(server.url)
        assert [judgement.rating for judgement in judged].count(None) == 1
        assert f"HTTP {status}" in judged[5].error
        assert not pending()
    with sqlite3.connect(default_cache_path()) as database:
        assert database.execute("SELECT COUNT(*) FROM failures").fetchone() == (0,)


def test_a_batch_that_fails_is_one_error_and_the_others_are_kept(monkeypatch):
    monkeypatch.setattr(batches, "_FILE_LINES", 5)
    failure = {
        "code": "token_limit_exceeded",
        "message": f"Enqueued token limit reached for {KEY}.",
        "line": None,
    }

    with JudgeServer(lambda *_: Reply()) as server:

        def fail_the_first(method, path):
            if path.endswith("batch_1"):
                errors = {"object": "list", "data": [failure]}
                server.batches["batch_1"].update(status="failed", errors=errors)

        server.on_batch = fail_the_first
        with pytest.raises(
            JudgeError, match="token_limit_exceeded: Enqueued token limit reached"
        ) as error:
            in_batches(server.url)
        assert KEY not in str(error.value)
        assert len(server.batches) == 3
        assert len(pending()) in (
            0,
            2,
            5,
            7,
            10,
        )  # batches that were not read yet are collected later
        server.on_batch = lambda method, path: None
        assert [judgement.rating for judgement in in_batches(server.url)] == [1] * 12
        assert sorted(server.prompts) == sorted(PROMPTS)
    assert KEY.encode() not in default_cache_path().read_bytes()


def test_the_probe_finds_the_name_of_the_token_limit():
    def reply(prompt, _):
        if "max_tokens" in server.bodies[-1]:
            return Reply(
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", status=400
            )
        return Reply()

    with JudgeServer(reply) as server:
        usage = LlmUsage(LlmOptions(batch=True))
        probe(JudgeSettings("judge", server.url, KEY, usage=usage))
        judgements = judge(server.url, PROMPTS, usage=usage)
        assert [judgement.rating for judgement in judgements] == [1] * 12
        assert all("max_completion_tokens" in body for body in server.bodies[1:])


def test_a_lost_answer_to_the_creation_creates_no_second_batch():
    with JudgeServer(lambda *_: Reply()) as server:

        def drop_one(method, path):
            if method == "created" and len(server.batches) == 1:
                raise ConnectionError

        server.on_batch = drop_one
        assert [judgement.rating for judgement in in_batches(server.url)] == [1] * 12
        assert len(server.batches) == 1


@pytest.mark.parametrize("content", [b"", b"<html>", b"[" * 100_000, b"\xff\n[1]\n"])
def test_unreadable_results_of_a_completed_batch_are_read_again(content):
    with JudgeServer(lambda *_: Reply()) as server:
        readable = {}

        def spoil(method, path):
            name = path.split("/")[-2]
            if path.endswith("/content") and name not in readable:
                readable[name], server.files[name] = server.files[name], content

        server.on_batch = spoil
        judged = in_batches(server.url)
        assert all("drop --batch" in judgement.error for judgement in judged)
        assert len(pending()) == 12
        server.files |= readable
        assert [judgement.rating for judgement in in_batches(server.url)] == [1] * 12
        assert len(server.batches) == 1
        assert not pending()


def test_an_answer_nested_too_deeply_ends_the_run(monkeypatch):
    with JudgeServer(lambda *_: Reply()) as server:
        monkeypatch.setattr("judge_server._json", lambda _: b"[" * 200_000)
        with pytest.raises(JudgeError, match="recursion"):
            in_batches(server.url)


@pytest.mark.parametrize(
    "body", [b"[]", b'{"id": null}', b"<html>", b'{"status": 3, "request_counts": 1}']
)
def test_unexpected_answers_about_batches_are_one_error(monkeypatch, body):
    with JudgeServer(lambda *_: Reply()) as server:
        monkeypatch.setattr(
            server, "create_batch", lambda _: json.loads(body) if body[:1] != b"<" else 3
        )
        with pytest.raises(JudgeError):
            in_batches(server.url)


def test_a_batch_that_the_endpoint_does_not_know_is_an_error_and_live_requests_are_the_way_out():
    with JudgeServer(lambda *_: Reply()) as server:
        server.polls = None
        server.on_batch = lambda method, path: (
            server.batches.clear() if path.endswith("batch_1") else None
        )
        for _ in range(2):
            with pytest.raises(JudgeError, match=r"batch_1.*--batch"):
                in_batches(server.url)
        assert len(pending()) == 12
        assert [judgement.rating for judgement in judge(server.url, PROMPTS)] == [1] * 12
        assert sorted(server.prompts) == sorted(PROMPTS)
        assert not pending()


@pytest.mark.parametrize("status", ["queued", "COMPLETED"])
def test_a_batch_with_an_unknown_status_is_collected_later(status):
    with JudgeServer(lambda *_: Reply()) as server:
        server.polls = None
        server.on_batch = lambda method, path: (
            path.endswith("_1") and server.batches["batch_1"].update(status=status)
        )
        with pytest.raises(JudgeError, match=f"batch_1 .*{status}"):
            in_batches(server.url)
        assert len(pending()) == 12
        server.on_batch, server.polls = lambda method, path: None, 0
        server.batches["batch_1"]["status"] = "in_progress"
        assert [judgement.rating for judgement in in_batches(server.url)] == [1] * 12
        assert len(server.batches) == 1


def test_batches_at_another_endpoint_are_named(log):
    with JudgeServer(lambda *_: Reply()) as lost, JudgeServer(lambda *_: Reply()) as server:
        lost.on_batch = lambda method, path: lost.batches.clear() if path.endswith("_1") else None
        with pytest.raises(JudgeError):
            in_batches(lost.url)
        assert [judgement.rating for judgement in in_batches(server.url)] == [1] * 12
        assert any(lost.url in line and "WARNING" in line for line in log)


def judge_in_batches():
    """Judge the prompts in batches and print the ratings; run by the processes."""
    shorten(setattr)
    settings = replace(judge_settings("none"), usage=LlmUsage(LlmOptions(batch=True)))
    judgements = judge_all([request(prompt) for prompt in PROMPTS], SCALE, settings)
    print(*(judgement.rating for judgement in judgements))


def start(server, data):
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from judging.test_batches import judge_in_batches; judge_in_batches()"
    variables = environment(server, data, API_KEY=KEY)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", program], env=variables, **pipes)


def ratings_of(process):
    out, err = process.communicate(timeout=FOREVER_S)
    assert process.returncode == 0, err
    assert KEY not in out + err
    return out.split()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("created", "/batches", marks=pytest.mark.whole),
        *(
            pytest.param(method, path, marks=pytest.mark.nightly)
            for method, path in [
                ("POST", "/files"),
                ("POST", "/batches"),
                ("GET", "_1"),
                ("GET", "/content"),
            ]
        ),
    ],
)
def test_a_killed_run_pays_for_nothing_twice(tmp_path, method, path):
    with JudgeServer(lambda *_: Reply()) as server:
        killed = []

        def kill(sent, to):
            if sent == method and to.endswith(path) and not killed:
                killed.append(process.kill())
                process.wait()
                raise ConnectionError

        server.on_batch = kill
        process = start(server, tmp_path)
        assert process.wait(FOREVER_S) == -signal.SIGKILL
        assert len(pending()) == len(PROMPTS)
        assert ratings_of(start(server, tmp_path)) == ["1.0"] * len(PROMPTS)
        assert sorted(server.prompts) == sorted(PROMPTS)
        assert len(server.batches) == 1
        assert not pending()


@pytest.mark.nightly
def test_two_processes_share_a_batch_and_ctrl_c_leaves_it(tmp_path):
    with JudgeServer(lambda *_: Reply()) as server:
        server.polls = None
        first = start(server, tmp_path)
        wait_until(
            lambda: any(batch["polled"] for batch in server.batches.values()), running(first)
        )
        second = start(server, tmp_path)
        first.send_signal(signal.SIGINT)
        _, err = first.communicate(timeout=FOREVER_S)
        assert first.returncode
        assert "batches continue at the endpoint" in err
        polled = server.batches["batch_1"]["polled"]
        wait_until(lambda: server.batches["batch_1"]["polled"] > polled + 1, running(second))
        third = start(server, tmp_path)
        server.polls = 0
        assert ratings_of(second) == ratings_of(third) == ["1.0"] * len(PROMPTS)
        assert sorted(server.prompts) == sorted(PROMPTS)
        assert len(server.batches) == 1


def test_a_live_run_says_how_many_prompts_are_in_batches(log):
    with JudgeServer(lambda *_: Reply()) as server:
        server.on_batch = lambda method, path: server.batches.clear() if method == "GET" else None
        keys = [cache_key("judge", {"temperature": 0}, Prompt(prompt)) for prompt in PROMPTS[:4]]
        with JudgementCache(default_cache_path()) as cache:
            cache.write(
                """
                INSERT INTO batches
                VALUES (:key, 'gone 1 token', :endpoint, 'judge', 'batch_1', 0.0)
                """,
                [{"key": key, "endpoint": server.url} for key in keys],
            )
        assert [judgement.rating for judgement in judge(server.url, PROMPTS)] == [1] * 12
        assert any("4 prompts may be in batches" in line for line in log)
        assert len(server.prompts) == 12
        assert not pending()


def test_azure_has_another_path(monkeypatch):
    with JudgeServer(lambda *_: Reply()) as server:
        host = server.url.removesuffix("/v1")
        azure = {"base_url": None, "azure_endpoint": host, "azure_api_version": "2024-10-21"}
        assert [judgement.rating for judgement in in_batches(server.url, **azure)] == [1] * 12
        assert server.batches["batch_1"]["endpoint"] == "/chat/completions"
