"""Draw things on a worktop, as seen by the person whose hands move them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]

FRAME_SIZE = (160, 120)

# The canvas is twice a frame's size, plus a margin in which the view sways.
_MARGIN = 10
_VIEW = (2 * FRAME_SIZE[0], 2 * FRAME_SIZE[1])
_CANVAS = (_VIEW[0] + 2 * _MARGIN, _VIEW[1] + 2 * _MARGIN)
_HORIZON = 130

_WHITE, _GREY, _DARK = (244, 244, 238), (170, 174, 178), (52, 46, 42)
_SKIN, _NAIL = (224, 172, 136), (240, 205, 180)
_FLAME = (255, 96, 40)


@dataclass(frozen=True)
class Thing:
    """A drawn thing; lengths are canvas pixels, 340 x 260 with the origin at the top left.

    Attributes:
        kind: The name of the drawing function.
        x: Horizontal position of the middle of the lower edge.
        y: Vertical position of the lower edge.
        width: Width of the box.
        height: Height of the box.
        colour: Main colour.
        inside: Colour of the content or cover.
        amount: The kind's one property, in [0, 1]: how far it is open, full, tilted, cut, covered
            or switched on.
    """

    kind: str
    x: float
    y: float
    width: float
    height: float
    colour: Colour
    inside: Colour = _DARK
    amount: float = 0.0

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom."""
        return self.x - self.width / 2, self.y - self.height, self.x + self.width / 2, self.y

    @property
    def centre(self) -> Point:
        """Return the middle of the box."""
        return self.x, self.y - self.height / 2


def draw_view(
    wall: Colour, worktop: Colour, sleeve: Colour, things: Iterable[Thing], hand: Point, sway: Point
) -> Image.Image:
    """Draw one frame, RGB of size `FRAME_SIZE`: the things, the last in front, and the person's
    hands.

    Args:
        hand: Position of the right hand, in canvas pixels.
        sway: How far the head has turned, in canvas pixels, each in [-10, 10].
    """
    image = _backdrop(wall, worktop).copy()
    draw = ImageDraw.Draw(image)
    for thing in things:
        _KINDS[thing.kind](draw, thing)
    _draw_hand(draw, (62 - sway[0], 236 - sway[1]), sleeve, elbow=20)
    _draw_hand(draw, hand, sleeve, elbow=300)
    left, top = _MARGIN + sway[0], _MARGIN + sway[1]
    return image.crop(
        (round(left), round(top), round(left) + _VIEW[0], round(top) + _VIEW[1])
    ).reduce(2)


@lru_cache(maxsize=8)
def _backdrop(wall: Colour, worktop: Colour) -> Image.Image:
    image = Image.new("RGB", _CANVAS, wall)
    draw = ImageDraw.Draw(image)
    joint = _blend(wall, _DARK, 0.15)
    for y in range(_HORIZON, 0, -26):
        draw.line((0, y, _CANVAS[0], y), joint, 2)
    for x in range(8, _CANVAS[0], 36):
        draw.line((x, 0, x, _HORIZON), joint, 2)
    draw.rectangle((0, _HORIZON, *_CANVAS), worktop)
    draw.rectangle((0, _HORIZON, _CANVAS[0], _HORIZON + 5), _blend(worktop, _WHITE, 0.4))
    for y in range(_HORIZON + 24, _CANVAS[1], 30):
        draw.line((0, y, _CANVAS[0], y + 6), _blend(worktop, _DARK, 0.12), 2)
    return image


def _draw_hand(draw: ImageDraw.ImageDraw, position: Point, sleeve: Colour, elbow: float) -> None:
    """Draw a forearm from below, starting at `elbow`, and a hand at `position` with fingers up."""
    x, y = position
    side = 1 if elbow > _CANVAS[0] / 2 else -1
    draw.line((elbow, _CANVAS[1] + 40, x + 8 * side, y + 34), sleeve, 40)
    draw.line((x + 10 * side, y + 42, x + 2 * side, y + 14), _SKIN, 24)
    draw.ellipse((x - 17, y, x + 17, y + 32), _SKIN, _blend(_SKIN, _DARK, 0.3))
    for finger, length in enumerate((10, 14, 13, 8)):
        left = x - 15 + 8 * finger
        draw.line((left + 3, y + 10, left + 3, y - length), _SKIN, 7)
        draw.ellipse((left, y - length - 4, left + 6, y - length + 3), _NAIL)
    draw.line((x - 14 * side, y + 16, x - 24 * side, y + 4), _SKIN, 8)


