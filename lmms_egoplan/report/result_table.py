"""The table of results: models by benchmarks.

Terminal, page, Markdown, LaTeX and CSV show the same table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lmms_egoplan.report.document import DEMO_NOTE, Difference, Headline, Section
from lmms_egoplan.report.summary import demo_runs
from lmms_egoplan.report.tables import (
    SUPERSCRIPTS,
    Column,
    Row,
    Table,
    Value,
    csv_of,
    latex_of,
    markdown_of,
    show,
)
from lmms_egoplan.text import counted, join_list, percent

_MOST_NAMES = 4
TITLE = "Scores with 95 % intervals"

BEST = "*"
"""Mark of the best score of a column."""
TIED = "\u2248"
"""Mark of a score that is not measurably below the best one."""
UNKNOWN = "?"
"""Mark of a score whose difference to the best one has no interval."""
Standing = Literal["best", "tied", "below", "unknown", "alone"]
"""How a score compares with the best one of its column.

``below``: the difference to the best is real (`Difference.is_real`). ``tied``: it is not.
``unknown``: a score or the difference has no interval. ``alone``: no other score is in the column,
or the score is missing.
"""
_MARKS: Mapping[Standing, str] = {
    "best": BEST,
    "tied": TIED,
    "below": "",
    "unknown": UNKNOWN,
    "alone": "",
}
_LEGEND: Mapping[Standing, str] = {
    "best": f"{BEST} best of the column",
    "tied": (
        f"{TIED} not measurably below the best: the difference's 95\u202f% interval includes 0, or "
        "its test has p > 0.05"
    ),
    "below": "no mark: measurably below the best",
    "unknown": f"{UNKNOWN} difference to the best unknown",
}
_TO_SUPERSCRIPTS = str.maketrans("0123456789", SUPERSCRIPTS)
_Pairs = Mapping[frozenset[str], Difference]
"""The differences in one task, by the names of both runs."""


@dataclass(frozen=True)
class ResultColumn:
    """A column: one benchmark under one protocol. All scores in it are comparable.

    Attributes:
        section: the benchmark's section.
        title: title of the benchmark, with what distinguishes the protocol if it has several
            columns.
        key: unique name for programs: the task's name, with a number if several columns have it.
        task: name of the task.
        protocol: task, version, media and judge, in a few words.
        metric: name of the score.
        decimals: number of decimals to print.
        chance: score of random answers; None if unknown.
        questions: lowest and highest number of scored questions of a model; None if unknown.
        footnotes: numbers of the footnotes that apply to all scores of the column, from 1 on.
    """

    section: Section
    title: str
    key: str
    task: str
    protocol: str
    metric: str
    decimals: int
    chance: float | None
    questions: tuple[int, int] | None
    footnotes: tuple[int, ...]

    @property
    def head(self) -> str:
        """The title with the numbers of its footnotes."""
        return self.title + superscript(self.footnotes)

    @property
    def description(self) -> str:
        """The protocol, the score and the number of questions, in a sentence."""
        parts = [self.protocol or self.task, self.metric]
        if self.questions is not None:
            least, most = self.questions
            numbers = counted(most, "questions")
            parts.append(numbers if least == most else f"{least:,} to {numbers}")
        if self.chance is not None:
            parts.append(f"chance {show(self.chance, self.decimals)}")
        return f"{self.title}: {'; '.join(parts)}."


@dataclass(frozen=True)
class ResultCell:
    """The score of a model in a column.

    Attributes:
        headline: the score, which may be missing.
        standing: see `Standing`.
        footnotes: numbers of the footnotes that apply to this score only, from 1 on.
    """

    headline: Headline
    standing: Standing
    footnotes: tuple[int, ...]

    @property
    def score(self) -> str:
        """The score; an en dash if it is missing."""
        return show(self.headline.value, self.headline.decimals)

    @property
    def interval(self) -> str:
        """The 95 % interval; "" if there is none."""
        if self.headline.value is None or self.headline.interval is None:
            return ""
        low, high = (show(end, self.headline.decimals) for end in self.headline.interval)
        return f"{low}\u2013{high}"

    @property
    def marks(self) -> str:
        """The mark of the standing and the numbers of the footnotes."""
        return _MARKS[self.standing] + superscript(self.footnotes)


@dataclass(frozen=True)
class ResultRow:
    """A model's scores, one per column; None if it was not asked."""

    model: str
    cells: tuple[ResultCell | None, ...]


