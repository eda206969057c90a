"""ActPlan's tables: beside the published ones, all scores, and breakdowns."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from lmms_egoplan.benchmarks.actplan.activities import SETTINGS
from lmms_egoplan.benchmarks.actplan.published import load
from lmms_egoplan.benchmarks.actplan.report.answers import BY_SETTING, GROUPS, INSTANCES, MEASURES, Planned
from lmms_egoplan.benchmarks.actplan.report.people import Judged, ablation_rows, table3_rows, table5_rows
from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_notes
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.scored import Mean, ends, in_percent, interval_note
from lmms_egoplan.report.statistics import bootstrap_interval

DECIMALS = 3
NOTES = read_notes(__file__, instances=sum(INSTANCES.values()), **INSTANCES)
_SHARES = (
    Column("plans", "Plans"),
    Column("coverage", "Coverage %", 1),
    Column("truncated", "Truncated %", 1),
)
_TABLE5 = "Published: how far classifiers agree with people"
_INTERVAL_NOTE = interval_note("activities", "plans")


def table4(planned: Sequence[Planned]) -> Table:
    """LCS with either gold plan."""
    own = []
    for run in planned:
        for number, suffix in enumerate(("", "_gold_2"), 1):
            steps, norm = (run.means[f"{measure}{suffix}"] for measure in ("lcs", "lcs_norm"))
            if run.is_text_only or norm.value is None or (run.part and number > 1):
                continue
            whole = {"lcs": steps.value} | norm.cells("norm_lcs")
            own.append(
                {"model": run.name + f", gold plan {number}" * (number > 1)}
                | {"encoder": run.task_run.metrics.get("encoder"), "compares": run.compares}
                | (whole if run.part is None else {})
                | (_norms_by_setting(run) if number == 1 else {})
                | run.shares(norm)
            )
    extra = (
        *ends(2, of="norm. LCS"),
        *(Column(f"norm_lcs_{setting}", f"Norm. LCS, {setting}", 2, True) for setting in SETTINGS),
        *_SHARES,
        Column("encoder", "Sentence encoder"),
    )
    notes = (
        NOTES["gold"],
        "Another sentence encoder gives another LCS.",
        "Runs of one part of the activities have no value but that part's.",
        _INTERVAL_NOTE,
        NOTES["shares"],
    )
    return published_with_runs("LCS, beside Table 4", load("table4"), own, extra, notes, main="norm_lcs")


def table3(planned: Sequence[Planned], people: Sequence[Judged] = ()) -> Table:
    """Correctness by the classifier, and what people said."""
    own = list(table3_rows(people))
    for run in planned:
        mean = run.means["bleurt_correct"]
        if run.is_text_only or mean.value is None:
            continue
        whole = mean.cells("total_classified", scale=100)
        told = {"model": run.name, "classifier": run.task_run.metrics.get("bleurt_model"), "compares": run.compares}
        own.append(told | _verdicts_by_setting(run) | (whole if run.part is None else {}) | run.shares(mean))
    verdicts = {f"{part}_classified": f"{part.capitalize()}, correct by classifier %" for part in (*SETTINGS, "total")}
    extra = (
        *(Column(key, title, 1, True) for key, title in verdicts.items()),
        *ends(1, of="total by classifier"),
        *_SHARES,
        Column("classifier", "Classifier"),
    )
    notes = (NOTES["classifier"], *((_INTERVAL_NOTE, NOTES["shares"]) if own else ()))
    title = "Correctness, beside Table 3" if own else "Published: correctness, judged by people"
    return published_with_runs(title, load("table3"), own, extra, notes)


def table5(planned: Sequence[Planned], people: Sequence[Judged]) -> Table:
    """How far classifiers agree with people."""
    own = list(table5_rows(people, planned))
    extra = (Column("all_acc", "Accuracy, all plans", 1, True), Column("plans", "Plans"))
    title = "How far classifiers agree with people, beside Table 5" if own else _TABLE5
    return published_with_runs(title, load("table5"), own, extra)


def ablation(planned: Sequence[Planned], people: Sequence[Judged] = ()) -> Iterator[Table]:
    """Tables 6 and 7: without and with images, of runs that have the task without."""
    without = {run.run.name for run in planned if run.is_text_only}
    runs = [run for run in planned if run.run.name in without and run.part is None]
    table6, table7 = [], []
    for run in runs:
        base, norm = run.run.name if run.is_text_only else run.name, run.means["lcs_norm"]
        scores = {"norm_lcs": norm.value, "classified": in_percent(run.means["bleurt_correct"].value)}
        images = "w/o" if run.is_text_only else "w"
        length = {"avg_len": run.number("plan_length"), "compares": run.compares}
        shares = run.shares(run.means["plan_length"])
        table6.append({"model": f"{base} ({images})"} | length | scores | shares)
        lengths = {f"{setting}_avg_len": run.of("setting", setting, "plan_length").value for setting in SETTINGS}
        parts = _norms_by_setting(run) | _verdicts_by_setting(run) | {"compares": run.compares}
        table7.append({"model": f"{base}, {images} image"} | lengths | parts | shares)
    norm = Column("norm_lcs", "Norm. LCS", 2, True)
    classified = Column("classified", "Correct by classifier %", 1, True)
    of_parts = [
        replace(column, key=key.format(setting), title=f"{setting.capitalize()}: {column.title}")
        for column, key in ((norm, "norm_lcs_{}"), (classified, "{}_classified"))
        for setting in SETTINGS
    ]
    table6 += ablation_rows(people, 6)
    table7 += ablation_rows(people, 7)
    notes = (NOTES["ablation"], NOTES["classifier"], NOTES["shares"]) if runs else ()
    for number, head, own, scores in (
        (6, "Without images", table6, (norm, classified)),
        (7, "Without images, by setting", table7, of_parts),
    ):
        title = f"{head}, beside Table {number}" if own else f"Published: {head.lower()}"
        yield published_with_runs(title, load(f"table{number}"), own, (*scores, *_SHARES), notes)


def _norms_by_setting(run: Planned) -> dict[str, Value]:
    return {f"norm_lcs_{setting}": run.of("setting", setting, "lcs_norm").value for setting in SETTINGS}


def _verdicts_by_setting(run: Planned) -> dict[str, Value]:
    means = {setting: run.of("setting", setting, "bleurt_correct") for setting in SETTINGS}
    return {f"{setting}_classified": in_percent(mean.value) for setting, mean in means.items()}


def all_scores(planned: Sequence[Planned]) -> Table:
    """Every measure of every run."""
    named = (Column("measure", "Score"), Column("model", "Run"), Column("value", "Value", DECIMALS))
    columns = (*named, *ends(DECIMALS), Column("activities", "Activities"), *_SHARES)
    rows = []
    for measure, title in MEASURES.items():
        for run in planned:
            mean = run.means[measure]
            if mean.value is not None:
                score = mean.cells("value") | {"activities": mean.clusters}
                rows.append({"measure": title, "model": run.name} | score | run.shares(mean))
    notes = (NOTES["lines"], NOTES["form"], NOTES["gold"], _INTERVAL_NOTE, NOTES["shares"])
    return table_of_runs("actplan_scores", "All scores with intervals", columns, rows, notes)


def by_setting(planned: Sequence[Planned]) -> Table:
    """Normal and counterfactual side by side."""
    columns = [Column("measure", "Score"), Column("model", "Run")]
    for part in (*SETTINGS, "difference"):
        columns.append(Column(part, part.capitalize(), DECIMALS))
        columns += ends(DECIMALS, f"{part}_")
        columns += [Column(f"{part}_plans", "Plans")] if part in SETTINGS else []
    rows = []
    for measure in BY_SETTING:
        for run in planned:
            means = {setting: run.of("setting", setting, measure) for setting in SETTINGS}
            if any(mean.value is not None for mean in means.values()):
                row: dict[str, Value] = {"measure": MEASURES[measure], "model": run.name}
                for part, mean in (means | {"difference": _difference(run, means, measure)}).items():
                    row |= mean.cells(part, f"{part}_") | {f"{part}_plans": mean.questions}
                rows.append(row)
    notes = (NOTES["difference"], _INTERVAL_NOTE)
    return table_of_runs("actplan_by_setting", "Normal and counterfactual", columns, rows, notes)


def by_group(key: str, title: str, head: str, by: str, planned: Sequence[Planned], note: str) -> Table:
    """LCS and the classifier's verdicts in each group."""
    named = (Column("group", head), Column("model", "Run"), Column("plans", "Plans"))
    columns = (
        *named,
        Column("lcs_norm", "Norm. LCS", DECIMALS),
        *ends(DECIMALS),
        Column("lcs", "LCS, steps", DECIMALS),
        Column("lcs_norm_parsed", "Norm. LCS, parsed", DECIMALS),
        Column("verdicts", "Classified"),
        Column("bleurt_correct", "Correct by classifier %", 1),
        *ends(1, "correct_"),
    )
    rows = []
    for group in GROUPS[by]:
        for run in planned:
            if group in run.groups[by]:
                norm, correct = run.of(by, group, "lcs_norm"), run.of(by, group, "bleurt_correct")
                more = {measure: run.of(by, group, measure).value for measure in ("lcs", "lcs_norm_parsed")}
                counts = {"plans": norm.questions, "verdicts": None if correct.value is None else correct.questions}
                verdicts = correct.cells("bleurt_correct", "correct_", scale=100)
                rows.append({"group": group, "model": run.name} | counts | norm.cells("lcs_norm") | more | verdicts)
    plans = "Plans: those with gold plan 1, which LCS is over. Classified: those with a verdict of the classifier."
    return table_of_runs(key, title, columns, rows, (plans, _INTERVAL_NOTE, note))


def _difference(run: Planned, means: dict[str, Mean], measure: str) -> Mean:
    values = [mean.value for mean in means.values()]
    if None in values:
        return Mean()
    chosen = [answer for answer in (run.answers or {}).values() if answer.scores[measure] is not None]
    scores = np.array([answer.scores[measure] for answer in chosen])
    is_normal = np.array([answer.groups["setting"] == SETTINGS[0] for answer in chosen])

    def statistic(drawn: np.ndarray) -> float:
        places = drawn.astype(int)
        normal = is_normal[places]
        if normal.all() or not normal.any():
            return math.nan
        return float(scores[places][normal].mean() - scores[places][~normal].mean())

    interval = bootstrap_interval(range(len(chosen)), [answer.cluster for answer in chosen], statistic)
    return Mean(values[0] - values[1], interval)
