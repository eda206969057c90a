"""The fields' names as models write them, and lines that such a name opens."""

import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES, FIELDS

# Not Unicode's cases, in which a dotless i is an i.
FLAGS = re.VERBOSE | re.IGNORECASE | re.ASCII
_FIELDS = {name.replace("_", ""): field for name, field in (*zip(FIELDS, FIELDS, strict=True), *ALIASES.items())}
_GAP = r"[\s_\\\u2010-\u2015-]{0,2}"
NAME = "|".join(sorted((name.replace("_", _GAP) for name in (*FIELDS, *ALIASES)), key=len, reverse=True))
"""Alternatives of a pattern with `FLAGS`: every field's name and its aliases in any style of key."""

Values = list[tuple[str, str]]
"""Fields and the texts given for them, as they come."""

# Short names, which other texts have too: they count only together (`_short_labels`).
_SHORT = (
    {"local": FIELDS[0], "global": FIELDS[1], "procedural": FIELDS[1], "next": FIELDS[2]},
    {"what": FIELDS[0], "why": FIELDS[1], "next": FIELDS[2]},
)
SHORT_NAME = "local|global|procedural|next|what|why"
# What may stand before a name: numbers, bullets, emphasis, emoji; no letters.
_BEFORE = r"(?u:[^\w\n|<{}]|[\d_]|[\u2160-\u217f\u2460-\u24ff\u2776-\u2793]){0,12}"


def _label(names: str) -> re.Pattern[str]:
    """At the start of a line or behind the end of a phrase: number or bullet, name, remark in brackets, separator."""
    return re.compile(
        rf"""
        (?: ^ | (?<=[.;,!?*]\s) | (?<=[\u3002\uff1b\uff0c\uff01\uff1f\u3001]) )
        {_BEFORE}
        (?P<name>{names})
        [*_`"')\]]{{0,4}} (?: \s?[(\uff08][^()\n\uff08\uff09]{{0,60}}[)\uff09] )? [*_`"']{{0,4}}
        (?: \s?(?: [-=]> | [:=\uff1a\uff1d\ufe55\u2192\u27a1] ) | \s[\u2013\u2014-]{{1,2}}\s
        | [\]\u3011\u300d\u300f] (?=\s?\S) | (?P<end>\s?\n | \Z) )
        """,
        FLAGS | re.MULTILINE,
    )


_LABEL, _SHORT_LABEL = _label(NAME), _label(SHORT_NAME)
# YAML's beginning of a text on the lines below.
_BLOCK = re.compile(r"\s*[|>][+-]?\d?[+-]?\s*(?:#.*)?")
_BULLET = re.compile(r"(?:[-*+\u2022]|\d{1,2}[.)])\s")
_NO_TEXT = ("#", "```", "{", "}")
_YAML_ENDS = ("---", "...")
_MARKUP = " *_`,;\uff0c\uff1b\u3001\u3002"
_PAIRED = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}


def field_of(name: str) -> str:
    """Return the field of a text that matches `NAME` or `SHORT_NAME`."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return _FIELDS.get(plain) or next(fields[plain] for fields in _SHORT if plain in fields)


def read_lines(text: str) -> Values:
    """Read the text after every field's name.

    That is the rest of the line, up to another field's name; where it is empty or YAML's mark of a block, the next
    paragraph, whose lines are joined by a blank, or by ``; `` if all are bullets. The text may be empty. The short
    names Local, Global or Procedural, Next and What, Why, Next count where two of them begin lines.

    Args:
        text: with runs of white space as `reply.read_reply` shortens them.
    """
    labels = [label for label in _LABEL.finditer(text) if label["end"] is None or _opens_line(text, label.start())]
    labels = sorted([*labels, *_short_labels(text, labels)], key=re.Match.start)
    starts = [*(label.start() for label in labels), len(text)]
    values = []
    for label, end in zip(labels, starts[1:], strict=True):
        behind = text[label.end() : end]
        first = behind.partition("\n")[0]
        if _BLOCK.fullmatch(first):
            behind, first = behind[len(first) :], ""
        line = "" if label["end"] is not None else _plain(first)
        values.append((field_of(label["name"]), line or _paragraph(behind)))
    return values


def short_names(names: Collection[str], known: Collection[str] = ()) -> dict[str, str]:
    """Return the fields of the short names that count: two of one set, or one that adds the third field to two.

    Args:
        names: Short names in the text, in lower case.
        known: Fields in the text under other names.
    """
    for fields in _SHORT:
        counting = {name: field for name, field in fields.items() if name in names and field not in known}
        if len(counting) > 1 or (counting and len(known) == len(FIELDS) - 1):
            return counting
    return {}


def _short_labels(text: str, labels: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """List the lines that short names open, with a separator or as headings, if these count."""
    taken = {text.rfind("\n", 0, label.end("name")) for label in labels}
    openings = [
        label
        for label in _SHORT_LABEL.finditer(text)
        if _opens_line(text, label.start())
        and (label["end"] is None or label[0].lstrip().startswith(("#", "**")))
        and text.rfind("\n", 0, label.end("name")) not in taken
    ]
    fields = short_names({label["name"].lower() for label in openings}, {field_of(label["name"]) for label in labels})
    return [label for label in openings if label["name"].lower() in fields]


def _opens_line(text: str, position: int) -> bool:
    return position == 0 or text[position - 1] == "\n"


def _paragraph(text: str) -> str:
    paragraph = text.strip().partition("\n\n")[0]
    lines = list(
        takewhile(lambda line: not line.startswith(_NO_TEXT) and line not in _YAML_ENDS, paragraph.split("\n"))
    )
    if all(map(_BULLET.match, lines)):
        return "; ".join(_plain(_BULLET.sub("", line, count=1)) for line in lines)
    return _plain(" ".join(lines))


def _plain(line: str) -> str:
    """Remove surrounding emphasis, quotation marks and commas."""
    plain = line.strip(_MARKUP)
    return plain[1:-1] if len(plain) > 1 and _PAIRED.get(plain[0]) == plain[-1] else plain
