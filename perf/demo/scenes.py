"""Short first-person scenes: visible things, and a person's steps towards a goal."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from drawing import Colour, Point, Thing, draw_view
from PIL import Image
from pydantic import TypeAdapter

from lmms_egoplan.paths import module_yaml

FPS = 10
STEP_FRAMES = 14
# Nothing happens for 0.8 s between two steps: an observation 0.5 s before the next step shows no
# hand on a thing.
PAUSE_FRAMES = 8

_REST: Point = (262, 246)
# Fractions of a step at which the hand arrives and releases.
_GRASP, _RELEASE = 0.25, 0.8

Changes = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Step:
    """One action of the hand.

    Attributes:
        narration: The action as text.
        hand: The name of the thing that the hand holds or touches.
        to: For each thing, the new values of its attributes.
        meanwhile: For each thing, temporary values that return to the old ones by the end of the
            step.
    """

    narration: str
    hand: str
    to: Changes = field(default_factory=dict)
    meanwhile: Changes = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A goal, the visible things, from back to front, and the steps that reach the goal."""

    goal: str
    domain: str
    wall: Colour
    worktop: Colour
    sleeve: Colour
    things: Mapping[str, Thing]
    steps: tuple[Step, ...]

    def span(self, step: int) -> tuple[int, int]:
        """Return the first and the last frame of a step, counted from 0."""
        start = PAUSE_FRAMES + step * (STEP_FRAMES + PAUSE_FRAMES)
        return start, start + STEP_FRAMES - 1

    def first_change(self, step: int) -> int:
        """Return the first frame that a step changes, counted from 0: the hand has just arrived."""
        return self.span(step)[0] + int(_GRASP * STEP_FRAMES)

    def frames(self) -> Iterator[Image.Image]:
        """Draw all frames in order, `FPS` per second: a pause, then each step and a pause."""
        return map(self.frame, range(self.span(len(self.steps))[0]))

    def frame(self, number: int) -> Image.Image:
        """Draw one frame, counted from 0."""
        things, hand = self._state_at(number)
        sway = (5 * math.sin(number / 9), 3 * math.sin(number / 6))
        return draw_view(self.wall, self.worktop, self.sleeve, things.values(), hand, sway)

    def _state_at(self, number: int) -> tuple[dict[str, Thing], Point]:
        """Return the things in a frame, and the position of the hand."""
        things = dict(self.things)
        for index, step in enumerate(self.steps):
            start, stop = self.span(index)
            if number < start:
                break
            if number <= stop:
                return _partial_step(things, step, (number - start + 1) / STEP_FRAMES)
            things = _apply(things, step.to, 1)
        return things, _REST


def _partial_step(
    things: dict[str, Thing], step: Step, time: float
) -> tuple[dict[str, Thing], Point]:
    """Return the things and the hand's position at a fraction of the step, in (0, 1]."""
    progress = _ease((time - _GRASP) / (_RELEASE - _GRASP))
    moved_things = _apply(things, step.to, progress)
    moved_things = _apply(moved_things, step.meanwhile, min(1, 3 * progress, 3 * (1 - progress)))
    reach = (
        _ease(time / _GRASP) if time < _RELEASE else 1 - _ease((time - _RELEASE) / (1 - _RELEASE))
    )
    x, y = moved_things[step.hand].centre
    return moved_things, (_REST[0] + (x - _REST[0]) * reach, _REST[1] + (y - _REST[1]) * reach)


def _apply(things: dict[str, Thing], changes: Changes, fraction: float) -> dict[str, Thing]:
    """Move the attributes of things by a fraction of the way to their new values."""
    changed_things = {
        name: replace(
            things[name],
            **{
                attribute: (old := getattr(things[name], attribute)) + (value - old) * fraction
                for attribute, value in attributes.items()
            },
        )
        for name, attributes in changes.items()
    }
    return things | changed_things


def _ease(time: float) -> float:
    """Ease from 0 to 1, slowly at both ends."""
    time = min(1.0, max(0.0, time))
    return time * time * (3 - 2 * time)


SCENES = TypeAdapter(tuple[Scene, ...]).validate_python(module_yaml(__file__)["scenes"])
