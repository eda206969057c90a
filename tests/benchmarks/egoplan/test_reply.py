"""Test how a written answer is read."""

import time
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egoplan.reply import parse_letter, parse_reasoned

CORPUS = SimpleNamespace(
    **yaml.safe_load(Path(__file__).with_name("replies.yaml").read_text(encoding="utf-8"))
)
STATEMENTS = yaml.safe_load(Path(__file__).with_name("statements.yaml").read_text(encoding="utf-8"))


def test_claims():
    assert [reply for reply in CORPUS.claims if parse_letter(reply) != "B"] == []
    assert len(CORPUS.claims) > 20


def test_no_clear_claim():
    assert [reply for reply in CORPUS.unclear if parse_letter(reply) is not None] == []
    assert len(CORPUS.unclear) > 20


def test_claims_are_read():
    """Read each answer with each letter, and each answer within each text that surrounds it.

    In the answers, {l}, {s} and {f} are the letter in upper case, lower case and full width; {t} is
    its choice.
    """
    wrong, count = [], 0
    for position, (around, text) in enumerate(CORPUS.around.items()):
        for number, answer in enumerate(CORPUS.answers):
            if around in CORPUS.boxes and (
                "\n" in answer or "boxed" in answer or "<answer>" in answer
            ):
                continue
            for letter in "ABCD" if around == "plain" else "ABCD"[(position + number) % 4]:
                choice = CORPUS.choices["ABCD".index(letter)]
                letters = {
                    "l": letter,
                    "s": letter.lower(),
                    "f": chr(ord(letter) + 0xFEE0),
                    "t": choice,
                }
                reply = text.format(answer.format(**letters))
                wrong += [(letter, reply)] if parse_letter(reply, CORPUS.choices) != letter else []
                count += 1
    assert wrong == []
    assert count > 2000


def test_no_claim_is_read():
    choices = ["take bag", "open the drawer", "cut the bread", "wash a cup"]
    assert [reply for reply in CORPUS.no_claim if parse_letter(reply, choices) is not None] == []
    assert len(CORPUS.no_claim) > 200


def test_choices_that_begin_alike():
    cases = [(alike["choices"], *reply) for alike in CORPUS.alike for reply in alike["replies"]]
    assert [case for case in cases if parse_letter(case[1], case[0]) != case[2]] == []
    assert len(cases) > 20


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_are_read_and_nothing_else_is(name):
    choices = STATEMENTS[name]["choices"]
    for kind, expected in (("stated", "B"), ("unread", None)):
        letters = {reply: parse_letter(reply, choices) for reply in STATEMENTS[name][kind]}
        assert {reply: letter for reply, letter in letters.items() if letter != expected} == {}
        assert len(letters) > 50


def test_letters_that_are_also_words_or_parts_of_them():
    letters = {
        "A resposta correta é A.": "A",
        "A alternativa correta é a A.": "A",
        "A melhor opção é a C.": "C",
        "A helyes válasz az A.": "A",
        "A is the answer.": "A",
        "C'est C.": "C",
        "C'est la réponse D.": "D",
        "La réponse est D, car D'accord n'est pas un choix.": "D",
        "B\n\nA hand holds the bag.": "B",
        "A ist richtig.": "A",
        "A est la bonne réponse.": "A",
        "A is clearly the best option.": "A",
        "A correct answer is B.": "B",
        "A correct answer, as the fridge is closed, is B.": None,
        "A correct option, given the view, is B.": None,
        "- A selected option, given the view, is B.": None,
        "A final answer because the fridge is closed: B": None,
        "A final choice, given the goal, is to open the fridge.": None,
        "A guess, given the view, is B.": None,
        "A response": None,
        "B\n\nA fits better.": None,
        "La A": None,
        "C'est la vie": None,
    }
    assert {reply: parse_letter(reply) for reply in letters} == letters


CONTRADICTIONS = [
    "La risposta è B\nMy final answer is C.",
    "The answer is C.\n정답은 B입니다.",
    "open the drawer\nThe answer is C.",
    "I would choose option C.\nB",
    'The answer is B.\n{"answer": "C"}',
    "The answer is B.\n\ncut the bread",
    "The answer is B. Wait, no.",
    "Answer: B. The drawer is open, so not B.",
]


