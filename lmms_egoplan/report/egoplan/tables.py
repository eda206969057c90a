"""Tables of accuracies: next to the paper's, of all scores, and by group of questions."""

from collections.abc import Iterable, Mapping, Sequence

from lmms_egoplan.benchmarks.egoplan.metrics import SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.egoplan.answers import Groups, Series, grouped
from lmms_egoplan.report.egoplan.notes import (
    BENCH2_SCORE_NOTE,
    BY_SUM_NOTE,
    COUNT_COLUMNS,
    INTERVAL_NOTE,
    SCORE_NOTE,
)
from lmms_egoplan.report.published import load_table, published_with_runs
from lmms_egoplan.report.scores import Key
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs

_FRAMES_NOTE = (
    "The paper does not say how many frames each model saw. egoplan_val shows 8 frames "
    "of the whole progress (6 to LLaVA-1.5), egoplan_val_clips 8 frames of each of the "
    "last 4 past actions."
)
_TASK_NOTES = {
    "egoplan_val_generate": "egoplan_val_generate: the letter that was written.",
    "egoplan_val_blind": "egoplan_val_blind: the question without the video.",
    "egoplan_val_narrated": (
        "egoplan_val_narrated: narrations of the past actions instead of the video."
    ),
    "egoplan_val_published": "egoplan_val_published follows the authors' code.",
    "egoplan_val_clips_published": "egoplan_val_clips_published follows the authors' code.",
}
_BY_BYTES_NOTE = "By bytes: the choices are ranked by the sum per UTF-8 byte."
_CLEAR_NOTE = "Clear letter: accuracy of the letter that a reply clearly claims."
_REPLY_COLUMNS = (
    Column("ties", "Ties", note="Ties: questions with equal best choices; the first one counts."),
    Column(
        "unparsed",
        "Unparsed %",
        decimals=1,
        note="Unparsed: replies without a clear letter, which are wrong.",
    ),
    Column(
        "truncated",
        "Truncated %",
        decimals=1,
        note="Truncated: replies that the limit on new tokens ended.",
    ),
)
# The metrics of Table 3's columns.
_DOMAINS = {"id": SOURCE_METRIC[EPIC_KITCHENS], "od": SOURCE_METRIC[EGO4D], "all": "acc"}
# Scores of the table of all scores, in addition to the accuracies.
_OTHER_SCORES = ("acc_within", "acc_clear", "unparsed", "truncated", "incomplete")


def table1(ranked: Sequence[Series], chance: str) -> Table:
    """Put the accuracies of ranked choices above Table 1 of the paper.

    Args:
        ranked: The runs' main tasks.
        chance: The note on chance and the baselines without a model.
    """
    rows = [_row(task) | {"acc": task.main.value} for task in ranked]
    columns = (
        Column("acc_sum", "By sum %", decimals=2, note=BY_SUM_NOTE),
        *interval_columns("acc", decimals=2),
        *COUNT_COLUMNS,
    )
    title = "Accuracy, next to Table 1 of the paper"
    notes = _notes_with_published(chance) if rows else ()
    return published_with_runs(title, load_table("egoplan", "table1"), rows, columns, notes)


def table3(ranked: Sequence[Series], chance: str) -> Table:
    """Build Table 3: the runs' accuracies by domain, above the paper's rows."""
    rows = [_row(task) | _by_domain(task) for task in ranked]
    further_columns = (
        Column("acc_sum", "By sum % (all)", decimals=2, note=BY_SUM_NOTE),
        *interval_columns("all", decimals=2, label="(all)"),
        *COUNT_COLUMNS,
    )
    title = "In-domain (EPIC-KITCHENS) and out-of-domain (Ego4D), next to Table 3 of the paper"
    notes = _notes_with_published(chance) if rows else ()
    published = load_table("egoplan", "table3")
    return published_with_runs(title, published, rows, further_columns, notes)


