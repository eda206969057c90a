"""Short first-person scenes: what is there, and which steps a person takes to reach a goal."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from PIL import Image

from lmms_egoplan.demo.drawing import Colour, Point, Thing, draw_view

FPS = 10
STEP_FRAMES = 14
# Between two steps nothing happens for 0.8 s: an observation 0.5 s before the next step shows no hand on it.
PAUSE_FRAMES = 8

_REST: Point = (262, 246)
# Shares of a step at which the hand has arrived, and at which it lets go.
_GRASP, _RELEASE = 0.25, 0.8

Changes = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Step:
    """What a hand does.

    hand: the thing that it holds or touches.
    to: for each thing, the attributes that change, and to what.
    meanwhile: the same for what returns to what it was by the end of the step.
    """

    narration: str
    hand: str
    to: Changes = field(default_factory=dict)
    meanwhile: Changes = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """A goal, the things in sight, from back to front, and the steps that reach the goal."""

    goal: str
    wall: Colour
    worktop: Colour
    sleeve: Colour
    things: Mapping[str, Thing]
    steps: tuple[Step, ...]

    def span(self, step: int) -> tuple[int, int]:
        """First and last frame of a step, counted from 0."""
        start = PAUSE_FRAMES + step * (STEP_FRAMES + PAUSE_FRAMES)
        return start, start + STEP_FRAMES - 1

    def first_change(self, step: int) -> int:
        """First frame, counted from 0, in which the step has changed something: the hand has just arrived."""
        return self.span(step)[0] + int(_GRASP * STEP_FRAMES)

    def frames(self) -> Iterator[Image.Image]:
        """All frames in order, `FPS` a second: a pause, then every step and a pause."""
        things = dict(self.things)
        states = [(things, _REST)] * PAUSE_FRAMES
        for step in self.steps:
            states += [_moment(things, step, (frame + 1) / STEP_FRAMES) for frame in range(STEP_FRAMES)]
            things = _apply(things, step.to, 1)
            states += [(things, _REST)] * PAUSE_FRAMES
        for number, (now, hand) in enumerate(states):
            sway = (5 * math.sin(number / 9), 3 * math.sin(number / 6))
            yield draw_view(self.wall, self.worktop, self.sleeve, now.values(), hand, sway)


def _moment(things: dict[str, Thing], step: Step, time: float) -> tuple[dict[str, Thing], Point]:
    """The things and the hand at a share of the step, in (0, 1]."""
    acting = _ease((time - _GRASP) / (_RELEASE - _GRASP))
    now = _apply(things, step.to, acting)
    now = _apply(now, step.meanwhile, min(1, 3 * acting, 3 * (1 - acting)))
    reach = _ease(time / _GRASP) if time < _RELEASE else 1 - _ease((time - _RELEASE) / (1 - _RELEASE))
    x, y = now[step.hand].centre
    return now, (_REST[0] + (x - _REST[0]) * reach, _REST[1] + (y - _REST[1]) * reach)


def _apply(things: dict[str, Thing], changes: Changes, share: float) -> dict[str, Thing]:
    moved = {
        name: replace(
            things[name],
            **{
                attribute: (old := getattr(things[name], attribute)) + (value - old) * share
                for attribute, value in attributes.items()
            },
        )
        for name, attributes in changes.items()
    }
    return things | moved


def _ease(time: float) -> float:
    """From 0 to 1, slow at both ends."""
    time = min(1.0, max(0.0, time))
    return time * time * (3 - 2 * time)


_TILES, _STONE = (206, 216, 214), (186, 164, 136)
_BLUE_TILES, _BEECH = (176, 200, 214), (206, 176, 130)
_PLASTER, _BENCH = (214, 206, 186), (150, 120, 92)
_RED, _ORANGE, _GREEN = (206, 62, 50), (240, 150, 40), (74, 150, 70)
_BLUE, _WATER, _YELLOW = (60, 110, 180), (130, 190, 235), (244, 204, 60)
_WOOD, _SOIL, _CLAY = (190, 140, 84), (84, 58, 40), (190, 104, 70)
_STEEL, _IRON, _PALE = (196, 200, 206), (70, 72, 78), (228, 236, 240)

SCENES = (
    Scene(
        goal="put away the rice",
        wall=_TILES,
        worktop=_STONE,
        sleeve=(70, 84, 130),
        things={
            "cupboard": Thing("cabinet", 92, 122, 116, 104, _WOOD, _SOIL),
            "spill": Thing("spill", 170, 222, 90, 24, _PALE, amount=1),
            "rice": Thing("box", 230, 190, 48, 66, _RED, _PALE, amount=1),
            "door": Thing("door", 92, 122, 116, 104, _WOOD),
            "cloth": Thing("slab", 290, 214, 46, 18, _BLUE),
        },
        steps=(
            Step("close rice box", "rice", {"rice": {"amount": 0}}),
            Step("open cupboard", "door", {"door": {"amount": 1}}),
            Step("put rice box into cupboard", "rice", {"rice": {"x": 96, "y": 118}}),
            Step("close cupboard", "door", {"door": {"amount": 0}}),
            Step("wipe counter", "cloth", {"spill": {"amount": 0}}, {"cloth": {"x": 160, "y": 226}}),
        ),
    ),
    Scene(
        goal="drink a glass of juice",
        wall=_TILES,
        worktop=_STONE,
        sleeve=(70, 84, 130),
        things={
            "fridge": Thing("cabinet", 272, 196, 96, 180, _STEEL, _PALE),
            "juice": Thing("carton", 276, 188, 30, 58, _GREEN, _ORANGE),
            "door": Thing("door", 272, 196, 96, 180, _STEEL),
            "glass": Thing("vessel", 96, 206, 38, 54, _PALE, _ORANGE),
        },
        steps=(
            Step("open fridge", "door", {"door": {"amount": 1}}),
            Step("take juice", "juice", {"juice": {"x": 164, "y": 206}}),
            Step("close fridge", "door", {"door": {"amount": 0}}),
            Step(
                "pour juice into glass",
                "juice",
                {"glass": {"amount": 0.9}},
                {"juice": {"x": 134, "y": 166, "amount": 1}},
            ),
            Step("drink juice", "glass", {"glass": {"amount": 0.1}}, {"glass": {"x": 170, "y": 256}}),
        ),
    ),
    Scene(
        goal="make a tomato salad",
        wall=_BLUE_TILES,
        worktop=_BEECH,
        sleeve=(170, 60, 70),
        things={
            "sink": Thing("spill", 72, 192, 120, 46, _STEEL, amount=1),
            "tap": Thing("tap", 56, 136, 30, 60, _IRON, _WATER),
            "board": Thing("slab", 182, 218, 124, 40, _WOOD),
            "tomato": Thing("fruit", 120, 200, 34, 30, _RED, (240, 130, 100)),
            "bowl": Thing("vessel", 276, 180, 84, 38, _BLUE, _GREEN, amount=0.3),
            "knife": Thing("knife", 296, 222, 80, 14, _STEEL, _IRON),
        },
        steps=(
            Step("wash tomato", "tomato", meanwhile={"tomato": {"x": 72, "y": 172}, "tap": {"amount": 1}}),
            Step("put tomato on board", "tomato", {"tomato": {"x": 180, "y": 212}}),
            Step("take knife", "knife", {"knife": {"x": 216, "y": 200}}),
            Step("cut tomato", "knife", {"tomato": {"amount": 1}}, {"knife": {"x": 180, "y": 208}}),
            Step("put tomato into bowl", "tomato", {"tomato": {"x": 276, "y": 158, "amount": 0.6}}),
        ),
    ),
    Scene(
        goal="fry an egg",
        wall=_PLASTER,
        worktop=_PALE,
        sleeve=(60, 110, 84),
        things={
            "hob": Thing("hob", 120, 196, 104, 44, _IRON),
            "knob": Thing("spill", 120, 232, 20, 16, _IRON, amount=1),
            "pan": Thing("pan", 252, 216, 92, 36, _STEEL, _YELLOW),
            "oil": Thing("carton", 206, 160, 22, 50, _YELLOW, (226, 190, 80)),
            "egg": Thing("egg", 44, 176, 24, 30, (226, 190, 150), _ORANGE),
        },
        steps=(
            Step("put pan on hob", "pan", {"pan": {"x": 120, "y": 190}}),
            Step("turn on hob", "knob", {"hob": {"amount": 1}}),
            Step(
                "pour oil into pan",
                "oil",
                {"pan": {"amount": 1}},
                {"oil": {"x": 154, "y": 142, "amount": 1}},
            ),
            Step("crack egg into pan", "egg", {"egg": {"x": 120, "y": 186, "amount": 1}}),
            Step("turn off hob", "knob", {"hob": {"amount": 0}}),
        ),
    ),
    Scene(
        goal="paint a board",
        wall=_PLASTER,
        worktop=_BENCH,
        sleeve=(96, 96, 100),
        things={
            "board": Thing("slab", 196, 126, 220, 56, _WOOD, _BLUE),
            "can": Thing("can", 92, 216, 58, 56, _STEEL, _BLUE),
            "brush": Thing("brush", 250, 216, 62, 44, _RED, _BLUE),
        },
        steps=(
            Step("open paint can", "can", {"can": {"amount": 1}}),
            Step(
                "dip brush into paint",
                "brush",
                {"brush": {"x": 170, "y": 180, "amount": 1}},
                {"brush": {"x": 108, "y": 186}},
            ),
            Step(
                "paint board",
                "brush",
                {"board": {"amount": 1}, "brush": {"x": 300, "y": 150}},
                {"brush": {"y": 126}},
            ),
            Step("put down brush", "brush", {"brush": {"x": 240, "y": 224, "amount": 0.3}}),
            Step("close paint can", "can", {"can": {"amount": 0}}),
        ),
    ),
    Scene(
        goal="plant a seedling",
        wall=(190, 208, 176),
        worktop=_BENCH,
        sleeve=(214, 180, 90),
        things={
            "seedling": Thing("plant", 284, 210, 48, 66, _GREEN, _SOIL),
            "pot": Thing("vessel", 120, 214, 74, 58, _CLAY, _SOIL),
            "soil": Thing("carton", 196, 174, 46, 70, _BLUE, _SOIL),
            "watering can": Thing("carton", 50, 168, 36, 44, _GREEN, _WATER),
        },
        steps=(
            Step(
                "pour soil into pot",
                "soil",
                {"pot": {"amount": 1}},
                {"soil": {"x": 172, "y": 150, "amount": 1}},
            ),
            Step("take seedling", "seedling", {"seedling": {"x": 236, "y": 196}}),
            Step("put seedling into pot", "seedling", {"seedling": {"x": 120, "y": 168}}),
            Step("take watering can", "watering can", {"watering can": {"x": 206, "y": 226}}),
            Step(
                "water seedling",
                "watering can",
                {"seedling": {"height": 80}},
                {"watering can": {"x": 160, "y": 120, "amount": 1}},
            ),
        ),
    ),
)