@dataclass(frozen=True)
class ResultTable:
    """Models by benchmarks.

    Attributes:
        columns: the columns, in the order of the sections.
        rows: one row per model, in the order of the runs.
        footnotes: the texts of the footnotes, in order.
        demo: a note on models whose scores are meaningless; "" if there are none.
    """

    columns: tuple[ResultColumn, ...]
    rows: tuple[ResultRow, ...]
    footnotes: tuple[str, ...]
    demo: str

    @property
    def legend(self) -> str:
        """The meaning of the marks in the table; "" without any."""
        cells = [cell for row in self.rows for cell in row.cells if cell is not None]
        used = {cell.standing for cell in cells}
        return "; ".join(text for standing, text in _LEGEND.items() if standing in used)

    def notes(self) -> Iterator[str]:
        """Yield the texts below the table: marks, protocols, footnotes and the demo's note."""
        if self.legend:
            yield f"{self.legend}."
        for column in self.columns:
            yield column.description
        for number, text in enumerate(self.footnotes, 1):
            yield f"{superscript((number,))} {text}"
        if self.demo:
            yield self.demo


def superscript(numbers: Sequence[int]) -> str:
    """Format numbers of footnotes, such as "\u00b9,\u00b2"."""
    return ",".join(str(number).translate(_TO_SUPERSCRIPTS) for number in sorted(numbers))


def result_table(sections: Sequence[Section]) -> ResultTable | None:
    """Make the table of the main scores; None without any.

    A benchmark has a column for each protocol under which a model has its main score
    (`Headline.is_main`), with the scores of all models under this protocol.

    Args:
        sections: sections with headlines and differences.
    """
    groups: list[tuple[Section, list[Headline]]] = []
    for section in sections:
        protocols = {line.protocol: None for line in section.headlines if line.is_main}
        for protocol in protocols:
            lines = [line for line in section.headlines if line.protocol == protocol]
            groups.append((section, lines))
    if not groups:
        return None
    footnotes = _Footnotes()
    columns: list[ResultColumn] = []
    cells: dict[str, dict[int, ResultCell]] = {}
    for position, (section, lines) in enumerate(groups):
        of_section = [others[0] for other, others in groups if other is section]
        earlier_keys = [column.key for column in columns]
        columns.append(_column(section, lines, of_section, earlier_keys, footnotes))
        for line, cell in zip(lines, _cells(section, lines, footnotes), strict=True):
            cells.setdefault(line.run, {})[position] = cell
    rows = []
    for run, of_run in cells.items():
        in_order = tuple(of_run.get(position) for position in range(len(groups)))
        rows.append(ResultRow(run, in_order))
    demo = demo_runs(sections)
    return ResultTable(
        tuple(columns),
        tuple(rows),
        footnotes.texts(),
        f"{DEMO_NOTE} {', '.join(demo)}." if demo else "",
    )


