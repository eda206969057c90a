"""What a report needs of a benchmark; who asks for a report hands the benchmarks over."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lmms_egoplan.report.document import Item, Section, Table
from lmms_egoplan.report.run import Run


@dataclass(frozen=True)
class Inputs:
    """What a report is made from beside the runs; a benchmark takes what is its own.

    similarity: the encoder that measures how similar texts are, a name or a folder; None for the benchmark's own.
    judged: files of answers that a judge has rated several times.
    """

    similarity: str | None = None
    judged: tuple[Path, ...] = ()


NO_INPUTS = Inputs()


@dataclass(frozen=True)
class BenchmarkReport:
    """A benchmark's part of reports.

    section: of runs whose tasks' versions compare; None where no run has one of its tasks.
    items: the questions of these runs, for the gallery.
    compact: their main scores, for a terminal; None where no run has one of its tasks.
    inputs_table: the table of inputs that are of no version of a task; None where there are none.

    All raise `LmmsEgoplanError` where runs or inputs are not of the form that is read.
    """

    section: Callable[[Sequence[Run], Inputs], Section | None]
    items: Callable[[Sequence[Run]], Iterable[Item]]
    compact: Callable[[Sequence[Run]], Table | None]
    inputs_table: Callable[[Inputs], Table | None] = lambda _: None


class ReportedBenchmark(Protocol):
    """A benchmark, as the registry has it.

    name: its tasks begin with it; the key of its section.
    title: for messages.
    """

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def load_report(self) -> BenchmarkReport: ...
