"""What judging costs: tokens of reasoning, and the expected cost next to the bound."""

import json
import re

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import judge
from lmms_egoplan.judging import batches
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.printing import print_cost
from lmms_egoplan.judging.text import read_reply
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage

pytestmark = pytest.mark.usefixtures("data")

KIND = "Rate the answer to this question about a kitchen. " * 3
PROMPTS = [f"{KIND}{number}" for number in range(30)]


def counts(prompt, completion, total=None, reasoning=None, *, is_nested=True):
    reported = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    if reasoning is not None:
        reported |= {"reasoning_tokens": reasoning} if not is_nested else {}
        reported |= (
            {"completion_tokens_details": {"reasoning_tokens": reasoning}} if is_nested else {}
        )
    return reported


def body(reported, text="Rating: [[1]]", model="judge"):
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return json.dumps({"model": model, "choices": [choice], "usage": reported})


def test_tokens_of_reasoning_are_counted_once():
    cases = {
        "OpenAI: the completion includes them": (counts(20, 1112, 1132, 1100), 1112),
        "xAI: only the total includes them": (counts(20, 12, 1132, 1100), 1112),
        "xAI with fewer than visible ones": (counts(20, 100, 150, 30), 130),
        "Gemini: only the total, and they are not named": (counts(758, 102, 1725), 967),
        "Gemini without a visible token": (counts(21, None, 81), 60),
        "outside the details": (counts(20, 12, 1132, 1100, is_nested=False), 1112),
        "no total": (counts(20, 12, None, 1100), 1112),
        "no total, perhaps included": (counts(20, 1112, None, 1100), 1112),
        "a total of prompt and completion": (counts(20, 12, 32, 1100), 1112),
        "no reasoning": (counts(20, 12, 32, 0), 12),
        "a total that is too small": (counts(20, 12, 3), 12),
        "no counts": (counts(None, None), None),
        "malformed counts": (counts("20", 12, "32", [1]), 12),
        "too large for the cache": (counts(20, 2**62, None, 2**63 - 1), None),
    }
    counted = {
        name: read_reply(body(reported), "judge").completion_tokens
        for name, (reported, _) in cases.items()
    }
    assert {
        name: (counted[name], tokens)
        for name, (_, tokens) in cases.items()
        if counted[name] != tokens
    } == {}


