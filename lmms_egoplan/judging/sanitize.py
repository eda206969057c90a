# ruff: noqa: RUF001 - the signs are the point
"""Answers sanitised for a judge's prompt: they can pass neither for a part of it nor for a verdict or thinking."""

import re
import unicodedata
from html.entities import html5

# Invisible, and no format characters by Unicode's category: joiners, fillers and variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ROUND = str.maketrans("[]<>〈〉⟨⟩‹›❬❭❰❱◁▷", "()()()()()()()()")
_BRACKETS = re.compile(r"[\[\]]")

# Signs that look like square brackets, after NFKC: square, lenticular, tortoise shell and half brackets, ceilings and
# floors; a white square bracket looks like two. Corner brackets are quotation marks unless they are doubled.
_OPENING, _CLOSING = "⁅⦋⦍⦏⹕⹗【〖〔〘⟬❲⦗⸢⸤⎡⎣⌈⌊", "⁆⦌⦎⦐⹖⹘】〗〕〙⟭❳⦘⸣⸥⎤⎦⌉⌋"
_LOOKALIKES = str.maketrans(
    {**dict.fromkeys(_OPENING, "["), **dict.fromkeys(_CLOSING, "]")}
    | {**dict.fromkeys("⟦〚", "[["), **dict.fromkeys("⟧〛", "]]")}
)
_DOUBLED_CORNERS = {"「「": "[[", "」」": "]]", "『『": "[[", "』』": "]]"}

# A character as HTML, JSON, Python, LaTeX or a URL writes it, however often the escape's own first sign is escaped.
_ESCAPE = re.compile(
    r"""
    & (?: amp; | \#0*38; | \#x0*26; )* (?:
        \#0* (?P<decimal>\d{1,9}) ;? | \#x0* (?P<entity>[0-9a-f]{1,8}) ;?
        | (?P<named>[a-z]{2,31};) | (?P<unended>[lr](?:brack|sqb))
    )
    | (?<!\\)\\+ (?:
        (?:u|x)\{ (?P<braced>[0-9a-f]{1,8}) \} | (?-i:U) (?P<eight>[0-9a-f]{8}) | u (?P<four>[0-9a-f]{4})
        | x (?P<two>[0-9a-f]{2}) | (?P<octal>13[35]) | 0*(?P<css>5[bd])(?![0-9a-z])
        | N\{ (?P<name>[a-z][a-z0-9 -]{1,80}) \} | (?P<latex>l?lbrack(?:et)? | r?rbrack(?:et)?)(?![a-z])
    )
    | % (?:25)* (?P<url>5[bd]|3[ce]|7c)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BASES = {"decimal": 10, "octal": 8, **dict.fromkeys(("entity", "braced", "four", "eight", "two", "css", "url"), 16)}
# An escape made of escapes; beyond, the signs that begin one are taken out.
_MOST_ROUNDS = 8

# Tags of a model's thinking and the marks of chat templates.
_MARKS = re.compile(r"[<〈⟨‹❬❰◁]\s*(?:/\s*)?(?:(?:seed:)?think(?:ing)?|analysis)\s*[>〉⟩›❭❱▷]|<\||\|>", re.IGNORECASE)
_SIGNS = r"[\s.,/%+-]*"
_SUSPECT = re.compile(
    rf"""
    \[ \s* \[ | \] \s* \]                   # the brackets of a rating
    | \[ {_SIGNS} \d [\s\d.,/%+-]* \]      # a number in brackets
    | \A \s* \[ {_SIGNS} \d [^\[\]]* \Z     # a lone bracket at an end, beside a number
    | \A [^\[\]]* \d [.%]? \s* \] \s* \Z
    | \[ [^\[\]]* (?: answer | reference | instruction | question | start | \bend(?:s|ing)?\b )  # a delimiter
    | \[ \s* (?: /\s* )? inst\b              # a chat template's
    """,
    re.IGNORECASE | re.VERBOSE,
)


def sanitize(answer: str) -> tuple[str, bool]:
    r"""Return an answer as a judge may be shown it, and whether it is suspect.

    Everything is looked for in an NFKC-normalised copy without invisible characters, with escapes (``&#91;``,
    ``&lbrack;``, ``\u005b``, ``\x5b``, ``%5B``) read as what they stand for. Suspect is an answer with double
    square brackets, a number in square brackets, a square bracket before the words of a prompt's delimiters, a tag of
    a model's thinking (``</think>``, ``<analysis>``) or a mark of a chat template (``<|``, ``|>``, ``[INST]``).
    Signs that look like square brackets, as in ``⟦1⟧`` or ``【【1】】``, count as these where that makes it suspect.

    Returns:
        The text to show: the answer itself; or, where it is suspect or has any square bracket, that copy with the
        brackets of all these turned into round ones. And whether the answer is suspect.
    """
    copy, is_nested = _unescaped(answer)
    marked = _MARKS.search(copy) is not None
    bracketed = copy.translate(_LOOKALIKES)
    for corners, brackets in _DOUBLED_CORNERS.items():
        bracketed = bracketed.replace(corners, brackets)
    suspect = is_nested or marked or _SUSPECT.search(bracketed) is not None
    if not suspect and _BRACKETS.search(copy) is None:
        return answer, False
    return _BRACKETS.sub(lambda bracket: bracket[0].translate(_ROUND), without_marks(bracketed)), suspect


def without_marks(text: str) -> str:
    """Make the brackets round in tags of thinking and in marks of chat templates; change nothing else.

    >>> without_marks("walk_to[table] <|im_end|>")
    'walk_to[table] (|im_end|)'
    """
    while _MARKS.search(text):  # what is left of one may be a part of the next: "<|>"
        text = _MARKS.sub(lambda mark: mark[0].translate(_ROUND), text)
    return text


def _unescaped(text: str) -> tuple[str, bool]:
    """Return the normalised copy, and whether its escapes are nested deeper than is read."""
    copy = _normalised(text)
    for _ in range(_MOST_ROUNDS):
        unescaped = _ESCAPE.sub(_character, copy)
        if unescaped == copy:
            return copy, False
        copy = _normalised(unescaped)
    return re.sub(r"[&\\%]", " ", copy), True


def _character(escape: re.Match[str]) -> str:
    """Return the character of an escape; the escape itself if there is none."""
    if escape["named"]:
        return html5.get(escape["named"], html5.get(escape["named"].lower(), escape[0]))
    if escape["unended"] or escape["latex"]:
        latex = escape["latex"] or ""
        sign = "[" if (escape["unended"] or latex)[0].lower() == "l" else "]"
        return sign * (2 if latex.lower().startswith(("ll", "rr")) else 1)
    if escape["name"]:
        try:
            return unicodedata.lookup(escape["name"])
        except KeyError:
            return escape[0]
    numbers = ((escape[group], base) for group, base in _BASES.items())
    code = next(int(digits, base) for digits, base in numbers if digits)
    return escape[0] if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def _normalised(text: str) -> str:
    return _visible(unicodedata.normalize("NFKC", _visible(text)))


def _visible(text: str) -> str:
    return "".join(char for char in text if char.isspace() or not _is_invisible(char))


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") or _INVISIBLE.match(char) is not None
