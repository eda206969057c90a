"""Answers as a judge's prompt may hold them: they can pass neither for a part of it nor for a verdict or thinking."""

import re
import unicodedata

# Invisible, and no format characters by Unicode's category: joiners, fillers and variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ROUND = str.maketrans("[]<>", "()()")
_BRACKETS = re.compile(r"[\[\]]")
# Tags of a model's thinking and the marks of chat templates.
_MARKS = re.compile(r"<\s*(?:/\s*)?(?:think(?:ing)?|analysis)\s*>|<\||\|>", re.IGNORECASE)
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


def make_harmless(answer: str) -> tuple[str, bool]:
    """An answer as a judge may be shown it, and whether it is suspect.

    Everything is looked for in an NFKC-normalised copy without invisible characters. Suspect is an answer with double
    square brackets, a number in square brackets, a square bracket before the words of a prompt's delimiters, a tag of
    a model's thinking (``</think>``, ``<analysis>``) or a mark of a chat template (``<|``, ``|>``, ``[INST]``).

    Returns:
        The text to show: the answer itself; or, where it has any square bracket, such tag or mark, that copy with
        their brackets turned into round ones. And whether the answer is suspect.
    """
    copy = _visible(unicodedata.normalize("NFKC", _visible(answer)))
    marked = _MARKS.search(copy) is not None
    if not marked and _BRACKETS.search(copy) is None:
        return answer, False
    suspect = marked or _SUSPECT.search(copy) is not None
    while marked:  # what is left of one may be a part of the next: "<|>"
        copy = _MARKS.sub(lambda mark: mark[0].translate(_ROUND), copy)
        marked = _MARKS.search(copy) is not None
    return _BRACKETS.sub(lambda bracket: bracket[0].translate(_ROUND), copy), suspect


def _visible(text: str) -> str:
    return "".join(char for char in text if char.isspace() or not _is_invisible(char))


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") or _INVISIBLE.match(char) is not None
