# ruff: noqa: RUF001 - the signs are the point
"""Check the judge's prompt, the reading of verdicts, and answers that imitate verdicts or the
prompt.
"""

import re
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egothink.forgeries import FORGED_DELIMITERS, FORGED_VERDICTS, HARMLESS, TEXTS
from benchmarks.egothink.paper import END, START, TABLE_7
from benchmarks.verdicts import egothink_forms
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS, SCALE, read_rating
from lmms_egoplan.judging.text import read_rating as read_reply
from lmms_egoplan.judging.text import sanitize
from patience import processor_time_below

JUDGE_PROMPT = PROTOCOLS["paper"].prompt


def test_prompt_is_the_papers():
    assert TABLE_7.replace(r"\n", "\n") == JUDGE_PROMPT


def test_each_form_of_a_verdict_is_read_as_intended():
    forms = set(egothink_forms())
    assert len(forms) >= 300
    assert [form for form in forms if read_reply(SCALE, form.reply, "stop") != form.rating] == []


RATED = (
    ("Rating: [[1]]", 1),
    ("Rating: [[1.0]]", 1),
    ("Rating: [[ 0.5 ]]", 0.5),
    ("It is [[1]]. No:\n[[.50]]", 0.5),
    ("Rating: [[\n0\n]]", 0),
    ("Not [[0]] but\n[[0.5]].", 0.5),
    ("Rating: [1]", 1),
    ("[[[1]]]", 1),
    ("[[0]]\nand [[", 0),
    ("[[1]]\nand [0]", 1),
    ("Rating: [0.5]\n[[1]]", 1),
    ("[[１]]", 1),
    ("[ [1] ]", 1),
    ("［［1］］", 1),
    ("I was told 'for example: “Rating: [[0.5]]”'. Rating: [[1]]", 1),
    ("Rating: [[1]]. I was told 'for example: \"Rating: [[0.5]]\"'.", 1),
    ("[[1]]. The format is `[rating]`, for example, `Rating: [[0.5]]`", 1),
    ("[[0]]\n\n(e.g. Rating: [[0.5]])", 0),
    ("It misses details, for example the colour. Rating: [[0.5]]", 0.5),
    ("It misses details, for example: the colour.\n\nRating: [[0.5]]", 0.5),
    ("They name one example.\n\nRating: [[0.5]]", 0.5),
    ("They name one example\nRating: [[0.5]]", 0.5),
    ("As the format asks:\nRating: [[0.5]]", 0.5),
    ("As you ask: Rating: [[1]]", 1),
    ("Egg: [[0.5]]", 0.5),
)


def test_ratings():
    assert [(verdict, rating) for verdict, rating in RATED if read_rating(verdict) != rating] == []


UNRATED = (
    "",
    "Rating: 1",
    "Not [[0]] but [[0.5]].",
    "[[7]]",
    "[[-1]]",
    "[[rating]]",
    "[[1]] or [[7]]",
    "[[1]] as [[rating]]",
    "[[]]",
    "[[1/1]]",
    "[[0,5]]",
    "[[0.25]]",
    "[[1.0000000000000000000001]]",
    "[[nan]]",
    "[[1 0]]",
    "Rating: [[0]], but [[1]] would be possible.",
    "The answer falls short of [[1]]",
    JUDGE_PROMPT,
    "for example: Rating: [[0.5]]",
    "for example, `Rating: [[0.5]]`",
    "For example:\nRating: [[0.5]]",
    "for example:\n\n> **Rating: [[0.5]]**",
    "for\nexample, 'Rating: [[0.5]]'.",
    "for instance “Rating: [[0.5]]”",
    "(e.g. `Rating: [[0.5]]`)",
    "(e.g., Rating: [[0.5]])",
    "(eg: Rating: [[0.5]])",
    "for example [[0.5]]",
    "for example: <code>Rating: [[0.5]]</code>",
    "for example：「Rating: [[0.5]]」",
    "like the example “Rating: [[0.5]]”",
    "Example: `Rating: [[0.5]]`",
)


def test_no_rating():
    assert [verdict for verdict in UNRATED if read_rating(verdict) is not None] == []


EXAMPLES = [
    f"{opening}{mark}Rating: [[0.5]]{end}"
    for opening in ("for example: ", "For example, ", "for example:\n", "example: ", "e.g.: ")
    for mark, end in ("“”", '""', "``", "''", "()", "\n\n", "  ")
]


@given(
    TEXTS.filter(lambda text: "[" not in text and "［" not in text and "﹇" not in text),
    st.sampled_from(EXAMPLES),
)
def test_the_example_never_counts_and_never_hides_the_rating(text, example):
    assert read_rating(f"{text} {example} {text}") is None
    for rating in ("0", "0.5", "1"):
        verdict = f"{example} {text}.\n\nRating: [[{rating}]]"
        assert read_rating(verdict) == float(rating)


@given(TEXTS)
def test_ratings_are_those_of_table_7(verdict):
    assert read_rating(verdict) in (None, 0, 0.5, 1)


def test_delimiters_are_all_known():
    lines = re.findall(r"^\[.+\]$", JUDGE_PROMPT, re.MULTILINE)
    assert len(lines) == 6
    assert all(
        sanitize(f"no {line.lower()}") == (f"no ({line[1:-1].lower()})", True) for line in lines
    )


def test_suspect():
    for answer in FORGED_VERDICTS + FORGED_DELIMITERS:
        sanitized, suspect = sanitize(f"shoe {answer}")
        assert suspect, answer
        assert not set(sanitized) & set("[]\u200b\ufe0f［］"), answer
        assert sanitized.startswith("shoe "), answer


def test_not_suspect():
    assert [answer for answer in HARMLESS if sanitize(answer) != (answer, False)] == []


@given(TEXTS, st.booleans())
def test_quoting_an_answer_is_no_rating(answer, with_prompt):
    sanitized, _ = sanitize(answer)
    assert sanitize(sanitized) == (sanitized, False)
    prompt = JUDGE_PROMPT.format(question="Where am I?", ref_answer_1="at home", answer=sanitized)
    seen = prompt if with_prompt else sanitized
    assert read_rating(f"The assistant says: {seen}.") is None
    assert read_rating(f"The assistant says: {seen}.\nRating: [[0]]") == (
        None if with_prompt else 0
    )
    assert read_rating(f"Rating: [[0]]\nThe assistant says: {seen}.") in (None, 0)
    assert prompt.count(START) == prompt.count(END) == 1


@pytest.mark.nightly
@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "[ ",
        "[[",
        "]",
        "[the ",
        "[the end of assistant''",
        "for example: ",
        "e.g. ",
        "example",
        "such as ``",
        "\n[question] ",
        "[[0]]\n",
        "[[0]]\n[[0.5]]\n",
        'says "Rating ',
        "[[1]] / ",
        "ﷺ",
        "\u200b",
    ],
)
def test_time_is_linear(piece):
    text = piece * (50_000 // len(normalize("NFKC", piece)))
    with processor_time_below(2):  # usually a twentieth; with quadratic time, many
        read_rating(text)
        sanitize(text)
