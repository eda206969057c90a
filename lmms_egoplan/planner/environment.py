"""What a planner acts in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.clip import Clip


class EnvironmentFailedError(LmmsEgoplanError):
    """An environment can no longer be observed or acted in; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What became of an action.

    changed: whether anything is different now. message: what happened, in words. clip: the action as it was seen,
    oldest frame first; empty where nothing was to be seen. done: the action that the clip shows, where that is another
    one than the one asked for, as in a recorded video.
    """

    changed: bool
    message: str
    clip: Clip
    done: str | None = None


class Environment(Protocol):
    """A place to act in, seen from the agent's eyes."""

    name: str

    def observe(self) -> Image.Image:
        """The current view, RGB.

        Raises:
            EnvironmentFailedError: there is none.
        """

    def actions(self) -> Sequence[str] | None:
        """What can be asked for now, in words, all different; None where any text may be."""

    def execute(self, action: str) -> Outcome:
        """Carry an action out, one of `actions` where there are any.

        Raises:
            EnvironmentFailedError: nobody knows what became of it.
        """

    def done(self) -> bool:
        """Whether the goal is reached, or, in a recording, its end."""
