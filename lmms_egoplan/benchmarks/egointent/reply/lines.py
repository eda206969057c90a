"""Read the fields in lines with labels, such as ``Local intent: ...``."""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile

from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.egointent.reply.names import (
    NAME,
    SHORT_NAME,
    Values,
    field_of,
    short_fields,
)

# Characters before a name at the start of a line or sentence: numbers, bullets, emphasis and emoji,
# but no letters.
_BEFORE = r"""
    (?: ^ | (?<=[.;,!?*]\s) | (?<=[\u3002\uff1b\uff0c\uff01\uff1f\u3001]) )
    (?u: [^\w\n|<{}] | [\d_] | [\u2160-\u217f\u2460-\u24ff\u2776-\u2793] ){0,12}
"""
# A remark, a separator or the end of the line after a name.
_AFTER_NAME = r"""
    [*_`"')\]]{0,4} (?: \s?[(\uff08] [^()\n\uff08\uff09]{0,60} [)\uff09] )? [*_`"']{0,4}
    (?:
        \s? (?: [-=]> | [:=\uff1a\uff1d\ufe55\u2192\u27a1] )
        | \s[\u2013\u2014-]{1,2}\s
        | [\]\u3011\u300d\u300f] (?=\s?\S)
        | (?P<end> \s?\n | \Z )
    )
"""
_LABEL = re.compile(
    rf"{_BEFORE} (?P<name>{NAME}) {_AFTER_NAME}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)
# Start of a YAML block: the text is on the lines below.
_BLOCK = re.compile(r"\s* [|>] [+-]?\d?[+-]? \s* (?: \#.* )?", re.VERBOSE)


def read_lines(text: str) -> Values:
    """Read the text after the name of each field.

    This is the rest of the line, up to the name of another field. If the rest is empty or marks a
    YAML block, the next paragraph is read. Its lines are joined by a blank, or by ``; `` if all are
    bullets. The text may be empty. For the short names (Local, Global or Procedural, Next; What,
    Why, Next), see `short_fields`.
    """
    labels = _line_labels(text)
    ends = [label.start() for label in labels[1:]] + [len(text)]
    values: Values = []
    for label, end in zip(labels, ends, strict=False):
        following = text[label.end() : end]
        first_line = following.partition("\n")[0]
        if _BLOCK.fullmatch(first_line):
            following = following[len(first_line) :]
            first_line = ""
        line = "" if _ends_line(label) else _plain(first_line)
        values.append((field_of(label["name"]), line or _paragraph(following)))
    return values


def _ends_line(label: re.Match[str]) -> bool:
    """Return whether a label is all of its line's end, like a heading, without a separator."""
    return label.groupdict().get("end") is not None


def _line_labels(text: str) -> list[re.Match[str]]:
    """List the labels of fields, in their order.

    A label that ends its line must also begin it. In a line that names all three fields, their
    labels count wherever they are in the line, and no other label of that line does.
    """
    inner_labels = _inner_labels(text)
    lines_with_all = {_line_of(label) for label in inner_labels}
    labels = [
        label for label in _LABEL.finditer(text) if not _ends_line(label) or _opens_line(label)
    ]
    labels += _short_labels(text, labels)
    outer_labels = [label for label in labels if _line_of(label) not in lines_with_all]
    return sorted([*outer_labels, *inner_labels], key=re.Match.start)


# A label anywhere in a line. Such labels count if a line has all three.
_INNER_BEFORE = r"""
    (?: ^ | (?<=[\s|/]) ) [|/*_>\u2022(\[\u2013\u2014-]{0,6} \s? (?: \d{1,2}[.):]{1,2} \s? )?
    [*_`"'(\[]{0,4}
"""
_INNER_AFTER = r"""
    [*_`"')\]]{0,4} (?: \s?[(\uff08] [^()\n\uff08\uff09]{0,60} [)\uff09] )? [*_`"']{0,4}
    \s? [:=\uff1a\uff1d] [*_]{0,4}
"""
_INNER_LABEL = re.compile(
    rf"{_INNER_BEFORE} (?P<name>{NAME}) {_INNER_AFTER}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)
_SHORT_INNER_LABEL = re.compile(
    rf"{_INNER_BEFORE} (?P<name>{SHORT_NAME}) {_INNER_AFTER}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)


def _inner_labels(text: str) -> list[re.Match[str]]:
    """List the labels in lines that have the labels of all fields.

    The labels may be anywhere in the line.
    """
    labels: list[re.Match[str]] = []
    for line in _by_line(_INNER_LABEL.finditer(text)):
        if {field_of(label["name"]) for label in line} == set(FIELDS):
            labels += line
    for line in _by_line(_SHORT_INNER_LABEL.finditer(text)):
        fields = short_fields({label["name"].lower() for label in line})
        if set(fields.values()) == set(FIELDS):
            labels += [label for label in line if label["name"].lower() in fields]
    return labels


def _by_line(labels: Iterable[re.Match[str]]) -> list[list[re.Match[str]]]:
    return [list(line) for _, line in groupby(labels, key=_line_of)]


def _line_of(label: re.Match[str]) -> int:
    """Return the place where the line of a label's name begins."""
    return label.string.rfind("\n", 0, label.end("name"))


_SHORT_LABEL = re.compile(
    rf"{_BEFORE} (?P<name>{SHORT_NAME}) {_AFTER_NAME}",
    re.VERBOSE | re.ASCII | re.IGNORECASE | re.MULTILINE,
)


def _short_labels(text: str, labels: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """List the short names that `short_fields` accepts.

    They are at the start of lines, before a separator or as headings.
    """
    labelled_lines = {_line_of(label) for label in labels}
    openings = [
        label
        for label in _SHORT_LABEL.finditer(text)
        if _opens_line(label)
        and _is_separated_or_heading(label)
        and _line_of(label) not in labelled_lines
    ]
    fields = short_fields(
        {label["name"].lower() for label in openings},
        {field_of(label["name"]) for label in labels},
    )
    return [label for label in openings if label["name"].lower() in fields]


def _opens_line(label: re.Match[str]) -> bool:
    return label.start() == 0 or label.string[label.start() - 1] == "\n"


def _is_separated_or_heading(label: re.Match[str]) -> bool:
    is_separated = label["end"] is None
    return is_separated or label[0].lstrip().startswith(("#", "**"))


_BULLET = re.compile(r"(?: [-*+\u2022] | \d{1,2}[.)] ) \s", re.VERBOSE)


def _paragraph(text: str) -> str:
    lines = text.strip().partition("\n\n")[0].split("\n")
    lines = list(takewhile(_is_text, lines))
    if all(_BULLET.match(line) for line in lines):
        return "; ".join(_plain(_BULLET.sub("", line, count=1)) for line in lines)
    return _plain(" ".join(lines))


def _is_text(line: str) -> bool:
    """Return false for a heading, a fence, a brace, and the end of a YAML document."""
    return not line.startswith(("#", "```", "{", "}")) and line not in ("---", "...")


# Emphasis and punctuation around a text.
_MARKUP = " *_`,;\uff0c\uff1b\u3001\u3002"
# Marks that surround a text in pairs.
_PAIRED = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019"}


def _plain(line: str) -> str:
    """Remove surrounding emphasis, quotation marks and commas."""
    plain = line.strip(_MARKUP)
    if len(plain) > 1 and _PAIRED.get(plain[0]) == plain[-1]:
        return plain[1:-1]
    return plain
