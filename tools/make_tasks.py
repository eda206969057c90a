"""Write the YAML files of tasks that are variants of others. A test compares them.

Run it after a change of the table: ``python tools/make_tasks.py``.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension
from lmms_egoplan.benchmarks.egothink.presets import load_presets, prompts_of
from lmms_egoplan.benchmarks.presets import Preset
from lmms_egoplan.paths import TASK_FOLDERS
from lmms_egoplan.task_files import read_task_file

HEADER = "# Written by tools/make_tasks.py."


def task_texts() -> dict[Path, str]:
    """Return the text of each file by path."""
    texts = {}
    for harness, folder in TASK_FOLDERS.items():
        for preset in load_presets().values():
            for name, text in _egothink_preset(harness, preset):
                texts[folder / "egothink" / f"{name}.yaml"] = text
    return texts


def _egothink_preset(harness: str, preset: Preset) -> Iterator[tuple[str, str]]:
    """Yield name and text of the dimensions of a preset, of the capabilities and of all."""
    capabilities: dict[str, list[str]] = {}
    for dimension in DIMENSIONS:
        name = f"{dimension.task}__{preset.name}"
        capabilities.setdefault(dimension.capability, []).append(name)
        yield name, _egothink_dimension(harness, preset, dimension)
    groups = []
    for capability, tasks in capabilities.items():
        name = f"egothink_bench_{capability}__{preset.name}"
        groups.append(name)
        yield name, _group(harness, f"egothink_bench_{capability}", name, tasks, preset)
    name = f"egothink__{preset.name}"
    yield name, _group(harness, "egothink_bench", name, groups, preset)


def _egothink_dimension(harness: str, preset: Preset, dimension: Dimension) -> str:
    base = read_task_file(TASK_FOLDERS[harness] / "egothink" / f"{dimension.task}.yaml")
    lines = [
        f"include: {dimension.task}.yaml",
        f"task: {dimension.task}__{preset.name}",
        f"# Only part of the group egothink__{preset.name}.",
        "tag: []",
    ]
    metadata = [f"version: {base['metadata']['version']}", "benchmark: egothink"]
    if harness == "lm-eval":
        metadata.append(f"prompts: {prompts_of(preset.name)}")
    else:
        lines += _decoding(preset.of_dimension(dimension.name).decoding)
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
        metadata.append(f"data: !function utils.{dimension.name.upper()}_DATA")
    return _text(preset, lines, metadata)


def _decoding(arguments: Mapping[str, Any]) -> list[str]:
    """Return lines that add the preset's generation arguments to the dimension's."""
    if not arguments:
        return []
    lines = ["model_specific_generation_kwargs:", "  default:"]
    # JSON is YAML.
    lines += [f"    {name}: {json.dumps(value)}" for name, value in arguments.items()]
    return lines


def _group(harness: str, base: str, name: str, tasks: list[str], preset: Preset) -> str:
    content = read_task_file(TASK_FOLDERS[harness] / "egothink" / f"{base}.yaml")
    lines = [f"include: {base}.yaml", f"group: {name}", "task:"]
    lines += [f"  - {task}" for task in tasks]
    return _text(preset, lines, [f"version: {content['metadata']['version']}"])


def _text(preset: Preset, lines: list[str], metadata: list[str]) -> str:
    """Return the text of a file. Results have the preset in the version (``asked_as``)."""
    lines = [HEADER, f"# {preset.source}", *lines, "metadata:"]
    lines += [f"  {line}" for line in (*metadata, f"asked_as: {preset.name}")]
    return "\n".join(lines) + "\n"


def main() -> None:
    for path, text in task_texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
