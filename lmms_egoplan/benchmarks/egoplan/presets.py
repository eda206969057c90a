"""Ask EgoPlan-Bench and EgoPlan-Bench2 as published pipelines do.

``presets.yaml`` describes the pipelines. `Preset.media` are settings of `FrameReader.visual_input`.
`Preset.parser` is a name in `readers.READERS`, or `LIKELIHOOD`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS, tuned_opening
from lmms_egoplan.benchmarks.presets import Preset, read_preset
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.paths import module_yaml

LIKELIHOOD = "likelihood"
"""`Preset.parser` of pipelines that rank the options by likelihood. They have no decoding."""


@cache
def load_presets(benchmark: str) -> dict[str, Preset]:
    """Return the presets of a benchmark, by name."""
    entries = module_yaml(__file__)[benchmark]
    fallback = entries["fallback"]
    return {
        name: read_preset(benchmark, name, entry, fallback)
        for name, entry in entries.items()
        if name not in ("fallback", "prompts")
    }


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
