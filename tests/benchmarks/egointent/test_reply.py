import json
import time
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_PROMPT, v1_prompt_text
from lmms_egoplan.benchmarks.egointent.reply import read_reply

LOCAL, GLOBAL, NEXT = VALUES = ("hold the board steady", "put up a shelf", "drive the screw in")
ALL = dict(zip(FIELDS, VALUES, strict=True))
JSON = json.dumps(ALL)
OTHER_JSON, LAST_JSON = (json.dumps(dict.fromkeys(FIELDS, value)) for value in ("aa bb", "cc dd"))

CORPUS = yaml.safe_load(Path(__file__).with_name("replies.yaml").read_text(encoding="utf-8"))
WHOLE = CORPUS["whole"]


def test_reads_all_fields():
    fields = {name: read_reply(reply) for name, reply in WHOLE.items()}
    assert {name: read for name, read in fields.items() if read != ALL} == {}


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        (
            "local_intent Local_Intent localIntent LocalIntent LOCAL_INTENT local-intent",
            "local_intent",
        ),
        ("Global_Intent proceduralIntent PROCEDURAL_INTENT procedural-intent", "global_intent"),
        (
            (
                "nextStepPlan Next-Step_Plan next\u2011step_plan NEXT_PLAN next-step "
                "next_step nextStep"
            ),
            "next_step_plan",
        ),
    ],
)
@pytest.mark.parametrize(
    "form", ['{{"{}": "x y"}}', "{{{}: 'x y'}}", "{}: x y", "**{}**\nx y", '{{"1. {}": "x y"}}']
)
def test_reads_any_style_of_key(keys, field, form):
    for key in keys.split():
        assert read_reply(form.format(key)) == {field: "x y"}, key
        assert read_reply(form.format(key.replace("_", " "))) == {field: "x y"}, key


@pytest.mark.parametrize(("reply", "expected"), CORPUS["values"])
def test_reads_values_as_meant(reply, expected):
    assert read_reply(reply)["local_intent"] == expected


@pytest.mark.parametrize("value", CORPUS["placeholders"])
def test_placeholders_are_missing(value):
    assert read_reply(json.dumps(ALL | {"local_intent": value})) == {
        "global_intent": GLOBAL,
        "next_step_plan": NEXT,
    }
    assert read_reply(f"Local intent: {value}\nGlobal intent: {GLOBAL}") == {
        "global_intent": GLOBAL
    }


@pytest.mark.parametrize(
    "value", ["null", "None", "true", "12", "{}", "[]", "[1, 2]", '{"text": "x"}', "[[]]"]
)
def test_values_other_than_texts_are_missing(value):
    assert read_reply(f'{{"local_intent": {value}, "global_intent": "hold it"}}') == {
        "global_intent": "hold it"
    }


@pytest.mark.parametrize("reply", CORPUS["nothing"])
def test_reply_without_fields_gives_none(reply):
    assert read_reply(reply) == {}


PROMPTS = (v1_prompt_text({"step_id": "s1"}), RELEASE_PROMPT)


@pytest.mark.parametrize("asked", PROMPTS, ids=["v1", "release"])
def test_repeated_prompt_is_not_an_answer(asked):
    assert read_reply(asked) == {}
    assert all(read_reply(asked[start:]) == {} for start in range(0, len(asked), 7))


@pytest.mark.parametrize("asked", PROMPTS, ids=["v1", "release"])
@pytest.mark.parametrize("answer", [JSON, WHOLE["lines"]], ids=["JSON", "lines"])
def test_what_follows_a_repeated_prompt_is_not_read(asked, answer):
    assert read_reply(f"{answer}\n\n{asked}\n{OTHER_JSON}") == ALL