def table4() -> Table:
    """Return Table 4 of the paper."""
    notes = [
        (
            "The answers of this split are private, so runs of egoplan_test have "
            "predictions but no score."
        ),
    ]
    title = "Published: the test split"
    return published_with_runs(title, load_table("egoplan", "table4"), (), (), notes)


def _notes_with_published(chance: str) -> tuple[str, ...]:
    """Return the notes on runs next to published rows."""
    return (
        SCORE_NOTE,
        _FRAMES_NOTE,
        chance,
        INTERVAL_NOTE,
    )


def _row(task: Series) -> dict[str, Value]:
    """Return a run's row for a table with published rows, without the accuracy."""
    row: dict[str, Value] = {
        "model": task.name,
        "acc_sum": task.percent("acc_sum"),
        "apart": "; ".join(task.objections),
    }
    return row | task.counts()


def _by_domain(task: Series) -> dict[str, Value]:
    """Return accuracies by the columns of Table 3, in per cent."""
    return {name: task.percent(metric) for name, metric in _DOMAINS.items()}


def scores_table(tasks: Sequence[Series], part_metrics: Iterable[str], chance: str) -> Table:
    """Build the table of every score of every task.

    Args:
        tasks: The tasks and the baselines.
        part_metrics: Names of the accuracies by source.
        chance: The note on chance and the baselines without a model.
    """
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("acc", "Accuracy %", decimals=2),
        *interval_columns("acc", decimals=2),
        Column("acc_sum", "By sum %", decimals=2, note=BY_SUM_NOTE),
        Column("acc_bytes", "By bytes %", decimals=2, note=_BY_BYTES_NOTE),
        Column("acc_epic_kitchens", "EPIC-KITCHENS %", decimals=2),
        Column("acc_ego4d", "Ego4D %", decimals=2),
        Column(
            "acc_within",
            "Within %",
            decimals=2,
            note=(
                "Within: accuracy without the questions that show a frame after the observation."
            ),
        ),
        Column("acc_clear", "Clear letter %", decimals=2, note=_CLEAR_NOTE),
        Column(
            "authors_fail",
            "Authors fail",
            note="Authors fail: questions without a score, as the authors' code fails on them.",
        ),
        Column(
            "past_observation",
            "Past observation",
            note="Past observation: questions that show a frame after the observation (Ego4D).",
        ),
        *_REPLY_COLUMNS,
        Column(
            "incomplete",
            "Incomplete %",
            decimals=1,
            note=(
                "Incomplete: replies to egoplan_val_reasoned that lack the summary of the "
                "progress, the description of the observation or the plan. Its prompt is not the "
                "paper's protocol, and its accuracy covers the replies with a clear letter."
            ),
        ),
        Column("asked", "Asked", is_condition=True),
        *COUNT_COLUMNS,
    )
    asked = {task.task for task in tasks}
    task_notes = [note for name, note in _TASK_NOTES.items() if name in asked]
    notes = [SCORE_NOTE, *task_notes, chance, INTERVAL_NOTE]
    title = "All scores of each run"
    return table_of_runs("egoplan_scores", title, columns, score_rows(tasks, part_metrics), notes)


def bench2_scores_table(tasks: Sequence[Series], part_metrics: Iterable[str], chance: str) -> Table:
    """Build the table of every score of every task."""
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("acc", "Accuracy %", decimals=2),
        *interval_columns("acc", decimals=2),
        Column("acc_sum", "By sum %", decimals=2, note=BY_SUM_NOTE),
        Column("acc_bytes", "By bytes %", decimals=2, note=_BY_BYTES_NOTE),
        Column("acc_daily_life", "Daily life %", decimals=2),
        Column("acc_work", "Work %", decimals=2),
        Column("acc_hobbies", "Hobbies %", decimals=2),
        Column("acc_recreation", "Recreation %", decimals=2),
        Column("acc_clear", "Clear letter %", decimals=2, note=_CLEAR_NOTE),
        *_REPLY_COLUMNS,
        Column("asked", "Asked", is_condition=True),
        *COUNT_COLUMNS,
    )
    notes = [BENCH2_SCORE_NOTE, chance, "The paper's tables are not included.", INTERVAL_NOTE]
    title = "All scores of each run"
    return table_of_runs(
        "egoplan_bench2_scores", title, columns, score_rows(tasks, part_metrics), notes
    )


