"""Vary the scenes: shift their things and change their colours."""

import random
from dataclasses import replace

from drawing import Colour
from scenes import Changes, Scene

# Maximum changes: lengths in canvas pixels, colours on a scale of 0 to 255.
_SHIFT = (14, 8)
_RECOLOURED, _REPAINTED, _RESLEEVED = 40, 30, 90


def vary(scene: Scene, generator: random.Random) -> Scene:
    """Return the same goal and steps in a world with shifted things and different colours."""
    dx, dy = (generator.randint(-shift, shift) for shift in _SHIFT)

    def shifted(changes: Changes) -> Changes:
        offsets = {"x": dx, "y": dy}
        return {
            thing: {name: value + offsets.get(name, 0) for name, value in attributes.items()}
            for thing, attributes in changes.items()
        }

    def recoloured(colour: Colour, max_change: int = _RECOLOURED) -> Colour:
        red, green, blue = (
            min(255, max(0, part + generator.randint(-max_change, max_change))) for part in colour
        )
        return red, green, blue

    return replace(
        scene,
        wall=recoloured(scene.wall, _REPAINTED),
        worktop=recoloured(scene.worktop, _REPAINTED),
        sleeve=recoloured(scene.sleeve, _RESLEEVED),
        things={
            name: replace(
                thing,
                x=thing.x + dx,
                y=thing.y + dy,
                colour=recoloured(thing.colour),
                inside=recoloured(thing.inside),
            )
            for name, thing in scene.things.items()
        },
        steps=tuple(
            replace(step, to=shifted(step.to), meanwhile=shifted(step.meanwhile))
            for step in scene.steps
        ),
    )
