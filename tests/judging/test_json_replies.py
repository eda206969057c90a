"""JSON asked of a language model, on loopback: read out of its replies, or one reason why there is none."""

import json

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging import JudgeSettings
from lmms_egoplan.judging.json_replies import CUT_OFF, NO_REPLY, NOT_JSON, ask_json, language_model
from lmms_egoplan.judging.json_text import read_json_reply
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.rejections import Rejection, counted, rejection_lines

VALUE = {"goal": "make tea", "steps": ["fill the kettle", {"then": 2}]}
GOOD = json.dumps(VALUE)


@pytest.mark.parametrize(
    "reply",
    [GOOD, f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```\n", f"```json {GOOD}```", f"<think>hm {{</think>\n{GOOD}"],
)
def test_json_is_read(reply):
    assert read_json_reply(reply) == VALUE


@pytest.mark.parametrize(
    "reply",
    ["", "I am sorry, I cannot.", f"Sure! {GOOD}", GOOD[:-1], f"{GOOD} Done.", f"<think>{GOOD}", '{"a": 1, "a": 2}'],
)
def test_other_replies_are_no_json(reply):
    with pytest.raises(ValueError, match=r"."):
        read_json_reply(reply)


@pytest.mark.usefixtures("data")
def test_each_prompt_has_its_json_or_one_reason():
    replies = {
        "good": Reply(GOOD),
        "prose": Reply("I would make tea."),
        "cut": Reply(GOOD[:-1], finish="length"),
        "refused": Reply("too long", status=400),
    }
    with JudgeServer(lambda prompt, _: replies[prompt]) as server:
        found = ask_json(
            "step", {name: name for name in replies}, JudgeSettings("model", server.url, KEY, 4), "things", False
        )
    assert found.pop("good") == VALUE
    assert [(name, reply.step, reply.reason, reply.where) for name, reply in found.items()] == [
        ("prose", "step", NOT_JSON, "prose"),
        ("cut", "step", CUT_OFF, "cut"),
        ("refused", "step", NO_REPLY, "refused"),
    ]
    assert "HTTP 400: too long" in found["refused"].detail


@pytest.mark.usefixtures("data")
def test_images_stand_before_the_text():
    images = ("data:image/png;base64,AAAA", "data:image/png;base64,BBBB")
    with JudgeServer(lambda *_: Reply("[]")) as server:
        settings = JudgeSettings("model", server.url, KEY, 4)
        assert ask_json("step", {"a": Prompt("what?", images)}, settings, "images", False) == {"a": []}
        (body,) = server.bodies
    *shown, text = body["messages"][-1]["content"]
    assert [part["image_url"]["url"] for part in shown] == list(images)
    assert text == {"type": "text", "text": "what?"}


def test_the_language_model_is_set_as_a_judge_is(monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_MODEL", raising=False)
    assert [language_model("gpt-4").model, language_model("gpt-4", "mine").model] == ["gpt-4", "mine"]
    monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_BASE_URL")
    with pytest.raises(LmmsEgoplanError, match="no language model is set"):
        language_model("gpt-4")


def test_rejections_are_counted_in_order_and_written_one_a_line():
    rejections = [Rejection("a", "late", "x"), Rejection("b", "early", "y", "é"), Rejection("a", "late", "z")]
    assert counted(rejections) == [("late", 2), ("early", 1)]
    lines = rejection_lines(rejections).splitlines()
    assert [Rejection(**json.loads(line)) for line in lines] == rejections
