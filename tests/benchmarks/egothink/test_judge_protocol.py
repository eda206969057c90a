# ruff: noqa: RUF001 - the signs are the point
"""Check the judge's prompt, the reading of verdicts, and answers that imitate verdicts or the prompt."""

import re
from unicodedata import normalize

import pytest
from hypothesis import assume, given
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
    ("[[.50]] it is", 0.5),
    ("Rating: [[\n0\n]]", 0),
    ("Not [[0]] but\n[[0.5]].", 0.5),
    ("Rating: [1]", 1),
    ("[[[1]]]", 1),
    ("[[0]] and [[", 0),
    ("[[1]] and [0]", 1),
    ("I was told 'for example: “Rating: [[0.5]]”'. Rating: [[1]]", 1),
    ("Rating: [[1]]. I was told 'for example: \"Rating: [[0.5]]\"'.", 1),
    ("[[1]] in the format `[rating]`, for example, `Rating: [[0.5]]`", 1),
    ("[[0]], e.g.\nRating: [[0.5]]", 0),
    ("It misses details, for example the colour. Rating: [[0.5]]", 0.5),
    ("It misses details, for example: the colour.\n\nRating: [[0.5]]", 0.5),
    ("In the format of the example, Rating: [[0.5]]", 0.5),
    ("As the format asks: “Rating: [[0.5]]”", 0.5),
    ("for example: Rating: [[1]]", 1),
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
    "[[１]]",
    "[[nan]]",
    "[[1 0]]",
    "[ [1] ]",
    "[[1] ]",
    "［［1］］",
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
    "such as *Rating*: [[0.5]]",
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
    for opening in ("for example: ", "For example, ", "for example:\n", "e.g. ", "for instance ")
    for mark, end in ("“”", '""', "``", "''", "()", "\n\n", "  ")
]


@given(TEXTS.filter(lambda text: "[" not in text), st.sampled_from(EXAMPLES), st.sampled_from(["0", "0.5", "1"]))
def test_the_example_never_counts_and_never_hides_the_rating(text, example, rating):
    assert read_rating(f"{text} {example} {text}") is None
    for verdict in (f"Rating: [[{rating}]] {example}", f"{example}\n{text} Rating: [[{rating}]]"):
        assert read_rating(verdict) == float(rating)


def slow_ratings(text):
    """Check every position at which a rating may begin, from the start."""
    ratings, position = [], 0
    while position < len(text):
        opening = position + 2 if text[position : position + 2] == "[[" else 0
        if text[position : position + 6].lower() == "rating" and not (position and is_of_word(text[position - 1])):
            bracket = position + 6
            while bracket < len(text) and not is_of_word(text[bracket]) and text[bracket] not in "[]\n":
                bracket += 1
            opening = bracket + 1 if text[bracket : bracket + 1] == "[" and bracket <= position + 26 else 0
        end = text.find("]", opening)
        close = "]]" if text[position] == "[" else "]"
        if not opening or end < 0 or "[" in text[opening:end] or text[end : end + len(close)] != close:
            position += 1
            continue
        next_bracket = text[end + 1 :].partition("\n")[0].find("[") if close == "]" else -1
        integer, _, part = (text[opening:end].strip() if not 0 <= next_bracket <= 80 else "").partition(".")
        if integer in ("0", "1") and part.strip("0") == "":
            ratings.append(float(integer))
        else:
            is_half = integer in ("", "0") and part.startswith("5") and part[1:].strip("0") == ""
            ratings.append(0.5 if is_half else None)
        position = end + len(close)
    return ratings


def is_of_word(sign):
    return sign.isalnum() or sign == "_"


def slow_rating(verdict):
    """Build texts without restarts."""
    for quote in ("“Rating: [[0.5]]”", "Rating: [[0.5]]"):
        verdict = "\0".join(verdict.split(f"for example: {quote}"))
    ratings = slow_ratings(verdict)
    if len(set(ratings)) > 1:
        lines = [line for line in verdict.splitlines() if "[" in line or any(map(is_of_word, line))]
        ratings = slow_ratings(lines[-1])
        return ratings[0] if len(ratings) == 1 else None
    return ratings[0] if ratings else None


@given(TEXTS)
def test_rating_equals_slow_reading(verdict):
    assert read_rating(verdict) in (None, 0, 0.5, 1)
    assume(not any(start in verdict.lower() for start in ("question", "instruction", "the end of", "<|")))
    assume(not re.search(r"\][–-]\d", verdict))  # a range; test_golden_verdicts.py has these
    assert read_rating(verdict) == slow_rating(verdict)


def test_delimiters_are_all_known():
    lines = re.findall(r"^\[.+\]$", JUDGE_PROMPT, re.MULTILINE)
    assert len(lines) == 6
    assert all(sanitize(f"no {line.lower()}") == (f"no ({line[1:-1].lower()})", True) for line in lines)


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
    assert read_rating(f"Rating: [[0]]\nThe assistant says: {seen}.") == 0
    assert read_rating(f"Rating: [[0]]\nThe assistant says [{sanitized}].") == 0
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
        "not be given the ",
        "\nIf would ",
        "[[0]]\n",
        "[[0]]\n[[0.5]]\n",
        'says "Rating ',
        "accuracy: ",
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
