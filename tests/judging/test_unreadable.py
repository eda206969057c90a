"""Judges whose replies can never be read, and limits on requests and cost."""

import asyncio
import json

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import select
from judging.asked import KEY, SCALE, judge, request
from judging.test_batches import shorten
from lmms_egoplan.benchmarks.egointent.judge_protocol import scale_of
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.json_replies import ask_json
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.limits import Limits
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.judging.tokens import prompt_tokens
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage

pytestmark = pytest.mark.usefixtures("data")
PROMPTS = [f"prompt {n}" for n in range(30)]
CONCURRENCY = 4
TOKENS = b'"usage": {"prompt_tokens": 1000, "completion_tokens": 100}'
ANSWER = Reply(
    body=b'{"choices": [{"message": {"content": "[[1]]"}, "finish_reason": "stop"}], %s}' % TOKENS
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Poll batches often."""
    shorten(monkeypatch.setattr)


def stopped(server, prompts=PROMPTS, **settings):
    """Judge, and return the error with which judging stopped."""
    with pytest.raises(JudgeError) as error:
        judge(server.url, prompts, CONCURRENCY, **settings)
    return error.value


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_judge_that_is_never_readable_is_asked_no_further(finish):
    reply = Reply("<think>\x1b[31mlong</think>\nI like\u202e it.", finish=finish)
    with JudgeServer(lambda *_: reply) as server:
        error = stopped(server, max_tokens=123)
        asked = len(server.prompts)
        assert 20 <= asked < 20 + CONCURRENCY
        reply = Reply()
        assert [judgement.rating for judgement in judge(server.url, PROMPTS)] == [1] * len(PROMPTS)
        assert len(server.prompts) == asked + len(PROMPTS)
    facts = [
        "20 replies",
        "I like it.",
        "JUDGE_MODEL",
        "JUDGE_MAX_TOKENS",
        "protocol",
        "thinking",
        "repeat",
    ]
    facts += ["20 of them", "123 tokens"] if finish == "length" else []
    assert not [fact for fact in facts if fact not in str(error)]
    assert str(error).isprintable()
    assert [judgement.rating for judgement in error.judgements] == [None] * len(PROMPTS)
    assert all(judgement.error for judgement in error.judgements)


def body(content='"[[1]]"', finish='"stop"', before=""):
    """Return a completion with this content and finish reason, as JSON."""
    choice = f'{{"message": {{"content": {content}}}, "finish_reason": {finish}}}'
    return Reply(body=f'{{{before}"choices": [{choice}], {TOKENS.decode()}}}'.encode())


WITHOUT_TEXT = {
    "only thinking": body("null", '"length"'),
    "nothing": body("null"),
    "empty": body('""'),
    "a number as finish reason": body(finish="0"),
    "an object as finish reason": body(finish='{"type": "stop"}'),
    "repeated keys": body(before='"model": "a", "model": "b", '),
}


@pytest.mark.parametrize("batch", [False, True])
def test_replies_without_text_count_as_unreadable(monkeypatch, batch):
    monkeypatch.setattr("lmms_egoplan.judging.stopping._UNREADABLE", 6)
    wrong = {}
    for name, reply in WITHOUT_TEXT.items():
        if batch and name not in ("only thinking", "nothing"):
            continue
        with JudgeServer(lambda *_, reply=reply: reply) as server:
            error = stopped(server, PROMPTS[:12], usage=LlmUsage(LlmOptions(batch=batch)))
            asked = len(server.prompts)
        # Without a limit, each prompt is asked three times. A batch may be sent again before the
        # limit is reached.
        if asked > (18 if batch else 12) or "replies can be read" not in str(error):
            wrong[name] = asked, str(error)
    assert not wrong


def test_filtered_replies_and_failures_do_not_count_as_unreadable():
    replies = [
        body(finish='"content_filter"'),
        Reply(choices=0),
        Reply(body=b'{"error": {"message": "overloaded"}}'),
    ]
    for reply in replies:
        with JudgeServer(lambda *_, reply=reply: reply) as server:
            judge(server.url, PROMPTS[:8], CONCURRENCY)
            assert len(server.prompts) == 24


@pytest.mark.parametrize("first", [0, 18])
def test_one_readable_verdict_lets_judging_continue(first):
    with JudgeServer(
        lambda prompt, _: Reply("no idea" if prompt != PROMPTS[first // 3] else "[[1]]")
    ) as server:
        judgements = judge(server.url, PROMPTS[:8], concurrency=1)
        assert sum(judgement.rating == 1 for judgement in judgements) == 1
        assert len(server.prompts) == 22
        judge(server.url, PROMPTS[:8], concurrency=1)  # the stored verdict counts
        assert len(server.prompts) == 22 + 21


def test_the_tasks_of_a_run_count_together(monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MAX_REQUESTS", "90")  # a value that no other test has
    with JudgeServer(lambda *_: Reply("no idea")) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        for start in range(0, 30, 5):
            with pytest.raises(JudgeError) if start else pytest.MonkeyPatch.context():
                judge_all(
                    [request(prompt) for prompt in PROMPTS[start : start + 5]],
                    SCALE,
                    judge_settings("judge"),
                )
        assert len(server.prompts) < 2 * 15


def test_the_tasks_of_egointent_count_together():
    usage = LlmUsage()
    with JudgeServer(lambda *_: Reply("no idea")) as server:
        for start in range(0, 30, 5):
            with pytest.raises(JudgeError) if start else pytest.MonkeyPatch.context():
                judge(
                    server.url,
                    PROMPTS[start : start + 5],
                    CONCURRENCY,
                    scale=scale_of(list(FIELDS)),
                    usage=usage,
                )
        assert len(server.prompts) < 2 * 15


def test_a_builder_without_readable_replies_stops():
    usage = LlmUsage()
    with JudgeServer(lambda *_: Reply('["of another form"]')) as server:
        settings = JudgeSettings("model", server.url, KEY, CONCURRENCY, usage=usage)
        with pytest.raises(JudgeError, match=r"20 replies.*of another form"):
            ask_json("step", {prompt: prompt for prompt in PROMPTS}, settings, "title")
        assert len(server.prompts) < 20 + CONCURRENCY


@pytest.mark.parametrize("batch", [False, True])
def test_a_limit_on_requests_ends_judging_and_the_same_command_resumes(batch):
    def limited(requests):
        return LlmUsage(LlmOptions(batch=batch, max_requests=requests))

    with JudgeServer(lambda *_: Reply()) as server:
        error = stopped(server, usage=limited(12))
        assert len(server.prompts) == len(list(select("key", "judgements"))) == 12
        assert "12 requests" in str(error)
        assert sum(judgement.rating == 1 for judgement in error.judgements) == 12
        stopped(server, usage=limited(12))
        judge(server.url, PROMPTS, usage=limited(12))
    assert len(server.prompts) == len(PROMPTS)


@pytest.mark.parametrize(("processes", "requests"), [("8", "7"), ("8", "15"), ("1", "1")])
def test_a_limit_that_allows_only_test_requests_is_refused(monkeypatch, processes, requests):
    monkeypatch.setenv("WORLD_SIZE", processes)
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MAX_REQUESTS", requests)
    with pytest.raises(
        LmmsEgoplanError, match=rf"JUDGE_MAX_REQUESTS is {requests};.* {2 * int(processes)}"
    ):
        judge_settings("judge")
    with pytest.raises(LmmsEgoplanError, match="--max-requests"):
        LlmOptions(probes=True, max_requests=1)


def test_requests_about_batches_do_not_count(monkeypatch):
    monkeypatch.setattr("lmms_egoplan.judging.retries._FIRST_WAIT_S", 0.01)
    failing = {"/batches", "/files", "batch_1", "content"}

    def fail_once(_, path):
        for end in failing:
            if path.endswith(end):
                failing.remove(end)
                raise ConnectionError

    with JudgeServer(lambda *_: Reply()) as server:
        server.on_batch = fail_once
        judgements = judge(
            server.url, PROMPTS[:12], usage=LlmUsage(LlmOptions(batch=True, max_requests=12))
        )
    assert not failing
    assert [judgement.rating for judgement in judgements] == [1] * 12


def test_repeats_and_retries_count_as_requests():
    for reply in (Reply("no idea"), Reply("busy", status=500, headers={"Retry-After-Ms": "1"})):
        with JudgeServer(lambda *_, reply=reply: reply) as server:
            stopped(server, usage=LlmUsage(LlmOptions(max_requests=7)))
            assert len(server.prompts) == 7


def prices(folder, number=1.0, *, batch=False):
    path = folder / "prices.json"
    path.write_text(json.dumps({"judge": {"input": number, "output": number}}))
    return read_prices(path, batch=batch)


def test_replies_without_text_cost_as_much_as_others(tmp_path):
    wrong = {}
    for name, reply in (WITHOUT_TEXT | {"filtered": body("null", '"content_filter"')}).items():
        with JudgeServer(lambda *_, reply=reply: reply) as server:
            usage = LlmUsage(LlmOptions(prices=prices(tmp_path), max_cost=10.5 * 0.0011))
            error = stopped(server, usage=usage, max_tokens=10)
        if (len(server.prompts), round(usage.limits.cost, 6)) != (
            10,
            0.011,
        ) or "--max-cost" not in str(error):
            wrong[name] = len(server.prompts), usage.limits.cost, str(error)
    assert not wrong


def test_the_cost_stays_below_its_limit(tmp_path):
    cost = 0.0011
    with JudgeServer(lambda *_: ANSWER) as server:
        error = stopped(
            server,
            usage=LlmUsage(LlmOptions(prices=prices(tmp_path), max_cost=10.5 * cost)),
            max_tokens=10,
        )
        assert len(server.prompts) == 10
    assert "--max-cost" in str(error)


@pytest.mark.parametrize(("max_cost", "max_tokens"), [(0.0, 10), (0.02, 100_000)])
def test_a_limit_below_the_bound_of_one_request_sends_none(tmp_path, max_cost, max_tokens):
    for probes in (False, True):
        with JudgeServer(lambda *_: ANSWER) as server:
            options = LlmOptions(prices=prices(tmp_path), max_cost=max_cost, probes=probes)
            usage = LlmUsage(options)
            settings = JudgeSettings(
                "judge", server.url, KEY, CONCURRENCY, max_tokens=max_tokens, usage=usage
            )
            with pytest.raises(JudgeError, match="--max-cost"):
                judge_all([request(prompt) for prompt in PROMPTS], SCALE, settings)
            assert len(server.prompts) == (probes and max_cost > 0)


def test_the_requests_in_flight_are_expected_to_cost_as_much_as_the_dearest_so_far():
    asyncio.run(reserve_until_full())


async def reserve_until_full():
    limits = Limits(None, 10.0)
    for _ in range(4):
        await limits.reserve(0.5)
    limits.release(0.5)
    limits.pay(2.0)  # the other three may cost as much
    await limits.reserve(0.5)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(limits.reserve(0.5), 0.1)


def test_the_upper_bounds_of_a_batch_stay_below_the_limit_on_the_cost(tmp_path):
    bound = (prompt_tokens(Prompt(PROMPTS[0])) + 500) / 2e6
    with JudgeServer(lambda *_: ANSWER) as server:
        options = LlmOptions(prices=prices(tmp_path, batch=True), max_cost=12.5 * bound, batch=True)
        usage = LlmUsage(options)
        stopped(server, usage=usage, max_tokens=500)
        assert len(server.prompts) == 12


def test_a_limit_on_the_cost_needs_prices_and_counts_of_tokens(tmp_path, monkeypatch):
    with pytest.raises(LmmsEgoplanError, match="--prices"):
        LlmOptions(max_cost=1.0)
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MAX_COST", "much")
    with pytest.raises(LmmsEgoplanError, match="MAX_COST is 'much'"):
        judge_settings("judge")
    body = b'{"choices": [{"message": {"content": "[[1]]"}}]}'
    with JudgeServer(lambda *_: Reply(body=body)) as server:
        monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_MAX_COST")
        error = stopped(server, usage=LlmUsage(LlmOptions(prices=prices(tmp_path), max_cost=10.0)))
        assert 1 <= len(server.prompts) <= CONCURRENCY
    assert "no numbers of tokens" in str(error)
