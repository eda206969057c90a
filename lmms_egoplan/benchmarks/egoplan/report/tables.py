"""EgoPlan's tables: accuracies beside the published ones, all scores, by group, and run against run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from lmms_egoplan.benchmarks.egoplan.published import load
from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, MAIN_TASK, Series
from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_notes
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.scored import Mean, compared, ends, interval_note

DECIMALS = 2
NOTES = read_notes(__file__, chance=CHANCE)
_BY_SUM = Column("acc_sum", "By sum %", DECIMALS)
_DOMAINS = {"id": "acc_epic_kitchens", "od": "acc_ego4d", "all": "acc"}
_DOMAIN_COLUMNS = (
    Column("model", "Run"),
    *(Column(name, title, DECIMALS) for name, title in (("id", "ID %"), ("od", "OD %"), ("all", "All %"))),
    replace(_BY_SUM, title=f"{_BY_SUM.title} (all)"),
    *ends(DECIMALS, of="all"),
)
_COUNTS = (Column("questions", "Questions"), Column("coverage", "Coverage %", 1))
_PROTOCOL_NOTE = f"{NOTES['score']} {NOTES['frames']}"
_INTERVAL_NOTE = interval_note("videos", "questions")


@dataclass(frozen=True)
class Part:
    """A series' accuracies over one group of questions, per cent."""

    series: Series
    acc: Mean
    acc_sum: float | None


Groups = Mapping[str, Sequence[Part]]
"""By group, the series that have questions in it."""


def table1(series: Sequence[Series]) -> Table:
    """Own accuracies, ranked behind the video, among those of Table 1."""
    own = [_own(task) | {"acc": task.main.value} for task in series if task.is_main]
    notes = (_PROTOCOL_NOTE, f"Chance: {CHANCE:g} %.", _INTERVAL_NOTE, NOTES["counts"]) if own else ()
    extra = (_BY_SUM, *ends(DECIMALS), *_COUNTS)
    return published_with_runs("Accuracy, beside Table 1", load("table1"), own, extra, notes)


def table3(series: Sequence[Series]) -> Table:
    """The same by domain, among those of Table 3; of videos, not of rendered scenes."""
    own = [_by_domain(task) for task in series if task.is_main and not task.is_rendered]
    notes = (_PROTOCOL_NOTE, _INTERVAL_NOTE, NOTES["counts"]) if own else ()
    title = "In-domain (EPIC-KITCHENS) and out-of-domain (Ego4D), beside Table 3"
    return published_with_runs(title, load("table3"), own, (*_DOMAIN_COLUMNS[4:], *_COUNTS), notes)


def rendered_table(series: Sequence[Series]) -> Table | None:
    """As Table 3, of runs on rendered scenes; None without any."""
    rows = [_by_domain(task) for task in series if (task.is_main or task.unseen) and task.is_rendered]
    if not rows:
        return None
    notes = (NOTES["rendered"], _INTERVAL_NOTE, NOTES["counts"])
    title = "Rendered scenes: in-domain and out-of-domain"
    return table_of_runs("egoplan_rendered", title, (*_DOMAIN_COLUMNS, *_COUNTS), rows, notes)


def _by_domain(task: Series) -> dict[str, Value]:
    return _own(task) | {name: task.percent(metric) for name, metric in _DOMAINS.items()}


def _own(task: Series) -> dict[str, Value]:
    """What a row beside published ones tells of a run, but for the accuracy."""
    return {"model": task.name, "acc_sum": task.percent("acc_sum"), "compares": task.compares} | task.counts()


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
        *(Column("run", "Run"), Column("task", "Task"), accuracy, *ends(DECIMALS), *others),
        *(Column("ties", "Ties"), Column("unparsed", "Unparsed %", 1), Column("asked", "Asked"), *_COUNTS),
    )
    rows = [
        {"run": task.run.name, "task": task.task, "ties": task.number("ties")}
        | {metric: task.percent(metric) for metric in (*shares, "unparsed")}
        | task.counts()
        | {"asked": task.number("num_questions")}
        for task in series
    ]
    notes = (NOTES["score"], NOTES["bytes"], NOTES["unseen"], NOTES["ties"], _INTERVAL_NOTE, NOTES["counts"])
    return table_of_runs("egoplan_scores", "All scores of each run", columns, rows, notes)


def grouped_table(key: str, title: str, head: str, groups: Groups, measure: str = "") -> Table | None:
    """Accuracy by group, None without any; `measure` tells by what the groups are levels."""
    columns = (
        *(Column("group", head), Column("run", "Run"), Column("task", "Task")),
        *(Column("acc", "Accuracy %", DECIMALS), _BY_SUM, *ends(DECIMALS), _COUNTS[0]),
    )
    rows = [
        {"group": group, "run": part.series.run.name, "task": part.series.task}
        | {"acc_sum": part.acc_sum, "questions": part.acc.questions}
        | part.acc.cells("acc")
        for group, parts in groups.items()
        for part in parts
    ]
    told = [f"Three equal levels of the {measure}, over all questions that were asked."] if measure else []
    return table_of_runs(key, title, columns, rows, (*told, NOTES["score"], _INTERVAL_NOTE)) if rows else None


def pairs(series: Sequence[Series]) -> Iterator[Table | None]:
    """Runs in the same task, and tasks of the same model."""
    logged = [task for task in series if task.answers]
    for name in dict.fromkeys(task.task for task in logged):
        key = "egoplan_comparisons" + ("" if name == MAIN_TASK else "_" + re.sub(r"\W+", "_", name))
        yield _compared([task for task in logged if task.task == name], key, f"Every pair of runs: {name}")
    by_model = sorted(logged, key=lambda task: task.model)
    for number, (model, own) in enumerate(groupby(by_model, lambda task: task.model), 1):
        of_model = list(own)
        if any(task.is_main for task in of_model) and len({task.task for task in of_model}) > 1:
            name = model.rstrip("/").rpartition("/")[2]
            yield _compared(of_model, f"egoplan_tasks_{number}", f"Every pair of tasks: {name}")


def _compared(series: Sequence[Series], key: str, title: str) -> Table | None:
    return compared(series, "acc", key, title, DECIMALS, "videos", scale=100)
