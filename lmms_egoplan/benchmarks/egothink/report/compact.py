"""The benchmark's compact table."""

from collections.abc import Callable, Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.report.answers import graded_runs
from lmms_egoplan.benchmarks.egothink.report.scores import DECIMALS, Part, part_of
from lmms_egoplan.report.compact_tables import (
    COVERAGE_NOTE,
    DEMO_NOTE,
    Line,
    compact_table,
    name_of,
    number,
    scored,
    share,
)
from lmms_egoplan.report.document import Table
from lmms_egoplan.report.run import Run


def compact(runs: Sequence[Run]) -> Table | None:
    """Each dimension's score, 0 to 100, and their average; None where no run has one of the benchmark's tasks.

    Raises:
        LmmsEgoplanError: see `graded_runs`.
    """
    graded = graded_runs(runs)
    if not graded:
        return None
    whole = {run.name: part_of(run, DIMENSIONS) for run in graded}

    def line(label: str, shown: Callable[[Part], str]) -> Line:
        return Line(label, {name: shown(part) for name, part in whole.items()})

    dimensions = [
        Line(
            dimension.name,
            {run.name: _score(part_of(run, [dimension])) for run in graded if dimension.name in run.tasks},
        )
        for dimension in DIMENSIONS
    ]
    lines = [
        *(line for line in dimensions if line.cells),
        line("average of the twelve", _score),
        line("questions", lambda part: f"{number(part.questions)} of {number(part.official)}"),
        line("judged", lambda part: share(part.judged / part.questions if part.questions else None)),
        line("truncated", lambda part: share(part.truncated)),
        line("suspect", lambda part: share(part.suspect)),
        line("judge", lambda part: name_of(part.judge)),
    ]
    notes = (*([DEMO_NOTE] if any(part.is_by_demo for part in whole.values()) else []), COVERAGE_NOTE)
    return compact_table("egothink_compact", "EgoThink: score, 0 to 100", whole, {"": lines}, notes)


def _score(part: Part) -> str:
    return scored(part.score, DECIMALS, part.judged / part.official)
