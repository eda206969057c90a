"""Generate forms of verdicts on EgoThink and EgoIntent, each with the expected rating."""

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import yaml


class Form(NamedTuple):
    """A complete reply of a judge.

    Attributes:
        kind: Class of the form.
        reply: Text of the reply.
        rating: Expected rating; None if there must be none.
    """

    kind: str
    reply: str
    rating: float | None


TEXTS = SimpleNamespace(
    **yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
)


def egothink_forms() -> Iterator[Form]:
    """Yield forms of verdicts for the prompt of Table 7."""
    for index, (rating, texts) in enumerate(TEXTS.spelled.items()):
        plain = f"[[{texts[0]}]]"
        other = f"[[{(0, 0.5, 1)[index - 1]}]]"
        yield from one_rating_forms(rating, texts)
        yield from marked_forms(rating, plain)
        yield from thinking_forms(rating, texts[0], other[2:-2])
        yield from single_bracket_forms(rating, texts[0], other)
        yield from agreeing_forms(rating, texts[:3])
        for opening in TEXTS.openings:
            yield from several_rating_forms(rating, opening.format(plain), plain, other)
        yield from continued_forms(rating, plain, other)


def one_rating_forms(rating: float, texts: Sequence[str]) -> Iterator[Form]:
    """Yield forms with a single rating in double brackets, in all its spellings."""
    plain = f"[[{texts[0]}]]"
    for text, opening in product(texts, TEXTS.openings):
        yield Form("one rating", opening.format(f"[[{text}]]"), rating)
    for reason, opening in product(TEXTS.reasons, TEXTS.openings[:2]):
        yield Form("one rating", f"{reason}\n\n{opening.format(plain)}", rating)
        yield Form("one rating", f"{opening.format(plain)}\n{reason}", rating)


def marked_forms(rating: float, plain: str) -> Iterator[Form]:
    """Yield forms with marks of Markdown around the rating."""
    for marks in (*TEXTS.marks, *TEXTS.fences):
        yield Form("marks", f"Fine.\n{marks.format(f'Rating: {plain}')}", rating)
        yield Form("marks", f"Fine.\n{marks.format(plain)}", rating)


def thinking_forms(rating: float, text: str, other_text: str) -> Iterator[Form]:
    """Yield forms whose reasoning comes before the rating, and may contain another one."""
    for template in TEXTS.thoughts:
        thought = template.format(rating=text, other=other_text)
        yield Form("thinking", f"{thought}Rating: [[{text}]]", rating)
        yield Form("thinking", f"{thought}So it is right.\n\n**Rating: [[{text}]]**", rating)


def single_bracket_forms(rating: float, text: str, other: str) -> Iterator[Form]:
    """Yield forms with ratings or scales in single brackets."""
    plain = f"[[{text}]]"
    for template in TEXTS.single:
        single = template.format(text)
        yield Form("single brackets", f"Fine.\n{single}", rating)
        yield Form("single brackets", f"{single}\nThe reference says the same.", rating)
        yield Form("single brackets", f"{single} It is, as [1] says, {other}.", None)
    for scale in ("Rating: [0], [0.5] or [1]", "rating [0]/[0.5]/[1]", "Rating: [1] (see [0])"):
        yield Form("single brackets", f"Fine.\n{scale}", None)
        yield Form("single brackets", f"{scale}\n{plain}", rating)
        yield Form("single brackets", f"{scale} {plain}", None)


def agreeing_forms(rating: float, texts: Sequence[str]) -> Iterator[Form]:
    """Yield forms with two spellings of the same rating."""
    for first, second in product(texts, texts):
        yield Form("ratings agree", f"I give [[{first}]].\n\nRating: [[{second}]]", rating)
        yield Form("ratings agree", f"[[{first}]] [[{second}]]", rating)


def several_rating_forms(rating: float, verdict: str, plain: str, other: str) -> Iterator[Form]:
    """Yield forms with other ratings before, next to or after the verdict."""
    yield Form("last line decides", f"First I thought of {other}.\n{verdict}", rating)
    yield Form("last line decides", f"{other} {other}?\n\nNo.\n**{verdict}**\n\n", rating)
    yield Form("last line decides", f"Scale: [[0]], [[0.5]], [[1]].\n{verdict}", rating)
    yield Form("last line decides", f"Not [[7]].\n{verdict}", rating)
    yield Form("ambiguous", f"{verdict} (scale: [[0]], [[0.5]], [[1]])", None)
    yield Form("ambiguous", f"{verdict} or {other}", None)
    yield Form("ambiguous", f"{verdict} out of [[100]]", None)
    yield Form("in a sentence", f"{verdict}\nOr {other} or {plain}.", rating)
    yield Form("in a sentence", f"{verdict}\nNo, {other}.\nThat is all.", rating)
    yield Form("in a sentence", f"{verdict}\nScale: 0 to [[7]]", rating)


