"""Parts of a section in ``report.json``."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from lmms_egoplan.report.document import Section, json_of
from lmms_egoplan.report.run import Run


def benchmark_of(section: Section, runs: Sequence[Run]) -> dict[str, Any]:
    """Return the benchmark's part of the file."""
    (benchmark,) = json.loads(json_of([section], runs, (), 0))["benchmarks"]
    return benchmark


def named(entry: dict[str, Any], names: Iterable[str]) -> str:
    """Return the name of an entry's run; with its task, as in ``run (task)``, if that is in
    `names`.
    """
    with_task = f"{entry['run']} ({entry['task']})"
    return with_task if with_task in {*names} else entry["run"]


def groups(
    benchmark: dict[str, Any], attribute: str, names: Iterable[str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return a slice's scores by group and run, see `named`."""
    (members,) = (part["groups"] for part in benchmark["slices"] if part["attribute"] == attribute)
    return {(group["name"], named(group, names)): group for group in members}


def attributes(benchmark: dict[str, Any]) -> list[str]:
    """Return the attributes of the slices."""
    return [part["attribute"] for part in benchmark["slices"]]


def ends(group: dict[str, Any]) -> tuple[float | None, float | None]:
    """Return the ends of an interval."""
    return group["low"], group["high"]
