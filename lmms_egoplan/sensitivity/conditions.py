"""Describe the conditions of a sensitivity run: the prompts, and how replies are read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from lmms_egoplan.benchmarks.egoplan.frame_settings import SEPARATE
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, Preset, load_presets, load_prompts
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.errors import LmmsEgoplanError

PRESET = "preset"
"""`Condition.factor` of whole presets."""


@dataclass(frozen=True)
class PromptVariant:
    """One way to ask a model. Equal objects need one reply per question.

    Attributes:
        prompt, media, observation, decoding: Name of the preset whose field is used. Presets with
            equal fields have the name of the first one. A prompt may also have a name that only
            `load_prompts` has.
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
        asked: How the model is asked.
        parser: Name of a reader in `READERS`; for ranked options, ``mean``, ``sum`` or
            ``bytes``.
    """

    factor: str
    level: str
    asked: PromptVariant
    parser: str


Reply = str | tuple[tuple[float | None, int | None], ...]
"""A written reply, or a pair for each ranked option, in the order asked.

A pair has the mean loss in nats and the number of tokens.
"""
Replies = Mapping[tuple[PromptVariant, str], Reply]
"""Replies by the way of asking and by the question's sample id, as text."""


@dataclass(frozen=True)
class _Level:
    """A value of a factor: its name, how the model is asked, and how its reply is read."""

    name: str
    asked: PromptVariant
    parser: str


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
    base = base or _first_with_replies(presets)
    _check_names("--base", [base], [*presets])
    _check_names("--vary", factors, FACTORS)
    start = _level(presets, presets[base])
    if start.asked.ranked and not ranks:
        raise LmmsEgoplanError(
            f"--base {base}: it ranks the options, which the backend cannot; use hf_vlm"
        )
    levels = _levels(presets, start, load_prompts(benchmark))
    varied: list[Condition] = []
    for factor in FACTORS:
        if factors and factor not in factors:
            continue
        for level in _distinct(factor, levels[factor]):
            is_base = (level.asked, level.parser) == (start.asked, start.parser)
            if is_base and factor != PRESET:
                continue
            if level.asked.ranked and not ranks:
                continue
            varied.append(Condition(factor, level.name, level.asked, level.parser))
    without_level = {*factors} - {condition.factor for condition in varied}
    if without_level:
        raise LmmsEgoplanError(
            f"--vary {', '.join(sorted(without_level))}: {base} has no other level; choose another "
            "--base, or hf_vlm to rank"
        )
    return [Condition("base", base, start.asked, start.parser), *varied]


def _first_with_replies(presets: Mapping[str, Preset]) -> str:
    """Return the name of the first preset that asks for written replies."""
    return next(name for name, preset in presets.items() if preset.parser != LIKELIHOOD)


def _check_names(option: str, names: Collection[str], known: Sequence[str]) -> None:
    """Raise `LmmsEgoplanError` for a name of an option that is unknown."""
    for name in {*names} - {*known}:
        near = " or ".join(get_close_matches(name, known)) or "another name"
        raise LmmsEgoplanError(
            f"{option} {name}: no such name; did you mean {near}? Known are {', '.join(known)}"
        )


def _distinct(factor: str, levels: Sequence[_Level]) -> list[_Level]:
    """Return the levels without those that ask and read like an earlier one.

    Presets are all kept, because each has its own name.
    """
    distinct: dict[tuple[PromptVariant, str, str], _Level] = {}
    for level in levels:
        name = level.name if factor == PRESET else ""
        distinct.setdefault((level.asked, level.parser, name), level)
    return [*distinct.values()]


def _levels(
    presets: Mapping[str, Preset], base: _Level, prompts: Collection[str]
) -> dict[str, list[_Level]]:
    """Return the levels of each factor, the base's value among them.

    Args:
        presets: The presets of the benchmark, by name.
        base: The preset to start from.
        prompts: Names of all prompts, those of presets among them.
    """
    asked = base.asked
    parser = base.parser
    whole_presets = {name: _level(presets, preset) for name, preset in presets.items()}
    levels = {
        "parser": [_Level(reader, asked, reader) for reader in READERS],
        "option order": [
            _Level(f"rotated by {shift}", replace(asked, shift=shift), parser)
            for shift in (1, 2, 3)
        ],
        "scoring": [
            _Level(rule, replace(asked, ranked=True), rule) for rule in ("mean", "sum", "bytes")
        ],
        PRESET: [*whole_presets.values()],
    }
    for field in _FIELDS:
        levels[field] = []
        for name, preset in presets.items():
            variant = whole_presets[name].asked
            is_media = field in ("media", "observation")
            if field in preset.unknown or (variant.ranked and not is_media):
                continue
            changed = _with_field(asked, field, variant)
            levels[field].append(_Level(name, changed, parser))
    for name in prompts:
        if name not in presets:
            levels["prompt"].append(_Level(name, replace(asked, prompt=name), parser))
    if asked.ranked:
        for factor in ("parser", "prompt", "option order", "decoding"):
            levels[factor] = []
    return levels


def _with_field(asked: PromptVariant, field: str, other: PromptVariant) -> PromptVariant:
    """Return a way of asking with one field of another one."""
    if field == "prompt":
        return replace(asked, prompt=other.prompt)
    if field == "media":
        return replace(asked, media=other.media)
    if field == "observation":
        return replace(asked, observation=other.observation)
    return replace(asked, decoding=other.decoding)


def _level(presets: Mapping[str, Preset], preset: Preset) -> _Level:
    """Return a preset as a level. A field has the name of the first preset with an equal one."""
    is_ranked = preset.parser == LIKELIHOOD
    asked = PromptVariant(
        prompt=_first_equal(presets, preset, lambda other: other.prompt),
        media=_first_equal(presets, preset, lambda other: other.media),
        # Only `SEPARATE` changes what is shown; other observations describe the media.
        observation=_first_equal(presets, preset, lambda other: other.observation == SEPARATE),
        decoding=_first_equal(presets, preset, lambda other: other.decoding),
        ranked=is_ranked,
    )
    return _Level(preset.name, asked, "mean" if is_ranked else preset.parser)


def _first_equal(
    presets: Mapping[str, Preset], preset: Preset, value: Callable[[Preset], Any]
) -> str:
    """Return the name of the first preset with the same value as this one."""
    return next(name for name, other in presets.items() if value(other) == value(preset))
