"""Find and read the tasks' YAML files: includes, metrics and metadata.

No other module knows where the files are, or what their entries mean.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lmms_egoplan.jsonl import member
from lmms_egoplan.paths import LM_EVAL_TASKS, TASK_FOLDERS

# The harnesses write these versions for a task without one.
_NONE = ("", "Yaml", "N/A")


class FunctionName(str):
    """The dotted name of a function or constant in a task's YAML file.

    Those of a benchmark's own ``utils.py`` or ``task.py`` begin with ``utils.`` or ``task.``, also
    in its subfolders, whose files name them ``../utils.``.
    """


class _Loader(yaml.SafeLoader):
    """A YAML loader that reads a function as its name."""


_Loader.add_constructor("!function", lambda _, node: FunctionName(node.value.removeprefix("../")))


@cache
def read_task_file(path: Path) -> dict[str, Any]:
    """Read a task's YAML file with its includes. Functions are read as `FunctionName`.

    The file's own entries win over included ones. Of several included files, the first one wins in
    lmms-eval, and the last one in lm-eval.
    """
    content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    included = content.pop("include", [])
    names = [included] if isinstance(included, str) else included
    if LM_EVAL_TASKS in path.parents:
        names = names[::-1]
    for name in names:
        content = read_task_file(path.parent / name) | content
    return content


@cache
def task_paths(harness: str) -> dict[str, Path]:
    """Return the YAML file of each task and group, by name, in the order of the files.

    Args:
        harness: ``lmms-eval`` or ``lm-eval``.
    """
    return {path.stem: path for path in _files(harness) if not path.name.startswith("_")}


def _files(harness: str) -> list[Path]:
    """Return the YAML files of a harness, with those that others include."""
    return sorted(TASK_FOLDERS[harness].glob("*/**/*.yaml"))


def benchmark_folder(path: Path) -> Path:
    """Return the folder of a benchmark's tasks that contains a task's file, also in a subfolder."""
    for folder in TASK_FOLDERS.values():
        if folder in path.parents:
            return folder / path.relative_to(folder).parts[0]
    raise ValueError(f"{path} is not in {', '.join(map(str, TASK_FOLDERS.values()))}")


@dataclass(frozen=True)
class PresetTask:
    """The task or group that asks a whole benchmark as a published pipeline does."""

    name: str
    benchmark: str
    preset: str


@cache
def preset_tasks(harness: str) -> tuple[PresetTask, ...]:
    """Return the tasks and groups of all presets, without their members."""
    tasks = []
    for name, path in task_paths(harness).items():
        benchmark = benchmark_folder(path).name
        preset = preset_name(read_task_file(path))
        if preset and name == f"{benchmark}__{preset}":
            tasks.append(PresetTask(name, benchmark, preset))
    return tuple(tasks)


def scoring_paths() -> list[Path]:
    """Return the files that define the scoring of tasks, for both harnesses."""
    return sorted((LM_EVAL_TASKS.parent / "shared").glob("*.yaml"))


def metrics(task: Mapping[str, Any]) -> dict[str, str]:
    """Return the metrics of a task in order, each with the dotted name of its aggregation.

    Args:
        task: Content of the file, see `read_task_file`.
    """
    return {metric["metric"]: metric["aggregation"] for metric in task["metric_list"]}


def main_metric(task: Mapping[str, Any]) -> str:
    """Return the main metric of a task."""
    return str(task["metadata"]["main_metric"])


def count_metric(task: Mapping[str, Any]) -> str:
    """Return the entry of a task's details that counts the questions."""
    return str(task["metadata"]["count_metric"])


def judge_name(task: Mapping[str, Any]) -> str | None:
    """Return the name of a task's judge in `Benchmark.judges`; None without a judge."""
    return task["metadata"].get("judge")


def preset_name(task: Mapping[str, Any]) -> str:
    """Return the name of a task's preset; "" without a preset."""
    metadata = task["metadata"]
    return metadata.get("preset") or metadata.get("asked_as") or ""


def is_group(task: Mapping[str, Any]) -> bool:
    """Return whether a file defines a group; its ``task`` then lists names."""
    return "group" in task


def is_ranked(task: Mapping[str, Any]) -> bool:
    """Return whether the model ranks choices by likelihood instead of writing an answer."""
    return bool(task["output_type"] == "multiple_choice")


def scores_end_token(task: Mapping[str, Any]) -> bool:
    """Return whether the token that ends an answer is scored with each choice."""
    return bool(task["metadata"].get("scores_end_token"))


def token_limit(task: Mapping[str, Any]) -> int | None:
    """Return the limit on new tokens of an answer; None if the task sets none."""
    generation = dict(task.get("generation_kwargs", {}))
    generation |= task.get("model_specific_generation_kwargs", {}).get("default", {})
    return generation.get("max_new_tokens") or generation.get("max_gen_toks")


def version_text(version: Any) -> str:
    """Format a version, so 1 and 1.0 are equal; "" for values that are not versions."""
    text = (
        str(version).strip()
        if isinstance(version, int | float | str) and not isinstance(version, bool)
        else ""
    )
    if text in _NONE:
        return ""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(number) if math.isfinite(number) else ""


def package_versions() -> dict[str, str]:
    """Return the version of each task and group in this package, by name."""
    return {
        name: version_text(metadata["version"]) for name, metadata in _package_metadata().items()
    }


def package_benchmarks() -> dict[str, str]:
    """Return the benchmark of each task with scores in this package, by name."""
    return {
        name: metadata["benchmark"]
        for name, metadata in _package_metadata().items()
        if "benchmark" in metadata
    }


def base_task(task: str) -> str | None:
    """Return the package's task or group that a task's name begins with.

    The longest name counts; None if there is none.
    """
    return max(
        (name for name in _package_metadata() if task.startswith(name)), key=len, default=None
    )


def task_benchmark(task: str, config: Any) -> str | None:
    """Return the benchmark of a task of this package; None for other tasks.

    The task's metadata names it. Without this entry, it is that of the package's task that the
    name begins with.

    Args:
        task: Name of the task.
        config: Its configuration, as a harness logs it.
    """
    return member(config, "metadata", "benchmark") or package_benchmarks().get(
        base_task(task) or ""
    )


def is_package_task(task: str, config: Any) -> bool:
    """Return whether a task is one of this package, or a variant, with or without scores.

    Args:
        task: Name of the task.
        config: Its configuration, as a harness logs it.
    """
    counts = member(config, "metadata", "count_metric") is not None
    return counts or task_benchmark(task, config) is not None


@cache
def _package_metadata() -> dict[str, dict[str, Any]]:
    """Return the metadata of each task and group in this package, by name."""
    metadata = {}
    for harness in TASK_FOLDERS:
        for path in _files(harness):
            task = read_task_file(path)
            name = task.get("group") if is_group(task) else task.get("task")
            if name:
                metadata[name] = task["metadata"]
    return metadata
