"""EgoThink's tables of scores: beside Table 3, by group, and run against run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.benchmarks.egothink.dimensions import Dimension
from lmms_egoplan.benchmarks.egothink.published import load
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.benchmarks.egothink.report.scores import DECIMALS, Part, part_of
from lmms_egoplan.report.comparisons import comparisons
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.statistics import RESAMPLES

_SHARES = (
    Column("questions", "Questions"),
    Column("coverage", "Coverage %", 1),
    Column("judged", "Judged %", 1),
    Column("truncated", "Truncated %", 1),
    Column("suspect", "Suspect %", 1),
    Column("judge", "Judge"),
    Column("prompts", "Prompts"),
)
_ENDS = (Column("low", "Low", DECIMALS), Column("high", "High", DECIMALS))
_SHARES_NOTE = (
    "Coverage: share of the official questions (50 in a dimension, 100 in activity and in forecasting) with a rating, "
    "which the score is over. Judged: share of the answers with a rating. Truncated: share of the answers that the "
    "limit on new tokens ended, where that is known. Suspect: share of the answers that look as if they rated "
    "themselves. Prompts: the family of Tables 5 and 6 in whose prompts the model was asked."
)
_INTERVAL_NOTE = (
    f"Low, high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap resamples of the questions, drawn in each "
    "dimension by itself. It tells how much hangs on the questions, nothing of what hangs on the judge."
)
_JUDGE_NOTE = (
    "The paper's judge is GPT-4, which is no longer offered. Another judge gives scores near the published ones, not "
    "equal to them."
)


def table3(graded: Sequence[Graded], whole: Mapping[str, Part]) -> Table:
    """The dimensions' scores of each run among the published ones; whole: each run's twelve dimensions."""
    own = [
        {"model": run.name, "average": whole[run.name].score, "compares": whole[run.name].compares}
        | {name: task_run.number("score") for name, task_run in run.tasks.items()}
        | whole[run.name].values()
        for run in graded
    ]
    return published_with_runs(
        "Twelve dimensions, beside Table 3",
        load("table3"),
        own,
        (*(replace(column, title=f"{column.title} (average)") for column in _ENDS), *_SHARES),
        (
            "Average: plain mean over the twelve dimensions, only where each has a score.",
            _JUDGE_NOTE,
            _INTERVAL_NOTE,
            _SHARES_NOTE,
        ),
    )


def score_table(
    key: str, title: str, head: str, graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]
) -> Table:
    """Scores of each run in each group of dimensions; head: what a group is."""
    columns = (Column("group", head), Column("model", "Run"), Column("score", "Score", DECIMALS), *_ENDS, *_SHARES)
    rows = []
    for group, dimensions in groups.items():
        for run in graded:
            part = part_of(run, dimensions)
            if part.questions:
                values = part.values() | {"group": group, "model": run.name, "score": part.score}
                rows.append(Row(tuple(values[column.key] for column in columns), is_own=True))
    notes = ["Score: plain mean over the capability's dimensions, only where each has one."] * (head == "Capability")
    return Table(key, title, columns, tuple(rows), "the runs", (*notes, _INTERVAL_NOTE, _SHARES_NOTE))


def comparison_table(graded: Sequence[Graded]) -> Table | None:
    """Every pair of runs over the questions that both have ratings for; None where no two share such."""
    scores = {
        run.name: {
            "\n".join(key): 100 * answered.judged.rating
            for key, answered in run.answers.items()
            if answered.judged.rating is not None
        }
        for run in graded
    }
    questions = {question: question for rated in scores.values() for question in rated}
    table = comparisons(scores, questions, "egothink_comparisons", "Every pair of runs", DECIMALS, unit="questions")
    note = (
        "Every question weighs the same here, so that activity and forecasting count twice: differences are not those "
        "of the averages. They tell of the models only where one judge rated both."
    )
    return table and replace(table, notes=(*table.notes, note))