# Texts that name A and take it back.
TAKEN_BACK = [
    '{"answer": "A", "revised_answer": "B"}',
    '{"answer": "A", "corrected_answer": "b"}',
    '{"answer": "A", "actual_answer": "open the drawer"}',
    '{"answer": "A", "alternative": "B"}',
    '{"answer": "A", "revised": ["B"]}',
    '{"answer": "A", "is_correct": false}',
    "{'answer': 'A', 'is_correct': False}",
    '{"answer": {"letter": "A", "is_correct": false}}',
    '{"answer": "A", "isWrong": true}',
    '{"answer": "A", "status": "incorrect"}',
    '{"answer": "A"}\n{"revised": "B"}',
    '{"initial": {"answer": "A"}, "revised": "B"}',
    '{"previous": {"answer": "A"}, "next": "B"}',
    '{"wrong": {"answer": "A"}}',
    '{"eliminated": [{"option": "A"}]}',
    "<answer>A</answer><revised_answer>B</revised_answer>",
    "<wrong_answer>A</wrong_answer>",
    "<rejected>A</rejected>",
    "<del>A</del>",
    "<s>A</s>",
    "<strike>take bag</strike>",
    "Answer: <s>A</s>",
    "<answer><s>A</s></answer>",
    r"\cancel{A}",
    r"\boxed{\cancel{A}}",
    r"\sout{A. take bag}",
    "!= A",
    "Answer: != A",
    "<> A",
    '{"answer": "!= A"}',
    "A\nIncorrect.",
    "A\nNot correct.",
    "A\n\n**This answer is wrong.**",
    "A\n\u274c",
    "Answer: A\nIncorrect",
    "The answer is A.\nFalse.",
    "The answer is A. False.",
    "take bag\nIncorrect.",
    '{"answer": "A"}\nIncorrect.',
    "<answer>A</answer> Incorrect.",
    "A\nFalsch.",
    "A\nRevised action: open the drawer",
]
# Marks and words near B that do not take it back.
UPHELD = [
    '{"result": {"answer": "B"}}',
    '{"answer": "B", "is_correct": true, "reason": "A was done.", "note": "none"}',
    '{"answer": "B", "text": "open the drawer"}',
    '{"options": {"A": "take bag", "B": "open the drawer"}, "answer": "B"}',
    "<analysis>x</analysis><answer>B</answer>",
    "<p>B</p>",
    "<s>B",
    "B</s>",
    "<answer>B",
    r"\textbf{B}",
    "Answer: B!",
    "B\nThe bag is already out.",
    "B\nIt is already out.",
]


def test_letters_that_are_taken_back_are_not_read():
    choices = ["take bag", "open the drawer", "cut the bread", "wash a cup"]
    assert [reply for reply in TAKEN_BACK if parse_letter(reply, choices) is not None] == []
    assert [reply for reply in UPHELD if parse_letter(reply, choices) != "B"] == []


def test_answers_in_deep_objects_are_not_read():
    for name in ("answer", "wrong"):
        assert parse_letter(f'{{"{name}": ' * 5_000 + '{"answer": "A"}' + "}" * 5_000) is None


def test_contradictions_are_not_read():
    choices = ["take bag", "open the drawer", "cut the bread", "wash a cup"]
    assert [reply for reply in CONTRADICTIONS if parse_letter(reply, choices) is not None] == []


def test_a_text_of_two_choices_is_not_read():
    choices = ["open it", "Open it", "shut it", "wash it"]
    assert [
        parse_letter(reply, choices) for reply in ("open it", "B. open it", '{"answer": "open it"}')
    ] == [
        None,
        "B",
        None,
    ]


