import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.judging.judgement import Judgement
from lmms_egoplan.judging.text import clean_text, is_out_of_credit, read_reply, without_thinking

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "model", "prompt_tokens"]),
            inner,
            max_size=3,
        )
    ),
)


def test_reads_a_completion():
    body = {
        "model": "gpt-4o-2024-11-20",
        "choices": [{"message": {"content": "fine"}}, {"message": {"content": "second"}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2},
    }
    assert read_reply(json.dumps(body), "gpt-4o") == Judgement(
        None, "fine", "gpt-4o-2024-11-20", prompt_tokens=7, completion_tokens=2, finish=""
    )
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "fi"},
        {"type": "text", "text": "ne"},
    ]
    assert (
        read_reply(json.dumps({"choices": [{"message": {"content": parts}}]}), "judge").reply
        == "fine"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<html>", "not JSON: '<html>'"),
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("null", "no choices"),
        ('{"choices": []}', "no choices"),
        ('{"choices": [{"message": {"content": null}}]}', "no text"),
        ('{"choices": [{"message": {"content": [{"text": "x"}]}}]}', "no text"),
        (
            '{"error": {"message": "overloaded"}, "choices": [{"message": {"content": "x"}}]}',
            "error: overloaded",
        ),
        (
            '{"error": "overloaded", "choices": [{"message": {"content": "x"}}]}',
            "error: overloaded",
        ),
        ('{"choices": [{"error": {"code": 502}, "message": {"content": "x"}}]}', "502"),
        (
            (
                '{"choices": [{"message": {"content": "x"}}], "choices": [{"message": '
                '{"content": "y"}}]}'
            ),
            "choices",
        ),
        (
            '{"choices": [{"message": {"content": "x", "content": "y"}}]}',
            "choices[0].message.content",
        ),
        (
            '{"choices": [{"message": {"content": "x"}, "finish_reason": 1}]}',
            "finish_reason is no text: 1",
        ),
        (
            '{"choices": [{"message": {"content": "x"}, "finish_reason": ["stop"]}]}',
            "finish_reason is no text",
        ),
        (
            '{"choices": [{"message": {"content": "x"}, "finish_reason": {"type": "length"}}]}',
            "length",
        ),
        (
            '{"choices": [{"message": {"content": "x"}, "finish_reason": false}]}',
            "finish_reason is no text: False",
        ),
    ],
)
def test_the_error_explains_a_missing_text(body, problem):
    reply = read_reply(body, "judge")
    assert reply.reply is None
    assert problem in reply.error


@given(st.text() | _JSON.map(json.dumps))
def test_reads_any_body(body):
    reply = read_reply(body, "judge")
    assert (reply.reply is None) == (reply.error is not None)


def test_an_empty_error_is_ignored():
    assert (
        read_reply(
            '{"error": null, "choices": [{"error": {}, "message": {"content": "x"}}]}', "judge"
        ).reply
        == "x"
    )


def test_texts_can_be_stored():
    reply = read_reply(
        r'{"model": "\ud800", "choices": [{"message": {"content": "a \udc00 b"}}]}', "judge"
    )
    assert reply.reply == "a ? b"
    assert reply.judge == "?"


@given(st.text(st.characters(codec=None, categories=None)))
def test_clean_text_can_be_sent(text):
    assert clean_text(text).encode().decode() == clean_text(text)
    assert clean_text(f"a {text}\ud800").endswith("?")
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "?" in clean_text(text)
    else:
        assert clean_text(text) == text


