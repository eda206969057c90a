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

# Characters before a rating that are searched for its label, and for ``Rating:`` inside a line.
_BEFORE = 160
_BEFORE_OTHERS = 40

_FLAGS = re.VERBOSE | re.IGNORECASE

# The parts of the patterns below. Whitespace in them is ignored, as in the patterns.

# A sign that is ignored around ratings and labels. Strikethrough, question marks, fractions and
# signs of comparison are not ignored.
_SIGN = r"(?: _ | [^\w\[\]\\<~≈≠≤≥±¬?%/] )"
# An HTML tag.
_TAG = r"<[^<>\[\]\n]{1,40}>"
# Signs before a rating or a label.
_SIGNS = rf"""
    (?:
        {_SIGN}
        | \d{{1,2}}[.)](?=[\s*_])               # the number of a list's item
        | (?! <\s*(?:del|s|strike)\b ) {_TAG}   # a tag, except strikethrough
        | \\[a-z]{{1,10}}\{{                    # a LaTeX command, such as \boxed
    )*
"""
# Signs after a rating.
_SIGNS_AFTER = rf"(?: (?!:){_SIGN} | \] | {_TAG} )*"

# A rating in double square brackets.
_BRACKETED = r"\[\[ ([^\[\]]*) \]\]"

# The words of a label: up to five, or a run of Chinese or Japanese characters.
_WIDE = r"[\u3040-\u30ff\u3400-\u9fff]"
_WORD = rf"(?!{_WIDE})[^\W\d_]{{1,20}} (?: ['\u2019][^\W\d_]{{1,9}} )?"
_BETWEEN_WORDS = r"[ ,_*()-]{1,5}"
_WORDS = rf"(?: {_WIDE}{{1,8}} | {_WORD} (?: {_BETWEEN_WORDS} {_WORD} ){{0,4}} )"
# A remark in parentheses after the words, and signs that close emphasis or quotation marks.
_REMARK = r"[ ]? \( [^()\[\]]{1,60} \)"
_CLOSE = rf"(?: [\s*_`\"'“”»)] | {_TAG} ){{0,12}}"
# Words before "rating" that make it part of a sentence: "I cannot give Rating".
_CLAUSE_WORD = r"""
    (?:
        i | it | they | we | he | she | you | not? | never | neither | nor | cannot | without | for
        | to | of | on | with | than | if | unless | instead | would | could | should | might | may
        | can | does | do | did | give | given | gave | earn | deserve | ask | asked | demanded
        | want | request | need | demand | require | expect | claim | say | said | get | merit
        | assign | justify | warrant | reach | support | output | write | choose | wrong
        | incorrect | false
        # "don't", "doesn't", "can't"
        | (?: do | does | did | ca | wo | would | should | could | is | was ) n ['\u2019]? t
        # a verb: "It suggests Rating"
        | (?! thus ) [^\W\d_]{2,15} (?<! s ) s (?= [ *_]{1,5} rating \b )
    )
"""
# A clause that contains "rating", with a clause word before it or a negation after it.
_IN_CLAUSE = rf"""
    (?:
        (?: {_WORD} {_BETWEEN_WORDS} ){{0,4}} {_CLAUSE_WORD} \b [^:=\n\[\]]{{0,60}} \brating\b
        | (?: {_WORD} {_BETWEEN_WORDS} ){{0,4}} \brating\b [^:=\n\[\]]{{0,30}}
          \b (?: not | never | cannot | \w{{1,6}} n ['\u2019] t ) \b
    )
"""
# A label: words and a colon, an equals sign or an arrow; or "rating", perhaps after one word.
_NAME = rf"""
    (?! {_IN_CLAUSE} )
    (?:
        {_WORDS} (?: {_REMARK} )? {_CLOSE} (?: [:=→⇒|] | [=-]> )
        | (?: {_WORD} [ ] )? \brating\b
    )
"""
_END_OF_SENTENCE = r"""
    (?:
        (?<=\w\w|\W\d|\]\]) ["'”\u2019»)\]*_]{0,4} [.!] [*_)]{0,3} \s{1,3}
        | [。\uff01] \s{0,3}
    )
    [*_]{0,3}
"""
# The beginning of ``Rating:`` after a space, and after a colon, an arrow or a dash.
_OWN = rf"(?: ^ | \s ) [*_]{{0,3}} (?= rating \b {_CLOSE} [:=] )"
_OWN_PART = rf"""
    (?: [:→⇒] | [=-]> | \s[\u2013-] | — )
    [*_]{{0,3}} \s{{0,3}} [*_]{{0,3}} (?= rating \b {_CLOSE} [:=] )
"""


@dataclass(frozen=True)
class PlacedRating:
    """A rating that counts.

    Attributes:
        label: Text of its label, in the brackets or before them; "" without one.
        number: Text of the number. It contains a digit, but may be off the scale or no number.
    """

    label: str
    number: str


