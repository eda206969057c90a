"""Refusals of one request (400, 413, 422) affect only the rating of that answer."""

import json

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY, judge
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage

pytestmark = pytest.mark.usefixtures("data")

GOOD = [f"good {n}" for n in range(15)]
REPLY = Reply("Rating: [[1]]")


def server_with(refusals):
    """Refuse some prompts and rate all others."""
    return JudgeServer(lambda prompt, _: refusals.get(prompt, REPLY))


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_answer_has_the_endpoints_message_and_judging_continues(status, log):
    prompts = ["bad", *GOOD]
    with server_with({"bad": Reply(f"the filter said no to {KEY}", status=status)}) as server:
        bad, *good = judge(server.url, prompts, concurrency=4)
        assert sorted(server.prompts) == sorted(prompts)
    assert [judgement.rating for judgement in good] == [1] * len(GOOD)
    assert (bad.rating, bad.reply) == (None, None)
    assert (
        bad.error
        == f"the judge refuses this request: HTTP {status}: the filter said no to [API key]"
    )
    assert "15 now, 0 from the cache; 1 failed, 0 not reached" in log[-1]
    assert "1 answers refused by the endpoint" in log[-1]


CODES = ["content_filter", "content_policy_violation", "data_inspection_failed"]


@pytest.mark.parametrize("code", CODES)
def test_a_filtered_prompt_is_sent_again_only_on_request_or_to_another_endpoint(code, log):
    body = json.dumps({"error": {"message": "It is filtered.", "code": code, "status": 400}})
    refused = Reply(status=400, body=body.encode())

    def reply(prompt, _):
        return refused if prompt == "bad" else REPLY

    with JudgeServer(reply) as server, JudgeServer(reply) as other:
        for _ in range(3):
            bad, good = judge(server.url, ["bad", "good"])
            assert (bad.rating, bad.finish, good.rating) == (None, "content_filter", 1)
            assert "refuses this request: HTTP 400: It is filtered.; only --retry" in bad.error
            assert "1 answers filtered" in log[-1]
        assert sorted(server.prompts) == ["bad", "good"]
        judge(other.url, ["bad", "good"])
        assert other.prompts == ["bad"]
        usage = LlmUsage(LlmOptions(retry_rejected=True))
        judge(server.url, ["bad", "good"], usage=usage)
        assert sorted(server.prompts) == ["bad", "bad", "good"]


def test_new_prompts_are_sent_before_refused_ones():
    refusals = {f"bad {n}": Reply(f"too long by {n}", status=400) for n in range(3)}
    with server_with(refusals) as server:
        judge(server.url, [*refusals, *GOOD[:5]], concurrency=1)
        assert server.prompts == [*refusals, *GOOD[:5]]
        server.prompts.clear()
        judgements = judge(
            server.url, ["bad 0", GOOD[0], GOOD[7], "bad 1", GOOD[8], "new"], concurrency=1
        )
        assert server.prompts == [GOOD[7], GOOD[8], "new", "bad 0", "bad 1"]
        assert [judgement.rating for judgement in judgements] == [None, 1, 1, None, 1, 1]
        server.prompts.clear()
        refusals.clear()
        assert [
            judgement.rating for judgement in judge(server.url, ["bad 1", "x"], concurrency=1)
        ] == [1, 1]
        assert server.prompts == ["x", "bad 1"]


@pytest.mark.parametrize("concurrency", [1, 32])
def test_the_same_refusal_of_the_first_ten_ends_the_run(concurrency):
    prompts = [f"{n}" for n in range(100)]
    # Only the digits of the requests differ, not the refusals.
    server = JudgeServer(lambda prompt, _: Reply(f"request {prompt}: no such role", status=400))
    with (
        server,
        pytest.raises(
            JudgeError, match=r"HTTP 400: request \d+: no such role \(the same for all"
        ) as raised,
    ):
        judge(server.url, prompts, concurrency)
    # With concurrent requests, one of the first ten may be answered late.
    assert len(server.prompts) >= 10 if concurrency > 1 else len(server.prompts) == 10
    judgements = raised.value.judgements
    assert len(judgements) == 100
    refused = sum(
        judgement.error.startswith("the judge refuses this request") for judgement in judgements
    )
    assert refused >= 10
    assert all("no such role" in judgement.error for judgement in judgements)


def test_ten_quick_refusals_among_slow_answers_do_not_end_the_run():
    """The first ten prompts that are sent count, not the first that are answered."""
    refusals = {f"bad {n}": Reply("filtered", status=400) for n in range(15)}
    slow = Reply("Rating: [[1]]", delay=0.3)
    with JudgeServer(lambda prompt, _: refusals.get(prompt, slow)) as server:
        judgements = judge(server.url, [GOOD[0], *refusals, *GOOD[1:]], concurrency=32)
    assert [judgement.rating for judgement in judgements] == [1] + [None] * 15 + [1] * 14


def test_different_refusals_of_the_first_ten_do_not_end_the_run():
    with JudgeServer(lambda prompt, _: Reply(f"{prompt} is bad", status=400)) as server:
        judgements = judge(
            server.url, ["alpha", "beta"] + ["c" * n for n in range(1, 20)], concurrency=1
        )
    assert len(server.prompts) == 21
    assert {judgement.rating for judgement in judgements} == {None}


def test_a_repeated_command_may_have_only_refused_answers():
    refusals = {f"bad {n}": Reply("filtered", status=400) for n in range(20)}
    with server_with(refusals) as server:
        for _ in range(3):
            server.prompts.clear()
            judgements = judge(server.url, [*GOOD, *refusals], concurrency=4)
            assert [judgement.rating for judgement in judgements] == [1] * 15 + [None] * 20
    assert sorted(server.prompts) == sorted(refusals)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405])
def test_other_statuses_end_the_run(status):
    server = JudgeServer(lambda prompt, _: Reply("no", status=status) if prompt == "c" else REPLY)
    with server, pytest.raises(JudgeError, match=rf"HTTP {status}: no \(asked about c\)") as raised:
        judge(server.url, list("abcdef"), concurrency=1)
    assert server.prompts == ["a", "b", "c"]
    assert [judgement.rating for judgement in raised.value.judgements] == [1, 1] + [None] * 4


def test_a_refusal_counts_as_a_reply():
    """Refusals between missing replies show that the endpoint works."""

    def reply(prompt, _):
        refused = Reply("too long", status=400)
        return (
            refused
            if int(prompt) % 5 == 4
            else Reply(status=500, headers={"x-should-retry": "false"})
        )

    with JudgeServer(reply) as server:
        judgements = judge(server.url, map(str, range(40)), concurrency=1)
    assert len(server.prompts) == 40
    assert {judgement.rating for judgement in judgements} == {None}


def test_a_refused_duplicate_prompt_is_sent_once():
    with server_with({"bad": Reply("no", status=422)}) as server:
        judgements = judge(server.url, ["bad", "a", "bad", "bad"])
        assert sorted(server.prompts) == ["a", "bad"]
    assert [judgement.rating for judgement in judgements] == [None, 1, None, None]
