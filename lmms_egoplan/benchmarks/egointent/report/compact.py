"""The benchmark's compact table."""

from collections.abc import Callable, Sequence

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import Graded, graded_runs
from lmms_egoplan.benchmarks.egointent.report.scores import DECIMALS, is_by_demo, official_coverage
from lmms_egoplan.report.compact_tables import (
    COVERAGE_NOTE,
    DEMO_NOTE,
    NOT_AVAILABLE,
    Line,
    by_task,
    compact_table,
    name_of,
    number,
    scored,
    share,
)
from lmms_egoplan.report.document import Table
from lmms_egoplan.report.run import Run

_SHARES = {
    "parsed": "parsed",
    "judge_coverage": "judged",
    "truncated": "truncated",
    "suspect": "suspect",
    "unverified": "unverified",
}
_FIELDS_NOTE = "A field that is missing in a reply scores 0 and is not judged."


def compact(runs: Sequence[Run]) -> Table | None:
    """Scores, 0 to 100, overall and by field; None where no run has the benchmark's task.

    Raises:
        LmmsEgoplanError: see `graded_runs`.
    """
    graded = graded_runs(runs)
    if not graded:
        return None
    names = dict.fromkeys(run.run for run in graded)
    notes = (_FIELDS_NOTE, *([DEMO_NOTE] if any(map(is_by_demo, graded)) else []), COVERAGE_NOTE)
    blocks = {
        f"{task} ({GOALSTEP_STEPS})" if is_goalstep else task: lines
        for is_goalstep in (False, True)
        for task, lines in by_task([run for run in graded if run.is_goalstep is is_goalstep], _lines).items()
    }
    return compact_table("egointent_compact", "EgoIntent: score, 0 to 100", names, blocks, notes)


def _lines(graded: Sequence[Graded]) -> list[Line]:
    """Of one task."""

    def line(label: str, shown: Callable[[Graded], str]) -> Line:
        return Line(label, {run.run: shown(run) for run in graded})

    return [
        line("overall", lambda run: scored(run.number("overall"), DECIMALS, _coverage(run))),
        *(line(name, lambda run, name=name: number(run.number(name), DECIMALS)) for name in (*FIELDS, *ENVIRONMENTS)),
        line("steps", lambda run: number(run.number("num_steps"))),
        *(line(label, lambda run, name=name: share(run.number(name))) for name, label in _SHARES.items()),
        line("shown as", lambda run: run.media or NOT_AVAILABLE),
        line("judge", lambda run: "not asked" if run.number("parsed") == 0 else name_of(run.judge)),
    ]


def _coverage(run: Graded) -> float | None:
    """Of the benchmark's steps, of which Goal-Step's are none."""
    return None if run.is_goalstep else official_coverage(run)