def continued_forms(rating: float, plain: str, other: str) -> Iterator[Form]:
    """Yield forms in which the judge continues after its verdict, or starts another one."""
    for addition in TEXTS.runs_on:
        yield Form("runs on", f"Fine. Rating: {plain}{addition.format(other, other)}", rating)
        yield Form("runs on", f"{plain}{addition.format('[[7]]', '[[x]]')}", rating)
        if addition.startswith("\n"):
            without_rating = f"No rating here.{addition.format(other, other)}"
        else:
            without_rating = "none"
        yield Form("runs on", without_rating, None)
    for addition in TEXTS.starts_anew:
        yield Form("starts anew", f"Rating: {plain}{addition.format(other)}", None)
        yield Form("starts anew", f"Rating: {plain}{addition.format(plain)}", rating)


def egointent_forms() -> Iterator[Form]:
    """Yield forms of verdicts on one field."""
    for (text, rating), reason in product(TEXTS.numbers.items(), TEXTS.reasons):
        yield Form("alone", f"{reason}\n[[{text}]]", rating)
    for marks, (text, rating) in product(
        (*TEXTS.marks, *TEXTS.fences), list(TEXTS.numbers.items())[:4]
    ):
        yield Form("marks", f"They agree.\n{marks.format(f'[[{text}]]')}", rating)
    for thought, (text, rating) in product(TEXTS.thoughts, list(TEXTS.numbers.items())[:4]):
        yield Form(
            "thinking", f"{thought.format(rating=text, other=40)}They agree.\n[[{text}]]", rating
        )
        yield Form(
            "thinking", f"{thought.format(rating=text, other=40)}They agree: [[{text}]]", rating
        )
        yield Form("thinking", f"{thought.format(rating=text, other=40)}I give [[{text}]]", None)
    for text, rating in TEXTS.numbers.items():
        for first in (
            "[[40]] at first, but no:",
            "Not [[40]].",
            "[[n]]",
            "Scale: [[0]] to [[100]].",
            "[[x",
        ):
            yield Form("in a sentence", f"{first}\n\n[[{text}]]", rating)
        yield Form("differ", f"Rating: [[40]]\n\n[[{text}]]", None)
        yield Form("differ", f"[[{text}]]\n\nFinal rating: [[40]]", None)
        yield Form("in a sentence", f"[[{text}]]\n\nHowever, [[40]] may be fairer.", rating)
    for addition, text in product(TEXTS.anew, ("20", "0", "85")):
        yield Form(
            "starts anew",
            f"They agree.\n[[85]]{addition.format(text)}",
            85 if text == "85" else None,
        )


def egointent_several_forms() -> Iterator[tuple[str, str, tuple[float | None, ...]]]:
    """Yield forms of verdicts on three fields: kind, text and the rating of each field."""
    ratings = (80.0, 5.0, 62.5)
    for names, reason in product(TEXTS.field_names, TEXTS.reasons):
        lines = [f"[[{name}: {rating:g}]]" for name, rating in zip(names, ratings, strict=True)]
        ratings_text = "\n".join(lines)
        yield "alone", f"{reason}\n{ratings_text}", ratings
        yield "marks", f"{reason}\n" + "\n".join(f"**{line}**." for line in lines), ratings
        yield "marks", f"{reason}\n```\n{ratings_text}\n```", ratings
        yield "one line", f"{reason}\n{' '.join(lines)}", ratings
        yield "in a sentence", f"[[{names[0]}: 1]] at first.\n{reason}\n{ratings_text}", ratings
        yield "thinking", f"<think>[[{names[0]}: 1]]</think>{reason}\n{ratings_text}", ratings
        yield (
            "after a label",
            f"{reason}\n" + "\n".join(f"Rating: {line}" for line in lines),
            ratings,
        )
        labelled = (
            f"- **{name}:** [[{rating:g}]]" for name, rating in zip(names, ratings, strict=True)
        )
        yield "labelled", f"{reason}\n" + "\n".join(labelled), ratings
        yield "first", f"{ratings_text}\nThat is all. {reason}", ratings
        yield "apart", f"{lines[0]}\nNow the others.\n{lines[1]}\n{lines[2]}", ratings
        yield (
            "in a sentence",
            f"I give {lines[0]} here.\n{lines[1]}\n{lines[2]}",
            (None, *ratings[1:]),
        )
        yield "twice", f"{reason}\n{ratings_text}\n[[{names[0]}: 1]]", (None, *ratings[1:])
        yield "twice", f"{reason}\n{ratings_text}\n{lines[0]}", ratings
        yield (
            "no number",
            f"{reason}\n{lines[0]}\n[[{names[1]}: n]]\n[[{names[2]}: 101]]",
            (80.0, None, None),
        )
        anew = f"{ratings_text}\n\n[Start of the reference: {names[0]}]\na\n"
        yield "starts anew", f"{anew}{ratings_text}", ratings
        yield "starts anew", f"{anew}[[{names[0]}: 1]]", (None, *ratings[1:])
    for order in permutations(range(3)):
        lines = [f"[[{TEXTS.field_names[1][index]}: {ratings[index]:g}]]" for index in order]
        yield "any order", "\n\n".join(lines), ratings
