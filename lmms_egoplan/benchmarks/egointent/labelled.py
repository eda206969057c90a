"""The fields' names as models write them, and lines that such a name opens."""

import re
from itertools import takewhile

from lmms_egoplan.benchmarks.egointent.fields import ALIASES, FIELDS

# Not Unicode's cases, in which a dotless i is an i.
FLAGS = re.VERBOSE | re.IGNORECASE | re.ASCII
_FIELDS = {name.replace("_", ""): field for name, field in (*zip(FIELDS, FIELDS, strict=True), *ALIASES.items())}
_GAP = r"[\s_\\\u2010-\u2015-]{0,2}"
NAME = "|".join(sorted((name.replace("_", _GAP) for name in (*FIELDS, *ALIASES)), key=len, reverse=True))
"""Alternatives of a pattern with `FLAGS`: every field's name and its aliases in any style of key."""

Values = list[tuple[str, str]]
"""Fields and the texts given for them, as they come."""

# At the start of a line or behind the end of a phrase: number or bullet, name, remark in brackets, separator.
_LABEL = re.compile(
    rf"""
    (?: ^ | (?<=[.;,!?*]\s) )
    [\s>\#*_`"'(\[\u2022\d.):-]{{0,12}}
    (?P<name>{NAME})
    [*_`"')\]]{{0,4}} (?: \s?\([^()\n]{{0,60}}\) )? [*_`"']{{0,4}}
    (?: \s?[:=\uff1a] | \s[\u2013\u2014-]{{1,2}}\s | (?P<end>\s?\n | \Z) )
    """,
    FLAGS | re.MULTILINE,
)
_BULLET = re.compile(r"(?:[-*+\u2022]|\d{1,2}[.)])\s")
_NO_TEXT = ("#", "```", "{", "}")
_MARKUP = " *_`,;"
_PAIRED = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}


def field_of(name: str) -> str:
    """The field that a text matching `NAME` names."""
    return _FIELDS[re.sub(r"[^a-z]", "", name.lower())]


def read_lines(text: str) -> Values:
    """The text behind every field's name.

    That is the rest of the line, up to another field's name; where it is empty, the next paragraph, whose lines are
    joined by a blank, or by ``; `` if all are bullets. The text may be empty.

    Args:
        text: with runs of white space as `reply.read_reply` shortens them.
    """
    labels = [label for label in _LABEL.finditer(text) if label["end"] is None or _opens_line(text, label.start())]
    starts = [*(label.start() for label in labels), len(text)]
    found = []
    for label, end in zip(labels, starts[1:], strict=True):
        behind = text[label.end() : end]
        line = "" if label["end"] is not None else _plain(behind.partition("\n")[0])
        found.append((field_of(label["name"]), line or _paragraph(behind)))
    return found


def _opens_line(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def _paragraph(text: str) -> str:
    paragraph = text.strip().partition("\n\n")[0]
    lines = list(takewhile(lambda line: not line.startswith(_NO_TEXT), paragraph.split("\n")))
    if all(map(_BULLET.match, lines)):
        return "; ".join(_plain(_BULLET.sub("", line, count=1)) for line in lines)
    return _plain(" ".join(lines))


def _plain(line: str) -> str:
    """Without the marks around it: emphasis, quotation marks, commas."""
    plain = line.strip(_MARKUP)
    return plain[1:-1] if len(plain) > 1 and _PAIRED.get(plain[0]) == plain[-1] else plain
