"""Ask EgoPlan-Bench and EgoPlan-Bench2 as published pipelines do.

``presets.yaml`` describes the pipelines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lmms_egoplan.benchmarks.egoplan.question import LETTERS, tuned_opening
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.paths import module_yaml

FIELDS = (
    "prompt",
    "media",
    "observation",
    "option_order",
    "decoding",
    "thinking",
    "parser",
    "subset",
)
LIKELIHOOD = "likelihood"
"""`Preset.parser` of pipelines that rank the options by likelihood. They have no decoding."""


@dataclass(frozen=True)
class Preset:
    """How a pipeline asks a benchmark.

    Attributes:
        name: Name of the pipeline, such as ``flageval``.
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        source: Repository and commit, or paper.
        prompt: Text with the fields that `prompt_of` describes.
        media: Settings of `FrameReader.visual_input`, without the observation.
        observation: ``last frame`` (of the media), ``separate`` (also an image after the media), or
            in words.
        option_order: ``stored``, or in words.
        decoding: Generation arguments, by transformers' names. ``do_sample: null`` leaves sampling
            to the model.
        thinking: Whether the model thinks first: ``off``, ``on``, ``asked for`` (by the prompt),
            ``per checkpoint``.
        parser: Name in `readers.READERS`, or `LIKELIHOOD`.
        subset: The questions, in words.
        pixels: Limits on the pixels of an image and of a video frame, by the names of the backends'
            arguments; empty if the source states none.
        unknown: Fields that the source does not state. They have the values of ``fallback``.
        gaps: By field that the source states in part, or that is followed in part: what is missing,
            in words.
    """

    name: str
    benchmark: str
    source: str
    prompt: str
    media: Mapping[str, Any]
    observation: str
    option_order: str
    decoding: Mapping[str, Any]
    thinking: str
    parser: str
    subset: str
    unknown: tuple[str, ...]
    gaps: Mapping[str, str]
    pixels: Mapping[str, int]

    @property
    def open_fields(self) -> tuple[str, ...]:
        """The unknown fields, and those with gaps.

        A gap is ``prompt (stored questions not seen)``, for example.
        """
        gaps = [f"{field} ({gap})" for field, gap in self.gaps.items()]
        return (*self.unknown, *gaps)

    @property
    def visual_settings(self) -> dict[str, Any]:
        """Settings of `FrameReader.visual_input`, with the observation."""
        return {**self.media, "observation": self.observation}


@cache
def load_presets(benchmark: str) -> dict[str, Preset]:
    """Return the presets of a benchmark, by name."""
    entries = module_yaml(__file__)[benchmark]
    fallback = entries["fallback"]
    return {
        name: _preset(benchmark, name, entry, fallback)
        for name, entry in entries.items()
        if name not in ("fallback", "prompts")
    }


def _preset(
    benchmark: str, name: str, entry: Mapping[str, Any], fallback: Mapping[str, Any]
) -> Preset:
    """Read a preset. Fields that it does not state have the values of `fallback`."""
    unknown = tuple(field for field in FIELDS if entry.get(field) is None)
    stated = {field: entry[field] for field in FIELDS if field not in unknown}
    values = {**fallback, **stated}
    return Preset(
        name=name,
        benchmark=benchmark,
        source=entry["source"],
        prompt=values["prompt"],
        media=values["media"],
        observation=values["observation"],
        option_order=values["option_order"],
        decoding=values["decoding"],
        thinking=values["thinking"],
        parser=values["parser"],
        subset=values["subset"],
        unknown=unknown,
        gaps=entry.get("gaps", {}),
        pixels=entry.get("pixels", {}),
    )


def stated_pixels(name: str) -> Mapping[str, int]:
    """Return the limits on pixels of a pipeline, which are equal for its benchmarks.

    They are empty if it states none.

    >>> stated_pixels("mimo")["max_pixels"], stated_pixels("official")
    (3211264, {})
    """
    for benchmark in module_yaml(__file__):
        presets = load_presets(benchmark)
        if name in presets:
            return presets[name].pixels
    return {}


@cache
def load_prompts(benchmark: str) -> dict[str, Preset]:
    """Return the presets of a benchmark, and presets of sources that state little but a prompt.

    The latter are otherwise like the first preset whose models answer in writing.
    """
    presets = dict(load_presets(benchmark))
    written = next(preset for preset in presets.values() if preset.parser != LIKELIHOOD)
    prompts = module_yaml(__file__)[benchmark].get("prompts", {})
    for name, prompt in prompts.items():
        presets[name] = replace(written, name=name, prompt=prompt)
    return presets


def prompt_of(preset: Preset, doc: Doc) -> str:
    """Return the prompt of a question.

    Fields of the template: ``question`` (the record's), ``goal``, ``options`` (lines ``A. text``),
    ``progress`` ("the progress shown in the video and ", empty without past actions), ``task``
    (`tuned_opening` with the goal as it is, as in lmms-eval's task).
    """
    goal = doc["task_goal"]
    options = "\n".join(
        f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"], strict=True)
    )
    progress = "the progress shown in the video and " if doc["past_actions"] else ""
    fields = {"goal": goal, "options": options, "progress": progress, "task": tuned_opening(goal)}
    return preset.prompt.format(question=doc["question"], **fields)


def rotated(doc: Doc, shift: int) -> dict[str, Any]:
    """Return a question whose options, and its right letter, are moved down by `shift` positions.

    The last options become the first ones.

    >>> rotated({"choices": ["w", "x", "y", "z"], "golden_choice_idx": "D"}, 1)
    {'choices': ['z', 'w', 'x', 'y'], 'golden_choice_idx': 'A'}
    """
    choices = list(doc["choices"])
    shift %= len(choices)
    right = (LETTERS.index(doc["golden_choice_idx"]) + shift) % len(choices)
    return {
        **doc,
        "choices": choices[-shift:] + choices[:-shift],
        "golden_choice_idx": LETTERS[right],
    }
