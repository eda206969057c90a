"""Compare the words of goals and actions, ignoring inflections and determiners."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import accumulate

from lmms_egoplan.benchmarks.egoplan.statistics import ARTICLES, NO_OBJECTS
from lmms_egoplan.stemming import snowball_stem

_DETERMINERS = frozenset(
    ("his", "her", "its", "my", "our", "some", "that", "their", "these", "this", "those", "your")
)
# Irregular plurals that the stemmer does not handle.
_IRREGULAR = {
    "halves": "half",
    "knives": "knife",
    "leaves": "leaf",
    "loaves": "loaf",
    "shelves": "shelf",
}


@cache
def _links() -> frozenset[str]:
    """Return the words that may begin another part of a phrase: "on" in "put plate on rack"."""
    return frozenset(snowball_stem(word) for word in NO_OBJECTS - {"and", "using"})


def tidy(text: str) -> str:
    """Return a phrase in one line, without a full stop."""
    visible = "".join(
        sign for sign in text if unicodedata.category(sign) not in ("Cc", "Cf") or sign.isspace()
    )
    return " ".join(unicodedata.normalize("NFC", visible).split()).rstrip(" .")


@cache
def normalised(text: str) -> str:
    """Return an action in lower case, without punctuation and articles."""
    plain = unicodedata.normalize("NFKC", tidy(text))
    return " ".join(word for word in re.findall(r"\w+", plain.casefold()) if word not in ARTICLES)


@cache
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words, without determiners.

    >>> stems("Putting the knives on those shelves.")
    ('put', 'knife', 'on', 'shelf')
    """
    return tuple(
        snowball_stem(_IRREGULAR.get(word, word))
        for word in normalised(text).split()
        if word not in _DETERMINERS
    )


@cache
def content(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words, without determiners, prepositions and conjunctions."""
    ignored = {*_links(), "and", "then"}
    return tuple(word for word in stems(text) if word not in ignored)


@cache
def near_key(text: str) -> tuple[tuple[int, str], ...]:
    """Return the key that near-equal actions share.

    They differ only in inflection, determiners or word order. Words stay on their side of a
    preposition. A preposition after the verb or at the end belongs to the verb.

    >>> near_key("put mix meat") == near_key("put the meat mix")
    True
    >>> near_key("put down plate") == near_key("put plates down")
    True
    >>> near_key("put cup on plate") == near_key("put plate on cup")
    False
    """
    words = stems(text)
    if words[2:] and words[-1] in _links():
        words = (words[0], words[-1], *words[1:-1])
    parts = accumulate(position > 1 and word in _links() for position, word in enumerate(words))
    return tuple(sorted(zip(parts, words, strict=True)))


@cache
def _occurrence(action: str) -> re.Pattern[str]:
    """Match an action's words with at most two words between each.

    "open the wooden tea box" matches "open box".
    """
    # An action that consists only of prepositions never matches.
    words = [re.escape(word) for word in content(action) or "-"]
    return re.compile(r"\b" + r"\b(?: \S+){0,2}? \b".join(words) + r"\b")


def named_in_order(goal: str, actions: Iterable[str]) -> int:
    """Return the length of the longest sequence of actions that a goal names in order.

    >>> actions = ["take cup", "fill kettle", "open box", "take cup"]
    >>> named_in_order("Taking the big cup, then opening a box", actions)
    2
    """
    text = " ".join(content(goal))
    ends = [0]  # positions where the first sequence of 0, 1, 2 ... named actions ends
    for action in actions:
        # Longer sequences first, so that an action extends each sequence only once.
        for length in range(len(ends), 0, -1):
            match = _occurrence(action).search(text, ends[length - 1])
            if match is None:
                continue
            if length == len(ends):
                ends.append(match.end())
            else:
                ends[length] = min(ends[length], match.end())
    return len(ends) - 1
