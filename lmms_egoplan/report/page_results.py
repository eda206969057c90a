"""Facts about the columns of the table of results, and published scores, for the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from lmms_egoplan.report.document import Published, Reference
from lmms_egoplan.report.dot_plots import best_published
from lmms_egoplan.report.result_table import ResultColumn, ResultTable


@dataclass(frozen=True)
class ColumnFacts:
    """What the page says about a column of the table of results.

    Attributes:
        column: the column.
        protocol: the task, the judge, and what distinguishes it from other columns of the task.
        questions: number of questions with a score, such as ``24`` or ``22 to 24``.
        reference: the best published score; None if no score is comparable with it.
    """

    column: ResultColumn
    protocol: tuple[str, ...]
    questions: str
    reference: Reference | None


@dataclass(frozen=True)
class PublishedRow:
    """A published model: its scores by the position of their column, with the printed digits."""

    model: str
    source: str
    protocol: str
    scores: dict[int, Published]


def column_facts(table: ResultTable) -> list[ColumnFacts]:
    """Return the facts about each column of the table."""
    facts = []
    for position, column in enumerate(table.columns):
        cells = [row.cells[position] for row in table.rows]
        lines = [cell.headline for cell in cells if cell is not None]
        facts.append(
            ColumnFacts(
                column=column,
                protocol=_short_protocol(column, table.columns),
                questions=_questions([line.questions for line in lines]),
                reference=best_published(column.section, lines),
            )
        )
    return facts


def _short_protocol(column: ResultColumn, columns: Sequence[ResultColumn]) -> tuple[str, ...]:
    """Return the task, the judge, and the parts that not all columns of the task have."""
    same_task = [other.protocol.split(", ") for other in columns if other.task == column.task]
    parts = [column.task]
    for part in column.protocol.split(", "):
        is_shared = all(part in others for others in same_task)
        is_judge = part.startswith("judge ")
        if part != column.task and (is_judge or not is_shared):
            parts.append(part)
    return tuple(parts)


def _questions(numbers: Sequence[int | None]) -> str:
    """Format the numbers of questions of a column's scores as a number or a range."""
    known = [number for number in numbers if number is not None]
    if not known:
        return "unknown"
    low, high = (f"{number:,}" for number in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"


def published_rows(table: ResultTable) -> list[PublishedRow]:
    """Return the published scores as rows, by column, best first."""
    rows: dict[tuple[str, str, str, int], PublishedRow] = {}
    for position in _columns_for_published(table):
        column = table.columns[position]
        for score in column.section.published:
            if column.task not in score.tasks:
                continue
            # A source may print several scores of one model, such as one per gold plan.
            repeat = 0
            key = (score.model, score.source, score.protocol, repeat)
            while key in rows and position in rows[key].scores:
                repeat += 1
                key = (score.model, score.source, score.protocol, repeat)
            row = rows.setdefault(key, PublishedRow(score.model, score.source, score.protocol, {}))
            row.scores[position] = score
    return sorted(rows.values(), key=_by_column)


def _by_column(row: PublishedRow) -> tuple[int, float]:
    position = min(row.scores)
    return position, -row.scores[position].value


def _columns_for_published(table: ResultTable) -> list[int]:
    """Return the position of one column per task: the first with comparable scores, or the first.

    A benchmark's task has several columns if its judges differ.
    """
    positions: dict[tuple[str, str], int] = {}
    for position, column in enumerate(table.columns):
        task = (column.section.key, column.task)
        if task not in positions or (
            not _is_comparable(table, positions[task]) and _is_comparable(table, position)
        ):
            positions[task] = position
    return sorted(positions.values())


def _is_comparable(table: ResultTable, position: int) -> bool:
    """Return true if a score of the column is comparable with published scores."""
    cells = [row.cells[position] for row in table.rows]
    return any(cell is not None and not cell.headline.apart for cell in cells)