def _blend(first: Colour, second: Colour, fraction: float) -> Colour:
    red, green, blue = (round(a + (b - a) * fraction) for a, b in zip(first, second, strict=True))
    return red, green, blue


def _turn(point: Point, centre: Point, degrees: float) -> Point:
    """Turn a point anticlockwise around a centre."""
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    x, y = point[0] - centre[0], point[1] - centre[1]
    return centre[0] + x * cosine + y * sine, centre[1] - x * sine + y * cosine


def _cabinet(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw the inside of a cupboard or fridge, with a shelf."""
    left, top, right, bottom = thing.box
    draw.rectangle(thing.box, thing.inside, thing.colour, 5)
    draw.line((left, (top + bottom) / 2, right, (top + bottom) / 2), thing.colour, 4)


def _door(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a door with hinges on the left; `amount`: how far open."""
    left, top, right, bottom = thing.box
    edge = _blend(thing.colour, _DARK, 0.4)
    if thing.amount > 0.02:
        tip, drop = left - 0.4 * thing.width * thing.amount, 12 * thing.amount
        swung = [(left, top), (tip, top + drop), (tip, bottom + drop), (left, bottom)]
        draw.polygon(swung, _blend(thing.colour, _DARK, 0.2), edge)
    right -= thing.width * thing.amount
    if right - left > 2:
        draw.rectangle((left, top, right, bottom), thing.colour, edge, 2)
        draw.line(
            (right - 8, top + 0.4 * thing.height, right - 8, top + 0.6 * thing.height), edge, 4
        )


def _carton(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a bottle, carton, bag or can that pours to its left; `amount`: how far tilted."""
    left, top, right, bottom = thing.box
    centre = thing.centre

    def tilted(*corners: Point) -> list[Point]:
        return [_turn(corner, centre, 105 * thing.amount) for corner in corners]

    ((x, y),) = tilted((thing.x, top - 8))
    if thing.amount > 0.6:
        draw.line((x, y, x - 3, y + 46), thing.inside, 6)
    spout = tilted(
        (thing.x - 5, top - 8), (thing.x + 5, top - 8), (thing.x + 5, top), (thing.x - 5, top)
    )
    draw.polygon(spout, _WHITE, _DARK)
    body = tilted((left, top), (right, top), (right, bottom), (left, bottom))
    draw.polygon(body, thing.colour, _DARK)
    band = (top + 0.35 * thing.height, top + 0.65 * thing.height)
    draw.polygon(
        tilted((left, band[0]), (right, band[0]), (right, band[1]), (left, band[1])), thing.inside
    )


def _box(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a packet with a lid; `amount`: how far open."""
    left, top, right, bottom = thing.box
    draw.rectangle(thing.box, thing.colour, _DARK)
    draw.ellipse((left + 6, top + 0.35 * thing.height, right - 6, bottom - 8), thing.inside)
    lift = 26 * thing.amount
    lid = [(left, top), (left - lift / 2, top - lift), (right - lift, top - lift - 4), (right, top)]
    draw.polygon(lid, _blend(thing.colour, _WHITE, 0.5), _DARK)


def _vessel(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a glass, bowl or pot; `amount`: how full."""
    left, top, right, bottom = thing.box
    slope = 0.18 * thing.width

    def level(fraction: float) -> tuple[Point, Point]:
        y = bottom - fraction * thing.height
        return (left + slope * (1 - fraction), y), (right - slope * (1 - fraction), y)

    (a, b), (c, d) = level(0), level(1)
    draw.polygon([a, b, d, c], thing.colour, _DARK)
    if thing.amount > 0.02:
        (a, b), (c, d) = level(0.06), level(0.06 + 0.86 * thing.amount)
        draw.polygon([a, b, d, c], thing.inside)
    draw.ellipse((left, top - 5, right, top + 5), None, _DARK, 2)


def _fruit(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a round fruit; `amount`: how far it is cut into slices."""
    left, top, right, bottom = thing.box
    if thing.amount < 0.05:
        draw.ellipse(thing.box, thing.colour, _DARK)
        draw.ellipse((thing.x - 5, top - 2, thing.x + 5, top + 4), (70, 140, 60))
        return
    gap = 0.45 * thing.width * thing.amount
    for number in (-1.5, -0.5, 0.5, 1.5):
        shift = number * gap
        draw.ellipse((left + 8 + shift, top, right - 8 + shift, bottom), thing.colour, _DARK)
        draw.ellipse((left + 12 + shift, top + 5, right - 12 + shift, bottom - 5), thing.inside)


def _slab(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a board, plank or cloth; `amount`: the fraction covered, from the left."""
    left, top, _, bottom = thing.box
    draw.rectangle(thing.box, thing.colour, _DARK)
    if thing.amount > 0.02:
        draw.rectangle((left, top, left + thing.width * thing.amount, bottom), thing.inside)


def _spill(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a spill; `amount`: how much remains."""
    x, y = thing.centre
    width, height = (side / 2 * thing.amount for side in (thing.width, thing.height))
    draw.ellipse((x - width, y - height, x + width, y + height), thing.colour)


def _knife(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a knife."""
    left, top, right, bottom = thing.box
    draw.polygon(
        [(left, bottom), (left + 14, top), (thing.x, top), (thing.x, bottom)], thing.colour, _DARK
    )
    draw.rectangle((thing.x, top, right, top + 9), thing.inside)


def _tap(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a tap; `amount`: how far it is turned on."""
    left, top, right, bottom = thing.box
    draw.line([(left, bottom), (left, top), (right, top), (right, top + 16)], thing.colour, 10)
    if thing.amount > 0.05:
        draw.line((right, top + 16, right, bottom + 40), thing.inside, round(2 + 6 * thing.amount))


def _hob(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a hob; `amount`: how hot it is."""
    left, top, right, bottom = thing.box
    draw.ellipse(thing.box, thing.colour, _DARK, 3)
    draw.ellipse(
        (left + 5, top + 4, right - 5, bottom - 4), None, _blend(_GREY, _FLAME, thing.amount), 5
    )


def _pan(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a pan; `amount`: how full."""
    left, top, right, bottom = thing.box
    draw.line((right - 6, thing.centre[1], right + 48, thing.centre[1] + 12), _DARK, 10)
    draw.ellipse(thing.box, thing.colour, _DARK, 2)
    rim = 8 + 30 * (1 - thing.amount)
    if thing.amount > 0.05 and thing.width > 2 * rim:
        draw.ellipse((left + rim, top + rim * 0.4, right - rim, bottom - rim * 0.4), thing.inside)


def _egg(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw an egg; `amount`: how far it has run out of its shell."""
    x, y = thing.centre
    if thing.amount < 0.3:
        draw.ellipse(thing.box, thing.colour, _DARK)
        return
    width, height = thing.width * (0.5 + 0.7 * thing.amount), thing.height * 0.4
    draw.ellipse((x - width, y - height, x + width, y + height), _WHITE, _GREY)
    draw.ellipse((x - 8, y - 6, x + 8, y + 6), thing.inside)


def _brush(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a brush; `amount`: how much paint is on it."""
    left, top, right, bottom = thing.box
    draw.line((left + 12, top + 12, right, bottom), thing.colour, 9)
    bristles = [
        (left - 6, top + 8),
        (left + 6, top - 6),
        (left + 22, top + 12),
        (left + 12, top + 24),
    ]
    draw.polygon(bristles, _blend(_GREY, thing.inside, thing.amount), _DARK)


def _can(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a paint can; `amount`: how far its lid is off."""
    left, top, right, bottom = thing.box
    draw.rectangle(thing.box, thing.colour, _DARK)
    draw.rectangle((left, top + 0.4 * thing.height, right, bottom - 8), thing.inside)
    draw.ellipse((left, top - 8, right, top + 8), thing.inside, _DARK, 2)
    shift, drop = 0.9 * thing.width * thing.amount, 40 * thing.amount
    draw.ellipse((left - shift, top - 10 + drop, right - shift, top + 6 + drop), _GREY, _DARK, 2)


def _plant(draw: ImageDraw.ImageDraw, thing: Thing) -> None:
    """Draw a plant."""
    left, top, right, bottom = thing.box
    for end in (-10, 0, 10):
        draw.line((thing.x, bottom - 16, thing.x + end, bottom), thing.inside, 3)
    draw.line((thing.x, bottom - 14, thing.x, top), thing.colour, 5)
    draw.ellipse((left, top, thing.x, top + 16), thing.colour, _DARK)
    draw.ellipse((thing.x, top - 8, right, top + 8), thing.colour, _DARK)
    draw.ellipse((thing.x - 2, top + 16, right, top + 30), thing.colour, _DARK)


_KINDS: dict[str, Callable[[ImageDraw.ImageDraw, Thing], None]] = {
    draw.__name__.lstrip("_"): draw
    for draw in (
        *(_box, _brush, _cabinet, _can, _carton, _door, _egg, _fruit),
        *(_hob, _knife, _pan, _plant, _slab, _spill, _tap, _vessel),
    )
}
