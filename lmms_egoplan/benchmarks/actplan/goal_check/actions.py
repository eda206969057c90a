"""A plan's step as an action with the names in its parentheses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.actplan.reply_lines import ascii_form
from lmms_egoplan.paths import yaml_beside

_DATA: Mapping[str, Mapping[str, Any]] = yaml_beside(__file__)
STATES: Mapping[str, Mapping[str, bool]] = {effect: fields.get("states", {}) for effect, fields in _DATA.items()}
"""By effect, the states that the things named then have (true) or no longer have."""
_EFFECTS = {word: effect for effect, fields in _DATA.items() for word in fields["words"]}

_CALL = re.compile(r"[\s*`]*([^\W\d_][\w\\ /-]*?)[*`]*[ ]?\((.*)", re.DOTALL)
_BETWEEN = re.compile(r",|\band\b")


@dataclass(frozen=True)
class Step:
    """A step that is understood.

    effect: a key of ``actions.yaml``.
    names: what it is done with, as written.
    """

    effect: str
    names: tuple[str, ...]


def read_step(step: str) -> Step | None:
    """Read a step of the form ``action(object, ...)``; None where it has no such form, or another action.

    >>> read_step("switch-on(lamp)"), read_step("sing(song)")
    (Step(effect='switch_on', names=('lamp',)), None)
    """
    call = _CALL.fullmatch(ascii_form(step))
    if call is None:
        return None
    action = re.sub(r"[\\\s/_-]+", "_", call[1].strip().lower()).strip("_")
    effect = _EFFECTS.get(action)
    # A call inside, as in place_on_top(floor, next_to(toilet)), is a name that tells a place.
    names = (name.strip(" )") for name in _BETWEEN.split(call[2].replace("(", "_")))
    return None if effect is None else Step(effect, tuple(name for name in names if re.search(r"[^\W_]", name)))
