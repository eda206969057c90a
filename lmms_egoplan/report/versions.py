"""Versions of tasks, and runs split by them: a part of the report has one version of a task."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.report.document import Figure, Item, Section
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.tables import Table, read_notes
from lmms_egoplan.text import join_list

note = read_notes(__file__)

_Named = TypeVar("_Named", Section, Table, Figure)
_Versions = Mapping[str, str | None]
"""By task."""

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


@dataclass(frozen=True)
class Part:
    """Comparable runs of one benchmark.

    benchmark: its name; prefix of its tasks and its files in ``tasks/shared``.
    runs: with only the tasks of this part.
    versions: of these tasks, by task; None if unknown.
    others: the same for the benchmark's other parts.
    divided: names of runs that also have tasks in other parts.
    number: 0 for the part with the newest version.
    """

    benchmark: str
    runs: tuple[Run, ...]
    versions: _Versions
    others: tuple[_Versions, ...]
    divided: tuple[str, ...]
    number: int

    @property
    def label(self) -> str:
        """``version 2.0``."""
        return _label([self.versions])

    def section(self, section: Section) -> Section:
        """Give the section of these runs unique names and keys, and remarks on versions."""
        remarks = (*self._remarks(), *section.remarks)
        if not self.others:
            return replace(section, remarks=remarks)
        tables = tuple(self._table(table) for table in section.tables if not self.number or table.has_own)
        return self._named(section, tables=tables, figures=tuple(map(self._figure, section.figures)), remarks=remarks)

    def items(self, items: Iterable[Item]) -> list[Item]:
        """Give the questions of these runs unique keys."""
        if not self.others:
            return list(items)
        suffix = f" ({self.label})" if self.number else ""
        return [replace(item, key=f"{item.key}{suffix}", benchmark=self._key(item.benchmark)) for item in items]

    def _table(self, table: Table) -> Table:
        return self._named(table, notes=(*table.notes, self._apart())) if table.has_own else table

    def _figure(self, figure: Figure) -> Figure:
        return self._named(figure, caption=f"{figure.caption} Runs of {self.label} alone.")

    def _named(self, shown: _Named, **changes: Any) -> _Named:
        is_current_mix = not self.number and len(set(self.versions.values())) > 1
        title = shown.title if is_current_mix else f"{shown.title}, {self.label}"
        return replace(shown, key=self._key(shown.key), title=title, **changes)

    def _key(self, key: str) -> str:
        version = re.sub(r"[^A-Za-z0-9]+", "_", self.label).strip("_")[:40]
        return f"{key}_{self.number}_{version}" if self.number else key

    def _apart(self) -> str:
        is_of_both = set(_texts([self.versions])) & set(_texts(self.others))
        remark = note("tasks_apart") if is_of_both else note("apart", own=self.label, others=_label(self.others))
        return f"{remark}: {note('changelog', benchmark=self.benchmark)}"

    def _remarks(self) -> Iterable[str]:
        if self.others:
            elsewhere = "; ".join(map(_listed, self.others))
            yield f"{self._apart()} {note('elsewhere', here=_listed(self.versions), elsewhere=elsewhere)}"
        if self.divided:
            yield note("divided", runs=", ".join(self.divided))
        if unknown := [task for task, version in self.versions.items() if version is None]:
            yield note("unknown_version", tasks=join_list(unknown, 3))
        known = {task: version for task, version in self.versions.items() if version is not None}
        if foreign := [task for task, version in known.items() if not _is_of_package(self.benchmark, task, version)]:
            yield note("foreign_version", tasks=join_list(foreign, 3))


def parts_of(benchmark: str, runs: Sequence[Run]) -> list[Part]:
    """Split a benchmark's runs into comparable parts, the newest first; without runs, there is none.

    Two versions of a task are never in one part. Different tasks are if their versions are the same number, or if both
    are this package's.

    Args:
        benchmark: see `Part`.
    """
    own = [
        replace(run, tasks={name: task for name, task in run.tasks.items() if _is_of(benchmark, task)}) for run in runs
    ]
    kinds = {(name, task.version) for run in own for name, task in run.tasks.items()}
    parts: list[dict[str, str | None]] = []
    for name, version in sorted(sorted(kinds, key=str), key=lambda kind: age(kind[1]), reverse=True):
        fitting = (part for part in parts if all(_compare(benchmark, (name, version), kind) for kind in part.items()))
        part = next(fitting, None)
        if part is None:
            parts.append(part := {})
        part[name] = version
    runs_of = [
        {
            run.name: replace(run, tasks=chosen)
            for run in own
            if (chosen := {name: task for name, task in run.tasks.items() if part.get(name, ...) == task.version})
        }
        for part in parts
    ]
    return [
        Part(
            benchmark,
            tuple(chosen.values()),
            dict(sorted(parts[number].items())),
            tuple(parts[:number] + parts[number + 1 :]),
            tuple(name for name in chosen if sum(name in other for other in runs_of) > 1),
            number,
        )
        for number, chosen in enumerate(runs_of)
    ]


def _is_of(benchmark: str, task: TaskRun) -> bool:
    return task.scoring is not None and task.scoring.benchmark == benchmark


def _compare(benchmark: str, first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
    if first[0] == second[0] or first[1] == second[1]:
        return first[1] == second[1]
    return None not in (first[1], second[1]) and all(_is_of_package(benchmark, *kind) for kind in (first, second))


def _is_of_package(benchmark: str, task: str, version: str | None) -> bool:
    """Return true if this package has the version of the task, or of the task whose name a user's variant extends."""
    base = base_task(task)
    own = [name for name in package_versions() if name == benchmark or name.startswith(f"{benchmark}_")]
    return version in [package_versions()[name] for name in ([base] if base in own else own)]


def _label(several: Iterable[_Versions]) -> str:
    texts = _texts(several)
    return ("versions " if len(texts) > 1 else "version ") + " and ".join(texts)


def _texts(several: Iterable[_Versions]) -> list[str]:
    """List the versions, the newest first."""
    unique = {version for versions in several for version in versions.values()}
    return [version or "unknown" for version in sorted(unique, key=age, reverse=True)]


def _listed(versions: _Versions) -> str:
    """List tasks with their versions."""
    by_version: dict[str, list[str]] = {}
    for task, version in versions.items():
        by_version.setdefault(version or "unknown", []).append(task)
    return ", ".join(f"{join_list(tasks, 3)} {version}" for version, tasks in by_version.items())
