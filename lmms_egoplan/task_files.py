"""Read the tasks' YAML files, and what they say about the tasks of this package."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lmms_egoplan.jsonl import member
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS

# The harnesses write these versions for a task without one.
_NONE = ("", "Yaml", "N/A")


class _Loader(yaml.SafeLoader):
    """A YAML loader that reads a function as its dotted name."""


_Loader.add_constructor("!function", lambda _, node: node.value)


@cache
def read_task_file(path: Path) -> dict[str, Any]:
    """Read a task's YAML file with its includes. Functions are read as dotted names."""
    content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    included = content.pop("include", [])
    for name in [included] if isinstance(included, str) else included:
        content = read_task_file(path.parent / name) | content
    return content


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


@cache
def _package_metadata() -> dict[str, dict[str, Any]]:
    """Return the metadata of each task and group in this package, by name."""
    tasks = [
        read_task_file(path)
        for path in (*LMMS_EVAL_TASKS.glob("*/*.yaml"), *LM_EVAL_TASKS.glob("*/*.yaml"))
    ]
    named = {
        task["task"] if isinstance(task.get("task"), str) else task.get("group"): task
        for task in tasks
    }
    return {name: task["metadata"] for name, task in named.items() if name}
