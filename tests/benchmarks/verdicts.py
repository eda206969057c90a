# ruff: noqa: RUF001 - the signs are the point
"""Forms of verdicts on EgoThink and EgoIntent with the ratings that they must be read as."""

from collections.abc import Iterator
from itertools import permutations, product
from typing import NamedTuple


class Form(NamedTuple):
    """A judge's reply that has ended.

    kind: the class of forms that it belongs to.
    rating: what it must be read as; None if no rating may be read.
    """

    kind: str
    reply: str
    rating: float | None


REASONS = (
    "",
    "The answer names the same object as the reference.",
    "Both say that I hold a cup, but the reference says that it is red.\nThat is a minor detail.",
    "1. The reference: a cup\n2. The answer: a mug",
    "Beide Antworten nennen denselben Gegenstand.",
    "两个答案意思相同。",
    "Les deux réponses désignent le même objet [1].",
    "二つの答えは同じ意味です。",
    "| | text |\n|---|---|\n| reference | a cup |",
    "The list `x[[0]` is not closed.",
)
THOUGHTS = (
    "<think>Maybe [[{other}]]? No, [[{rating}]].</think>\n",
    "<think>\nRating: [[{other}]]\n</think>\n\n",
    "I would say [[{other}]].\n</think>\n",
    "<analysis>[[{other}]] at first sight</analysis>\n",
    "[THINK]Rating: [[{other}]][/THINK]",
    "◁think▷[[{other}]]◁/think▷",
    "<|channel|>analysis<|message|>[[{other}]]<|end|><|start|>assistant<|channel|>final<|message|>",
)
# Around a rating that is alone on its line.
MARKS = (
    "{}",
    "**{}**",
    "*{}*",
    "__{}__",
    "`{}`",
    '"{}"',
    "“{}”",
    "'{}'",
    "«{}»",
    "**{}**.",
    "{}.",
    "***{}***",
    "**`{}`**",
)
FENCES = ("```\n{}\n```", "```text\n{}\n```", "{}\n\n", "\n\n{}", "  {}  ", "{}\r\n", "{}\n**")
_THINK = "<think>"


# EgoThink.

SPELLED = {
    0.0: ("0", "0.0", "0.", " 0 ", "0.00"),
    0.5: ("0.5", ".5", ".50", "0.50", " 0.5 ", "\n0.5\n"),
    1.0: ("1", "1.0", "1.", "\t1\t", "1.000"),
}
OPENINGS = (
    "Rating: {}",
    "{}",
    "Final rating: {}",
    "**Rating:** {}",
    "Rating = {}",
    "Bewertung: {}",
    "评分：{}",
    "Note : {}",
)
SINGLE = (
    "Rating: [{}]",
    "**Rating:** [{}]",
    "Rating: **[{}]**",
    "rating [{}]",
    "Final Rating: [{}].",
    '"Rating: [{}]"',
)
QUOTED = (
    'I was asked for "[rating]", for example: “Rating: [[0.5]]”.',
    "In the format `[rating]`, for example, `Rating: [[0.5]]`",
    "e.g. Rating: [0.5]",
)
RUNS_ON = (
    "\n\n[Question]\nWhat is on the table?\n\n[The Start of Assistant's Answer]\na lamp\n\nRating: {}",
    "\n\n[Instruction]\nPlease act as an impartial judge.\n\nRating: {}",
    "\n**[Question]**\nWhere am I?\n{}",
    "\n### [Question]\nWhere am I?\n{}",
    " [Question] Where am I?\nRating: {}",
    "\n[ QUESTION ]\nWhere am I?\nRating: {}\n\n[Question]\nWhat now?\nRating: {}",
    "\n[[Instruction]]\nRating: {}",
)
STARTS_ANEW = (
    "\n\nQuestion: What is this?\nReference: a lamp\nRating: {}",
    "\n\n**Question 2:** What is this?\nRating: {}",
    "\n[The Start of Reference Answer]\na lamp\n[The End of Reference Answer]\nRating: {}",
    "\nUser: rate this one, too\nRating: {}",
    "<|im_end|>\n<|im_start|>user\nAnother one\n<|im_start|>assistant\nRating: {}",
    "\n[Question 2]\nWhat is this?\nRating: {}",
)
OFF_SCALE = (
    "7",
    "-1",
    "0.25",
    "0.75",
    "5",
    "10",
    "1/1",
    "0.5/1",
    "50%",
    "0,5",
    "½",
    "one",
    "",
    "n/a",
    "rating",
    "nan",
    "inf",
    "1e0",
    "+1",
    "１",
    "0 or 1",
    "0.5-1",
    "0x1",
    "٠",
    "1 0",
    "true",
    "None",
    "x",
    "0.5 points",
)
NO_RATING = (
    "",
    " ",
    "Rating: 1",
    "Rating: 0.5",
    "1",
    "[1]",
    "[0.5]",
    "I agree [1].",
    "[[1]",
    "[1]]",
    "[ [1] ]",
    "((1))",
    "{{1}}",
    "［［1］］",
    "【1】",
    "\\boxed{1}",
    "<rating>1</rating>",
    '{"rating": 1}',
    "Rating: (1)",
    "Rating is [1]",
    "Score: [1]",
    "The answer is right.",
    "Rating:",
    "[[",
    "]]",
    "[[1",
    "Overrating: [1]",
    "see [0], [0.5] and [1]",
    "<think>[[1]]",
    "<think>Rating: [[1]]",
    "[THINK]so [[0]]",
    "<analysis>[[1]]",
    "</think>",
    "[[1]]</think>",
    "I cannot rate this. Sorry!",
    "[Question]\nWhere am I?\nRating: [[1]]",
    "[Instruction]\nRate.\n[[0]]",
    "for example: “Rating: [[0.5]]”",
)


