"""What a planner acts in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from lmms_egoplan.media.clip import Clip


@dataclass(frozen=True)
class Outcome:
    """What became of an action.

    changed: anything is different now. message: what happened, in words. clip: the action as it was seen,
    oldest frame first; empty where nothing was to be seen. done: the action that the clip shows, where that is another
    one than the one asked for, as in a recorded video. past: clips of the latest actions, in place of the clips of
    earlier outcomes and this one; None if those stay as they are.
    """

    changed: bool
    message: str
    clip: Clip
    done: str | None = None
    past: Sequence[Clip] | None = None


class Environment(Protocol):
    """A place to act in, seen from the agent's eyes.

    Whatever a method raises ends the episode as ``environment failed``; its message becomes the episode's problem.
    """

    name: str

    def observe(self) -> Image.Image:
        """Return the current view, RGB."""

    def actions(self) -> Sequence[str] | None:
        """Return what can be asked for now, in words, all different; None if any text will do."""

    def execute(self, action: str) -> Outcome:
        """Carry an action out.

        Args:
            action: one of `actions`, or, of a model that writes freely, a text that is like none of them.
        """

    def done(self) -> bool:
        """Tell if the goal is reached, or, in a recording, its end."""