def test_the_cost_of_a_run_includes_reasoning(capsys, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text('{"judge": {"input": 0, "output": 1000}}')
    usage = LlmUsage(LlmOptions(prices=read_prices(prices)))
    with JudgeServer(lambda *_: Reply(body=body(counts(20, 12, 1132, 1100)).encode())) as server:
        (judgement,) = judge(server.url, PROMPTS[:1], usage=usage)
        assert (judgement.rating, judgement.completion_tokens) == (1, 1112)
    print_cost(usage)
    output = capsys.readouterr().out
    assert "1,112 reply tokens" in output
    assert "1.11 for replies" in output


@pytest.mark.parametrize(("visible", "reasoning"), [(50, 4000), (12, 38)])
def test_a_reply_at_the_limit_is_cut_off_with_and_without_its_reasoning(visible, reasoning):
    """Some endpoints limit visible tokens, others all of them, and some always report ``stop``."""
    reported = counts(20, visible, 20 + visible + reasoning, reasoning)
    with JudgeServer(lambda *_: Reply(body=body(reported).encode())) as server:
        (judgement,) = judge(server.url, PROMPTS[:1], max_tokens=50)
    assert judgement.rating is None
    assert "cut off" in judgement.error


def estimate(url, prompts, capsys, model="judge", prices=None):
    usage = LlmUsage(LlmOptions(is_estimate=True, prices=read_prices(prices)))
    judge(url, prompts, usage=usage, model=model)
    print_cost(usage)
    return capsys.readouterr().out


def test_an_estimate_has_the_expected_cost_by_stored_replies_next_to_the_bound(capsys, tmp_path):
    """Replies of another model, endpoint or kind of prompts do not count."""
    prices = tmp_path / "prices.json"
    prices.write_text(
        '{"judge": {"input": 0, "output": 1000}, "other": {"input": 0, "output": 1000}}'
    )

    def reply(prompt, _):
        model = server.bodies[-1]["model"]
        tokens = 7000 if model == "judge-mini" else 100 + int(prompt.split()[-1])
        return Reply(
            body=body(
                counts(20, tokens, 20 + tokens), model=model.replace("judge", "judge-2026")
            ).encode()
        )

    with JudgeServer(reply) as server:
        assert "expected:" not in estimate(server.url, PROMPTS, capsys, prices=prices)
        judge(server.url, PROMPTS[:3], concurrency=1)
        judge(server.url, PROMPTS[:3], concurrency=1, model="judge-mini")
        judge(
            server.url, [f"another kind of prompt {number}" for number in (500, 600)], concurrency=1
        )
        sent = len(server.prompts)
        output = estimate(server.url, PROMPTS, capsys, prices=prices)
        assert len(server.prompts) == sent
        assert re.findall(
            r"at most ([\d,]+) reply tokens \(expected: ~([\d,]+), from (\d+)", output
        ) == (
            [("110,592", "2,727", "3")]
            * 2  # the step and the total: 27 requests, 4096 tokens at most, 101 expected
        )
        assert "at most 110.59 for replies (expected: ~2.73" in output
        assert "expected:" not in estimate(
            server.url, PROMPTS, capsys, model="other", prices=prices
        )
    with JudgeServer(reply) as elsewhere:
        assert "expected:" not in estimate(elsewhere.url, PROMPTS[5:], capsys)


def priced(log):
    return [line for line in log if "expected by the mean" in line]


def test_a_run_logs_the_expected_cost_from_50_replies_on_and_every_tenth(log, tmp_path):
    """Cached replies do not count. One reply of the first 50 reports no tokens."""
    prices = tmp_path / "prices.json"
    prices.write_text('{"judge": {"input": 1000, "output": 1000}}')
    prompts = [f"{KIND}{number}" for number in range(130)]
    reported = body(counts(20, 12, 132, 100)).encode()
    unreported = body({}).encode()

    def reply(prompt, _):
        return Reply(body=unreported if prompt == prompts[31] else reported)

    with JudgeServer(reply) as server:
        usage = LlmUsage(LlmOptions(prices=read_prices(prices)))
        judge(server.url, prompts[:30], usage=usage)
        judge(server.url, prompts[:80], usage=usage)
        assert priced(log) == []  # 50 replies are the whole step, so the summary has the cost
        server.prompts.clear()
        judge(server.url, [f"{prompt} again" for prompt in prompts[:80]], 1, usage=usage)
        judge(server.url, [f"{prompt} more" for prompt in prompts], 1)
    lines = priced(log)
    numbers = [re.search(r"mean of (\d+) replies, for all (\d+)", line) for line in lines]
    assert [(int(n[1]), int(n[2])) for n in numbers] == [
        *[(n, 80) for n in (50, 58, 66, 74)],
        *[(n, 130) for n in (50, 63, 76, 89, 102, 115, 128)],
    ]
    for fact in ("~1,600 prompt tokens", "~8,960 reply tokens, at most 327,680"):
        assert fact in lines[0]
    assert "; expected price ~10.56, at most 329.28, by " in lines[0]
    assert not any("price" in line for line in lines[4:])


def test_repeats_and_replies_without_counts_are_part_of_the_expected_cost(log):
    """Every other prompt needs a second request, and every fifth reply reports no tokens."""

    def reply(prompt, before):
        number = int(prompt.split()[-1])
        reported = counts(20, 10, 30) if number % 5 else {}
        text = "It is hard to say." if number % 2 and not before else "Rating: [[1]]"
        return Reply(body=body(reported, text).encode())

    with JudgeServer(reply) as server:
        judge(server.url, [f"{KIND}{number}" for number in range(100)], 1)
    line = priced(log)[0]
    # There are 74 replies to 50 prompts, because the last prompt is not repeated yet. 59 of them
    # report tokens.
    facts = ("mean of 59 replies, for all 100", "~2,960 prompt tokens", "~1,480 reply tokens")
    assert all(fact in line for fact in facts), line


def test_the_expected_cost_of_batches_is_not_logged(log, monkeypatch):
    monkeypatch.setattr(batches, "_FIRST_POLL_S", 0.02)
    with JudgeServer(lambda *_: Reply()) as server:
        prompts = [f"{KIND}{number}" for number in range(80)]
        judge(server.url, prompts, usage=LlmUsage(LlmOptions(batch=True)))
    assert priced(log) == []
