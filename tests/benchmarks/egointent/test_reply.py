import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, PROMPT, prompt_text
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from patience import processor_time_below

LOCAL, GLOBAL, NEXT = VALUES = ("hold the board steady", "put up a shelf", "drive the screw in")
ALL = dict(zip(FIELDS, VALUES, strict=True))
JSON = json.dumps(ALL)

OTHER_JSON = json.dumps(dict(zip(FIELDS, ("grab the lamp", "light a room", "go home"), strict=True)))
TAGS = "\n".join(f"<{field}>{value}</{field}>" for field, value in ALL.items())
OTHER_TAGS = "\n".join(f"<{field}>grab the lamp</{field}>" for field in FIELDS)
OTHER_LINES = "Local intent: grab the lamp\nGlobal intent: light a room\nNext-step plan: go home"

WHOLE = {
    "plain": JSON,
    "indented": json.dumps(ALL, indent=4),
    "Windows lines": json.dumps(ALL, indent=4).replace("\n", "\r\n"),
    "fenced": f"```json\n{JSON}\n```",
    "prose around": f"Sure! Here is the {{answer}} you want:\n{JSON}\nI hope that {{this}} helps.",
    "unclosed brace before": f"It's {{ a step: {JSON}",
    "wrapped": f'{{"step_id": "s1", "answer": {{"intents": {JSON}}}, "confidence": 0.9}}',
    "list of one": f"[{JSON}]",
    "object for each field": json.dumps([{field: value} for field, value in ALL.items()]),
    "trailing commas": JSON.replace("}", ",},"),
    "single quotes": str(ALL),
    "smart quotes": "{" + ", ".join(f"\u201c{field}\u201d: \u201c{value}\u201d" for field, value in ALL.items()) + "}",
    "bare keys": "{" + ", ".join(f'{field}: "{value}"' for field, value in ALL.items()) + "}",
    "bare values": "{" + ", ".join(f"{field}: {value}" for field, value in ALL.items()) + "}",
    "missing commas": json.dumps(ALL, indent=1).replace(",", ""),
    "missing opening brace": JSON.removeprefix("{"),
    "missing closing brace": JSON.removesuffix("}"),
    "cut fence": f"```json\n{JSON.removesuffix('}')}\n```",
    "comments": JSON.replace(", ", ', // "local_intent": "no"\n').replace("{", "{ /* global_intent: 'no' */ # no\n"),
    "markdown escapes": JSON.replace("_", r"\_"),
    "strings of strings": json.dumps({field: [value] for field, value in ALL.items()}),
    "template first": f"{PROMPT}\n\n{JSON}",
    "lines": f"Local intent: {LOCAL}\nGlobal intent: {GLOBAL}\nNext-step plan: {NEXT}",
    "one line": f"Local intent: {LOCAL}, Global intent: {GLOBAL}, Next-step plan: {NEXT}",
    "bold labels": f"**Local Intent:** {LOCAL}\n\n**Global Intent**: {GLOBAL}\n\n**Next-Step Plan: {NEXT}**",
    "numbered": f"1. Local intent - {LOCAL}\n2) Global intent \u2014 {GLOBAL}\n3. Next-step plan: {NEXT}",
    "bulleted": f"Answer:\n- Local intent: {LOCAL}\n* Global intent: {GLOBAL}\n\u2022 Next-step plan: {NEXT}\n\nDone.",
    "headings": f"## Local Intent\n\n{LOCAL}\n\n## Global Intent:\n{GLOBAL}\n\n### Next-step plan\n- {NEXT}\n\nBye!",
    "remarks": f"Local intent (what): {LOCAL}\n**Global intent** (why)\n{GLOBAL}\nNext-step plan (next) = '{NEXT}'",
    "table, a row each": f"| Field | Answer |\n|---|---|\n| Local intent | {LOCAL} |\n"
    f"| **Global intent** | {GLOBAL} |\n"
    f"| Next-step plan | {NEXT} |\n\nDone.",
    "table, a column each": f"Here:\n\n|Local intent|Global intent|Next-step plan|\n"
    f"|:-|:-:|-|\n|{LOCAL}|{GLOBAL}|{NEXT}|",
    "table with numbers": f"| 1 | local_intent | {LOCAL} | 0.9 |\n| 2 | global_intent | {GLOBAL} | 1 |\n"
    f"| 3 | next_step_plan | {NEXT} | 0.2 |",
    "table with meanings": f"| Field | Meaning | My answer |\n| --- | --- | --- |\n"
    f"| Local intent (what) | the goal now | {LOCAL} |\n"
    f"| Global intent (why) | the reason | {GLOBAL} |\n| Next step (next) | what follows | {NEXT} |",
    "table without bars around": f"Field | Value\n--- | ---\nLocal | {LOCAL}\nGlobal | {GLOBAL}\nNext | {NEXT}",
    "table of short names": f"| What | Why | Next |\n|---|---|---|\n| {LOCAL} | {GLOBAL} | {NEXT} |",
    "tags": TAGS,
    "tags on one line": TAGS.replace("\n", ""),
    "tags in tags": "<answer>\n"
    + "\n".join(f"  <{field} lang='en'>\n    <value>{value}</value>\n  </{field}>" for field, value in ALL.items())
    + "\n</answer>",
    "tags in other cases": f"<LocalIntent>{LOCAL}</LocalIntent> <global-int"
    f"ent>{GLOBAL}</global-intent> <NEXT_STEP>{NEXT}",
    "tags with names": "".join(f'<field name="{field}">{value}</field>' for field, value in ALL.items()),
    "tags with values": "".join(f'<{field} value="{value}"/>' for field, value in ALL.items()),
    "emphasis in tags": TAGS.replace("steady", "<b>steady</b>").replace("shelf", "<em>shelf</em>"),
    "CDATA": "".join(f"<{field}><![CDATA[{value}]]></{field}>" for field, value in ALL.items()),
    "YAML": "```yaml\nanswer:\n" + "".join(f'  {field}: "{value}"\n' for field, value in ALL.items()) + "```",
    "YAML blocks": "---\n" + "".join(f"{field}: |\n  {value}\n" for field, value in ALL.items()) + "...",
    "YAML folded": "".join(f"{field}: >-\n  " + value.replace(" ", "\n  ") + "\n" for field, value in ALL.items()),
    "YAML list": "".join(f"- {field}:\n    - {value}\n" for field, value in ALL.items()),
    "emoji": f"\U0001f3af Local intent: {LOCAL}\n\U0001f30d **Global intent:** {GLOBAL}\n"
    f"\u27a1\ufe0f Next-step plan: {NEXT}",
    "emoji of several signs": f"\U0001f468\u200d\U0001f373 Local intent: {LOCAL}\n"
    f"\u2705 Global intent: {GLOBAL}\n\u23ed\ufe0f Next: {NEXT}",
    "keycaps": f"1\ufe0f\u20e3 Local intent: {LOCAL}\n"
    f"2\ufe0f\u20e3 Global intent: {GLOBAL}\n3\ufe0f\u20e3 Next-step plan: {NEXT}",
    "numbers of one sign": f"\u2460 Local intent: {LOCAL}\n\u2461Global intent: {GLOBAL}\n"
    f"\u2777 **Next-step plan**: {NEXT}",
    "numbers with commas": f"1\u3001Local intent\uff1a{LOCAL}\n"
    f"2\u3001Global intent\uff1a{GLOBAL}\n3\u3001Next step\uff1a{NEXT}",
    "short names": f"Local: {LOCAL}\nGlobal: {GLOBAL}\nNext: {NEXT}",
    "short names in bold": f"1. **What:** {LOCAL}\n2. **Why:** {GLOBAL}\n3. **Next:** {NEXT}",
    "short names with remarks": f"- What (local intent): {LOCAL}\n"
    f"- Why (global intent): {GLOBAL}\n- Next (plan): {NEXT}",
    "short names on one line": f"What: {LOCAL}. Why: {GLOBAL}. Next: {NEXT}".replace(". ", "\n"),
    "short headings": f"### What\n{LOCAL}\n\n### Why\n{GLOBAL}\n\n**Next**\n{NEXT}",
    "full-width full stops": f"Local intent\uff1a\u201c{LOCAL}\u201d\u3002\nGlobal intent\uff1a{GLOBAL}\u3002\n"
    f"Next\uff1a{NEXT}\u3002",
    "short keys": json.dumps(dict(zip(("what", "why", "next"), VALUES, strict=True))),
    "short keys in YAML": f"local: {LOCAL}\nglobal: {GLOBAL}\nnext: {NEXT}",
    "one short name": f"Local intent: {LOCAL}\nGlobal intent: {GLOBAL}\nNext: {NEXT}",
    "full width": f"Local intent\uff1a{LOCAL}\uff0cGlobal intent\uff1a{GLOBAL}\uff0cNext-step plan\uff1a{NEXT}",
    "full-width remarks": f"Local intent\uff08what\uff09\uff1a{LOCAL}\n"
    f"Global intent\uff1d{GLOBAL}\n\u3010Next step\u3011{NEXT}",
    "full-width JSON": JSON.translate(
        {ord(a): ord(b) for a, b in zip('{}":,', "\uff5b\uff5d\uff02\uff1a\uff0c", strict=True)}
    ),
    "full-width colons": JSON.replace(": ", "\uff1a").replace(", ", "\uff0c"),
    "brackets": f"[Local intent] {LOCAL}\n[Global intent]: {GLOBAL}\n\u300cNext step\u300d {NEXT}",
    "arrows": f"Local intent -> {LOCAL}\nGlobal intent \u2192 {GLOBAL}\nNext step => {NEXT}",
    "final after initial": f"Initial guess: {OTHER_JSON} Hmm, no. Final answer: {JSON}",
    "final of lines": f"Draft:\n{OTHER_LINES}\n\n**Final answer**\n"
    f"Local intent: {LOCAL}\nGlobal intent: {GLOBAL}\nNext: {NEXT}",
    "final in a fence": f"{OTHER_JSON}\n\n### Final Answer\n```json\n{JSON}\n```\nThat is all.",
    "final after lines": f"{OTHER_LINES}\nFinal JSON: {JSON}",
    "revised": f"{OTHER_JSON}\nLooking closer, I see it.\nRevised answer: {JSON}",
    "initial alone": f"Initial guess: {OTHER_JSON}\nBut then I saw the screws.\n{JSON}",
    "final key": json.dumps({"initial_guess": json.loads(OTHER_JSON), "final_answer": ALL}),
    "final tag": f"<draft>{OTHER_TAGS}</draft>\n<final_answer>{TAGS}</final_answer>",
    "several finals": f"Final answer: {OTHER_JSON}\nWait.\nFinal answer: {JSON}",
    "wrapped lines": "\n".join(f"{field}:\n" + value.replace(" ", "\n") + "\n" for field, value in ALL.items()),
}


