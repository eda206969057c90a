"""Split a benchmark's runs into comparable parts by the versions of its tasks."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from lmms_egoplan.judging.judgement import base_version
from lmms_egoplan.report.document import Figure, Item, Section
from lmms_egoplan.report.run import Run, age
from lmms_egoplan.report.tables import Table
from lmms_egoplan.task_files import base_task, package_versions
from lmms_egoplan.text import join_list

_Versions = Mapping[str, str | None]
"""Versions by task."""
_Named = TypeVar("_Named", Section, Table, Figure)
_Kind = tuple[str, str | None]
"""A task's name and its version; None if unknown."""


@dataclass(frozen=True)
class ComparableRuns:
    """Comparable runs of one benchmark.

    benchmark: the benchmark's name; prefix of its tasks and of its files in ``tasks/shared``.
    runs: the runs with only the tasks of this part.
    versions: version of each task; None if unknown.
    other_versions: versions in each of the benchmark's other parts.
    divided: names of runs that also have tasks in other parts.
    number: index of the part; 0 for the newest version.
    """

    benchmark: str
    runs: tuple[Run, ...]
    versions: _Versions
    other_versions: tuple[_Versions, ...]
    divided: tuple[str, ...]
    number: int

    @property
    def label(self) -> str:
        """The versions in words, such as ``version 2.0``."""
        return _label([self.versions])

    def section(self, section: Section) -> Section:
        """Make names and keys of a section unique, and add remarks on versions."""
        remarks = (*self._remarks(), *section.remarks)
        if not self.other_versions:
            return replace(section, remarks=remarks)
        tables = tuple(
            self._table(table) for table in section.tables if not self.number or table.has_own
        )
        return self._named(
            section,
            tables=tables,
            figures=tuple(map(self._figure, section.figures)),
            remarks=remarks,
        )

    def items(self, items: Iterable[Item]) -> list[Item]:
        """Make the keys of questions unique."""
        if not self.other_versions:
            return list(items)
        suffix = f" ({self.label})" if self.number else ""
        return [
            replace(item, key=f"{item.key}{suffix}", benchmark=self._key(item.benchmark))
            for item in items
        ]

    def _table(self, table: Table) -> Table:
        return (
            self._named(table, notes=(*table.notes, self._not_compared()))
            if table.has_own
            else table
        )

    def _figure(self, figure: Figure) -> Figure:
        return self._named(figure, caption=f"{figure.caption} Only runs of {self.label}.")

    def _named(self, content: _Named, **changes: Any) -> _Named:
        is_current_mix = not self.number and len(set(self.versions.values())) > 1
        title = content.title if is_current_mix else f"{content.title}, {self.label}"
        return replace(content, key=self._key(content.key), title=title, **changes)

    def _key(self, key: str) -> str:
        version = re.sub(r"[^A-Za-z0-9]+", "_", self.label).strip("_")[:40]
        return f"{key}_{self.number}_{version}" if self.number else key

    def _not_compared(self) -> str:
        is_in_both = set(_texts([self.versions])) & set(_texts(self.other_versions))
        if is_in_both:
            remark = "Runs of one version of a task are not compared with runs of another"
        else:
            other_label = _label(self.other_versions)
            remark = f"Runs of {self.label} are not compared with runs of {other_label}"
        return (
            f"{remark}: the task's media, prompts or scores have changed (see the changelog in "
            f"tasks/lmms_eval/{self.benchmark}/README.md)."
        )

    def _remarks(self) -> Iterable[str]:
        if self.other_versions:
            elsewhere = "; ".join(map(_listed, self.other_versions))
            yield (
                f"{self._not_compared()} This section: {_listed(self.versions)}. Other sections: "
                f"{elsewhere}."
            )
        if self.divided:
            yield (
                f"{', '.join(self.divided)}: the run's tasks have several versions, so "
                "means do not include all of them."
            )
        unknown = [task for task, version in self.versions.items() if version is None]
        if unknown:
            yield (
                f"The results do not contain the version of {join_list(unknown, 3)}, so "
                "these runs may not be comparable."
            )
        bases = {
            task: base_version(version)
            for task, version in self.versions.items()
            if version is not None
        }
        foreign = [
            task
            for task, version in bases.items()
            if not _is_of_package(self.benchmark, task, version)
        ]
        if foreign:
            yield (
                f"This package has a different version of {join_list(foreign, 3)} than these runs, "
                "so the gallery's pictures may differ from the model's input."
            )


