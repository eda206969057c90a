"""Versions of tasks: of this package's, and of those in a run's results."""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS

# The harnesses write these for a task without version.
_NONE = ("", "Yaml", "N/A")


class _Loader(yaml.SafeLoader):
    """A loader that reads a function as its dotted name."""


_Loader.add_constructor("!function", lambda _, node: node.value)


def logged_version(results: Any, task: str) -> str | None:
    """Return the version of a task in the content of a results file; None if unknown.

    1, 1.0 and "1.0" are one version. If ``versions`` and the task's ``metadata`` differ, it is ``"1.0 or 2.0"``, which
    equals neither.
    """
    versions = (_member(results, "versions", task), _member(results, "configs", task, "metadata", "version"))
    return " or ".join(dict.fromkeys(filter(None, map(version_text, versions)))) or None


def version_text(version: Any) -> str:
    """Format a version, equal numbers alike; "" for other values."""
    text = str(version).strip() if isinstance(version, int | float | str) and not isinstance(version, bool) else ""
    if text in _NONE:
        return ""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(number) if math.isfinite(number) else ""


def age(version: str | None) -> tuple[bool, list[int], str]:
    """Return the sort key of a version, the newest last; an unknown one is first."""
    return version is not None, [int(number) for number in re.findall(r"\d{1,9}", version or "")], version or ""


def package_versions() -> dict[str, str]:
    """Return the versions of this package's tasks and groups of tasks, by name."""
    return {name: version_text(metadata["version"]) for name, metadata in _package_metadata().items()}


def package_benchmarks() -> dict[str, str]:
    """Return the benchmarks of this package's tasks with scores, by name."""
    return {name: metadata["benchmark"] for name, metadata in _package_metadata().items() if "benchmark" in metadata}


def base_task(task: str) -> str | None:
    """Return this package's task, or group, with the longest name that a task's name begins with; None without any."""
    return max((name for name in _package_metadata() if task.startswith(name)), key=len, default=None)


@cache
def _package_metadata() -> dict[str, dict[str, Any]]:
    """Return the metadata of this package's tasks and groups of tasks, by name."""
    read = [read_task_file(path) for path in (*LMMS_EVAL_TASKS.glob("*/*.yaml"), *LM_EVAL_TASKS.glob("*/*.yaml"))]
    named = {task["task"] if isinstance(task.get("task"), str) else task.get("group"): task for task in read}
    return {name: task["metadata"] for name, task in named.items() if name}


@cache
def read_task_file(path: Path) -> dict[str, Any]:
    """Read a task's YAML with its includes; a function is its dotted name."""
    content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    included = content.pop("include", [])
    for name in [included] if isinstance(included, str) else included:
        content = read_task_file(path.parent / name) | content
    return content


def _member(value: Any, *names: str) -> Any:
    """Return a member of nested objects; None if it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
