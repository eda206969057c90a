"""EgoIntent's part of the report, put together."""

from collections.abc import Sequence

from lmms_egoplan.benchmarks.egointent.records import GOALSTEP_STEPS
from lmms_egoplan.benchmarks.egointent.report.answers import Graded, graded_runs
from lmms_egoplan.benchmarks.egointent.report.figures import heatmap_figure, heatmaps_of
from lmms_egoplan.benchmarks.egointent.report.remarks import remarks
from lmms_egoplan.benchmarks.egointent.report.scores import DECIMALS, intervals_of, official_coverage
from lmms_egoplan.benchmarks.egointent.report.tables import comparison_table, scenarios, score_table, table3
from lmms_egoplan.report.benchmark import NO_INPUTS, Inputs
from lmms_egoplan.report.document import Headline, Section
from lmms_egoplan.report.run import Run


def section(runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> Section | None:
    """The benchmark's part of the report; None where no run has one of its tasks.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the task logs.
    """
    graded = graded_runs(runs)
    if not graded:
        return None
    heatmaps = heatmaps_of(graded)
    intervals = {run.name: intervals_of(run) for run in graded}
    logged = [run for run in graded if run.steps]
    tables = [
        table3(graded, intervals),
        score_table(graded, intervals),
        *scenarios(graded),
        comparison_table(logged),
    ]
    return Section(
        "egointent",
        "EgoIntent",
        "Open questions about steps of procedures, seen up to just before their outcome: what is done, why, and what "
        "comes next. A judge model rates how far each of the three agrees with the reference, from 0 to 100.",
        tuple(_headline(run, intervals[run.name].get("overall")) for run in graded),
        tuple(table for table in tables if table is not None),
        tuple(map(heatmap_figure, heatmaps)),
        tuple(remarks(graded, heatmaps)),
    )


def _headline(run: Graded, interval: tuple[float, float] | None) -> Headline:
    return Headline(
        run=run.run,
        benchmark="EgoIntent",
        task=run.task_run.task,
        metric=f"overall ({GOALSTEP_STEPS})" if run.is_goalstep else "overall",
        value=run.number("overall"),
        decimals=DECIMALS,
        interval=interval,
        questions=run.number("num_steps"),
        coverage=official_coverage(run),
        truncated=run.number("truncated"),
    )
