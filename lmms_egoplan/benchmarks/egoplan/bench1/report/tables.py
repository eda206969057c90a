"""EgoPlan's tables: accuracies beside the published ones, all scores, by group, and run against run."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from lmms_egoplan.benchmarks.egoplan.bench1.report.answers import MAIN_TASK, Series
from lmms_egoplan.benchmarks.egoplan.report import DECIMALS
from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, Groups, group_rows, score_rows
from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.scored import compared, interval_note

note = read_notes(__file__, chance=CHANCE)
_COLUMNS = read_columns(__file__)
_DOMAINS = {"id": "acc_epic_kitchens", "od": "acc_ego4d", "all": "acc"}
_PERCENT = ("acc", "acc_sum", "acc_bytes", "acc_epic_kitchens", "acc_ego4d", "unparsed")
_PROTOCOL_NOTE = f"{note('score')} {note('frames')}"
_INTERVAL_NOTE = interval_note("videos", "questions")


def all_tables(
    series: Sequence[Series], by_past_actions: Groups, by_similarity: Groups, measure: str
) -> Iterator[Table | None]:
    """In the section's order; `measure` is that of the similarity."""
    yield _table1(series)
    yield _table3(series)
    yield _rendered_table(series)
    yield _scores_table(series)
    yield _grouped_table("egoplan_past_actions", "number of past actions", "Past actions", by_past_actions)
    yield _grouped_table("egoplan_similarity", "goal-answer similarity", "Similarity", by_similarity, measure)
    yield from _pairs(series)
    yield published_with_runs("Published: the test split", load_table("egoplan", "table4"), (), notes=(note("test"),))


def _table1(series: Sequence[Series]) -> Table:
    """Own accuracies, ranked behind the video, among those of Table 1."""
    own = [_own(task) | {"acc": task.main.value} for task in series if task.is_main]
    notes = (_PROTOCOL_NOTE, f"Chance: {CHANCE:g} %.", _INTERVAL_NOTE, note("counts")) if own else ()
    return published_with_runs(
        "Accuracy, beside Table 1", load_table("egoplan", "table1"), own, _COLUMNS["table1"], notes
    )


def _table3(series: Sequence[Series]) -> Table:
    """The same by domain, among those of Table 3; of videos, not of rendered scenes."""
    own = [_by_domain(task) for task in series if task.is_main and not task.is_demo]
    notes = (_PROTOCOL_NOTE, _INTERVAL_NOTE, note("counts")) if own else ()
    title = "In-domain (EPIC-KITCHENS) and out-of-domain (Ego4D), beside Table 3"
    return published_with_runs(title, load_table("egoplan", "table3"), own, _COLUMNS["table3"], notes)


def _rendered_table(series: Sequence[Series]) -> Table | None:
    """As Table 3, of runs on rendered scenes; None without any."""
    rows = [_by_domain(task) for task in series if (task.is_main or task.unseen) and task.is_demo]
    if not rows:
        return None
    title, notes = "Rendered scenes: in-domain and out-of-domain", (note("rendered"), _INTERVAL_NOTE, note("counts"))
    return table_of_runs("egoplan_rendered", title, _COLUMNS["rendered"], rows, notes)


def _by_domain(task: Series) -> dict[str, Value]:
    return _own(task) | {name: task.percent(metric) for name, metric in _DOMAINS.items()}


def _own(task: Series) -> dict[str, Value]:
    """What a row beside published ones tells of a run, but for the accuracy."""
    return {"model": task.name, "acc_sum": task.percent("acc_sum"), "apart": task.apart} | task.counts()


def _scores_table(series: Sequence[Series]) -> Table:
    """Every score of every task."""
    rows = score_rows(series, _PERCENT)
    notes = (note("score"), note("bytes"), note("unseen"), note("ties"), _INTERVAL_NOTE, note("counts"))
    return table_of_runs("egoplan_scores", "All scores of each run", _COLUMNS["scores"], rows, notes)


def _grouped_table(key: str, by: str, head: str, groups: Groups, measure: str = "") -> Table | None:
    """Accuracy by group, None without any; `measure` tells by what the groups are levels."""
    told = [note("levels", measure=measure)] if measure else []
    notes = (*told, note("score"), _INTERVAL_NOTE)
    columns = (Column("group", head), *_COLUMNS["by_group"])
    return table_of_runs(key, f"Accuracy by {by}", columns, group_rows(groups), notes) if groups else None


def _pairs(series: Sequence[Series]) -> Iterator[Table | None]:
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