@pytest.mark.parametrize("reply", WHOLE.values(), ids=WHOLE)
def test_reads_all_fields(reply):
    assert read_reply(reply) == ALL


@pytest.mark.parametrize(
    ("keys", "field"),
    [
        ("local_intent Local_Intent localIntent LocalIntent LOCAL_INTENT local-intent", "local_intent"),
        ("Global_Intent proceduralIntent PROCEDURAL_INTENT procedural-intent", "global_intent"),
        ("nextStepPlan Next-Step_Plan next\u2011step_plan NEXT_PLAN next-step next_step nextStep", "next_step_plan"),
    ],
)
@pytest.mark.parametrize("form", ['{{"{}": "x y"}}', "{{{}: 'x y'}}", "{}: x y", "**{}**\nx y", '{{"1. {}": "x y"}}'])
def test_reads_any_style_of_key(keys, field, form):
    for key in keys.split():
        assert read_reply(form.format(key)) == {field: "x y"}, key
        assert read_reply(form.format(key.replace("_", " "))) == {field: "x y"}, key


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"local_intent": "a "red" cup, "blue" too", "global_intent": "x"}', 'a "red" cup, "blue" too'),
        ("{'local_intent': 'don't move the cooks', then', 'global_intent': 'x'}", "don't move the cooks', then"),
        (r'{"local_intent": "say \"hi\" \/ caf\u00e9 \ud83d\ude00\n\tthere"}', 'say "hi" / caf\u00e9 \U0001f600 there'),
        (r'{"local_intent": "half \ud83d of"}', "half \ufffd of"),
        (r"{'local_intent': 'cook\'s cup'}", "cook's cup"),
        ('{"local_intent": "over\ntwo lines"}', "over two lines"),
        ('{"local_intent": "see https://x.org/a#b, then go"}', "see https://x.org/a#b, then go"),
        ('{"local_intent": "hold {it}, [or] not"}', "hold {it}, [or] not"),
        ('{"local_intent": "get ready for the next step: go"}', "get ready for the next step: go"),
        ('{"local_intent": "hold it, "global_intent": "x"}', "hold it"),
        ('{"local_intent": "hold it\n "global_intent": "x"\n}', "hold it"),
        ('{"local_intent": "hold it\n}\n```\nBye.', "hold it"),
        ('{"local_intent": ["hold it", "turn it"]}', "hold it; turn it"),
        ("Local intent:\n- hold it\n- turn it\n\nBye.", "hold it; turn it"),
        ('"Local intent": "hold it",', "hold it"),
        ('{"why": "Local intent: no", "note": ["x", "local_intent: no"], "local_intent": "hold it"}', "hold it"),
        ("Local intent: hold it for the next step: no", "hold it for the next step: no"),
    ],
)
def test_reads_values_as_meant(reply, expected):
    assert read_reply(reply)["local_intent"] == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "...",
        "\u2026",
        "N/A",
        "n/a.",
        "None",
        "null",
        "Unknown",
        "not applicable",
        "-",
        "?",
        "42",
        "<local_intent>",
    ],
)
def test_placeholders_are_missing(value):
    assert read_reply(json.dumps(ALL | {"local_intent": value})) == {"global_intent": GLOBAL, "next_step_plan": NEXT}
    assert read_reply(f"Local intent: {value}\nGlobal intent: {GLOBAL}") == {"global_intent": GLOBAL}


