"""Accuracies beside the published ones, all scores, and accuracies by group."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.benchmarks.egoplan.published import load
from lmms_egoplan.benchmarks.egoplan.report.groups import Part
from lmms_egoplan.benchmarks.egoplan.report.official import compares
from lmms_egoplan.benchmarks.egoplan.report.series import CHANCE, DECIMALS, Series
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.statistics import RESAMPLES

_ENDS = (Column("low", "Low", DECIMALS), Column("high", "High", DECIMALS))
_BY_SUM = Column("acc_sum", "By sum %", DECIMALS)
_COUNTS = (Column("questions", "Questions"), Column("coverage", "Coverage %", 1))
_COUNTS_NOTE = (
    "Questions: those that the accuracy is over. Coverage: their share of the annotation file's questions; a question "
    "that a model could not score counts as neither right nor wrong."
)
_INTERVAL_NOTE = (
    f"Low, high: 95 % interval of the accuracy, percentiles of {RESAMPLES:,} bootstrap resamples of the videos, each "
    "with all of its questions. None without samples or for fewer than two videos."
)
_SCORE_NOTE = (
    "Accuracy: own rows rank the choices by the mean log-probability per token. The paper says likelihood p(a|v,l) "
    "(sec. 3.5) and not whether it is a mean or a sum; the mean is inferred from the score of its training loss (eq. "
    "4). By sum: the same ranked by the sum; none where the backend tells means alone."
)
_PROTOCOL_NOTE = (
    f"{_SCORE_NOTE} The paper does not tell how many frames each model saw: egoplan_val shows 8 of the whole progress "
    "(6 to LLaVA-1.5), egoplan_val_clips 8 of each of the last 4 past actions."
)


def table1(series: Sequence[Series]) -> Table:
    """Own accuracies, ranked behind the video, among those of Table 1."""
    own = [
        {"model": each.name, "acc": each.percent("acc"), "acc_sum": each.percent("acc_sum"), "compares": compares(each)}
        | each.counts()
        for each in series
        if each.is_main
    ]
    notes = (_PROTOCOL_NOTE, f"Chance: {CHANCE:g} %.", _INTERVAL_NOTE, _COUNTS_NOTE)
    extra = (_BY_SUM, *_ENDS, *_COUNTS)
    return published_with_runs("Accuracy, beside Table 1", load("table1"), own, extra, notes if own else ())


def table3(series: Sequence[Series]) -> Table:
    """The same by domain, among those of Table 3."""
    own = [
        {"model": each.name, "id": each.percent("acc_epic_kitchens"), "od": each.percent("acc_ego4d")}
        | {"all": each.percent("acc"), "acc_sum": each.percent("acc_sum"), "compares": compares(each)}
        | each.counts()
        for each in series
        if each.is_main
    ]
    ends = (replace(column, title=f"{column.title} (all)") for column in (_BY_SUM, *_ENDS))
    notes = (_PROTOCOL_NOTE, _INTERVAL_NOTE, _COUNTS_NOTE) if own else ()
    title = "In-domain (EPIC-KITCHENS) and out-of-domain (Ego4D), beside Table 3"
    return published_with_runs(title, load("table3"), own, (*ends, *_COUNTS), notes)


def scores_table(series: Sequence[Series]) -> Table:
    """Every score of every task."""
    shares = {
        "acc": "Accuracy %",
        "acc_sum": _BY_SUM.title,
        "acc_bytes": "By bytes %",
        "acc_epic_kitchens": "EPIC-KITCHENS %",
        "acc_ego4d": "Ego4D %",
    }
    accuracy, *others = (Column(key, title, DECIMALS) for key, title in shares.items())
    columns = (
        *(Column("run", "Run"), Column("task", "Task"), accuracy, *_ENDS, *others),
        *(Column("ties", "Ties"), Column("unparsed", "Unparsed %", 1), Column("asked", "Asked"), *_COUNTS),
    )
    rows = []
    for each in series:
        values = {metric: each.percent(metric) for metric in (*shares, "unparsed")} | each.counts()
        values |= {"run": each.run.name, "task": each.task_run.task, "ties": each.number("ties")}
        values["asked"] = each.number("num_questions")
        rows.append(Row(tuple(values[column.key] for column in columns), is_own=True))
    notes = (
        _SCORE_NOTE,
        "By bytes: ranked by the sum for each UTF-8 byte. In egoplan_val_generate the accuracy is by the letter that "
        "was written; a reply without a clear one (unparsed) is wrong. EPIC-KITCHENS, Ego4D: parts of the accuracy.",
        "egoplan_val_blind: the question without the video; egoplan_val_narrated: the narrations of the past actions "
        f"in place of the video. Chance: {CHANCE:g} %.",
        "Ties: questions whose best choice is not the only one; the first counts.",
        _INTERVAL_NOTE,
        _COUNTS_NOTE,
    )
    return Table("egoplan_scores", "All scores of each run", columns, tuple(rows), "the runs", notes)


def grouped_table(
    key: str, title: str, head: str, groups: Mapping[str, Mapping[str, tuple[Series, Part]]], measure: str = ""
) -> Table:
    """Accuracy by group; `measure` tells by what the groups are levels."""
    columns = (
        *(Column("group", head), Column("run", "Run"), Column("task", "Task")),
        *(Column("acc", "Accuracy %", DECIMALS), _BY_SUM, *_ENDS, _COUNTS[0]),
    )
    rows = [
        Row(
            (
                *(group, each.run.name, each.task_run.task, part.acc, part.acc_sum),
                *(part.interval or (None, None)),
                part.questions,
            ),
            is_own=True,
        )
        for group, parts in groups.items()
        for each, part in parts.values()
    ]
    told = [f"Three equal levels of the {measure}, over all questions that were asked."] if measure else []
    return Table(key, title, columns, tuple(rows), "the runs", (*told, _SCORE_NOTE, _INTERVAL_NOTE))
