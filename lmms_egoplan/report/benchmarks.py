"""The reports of all benchmarks. A benchmark's report is imported when a report needs it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.comparable_runs import ComparableRuns, comparable_parts
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.spec import NO_INPUTS, Inputs


def report_class(benchmark: str) -> type[BenchmarkReport[Any]]:
    """Import the class of a benchmark's reports.

    Args:
        benchmark: Name of the benchmark.

    Raises:
        ValueError: No benchmark has this name.
    """
    if benchmark == "egoplan":
        from lmms_egoplan.report.egoplan.report import EgoPlanReport

        return EgoPlanReport
    if benchmark == "egoplan_bench2":
        from lmms_egoplan.report.egoplan.bench2 import EgoPlanBench2Report

        return EgoPlanBench2Report
    if benchmark == "egothink":
        from lmms_egoplan.report.egothink.report import EgoThinkReport

        return EgoThinkReport
    if benchmark == "egointent":
        from lmms_egoplan.report.egointent.report import EgoIntentReport

        return EgoIntentReport
    if benchmark == "actplan":
        from lmms_egoplan.report.actplan.report import ActPlanReport

        return ActPlanReport
    raise ValueError(f"no report of a benchmark {benchmark!r}")


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
