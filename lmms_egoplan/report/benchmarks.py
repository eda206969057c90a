"""The reports of all benchmarks. A benchmark's report is imported when a report needs it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmms_egoplan.benchmarks.base import (
    ACTPLAN,
    EGOINTENT,
    EGOPLAN,
    EGOPLAN_BENCH2,
    EGOTHINK,
    Benchmark,
)
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.comparable_runs import ComparableRuns, comparable_parts
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.spec import NO_INPUTS, Inputs


def _egoplan() -> type[BenchmarkReport[Any]]:
    from lmms_egoplan.report.egoplan.report import EgoPlanReport

    return EgoPlanReport


def _egoplan_bench2() -> type[BenchmarkReport[Any]]:
    from lmms_egoplan.report.egoplan.bench2 import EgoPlanBench2Report

    return EgoPlanBench2Report


def _egothink() -> type[BenchmarkReport[Any]]:
    from lmms_egoplan.report.egothink.report import EgoThinkReport

    return EgoThinkReport


def _egointent() -> type[BenchmarkReport[Any]]:
    from lmms_egoplan.report.egointent.report import EgoIntentReport

    return EgoIntentReport


def _actplan() -> type[BenchmarkReport[Any]]:
    from lmms_egoplan.report.actplan.report import ActPlanReport

    return ActPlanReport


# For each benchmark, a function that imports its report.
_REPORTS: Mapping[str, Callable[[], type[BenchmarkReport[Any]]]] = {
    EGOPLAN.name: _egoplan,
    EGOPLAN_BENCH2.name: _egoplan_bench2,
    EGOTHINK.name: _egothink,
    EGOINTENT.name: _egointent,
    ACTPLAN.name: _actplan,
}


def report_class(benchmark: str) -> type[BenchmarkReport[Any]]:
    """Import the class of a benchmark's reports.

    Args:
        benchmark: Name of the benchmark.

    Raises:
        ValueError: No benchmark has this name.
    """
    if benchmark not in _REPORTS:
        raise ValueError(f"no report of a benchmark {benchmark!r}")
    return _REPORTS[benchmark]()


def read_reports(
    runs: Sequence[Run], benchmarks: Iterable[Benchmark], inputs: Inputs = NO_INPUTS
) -> Iterator[tuple[ComparableRuns, BenchmarkReport[Any]]]:
    """Make each benchmark's reports, one per part of comparable runs (`comparable_parts`).

    Raises:
        LmmsEgoplanError: see `BenchmarkReport`.
    """
    for benchmark in benchmarks:
        for part in comparable_parts(benchmark.name, runs):
            yield part, report_class(benchmark.name)(part.runs, inputs)
