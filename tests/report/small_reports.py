"""Small runs of each benchmark with their report, computed once for all test modules."""

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.document import Section
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from report.counting import Counting
from report.prepared import prepare_data
from report.synthetic import write_run

_TESTS = Path(__file__).parent
# The benchmarks with small runs.
SMALL = [
    benchmark.name
    for benchmark in BENCHMARKS
    if (_TESTS / benchmark.name / "synthetic_runs.py").exists()
]


class SmallReport(NamedTuple):
    """Runs of a benchmark, and the section of their report.

    folder: folder with the runs, the prepared data in ``data``, and an encoder in ``bert``.
    """

    folder: Path
    counting: Counting
    runs: tuple[Run, ...]
    report: type[BenchmarkReport]
    section: Section

    @property
    def inputs(self) -> Inputs:
        return Inputs(str(self.folder / "bert"))


def write_small_report(name: str, folder: Path) -> SmallReport:
    """Write the runs that the module ``synthetic_runs`` of a benchmark's tests describes, and
    report on them.
    """
    from benchmarks.actplan.tiny_encoder import write_encoder

    case = import_module(f"report.{name}.synthetic_runs")
    (benchmark,) = (benchmark for benchmark in BENCHMARKS if benchmark.name == name)
    write_encoder(folder / "bert")
    for folder_name, harness, model, tasks, options in case.COUNTING.runs():
        write_run(folder / folder_name, harness, model, tasks, **options)
    runs = read_runs(
        sorted({folder / folder_name for folder_name, *_ in case.COUNTING.runs()})
    ).runs
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_data(folder / "data", **{name: case.COUNT})
        unreported = SmallReport(folder, case.COUNTING, runs, report_class(benchmark.name), Section)
        return unreported._replace(
            section=build_section(unreported.report(runs, unreported.inputs))
        )
