"""Describe the conditions of a sensitivity run: what a model is asked, and how its replies are read."""

from collections.abc import Mapping
from dataclasses import dataclass

PRESET = "preset"
"""`Condition.factor` of whole presets."""


@dataclass(frozen=True)
class Asked:
    """What a model is asked. Equal objects need one reply per question.

    Attributes:
        prompt, media, observation, decoding: Name of the preset whose field is used. Presets with equal fields have the
            name of the first one.
        shift: Positions by which the options are moved down, see `presets.rotated`.
        ranked: Whether the options are ranked by likelihood after the prompt, instead of generating a reply.
    """

    prompt: str
    media: str
    observation: str
    decoding: str
    shift: int = 0
    ranked: bool = False


@dataclass(frozen=True)
class Condition:
    """One way to score a model.

    Attributes:
        factor: The varied field (``parser``, ``prompt``, ``media``, ``observation``, ``option order``, ``decoding``,
            ``scoring``), `PRESET` for whole presets, or ``base``.
        level: Its value: the name of a preset or reader, ``rotated by 1``, or ``mean``, ``sum`` or ``bytes``.
        asked: What the model is asked.
        parser: Name of a reader in `readers.READERS`; for ranked options, ``mean``, ``sum`` or ``bytes``.
    """

    factor: str
    level: str
    asked: Asked
    parser: str


Reply = str | tuple[tuple[float | None, int | None], ...]
"""A written reply, or the mean loss in nats and the number of tokens of each ranked option, in the order asked."""
Replies = Mapping[tuple[Asked, str], Reply]
"""Replies by what was asked and by the question's sample id, as text."""
