"""EgoPlan-Bench2's tables: all scores, by scenario, and run against run."""

from collections.abc import Iterator, Sequence

from lmms_egoplan.benchmarks.egoplan.bench2.metrics import DOMAIN_METRIC
from lmms_egoplan.benchmarks.egoplan.bench2.report.answers import Series
from lmms_egoplan.benchmarks.egoplan.report import DECIMALS
from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, Groups, group_rows, score_rows
from lmms_egoplan.report.document import Table, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.scored import compared, interval_note

note = read_notes(__file__, chance=CHANCE)
_COLUMNS = read_columns(__file__)
_PERCENT = ("acc", "acc_sum", "acc_bytes", *DOMAIN_METRIC.values(), "unparsed")
_INTERVAL_NOTE = interval_note("videos", "questions")


def all_tables(series: Sequence[Series], by_scenario: Groups) -> Iterator[Table | None]:
    """In the section's order."""
    yield _scores_table(series)
    if by_scenario:
        rows, notes = group_rows(by_scenario, "scenario"), (note("score"), _INTERVAL_NOTE)
        yield table_of_runs("egoplan_bench2_scenarios", "Accuracy by scenario", _COLUMNS["scenarios"], rows, notes)
    logged = [task for task in series if task.answers]
    for name in dict.fromkeys(task.task for task in logged):
        same = [task for task in logged if task.task == name]
        title = f"Every pair of runs: {name}"
        yield compared(same, "acc", f"egoplan_bench2_comparisons_{name}", title, DECIMALS, "videos", scale=100)


def _scores_table(series: Sequence[Series]) -> Table:
    """Every score of every task."""
    rows = score_rows(series, _PERCENT)
    notes = (note("score"), note("published"), _INTERVAL_NOTE, note("counts"))
    return table_of_runs("egoplan_bench2_scores", "All scores of each run", _COLUMNS["scores"], rows, notes)
