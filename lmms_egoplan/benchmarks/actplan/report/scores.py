"""Tables of the runs' scores: all of them, and every pair of runs."""

from collections.abc import Sequence
from dataclasses import replace

from lmms_egoplan.benchmarks.actplan.report.answers import Planned
from lmms_egoplan.benchmarks.actplan.report.columns import DECIMALS, ENDS, GOLD_NOTE, INTERVAL_NOTE, SHARES, SHARES_NOTE
from lmms_egoplan.benchmarks.actplan.report.plans import MEASURES
from lmms_egoplan.report.comparisons import comparisons
from lmms_egoplan.report.document import Column, Row, Table


def all_scores(planned: Sequence[Planned]) -> Table:
    columns = (
        Column("measure", "Score"),
        Column("model", "Run"),
        Column("value", "Value", DECIMALS),
        *ENDS,
        Column("activities", "Activities"),
        *SHARES,
    )
    rows = []
    for measure, title in MEASURES.items():
        for run in planned:
            mean = run.means[measure]
            if mean.value is not None:
                values = (title, run.name, mean.value, *mean.ends, mean.activities)
                rows.append(Row((*values, *run.shares(mean).values()), is_own=True))
    notes = (
        "LCS and normalised LCS (by the longer plan's length, 0 to 1) are of the answer's lines, as the authors' code "
        "takes them; parsed: of the steps found in the answer. A measure is over the plans for which it is defined.",
        "Form validity: mean share of a plan's steps that are of the form action(object). Plan length: parsed steps. "
        "Empty, without a step, truncated: shares of the answers, less is better.",
        GOLD_NOTE,
        INTERVAL_NOTE,
        SHARES_NOTE,
    )
    return Table("actplan_scores", "All scores with intervals", columns, tuple(rows), "the runs", notes)


def compared(planned: Sequence[Planned]) -> Table | None:
    logged = [run for run in planned if run.plans]
    scores = {run.name: {key: plan.values["lcs_norm"] for key, plan in run.plans.items()} for run in logged}
    activities = {key: plan.activity for run in logged for key, plan in run.plans.items()}
    title = "Every pair of runs: normalised LCS"
    table = comparisons(scores, activities, "actplan_comparisons", title, DECIMALS, unit="activities")
    note = "Against gold plan 1, the answers' lines. Runs compare only where the sentence encoder is the same."
    return table and replace(table, notes=(*table.notes, note))