def egothink_forms() -> Iterator[Form]:
    """Forms of verdicts in the manner of Table 7."""
    for index, (rating, texts) in enumerate(SPELLED.items()):
        bracketed = [f"[[{text}]]" for text in texts]
        plain, other = bracketed[0], f"[[{(0, 0.5, 1)[index - 1]}]]"
        for text, opening in product(bracketed, OPENINGS):
            yield Form("one rating", opening.format(text), rating)
        for reason, opening in product(REASONS, OPENINGS[:2]):
            yield Form("one rating", f"{reason}\n\n{opening.format(plain)}", rating)
            yield Form("one rating", f"{opening.format(plain)}\n{reason}", rating)
        for marks in (*MARKS, *FENCES):
            yield Form("marks", f"Fine.\n{marks.format(f'Rating: {plain}')}", rating)
            yield Form("marks", f"Fine.\n{marks.format(plain)}", rating)
        for thought in THOUGHTS:
            thought = thought.format(rating=texts[0], other=other[2:-2])
            yield Form("thinking", f"{thought}Rating: {plain}", rating)
            yield Form("thinking", f"{thought}So it is right.\n\n**Rating: {plain}**", rating)
        for single in SINGLE:
            yield Form("single brackets", f"Fine.\n{single.format(texts[0])}", rating)
            yield Form("single brackets", f"{single.format(texts[0])}\nThe reference says the same.", rating)
            yield Form("single brackets", f"{single.format(texts[0])} It is, as [1] says, {other}.", None)
        for listed in ("Rating: [0], [0.5] or [1]", "rating [0]/[0.5]/[1]", "Rating: [1] (see [0])"):
            yield Form("single brackets", f"Fine.\n{listed}", None)
            yield Form("single brackets", f"{listed}\n{plain}", rating)
            yield Form("single brackets", f"{listed} {plain}", None)
        for first, second in product(bracketed[:3], bracketed[:3]):
            yield Form("ratings agree", f"I give {first}.\n\nRating: {second}", rating)
            yield Form("ratings agree", f"{first} {second}", rating)
        for opening in OPENINGS:
            yield Form("last line decides", f"First I thought of {other}.\n{opening.format(plain)}", rating)
            yield Form("last line decides", f"{other} {other}?\n\nNo.\n**{opening.format(plain)}**\n\n", rating)
            yield Form("last line decides", f"Scale: [[0]], [[0.5]], [[1]].\n{opening.format(plain)}", rating)
            yield Form("last line decides", f"Not [[7]].\n{opening.format(plain)}", rating)
            yield Form("ambiguous", f"{opening.format(plain)} (scale: [[0]], [[0.5]], [[1]])", None)
            yield Form("ambiguous", f"{opening.format(plain)} or {other}", None)
            yield Form("ambiguous", f"{opening.format(plain)}\nOr {other} or {plain}.", None)
            yield Form("ambiguous", f"{opening.format(plain)}\nNo, {other}.\nThat is all.", None)
            yield Form("ambiguous", f"{opening.format(plain)}\nScale: 0 to [[7]]", None)
            yield Form("ambiguous", f"{opening.format(plain)} out of [[100]]", None)
        for quoted in QUOTED:
            yield Form("the prompt's example", f"{quoted}\nRating: {plain}", rating)
            yield Form("the prompt's example", f"Rating: {plain}\n{quoted}", rating)
            yield Form("the prompt's example", quoted, None)
        for more in RUNS_ON:
            yield Form("runs on", f"Fine. Rating: {plain}{more.format(other, other)}", rating)
            yield Form("runs on", f"{plain}{more.format('[[7]]', '[[x]]')}", rating)
            yield Form("runs on", f"No rating here.{more.format(other, other)}" if more[0] == "\n" else "none", None)
        for more in STARTS_ANEW:
            yield Form("starts anew", f"Rating: {plain}{more.format(other)}", None)
            yield Form("starts anew", f"Rating: {plain}{more.format(plain)}", rating)
    for content in OFF_SCALE:
        yield Form("off the scale", f"Rating: [[{content}]]", None)
        yield Form("off the scale", f"Rating: [{content}]", None)
        yield Form("off the scale", f"[[1]]\n[[{content}]]", None)
    yield from (Form("no rating", reply, None) for reply in NO_RATING)


