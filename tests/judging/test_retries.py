import json
import time
from collections import Counter
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import judge
from lmms_egoplan.judging import run as run_module
from lmms_egoplan.judging.client import retry_after_s
from lmms_egoplan.judging.endpoint import JUDGING
from lmms_egoplan.judging.failures import JudgeError
from patience import wait_until

pytestmark = pytest.mark.usefixtures("data")

_AGAIN_AT_ONCE = {"Retry-After-Ms": "1"}


def test_waits_as_long_as_retry_after():
    arrivals = []

    def reply(prompt, before):
        arrivals.append(time.monotonic())
        return Reply() if before else Reply("too fast", status=429, headers={"Retry-After": "1.2"})

    with JudgeServer(reply) as server:
        (judgement,) = judge(server.url, ["a"])
    assert judgement.rating == 1
    assert arrivals[1] - arrivals[0] >= 1.2


def test_waits_longer_than_the_library(monkeypatch):
    monkeypatch.setattr(run_module, "JUDGING", replace(JUDGING, retry_after_s=0.5, longer_s=1.5))
    arrivals = []

    def reply(prompt, before):
        arrivals.append(time.monotonic())
        return (
            Reply()
            if before and prompt == "a"
            else Reply("too fast", status=429, headers={"Retry-After": "1"})
        )

    with JudgeServer(reply) as server:
        first, second = judge(server.url, ["a", "b"])
        assert server.prompts.count("b") == 2
    assert first.rating == 1
    assert arrivals[-1] - arrivals[0] >= 1
    assert second.rating is None
    assert "HTTP 429: too fast (Retry-After: 1 s)" in second.error


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [
        ("90", 90, 90),
        ("2.5", 2.5, 2.5),
        *((value, None, None) for value in ("-1", "nan", "soon")),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 1e9, 1e10),
    ],
)
def test_reads_retry_after(value, low, high):
    seconds = retry_after_s({"retry-after": value})
    assert seconds is None if low is None else low <= seconds <= high
    assert retry_after_s({"retry-after": value, "retry-after-ms": "1500"}) == 1.5


@pytest.mark.parametrize(
    "trouble",
    [Reply(status=status, headers=_AGAIN_AT_ONCE) for status in (408, 409, 429, 500, 503)]
    + [Reply(drop=True)],
    ids=lambda reply: "dropped" if reply.drop else str(reply.status),
)
def test_temporary_faults_are_retried(trouble, log):
    with JudgeServer(lambda p, before: Reply() if before else trouble) as server:
        (judgement,) = judge(server.url, ["a"])
    assert (judgement.rating, judgement.error) == (1, None)
    assert len(server.prompts) == 2
    assert "1 retries" in log[-1]


def test_a_permanent_fault_affects_one_answer(log):
    trouble = Reply("the model is\noverloaded", status=503, headers=_AGAIN_AT_ONCE)
    with JudgeServer(lambda p, n: trouble if p == "b" else Reply()) as server:
        judgements = judge(server.url, ["a", "b", "c"])
        assert server.prompts.count("b") == 1 + JUDGING.retries
        judge(server.url, ["a", "c"])
    assert [judgement.rating for judgement in judgements] == [1, None, 1]
    assert judgements[1].error == "no answer from the judge: HTTP 503: the model is overloaded"
    assert judgements[1].reply is None
    assert "2 now, 0 from the cache; 1 failed" in log[-2]


WITHOUT_RATING = {
    "cut JSON": (Reply(body=b'{"choices": [{"mess'), "not JSON"),
    "a page": (Reply(body=b"<html>\xff</html>", headers={"Content-Type": "text/html"}), "not JSON"),
    "no choices": (Reply(choices=0), "no choices"),
    "no text": (Reply(body=b'{"choices": [{"message": {"content": null}}]}'), "no text"),
    "off the scale": (Reply("Rating: [[7]]"), "no rating"),
    "unfinished thought": (Reply("<think>Rating: [[1]]"), "no rating"),
}


