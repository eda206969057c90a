"""Recognise the names of the fields in a reply (sec. 3.2), the release's names and short ones."""

import re
from collections.abc import Collection

from lmms_egoplan.benchmarks.egointent.prompts import ALIASES, FIELDS

# Short names also occur in other texts, so they count only together.
SHORT_NAMES = (
    {
        "local": "local_intent",
        "global": "global_intent",
        "procedural": "global_intent",
        "next": "next_step_plan",
    },
    {"what": "local_intent", "why": "global_intent", "next": "next_step_plan"},
)

_FIELD_BY_NAME = {name.replace("_", ""): field for name, field in ALIASES.items()}
_FIELD_BY_NAME |= {field.replace("_", ""): field for field in FIELDS}

# Names of the fields and their other names, in any style of key.
_GAP = r"[\s_\\\u2010-\u2015-]{0,2}"
NAME = rf"""
    (?: procedural{_GAP}intent | next{_GAP}step{_GAP}plan | global{_GAP}intent
    | local{_GAP}intent | next{_GAP}plan | next{_GAP}step )
"""
SHORT_NAME = "(?: local | global | procedural | next | what | why )"

# A key in quotation marks.
QUOTE = """["'\u201c\u201d\u201e\u2018\u2019]"""
KEY = rf"""
    (?: {QUOTE}
    [\s\d.*]{{0,4}} (?P<key>{NAME}) [\s*]{{0,4}} (?: \([^()\n]{{0,60}}\) )?
    {QUOTE} \s?:\s? )
"""


Values = list[tuple[str, str]]
"""Pairs of a field and its text, in the order of the reply."""


def field_of(name: str) -> str:
    """Return the field for a text that matches `NAME` or `SHORT_NAME`."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    if letters in _FIELD_BY_NAME:
        return _FIELD_BY_NAME[letters]
    return next(fields[letters] for fields in SHORT_NAMES if letters in fields)


def short_fields(names: Collection[str], named_fields: Collection[str] = ()) -> dict[str, str]:
    """Return the fields of the short names that are read.

    At least two names of one set are needed, or one name for the only field that is not in the text
    under another name.

    Args:
        names: Short names in the text, in lower case.
        named_fields: Fields in the text under other names.
    """
    needed = 1 if len(named_fields) == len(FIELDS) - 1 else 2
    for fields in SHORT_NAMES:
        matching_fields = {
            name: field
            for name, field in fields.items()
            if name in names and field not in named_fields
        }
        if len(matching_fields) >= needed:
            return matching_fields
    return {}
