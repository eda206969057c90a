"""The tables of both benchmarks: scores next to the published ones, all scores, by group, and run against run."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from lmms_egoplan.benchmarks.egoplan.metrics import DOMAIN_METRIC, SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, EGOPLAN, Groups, Series
from lmms_egoplan.report.comparisons import compared
from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.published import load_table, published_with_runs
from lmms_egoplan.report.scored import interval_note

DECIMALS = 2
note = read_notes(__file__, chance=CHANCE)
_COLUMNS = read_columns(__file__)
# The columns of Table 3.
_DOMAINS = {"id": SOURCE_METRIC[EPIC_KITCHENS], "od": SOURCE_METRIC[EGO4D], "all": "acc"}
_PROTOCOL_NOTE = f"{note('score')} {note('frames')}"
_INTERVAL_NOTE = interval_note("videos", "questions")


def egoplan_tables(
    series: Sequence[Series], by_past_actions: Groups, by_similarity: Groups, measure: str
) -> Iterator[Table | None]:
    """Yield EgoPlan-Bench's tables in the section's order.

    Args:
        measure: how similarity was measured.
    """
    yield _table1(series)
    yield _table3(series)
    yield _rendered_table(series)
    notes = (note("score"), note("bytes"), note("unseen"), note("ties"), _INTERVAL_NOTE, note("counts"))
    yield _scores_table("egoplan", series, SOURCE_METRIC.values(), notes)
    group_notes = (note("score"), _INTERVAL_NOTE)
    column = Column("group", "Past actions")
    yield _grouped_table("egoplan_past_actions", "number of past actions", column, by_past_actions, group_notes)
    levels, column = (note("levels", measure=measure), *group_notes), Column("group", "Similarity")
    yield _grouped_table("egoplan_similarity", "goal-answer similarity", column, by_similarity, levels)
    yield from _pairs_of_runs("egoplan", series)
    yield from _pairs_of_tasks(series)
    yield published_with_runs("Published: the test split", load_table("egoplan", "table4"), (), notes=(note("test"),))


def bench2_tables(series: Sequence[Series], by_scenario: Groups) -> Iterator[Table | None]:
    """Yield EgoPlan-Bench2's tables in the section's order."""
    notes = (note("bench2_score"), note("bench2_published"), _INTERVAL_NOTE, note("bench2_counts"))
    yield _scores_table("egoplan_bench2", series, DOMAIN_METRIC.values(), notes)
    group_notes = (note("bench2_score"), _INTERVAL_NOTE)
    column = Column("scenario", "Scenario")
    yield _grouped_table("egoplan_bench2_scenarios", "scenario", column, by_scenario, group_notes)
    yield from _pairs_of_runs("egoplan_bench2", series)


def _table1(series: Sequence[Series]) -> Table:
    """Make the table of own accuracies, ranked after the video, among those of Table 1."""
    rows = [_row(task) | {"acc": task.main.value} for task in series if task.is_main]
    notes = (_PROTOCOL_NOTE, f"Chance: {CHANCE:g} %.", _INTERVAL_NOTE, note("counts"))
    return _published("Accuracy, beside Table 1", "table1", rows, notes)


def _table3(series: Sequence[Series]) -> Table:
    """Make the same table by domain, among those of Table 3; of videos, not of rendered scenes."""
    rows = [_row(task) | _by_domain(task) for task in series if task.is_main and not task.is_demo]
    title = "In-domain (EPIC-KITCHENS) and out-of-domain (Ego4D), beside Table 3"
    return _published(title, "table3", rows, (_PROTOCOL_NOTE, _INTERVAL_NOTE, note("counts")))


def _published(title: str, table: str, rows: Sequence[dict[str, Value]], notes: Sequence[str]) -> Table:
    published = load_table("egoplan", table)
    return published_with_runs(title, published, rows, _COLUMNS[table], notes if rows else ())


def _rendered_table(series: Sequence[Series]) -> Table | None:
    """Make a table like Table 3 of runs on rendered scenes; None without any."""
    rows = [_row(task) | _by_domain(task) for task in series if (task.is_main or task.unseen) and task.is_demo]
    if not rows:
        return None
    title, notes = "Rendered scenes: in-domain and out-of-domain", (note("rendered"), _INTERVAL_NOTE, note("counts"))
    return table_of_runs("egoplan_rendered", title, _COLUMNS["rendered"], rows, notes)


def _by_domain(task: Series) -> dict[str, Value]:
    return {name: task.percent(metric) for name, metric in _DOMAINS.items()}


def _row(task: Series) -> dict[str, Value]:
    """Return a run's values in a row next to published ones, except the accuracy."""
    return {"model": task.name, "acc_sum": task.percent("acc_sum"), "apart": "; ".join(task.apart)} | task.counts()


def _scores_table(benchmark: str, series: Sequence[Series], parts: Iterable[str], notes: Sequence[str]) -> Table:
    """Make the table of every score of every task; `parts` are accuracies over a part of the questions."""
    rows: list[dict[str, Value]] = [
        {"run": task.run.name, "task": task.task, "ties": task.number("ties"), "asked": task.number("num_questions")}
        | {metric: task.percent(metric) for metric in ("acc", "acc_sum", "acc_bytes", *parts, "unparsed")}
        | task.counts()
        for task in series
    ]
    return table_of_runs(f"{benchmark}_scores", "All scores of each run", _COLUMNS[f"{benchmark}_scores"], rows, notes)


def _grouped_table(key: str, by: str, column: Column, groups: Groups, notes: Sequence[str]) -> Table | None:
    """Make the table of accuracies by group, whose name is in `column`; None without any."""
    rows: list[dict[str, Value]] = [
        {
            column.key: group,
            "run": part.series.run.name,
            "task": part.series.task,
            "acc_sum": part.acc_sum,
            "questions": part.acc.questions,
            **part.acc.cells("acc"),
        }
        for group, parts in groups.items()
        for part in parts
    ]
    return table_of_runs(key, f"Accuracy by {by}", (column, *_COLUMNS["by_group"]), rows, notes) if rows else None


def _pairs_of_runs(benchmark: str, series: Sequence[Series]) -> Iterator[Table | None]:
    logged = [task for task in series if task.answers]
    for name in dict.fromkeys(task.task for task in logged):
        end = "" if name == EGOPLAN.main_task else "_" + re.sub(r"\W+", "_", name)
        same = [task for task in logged if task.task == name]
        yield _compared(same, f"{benchmark}_comparisons{end}", f"Every pair of runs: {name}")


def _pairs_of_tasks(series: Sequence[Series]) -> Iterator[Table | None]:
    """Compare tasks of the same model."""
    by_model = sorted((task for task in series if task.answers), key=lambda task: task.model)
    for number, (model, tasks) in enumerate(groupby(by_model, lambda task: task.model), 1):
        of_model = list(tasks)
        if any(task.is_main for task in of_model) and len({task.task for task in of_model}) > 1:
            name = model.rstrip("/").rpartition("/")[2]
            yield _compared(of_model, f"egoplan_tasks_{number}", f"Every pair of tasks: {name}")


def _compared(series: Sequence[Series], key: str, title: str) -> Table | None:
    return compared(series, "acc", key, title, DECIMALS, "videos", scale=100)