@pytest.mark.parametrize("text", [JSON, WHOLE["lines"]], ids=["JSON", "lines"])
def test_cut_off_field_is_read_to_the_end(text):
    for end in range(text.index(GLOBAL) + len("put up"), len(text)):
        fields = read_reply(text[:end])
        assert list(fields) in (list(FIELDS[:2]), list(FIELDS))
        assert all(ALL[field].startswith(value) for field, value in fields.items())
    assert read_reply(text[: text.index(GLOBAL) + len("put up")])["global_intent"] == "put up"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"local_intent": "aa bb"} {"local_intent": "cc dd"}', {"local_intent": "aa bb"}),
        ('{"local_intent": "aa bb", "local_intent": "cc dd"}', {"local_intent": "aa bb"}),
        ("Local intent: aa bb\nLocal intent: cc dd", {"local_intent": "aa bb"}),
        (f'{{"local_intent": "aa bb"}} {JSON}', ALL),
        (f'{{"local_intent": "aa bb"}}\n{WHOLE["lines"]}', ALL),
        (
            f"{WHOLE['lines']}\n{json.dumps(dict.fromkeys(FIELDS, 'aa bb'))}",
            dict.fromkeys(FIELDS, "aa bb"),
        ),
        ('{"local_intent": "N/A"}\nLocal intent: aa bb', {"local_intent": "aa bb"}),
        (
            f'{JSON}\nOn second thought:\n{{"local_intent": "aa bb"}}',
            ALL | {"local_intent": "aa bb"},
        ),
        (
            f'{JSON}\n{json.dumps(dict.fromkeys(FIELDS, "aa bb"))}\n{{"local_intent": "',
            dict.fromkeys(FIELDS, "aa bb"),
        ),
        (f"{JSON}\nA wrong answer would be {OTHER_JSON}", ALL),
        (f"{JSON}\nAlternatively:\n{OTHER_JSON}\n{OTHER_JSON}", ALL),
        (f"{JSON}\nThis is not the final answer: {OTHER_JSON}", ALL),
        (f"{JSON}\n## A bad example\n{OTHER_JSON}", ALL),
        (f'{{"right": {JSON}, "wrong": {OTHER_JSON}}}', ALL),
        (
            f"{JSON}\nA wrong one: {OTHER_JSON}\nFinal answer:\n{LAST_JSON}",
            dict.fromkeys(FIELDS, "cc dd"),
        ),
        (f"{JSON}\n```\n\n## Second pass\n```json\n{OTHER_JSON}", dict.fromkeys(FIELDS, "aa bb")),
        (f"{JSON}\nHere is the revised JSON: {OTHER_JSON}", dict.fromkeys(FIELDS, "aa bb")),
        (f"{JSON}\n{OTHER_JSON}\nThis would be wrong: {LAST_JSON}", dict.fromkeys(FIELDS, "aa bb")),
        (
            f"{JSON}\n\n{v1_prompt_text({'step_id': 's2'})}\n"
            f"{json.dumps(dict.fromkeys(FIELDS, 'aa bb'))}",
            ALL,
        ),
        ("Local intent: aa: bb global intent: cc", {"local_intent": "aa: bb global intent: cc"}),
        (f"{JSON}\nI am done. Final answer: see above.", ALL),
        (f'{JSON}\nFinal answer: {{"local_intent": "aa bb"}}', ALL | {"local_intent": "aa bb"}),
        (
            json.dumps(ALL | {"local_intent": "read the final answer: yes"}),
            ALL | {"local_intent": "read the final answer: yes"},
        ),
        (
            f"Local intent: {LOCAL}\nWhat: a kitchen\nGlobal intent: {GLOBAL}",
            {FIELDS[0]: LOCAL, FIELDS[1]: GLOBAL},
        ),
        (
            "<local_intent>a < b &amp; c</local_intent><global_intent>cut o",
            {FIELDS[0]: "a < b & c", FIELDS[1]: "cut o"},
        ),
        ("local_intent: |\n\n", {}),
    ],
)
def test_first_answer_with_the_most_fields_counts(reply, expected):
    assert read_reply(reply) == expected


