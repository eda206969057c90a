"""EgoPlan-Bench2's tables: all scores, by scenario, and run against run."""

from collections.abc import Callable, Iterator, Sequence

from lmms_egoplan.benchmarks.egoplan_bench2.metrics import DOMAIN_METRIC
from lmms_egoplan.benchmarks.egoplan_bench2.report.answers import Series
from lmms_egoplan.next_action.report import DECIMALS
from lmms_egoplan.next_action.report.answers import CHANCE, score_rows
from lmms_egoplan.report.document import Table, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.scored import Key, compared, interval_note

note = read_notes(__file__, chance=CHANCE)
_COLUMNS = read_columns(__file__)
_PERCENT = ("acc", "acc_sum", "acc_bytes", *DOMAIN_METRIC.values(), "unparsed")
_INTERVAL_NOTE = interval_note("videos", "questions")


def all_tables(series: Sequence[Series], scenario_of: Callable[[Key], str | None]) -> Iterator[Table | None]:
    """In the section's order.

    Args:
        scenario_of: of a question; None where it is not at hand.
    """
    yield _scores_table(series)
    yield _scenarios_table(series, scenario_of)
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


def _scenarios_table(series: Sequence[Series], scenario_of: Callable[[Key], str | None]) -> Table | None:
    """Accuracy by scenario; None where no question is at hand."""
    rows = []
    for scenario in sorted({scenario_of(key) or "" for task in series for key in task.answers or ()} - {""}):
        for task in series:
            keys = [key for key in task.answers or () if scenario_of(key) == scenario]
            if keys:
                mean = task.mean_over(keys)
                rows.append(
                    {"scenario": scenario, "run": task.run.name, "task": task.task, "acc_sum": task.by_sum(keys)}
                    | {"questions": mean.questions}
                    | mean.cells("acc")
                )
    if not rows:
        return None
    title, notes = "Accuracy by scenario", (note("score"), _INTERVAL_NOTE)
    return table_of_runs("egoplan_bench2_scenarios", title, _COLUMNS["scenarios"], rows, notes)
