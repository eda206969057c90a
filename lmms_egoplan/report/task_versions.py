"""Versions of tasks: of this package's, and of those in a run's results."""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS

# What the harnesses write where a task has no version.
_NONE = ("", "Yaml", "N/A")


class _Loader(yaml.SafeLoader):
    """Reads a function as its dotted name."""


_Loader.add_constructor("!function", lambda _, node: node.value)


def logged_version(results: Any, task: str) -> str | None:
    """The version of a task in a harness's results, the content of their file; None where they do not tell.

    1, 1.0 and "1.0" are one version. Where ``versions`` and the task's ``metadata`` contradict each other, it is
    ``"1.0 or 2.0"``, which is equal to neither.
    """
    found = (_member(results, "versions", task), _member(results, "configs", task, "metadata", "version"))
    return " or ".join(dict.fromkeys(filter(None, map(version_text, found)))) or None


def version_text(version: Any) -> str:
    """A version as a text, the same for equal numbers; "" for what is none."""
    text = str(version).strip() if isinstance(version, int | float | str) and not isinstance(version, bool) else ""
    if text in _NONE:
        return ""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(number) if math.isfinite(number) else ""


def age(version: str | None) -> tuple[bool, list[int], str]:
    """What versions are sorted by, the newest last; an unknown one comes first."""
    return version is not None, [int(number) for number in re.findall(r"\d{1,9}", version or "")], version or ""


@cache
def package_versions() -> dict[str, str]:
    """Of this package's tasks and groups of tasks, by name."""
    found = {}
    for path in (*LMMS_EVAL_TASKS.glob("*/*.yaml"), *LM_EVAL_TASKS.glob("*/*.yaml")):
        content = read_task_file(path)
        name = content.get("task") if isinstance(content.get("task"), str) else content.get("group")
        if name:
            found[name] = version_text(content["metadata"]["version"])
    return found


@cache
def read_task_file(path: Path) -> dict[str, Any]:
    """A task's YAML with those that it includes; a function is its dotted name."""
    content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    included = content.pop("include", [])
    for name in [included] if isinstance(included, str) else included:
        content = read_task_file(path.parent / name) | content
    return content


def _member(value: Any, *names: str) -> Any:
    """What is under these names; None where a value on the way is no object."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