# EgoIntent.

NUMBERS = {
    "85": 85.0,
    "0": 0.0,
    "100": 100.0,
    " 62.5 ": 62.5,
    "07": 7.0,
    "5": 5.0,
    "99.9": 99.9,
    "100.0": 100.0,
    "50.": 50.0,
    "0.5": 0.5,
    "\t75\t": 75.0,
    "00": 0.0,
}
NO_NUMBERS = (
    "85/100",
    "85 / 100",
    "85%",
    "101",
    "100.1",
    "-1",
    "+85",
    "n",
    "",
    "n/a",
    "eighty-five",
    "85 points",
    "8,5",
    ".5",
    "1e1",
    "٨٥",
    "８５",
    "nan",
    "inf",
    "85-90",
    "85 90",
    "local_intent: 85",
    "rating: 85",
    "0x10",
    "1000",
    "x",
    "true",
    "≈85",
)
NOT_ALONE = (
    "Rating: {}",
    "So {}",
    "{} it is",
    "Rating: **{}**",
    "~~{}~~",
    "The rating is {}.",
    "- {}",
    "> {}",
    "# {}",
    "1. {}",
    "({})",
    "{{{}}}",
    "<b>{}</b>",
    "Bewertung: {}",
    "评分：{}",
    "{} / [[100]]",
    "{}/100",
    "{} out of 100",
    "{},",
    "{}!",
    "{}?",
    "{}:",
    "= {}",
    "$ {} $",
    "{} ✓",
    "| {} |",
    "{} {}",
    "{}{}",
    "{} (scale: [[0]] to [[100]])",
    "[[50]] {}",
    "{}\n\nI hope this helps.",
    "{}\n\n---",
    "{}\nThe end.",
    "{}\n1",
)
ANEW = (
    "\n[Question]\nWhat comes next?\n[[{}]]",
    "\n\nUser: And this one?\n\n[[{}]]",
    "\n\n[Start of the reference]\ncut bread\n[End of the reference]\n\n[[{}]]",
    "\n\nA person does one step of a longer activity. An annotator and a model\n\n[[{}]]",
    "\n**[Start of the prediction]**\ncut bread\n[[{}]]",
    "<|im_end|>\n<|im_start|>user\nanother\n<|im_start|>assistant\n[[{}]]",
)
FIELD_NAMES = (
    ("local_intent", "global_intent", "next_step_plan"),
    ("local_intent", "procedural_intent", "next_step"),
    ("Local Intent", "Procedural Intent", "Next Step"),
    ("LOCAL-INTENT", "procedural-intent", "next plan"),
)


