"""Runs of ActPlan-1K next to the tables of its paper."""

from collections.abc import Sequence
from typing import Any

from lmms_egoplan.benchmarks.actplan.instances import SETTINGS
from lmms_egoplan.report.actplan import marks
from lmms_egoplan.report.actplan.answers import Planned
from lmms_egoplan.report.actplan.notes import (
    GOLD_NOTE,
    INTERVAL_NOTE,
    OWN_GOLD_NOTE,
    SHARES_COLUMNS,
)
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns

_CLASSIFIER_NOTE = (
    "The published correctness and commonsense are human verdicts, which runs do not "
    'have. "Correct by classifier" is the verdict of a finetuned BLEURT, in separate '
    "columns. Table 5 shows how far such classifiers agree with people."
)
_ABLATION_NOTE = (
    "Published: 40 normal and 20 counterfactual activities. Other rows: runs with the task "
    "actplan_text_only. Their lengths are mean numbers of parsed steps over all plans of the task."
)
# The rows of a run in Table 4: end of the measures' names, end of the row's name, and gold plan.
_TABLE4_ROWS = (
    ("", "", "1"),
    ("_gold_2", " (gold plan 2)", "2"),
    ("_best", " (better of the two)", "the better of the two"),
)


def table3(people: Sequence[marks.ModelPlans], planned: Sequence[Planned]) -> Table:
    """Put correctness, by the classifier and by people, above Table 3 of the paper."""
    columns = (
        Column(
            "normal_classified",
            "Normal, correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column(
            "counterfactual_classified",
            "Counterfactual, correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column(
            "total_classified", "Total, correct by classifier %", decimals=1, higher_is_better=True
        ),
        *interval_columns("total_classified", decimals=1, label="(total by classifier)"),
        *SHARES_COLUMNS,
        Column("classifier", "Classifier", is_condition=True),
    )
    rows: list[OwnRow] = list(marks.table3_rows(people))
    for run in planned:
        mean = run.means["bleurt_correct"]
        if run.is_text_only or mean.value is None:
            continue
        row: dict[str, Any] = {
            "model": run.name,
            "classifier": run.task_run.metrics.get("bleurt_model"),
            "apart": run.objections,
        }
        row |= _verdicts_by_setting(run)
        if run.part is None:
            row |= mean.cells("total_classified", scale=100)
        rows.append(row | run.shares(mean))
    if rows:
        title = "Correctness, next to Table 3 of the paper"
        notes = [_CLASSIFIER_NOTE, INTERVAL_NOTE]
    else:
        title = "Published: correctness, judged by people"
        notes = [_CLASSIFIER_NOTE]
    return published_with_runs(title, load_table("actplan", "table3"), rows, columns, notes)


def table4(planned: Sequence[Planned]) -> Table:
    """Put the LCS with each gold plan, and with the better of the two, above Table 4."""
    columns = (
        Column("gold_plan", "Gold plan"),
        *interval_columns("norm_lcs", decimals=2, label="(norm. LCS)"),
        Column("norm_lcs_normal", "Norm. LCS, normal", decimals=2, higher_is_better=True),
        Column(
            "norm_lcs_counterfactual",
            "Norm. LCS, counterfactual",
            decimals=2,
            higher_is_better=True,
        ),
        *SHARES_COLUMNS,
        Column("encoder", "Sentence encoder", is_condition=True),
    )
    notes = [
        GOLD_NOTE,
        OWN_GOLD_NOTE,
        INTERVAL_NOTE,
    ]
    rows: list[OwnRow] = []
    for run in planned:
        for suffix, ending, gold_plan in _TABLE4_ROWS:
            norm = run.means[f"lcs_norm{suffix}"]
            if run.is_text_only or norm.value is None or (run.part and suffix):
                continue
            row: dict[str, Any] = {
                "model": f"{run.name}{ending}",
                "gold_plan": gold_plan,
                "encoder": run.task_run.metrics.get("encoder"),
                "apart": run.objections,
            }
            if run.part is None:
                row["lcs"] = run.means[f"lcs{suffix}"].value
                row |= norm.cells("norm_lcs")
            if not suffix:
                row |= _norms_by_setting(run)
            rows.append(row | run.shares(norm))
    published = load_table("actplan", "table4")
    title = "LCS, next to Table 4 of the paper"
    return published_with_runs(title, published, rows, columns, notes, main="norm_lcs")


