"""The table of results: models by benchmarks.

Terminal, page, Markdown, LaTeX and CSV show the same table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from lmms_egoplan.report.document import Difference, Headline, Section
from lmms_egoplan.report.tables import show

Standing = Literal["best", "tied", "below", "unknown"]
"""How a score compares with the best one of its column.

``tied``: the interval of the difference to the best includes 0. ``below``: it excludes 0.
``unknown``: the difference has no interval, or the column has only one score.
"""


@dataclass(frozen=True)
class ResultColumn:
    """A column: one benchmark under one protocol. All scores in it are comparable.

    Attributes:
        section: the benchmark's section.
        title: title of the benchmark, with the name of the task if it has several columns.
        task: name of the task.
        protocol: task, version, media and judge, in a few words.
        metric: name of the score.
        decimals: number of decimals to print.
        chance: score of random answers; None if unknown.
        footnotes: numbers of the footnotes that apply to all scores of the column, from 1 on.
    """

    section: Section
    title: str
    task: str
    protocol: str
    metric: str
    decimals: int
    chance: float | None
    footnotes: tuple[int, ...]


@dataclass(frozen=True)
class ResultCell:
    """The score of a model in a column.

    Attributes:
        headline: the score.
        standing: see `Standing`.
        footnotes: numbers of the footnotes that apply to this score only, from 1 on.
    """

    headline: Headline
    standing: Standing
    footnotes: tuple[int, ...]


@dataclass(frozen=True)
class ResultRow:
    """A model's scores, one per column; None if it has none."""

    model: str
    cells: tuple[ResultCell | None, ...]


@dataclass(frozen=True)
class ResultTable:
    """Models by benchmarks.

    Attributes:
        columns: the columns, in the order of the sections.
        rows: one row per model, in the order of the runs.
        footnotes: the texts of the footnotes, in order.
    """

    columns: tuple[ResultColumn, ...]
    rows: tuple[ResultRow, ...]
    footnotes: tuple[str, ...]


def result_table(sections: Sequence[Section]) -> ResultTable | None:
    """Make the table of the main scores; None without scores.

    A benchmark has one column per protocol of its main scores (`Headline.is_main`).

    Args:
        sections: sections with headlines and differences.
    """
    columns: list[tuple[Section, list[Headline]]] = []
    for section in sections:
        by_protocol: dict[str, list[Headline]] = {}
        for line in section.headlines:
            if line.is_main and line.value is not None:
                by_protocol.setdefault(line.protocol, []).append(line)
        columns += [(section, lines) for lines in by_protocol.values()]
    if not columns:
        return None
    footnotes = _Footnotes()
    result_columns: list[ResultColumn] = []
    cells: dict[str, dict[int, ResultCell]] = {}
    for position, (section, lines) in enumerate(columns):
        num_columns = sum(other is section for other, _ in columns)
        result_columns.append(_column(section, lines, num_columns, footnotes))
        for line, cell in zip(lines, _cells(section, lines, footnotes), strict=True):
            cells.setdefault(line.run, {})[position] = cell
    rows = []
    for run, of_run in cells.items():
        in_order = tuple(of_run.get(position) for position in range(len(columns)))
        rows.append(ResultRow(run, in_order))
    return ResultTable(tuple(result_columns), tuple(rows), footnotes.texts())


class _Footnotes(dict[str, int]):
    """Number the texts of footnotes in the order of their first use, from 1 on."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self) + 1
        return self[text]

    def texts(self) -> tuple[str, ...]:
        return tuple(self)


def _column(
    section: Section, lines: Sequence[Headline], num_columns: int, footnotes: _Footnotes
) -> ResultColumn:
    first = lines[0]
    title = section.title if num_columns == 1 else f"{section.title} ({first.task})"
    chances = {line.chance for line in lines}
    return ResultColumn(
        section=section,
        title=title,
        task=first.task,
        protocol=first.protocol,
        metric=first.metric,
        decimals=first.decimals,
        chance=chances.pop() if len(chances) == 1 else None,
        footnotes=tuple(footnotes[text] for text in _shared(lines)),
    )


def _shared(lines: Sequence[Headline]) -> list[str]:
    """Return the remarks that all scores of a column have."""
    remarks = [_remarks(line) for line in lines]
    return [text for text in remarks[0] if all(text in others for others in remarks[1:])]


def _remarks(line: Headline) -> list[str]:
    """Return the remarks on a score."""
    remarks = [f"Not comparable with published scores: {reason}." for reason in line.apart]
    if line.no_interval:
        remarks.append(f"No interval: {line.no_interval}.")
    return remarks


def _cells(section: Section, lines: Sequence[Headline], footnotes: _Footnotes) -> list[ResultCell]:
    """Return the cells of a column, in the order of the scores."""
    pairs: dict[frozenset[str], Difference] = {}
    for pair in section.differences:
        if pair.task == lines[0].task:
            pairs[frozenset((pair.first, pair.second))] = pair
    best = max(lines, key=lambda line: line.value or 0)
    shared = _shared(lines)
    cells = []
    for line in lines:
        remarks = [text for text in _remarks(line) if text not in shared]
        remarks += _repeats(line, lines, pairs)
        numbers = tuple(footnotes[text] for text in remarks)
        cells.append(ResultCell(line, _standing(line, best, lines, pairs), numbers))
    return cells


def _standing(
    line: Headline,
    best: Headline,
    lines: Sequence[Headline],
    pairs: Mapping[frozenset[str], Difference],
) -> Standing:
    if len(lines) == 1:
        return "unknown"
    if line.value == best.value:
        return "best"
    pair = pairs.get(frozenset((line.run, best.run)))
    if pair is None or pair.why or pair.low is None:
        return "unknown"
    return "below" if pair.is_real else "tied"


def _repeats(
    line: Headline, lines: Sequence[Headline], pairs: Mapping[frozenset[str], Difference]
) -> list[str]:
    """Return a remark for each other score of the same checkpoint in the same column."""
    remarks = []
    for first, second in combinations(lines, 2):
        is_same = bool(first.checkpoint) and first.checkpoint == second.checkpoint
        if not is_same or line not in (first, second):
            continue
        pair = pairs.get(frozenset((first.run, second.run)))
        difference = (second.value or 0) - (first.value or 0)
        interval = ""
        if pair is not None and pair.low is not None and pair.high is not None:
            low, high = (pair.low, pair.high)
            if pair.first == first.run:
                low, high = (-high, -low)
            interval = (
                f" (95\u202f% interval {show(low, line.decimals)} to {show(high, line.decimals)})"
            )
        remarks.append(
            f"{first.run} and {second.run} are one model with two scores. {second.run} minus "
            f"{first.run}: {show(difference, line.decimals)}{interval}. To choose one, pass only "
            "its folder."
        )
    return remarks
