"""EgoThink's tables of scores, beside Table 3 and by group."""

from collections.abc import Mapping, Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import Dimension
from lmms_egoplan.benchmarks.egothink.published import load
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.report.document import Column, Table, table_of_runs
from lmms_egoplan.report.notes import read_notes
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.scored import ends
from lmms_egoplan.report.statistics import RESAMPLES

DECIMALS = 1
NOTES = read_notes(__file__, resamples=RESAMPLES)
_SHARES = (
    Column("questions", "Questions"),
    Column("coverage", "Coverage %", 1),
    Column("judged", "Judged %", 1),
    Column("truncated", "Truncated %", 1),
    Column("suspect", "Suspect %", 1),
    Column("judge", "Judge"),
    Column("prompts", "Prompts"),
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
    notes = (average, NOTES["judge"], NOTES["interval"], NOTES["shares"])
    return published_with_runs("Twelve dimensions, beside Table 3", load("table3"), own, extra, notes)


def score_table(key: str, head: str, graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]) -> Table:
    """Scores of each run in each group of dimensions; head: what a group is."""
    score = Column("score", "Score", DECIMALS)
    columns = (Column("group", head), Column("model", "Run"), score, *ends(DECIMALS), *_SHARES)
    parts = [(group, run.name, run.part(dimensions)) for group, dimensions in groups.items() for run in graded]
    rows = [part.values() | {"group": group, "model": name} for group, name, part in parts if part.questions]
    notes = ["Score: plain mean over the capability's dimensions, only where each has one."] * (head == "Capability")
    return table_of_runs(key, f"Scores by {head.lower()}", columns, rows, (*notes, NOTES["interval"], NOTES["shares"]))