def table5(people: Sequence[marks.ModelPlans], planned: Sequence[Planned]) -> Table:
    """Put the agreement of classifiers with people above Table 5 of the paper."""
    columns = (
        Column("all_acc", "Accuracy, all plans", decimals=1, higher_is_better=True),
        Column("majority_acc", "Accuracy, always the more common verdict", decimals=1),
        Column("equal_acc", "Accuracy, right if equal to a gold plan", decimals=1),
        Column("plans", "Plans"),
    )
    notes = [
        (
            "Right if equal to a gold plan: accuracy of calling exactly the plans correct "
            "that equal one of their instance's gold plans, line by line. A classifier is "
            "informative only above it and above always giving the more common verdict."
        ),
    ]
    rows = list(marks.table5_rows(people, planned))
    if rows:
        title = "Agreement of classifiers with people, next to Table 5 of the paper"
    else:
        title = "Published: agreement of classifiers with people"
    return published_with_runs(title, load_table("actplan", "table5"), rows, columns, notes)


def ablation_runs(planned: Sequence[Planned]) -> list[Planned]:
    """Return the tasks over both settings of the runs that include the text-only task."""
    text_only_runs = {run.run.name for run in planned if run.is_text_only}
    return [run for run in planned if run.run.name in text_only_runs and run.part is None]


def table6(people: Sequence[marks.ModelPlans], ablation: Sequence[Planned]) -> Table:
    """Put runs without and with images above Table 6 of the paper."""
    columns = (
        Column("norm_lcs", "Norm. LCS", decimals=2, higher_is_better=True),
        Column("classified", "Correct by classifier %", decimals=1, higher_is_better=True),
        *SHARES_COLUMNS,
    )
    rows: list[OwnRow] = []
    for run in ablation:
        name = f"{run.run.name} (w/o)" if run.is_text_only else f"{run.name} (w)"
        row: dict[str, Any] = {
            "model": name,
            "avg_len": run.number("plan_length"),
            "norm_lcs": run.means["lcs_norm"].value,
            "classified": in_percent(run.means["bleurt_correct"].value),
            "apart": run.objections,
        }
        rows.append(row | run.shares(run.means["plan_length"]))
    rows += marks.ablation_rows(people, 6)
    title = "Without images, next to Table 6 of the paper" if rows else "Published: without images"
    notes = [_ABLATION_NOTE, _CLASSIFIER_NOTE] if ablation else []
    return published_with_runs(title, load_table("actplan", "table6"), rows, columns, notes)


def table7(people: Sequence[marks.ModelPlans], ablation: Sequence[Planned]) -> Table:
    """Put runs without and with images, by setting, above Table 7 of the paper."""
    columns = (
        Column("norm_lcs_normal", "Normal: Norm. LCS", decimals=2, higher_is_better=True),
        Column(
            "norm_lcs_counterfactual",
            "Counterfactual: Norm. LCS",
            decimals=2,
            higher_is_better=True,
        ),
        Column(
            "normal_classified",
            "Normal: Correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column(
            "counterfactual_classified",
            "Counterfactual: Correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        *SHARES_COLUMNS,
    )
    rows: list[OwnRow] = []
    for run in ablation:
        name = f"{run.run.name}, w/o image" if run.is_text_only else f"{run.name}, w image"
        row: dict[str, Any] = {"model": name, "apart": run.objections}
        for setting in SETTINGS:
            row[f"{setting}_avg_len"] = run.group_mean("setting", setting, "plan_length").value
        row |= _norms_by_setting(run)
        row |= _verdicts_by_setting(run)
        rows.append(row | run.shares(run.means["plan_length"]))
    rows += marks.ablation_rows(people, 7)
    if rows:
        title = "Without images, by setting, next to Table 7 of the paper"
    else:
        title = "Published: without images, by setting"
    notes = [_ABLATION_NOTE, _CLASSIFIER_NOTE] if ablation else []
    return published_with_runs(title, load_table("actplan", "table7"), rows, columns, notes)


def _norms_by_setting(run: Planned) -> dict[str, Value]:
    """Return the normalised LCS by column."""
    cells: dict[str, Value] = {}
    for setting in SETTINGS:
        cells[f"norm_lcs_{setting}"] = run.group_mean("setting", setting, "lcs_norm").value
    return cells


def _verdicts_by_setting(run: Planned) -> dict[str, Value]:
    """Return the share of plans that the classifier calls correct, in per cent, by column."""
    cells: dict[str, Value] = {}
    for setting in SETTINGS:
        mean = run.group_mean("setting", setting, "bleurt_correct")
        cells[f"{setting}_classified"] = in_percent(mean.value)
    return cells