# The end of a line that introduces a quotation, and the beginning of a quoted line: a quotation
# mark or a block quote.
_INTRODUCTION = re.compile(r": [*_\s]{0,4} $", _FLAGS)
_QUOTATION = re.compile(r"""\s{0,9} (?: > | [*_]{0,3} ["“„«「『'\u2018] )""", _FLAGS)


def placed_ratings(verdict: str) -> list[PlacedRating]:
    """Return the ratings that must agree, in order: those that count, and those that rule 8 adds.

    Args:
        verdict: Text without the model's thinking.
    """
    ratings: list[PlacedRating] = []
    # Numbers at the end of a line: all in single brackets, and those in single brackets or none
    # after the last rating that counts.
    in_single_brackets: list[PlacedRating] = []
    trailing: list[PlacedRating] = []
    lines = [line for line in _plain(verdict).splitlines() if line.strip()]
    for index, line in enumerate(lines):
        is_inner = 0 < index < len(lines) - 1
        if is_inner and _INTRODUCTION.search(lines[index - 1]) and _QUOTATION.match(line):
            continue
        ratings_of_line = _ratings_of_line(line)
        if ratings_of_line:
            ratings += ratings_of_line
            trailing = []
        number = _number_at_end(line)
        if number is None:
            continue
        if number["bracketed"]:
            in_single_brackets.append(PlacedRating("", number["bracketed"]))
        trailing.append(PlacedRating("", number["bracketed"] or number["bare"]))
    if ratings:
        return ratings + trailing
    return in_single_brackets


def agreed_rating(verdict: str, value: Callable[[str], float | None]) -> float | None:
    r"""Return the rating of a verdict; None without one, or if ratings differ.

    Args:
        verdict: Text without the model's thinking.
        value: Converts the text of a number. Returns None if it is not a number on the scale.

    >>> agreed_rating("It misses the cup, so [[1]] would be too much. Rating: [[0.5]]", float)
    0.5
    >>> agreed_rating("I give [[1]].", float) is None
    True
    >>> agreed_rating("Correctness: [[1]]\nHelpfulness: [[0]]", float) is None
    True
    """
    values = {value(rating.number) for rating in placed_ratings(verdict)}
    if len(values) == 1:
        return values.pop()
    return None


# Several ratings in a row.
_RATINGS = re.compile(rf"(?: {_BRACKETED} {_SIGNS_AFTER} )+", _FLAGS)
# The beginning of a line: ratings and punctuation, perhaps after a label.
_BEGINNING = re.compile(
    rf"""
    {_SIGNS} (?: (?P<label> {_NAME} ) {_SIGNS} )?
    (?P<ratings> (?: {_BRACKETED} (?: (?![.!。:,;(\u2013—-]){_SIGN} | {_TAG} )* )+ )
    (?P<end>
        [.!] [*_]{{0,3}} (?=\s)
        | [。(]
        # other punctuation, if no number follows; a comma only after a label
        | (?: [:;\u2013—] | -(?=\s) | (?(label) , | (?!) ) ) (?! \s{{0,3}} [\d.] )
    )?
    """,
    _FLAGS,
)
# A number in single brackets.
_SINGLE = re.compile(r"(?<!\[) \[ ([\d.]{1,8}) \] (?!\])", _FLAGS)
# ``Rating:`` at the end of the text before a rating.
_OWN_LABEL = re.compile(rf"{_OWN} {_NAME} {_SIGNS} $", _FLAGS)


def _ratings_of_line(line: str) -> list[PlacedRating]:
    """Return the ratings of a line that must agree: those that count, and the others of rule 4."""
    first = _BEGINNING.match(line)
    row = None
    if first and first["end"]:
        row = _RATINGS.match(line, first.start("ratings"))
    if first and row and not _is_list(row[0], first["label"]):
        rest = line[first.end() :]
        singles = [PlacedRating("", number) for number in _SINGLE.findall(rest)]
        return _read(first["ratings"], first["label"]) + _read(rest) + singles
    others: list[PlacedRating] = []
    for ratings in _RATINGS.finditer(line):
        if ratings.end() < len(line):
            start = max(0, ratings.start() - _BEFORE_OTHERS)
            if _OWN_LABEL.search(line, start, ratings.start()):
                others += _read(ratings[0])
            continue
        label = _label(line, ratings)
        if label is not None and not _is_list(ratings[0], label):
            return others + _read(ratings[0], label)
    return []


_RATING = re.compile(_BRACKETED, _FLAGS)


def _is_list(ratings: str, label: str | None) -> bool:
    """Return whether a label precedes several ratings: "Scale: [[0]], [[1]]"."""
    return bool(label) and len(_RATING.findall(ratings)) > 1


# A number at the end of a line, in single brackets or none.
_NUMBER = re.compile(
    rf"""
    (?:
        \[ (?P<bracketed> [\d.]{{1,8}} ) \]
        | (?<![\d.\[(]) (?P<bare> [\d.]{{1,8}} )
    )
    {_SIGNS_AFTER} $
    """,
    _FLAGS,
)
_ENDS_WITH_RATING = re.compile(r"\brating\b [^\w\[\]]* $", _FLAGS)


