"""How a written answer is read: the one letter that it claims."""

import re

from lmms_egoplan.next_action.records import LETTERS

_INTRODUCTION = r"(?i:(?:the )?(?:(?:best|correct|final|right) )?(?:answer|option|choice)(?: is)?(?: ?: ?| ))?"
_LETTER = f"([{LETTERS}])"
_CLAIM = re.compile(
    rf"{_INTRODUCTION}(?:\({_LETTER}\)[.:]?(?: |$)|{_LETTER}[.:)](?: |$)|{_LETTER}$)",
)
# Where models put an answer behind their thoughts, and what may stand around the letter there.
_BOX = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ANSWER, _END_OF_ANSWER = re.compile("<answer>", re.IGNORECASE), re.compile("</answer>", re.IGNORECASE)
_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_THOUGHT = re.compile(r"(?i:<(think|thinking)>)(?:.*?(?i:</\1>)|.*\Z)", re.DOTALL)
_END_OF_THOUGHT = re.compile(r"(?i)</think(?:ing)?>")
_STANDALONE = re.compile(rf"\b[{LETTERS}]\b")


def parse_letter(reply: str) -> str | None:
    r"""The one letter that a reply claims; None if it claims none, or mentions another one.

    Thoughts between ``<think>`` and ``</think>`` are no part of it; those that do not end leave nothing. Where it has
    ``\boxed{B}``, or else ``<answer>B</answer>``, that alone is read, and several must agree.

    The reply's first line must be a capital letter A to D, or begin with one that is marked as an option;
    either may be introduced as the answer: ``B``, ``B.``, ``B:``, ``(B)``, ``B) text``, ``(B) text``,
    ``Answer: B``, ``The answer is B.``, ``The correct option is (B) text``. Asterisks are ignored. A
    different letter A to D that stands alone anywhere makes a reply ambiguous. So ``A or B`` is not read, nor
    is ``A cat``, where the letter is not marked.
    """
    spoken = _END_OF_THOUGHT.split(_THOUGHT.sub("", reply))[-1]
    answers = (_END_OF_ANSWER.split(part) for part in _ANSWER.split(spoken)[1:])
    marked = _BOX.findall(spoken) or [parts[0] for parts in answers if len(parts) > 1]
    if not marked:
        return _claimed(spoken)
    letters = {_claimed(_COMMAND.sub(r"\1", text)) for text in marked}
    return letters.pop() if len(letters) == 1 else None


def _claimed(text: str) -> str | None:
    plain = text.replace("*", "").strip()
    claim = _CLAIM.match(" ".join(plain.partition("\n")[0].split()))
    if claim is None:
        return None
    (letter,) = filter(None, claim.groups())
    return letter if set(_STANDALONE.findall(plain)) == {letter} else None
