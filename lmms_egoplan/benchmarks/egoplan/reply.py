"""How a written answer is read: the one letter that it claims."""

import re

from lmms_egoplan.benchmarks.egoplan.records import LETTERS

_INTRODUCTION = r"(?i:(?:the )?(?:(?:best|correct|final|right) )?(?:answer|option|choice)(?: is)?(?: ?: ?| ))?"
_LETTER = f"([{LETTERS}])"
_CLAIM = re.compile(
    rf"{_INTRODUCTION}(?:\({_LETTER}\)[.:]?(?: |$)|{_LETTER}[.:)](?: |$)|{_LETTER}$)",
)
_STANDALONE = re.compile(rf"\b[{LETTERS}]\b")


def parse_letter(reply: str) -> str | None:
    """The one letter that a reply claims; None if it claims none, or mentions another one.

    The reply's first line must be a capital letter A to D, or begin with one that is marked as an option;
    either may be introduced as the answer: ``B``, ``B.``, ``B:``, ``(B)``, ``B) text``, ``(B) text``,
    ``Answer: B``, ``The answer is B.``, ``The correct option is (B) text``. Asterisks are ignored. A
    different letter A to D that stands alone anywhere makes a reply ambiguous. So ``A or B`` is not read, nor
    is ``A cat``, where the letter is not marked.
    """
    plain = reply.replace("*", "").strip()
    claim = _CLAIM.match(" ".join(plain.partition("\n")[0].split()))
    if claim is None:
        return None
    (letter,) = filter(None, claim.groups())
    return letter if set(_STANDALONE.findall(plain)) == {letter} else None