class _Footnotes(dict[str, int]):
    """Number the texts of footnotes in the order of their first use, from 1 on."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self) + 1
        return self[text]

    def texts(self) -> tuple[str, ...]:
        return tuple(self)


def _column(
    section: Section,
    lines: Sequence[Headline],
    of_section: Sequence[Headline],
    earlier_keys: Sequence[str],
    footnotes: _Footnotes,
) -> ResultColumn:
    """Describe a column.

    Args:
        section: the benchmark's section.
        lines: the scores of the column.
        of_section: the first score of each column of the section.
        earlier_keys: keys of the columns before it.
        footnotes: the footnotes so far.
    """
    first = lines[0]
    title = section.title
    if len(of_section) > 1:
        title += f" ({_distinction(first, of_section)})"
    key = first.task
    if key in earlier_keys:
        key += f"_{1 + sum(earlier.startswith(key) for earlier in earlier_keys)}"
    chances = {line.chance for line in lines}
    questions = [line.questions for line in lines if line.questions is not None]
    return ResultColumn(
        section=section,
        title=title,
        key=key,
        task=first.task,
        protocol=first.protocol,
        metric=first.metric,
        decimals=first.decimals,
        chance=chances.pop() if len(chances) == 1 else None,
        questions=(min(questions), max(questions)) if questions else None,
        footnotes=tuple(footnotes[text] for text in _column_remarks(lines)),
    )


def _distinction(line: Headline, others: Sequence[Headline]) -> str:
    """Return what distinguishes a protocol: its task, or the parts that not all protocols have."""
    if len({other.task for other in others}) == len(others):
        return line.task
    parts = [other.protocol.split(", ") for other in others]
    own = [
        part
        for part in line.protocol.split(", ")
        if not all(part in protocol for protocol in parts)
    ]
    return ", ".join(own) or line.task


def _reasons(line: Headline) -> list[str]:
    """Return why a score is not comparable with published ones. A missing score has no reasons."""
    return [] if line.value is None else list(line.apart)


def _shared_reasons(lines: Sequence[Headline]) -> list[str]:
    """Return the reasons that all scores of a column have."""
    scored = [line for line in lines if line.value is not None]
    if not scored:
        return []
    return [text for text in scored[0].apart if all(text in line.apart for line in scored[1:])]


def _not_comparable(reasons: Sequence[str]) -> list[str]:
    return [f"Not comparable with published scores: {'; '.join(reasons)}."] if reasons else []


def _column_remarks(lines: Sequence[Headline]) -> list[str]:
    """Return the remarks on all scores of a column."""
    remarks = _not_comparable(_shared_reasons(lines))
    truncated = [
        f"{line.run} {percent(line.truncated)}"
        for line in lines
        if line.value is not None and line.truncated
    ]
    if truncated:
        remarks.append(f"Truncated answers: {', '.join(truncated)}.")
    return remarks


def _cells(section: Section, lines: Sequence[Headline], footnotes: _Footnotes) -> list[ResultCell]:
    """Return the cells of a column, in the order of the scores."""
    pairs: dict[frozenset[str], Difference] = {}
    for pair in section.differences:
        if pair.task == lines[0].task:
            pairs[frozenset((pair.first, pair.second))] = pair
    scored = [line for line in lines if line.value is not None]
    best = _best(scored, pairs)
    shared = _shared_reasons(lines)
    cells = []
    for line in lines:
        remarks = _not_comparable([text for text in _reasons(line) if text not in shared])
        remarks += _gaps(line, best, pairs)
        remarks += _repeats(line, scored, pairs)
        numbers = tuple(footnotes[text] for text in remarks)
        cells.append(ResultCell(line, _standing(line, best, scored, pairs), numbers))
    return cells


def _best(scored: Sequence[Headline], pairs: _Pairs) -> Headline | None:
    """Return the highest score that no other one is measurably above; None without scores.

    A score over fewer questions may be higher, and yet below another one on the questions that both
    cover.
    """
    unbeaten = []
    for line in scored:
        if not any(_is_above(other, line, pairs) for other in scored):
            unbeaten.append(line)
    return max(unbeaten or scored, key=lambda line: line.value or 0, default=None)


def _is_above(first: Headline, second: Headline, pairs: _Pairs) -> bool:
    """Return true if the first score is measurably above the second one on their questions."""
    pair = pairs.get(frozenset((first.run, second.run)))
    if first is second or pair is None or pair.why or not pair.is_real:
        return False
    if first.interval is None or second.interval is None:
        return False
    return (pair.value > 0) == (pair.first == first.run)


def _standing(
    line: Headline, best: Headline | None, scored: Sequence[Headline], pairs: _Pairs
) -> Standing:
    if line.value is None or best is None or len(scored) < 2:
        return "alone"
    if _is_above(best, line, pairs):
        return "below"
    if line is best or (line.value == best.value and not _is_above(line, best, pairs)):
        return "best"
    pair = pairs.get(frozenset((line.run, best.run)))
    if pair is None or pair.why or pair.low is None or pair.is_real:
        return "unknown"
    return "unknown" if line.interval is None or best.interval is None else "tied"


def _gaps(line: Headline, best: Headline | None, pairs: _Pairs) -> Iterator[str]:
    """Yield what a score lacks: itself, its interval, or equal conditions with the best one."""
    if line.value is None or best is None:
        yield "No score: some or all of its parts were not scored."
        return
    yield from line.remarks
    if line.no_interval:
        yield f"No interval: {line.no_interval}."
    pair = pairs.get(frozenset((line.run, best.run)))
    if pair is not None and pair.why:
        yield f"{line.run} and {best.run} are not comparable: {pair.why}."
    elif pair is not None and line.value > (best.value or 0):
        yield (
            f"{line.run} has a higher score than {best.run}, but a lower one on the "
            f"{counted(pair.questions, 'questions')} that both cover."
        )


def _repeats(line: Headline, scored: Sequence[Headline], pairs: _Pairs) -> list[str]:
    """Return a remark if other scores of the column are of the same checkpoint."""
    of_model = [other for other in scored if other.checkpoint == line.checkpoint]
    has_several = len({other.value for other in of_model}) > 1
    if not line.checkpoint or line not in of_model or not has_several:
        return []
    names = join_list([other.run for other in of_model], _MOST_NAMES)
    if len(of_model) == 2:
        first, second = of_model
        size = f"{second.run} minus {first.run}: {_difference(first, second, pairs)}"
    else:
        values = [other.value or 0 for other in of_model]
        low, high = (show(value, line.decimals) for value in (min(values), max(values)))
        size = f"{low} to {high}"
    return [
        f"{names} are one model with several scores. {size}. To choose one, pass only its folder."
    ]


def _difference(first: Headline, second: Headline, pairs: _Pairs) -> str:
    """Format the second score minus the first one, with the interval if there is one."""
    value = (second.value or 0) - (first.value or 0)
    text = show(value, first.decimals)
    pair = pairs.get(frozenset((first.run, second.run)))
    if pair is None or pair.low is None or pair.high is None:
        return text
    low, high = (pair.low, pair.high) if pair.first == second.run else (-pair.high, -pair.low)
    ends = f"{show(low, first.decimals)} to {show(high, first.decimals)}"
    return f"{text} (95\u202f% interval {ends})"


def formatted(result: ResultTable, form: Literal["md", "latex", "csv"]) -> str:
    """Format the table of results as Markdown, LaTeX or CSV."""
    if form == "csv":
        return csv_of(_csv_table(result), with_own=False)
    if form == "latex":
        return latex_of(_latex_table(result))
    return markdown_of(_markdown_table(result))


def _markdown_table(result: ResultTable) -> Table:
    """Make the table for Markdown, with score, interval and marks in one cell."""
    rows = []
    for row in result.rows:
        texts = [_cell_text(cell) for cell in row.cells]
        rows.append(Row((row.model, *texts)))
    return _text_table(result, rows)


def _latex_table(result: ResultTable) -> Table:
    """Make the table for LaTeX. To be narrow, it has the intervals in a second row."""
    rows = []
    for row in result.rows:
        scores: list[Value] = [row.model]
        intervals: list[Value] = [""]
        for cell in row.cells:
            scores.append(None if cell is None else cell.score + cell.marks)
            intervals.append(cell.interval if cell is not None else "")
        rows += [Row(tuple(scores)), Row(tuple(intervals))]
    return _text_table(result, rows)


def _text_table(result: ResultTable, rows: Sequence[Row]) -> Table:
    columns = [Column("model", "Model")]
    columns += [Column(column.key, column.head) for column in result.columns]
    return Table("results", TITLE, tuple(columns), tuple(rows), notes=tuple(result.notes()))


def _cell_text(cell: ResultCell | None) -> str | None:
    if cell is None:
        return None
    interval = f" ({cell.interval})" if cell.interval else ""
    return f"{cell.score}{interval}{cell.marks}"


def _csv_table(result: ResultTable) -> Table:
    """Make the table for programs, with each number in its own column and all digits."""
    columns = [Column("model", "Model")]
    for column in result.columns:
        for name in ("", "_low", "_high", "_questions", "_standing", "_protocol", "_remarks"):
            columns.append(Column(f"{column.key}{name}", ""))
    rows = []
    for row in result.rows:
        values: list[Value] = [row.model]
        for column, cell in zip(result.columns, row.cells, strict=True):
            values += _csv_values(result, column, cell)
        rows.append(Row(tuple(values)))
    return Table("results", TITLE, tuple(columns), tuple(rows))


def _csv_values(result: ResultTable, column: ResultColumn, cell: ResultCell | None) -> list[Value]:
    if cell is None:
        return [None] * 7
    line = cell.headline
    low, high = line.interval or (None, None)
    numbers = (*column.footnotes, *cell.footnotes)
    remarks = " ".join(result.footnotes[number - 1] for number in numbers)
    return [line.value, low, high, line.questions, cell.standing, line.protocol, remarks or None]
