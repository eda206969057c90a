"""Runs split by the versions of their tasks: a part of the report has one version of a task."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lmms_egoplan.report.document import Figure, Item, Section, Table
from lmms_egoplan.report.notes import read_notes
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.task_versions import age, package_versions
from lmms_egoplan.text import join_list

note = read_notes(__file__)

_Named = TypeVar("_Named", Section, Table, Figure)
_Versions = Mapping[str, str | None]
"""By task."""


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
        replace(
            run,
            tasks={
                name: task for name, task in run.tasks.items() if task.scoring and task.scoring.benchmark == benchmark
            },
        )
        for run in runs
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


def _is_of(benchmark: str, name: str | None) -> bool:
    """Return true if a task or file of this name is the benchmark's."""
    return name is not None and (name == benchmark or name.startswith(f"{benchmark}_"))


def _compare(benchmark: str, first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
    if first[0] == second[0] or first[1] == second[1]:
        return first[1] == second[1]
    return None not in (first[1], second[1]) and all(_is_of_package(benchmark, *kind) for kind in (first, second))


def _is_of_package(benchmark: str, task: str, version: str | None) -> bool:
    """Return true if this package has the version of the task, or of the task whose name a user's variant extends."""
    own = {name: version for name, version in package_versions().items() if _is_of(benchmark, name)}
    base = max((name for name in own if task.startswith(name)), key=len, default=None)
    return version == own[base] if base else version in own.values()


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