DONE, SEEN = "The lid is off. The answer is C.", "A hand holds a spoon."
REASONED = {
    "as asked": f"Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action: B",
    ("with blank lines"): (
        f"Task progress:\n{DONE}\n\nCurrent observation:\n{SEEN}\n\nNext action:\nB. open "
        "the drawer"
    ),
    (
        "in bold"
    ): f"**Task progress:** {DONE}\n**Current observation:** {SEEN}\n**Next action:** **B**",
    (
        "in bold without the colon"
    ): f"**Task Progress**: {DONE}\n**Current Observation**: {SEEN}\n**Next Action**: (B)",
    "numbered": f"1. Task progress: {DONE}\n2) Current observation: {SEEN}\n3. Next action: B.",
    "headings": (
        f"### Task Progress\n{DONE}\n### Current Observation\n{SEEN}\n### Next Action\nThe "
        "answer is B."
    ),
    (
        "with more words"
    ): f"The task progress summary: {DONE}\nDescription of the current observation: {SEEN}\n"
    "Next action plan (letter): B",
    (
        "full-width colons"
    ): f"Task progress\uff1a{DONE}\nCurrent observation\uff1a{SEEN}\nNext action\uff1aB",
    "after a thought": "<think>Next action: A</think>"
    f"Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action: B",
    (
        "as an object"
    ): f'{{"task_progress": "{DONE}", "current_observation": "{SEEN}", "next_action": "B"}}',
    (
        "after the instruction"
    ): "Task progress: what has been done\nNext action: the letter A, B, C or D.\n\n"
    f"Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action: B",
}


@pytest.mark.parametrize("name", REASONED)
def test_parts_of_a_reasoned_reply(name):
    letter, parts = parse_reasoned(
        REASONED[name], ["take bag", "open the drawer", "cut the bread", "wash a cup"]
    )
    assert (letter, parts["progress"], parts["observation"]) == ("B", DONE, SEEN)
    assert list(parts) == ["progress", "observation", "plan"] or name == "after the instruction"


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("", None),
        ("B", "B"),
        ("I see a cup.\nThe answer is B.", "B"),
        ("Answer: A\nAnswer: B", None),
        (
            "Let's consider each choice:\n\nA. take bag: the bag is still there, so this could be",
            None,
        ),
        (f"Task progress: {DONE}\nCurrent observation: {SEEN}", None),
        ("Task progress: The answer is B.\nCurrent observation: A hand", None),
        (f"Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action:", None),
        (f"Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action: A or B", None),
        (f"Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action is open", None),
        (f"<think>Task progress: {DONE}\nCurrent observation: {SEEN}\nNext action: B", None),
        (f"Next action: B\nTask progress: {DONE}\nCurrent observation: {SEEN}", "B"),
    ],
)
def test_incomplete_reasoned_replies(reply, letter):
    read, parts = parse_reasoned(reply)
    assert read == letter
    assert list(parts) != ["progress", "observation", "plan"] or not parts["plan"] or letter is None


PIECES = st.sampled_from(
    ["A", "B", "D", "(", ")", ".", ":", " ", "\n", "*", "the ", "Answer", " is", "option", "cat"]
)


@given(st.text() | st.lists(PIECES).map("".join))
def test_reads_only_letters_in_the_reply(reply):
    letter = parse_letter(reply)
    assert letter is None or letter in unicodedata.normalize("NFKC", reply).upper()


@given(st.lists(PIECES).map("".join), st.permutations("ABCD"))
def test_two_letters_are_never_read(text, letters):
    assert parse_letter(f"{letters[0]}. {text} {letters[1]}") is None


PARTS = ["the answer is ", "(", " ", "A ", "*", "\n", "answer : ", "A", "é"]
PARTS += ["because ", ", ", "so B. ", '{"a":', "<reasoning>"]
MARKS = ["<think>", "</think>", "<answer>", "\\boxed{", "{", "}"]


@pytest.mark.parametrize(
    ("length", "limit"), [(40_000, 1.5), pytest.param(200_000, 6, marks=pytest.mark.nightly)]
)
def test_time_is_linear(length, limit):
    """A reply usually takes less than a tenth of the limit.

    With quadratic time, it would take far longer.
    """
    slow = []
    for piece in PARTS + MARKS:
        start = time.thread_time()
        parse_letter(piece * (length // len(piece)))
        slow += [piece] if time.thread_time() - start > limit else []
    assert slow == []
