"""Describe the conditions of a sensitivity run: what a model is asked, and how its replies are
read.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, Preset, load_presets, load_prompts
from lmms_egoplan.benchmarks.egoplan.readers import READERS
from lmms_egoplan.benchmarks.egoplan.visuals import SEPARATE
from lmms_egoplan.errors import LmmsEgoplanError

PRESET = "preset"
"""`Condition.factor` of whole presets."""


@dataclass(frozen=True)
class PromptVariant:
    """Describe what a model is asked. Equal objects need one reply per question.

    Attributes:
        prompt, media, observation, decoding: Name of the preset whose field is used. Presets with
        equal fields have the
            name of the first one. A prompt may also have a name that only `load_prompts` has.
        shift: Positions by which the options are moved down, see `presets.rotated`.
        ranked: Whether the options are ranked by likelihood after the prompt, instead of generating
            a reply.
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
        factor: The varied field (``parser``, ``prompt``, ``media``, ``observation``, ``option
            order``, ``decoding``, ``scoring``), `PRESET` for whole presets, or ``base``.
        level: Its value: the name of a preset or reader, ``rotated by 1``, or ``mean``, ``sum`` or
            ``bytes``.
        asked: What the model is asked.
        parser: Name of a reader in `readers.READERS`; for ranked options, ``mean``, ``sum`` or
            ``bytes``.
    """

    factor: str
    level: str
    asked: PromptVariant
    parser: str


Reply = str | tuple[tuple[float | None, int | None], ...]
"""A written reply, or the mean loss in nats and the number of tokens of each ranked option, in the order asked."""
Replies = Mapping[tuple[PromptVariant, str], Reply]
"""Replies by what was asked and by the question's sample id, as text."""


_FIELDS = ("prompt", "media", "observation", "decoding")
FACTORS = (
    "parser",
    "prompt",
    "media",
    "observation",
    "option order",
    "decoding",
    "scoring",
    PRESET,
)
"""Values of `Condition.factor` except ``base``."""


def conditions(
    benchmark: str, base: str, factors: Collection[str], *, ranks: bool
) -> list[Condition]:
    """Return the base, each other level of each factor, and each preset, in this order.

    Fields that a preset does not state are not levels. If the base ranks the options, it has no
    prompt, decoding, parser or option order to vary. The options are ranked after the record's
    question, whatever the prompt is.

    Args:
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        base: Name of a preset; "" for the first one with written replies.
        factors: Names in `FACTORS`; empty for all.
        ranks: Whether the model can rank options. If not, conditions that rank are skipped.

    Raises:
        LmmsEgoplanError: A name is unknown, a named factor has no other level, or the base ranks
            and the model cannot.

    >>> [condition.level for condition in conditions("egoplan_bench2", "", ["scoring"], ranks=True)]
    ['official', 'mean', 'sum', 'bytes']
    """
    presets = load_presets(benchmark)
    base = base or next(name for name, preset in presets.items() if preset.parser != LIKELIHOOD)
    for option, names, known in (("--base", [base], [*presets]), ("--vary", factors, FACTORS)):
        for name in {*names} - {*known}:
            near = " or ".join(get_close_matches(name, known)) or "another name"
            raise LmmsEgoplanError(
                f"{option} {name}: no such name; did you mean {near}? Known are {', '.join(known)}"
            )
    asks = {name: _preset(presets, preset) for name, preset in presets.items()}
    asked, parser = asks[base]
    if asked.ranked > ranks:
        raise LmmsEgoplanError(
            f"--base {base}: it ranks the options, which the backend cannot; use hf_vlm"
        )
    levels: dict[str, list[tuple[str, PromptVariant, str]]] = {
        "parser": [(reader, asked, reader) for reader in READERS],
        "option order": [
            (f"rotated by {shift}", replace(asked, shift=shift), parser) for shift in (1, 2, 3)
        ],
        "scoring": [
            (level, replace(asked, ranked=True), level) for level in ("mean", "sum", "bytes")
        ],
        PRESET: [(name, *asks[name]) for name in presets],
    }
    for field in _FIELDS:
        names = [name for name, preset in presets.items() if field not in preset.unknown]
        names = [
            name for name in names if field in ("media", "observation") or not asks[name][0].ranked
        ]
        levels[field] = [
            (x, PromptVariant(**vars(asked) | {field: vars(asks[x][0])[field]}), parser)
            for x in names
        ]
    levels["prompt"] += [
        (x, replace(asked, prompt=x), parser) for x in load_prompts(benchmark) if x not in presets
    ]
    if asked.ranked:
        levels |= {factor: [] for factor in ("parser", "prompt", "option order", "decoding")}
    varied: dict[Any, Condition] = {}
    for factor in [factor for factor in FACTORS if factor in (factors or FACTORS)]:
        for level, ask, reader in levels[factor]:
            if (ranks or not ask.ranked) and (factor == PRESET or (ask, reader) != (asked, parser)):
                key = factor, ask, reader, level * (factor == PRESET)
                varied.setdefault(key, Condition(factor, level, ask, reader))
    if names := ", ".join(sorted({*factors} - {factor for factor, *_ in varied})):
        raise LmmsEgoplanError(
            f"--vary {names}: {base} has no other level; choose another --base, or hf_vlm to rank"
        )
    return [Condition("base", base, asked, parser), *varied.values()]


def _preset(presets: Mapping[str, Preset], preset: Preset) -> tuple[PromptVariant, str]:
    """Return what a preset asks, by the first presets with equal fields, and its parser."""
    firsts = []
    for field in _FIELDS:
        # Of the observations, only `SEPARATE` changes what is shown; the others describe the media.
        values = {x: getattr(y, field) for x, y in presets.items()}
        if field == "observation":
            values = {x: value == SEPARATE for x, value in values.items()}
        firsts.append(next(name for name, value in values.items() if value == values[preset.name]))
    prompt, media, observation, decoding = firsts
    asked = PromptVariant(prompt, media, observation, decoding, ranked=preset.parser == LIKELIHOOD)
    return asked, "mean" if asked.ranked else preset.parser