@pytest.mark.parametrize("value", ["null", "None", "true", "12", "{}", "[]", "[1, 2]", '{"text": "x"}', "[[]]"])
def test_values_that_are_no_text_are_missing(value):
    assert read_reply(f'{{"local_intent": {value}, "global_intent": "hold it"}}') == {"global_intent": "hold it"}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "A person holds a board.",
        "The local intent is to hold it, and the next step is to turn it.",
        "{}",
        '"hold it"',
        '["hold it", "turn it"]',
        "Local intentions: hold it",
        '{"my_local_intent": "hold it"}',
        '{"local_intent',
        '{"local_intent": "',
        "local \u0131ntent: hold it",
        "What: a kitchen.",
        "Next: I look at the frames.",
        "Local time: noon. Next: nothing to see",
        "What is the person doing? Why is it needed?",
        "| Field | Meaning | Confidence |\n|---|---|---|\n| Local intent | the goal now | what it is |",
        "| Local intent | Global intent |\n|---|---|",
        "<local_intent>",
        "<local_intent> and <global_intent> are what you ask for",
        "Final answer: I cannot tell.",
    ],
)
def test_finds_nothing_where_nothing_is(reply):
    assert read_reply(reply) == {}


def test_the_prompt_is_no_answer():
    asked = prompt_text({"step_id": "s1"})
    assert read_reply(asked) == {}
    assert all(read_reply(asked[start:]) == {} for start in range(0, len(asked), 7))


