"""Replies that did not end, and the token limit. A judge's text before its end is not a verdict."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_server import JudgeServer, Reply
from judging.asked import SCALE, judge, read
from lmms_egoplan.benchmarks.egointent.judge_protocol import scale_of
from lmms_egoplan.judging.client import _first_name
from lmms_egoplan.judging.judgement import RatingScale
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import read_rating
from lmms_egoplan.judging.usage import LlmUsage

pytestmark = pytest.mark.usefixtures("data")

MUSING = "The answer would get [[1]]. But let me compare"


CUT_OFF = ["length", "max_tokens", "MAX_TOKENS", "model_length"]
FILTERED = ["content_filter", "content-filter", "SAFETY", "refusal"]
INCOMPLETE = [*CUT_OFF, *FILTERED, "error"]
COMPLETE = ["stop", "STOP", "end_turn", "eos", "COMPLETE", "stop_sequence", None, ""]


def test_a_reply_that_did_not_end_gives_no_rating(log):
    texts = [MUSING, "So it is [[1]]", "<think>a</think>[[1]]"]
    replies = {
        f"{finish} {text}": Reply(text, finish=finish) for finish in INCOMPLETE for text in texts
    }
    failures = []
    with JudgeServer(lambda prompt, _: replies.get(prompt, Reply())) as server:
        judge(server.url, ["rated"])  # a judge without any readable reply is asked no further
        for attempts in (3, 6):  # only the decisions of a filter are in the cache
            for prompt, judgement in zip(
                replies, judge(server.url, ["rated", *replies])[1:], strict=True
            ):
                reply = replies[prompt]
                is_cut = reply.finish in CUT_OFF
                is_named = f"finish_reason '{reply.finish}'" in judgement.error
                has_hint = "LMMS_EGOPLAN_JUDGE_MAX_TOKENS" in judgement.error
                is_filtered = reply.finish in FILTERED
                assert ("filtered" in judgement.error) == is_filtered
                result = (
                    judgement.rating,
                    judgement.reply,
                    is_named,
                    has_hint,
                    server.prompts.count(prompt),
                )
                expected = 3 if is_filtered else attempts
                if result != (None, reply.text, True, is_cut, expected):
                    failures.append((prompt, result, judgement.error))
    assert failures == []
    assert f"{3 * len(texts) * len(CUT_OFF)} replies cut off" in log[-1]
    assert f"{len(texts) * len(FILTERED)} answers filtered" in log[-1]


def test_a_complete_second_reply_is_rated():
    with JudgeServer(
        lambda _, before: Reply("[[0]]") if before else Reply(MUSING, finish="length")
    ) as server:
        (judgement,) = judge(server.url, ["a"])
    assert (judgement.rating, len(server.prompts)) == (0, 2)


def test_a_complete_reply_is_read_as_a_whole():
    finishes = {f"ended by {finish!r}": finish for finish in COMPLETE}
    with JudgeServer(
        lambda prompt, _: Reply("[[0.5]] is what it gets.", finish=finishes[prompt])
    ) as server:
        for _ in range(2):
            ratings = [judgement.rating for judgement in judge(server.url, finishes)]
            assert dict(zip(finishes, ratings, strict=True)) == dict.fromkeys(finishes, 0.5)
        assert sorted(server.prompts) == sorted(finishes)


@pytest.mark.parametrize(
    ("text", "rating"), [(MUSING, None), ("Hence [[0.5]].", 0.5), ("[[0]] no, [[1]]\n", 1)]
)
def test_with_an_unknown_finish_reason_the_rating_must_be_at_the_end(text, rating):
    with JudgeServer(lambda *_: Reply(text, finish="whatever")) as server:
        (judgement,) = judge(server.url, ["a"])
    assert judgement.rating == rating
    assert rating is not None or "finish_reason 'whatever'" in judgement.error


def test_the_token_count_reveals_a_cut_off_reply():
    text = "one two [[1]] four five"
    with JudgeServer(lambda *_: Reply(text)) as server:
        (judgement,) = judge(server.url, ["a"], max_tokens=5)
        assert judgement.rating is None
        assert "cut off after 5 tokens" in judgement.error
        (judgement,) = judge(server.url, ["a"], max_tokens=6)
        assert judgement.rating == 1


def test_reasoning_in_a_separate_field_is_no_verdict():
    def body(**message):
        choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
        return json.dumps({"choices": [choice]}).encode()

    replies = {
        "a": body(content=None, reasoning_content="so [[1]]"),
        "b": body(content="", reasoning="so [[1]]"),
        "c": body(content="[[0]]", reasoning_content="so [[1]]", reasoning="[[1]]"),
    }
    with JudgeServer(lambda prompt, _: Reply(body=replies[prompt])) as server:
        assert [judgement.rating for judgement in judge(server.url, "abc")] == [None, None, 0]


@given(
    st.text(max_size=30),
    st.sampled_from(["0", "0.5", "1"]),
    st.sampled_from(["", ".", "**", "\n\n", '"', " _"]),
)
def test_old_replies_count_if_no_word_follows_the_rating(before, rating, after):
    text = f"{before} [[{rating}]]{after}"
    if "think" not in before and "[[" not in before:
        assert read_rating(SCALE, text, None) == float(rating)
        assert read_rating(SCALE, f"{text} but", None) is None
        assert (
            read_rating(SCALE, f"{text} but", "")
            == read_rating(SCALE, f"{text} but", "stop")
            == float(rating)
        )


def test_old_replies_about_several_fields_must_have_all_of_them():
    fields = ("local_intent", "global_intent", "next_step_plan")
    scale = scale_of(fields)
    text = "Fine.\n" + "\n".join(
        f"[[{field}: {10 * index}]]" for index, field in enumerate(fields, 1)
    )
    assert read_rating(scale, text, None) == 20
    assert read_rating(scale, text + "\nOr rather", None) is None


@given(st.text(), st.text())
def test_old_replies_never_have_another_rating(before, after):
    for text in (before, f"{before}[[1]]{after}"):
        assert read_rating(SCALE, text, None) in (None, read_rating(SCALE, text, "stop"))


def test_a_long_old_reply_is_read_quickly():
    scale = RatingScale(read, best=1)
    text = "a [ b ]] " * 100_000
    assert read_rating(scale, text + "[[1]]", None) == 1
    assert read_rating(scale, "[[1]]" + text, None) is None


# Tests of the token limit.


def unknown(parameter, **more):
    message = f"Unsupported parameter: '{parameter}' is not supported with this model."
    return Reply(message, status=400, **more)


@pytest.mark.parametrize("status", [400, 422])
def test_the_limit_is_sent_under_the_other_name_after_a_refusal(status):
    body = json.dumps({"detail": [{"loc": ["body", "max_tokens"], "msg": "extra fields"}]}).encode()

    def reply(*_):
        return Reply(body=body, status=status) if "max_tokens" in server.bodies[-1] else Reply()

    usage = LlmUsage()
    with JudgeServer(reply) as server:
        for prompts in ("abcdef", "ghi"):
            judgements = judge(server.url, prompts, concurrency=1, usage=usage)
            assert [judgement.rating for judgement in judgements] == [1] * len(prompts)
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None] + [4096] * 9


def test_the_probe_learns_the_name():
    usage = LlmUsage()
    with JudgeServer(
        lambda *_: unknown("max_tokens") if "max_tokens" in server.bodies[-1] else Reply()
    ) as server:
        probe(JudgeSettings("judge", server.url, usage=usage))
        server.bodies.clear()
        judge(server.url, "abc", usage=usage)
        assert all("max_tokens" not in body for body in server.bodies)


def test_a_refused_limit_names_its_variable():
    def reply(*_):
        return Reply(
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. The context is 2048",
            status=400,
        )

    with JudgeServer(reply) as server:
        (judgement,) = judge(server.url, ["a"])
        assert len(server.prompts) == 2  # only one under each name
    assert judgement.error.endswith("4096 tokens, set by LMMS_EGOPLAN_JUDGE_MAX_TOKENS)")


def test_if_both_names_are_refused_the_first_refusal_is_reported():
    with JudgeServer(
        lambda *_: unknown(next(name for name in server.bodies[-1] if name[:4] == "max_"))
    ) as server:
        (judgement,) = judge(server.url, ["a"])
    assert "'max_tokens' is not supported" in judgement.error


def test_another_refusal_under_the_second_name_affects_one_answer():
    def reply(prompt, _):
        if "max_tokens" in server.bodies[-1]:
            return unknown("max_tokens")
        return Reply("filtered", status=400) if prompt == "bad" else Reply()

    with JudgeServer(reply) as server:
        bad, good = judge(server.url, ["bad", "good"], concurrency=1)
        assert len(server.prompts) == 3
    assert bad.error.endswith("HTTP 400: filtered")
    assert good.rating == 1


def test_openai_gets_the_newer_name():
    assert _first_name(JudgeSettings("gpt")) == "max_completion_tokens"
    assert (
        _first_name(JudgeSettings("gpt", "https://eu.api.openai.com/v1")) == "max_completion_tokens"
    )
    assert _first_name(JudgeSettings("gpt", "https://notopenai.com/v1")) == "max_tokens"
    azure = JudgeSettings(
        "gpt", azure_endpoint="https://x.openai.azure.com", azure_api_version="2024-02-15-preview"
    )
    assert _first_name(azure) == "max_tokens"


def test_the_limit_does_not_change_the_cache_key():
    with JudgeServer(lambda *_: Reply("so it is [[1]]")) as server:
        judge(server.url, ["a"], max_tokens=100)
        (judgement,) = judge(server.url, ["a"], max_tokens=200)
        assert (judgement.cached, len(server.prompts)) == (True, 1)
    assert server.bodies[0]["max_tokens"] == 100
    assert "max_completion_tokens" not in server.bodies[0]
