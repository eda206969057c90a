"""Read exactly one JSON value from sloppy replies, and invent none."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.judging.json_replies import (
    CUT_OFF,
    NOT_JSON,
    REPEATED_KEY,
    SEVERAL,
    UnreadableReplyError,
    read_json_reply,
)
from lmms_egoplan.judging.text import without_thinking
from patience import processor_time_below

VALUE = {
    "goal": "make tea",
    "steps": ["fill the kettle, slowly", {"then": 2, "left": None, "done": True}],
}
GOOD = json.dumps(VALUE)


@pytest.mark.parametrize(
    "reply",
    [
        *(
            GOOD,
            f"\ufeff{GOOD}",
            f"Sure! Here it is: {GOOD}",
            f"{GOOD}\nLet me know if you need more.",
        ),
        *(
            f"```json\n{GOOD}\n```",
            f"As you asked [1]:\n```JSON\n{GOOD}\n```\nI used {{x}} and {{don't}} as names.",
        ),
        *(f"<think>hm {{</think>\n{GOOD}", f"I use {{x}} and [it]. {GOOD}"),
        *(
            f"{GOOD}\nAgain: {json.dumps(VALUE, indent=1, sort_keys=True)}",
            f"[{GOOD}]",
            f"[{GOOD}, {GOOD}]",
        ),
        *(f"\\boxed{{{GOOD}}}", GOOD.replace("}]}", "},],}"), repr(VALUE), GOOD.replace('"', "'")),
        GOOD.replace('"goal"', "goal"),
        GOOD.replace('"goal"', '// as asked\n"goal"').replace("2,", "2, # two\n") + "// done",
        *(GOOD.replace("2,", "/* {two} */ 2,"), GOOD.replace('"make tea",', '"make tea"\n')),
        GOOD.replace('"goal"', "“goal”"),
    ],
)
def test_the_only_object_is_read(reply):
    assert read_json_reply(reply) == VALUE


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('{"text": "{\\"a\\": 1} [\\"b\\"]"}', {"text": '{"a": 1} ["b"]'}),
        ('{"text": "see // here, {x}",}', {"text": "see // here, {x}"}),
        ('{"text": "the "red" cup"}', {"text": 'the "red" cup'}),
        ('{"text": "two\nlines",}', {"text": "two\nlines"}),
        ('{"text": "caf\\u00e9 \\n é \\ud83d\\ude00",}', {"text": "café \n é 😀"}),
        (
            '{"number": -1.5e3, "empty": "", "none": [],}',
            {"number": -1500.0, "empty": "", "none": []},
        ),
        *(('{"GOAL": 1}', {"GOAL": 1}), ("{}", {})),
    ],
)
def test_values_are_not_changed(reply, value):
    assert read_json_reply(reply) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ('Seen: ["cup", "sink"]', ["cup", "sink"]),
        ("```\n['cup',]\n```", ["cup"]),
        ("[1] shows none: []", []),
    ],
)
def test_the_only_array_is_read(reply, value):
    assert read_json_reply(reply, list) == value


UNREADABLE = [
    *[
        (text, NOT_JSON)
        for text in ("", "\0", "no", "5", '"text"', "{x}", "[]", '["a"]', json.dumps(GOOD))
    ],
    *[
        (text, NOT_JSON)
        for text in ('{"a": }', '{"a"}', '{"a": ...}', '{"a": b}', '{"a": undefined}', '{"a": 1]')
    ],
    *[
        (text, NOT_JSON)
        for text in ('{"a": NaN}', '{"a": -Infinity,}', '{"a": 1e999}', '{"a": 1,000}')
    ],
    *[(text, NOT_JSON) for text in ('{"a": "b" + "c"}', '{"a": "b"; "c": 1}', "{'a': 'don't'}")],
    *[(f'{{"a": {"9" * 5000}{end}', NOT_JSON) for end in ("}", ",}")],
    ('{"a": 1, "a": 2,}', NOT_JSON),
    ('{"a":' * 10_000 + "1" + "}" * 10_000, NOT_JSON),
    ("{" * 100_000, NOT_JSON),
    ('{"a":' * 10_000, CUT_OFF),
    (f"<think>{GOOD}", CUT_OFF),
    (f"[{GOOD}", CUT_OFF),
    (f'{GOOD}\n{{"goal": ', CUT_OFF),
    *[(GOOD[:end], CUT_OFF) for end in range(3, len(GOOD))],
    *[(GOOD.replace('"', "'")[:end], CUT_OFF) for end in range(3, len(GOOD))],
    ('{"a": 1, "a": 1}', REPEATED_KEY),
    ('{"a": [{"b": 1, "b": 2}]}', REPEATED_KEY),
    (GOOD + '{"goal": "make tea"}', SEVERAL),
    ('[{"a": 1}, {"a": 2}]', SEVERAL),
    ('{"a": true} {"a": 1}', SEVERAL),
]


def outcome(reply):
    """Return the value that is read, or the reason why there is none."""
    try:
        return read_json_reply(reply)
    except UnreadableReplyError as error:
        return error.reason


def test_no_value_is_invented():
    failures = [
        (reply[:100], result, reason)
        for reply, reason in UNREADABLE
        if (result := outcome(reply)) != reason
    ]
    assert failures == []


@pytest.mark.parametrize(
    "reply",
    [
        *(
            "x" * 200_000,
            '"' * 200_000,
            "{ " * 100_000,
            "[ " * 100_000,
            "{a " * 60_000,
            "{/*" * 60_000,
        ),
        *('{"a": [' + "b : " * 15_000 + "]}", "{'" * 100_000, '{"a": "' + '" ' * 30_000 + '"}'),
    ],
    ids=lambda reply: reply[:8],
)
def test_long_texts_are_read_in_linear_time(reply):
    with processor_time_below(5), pytest.raises(UnreadableReplyError):  # usually 0.3 s at most
        read_json_reply(reply)


def test_an_object_is_found_after_a_long_text():
    with processor_time_below(5):
        assert read_json_reply(f"{'word ' * 100_000}{GOOD}") == VALUE


# Hypothesis also draws words from the package's code, such as thinking tags, which texts must not
# contain.
TEXTS = st.text().filter(
    lambda text: without_thinking(f"Here: {text} Done.") == f"Here: {text} Done."
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
OBJECTS = st.dictionaries(
    TEXTS,
    st.recursive(
        SCALARS,
        lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
)


@given(OBJECTS, st.booleans())
def test_any_object_is_read_unchanged(value, is_ascii):
    reply = json.dumps(value, ensure_ascii=is_ascii)
    assert read_json_reply(f"Here: {reply} Done.") == value


@given(OBJECTS, st.integers(0), st.sampled_from(["", ",", "}", '"', ":", "'", "{", "]", " a "]))
def test_a_damaged_object_is_read_unchanged_or_rejected(value, position, sign):
    """Replace one character. Numbers and bare words must not change."""
    reply = json.dumps(value)
    position %= len(reply)
    try:
        result = read_json_reply(reply[:position] + sign + reply[position + 1 :])
    except UnreadableReplyError:
        return
    assert isinstance(result, dict)
    assert len(json.dumps(result)) <= len(reply) + 4 * len(sign) + 4


@given(st.text(alphabet="{}[]\",:'\\/*# \nab1-", max_size=60))
def test_any_text_is_read_or_rejected(text):
    for kind in (dict, list):
        with suppress(UnreadableReplyError):
            assert isinstance(read_json_reply(text, kind), kind)
