"""Find the calls ``action(object)`` of a plan, and check their form (secs. 3.1, 5.6, Table 8)."""

import re
from collections.abc import Sequence
from itertools import pairwise

_FULL_WIDTH = str.maketrans("\uff08\uff09\uff0c", "(),")
# Single characters that are numbers or letters: circled, in parentheses, with a full stop, or
# Roman. Regular expressions treat most of them as letters.
NUMBER_SIGN = (
    r"[\u2160-\u217f\u2460-\u24ff\u2776-\u2793\u3220-\u3229\u3248-\u324f\u3251-\u325f"
    r"\u3280-\u3289\u32b1-\u32bf\U0001f100-\U0001f10c]"
)


_WELL_FORMED = re.compile(
    r"""
    (\*{1,3}|`)?                # emphasis around the action
    [^\W\d_][\w\\-]*            # the action; Markdown may escape its "_"
    (?(1)\1)                    # the end of the emphasis
    \((?P<objects>[^()\n]*)\)
    """,
    re.VERBOSE,
)


def is_well_formed(step: str) -> bool:
    """Return True if a step has the form ``action(object[, object ...])``.

    The form is that of secs. 3.1 and 5.6 and Table 8. The action is one of the eight main actions
    or another verb: one word of letters, digits, ``_`` and ``-``. A step has at least one object.
    Objects are not empty and contain no parentheses. Emphasis around the action, and full-width
    parentheses and commas, are accepted. Anything else is an "incorrect form".
    """
    form = _WELL_FORMED.fullmatch(ascii_form(step))
    if form is None:
        return False
    return all(re.search(r"[^\W_]", name) for name in form["objects"].split(","))


def form_validity(steps: Sequence[str]) -> float:
    """Return the share of well-formed steps, in [0, 1]; NaN without steps.

    >>> form_validity(["walk_to(table)", "grab the cup"])
    0.5
    """
    if not steps:
        return float("nan")
    return sum(map(is_well_formed, steps)) / len(steps)


def ascii_form(text: str) -> str:
    """Replace full-width parentheses and commas by ASCII ones; the length is unchanged."""
    return text.translate(_FULL_WIDTH)


_IN_NAME = rf"(?:(?!{NUMBER_SIGN})\w|[\\/-])"
_NAME_OF_CALL = re.compile(
    rf"""
    (?:
        (?P<marked>                         # emphasis around the name
            (?P<mark>\*{{1,3}}|`)
            (?!{NUMBER_SIGN})[^\W\d_] {_IN_NAME}*
            (?P=mark)
        )
        |
        [\d_\\/-]*                          # a number before the name is not part of it
        (?P<name>
            (?!{NUMBER_SIGN})[^\W\d_] {_IN_NAME}*   # Markdown may write "walk\_to"
        )
    )
    \( (?!e?s\))                            # "(s)" and "(es)" are plural endings
    |
    {_IN_NAME}+                             # any other word, so that no word is searched twice
    """,
    re.VERBOSE,
)


def find_calls(line: str) -> list[tuple[int, int]]:
    """Return start and end of a line's calls, excluding nested calls (rule 1 of `parsed_steps`)."""
    line = ascii_form(line)
    if "(" not in line:
        return []
    ends = _matching_parentheses(line)
    names: list[tuple[int, int]] = []
    for match in _NAME_OF_CALL.finditer(line):
        if match["marked"]:
            names.append((match.start("marked"), match.end() - 1))
        elif match["name"]:
            names.append((match.start("name"), match.end() - 1))
    calls: list[tuple[int, int]] = []
    position = 0
    for (start, opening), (next_start, _) in pairwise([*names, (len(line), 0)]):
        if start >= position:
            position = ends.get(opening, next_start)
            calls.append((start, start + len(line[start:position].rstrip())))
    return calls


def _matching_parentheses(line: str) -> dict[int, int]:
    """Return the end of each matched pair of parentheses by its start."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for parenthesis in re.finditer("[()]", line):
        if parenthesis[0] == "(":
            opened.append(parenthesis.start())
        elif opened:
            ends[opened.pop()] = parenthesis.end()
    return ends