@pytest.mark.parametrize(
    ("body", "out"),
    [
        (
            (
                '{"error": {"message": "x", "type": "insufficient_quota", "code": '
                '"insufficient_quota"}}'
            ),
            True,
        ),
        ('{"error": {"type": "insufficient_quota", "code": 429}}', True),
        ('{"error": {"code": "billing_not_active"}}', True),
        (
            (
                '{"error": {"code": "rate_limit_exceeded", "message": "You exceeded your '
                'current quota: billing"}}'
            ),
            False,
        ),
        ('{"error": "insufficient_quota"}', False),
        ('{"error": {"code": ["insufficient_quota"]}}', False),
        ("insufficient_quota", False),
        ("[" * 100_000, False),
    ],
)
def test_recognizes_an_account_without_credit(body, out):
    assert is_out_of_credit(body) is out


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("[[1]]", "[[1]]"),
        ("<think>[[1]]</think>[[0]]", "[[0]]"),
        ("maybe [[1]]</think>[[0]]", "[[0]]"),
        ("<think>[[1]]", None),
        ("<think>a</think>\n<think>[[1]]", None),
        ('The answer "<think>Okay" is wrong: [[0]]', 'The answer "<think>Okay" is wrong: [[0]]'),
        ("<think>a</think>b<think>c</think>[[0]]", "[[0]]"),
        ("<think>it says </think> [[1]]</think>[[0]]", "[[0]]"),
        ("<thinking>[[1]]</thinking> [[0]]", " [[0]]"),
        ("[THINK]it is [[1]]", None),
        ("[THINK]it is [[1]][/THINK][[0]]", "[[0]]"),
        ("<seed:think>[[1]]", None),
        ("<mm:think>[[1]]", None),
        ("<mm:think>\n[[1]]\n</mm:think>[[0]]", "[[0]]"),
        ("[[1]]</mm:think>[[0]]", "[[0]]"),
        ("<|begin_of_thought|>[[1]]", None),
        ("<|begin_of_thought|>[[1]]<|end_of_thought|>[[0]]", "[[0]]"),
        ("<|thought_start|>[[1]]<|thought_end|>[[0]]", "[[0]]"),
        ("<deepthink>[[1]]</deepthink>[[0]]", "[[0]]"),
        ('<think time="3">[[1]]</think>[[0]]', "[[0]]"),
        ("<scratchpad>[[1]]</scratchpad>[[0]]", "[[0]]"),
        ("<x:reasoning>[[1]]", None),
        ("It may think. <rethought> [[0]]", "It may think. <rethought> [[0]]"),
        ("< Think >[[1]]", None),
        ("◁think▷[[1]]◁/think▷[[0]]", "[[0]]"),
        ("<|channel|>analysis<|message|>so [[1]]", None),
        (
            "<|channel|>analysis<|message|>[[1]]<|end|><|start|>assistant<|channel|>final<|message|>[[0]]",
            "[[0]]",
        ),
        ("<|channel|>final<|message|>[[0]]", "[[0]]"),
        (
            (
                "<|channel|>analysis<|message|>a<|end|><|channel|>final "
                '<|constrain|>json<|message|>{"a": 1}'
            ),
            '{"a": 1}',
        ),
        ("analysisWe need [[1]]. Then more.\nassistantfinal[[0]]", "[[0]]"),
        ("analysisWe need [[1]]", None),
        ("analysis of it: [[1]]", "analysis of it: [[1]]"),
        (
            'analysis: [[1]], though it says "assistantfinal"',
            'analysis: [[1]], though it says "assistantfinal"',
        ),
        ("<|START_THINKING|>[[1]]<|END_THINKING|>[[0]]", "[[0]]"),
        ("<|START_THINKING|>[[1]]", None),
        ("<|channel>thought\n[[1]]<channel|>[[0]]", "[[0]]"),
        ("<|channel>thought\n[[1]]", None),
        ("[[1]]\n\n  <think>or is it", None),
        ("<think>a</think>It is [[1]].\n[THINK]or is it", None),
        ("<analysis>so [[1]]", None),
        ("\n<analysis>[[1]]</analysis>\n[[0]]", "\n[[0]]"),
        ("<reasoning>a</reasoning><thought>[[1]]", None),
        (
            "[[1]] <reasoning>as it is the same</reasoning>",
            "[[1]] <reasoning>as it is the same</reasoning>",
        ),
        # so answers must not bring such a tag into the prompt
        (
            '[[0]], though it says "</think>"',
            '"',
        ),
    ],
)
def test_removes_thinking(reply, verdict):
    assert without_thinking(reply) == verdict


@given(st.text(), st.text())
def test_thinking_never_counts(thought, verdict):
    seen = f"Seen: {thought}"
    assert without_thinking(f"<think>{thought}") is None or without_thinking(seen) != seen
    assert without_thinking(f"<think>{thought}</think>Seen: {verdict}") == without_thinking(
        f"Seen: {verdict}"
    )
