"""The benchmark's compact table."""

from collections.abc import Sequence

from lmms_egoplan.benchmarks.egoplan.report.official import OFFICIAL, official_coverage
from lmms_egoplan.benchmarks.egoplan.report.series import DECIMALS, Series, read_series
from lmms_egoplan.report.compact_tables import COVERAGE_NOTE, Line, by_task, compact_table, number, scored, share
from lmms_egoplan.report.document import Table
from lmms_egoplan.report.run import Run

_RANKED = ("acc", "acc_sum", "acc_bytes")
_SOURCES = ("acc_epic_kitchens", "acc_ego4d")
_RANKED_NOTE = (
    "acc ranks the choices by mean log-probability per token, acc_sum by the sum, acc_bytes by the sum per byte."
)


def compact(runs: Sequence[Run]) -> Table | None:
    """Accuracies in per cent; None where no run has one of the benchmark's tasks.

    Raises:
        LmmsEgoplanError: see `read_series`.
    """
    series = read_series(runs)
    if not series:
        return None
    notes = (*([_RANKED_NOTE] if any(each.is_ranked for each in series) else []), COVERAGE_NOTE)
    names = dict.fromkeys(each.run.name for each in series)
    return compact_table("egoplan_compact", "EgoPlan: accuracy in per cent", names, by_task(series, _lines), notes)


def _lines(series: Sequence[Series]) -> list[Line]:
    """Of one task."""
    is_ranked = any(each.is_ranked for each in series)
    lines = [
        Line(
            metric,
            {each.run.name: scored(each.percent(metric), DECIMALS, official_coverage(each)) for each in series},
        )
        for metric in (_RANKED if is_ranked else _RANKED[:1])
    ]
    lines += [
        Line(metric, {each.run.name: number(each.percent(metric), DECIMALS) for each in series}) for metric in _SOURCES
    ]
    if not is_ranked:
        lines.append(Line("unparsed", {each.run.name: share(each.number("unparsed")) for each in series}))
    counts = {each.run.name: f"{number(each.questions)} of {number(OFFICIAL)}" for each in series}
    return [*lines, Line("questions", counts)]