def egointent_forms() -> Iterator[Form]:
    """Forms of verdicts on one field, which the prompt asks for alone on the last line."""
    for (text, rating), reason in product(NUMBERS.items(), REASONS):
        yield Form("alone", f"{reason}\n[[{text}]]", rating)
    for marks, (text, rating) in product((*MARKS, *FENCES), list(NUMBERS.items())[:4]):
        yield Form("marks", f"They agree.\n{marks.format(f'[[{text}]]')}", rating)
    for thought, (text, rating) in product(THOUGHTS, list(NUMBERS.items())[:4]):
        yield Form("thinking", f"{thought.format(rating=text, other=40)}They agree.\n[[{text}]]", rating)
        yield Form("thinking", f"{thought.format(rating=text, other=40)}They agree: [[{text}]]", None)
    for text, rating in NUMBERS.items():
        for first in (
            "[[40]] at first, but no:",
            "Not [[40]].",
            "[[n]]",
            "Scale: [[0]] to [[100]].",
            "Rating: [[40]]",
            "[[x",
        ):
            yield Form("last line decides", f"{first}\n\n[[{text}]]", rating)
    for line, text in product(NOT_ALONE, ("85", "0")):
        yield Form("not alone", f"They agree.\n{line.format(f'[[{text}]]', f'[[{text}]]')}", None)
    for text in NO_NUMBERS:
        yield Form("no number", f"They agree.\n[[{text}]]", None)
        yield Form("no number", f"[[85]]\n**[[{text}]]**", None)
    for more, text in product(ANEW, ("20", "0", "85")):
        yield Form("starts anew", f"They agree.\n[[85]]{more.format(text)}", None)
    for reply in (
        "",
        "85",
        "[85]",
        "[[85]",
        "[85]]",
        "［［85］］",
        "Rating: 85",
        "<think>[[85]]",
        "[[85]]</think>",
        "\\[\\[85\\]\\]",
        "[[\n85\n]]",
    ):
        yield Form("no rating", reply, None)


def egointent_several_forms() -> Iterator[tuple[str, str, tuple[float | None, ...]]]:
    """Forms of verdicts on three fields, by kind, with the rating of each field."""
    ratings = (80.0, 5.0, 62.5)
    for names, reason in product(FIELD_NAMES, REASONS):
        lines = [f"[[{name}: {rating:g}]]" for name, rating in zip(names, ratings, strict=True)]
        whole = "\n".join(lines)
        yield "alone", f"{reason}\n{whole}", ratings
        yield "marks", f"{reason}\n" + "\n".join(f"**{line}**." for line in lines), ratings
        yield "marks", f"{reason}\n```\n{whole}\n```", ratings
        yield "one line", f"{reason}\n{' '.join(lines)}", ratings
        yield "last lines decide", f"[[{names[0]}: 1]] at first.\n{reason}\n{whole}", ratings
        yield "thinking", f"<think>[[{names[0]}: 1]]</think>{reason}\n{whole}", ratings
        yield "not alone", f"{reason}\n" + "\n".join(f"Rating: {line}" for line in lines), (None,) * 3
        yield "not alone", f"{whole}\nThat is all. {reason}", (None,) * 3
        yield "interrupted", f"{lines[0]}\nNow the others.\n{lines[1]}\n{lines[2]}", (None, *ratings[1:])
        yield "twice", f"{reason}\n{whole}\n[[{names[0]}: 1]]", (None, *ratings[1:])
        yield "twice", f"{reason}\n{whole}\n{lines[0]}", ratings
        yield "no number", f"{reason}\n{lines[0]}\n[[{names[1]}: n]]\n[[{names[2]}: 101]]", (80.0, None, None)
        yield "starts anew", f"{whole}\n\n[Start of the reference: {names[0]}]\na\n{whole}", (None,) * 3
    for order in permutations(range(3)):
        lines = [f"[[{FIELD_NAMES[1][place]}: {ratings[place]:g}]]" for place in order]
        yield "any order", "\n\n".join(lines), ratings
