"""Tables of the runs' scores by setting, length and type of activity."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lmms_egoplan.benchmarks.actplan.activities import SETTINGS
from lmms_egoplan.benchmarks.actplan.report.answers import BY_SETTING, GROUPS, Planned, in_percent
from lmms_egoplan.benchmarks.actplan.report.columns import DECIMALS, ENDS, INTERVAL_NOTE
from lmms_egoplan.benchmarks.actplan.report.plans import MEASURES, Mean
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.statistics import bootstrap_interval


def by_setting(planned: Sequence[Planned]) -> Table:
    """Normal and counterfactual side by side."""
    columns = [Column("measure", "Score"), Column("model", "Run")]
    for part in (*SETTINGS, "difference"):
        columns.append(Column(part, part.capitalize(), DECIMALS))
        columns += [replace(end, key=f"{part}_{end.key}") for end in ENDS]
        columns += [Column(f"{part}_plans", "Plans")] if part in SETTINGS else []
    rows = []
    for measure in BY_SETTING:
        for run in planned:
            means = [run.of("setting", setting, measure) for setting in SETTINGS]
            if all(mean.value is None for mean in means):
                continue
            cells = [cell for mean in means for cell in (mean.value, *mean.ends, mean.plans)]
            rows.append(Row((MEASURES[measure], run.name, *cells, *_difference(run, means, measure)), is_own=True))
    notes = (
        "Difference: normal minus counterfactual; of its interval, resamples hold whole activities, normal and "
        "counterfactual plans of an activity together. None where a resample lacks one of the two.",
        INTERVAL_NOTE,
    )
    return Table("actplan_by_setting", "Normal and counterfactual", tuple(columns), tuple(rows), "the runs", notes)


def by_group(key: str, title: str, head: str, by: str, planned: Sequence[Planned]) -> Table:
    columns = (
        Column("group", head),
        Column("model", "Run"),
        Column("plans", "Plans"),
        Column("lcs_norm", "Norm. LCS", DECIMALS),
        *ENDS,
        Column("lcs", "LCS, steps", DECIMALS),
        Column("lcs_norm_parsed", "Norm. LCS, parsed", DECIMALS),
        Column("verdicts", "Classified"),
        Column("bleurt_correct", "Correct by classifier %", 1),
        Column("correct_low", "Low", 1),
        Column("correct_high", "High", 1),
    )
    rows = []
    for group in GROUPS[by]:
        for run in planned:
            if group not in run.groups[by]:
                continue
            norm, correct = run.of(by, group, "lcs_norm"), run.of(by, group, "bleurt_correct")
            more = [run.of(by, group, measure).value for measure in ("lcs", "lcs_norm_parsed")]
            verdicts = map(in_percent, (correct.value, *correct.ends))
            is_known = None if correct.value is None else correct.plans
            rows.append(
                Row((group, run.name, norm.plans, norm.value, *norm.ends, *more, is_known, *verdicts), is_own=True)
            )
    notes = [
        "Plans: those with gold plan 1, which LCS is over. Classified: those with a verdict of the classifier.",
        INTERVAL_NOTE,
    ]
    if by == "length":
        notes.append(
            "The paper's Fig. 5 shows people's verdicts by length; its numbers are not printed, nor its bins legible."
        )
    else:
        notes.append("The paper does not say which activity is of which type; the names tell it (sec. 3.4).")
    return Table(key, title, columns, tuple(rows), "the runs", tuple(notes))


def _difference(run: Planned, means: Sequence[Mean], measure: str) -> tuple[float | None, float | None, float | None]:
    if None in (means[0].value, means[1].value):
        return None, None, None
    chosen = [plan for plan in (run.plans or {}).values() if plan.values[measure] is not None]
    values = np.array([plan.values[measure] for plan in chosen])
    is_normal = np.array([plan.setting == SETTINGS[0] for plan in chosen])

    def statistic(drawn: np.ndarray) -> float:
        places = drawn.astype(int)
        normal = is_normal[places]
        if normal.all() or not normal.any():
            return math.nan
        return float(values[places][normal].mean() - values[places][~normal].mean())

    interval = bootstrap_interval(range(len(chosen)), [plan.activity for plan in chosen], statistic)
    return means[0].value - means[1].value, *(interval or (None, None))