PIECES = st.sampled_from(
    [
        *(
            "local_intent",
            "Local Intent",
            "GLOBAL-INTENT",
            "next step",
            "Next plan: ",
            '"local_intent": "',
            "1. ",
            "(x)",
        ),
        *(
            "What: ",
            "Why:",
            "Next: ",
            "| ",
            "|",
            "|---|",
            "| Answer |",
            "<local_intent>",
            "</local_intent>",
            "<",
            "/>",
        ),
        *(
            "Final answer: ",
            "Draft: ",
            "\uff1a",
            "\uff0c",
            "\uff5b",
            "\u3001",
            "local_intent: |\n",
            "\u2460",
            "\U0001f3af ",
        ),
        *(
            "the cup",
            "null",
            "\u0131",
            '"',
            "'",
            "\u201c",
            "\u201d",
            *"{}[]#*a",
            ", ",
            ": ",
            " - ",
            ". ",
            "```",
        ),
        *("\n", "\n\n", "\x1c", "\u2028", "//", "/*", "*/"),
    ]
)
ESCAPES = st.sampled_from(["\\", '\\"', "\\u", "\\ud83d", "\\ude00", "\ud800"])


FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3001: ","}


def _squeezed(text):
    return "".join(text.translate(FULL_WIDTH).split())


@given(
    st.lists(PIECES | st.text(max_size=4), max_size=25)
    .map("".join)
    .filter(lambda text: not set("\\&") & set(text))
)
def test_invents_nothing(reply):
    for value in read_reply(reply).values():
        assert all(_squeezed(item) in _squeezed(reply) for item in value.split("; "))


@given(st.lists(PIECES | ESCAPES | st.text(max_size=4), max_size=25).map("".join))
def test_reads_any_text(reply):
    fields = read_reply(reply)
    assert list(fields) == [field for field in FIELDS if field in fields]
    for value in fields.values():
        assert value == " ".join(value.split()) != ""
        assert value.encode()


TEXTS = st.text(max_size=8) | st.lists(PIECES | st.just("\\"), max_size=6).map("".join)
# With other text than that of a key or a placeholder.
ANSWERS = TEXTS.map(lambda text: f"{text}xyzzy")
OTHER_KEYS = st.text(max_size=8) | st.sampled_from(['"', "a\\", "{", "note: "])
OTHER = st.recursive(
    st.none() | st.booleans() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(OTHER_KEYS, inner, max_size=3),
    max_leaves=5,
)


@example(
    fields={"local_intent": "Give a final answer: local_intent| xyzzy"},
    other_fields={},
    ascii_only=False,
    indent=None,
)
@given(
    fields=st.dictionaries(st.sampled_from(FIELDS), ANSWERS, min_size=1),
    other_fields=st.dictionaries(OTHER_KEYS, OTHER, max_size=3),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
def test_valid_json_is_read_like_a_json_parser(fields, other_fields, ascii_only, indent):
    expected = {field: " ".join(fields[field].split()) for field in FIELDS if field in fields}
    for content in (
        {**fields, **other_fields},
        {**other_fields, **fields},
        [{"answer": fields, "others": other_fields}],
    ):
        assert read_reply(json.dumps(content, ensure_ascii=ascii_only, indent=indent)) == expected


STARTS = ("", '{"local_intent": "', '{"local_intent": ["')
REPEATED = [
    '{"', "}{", '"', "'", "\\", '{"a":', (
        '", a'
    ), "/*", "{ //", " ", "\n\n- ", "local_intent: ", ", local intent",
    '\\u00"', "<local_intent>", "<local_intent ", "</a>", "<a ", (
        '<a "local_intent"'
    ), "| local", "|a", "|\n",
    "What: \n", "local intent: a ", "step id:\n", "\uff1a",
    "final answer: ", "final ", "draft", "\U0001f3af", "local_intent: |\n",
]  # fmt: skip


@pytest.mark.parametrize(
    ("length", "limit"), [(40_000, 1.5), pytest.param(50_000, 3, marks=pytest.mark.nightly)]
)
def test_time_is_linear(length, limit):
    """A reply usually takes less than a tenth of the limit.

    With quadratic time, it would take far longer.
    """
    seconds = {}
    for start, piece in product(STARTS, REPEATED):
        reply = start + piece * (length // len(piece))
        before = time.thread_time()
        read_reply(reply)
        seconds[start, piece] = time.thread_time() - before
    assert {texts: used for texts, used in seconds.items() if used > limit} == {}
