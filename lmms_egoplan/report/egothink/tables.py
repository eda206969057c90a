"""EgoThink's scores next to Tables 2 and 3 of the paper, by capability and by dimension."""

from collections.abc import Mapping, Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import Dimension
from lmms_egoplan.report.egothink.answers import CAPABILITIES, SINGLE, EgoThinkTask
from lmms_egoplan.report.egothink.notes import INTERVAL_NOTE, SHARES_COLUMNS
from lmms_egoplan.report.models import UNKNOWN, model_facts
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs


def table2(rows: Sequence[Mapping[str, Value]]) -> Table:
    """Put facts about the models above Table 2 of the paper.

    Args:
        rows: The rows of `model_rows`.
    """
    columns = (
        Column("named_billions", "Billions by its name", decimals=2),
        Column("tuned", "Tuning by its name"),
        Column("family", "Family by its name"),
        Column(
            "images",
            "Images",
            note="Images: mean number per question that the harness logged.",
            is_condition=True,
        ),
        Column("average", "Average", decimals=1),
        *interval_columns("average", decimals=1, prefix="average_"),
        Column("facts_from", "Facts from"),
    )
    notes = [
        (
            "Rows of runs: facts in the checkpoint's configuration, with the name of the "
            "field, if the checkpoint is on this machine. Total: parameters as the harness "
            "counted them, else by the headers of the safetensors files, in billions; unknown "
            "for quantised weights. Other cells are empty, such as the data of training."
        ),
    ]
    known_facts = []
    for row in rows:
        known_facts.append({name: fact for name, fact in row.items() if fact != UNKNOWN})
    title = "Models, next to Table 2 of the paper" if rows else "Published: models"
    published = load_table("egothink", "table2")
    return published_with_runs(title, published, known_facts, columns, notes)


def model_rows(graded: Sequence[EgoThinkTask]) -> list[dict[str, Value]]:
    """Return the rows of Table 2, one per run."""
    rows: list[dict[str, Value]] = []
    for run in graded:
        facts = model_facts(run.run, [task.task for task in run.tasks.values()])
        rows.append({"model": run.name, **facts, **run.main.cells("average", "average_")})
    return rows


def table3(graded: Sequence[EgoThinkTask]) -> Table:
    """Put the dimensions' scores of the runs above Table 3 of the paper."""
    columns = (
        *interval_columns("average", decimals=1, label="(average)"),
        *SHARES_COLUMNS,
    )
    notes = [
        "Average: plain mean over the twelve dimensions, if all have a score.",
        (
            "The paper's judge, GPT-4, is no longer available. Scores by other judges are "
            "close to the published ones, not equal."
        ),
        INTERVAL_NOTE,
    ]
    rows: list[OwnRow] = []
    for run in graded:
        values = run.whole.values()
        row: dict[str, Value] = {
            "model": run.name,
            "average": values.pop("score"),
            "apart": "; ".join(run.objections),
        }
        for name, task_run in run.tasks.items():
            row[name] = task_run.number("score")
        rows.append(row | values)
    title = "Twelve dimensions, next to Table 3 of the paper"
    return published_with_runs(title, load_table("egothink", "table3"), rows, columns, notes)


def capabilities_table(graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the runs' scores by capability."""
    notes = [
        "Score: plain mean over the dimensions of the capability, if all have a score.",
        INTERVAL_NOTE,
    ]
    columns = _score_columns(Column("group", "Capability"))
    rows = _score_rows(graded, CAPABILITIES)
    return table_of_runs("egothink_capabilities", "Scores by capability", columns, rows, notes)


def dimensions_table(graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the runs' scores by dimension."""
    columns = _score_columns(Column("group", "Dimension"))
    rows = _score_rows(graded, SINGLE)
    notes = [INTERVAL_NOTE]
    return table_of_runs("egothink_dimensions", "Scores by dimension", columns, rows, notes)


def _score_columns(group: Column) -> tuple[Column, ...]:
    """Return the columns of a table of scores by group of dimensions.

    Args:
        group: The column with the groups.
    """
    return (
        group,
        Column("model", "Run"),
        Column("score", "Score", decimals=1),
        *interval_columns("score", decimals=1),
        *SHARES_COLUMNS,
    )


def _score_rows(
    graded: Sequence[EgoThinkTask], groups: Mapping[str, Sequence[Dimension]]
) -> list[dict[str, Value]]:
    """Return the scores of each run in each group of dimensions."""
    rows = []
    for group, dimensions in groups.items():
        for run in graded:
            part = run.part(dimensions)
            if part.questions:
                rows.append(part.values() | {"group": group, "model": run.name})
    return rows
