"""Describe how published pipelines ask a benchmark: its presets.

A preset is a task ``BENCHMARK__PRESET`` in both harnesses, or a group of tasks. ``presets.yaml`` in
the benchmark's folder describes the pipelines.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.task_files import preset_tasks

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
JUDGE_FIELDS = ("judge", "judge_prompt", "failed")
"""Further fields of benchmarks with a judge."""

_FORMER_VARIABLE = "LMMS_EGOPLAN_PROTOCOL"


@dataclass(frozen=True)
class Preset:
    """How a pipeline asks a benchmark.

    Attributes:
        name: Name of the pipeline, such as ``flageval``.
        benchmark: Name of the benchmark.
        source: Repository and commit, or paper.
        prompt: Text with fields in braces. The benchmark's module of presets describes them.
        media: Form of the media under ``media``, and its settings, without the observation.
        observation: ``last frame`` (of the media), ``separate`` (also an image after the media), or
            in words.
        option_order: ``stored``, or in words.
        decoding: Generation arguments, by transformers' names. ``do_sample: null`` leaves sampling
            to the model.
        thinking: Whether the model thinks first: ``off``, ``on``, ``asked for`` (by the prompt),
            ``per checkpoint``.
        parser: How a reply is read, see the benchmark's module of presets.
        subset: The questions, in words.
        unknown: Fields that the source does not state. They have the values of ``fallback``.
        gaps: By field that the source states in part, or that is followed in part: what is missing,
            in words.
        pixels: Limits on the pixels of an image and of a video frame, by the names of the backends'
            arguments; empty if the source states none.
        prompts: Prompts of the dimensions that have another one than `prompt`.
        decodings: Generation arguments of the dimensions that have others than `decoding`.
        system: Text of the system prompt; "" for none.
        judge: The judge in words; "" without a judge, also in the next two fields.
        judge_prompt: Name of the judge's protocol.
        failed: What a failed judgement counts as: a number as a text, or ``excluded``.
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
    gaps: Mapping[str, str] = field(default_factory=dict)
    pixels: Mapping[str, int] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    decodings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    system: str = ""
    judge: str = ""
    judge_prompt: str = ""
    failed: str = ""

    @property
    def open_fields(self) -> tuple[str, ...]:
        """The unknown fields, and those with gaps.

        A gap is ``prompt (stored questions not seen)``, for example.
        """
        gaps = [f"{field} ({gap})" for field, gap in self.gaps.items()]
        return (*self.unknown, *gaps)

    @property
    def visual_settings(self) -> dict[str, Any]:
        """Settings of the media, with the observation."""
        return {**self.media, "observation": self.observation}

    def of_dimension(self, dimension: str) -> "Preset":
        """Return the preset with the prompt and the decoding of a dimension."""
        return replace(
            self,
            prompt=self.prompts.get(dimension, self.prompt),
            decoding=self.decodings.get(dimension, self.decoding),
        )


def read_preset(
    benchmark: str, name: str, entry: Mapping[str, Any], fallback: Mapping[str, Any]
) -> Preset:
    """Read an entry of ``presets.yaml``. Fields that it lacks have the values of `fallback`."""
    fields: tuple[str, ...] = FIELDS
    if "judge" in fallback:
        fields += JUDGE_FIELDS
    unknown = tuple(name for name in fields if entry.get(name) is None)
    stated = {name: value for name, value in entry.items() if name not in unknown}
    values = {**fallback, **stated}
    return Preset(
        name=name,
        benchmark=benchmark,
        source=values["source"],
        prompt=values["prompt"],
        media=values["media"],
        observation=values["observation"],
        option_order=values["option_order"],
        decoding=values["decoding"],
        thinking=values["thinking"],
        parser=values["parser"],
        subset=values["subset"],
        unknown=unknown,
        gaps=values.get("gaps", {}),
        pixels=values.get("pixels", {}),
        prompts=values.get("prompts", {}),
        decodings=values.get("decodings", {}),
        system=values.get("system", ""),
        judge=values.get("judge", ""),
        judge_prompt=values.get("judge_prompt", ""),
        failed=str(values.get("failed", "")),
    )


def reject_former_variable() -> None:
    """Refuse the environment variable that selected a preset before presets were tasks.

    Raises:
        LmmsEgoplanError: The variable is set. The message names the tasks to use.
    """
    name = os.environ.get(_FORMER_VARIABLE, "").strip()
    if not name:
        return
    presets = {task.name: task.preset for task in preset_tasks("lmms-eval")}
    same = sorted(task for task, preset in presets.items() if preset == name)
    tasks = " or ".join(same) or f"one of {', '.join(sorted(presets))}"
    raise LmmsEgoplanError(
        f"{_FORMER_VARIABLE}={name}: presets are tasks now; unset this variable, and run {tasks}"
    )
