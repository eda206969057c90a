"""Request JSON from a language model on loopback; each prompt gets its JSON or one reason."""

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import asdict

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.json_replies import (
    CUT_OFF,
    FILTERED,
    NO_REPLY,
    NOT_JSON,
    REPEATED_KEY,
    SEVERAL,
    ask_json,
)
from lmms_egoplan.judging.judge import complete_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.printing import finish
from lmms_egoplan.judging.settings import JudgeSettings, language_model
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
from lmms_egoplan.rejections import Rejection, counted

VALUE = {"goal": "make tea", "steps": ["fill the kettle", {"then": 2}]}
GOOD = json.dumps(VALUE)
FILTER = b'{"error": {"message": "It is filtered.", "code": "content_filter"}}'


pytestmark = pytest.mark.usefixtures("data")


def ask(server, names, usage=None, **options):
    usage = usage or LlmUsage(LlmOptions(**options))
    settings = JudgeSettings("model", server.url, KEY, 4, usage=usage)
    prompts = {name: name for name in names}
    replies = ask_json("step", prompts, settings, "things", schema={"type": "object"})
    results = replies.values | {rejection.where: rejection for rejection in replies.rejections}
    return {name: results[name] for name in names}


def test_each_prompt_has_its_json_or_one_reason():
    spoilt = {
        "prose": (Reply("I would make tea."), NOT_JSON),
        "cut": (Reply(GOOD[:-1], finish="length"), CUT_OFF),
        "refused": (Reply("too long", status=400), NO_REPLY),
        "filtered": (Reply(status=400, body=FILTER), FILTERED),
    }
    with JudgeServer(
        lambda prompt, _: spoilt[prompt][0] if prompt in spoilt else Reply(GOOD)
    ) as server:
        results = ask(server, ["good", *spoilt])
    assert results.pop("good") == VALUE
    assert {name: (rejection.step, rejection.reason) for name, rejection in results.items()} == {
        name: ("step", reason) for name, (_, reason) in spoilt.items()
    }
    assert "HTTP 400: too long" in results["refused"].detail


def test_a_filtered_prompt_is_not_asked_in_later_runs_or_without_its_schema():
    with JudgeServer(lambda *_: Reply(status=400, body=FILTER)) as server:
        for sent in (2, 2):
            assert ask(server, ["a"])["a"].reason == FILTERED
            assert formats(server) == [True] * sent
        assert ask(server, ["a"], retry_rejected=True)["a"].reason == FILTERED
        assert formats(server) == [True] * 4


SPOILT = {
    "prose": Reply("I would make tea."),
    "two": Reply(GOOD + '{"goal": "none"}'),
    "twice a key": Reply('{"goal": 1, "goal": 2}'),
    "ends early": Reply(GOOD[:-1]),
    "length": Reply(GOOD, finish="length"),
    "filter": Reply(GOOD, finish="content_filter"),
    "other end": Reply(GOOD, finish="paused"),
}


def test_unusable_replies_are_requested_a_second_time():
    with JudgeServer(lambda prompt, before: Reply(GOOD) if before else SPOILT[prompt]) as server:
        for _ in range(2):
            assert ask(server, SPOILT) == dict.fromkeys(SPOILT, VALUE)
    assert Counter(server.prompts) == dict.fromkeys(SPOILT, 2)