@pytest.mark.parametrize("text", [JSON, WHOLE["lines"]], ids=["JSON", "lines"])
def test_a_cut_field_is_what_there_is_of_it(text):
    for end in range(text.index(GLOBAL) + len("put up"), len(text)):
        found = read_reply(text[:end])
        assert list(found) in (list(FIELDS[:2]), list(FIELDS))
        assert all(ALL[field].startswith(value) for field, value in found.items())
    assert read_reply(text[: text.index(GLOBAL) + len("put up")])["global_intent"] == "put up"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"local_intent": "aa bb"} {"local_intent": "cc dd"}', {"local_intent": "aa bb"}),
        ('{"local_intent": "aa bb", "local_intent": "cc dd"}', {"local_intent": "aa bb"}),
        ("Local intent: aa bb\nLocal intent: cc dd", {"local_intent": "aa bb"}),
        (f'{{"local_intent": "aa bb"}} {JSON}', ALL),
        (f'{{"local_intent": "aa bb"}}\n{WHOLE["lines"]}', ALL),
        (f"{WHOLE['lines']}\n{json.dumps(dict.fromkeys(FIELDS, 'aa bb'))}", dict.fromkeys(FIELDS, "aa bb")),
        ('{"local_intent": "N/A"}\nLocal intent: aa bb', {"local_intent": "aa bb"}),
        (f"{JSON}\nI am done. Final answer: see above.", ALL),
        (f'{JSON}\nFinal answer: {{"local_intent": "aa bb"}}', ALL | {"local_intent": "aa bb"}),
        (
            json.dumps(ALL | {"local_intent": "read the final answer: yes"}),
            ALL | {"local_intent": "read the final answer: yes"},
        ),
        (f"Local intent: {LOCAL}\nWhat: a kitchen\nGlobal intent: {GLOBAL}", {FIELDS[0]: LOCAL, FIELDS[1]: GLOBAL}),
        (
            "<local_intent>a < b &amp; c</local_intent><global_intent>cut o",
            {FIELDS[0]: "a < b & c", FIELDS[1]: "cut o"},
        ),
        ("local_intent: |\n\n", {}),
    ],
)
def test_of_several_answers_the_first_with_the_most_fields_counts(reply, expected):
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
        *("What: ", "Why:", "Next: ", "| ", "|", "|---|", "| Answer |", "<local_intent>", "</local_intent>", "<", "/>"),
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
        *("the cup", "null", "\u0131", '"', "'", "\u201c", "\u201d", *"{}[]#*a", ", ", ": ", " - ", ". ", "```"),
        *("\n", "\n\n", "\x1c", "\u2028", "//", "/*", "*/"),
    ]
)
ESCAPES = st.sampled_from(["\\", '\\"', "\\u", "\\ud83d", "\\ude00", "\ud800"])


FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3001: ","}


def _squeezed(text):
    return "".join(text.translate(FULL_WIDTH).split())


@given(st.lists(PIECES | st.text(max_size=4), max_size=25).map("".join).filter(lambda text: not set("\\&") & set(text)))
def test_invents_nothing(reply):
    for value in read_reply(reply).values():
        assert all(_squeezed(item) in _squeezed(reply) for item in value.split("; "))


@given(st.lists(PIECES | ESCAPES | st.text(max_size=4), max_size=25).map("".join))
def test_reads_any_text(reply):
    found = read_reply(reply)
    assert list(found) == [field for field in FIELDS if field in found]
    for value in found.values():
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


@given(
    st.dictionaries(st.sampled_from(FIELDS), ANSWERS, min_size=1),
    st.dictionaries(OTHER_KEYS, OTHER, max_size=3),
    st.booleans(),
    st.sampled_from([None, 2]),
)
def test_reads_true_json_as_a_json_parser_does(fields, others, ascii_only, indent):
    expected = {field: " ".join(fields[field].split()) for field in FIELDS if field in fields}
    for content in ({**fields, **others}, {**others, **fields}, [{"answer": fields, "others": others}]):
        assert read_reply(json.dumps(content, ensure_ascii=ascii_only, indent=indent)) == expected


@pytest.mark.parametrize("start", ["", '{"local_intent": "', '{"local_intent": ["'], ids=["text", "string", "list"])
@pytest.mark.parametrize(
    "piece",
    [
        '{"',
        "}{",
        '"',
        "'",
        "\\",
        '{"a":',
        '", a',
        "/*",
        "{ //",
        " ",
        "\n\n- ",
        "local_intent: ",
        ", local intent",
        '\\u00"',
        *("<local_intent>", "<local_intent ", "</a>", "<a ", '<a "local_intent"', "| local", "|a", "|\n", "What: \n"),
        *("\uff1a", "final answer: ", "final ", "draft", "\U0001f3af", "local_intent: |\n"),
    ],
)
def test_time_is_linear(start, piece):
    reply = start + piece * (50_000 // len(piece))
    with processor_time_below(3):  # takes 0.05; in square time, many
        read_reply(reply)
