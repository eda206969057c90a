"""Find the ratings in a judge's verdict by their places.

The rules use lines, signs, and one word, "rating":

1. A rating is a number in double square brackets, ``[[0.5]]``, perhaps with a label, ``[[Rating:
   0.5]]``. The brackets may be full-width, and one may be missing or repeated.
2. It counts if it ends its line, and begins the line, begins a sentence, or follows a label.
3. A label has up to five words and ends with a colon, an equals sign or an arrow. It begins the
   line or a sentence. ``Rating:`` may also follow a colon, an arrow or a dash, but no clause ("I
   cannot give Rating:"). ``Rating`` at the beginning needs no sign. Only one rating follows a
   label.
4. A rating that begins its line also counts before punctuation: "[[1]] (same object)"; before a
   comma, after a label. All other ratings in this line must agree with it. In other lines, those
   after ``Rating:`` must agree.
5. Markdown, HTML, quotation marks, emoji and other signs around ratings and labels make no
   difference. Strikethrough, ``?``, ``%``, ``/`` and signs of comparison do: such a rating does not
   count.
6. A line in quotation marks or a block quote does not count after a line that ends with a colon,
   unless it is the last.
7. If no rating counts, a number in single brackets does, ``[0.5]``, alone on its line or after
   ``Rating:``.
8. All ratings that count must agree. So must, after the last of them, a number without brackets
   that is alone on its line or after ``Rating:``. Otherwise, the answer is unrated. A rating inside
   a sentence never counts.
"""

import html
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lmms_egoplan.judging.text import normalised, with_square_brackets
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import compile_patterns

_RE = compile_patterns(module_yaml(__file__), re.VERBOSE | re.IGNORECASE)
# Characters before a rating that are searched for its label, and for ``Rating:`` inside a line.
_BEFORE = 160
_BEFORE_OTHERS = 40


@dataclass(frozen=True)
class PlacedRating:
    """A rating that counts.

    Attributes:
        label: Text of its label, in the brackets or before them; "" without one.
        number: Text of the number. It contains a digit, but may be off the scale or no number.
    """

    label: str
    number: str


def placed_ratings(verdict: str) -> list[PlacedRating]:
    """Return the ratings that must agree, in order: those that count, and those that rule 8 adds.

    Args:
        verdict: Text without the model's thinking.
    """
    ratings, single = list[PlacedRating](), list[PlacedRating]()
    bare = list[PlacedRating]()  # numbers without brackets after the last rating that counts
    lines = [line for line in _plain(verdict).splitlines() if line.strip()]
    for index, line in enumerate(lines):
        is_introduced = 0 < index < len(lines) - 1 and _RE.introduction.search(lines[index - 1])
        if is_introduced and _RE.quotation.match(line):
            continue
        in_line = _ratings_of_line(line)
        ratings += in_line
        number = _number_at_end(line)
        if in_line:
            bare = []
        if number and number["bracketed"]:
            single.append(PlacedRating("", number["bracketed"]))
        if number:
            bare.append(PlacedRating("", number["bracketed"] or number["bare"]))
    return ratings + bare if ratings else single


def agreed_rating(verdict: str, value: Callable[[str], float | None]) -> float | None:
    r"""Return the rating of a verdict; None without one, or if ratings differ.

    Args:
        verdict: Text without the model's thinking.
        value: Converts the text of a number. Returns None if it is not a number on the scale.

    >>> agreed_rating("It misses the cup, so [[1]] would be too much. Rating: [[0.5]]", float)
    0.5
    >>> agreed_rating("I give [[1]].", float), agreed_rating("Correctness: [[1]]\nHelpfulness: [[0]]", float)
    (None, None)
    """
    values = {value(rating.number) for rating in placed_ratings(verdict)}
    return values.pop() if len(values) == 1 else None


def _ratings_of_line(line: str) -> list[PlacedRating]:
    """Return the ratings of a line that must agree: those that count, and the others of rule 4."""
    first = _RE.beginning.match(line)
    row = _RE.ratings.match(line, first.start("ratings")) if first and first["end"] else None
    if first and row and not _is_list(row[0], first["label"]):
        rest = line[first.end() :]
        singles = [PlacedRating("", number) for number in _RE.single.findall(rest)]
        return _read(first["ratings"], first["label"]) + _read(rest) + singles
    others = list[PlacedRating]()
    for ratings in _RE.ratings.finditer(line):
        if ratings.end() < len(line):
            if _RE.own_label.search(
                line, max(0, ratings.start() - _BEFORE_OTHERS), ratings.start()
            ):
                others += _read(ratings[0])
            continue
        label = _label(line, ratings)
        if label is not None and not _is_list(ratings[0], label):
            return others + _read(ratings[0], label)
    return []


def _is_list(ratings: str, label: str | None) -> bool:
    """Return whether a label precedes several ratings: "Scale: [[0]], [[1]]"."""
    return bool(label) and len(_RE.rating.findall(ratings)) > 1


def _number_at_end(line: str) -> re.Match[str] | None:
    """Find a number in single brackets, or none, that ends its line and is alone or follows
    ``Rating:``.
    """
    number = _RE.number.search(line)
    label = _label(line, number) if number else None
    return number if label == "" or (label and _RE.ends_with_rating.search(label)) else None


def _label(line: str, end: re.Match[str]) -> str | None:
    """Return the label before the end of a line; "" if that begins the line or a sentence, None if
    it is inside one.
    """
    before = line[: end.start()]
    if _RE.signs.fullmatch(before):
        return ""
    match = _RE.label_at_end.search(before, max(0, len(before) - _BEFORE))
    if match is None:
        return None
    is_quoted = _RE.closing_quote.search(end[0]) or (match["inside"] and _RE.quotation.match(line))
    if is_quoted and (match["sentence_end"] or match["inside"]):
        return None
    return match["label"] or match["label_of_sentence"] or ""


def _read(text: str, label: str | None = None) -> list[PlacedRating]:
    """Return all ratings in double brackets; `label` is the label before them."""
    contents = [_RE.content.match(rating[1]) for rating in _RE.rating.finditer(text)]
    return [
        PlacedRating(content[1] or label or "", content[2].strip())
        for content in contents
        if content
    ]


def _plain(verdict: str) -> str:
    r"""Return a copy without escapes and combining marks, with ratings as ``[[...]]`` and
    comparisons as ``\u2260``.
    """
    text = _RE.entity.sub(
        lambda entity: html.unescape(entity[0]), _RE.escaped_line_break.sub("\n", verdict)
    )
    text = with_square_brackets(normalised(text))
    text = "".join(
        char for char in text if char.isascii() or not unicodedata.category(char).startswith("M")
    )
    text = _RE.comparison.sub(lambda sign: "\u2260" if sign["unequal"] else sign[0], text)
    return _RE.brackets.sub(
        lambda brackets: f"[[{brackets[1] or brackets[2] or ''}]]", _RE.escape.sub("", text)
    )
