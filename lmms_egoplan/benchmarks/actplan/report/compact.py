"""The benchmark's compact table."""

from collections.abc import Callable, Sequence

from lmms_egoplan.benchmarks.actplan.report.answers import Planned, read_planned
from lmms_egoplan.benchmarks.actplan.report.columns import DECIMALS
from lmms_egoplan.benchmarks.actplan.report.plans import MEASURES
from lmms_egoplan.report.compact_tables import (
    COVERAGE_NOTE,
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

# Against gold plan 1.
_SCORES = ("lcs_norm", "lcs", "lcs_norm_parsed", "lcs_parsed", "form_validity", "plan_length")
_LCS_NOTE = "LCS: longest common subsequence with gold plan 1, in steps. Norm.: divided by the longer plan's length."
_SHARES = ("empty", "unparsed", "truncated")


def compact(runs: Sequence[Run]) -> Table | None:
    """Longest common subsequences with gold plan 1, and what the plans are like; None where no run has the task.

    Raises:
        LmmsEgoplanError: see `read_planned`.
    """
    planned = read_planned(runs)
    if not planned:
        return None
    names = dict.fromkeys(run.run.name for run in planned)
    notes = (_LCS_NOTE, COVERAGE_NOTE)
    return compact_table("actplan_compact", "ActPlan-1K: plans", names, by_task(planned, _lines), notes)


def _lines(planned: Sequence[Planned]) -> list[Line]:
    """Of one task."""

    def line(label: str, shown: Callable[[Planned], str]) -> Line:
        return Line(label, {run.run.name: shown(run) for run in planned})

    has_classifier = any(run.number("bleurt_correct") is not None for run in planned)
    shares = (*(["bleurt_correct"] if has_classifier else []), *_SHARES)
    return [
        *(line(MEASURES[name], lambda run, name=name: _score(run, name)) for name in _SCORES),
        *(line(MEASURES[name], lambda run, name=name: share(run.means[name].value)) for name in shares),
        line("Plans", lambda run: f"{number(run.number('num_plans'))} of {number(run.official)}"),
        line("Sentence encoder", lambda run: name_of(run.task_run.metrics.get("encoder"))),
        *(
            [line("Classifier", lambda run: name_of(run.task_run.metrics.get("bleurt_model")))]
            if has_classifier
            else []
        ),
    ]


def _score(run: Planned, measure: str) -> str:
    mean = run.means[measure]
    if mean.plans is None:
        return number(mean.value, DECIMALS)
    return scored(mean.value, DECIMALS, min(1.0, mean.plans / run.official))