def test_a_reply_without_a_rating_is_requested_two_more_times():
    """Each reply is sent every time to a bad prompt, and twice to a good one."""
    prompts = [f"{kind}: {name}" for name in WITHOUT_RATING for kind in ("bad", "good")]

    def reply(prompt, before):
        kind, name = prompt.split(": ")
        return WITHOUT_RATING[name][0] if kind == "bad" or before < 2 else Reply("[[0]]")

    with JudgeServer(reply) as server:
        judgements = dict(zip(prompts, judge(server.url, prompts), strict=True))
        assert Counter(server.prompts) == dict.fromkeys(prompts, 3)
        for name, (reply_, why) in WITHOUT_RATING.items():
            bad, good = judgements[f"bad: {name}"], judgements[f"good: {name}"]
            assert (name, good.rating, good.error) == (name, 0, None)
            assert (name, bad.rating, bad.reply) == (
                name,
                None,
                reply_.text if why == "no rating" else None,
            )
            assert why in bad.error, name
        judge(server.url, prompts)
    assert Counter(server.prompts) == {
        prompt: 6 if prompt.startswith("bad") else 3 for prompt in prompts
    }


@pytest.mark.parametrize(
    ("concurrency", "in_a_row"), [(1, 8), pytest.param(4, 8, marks=pytest.mark.nightly), (6, 12)]
)
def test_an_endpoint_that_dies_ends_the_run(monkeypatch, concurrency, in_a_row):
    monkeypatch.setattr(run_module, "JUDGING", replace(JUDGING, retries=1))
    unavailable = Reply("gone", status=503, headers=_AGAIN_AT_ONCE)
    prompts = [str(n) for n in range(50)]

    def reply(prompt, before):
        if int(prompt) < 10:
            return Reply()
        wait_until(lambda: len(server.answered) >= 10)
        return unavailable

    with JudgeServer(reply) as server, pytest.raises(JudgeError) as raised:
        judge(server.url, prompts, concurrency)
    assert str(raised.value).startswith(
        f"The judge judge at {server.url} does not answer: {in_a_row} prompts in a row got no "
        "reply (no answer from the judge: HTTP 503: gone). Check"
    )
    judgements = raised.value.judgements
    assert [judgement.rating for judgement in judgements] == [1] * 10 + [None] * 40
    failed = sum(
        judgement.error.startswith("no answer from the judge: HTTP 503")
        for judgement in judgements[10:]
    )
    # A good reply in flight resets the count. Other requests may fail at the same moment.
    assert in_a_row <= failed <= in_a_row + 2 * (concurrency - 1)
    assert "not judged: The judge judge at" in judgements[-1].error
    with JudgeServer(lambda *_: Reply()) as server:
        assert [judgement.rating for judgement in judge(server.url, prompts)] == [1] * 50
    assert len(server.prompts) == 40


def test_a_reply_in_between_resets_the_count(monkeypatch):
    monkeypatch.setattr(run_module, "JUDGING", replace(JUDGING, retries=0))
    with JudgeServer(
        lambda p, n: Reply("no idea") if int(p) % 7 == 6 else Reply(status=500)
    ) as server:
        judgements = judge(server.url, map(str, range(30)), concurrency=1)
    assert [judgement.reply is None for judgement in judgements] == [n % 7 != 6 for n in range(30)]


def test_an_account_without_credit_is_not_retried():
    error = {
        "message": "You exceeded your current quota",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
    body = json.dumps({"error": error}).encode()
    with (
        JudgeServer(lambda *_: Reply(status=429, body=body)) as server,
        pytest.raises(JudgeError) as raised,
    ):
        judge(server.url, ["a", "b"], concurrency=1)
    assert "refuses: HTTP 429: You exceeded your current quota (asked about a)." in str(
        raised.value
    )
    assert server.prompts == ["a"]
