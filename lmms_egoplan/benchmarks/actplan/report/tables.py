"""ActPlan's tables: beside the published ones, all scores, and breakdowns."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.actplan.error_judge import JudgedPlan
from lmms_egoplan.benchmarks.actplan.instances import SETTINGS
from lmms_egoplan.benchmarks.actplan.report.answers import BY_SETTING, GROUPS, INSTANCES, MEASURES, Planned
from lmms_egoplan.benchmarks.actplan.report.marks import (
    Labelled,
    ablation_rows,
    agreement_table,
    errors_table,
    marked_by,
    table3_rows,
    table5_rows,
)
from lmms_egoplan.report.comparisons import compared
from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.scored import Mean, in_percent, interval_note
from lmms_egoplan.report.statistics import interval_of_sums

DECIMALS = 3
note = read_notes(__file__, instances=sum(INSTANCES.values()), **INSTANCES)
_COLUMNS = read_columns(__file__)
_INTERVAL_NOTE = interval_note("activities", "plans")


def all_tables(
    planned: Sequence[Planned], people: Sequence[Labelled] = (), judged: Sequence[JudgedPlan] = ()
) -> Iterator[Table | None]:
    """In the section's order.

    Args:
        people: what they said of plans.
        judged: plans with the types of errors that a judge marked.
    """
    yield _table4(planned)
    yield _table3(planned, people)
    yield from _ablation(planned, people)
    yield _table5(planned, people)
    yield errors_table(marked_by(people, judged))
    yield agreement_table(judged)
    yield _all_scores(planned)
    yield _by_setting(planned)
    yield _by_group("By length of gold plan 1", "Steps", "length", planned)
    yield _by_group("By type of activity", "Type", "activity_type", planned)
    title = "Every pair of runs: normalised LCS"
    told = ("actplan_comparisons", title, DECIMALS, "activities", note("comparisons"))
    yield compared(planned, "lcs_norm", *told)


def _table4(planned: Sequence[Planned]) -> Table:
    """LCS with either gold plan."""
    own: list[OwnRow] = []
    for run in planned:
        for number, suffix in enumerate(("", "_gold_2"), 1):
            steps, norm = (run.means[f"{measure}{suffix}"] for measure in ("lcs", "lcs_norm"))
            if run.is_text_only or norm.value is None or (run.part and number > 1):
                continue
            row: dict[str, Any] = {"model": run.name + f", gold plan {number}" * (number > 1)}
            row |= {"encoder": run.task_run.metrics.get("encoder"), "apart": run.apart}
            row |= {"lcs": steps.value} | norm.cells("norm_lcs") if run.part is None else {}
            row |= _norms_by_setting(run) if number == 1 else {}
            own.append(row | run.shares(norm))
    notes = (note("gold"), note("encoder"), note("parts"), _INTERVAL_NOTE, note("shares"))
    return published_with_runs(
        "LCS, beside Table 4", load_table("actplan", "table4"), own, _COLUMNS["table4"], notes, main="norm_lcs"
    )


def _table3(planned: Sequence[Planned], people: Sequence[Labelled]) -> Table:
    """Correctness by the classifier, and what people said."""
    own: list[OwnRow] = list(table3_rows(people))
    for run in planned:
        mean = run.means["bleurt_correct"]
        if run.is_text_only or mean.value is None:
            continue
        row: dict[str, Any] = {"model": run.name, "classifier": run.task_run.metrics.get("bleurt_model")}
        row |= {"apart": run.apart} | _verdicts_by_setting(run)
        row |= mean.cells("total_classified", scale=100) if run.part is None else {}
        own.append(row | run.shares(mean))
    notes = (note("classifier"), *((_INTERVAL_NOTE, note("shares")) if own else ()))
    title = "Correctness, beside Table 3" if own else "Published: correctness, judged by people"
    return published_with_runs(title, load_table("actplan", "table3"), own, _COLUMNS["table3"], notes)


def _table5(planned: Sequence[Planned], people: Sequence[Labelled]) -> Table:
    """How far classifiers agree with people."""
    own = list(table5_rows(people, planned))
    title = "How far classifiers agree with people"
    title = f"{title}, beside Table 5" if own else f"Published: {title[0].lower()}{title[1:]}"
    return published_with_runs(title, load_table("actplan", "table5"), own, _COLUMNS["table5"])


def _ablation(planned: Sequence[Planned], people: Sequence[Labelled]) -> Iterator[Table]:
    """Tables 6 and 7: without and with images, of runs that have the task without."""
    without = {run.run.name for run in planned if run.is_text_only}
    runs = [run for run in planned if run.run.name in without and run.part is None]
    table6: list[OwnRow] = []
    table7: list[OwnRow] = []
    for run in runs:
        base, norm = run.run.name if run.is_text_only else run.name, run.means["lcs_norm"]
        scores = {"norm_lcs": norm.value, "classified": in_percent(run.means["bleurt_correct"].value)}
        images = "w/o" if run.is_text_only else "w"
        length: dict[str, Any] = {"avg_len": run.number("plan_length"), "apart": run.apart}
        shares = run.shares(run.means["plan_length"])
        table6.append({"model": f"{base} ({images})"} | length | scores | shares)
        parts: dict[str, Any] = {"model": f"{base}, {images} image", "apart": run.apart}
        parts |= {f"{setting}_avg_len": run.of("setting", setting, "plan_length").value for setting in SETTINGS}
        table7.append(parts | _norms_by_setting(run) | _verdicts_by_setting(run) | shares)
    table6 += ablation_rows(people, 6)
    table7 += ablation_rows(people, 7)
    notes = (note("ablation"), note("classifier"), note("shares")) if runs else ()
    for number, head, own in ((6, "Without images", table6), (7, "Without images, by setting", table7)):
        title = f"{head}, beside Table {number}" if own else f"Published: {head.lower()}"
        yield published_with_runs(
            title, load_table("actplan", f"table{number}"), own, _COLUMNS[f"table{number}"], notes
        )


def _norms_by_setting(run: Planned) -> dict[str, Value]:
    return {f"norm_lcs_{setting}": run.of("setting", setting, "lcs_norm").value for setting in SETTINGS}


def _verdicts_by_setting(run: Planned) -> dict[str, Value]:
    means = {setting: run.of("setting", setting, "bleurt_correct") for setting in SETTINGS}
    return {f"{setting}_classified": in_percent(mean.value) for setting, mean in means.items()}


def _all_scores(planned: Sequence[Planned]) -> Table:
    """Every measure of every run."""
    rows = []
    for measure, title in MEASURES.items():
        for run in planned:
            mean = run.means[measure]
            if mean.value is not None:
                score = mean.cells("value") | {"activities": mean.clusters}
                rows.append({"measure": title, "model": run.name} | score | run.shares(mean))
    has_goal = any(run.means["goal_conditions"].value is not None for run in planned)
    goal = (note("goal"),) if has_goal else ()
    notes = (note("lines"), note("form"), *goal, note("gold"), _INTERVAL_NOTE, note("shares"))
    return table_of_runs("actplan_scores", "All scores with intervals", _COLUMNS["scores"], rows, notes)


def _by_setting(planned: Sequence[Planned]) -> Table:
    """Show normal and counterfactual side by side."""
    rows = []
    for measure in BY_SETTING:
        for run in planned:
            means = {setting: run.of("setting", setting, measure) for setting in SETTINGS}
            if any(mean.value is not None for mean in means.values()):
                row: dict[str, Value] = {"measure": MEASURES[measure], "model": run.name}
                for part, mean in (means | {"difference": _difference(run, means, measure)}).items():
                    row |= mean.cells(part, f"{part}_") | {f"{part}_plans": mean.questions}
                rows.append(row)
    notes = (note("difference"), _INTERVAL_NOTE)
    return table_of_runs("actplan_by_setting", "Normal and counterfactual", _COLUMNS["by_setting"], rows, notes)


def _by_group(title: str, head: str, by: str, planned: Sequence[Planned]) -> Table:
    """LCS and the classifier's verdicts in each group."""
    rows = []
    for group in GROUPS[by]:
        for run in planned:
            if group in run.groups[by]:
                norm, correct = run.of(by, group, "lcs_norm"), run.of(by, group, "bleurt_correct")
                more = {measure: run.of(by, group, measure).value for measure in ("lcs", "lcs_norm_parsed")}
                row: dict[str, Value] = {"group": group, "model": run.name, "plans": norm.questions}
                row["verdicts"] = None if correct.value is None else correct.questions
                for cells in (norm.cells("lcs_norm"), more, correct.cells("bleurt_correct", "correct_", scale=100)):
                    row |= cells
                rows.append(row)
    columns = (Column("group", head), *_COLUMNS["by_group"])
    return table_of_runs(f"actplan_by_{by}", title, columns, rows, (note("groups"), _INTERVAL_NOTE, note(by)))


def _difference(run: Planned, means: dict[str, Mean], measure: str) -> Mean:
    normal, counterfactual = (mean.value for mean in means.values())
    if normal is None or counterfactual is None:
        return Mean()
    chosen = [answer for answer in (run.answers or {}).values() if answer.scores[measure] is not None]
    is_of = np.array([[answer.groups["setting"] == setting for setting in SETTINGS] for answer in chosen])
    is_of = is_of.reshape(-1, len(SETTINGS))
    scores = np.array([answer.scores[measure] for answer in chosen])
    rows = np.stack([is_of * scores[:, None], is_of], axis=-1)

    def difference(sums: np.ndarray) -> np.ndarray:
        """NaN where a resample has plans of one setting only."""
        total, count = np.moveaxis(sums, -1, 0)
        means = np.divide(total, count, out=np.full_like(total, math.nan), where=count > 0)
        return means[..., 0] - means[..., 1]

    interval = interval_of_sums(rows, [str(answer.cluster) for answer in chosen], difference)
    return Mean(normal - counterfactual, interval)
