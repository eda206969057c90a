"""The runs among the rows of the paper's tables."""

from collections.abc import Sequence
from dataclasses import replace

from lmms_egoplan.benchmarks.actplan.activities import SETTINGS
from lmms_egoplan.benchmarks.actplan.published import load
from lmms_egoplan.benchmarks.actplan.report.answers import Planned, in_percent
from lmms_egoplan.benchmarks.actplan.report.columns import ENDS, GOLD_NOTE, INTERVAL_NOTE, SHARES, SHARES_NOTE
from lmms_egoplan.report.document import Column, Table, Value
from lmms_egoplan.report.published_with_runs import published_with_runs

_CLASSIFIER_NOTE = (
    "The published correctness and commonsense are people's verdicts, which runs do not have. Correct by classifier is "
    "the verdict of a finetuned BLEURT and stands in its own columns; Table 5 tells how far such agree with people."
)
_ABLATION_NOTE = (
    "Published: 40 normal and 20 counterfactual activities. Own rows: runs with the task actplan_text_only; their "
    "lengths are means of the parsed steps, over all plans of the task."
)


def table4(planned: Sequence[Planned]) -> Table:
    own = []
    for run in planned:
        for number, suffix in enumerate(("", "_gold_2"), 1):
            steps, norm = (run.means[f"{measure}{suffix}"] for measure in ("lcs", "lcs_norm"))
            if run.is_text_only or norm.value is None or (run.part and number > 1):
                continue
            low, high = norm.ends
            whole = {"lcs": steps.value, "norm_lcs": norm.value, "low": low, "high": high}
            own.append(
                {"model": run.name + f", gold plan {number}" * (number > 1)}
                | {"encoder": run.task_run.metrics.get("encoder"), "compares": run.compares}
                | (whole if run.part is None else {})
                | (_norms_by_setting(run) if number == 1 else {})
                | run.shares(norm)
            )
    extra = (
        *(replace(column, title=f"{column.title} (norm. LCS)", decimals=2) for column in ENDS),
        *(Column(f"norm_lcs_{setting}", f"Norm. LCS, {setting}", 2, True) for setting in SETTINGS),
        *SHARES,
        Column("encoder", "Sentence encoder"),
    )
    notes = (
        GOLD_NOTE,
        "Another sentence encoder gives another LCS.",
        "Runs of one part of the activities have no value but that part's.",
        INTERVAL_NOTE,
        SHARES_NOTE,
    )
    return published_with_runs("LCS, beside Table 4", load("table4"), own, extra, notes, main="norm_lcs")


def table3(planned: Sequence[Planned]) -> Table:
    own = []
    for run in planned:
        mean = run.means["bleurt_correct"]
        if run.is_text_only or mean.value is None:
            continue
        low, high = map(in_percent, mean.ends)
        whole = {"total_classified": in_percent(mean.value), "low": low, "high": high}
        told = {"model": run.name, "classifier": run.task_run.metrics.get("bleurt_model"), "compares": run.compares}
        own.append(told | _verdicts_by_setting(run) | (whole if run.part is None else {}) | run.shares(mean))
    extra = (
        *(Column(f"{part}_classified", f"{part.capitalize()}, correct by classifier %", 1, True)
          for part in (*SETTINGS, "total")),
        *(replace(column, title=f"{column.title} (total by classifier)", decimals=1) for column in ENDS),
        *SHARES,
        Column("classifier", "Classifier"),
    )  # fmt: skip
    notes = (_CLASSIFIER_NOTE, *((INTERVAL_NOTE, SHARES_NOTE) if own else ()))
    title = "Correctness, beside Table 3" if own else "Published: correctness, judged by people"
    return published_with_runs(title, load("table3"), own, extra, notes)


def ablation(planned: Sequence[Planned]) -> tuple[Table, Table]:
    """Tables 6 and 7: without and with images, of runs that have the task without."""
    without = {run.run.name for run in planned if run.is_text_only}
    runs = [run for run in planned if run.run.name in without and run.part is None]
    table6, table7 = [], []
    for run in runs:
        base, norm = run.run.name if run.is_text_only else run.name, run.means["lcs_norm"]
        scores = {"norm_lcs": norm.value, "classified": in_percent(run.means["bleurt_correct"].value)}
        images = "w/o" if run.is_text_only else "w"
        length = {"avg_len": run.number("plan_length"), "compares": run.compares}
        table6.append({"model": f"{base} ({images})"} | length | scores | run.shares(run.means["plan_length"]))
        lengths = {f"{setting}_avg_len": run.of("setting", setting, "plan_length").value for setting in SETTINGS}
        parts = _norms_by_setting(run) | _verdicts_by_setting(run) | {"compares": run.compares}
        table7.append({"model": f"{base}, {images} image"} | lengths | parts | run.shares(run.means["plan_length"]))
    norm = Column("norm_lcs", "Norm. LCS", 2, True)
    classified = Column("classified", "Correct by classifier %", 1, True)
    of_parts = [
        replace(column, key=key.format(setting), title=f"{setting.capitalize()}: {column.title}")
        for column, key in ((norm, "norm_lcs_{}"), (classified, "{}_classified"))
        for setting in SETTINGS
    ]
    notes = (_ABLATION_NOTE, _CLASSIFIER_NOTE, SHARES_NOTE) if runs else ()
    heads = ("Without images", "Without images, by setting")
    title = [
        f"{head}, beside Table {number}" if runs else f"Published: {head.lower()}"
        for number, head in enumerate(heads, 6)
    ]
    return (
        published_with_runs(title[0], load("table6"), table6, (norm, classified, *SHARES), notes),
        published_with_runs(title[1], load("table7"), table7, (*of_parts, *SHARES), notes),
    )


def _norms_by_setting(run: Planned) -> dict[str, Value]:
    return {f"norm_lcs_{setting}": run.of("setting", setting, "lcs_norm").value for setting in SETTINGS}


def _verdicts_by_setting(run: Planned) -> dict[str, Value]:
    return {
        f"{setting}_classified": in_percent(run.of("setting", setting, "bleurt_correct").value) for setting in SETTINGS
    }
