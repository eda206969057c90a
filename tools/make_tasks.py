"""Write the YAML files of tasks that are variants of others. A test compares them.

    python tools/make_tasks.py

Run it after a change of EgoThink's presets, or of the tasks that they vary.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egothink.presets import LM_EVAL_NAMES, load_presets, prompts_of
from lmms_egoplan.benchmarks.presets import Preset
from lmms_egoplan.paths import TASK_FOLDERS
from lmms_egoplan.task_files import read_task_file

GROUPS = ("egothink_bench", "egothink_marked")
"""EgoThink's groups that have a variant for each preset, with all their tasks."""

Files = Iterator[tuple[Path, str]]
"""Paths and texts of files."""


def task_texts() -> dict[Path, str]:
    """Return the text of each file by path."""
    texts = {}
    for harness in TASK_FOLDERS:
        for preset in load_presets().values():
            for group in GROUPS:
                texts.update(_variants(harness, preset, group))
    return texts


def _variants(harness: str, preset: Preset, name: str) -> Files:
    """Yield the variants of a task, or of a group and its members."""
    folder = TASK_FOLDERS[harness] / "egothink"
    base = read_task_file(folder / f"{name}.yaml")
    if "group" not in base:
        text = _task_text(harness, preset, base)
    else:
        for member in base["task"]:
            yield from _variants(harness, preset, member)
        lines = [f"group: {_variant_name(name, preset)}", "task:"]
        lines += [f"  - {_variant_name(member, preset)}" for member in base["task"]]
        text = _file_text(preset, name, lines, base["metadata"])
    yield folder / f"{_variant_name(name, preset)}.yaml", text


def _variant_name(name: str, preset: Preset) -> str:
    """Return the name of a variant. That of the whole benchmark is ``egothink__PRESET``."""
    if name == "egothink_bench":
        name = "egothink"
    return f"{name}__{preset.name}"


def _task_text(harness: str, preset: Preset, base: Mapping[str, Any]) -> str:
    """Return the text of a dimension's file."""
    dimension = base["test_split"].partition("_")[0]
    decoding = preset.of_dimension(dimension).decoding
    lines = [
        f"task: {_variant_name(base['task'], preset)}",
        "# Only part of groups.",
        "tag: []",
    ]
    metadata = dict(base["metadata"])
    if "condition_of" in metadata:
        metadata["condition_of"] = _variant_name(metadata["condition_of"], preset)
    if harness == "lm-eval":
        arguments = dict(base["generation_kwargs"])
        for name, value in decoding.items():
            arguments[LM_EVAL_NAMES.get(name, name)] = value
        lines += ["generation_kwargs:", *_arguments(arguments, indent="  ")]
        metadata["prompts"] = prompts_of(preset.name)
        return _file_text(preset, base["task"], lines, metadata)
    if decoding:
        # They are added to the dimension's.
        lines += ["model_specific_generation_kwargs:", "  default:"]
        lines += _arguments(decoding, indent="    ")
    lines += [
        "lmms_eval_specific_kwargs:",
        "  default:",
        f"    preset: {preset.name}",
        "filter_list:",
        "  - name: judged",
        "    filter:",
        "      - function: !function utils.Judged",
        f"        preset: {preset.name}",
    ]
    metadata["data"] = f"!function {metadata['data']}"
    return _file_text(preset, base["task"], lines, metadata)


def _arguments(arguments: Mapping[str, Any], indent: str) -> list[str]:
    # JSON is YAML.
    return [f"{indent}{name}: {json.dumps(value)}" for name, value in arguments.items()]


def _file_text(preset: Preset, base: str, lines: list[str], metadata: Mapping[str, Any]) -> str:
    """Return the text of a file. Results have the preset in the version (``asked_as``)."""
    all_lines = [
        "# Written by tools/make_tasks.py.",
        f"# {preset.source}",
        f"include: {base}.yaml",
        *lines,
        "metadata:",
    ]
    all_metadata = {**metadata, "asked_as": preset.name}
    all_lines += [f"  {name}: {value}" for name, value in all_metadata.items()]
    return "\n".join(all_lines) + "\n"


def main() -> None:
    for path, text in task_texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
