"""ActPlan-1K's own tables: all scores, scores by group, and types of errors."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lmms_egoplan.benchmarks.actplan.instances import SETTINGS
from lmms_egoplan.report.actplan import marks
from lmms_egoplan.report.actplan.answers import BY_SETTING, GROUPS, MEASURES, Planned
from lmms_egoplan.report.actplan.error_judge import JudgedPlan
from lmms_egoplan.report.actplan.notes import (
    GOLD_NOTE,
    INTERVAL_NOTE,
    OWN_GOLD_NOTE,
    SHARES_COLUMNS,
)
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.stats.intervals import interval_of_sums
from lmms_egoplan.stats.means import Mean


def scores_table(planned: Sequence[Planned]) -> Table:
    """Build the table of every measure of every run."""
    columns = (
        Column("measure", "Score"),
        Column("model", "Run"),
        Column("value", "Value", decimals=3),
        *interval_columns("value", decimals=3),
        Column("activities", "Activities"),
        *SHARES_COLUMNS,
    )
    rows: list[dict[str, Value]] = []
    for measure, title in MEASURES.items():
        for run in planned:
            mean = run.means[measure]
            if mean.value is None:
                continue
            row: dict[str, Value] = {
                "measure": title,
                "model": run.name,
                "activities": mean.clusters,
            }
            rows.append({**row, **mean.cells("value"), **run.shares(mean)})
    notes = [
        (
            "LCS and normalised LCS (divided by the longer plan's length, 0 to 1) use the "
            "answer's lines, as the authors' code does. The parsed measures use the steps "
            "found in the answer. Each measure is over the plans for which it is defined."
        ),
        (
            "Form validity: mean share of a plan's steps of the form action(object). Plan "
            "length: number of parsed steps. Empty, without a step: shares of the answers; lower "
            "is better."
        ),
    ]
    notes += [GOLD_NOTE, OWN_GOLD_NOTE, INTERVAL_NOTE]
    return table_of_runs("actplan_scores", "All scores with intervals", columns, rows, notes)


def by_setting_table(planned: Sequence[Planned]) -> Table:
    """Build the table that compares normal and counterfactual activities."""
    columns = (
        Column("measure", "Score"),
        Column("model", "Run"),
        Column("normal", "Normal", decimals=3),
        *interval_columns("normal", decimals=3, prefix="normal_"),
        Column("normal_plans", "Plans"),
        Column("counterfactual", "Counterfactual", decimals=3),
        *interval_columns("counterfactual", decimals=3, prefix="counterfactual_"),
        Column("counterfactual_plans", "Plans"),
        Column("difference", "Difference", decimals=3),
        *interval_columns("difference", decimals=3, prefix="difference_"),
    )
    notes = [
        (
            "Difference: normal minus counterfactual. Each bootstrap resample draws whole "
            "activities, with the normal and counterfactual plans of an activity together. "
            "No interval if a resample lacks one of the two settings."
        ),
        INTERVAL_NOTE,
    ]
    rows: list[dict[str, Value]] = []
    for measure in BY_SETTING:
        for run in planned:
            means = {setting: run.group_mean("setting", setting, measure) for setting in SETTINGS}
            if all(mean.value is None for mean in means.values()):
                continue
            means["difference"] = _difference(run, means, measure)
            row: dict[str, Value] = {"measure": MEASURES[measure], "model": run.name}
            for part, mean in means.items():
                row |= mean.cells(part, f"{part}_")
                row[f"{part}_plans"] = mean.questions
            rows.append(row)
    return table_of_runs("actplan_by_setting", "Normal and counterfactual", columns, rows, notes)


def _difference(run: Planned, means: Mapping[str, Mean], measure: str) -> Mean:
    """Return normal minus counterfactual, with an interval over activities.

    Args:
        run: The run's task.
        means: The mean of each setting.
        measure: A key of `MEASURES`.
    """
    normal, counterfactual = (means[setting].value for setting in SETTINGS)
    if normal is None or counterfactual is None:
        return Mean()
    answers = [
        answer for answer in (run.answers or {}).values() if answer.scores[measure] is not None
    ]
    scores = np.array([answer.scores[measure] for answer in answers])
    settings = np.array([answer.groups["setting"] for answer in answers], dtype=str)
    in_setting = np.stack([settings == setting for setting in SETTINGS], axis=-1)
    rows = np.stack([in_setting * scores[:, None], in_setting], axis=-1)
    activities = [str(answer.cluster) for answer in answers]
    interval = interval_of_sums(rows, activities, _difference_of_settings)
    return Mean(normal - counterfactual, interval)


def _difference_of_settings(sums: np.ndarray) -> np.ndarray:
    """Return normal minus counterfactual; NaN if a resample has plans of one setting only."""
    total, count = np.moveaxis(sums, -1, 0)
    means = np.divide(total, count, out=np.full_like(total, math.nan), where=count > 0)
    return means[..., 0] - means[..., 1]


def by_length_table(planned: Sequence[Planned]) -> Table:
    """Build the table of LCS and the classifier's verdicts by length of gold plan 1."""
    notes = [
        INTERVAL_NOTE,
        (
            "The paper's Fig. 5 shows human verdicts by length. Its numbers are not "
            "printed, and its bins are not legible. People's verdicts, where the report "
            "has them, are in a separate table and figure."
        ),
    ]
    columns = _group_columns(Column("group", "Steps"))
    rows = _group_rows(planned, "length")
    return table_of_runs("actplan_by_length", "By length of gold plan 1", columns, rows, notes)