def score_rows(tasks: Sequence[Series], part_metrics: Iterable[str]) -> list[dict[str, Value]]:
    """Return every score of every task, for the table of all scores.

    Args:
        tasks: The tasks and the baselines.
        part_metrics: Names of the accuracies over a part of the questions.
    """
    accuracies = ("acc", "acc_sum", "acc_bytes", *part_metrics)
    rows = []
    for task in tasks:
        row: dict[str, Value] = {
            "run": task.run.name,
            "task": task.task,
            "ties": task.number("ties"),
            "authors_fail": task.number("authors_fail"),
            "past_observation": task.number("past_observation"),
            "asked": task.number("num_questions"),
        }
        for metric in (*accuracies, *_OTHER_SCORES):
            row[metric] = task.percent(metric)
        rows.append(row | task.counts())
    return rows


def past_actions_table(groups: Groups, chance: str) -> Table | None:
    """Build the table of accuracies by number of past actions, as in Fig. 8 of the paper."""
    return group_table(
        "egoplan_past_actions",
        "Accuracy by number of past actions",
        Column("group", "Past actions"),
        groups,
        [SCORE_NOTE, chance, INTERVAL_NOTE],
    )


def similarity_table(groups: Groups, measure: str, chance: str) -> Table | None:
    """Build the table of accuracies by goal-answer similarity, as in Fig. 7 of the paper."""
    levels_note = (
        f"Three equally large levels of the {measure}, over all questions that were asked."
    )
    return group_table(
        "egoplan_similarity",
        "Accuracy by goal-answer similarity",
        Column("group", "Similarity"),
        groups,
        [levels_note, SCORE_NOTE, chance, INTERVAL_NOTE],
    )


def scenarios_table(tasks: Sequence[Series], docs: Mapping[Key, Doc], chance: str) -> Table | None:
    """Build the table of accuracies by scenario."""
    scenarios: dict[Key, str | None] = {}
    for key, doc in docs.items():
        scenarios[key] = doc["scenario"]
    names = sorted({name for name in scenarios.values() if name})
    return group_table(
        "egoplan_bench2_scenarios",
        "Accuracy by scenario",
        Column("scenario", "Scenario"),
        grouped(tasks, scenarios, names),
        [BENCH2_SCORE_NOTE, chance, INTERVAL_NOTE],
    )


def group_table(
    key: str, title: str, group_column: Column, groups: Groups, notes: Sequence[str]
) -> Table | None:
    """Build a table of accuracies by group; None without groups.

    Args:
        key: The table's key.
        title: Title of the table.
        group_column: The first column, with the names of the groups.
        groups: The tasks' accuracies by group.
        notes: Notes of the table.
    """
    rows: list[dict[str, Value]] = []
    for group, parts in groups.items():
        for part in parts:
            row: dict[str, Value] = {
                group_column.key: group,
                "run": part.series.run.name,
                "task": part.series.task,
                "acc_sum": part.acc_sum,
                "questions": part.acc.questions,
            }
            rows.append({**row, **part.acc.cells("acc")})
    if not rows:
        return None
    columns = (
        group_column,
        Column("run", "Run"),
        Column("task", "Task", is_condition=True),
        Column("acc", "Accuracy %", decimals=2),
        Column("acc_sum", "By sum %", decimals=2, note=BY_SUM_NOTE),
        *interval_columns("acc", decimals=2),
        Column("questions", "Questions"),
    )
    return table_of_runs(key, title, columns, rows, notes)
