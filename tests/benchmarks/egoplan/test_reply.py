"""How a written answer is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egoplan.reply import parse_letter
from patience import processor_time_below


@pytest.mark.parametrize(
    "reply",
    [
        "B",
        " B\n",
        "B.",
        "B:",
        "(B)",
        "(B).",
        "B) take bag",
        "B. take bag",
        "(B) take bag",
        "**B**",
        "**B.** take bag",
        "Answer: B",
        "answer:B",
        "The answer is B.",
        "The answer is: **B**",
        "The correct option is (B) take bag",
        "Option B",
        "B\nThe bag comes next, so B.",
        r"\boxed{B}",
        r"A is done, and C needs the bag. So the answer is $\boxed{\text{B}}$.",
        r"\boxed{(B)} and again \boxed{B. take bag}",
        "<think>A? No, C. Or D.</think>B",
        "<think>A? No, C.</think> The cat is out.\n\n\\boxed{B}",
        "the prompt began the thought. A or C?</think>\n\nB.",
        "<think>A</think>So D is out.\n<answer>B</answer>",
        "<answer>\nB\n</answer>",
    ],
)
def test_claims(reply):
    assert parse_letter(reply) == "B"


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "b",
        "E",
        "AB",
        "take bag",
        "A or B",
        "A/B",
        "(A)(B)",
        "A. or B.",
        "Answer: (A) or (B)",
        "A cat sits there",
        "A cat...",
        "The answer is A cat",
        "B take bag",
        "The answer",
        "I think B",
        "B\nor rather C",
        "(B",
        "B.take",
        r"\boxed{A} or \boxed{B}",
        r"\boxed{}",
        r"\boxed{take bag}",
        r"B \boxed{A or B}",
        "<think>so B. The answer is B",
        "<think>B</think>",
        "<answer>A</answer><answer>B</answer>",
    ],
)
def test_no_clear_claim(reply):
    assert parse_letter(reply) is None


PIECES = st.sampled_from(["A", "B", "D", "(", ")", ".", ":", " ", "\n", "*", "the ", "Answer", " is", "option", "cat"])


@given(st.text() | st.lists(PIECES).map("".join))
def test_reads_a_letter_that_is_there_or_none(reply):
    letter = parse_letter(reply)
    assert letter is None or letter in reply


@given(st.lists(PIECES).map("".join), st.permutations("ABCD"))
def test_two_letters_are_never_read(text, letters):
    assert parse_letter(f"{letters[0]}. {text} {letters[1]}") is None


PARTS = ["the answer is ", "(", " ", "A ", "*", "\n", "answer : ", "A", "é"]
MARKS = ["<think>", "</think>", "<answer>", "\\boxed{", "{", "}"]


@pytest.mark.parametrize("piece", PARTS + MARKS)
def test_time_is_linear(piece):
    with processor_time_below(30):
        parse_letter(piece * (1_000_000 // len(piece)))