def _number_at_end(line: str) -> re.Match[str] | None:
    """Find a number in single brackets, or none, at the end of a line.

    The number must be alone or follow ``Rating:``.
    """
    number = _NUMBER.search(line)
    if number is None:
        return None
    label = _label(line, number)
    if label == "" or (label and _ENDS_WITH_RATING.search(label)):
        return number
    return None


# The signs before a rating that begins its line.
_ONLY_SIGNS = re.compile(_SIGNS, _FLAGS)
# The place before a rating that ends its line: a label, or the end of a sentence.
_LABEL_AT_END = re.compile(
    rf"""
    (?:
        # at the beginning of the line, after a colon, an arrow or a dash, or a key of JSON
        (?: ^ {_SIGNS} | (?P<inside> {_OWN_PART} ) | [{{,] [ ]? " (?= {_WORDS} " ) )
        (?P<label> {_NAME} )
        | (?P<sentence_end> {_END_OF_SENTENCE} ) (?P<label_of_sentence> {_NAME} )?
    )
    {_SIGNS} $
    """,
    _FLAGS,
)
_CLOSING_QUOTE = re.compile(r"[\"'”\u2019»」』]", _FLAGS)


def _label(line: str, end: re.Match[str]) -> str | None:
    """Return the label before the end of a line.

    Returns "" if the end begins the line or a sentence, and None if it is inside a sentence.
    """
    before = line[: end.start()]
    if _ONLY_SIGNS.fullmatch(before):
        return ""
    match = _LABEL_AT_END.search(before, max(0, len(before) - _BEFORE))
    if match is None:
        return None
    is_quoted = _CLOSING_QUOTE.search(end[0]) or (match["inside"] and _QUOTATION.match(line))
    if is_quoted and (match["sentence_end"] or match["inside"]):
        return None
    return match["label"] or match["label_of_sentence"] or ""


# The text in the brackets of a rating: a label if there is one, and a text with a digit.
_CONTENT = re.compile(
    r"""
    (?= [^\d]* \d )
    \s* (?: ([^\W\d][\w -]{0,40}?) \s* [:=] )?
    (.*)
    """,
    _FLAGS,
)


def _read(text: str, label: str | None = None) -> list[PlacedRating]:
    """Return all ratings in double brackets; `label` is the label before them."""
    ratings = []
    for rating in _RATING.finditer(text):
        content = _CONTENT.match(rating[1])
        if content:
            ratings.append(PlacedRating(content[1] or label or "", content[2].strip()))
    return ratings


# A line break written as an escape, but not LaTeX's \neq.
_ESCAPED_LINE_BREAK = re.compile(r"\\n (?! (?-i: [a-z] ) )", _FLAGS)
_ENTITY = re.compile(r"& \#? \w{1,31} ;", _FLAGS)
# The signs ">" and "<" where they compare nothing: a tag, an arrow, or a block quote.
_NO_COMPARISON = r"""
    (?:
        <[^<>\[\]\n]{1,40}>
        | [=-]{1,3}>
        | (?m: ^ ) [ \t]{0,9} (?: (?: [*+-] | \d{1,2}[.)] ) [ \t]{1,3} )? (?: > (?!=) [ \t]{0,3} )+
    )
"""
# A comparison: "!=", ">= [[1]]", "> [[1]]".
_COMPARISON = re.compile(
    rf"""
    {_NO_COMPARISON}
    | (?P<unequal>
        ! \s? = | [<>] \s? = | =/= | <>
        | (?<= [\s:=(] ) ! (?= \s{{0,3}} [*_`]{{0,3}} \[ )  # "!" before a bracket is a negation
        | >
    )
    """,
    _FLAGS,
)
_BRACKET_ESCAPE = re.compile(r"\\(?=[\[\]])", _FLAGS)
# Brackets with spaces, or with one bracket too many or too few.
_BRACKETS = re.compile(
    r"""
    (?<![^\W_]) (?: \[ [ \t]{0,3} ){2,3}
    \s{0,9} ([^\[\]\n]*?) \s{0,9}
    \] (?: [ \t]{0,3} \] ){0,2}

    | (?<![^\W_]) (?<!\[) \[
    \s{0,9} ([^\[\]\n]*?) \s{0,9}
    \] (?: [ \t]{0,3} \] ){1,2}
    """,
    _FLAGS,
)


def _plain(verdict: str) -> str:
    r"""Return a copy without escapes and combining marks, in which all signs have one form.

    Ratings become ``[[...]]`` and comparisons ``\u2260``.
    """
    text = _ESCAPED_LINE_BREAK.sub("\n", verdict)
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    text = with_square_brackets(normalised(text))
    text = "".join(char for char in text if not _is_combining(char))
    text = _COMPARISON.sub(lambda sign: "\u2260" if sign["unequal"] else sign[0], text)
    text = _BRACKET_ESCAPE.sub("", text)
    return _BRACKETS.sub(lambda match: f"[[{match[1] or match[2] or ''}]]", text)


def _is_combining(char: str) -> bool:
    """Return whether a character is a combining mark."""
    return not char.isascii() and unicodedata.category(char).startswith("M")