def test_rejected_replies_are_kept_until_they_are_retried():
    spoilt = dict(SPOILT)
    with JudgeServer(lambda prompt, _: spoilt.get(prompt, Reply(GOOD))) as server:
        for _ in range(2):
            results = ask(server, [*spoilt, "good"])
            assert results.pop("good") == VALUE
            assert [value.reason for value in results.values()] == [
                NOT_JSON,
                SEVERAL,
                REPEATED_KEY,
                CUT_OFF,
                CUT_OFF,
                FILTERED,
                CUT_OFF,
            ]
            assert Counter(server.prompts) == dict.fromkeys(spoilt, 2) | {"good": 1}
        mended = spoilt.pop("prose"), spoilt.pop("ends early")
        assert len(mended) == 2
        names = [*SPOILT, "good"]
        # An estimate counts the retries, but sends and deletes nothing.
        before = len(server.prompts)
        usage = LlmUsage(LlmOptions(retry_rejected=True, is_estimate=True))
        settings = JudgeSettings("model", server.url, KEY, 4, usage=usage)
        ask_json("step", {name: name for name in names}, settings, "things")
        assert (len(server.prompts), sum(step.requests for step in usage.steps)) == (before, 7)
        results = ask(server, names, retry_rejected=True)
        assert [name for name, value in results.items() if value == VALUE] == [
            "prose",
            "ends early",
            "good",
        ]
        # Replies that are still unusable are requested twice, as in a new run.
        assert Counter(server.prompts) == dict.fromkeys(spoilt, 4) | {
            "prose": 3,
            "ends early": 3,
            "good": 1,
        }
        # Accepted replies are reused with and without the option.
        accepted = ["prose", "ends early", "good"]
        assert ask(server, accepted, retry_rejected=True) == dict.fromkeys(accepted, VALUE)
        assert len(server.prompts) == before + 12


def test_cached_replies_that_an_earlier_version_rejected_are_read():
    """The cache key does not depend on the schema or on the rule for reading."""
    careless = f"Sure! Here it is:\n{GOOD[:-1]},}}\nAnything else?"
    with JudgeServer(lambda *_: Reply(careless)) as server:
        settings = JudgeSettings("model", server.url, KEY, 4)
        complete_all({"a": Prompt("a")}, settings, title="earlier")
        assert ask(server, ["a"]) == {"a": VALUE}
        assert len(server.prompts) == 1


def formats(server):
    return ["response_format" in body for body in server.bodies]


@pytest.mark.parametrize("status", [400, 422])
def test_a_schema_is_sent_until_the_endpoint_refuses_one(status):
    def reply(*_):
        return (
            Reply("no such parameter", status=status)
            if "response_format" in server.bodies[-1]
            else Reply(GOOD)
        )

    with JudgeServer(reply) as server:
        usage = LlmUsage()
        for name in ("a", "b"):
            assert ask(server, [name], usage) == {name: VALUE}
        assert formats(server) == [True, False, False]


def test_a_schema_is_sent_after_a_refusal_for_another_reason():
    with JudgeServer(
        lambda prompt, _: Reply("too long", status=400) if "long" in prompt else Reply(GOOD)
    ) as server:
        usage = LlmUsage()
        assert ask(server, ["c"], usage) == {"c": VALUE}
        assert ask(server, ["long"], usage)["long"].reason == NO_REPLY
        assert ask(server, ["d"], usage) == {"d": VALUE}
        assert formats(server) == [True, True, False, True]
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


@pytest.mark.parametrize(("lost", "is_error"), [(10, False), (11, True), (0, False)])
def test_losing_more_than_a_tenth_is_an_error(lost, is_error):
    usage = LlmUsage(asked=100, lost=lost)
    with pytest.raises(LmmsEgoplanError, match="11 of 100") if is_error else nullcontext():
        finish(usage)


def test_the_judges_variables_set_the_language_model(monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_MODEL", raising=False)
    assert [language_model("gpt-4").model, language_model("gpt-4", "mine").model] == [
        "gpt-4",
        "mine",
    ]
    monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_BASE_URL")
    with pytest.raises(LmmsEgoplanError, match="LMMS_EGOPLAN_JUDGE_MODEL"):
        language_model("gpt-4")


def test_rejections_are_counted_in_order_and_written_one_per_line():
    rejections = [
        Rejection("a", "late", "x"),
        Rejection("b", "early", "y", "é"),
        Rejection("a", "late", "z"),
    ]
    assert counted(rejections) == [("late", 2), ("early", 1)]
    lines = json_lines(map(asdict, rejections)).splitlines()
    assert [Rejection(**json.loads(line)) for line in lines] == rejections
