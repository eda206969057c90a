"""Describe the shortcut conditions: tasks that take one kind of information from a question.

``shortcuts.yaml`` lists them. A task's name ends with the condition's name, and its metadata has it as ``shortcut``.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lmms_egoplan.paths import module_yaml

Frame = TypeVar("Frame")


@dataclass(frozen=True)
class Shortcut:
    """A condition.

    Attributes:
        label: Name in tables and figures.
        missing: What the model does not get.
    """

    label: str
    missing: str


SHORTCUTS = {name: Shortcut(**entry) for name, entry in module_yaml(__file__).items()}
"""The conditions by name, in the order of tables and figures."""


def altered(frames: Sequence[Frame], shortcut: str | None, seed: str) -> list[Frame]:
    """Return the frames that a condition shows.

    Args:
        frames: The frames of the whole question, in order, at least one.
        shortcut: Name in `SHORTCUTS`. Conditions that do not select or order frames change nothing.
        seed: The question's id, which determines the order of shuffled frames. It never is the original one if there
            are at least two different frames.

    >>> altered([1, 2, 3], "frozen", "7"), altered([1, 2, 3], "reversed", "7"), altered([1, 2, 3], "last_frame", "7")
    ([3, 3, 3], [3, 2, 1], [3])
    """
    whole = list(frames)
    match shortcut:
        case "last_frame":
            return whole[-1:]
        case "first_frame":
            return whole[:1]
        case "frozen":
            return whole[-1:] * len(whole)
        case "reversed":
            return whole[::-1]
        case "shuffled" if any(frame != whole[0] for frame in whole):
            generator, order = random.Random(seed), whole[:]
            while order == whole:
                generator.shuffle(order)
            return order
    return whole
