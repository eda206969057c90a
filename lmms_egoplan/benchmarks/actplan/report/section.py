"""The benchmark's part of the report."""

from collections.abc import Sequence

from lmms_egoplan.benchmarks.actplan.published import load
from lmms_egoplan.benchmarks.actplan.report.answers import Planned, read_planned
from lmms_egoplan.benchmarks.actplan.report.breakdowns import by_group, by_setting
from lmms_egoplan.benchmarks.actplan.report.columns import DECIMALS
from lmms_egoplan.benchmarks.actplan.report.figures import figures
from lmms_egoplan.benchmarks.actplan.report.published_with_runs import ablation, table3, table4
from lmms_egoplan.benchmarks.actplan.report.remarks import remarks
from lmms_egoplan.benchmarks.actplan.report.scores import all_scores, compared
from lmms_egoplan.report.benchmark import NO_INPUTS, Inputs
from lmms_egoplan.report.document import Headline, Section
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.run import Run


def section(runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> Section | None:
    """The benchmark's part of the report; None where no run has one of its tasks.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the task logs.
    """
    planned = read_planned(runs)
    if not planned:
        return None
    tables = [
        table4(planned),
        table3(planned),
        *ablation(planned),
        published_with_runs("Published: how far classifiers agree with people", load("table5"), ()),
        all_scores(planned),
        by_setting(planned),
        by_group("actplan_by_length", "By length of gold plan 1", "Steps", "length", planned),
        by_group("actplan_by_activity_type", "By type of activity", "Type", "activity_type", planned),
        compared(planned),
    ]
    return Section(
        "actplan",
        "ActPlan-1K",
        "Plans for household activities, one action(object) per step, out of a task description and views of the home. "
        "Plans are compared with gold plans by the longest common subsequence (LCS) of their steps, and called correct "
        "or wrong by a classifier where a run has one.",
        tuple(map(_headline, planned)),
        tuple(table for table in tables if table is not None),
        tuple(figures(planned)),
        tuple(remarks(planned)),
    )


def _headline(run: Planned) -> Headline:
    mean = run.means["lcs_norm"]
    return Headline(
        run=run.run.name,
        benchmark="ActPlan-1K",
        task=run.task_run.task,
        metric="lcs_norm",
        value=run.number("lcs_norm"),
        decimals=DECIMALS,
        interval=mean.interval,
        questions=mean.plans,
        coverage=None if mean.plans is None else min(1.0, mean.plans / run.official),
        truncated=run.number("truncated"),
    )