def by_activity_type_table(planned: Sequence[Planned]) -> Table:
    """Build the table of LCS and the classifier's verdicts by type of activity."""
    notes = [
        INTERVAL_NOTE,
        (
            "The paper does not assign activities to types (sec. 3.4). Here the activity's "
            "name decides."
        ),
    ]
    columns = _group_columns(Column("group", "Type"))
    rows = _group_rows(planned, "activity_type")
    return table_of_runs("actplan_by_activity_type", "By type of activity", columns, rows, notes)


def _group_columns(group: Column) -> tuple[Column, ...]:
    """Return the columns of a table of LCS and the classifier's verdicts by group.

    Args:
        group: The column with the groups.
    """
    return (
        group,
        Column("model", "Run"),
        Column("plans", "Plans", note="Plans: number of plans with gold plan 1."),
        Column("lcs_norm", "Norm. LCS", decimals=3),
        *interval_columns("lcs_norm", decimals=3),
        Column("lcs", "LCS, steps", decimals=3),
        Column("lcs_norm_parsed", "Norm. LCS, parsed", decimals=3),
        Column(
            "verdicts",
            "Classified",
            note="Classified: number of plans with a classifier's verdict.",
        ),
        Column("bleurt_correct", "Correct by classifier %", decimals=1),
        *interval_columns("bleurt_correct", decimals=1, prefix="correct_"),
    )


def _group_rows(planned: Sequence[Planned], by: str) -> list[dict[str, Value]]:
    """Return LCS and the classifier's verdicts of each run by group.

    Args:
        planned: The runs' tasks.
        by: A key of `GROUPS`.
    """
    rows = []
    for group in GROUPS[by]:
        for run in planned:
            if group not in run.groups[by]:
                continue
            norm = run.group_mean(by, group, "lcs_norm")
            correct = run.group_mean(by, group, "bleurt_correct")
            row: dict[str, Value] = {
                "group": group,
                "model": run.name,
                "plans": norm.questions,
                "verdicts": None if correct.value is None else correct.questions,
                "lcs": run.group_mean(by, group, "lcs").value,
                "lcs_norm_parsed": run.group_mean(by, group, "lcs_norm_parsed").value,
            }
            row |= norm.cells("lcs_norm")
            row |= correct.cells("bleurt_correct", "correct_", scale=100)
            rows.append(row)
    return rows


def people_by_length_table(people: Sequence[marks.ModelPlans]) -> Table | None:
    """Build the table of people's verdicts by length; None without labels."""
    rows: list[dict[str, Value]] = []
    for model, bins in marks.people_by_length(people).items():
        for length, mean in bins.items():
            row: dict[str, Value] = {"group": length, "model": model, "plans": mean.questions}
            rows.append({**row, **mean.cells("correct")})
    if not rows:
        return None
    columns = (
        Column("group", "Steps"),
        Column("model", "Model"),
        Column("plans", "Plans"),
        Column("correct", "Correct %", decimals=1),
        *interval_columns("correct", decimals=1),
    )
    notes = [marks.PEOPLE_BY_LENGTH_NOTE]
    title = "Correctness by length, judged by people"
    return table_of_runs("actplan_people_by_length", title, columns, rows, notes)


def errors_table(marked: Sequence[marks.Marked]) -> Table | None:
    """Build the table of types of errors; None without marked plans."""
    rows = list(marks.error_rows(marked))
    if not rows:
        return None
    columns = (
        Column("error", "Error"),
        Column("model", "Model"),
        Column("plans", "Plans"),
        Column("unmarked", "Not judged"),
        Column("count", "Plans with it"),
        Column("share", "Of all errors %", decimals=1),
        Column("example", "Example: activity"),
        Column("steps", "Its steps"),
    )
    notes = [
        (
            "Share: percentage of all errors in these plans, as in Fig. 6 of the paper, which "
            "counts errors in 40 plans of each model (sec. 5.6). The figure prints no numbers. The "
            "text says that missing actions occur most, and that mistakes of object property or "
            "function are common in all models. Table 8 has an example of each type."
        ),
        (
            "People: errors marked on the annotation page, including those in correct "
            "plans. Judge: errors from lmms-egoplan judge actplan, in plans that people "
            "did not call correct. Not judged: plans without a usable reply."
        ),
    ]
    return table_of_runs("actplan_errors", "Types of errors", columns, rows, notes)


def errors_agreement_table(judged: Sequence[JudgedPlan]) -> Table | None:
    """Build the table of the agreement of judges and people; None without plans marked by both."""
    rows = list(marks.agreement_rows(judged))
    if not rows:
        return None
    columns = (
        Column("judge", "Judge"),
        Column("error", "Error"),
        Column("plans", "Plans"),
        Column("people", "By people"),
        Column("by_judge", "By judge"),
        Column("both", "By both"),
        Column("equal", "Same verdict %", decimals=1),
        Column("kappa", "Cohen's kappa", decimals=2),
        *interval_columns("kappa", decimals=2),
    )
    notes = [
        (
            "Agreement on whether a plan has a type of error, over plans marked by both people "
            "and the judge. Cohen's kappa has a 95 % interval from a bootstrap over plans. No "
            f"kappa for fewer than {MIN_ITEMS} plans, or if one side marks all plans the same."
        ),
    ]
    title = "Types of errors: judges and people"
    return table_of_runs("actplan_errors_agreement", title, columns, rows, notes)
