"""EgoThink's tables of scores, beside Table 3 and by group."""

from collections.abc import Mapping, Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import Dimension
from lmms_egoplan.benchmarks.egothink.published import load
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.report.document import Column, Table, table_of_runs
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.scored import ends
from lmms_egoplan.report.statistics import RESAMPLES

DECIMALS = 1
_SHARES = (
    Column("questions", "Questions"),
    Column("coverage", "Coverage %", 1),
    Column("judged", "Judged %", 1),
    Column("truncated", "Truncated %", 1),
    Column("suspect", "Suspect %", 1),
    Column("judge", "Judge"),
    Column("prompts", "Prompts"),
)
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


def table3(graded: Sequence[Graded]) -> Table:
    """The dimensions' scores of each run among the published ones."""
    own = []
    for run in graded:
        values = run.whole.values()
        average = {"model": run.name, "average": values.pop("score"), "compares": run.whole.compares}
        own.append(average | {name: task_run.number("score") for name, task_run in run.tasks.items()} | values)
    extra = (*ends(DECIMALS, of="average"), *_SHARES)
    average = "Average: plain mean over the twelve dimensions, only where each has a score."
    notes = (average, _JUDGE_NOTE, _INTERVAL_NOTE, _SHARES_NOTE)
    return published_with_runs("Twelve dimensions, beside Table 3", load("table3"), own, extra, notes)


def score_table(key: str, head: str, graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]) -> Table:
    """Scores of each run in each group of dimensions; head: what a group is."""
    score = Column("score", "Score", DECIMALS)
    columns = (Column("group", head), Column("model", "Run"), score, *ends(DECIMALS), *_SHARES)
    parts = [(group, run.name, run.part(dimensions)) for group, dimensions in groups.items() for run in graded]
    rows = [part.values() | {"group": group, "model": name} for group, name, part in parts if part.questions]
    notes = ["Score: plain mean over the capability's dimensions, only where each has one."] * (head == "Capability")
    return table_of_runs(key, f"Scores by {head.lower()}", columns, rows, (*notes, _INTERVAL_NOTE, _SHARES_NOTE))