def comparable_parts(benchmark: str, runs: Sequence[Run]) -> list[ComparableRuns]:
    """Split a benchmark's runs into comparable parts, the newest first.

    Without runs, the list is empty.

    Two versions of a task are never in one part. Different tasks share a part if they have the same
    version number, or if both versions are this package's.

    Args:
        benchmark: see `ComparableRuns`.
    """
    benchmark_runs = [_tasks_of(benchmark, run) for run in runs]
    kinds: set[_Kind] = set()
    for run in benchmark_runs:
        kinds |= {(name, task.version) for name, task in run.tasks.items()}
    versions_of_parts: list[dict[str, str | None]] = []
    by_name = sorted(kinds, key=str)
    for name, version in sorted(by_name, key=lambda kind: age(kind[1]), reverse=True):
        versions = next(
            (
                versions
                for versions in versions_of_parts
                if _fits(benchmark, (name, version), versions)
            ),
            None,
        )
        if versions is None:
            versions = {}
            versions_of_parts.append(versions)
        versions[name] = version
    runs_of_parts = [_runs_with(versions, benchmark_runs) for versions in versions_of_parts]
    num_parts = Counter(chain.from_iterable(runs_of_parts))
    parts = []
    for number, (versions, chosen) in enumerate(zip(versions_of_parts, runs_of_parts, strict=True)):
        others = versions_of_parts[:number] + versions_of_parts[number + 1 :]
        parts.append(
            ComparableRuns(
                benchmark,
                runs=tuple(chosen.values()),
                versions=dict(sorted(versions.items())),
                other_versions=tuple(others),
                divided=tuple(name for name in chosen if num_parts[name] > 1),
                number=number,
            )
        )
    return parts


def _tasks_of(benchmark: str, run: Run) -> Run:
    """Return a run with only a benchmark's tasks."""
    tasks = {}
    for name, task in run.tasks.items():
        if task.scoring and task.scoring.benchmark == benchmark:
            tasks[name] = task
    return replace(run, tasks=tasks)


def _fits(benchmark: str, kind: _Kind, versions: Mapping[str, str | None]) -> bool:
    """Return true if a task may be in a part with tasks of these versions."""
    return all(_match(benchmark, kind, other) for other in versions.items())


def _runs_with(versions: Mapping[str, str | None], runs: Sequence[Run]) -> dict[str, Run]:
    """Return the runs that have tasks of these versions, with only these, by name."""
    chosen = {}
    for run in runs:
        tasks = {}
        for name, task in run.tasks.items():
            if name in versions and versions[name] == task.version:
                tasks[name] = task
        if tasks:
            chosen[run.name] = replace(run, tasks=tasks)
    return chosen


def _match(benchmark: str, first: _Kind, second: _Kind) -> bool:
    first_name, first_version = first
    second_name, second_version = second
    if first_name == second_name or first_version == second_version:
        return first_version == second_version
    if first_version is None or second_version is None:
        return False
    return _is_of_package(benchmark, *first) and _is_of_package(benchmark, *second)


def _is_of_package(benchmark: str, task: str, version: str | None) -> bool:
    """Return true if this package has the version of the task.

    A user's variant has the version of the task whose name it extends.
    """
    base = base_task(task)
    tasks = [
        name for name in package_versions() if name == benchmark or name.startswith(f"{benchmark}_")
    ]
    return version in [package_versions()[name] for name in ([base] if base in tasks else tasks)]


def _label(parts: Iterable[_Versions]) -> str:
    texts = _texts(parts)
    return ("versions " if len(texts) > 1 else "version ") + " and ".join(texts)


def _texts(parts: Iterable[_Versions]) -> list[str]:
    """List the versions, the newest first."""
    unique = {version for versions in parts for version in versions.values()}
    return [version or "unknown" for version in sorted(unique, key=age, reverse=True)]


def _listed(versions: _Versions) -> str:
    """List tasks with their versions."""
    by_version: dict[str, list[str]] = {}
    for task, version in versions.items():
        by_version.setdefault(version or "unknown", []).append(task)
    return ", ".join(f"{join_list(tasks, 3)} {version}" for version, tasks in by_version.items())
