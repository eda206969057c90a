"""A report as a document: sections, tables, figures and the gallery's items; `writing` and `page` write them."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing
    from PIL import Image

STANDS = "would_stand"
"""The key of the column that tells where among published rows an own one would stand."""

APART_NOTE = "These rows are over other questions than the published ones, or the demo judge rated them."

Value = float | int | str | None
Verdict = Literal["right", "wrong", "partly", "unscored"]
Images = Callable[[], "list[Image.Image]"]
"""Reads the images that a model was shown."""


def known(value: Value) -> Value:
    """A value; None for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


DEMO = "demo: meaningless"
DEMO_NOTE = (
    "This is a demo: rendered questions, or a judge that only compares words. These scores are meaningless, they tell "
    "nothing of a model:"
)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    key: its name in the CSV file.
    title: its head.
    decimals: of its numbers as shown; None for texts and counts.
    higher_is_better: None where no value is better than another; best and second best are marked otherwise.
    end_of: the key of the column whose 95 % interval ends here, first the low end; "" for none. A page shows both ends
        below the value.
    """

    key: str
    title: str
    decimals: int | None = None
    higher_is_better: bool | None = None
    end_of: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    values: one per column; None where there is none, which is never shown as a number.
    is_own: of one of the runs that are reported, not of a paper.
    why: why its numbers do not compare with those of the other rows; "" where they do. It is never marked best or
        second best, and stands in a table of its own (`Table.parted`).
    """

    values: tuple[Value, ...]
    is_own: bool = False
    why: str = ""

    @property
    def compares(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class Table:
    """A table.

    key: stem of its files, unique in the report.
    source: where its numbers are from: paper and table, or the runs.
    notes: what a reader must know to compare its rows.
    role: where it stands in its section. ``published`` has a paper's rows, ``pairs`` runs side by side, ``scores`` what
        else the runs have.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    source: str = ""
    notes: tuple[str, ...] = ()
    role: Literal["scores", "published", "pairs"] = "scores"

    def parted(self) -> "list[Table]":
        """The table without the rows that do not compare, and these in a table of their own, each with its reason."""
        apart = [row for row in self.rows if not row.compares]
        if not apart:
            return [self]
        kept = replace(self, rows=tuple(row for row in self.rows if row.compares))
        filled = [
            place
            for place, column in enumerate(self.columns)
            if column.key != STANDS and any(row.values[place] is not None for row in apart)
        ]
        columns = (*(self.columns[place] for place in filled), Column("why", "Does not compare"))
        rows = tuple(Row((*(row.values[place] for place in filled), row.why), is_own=row.is_own) for row in apart)
        title = f"Do not compare: {self.title[0].lower()}{self.title[1:]}"
        own = [replace(column, higher_is_better=None) for column in columns]
        return [kept, Table(f"{self.key}_apart", title, tuple(own), rows, "the runs", (APART_NOTE,))]

    def intervals(self) -> dict[int, tuple[int, int]]:
        """The places of the columns that have intervals, each with those of the low and the high end."""
        keys = [column.key for column in self.columns]
        ends: dict[str, list[int]] = {}
        for place, column in enumerate(self.columns):
            if column.end_of in keys:
                ends.setdefault(column.end_of, []).append(place)
        return {keys.index(key): (places[0], places[1]) for key, places in ends.items() if len(places) == 2}

    def numbers(self) -> list[bool]:
        """Of each column, whether there are numbers in it."""
        return [
            column.decimals is not None or any(isinstance(row.values[place], (int, float)) for row in self.rows)
            for place, column in enumerate(self.columns)
        ]

    def marks(self) -> dict[tuple[int, int], Literal["best", "second"]]:
        """Best and second best value of each column that has such, by (row, column); equals share a mark.

        Values count as they are shown, rounded to the column's decimals, and only those of rows that compare. Columns
        with one such value have no marks.
        """
        found: dict[tuple[int, int], Literal["best", "second"]] = {}
        for place, column in enumerate(self.columns):
            if column.higher_is_better is None:
                continue
            shown = {
                index: round(float(row.values[place]), column.decimals or 0)
                for index, row in enumerate(self.rows)
                if row.compares and isinstance(row.values[place], (int, float))
            }
            order = sorted(set(shown.values()), reverse=column.higher_is_better)
            if len(shown) > 1:
                marks = dict(zip(order[:2], ("best", "second"), strict=False))
                found |= {(index, place): marks[value] for index, value in shown.items() if value in marks}
        return found


def table_of_runs(
    key: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, Value]],
    notes: Sequence[str] = (),
) -> Table:
    """A table of one's own rows, each by the columns' keys; what a row lacks it has no value for."""
    values = tuple(Row(tuple(row.get(column.key) for column in columns), is_own=True) for row in rows)
    return Table(key, title, tuple(columns), values, "the runs", tuple(notes))


@dataclass(frozen=True)
class Figure:
    """A figure.

    key: stem of its files, unique in the report.
    caption: what it shows, from what, and how it was computed.
    draw: draws it, legible without colour and on white; called once.
    description: what one sees, for those who do not.
    has_cells: whether its colours stand for values, with words on them: these stay in a dark theme.
    """

    key: str
    title: str
    caption: str
    draw: Callable[[], "Drawing"]
    description: str
    has_cells: bool = False

    @cached_property
    def drawing(self) -> "Drawing":
        """The figure as drawn."""
        return self.draw()

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG file, with its text as text."""
        import matplotlib

        content = io.StringIO()
        settings = {"svg.fonttype": "none", "svg.hashsalt": self.key, "font.sans-serif": ["DejaVu Sans"]}
        with matplotlib.rc_context(settings):
            self.drawing.savefig(content, format="svg", metadata={"Date": None})
        return content.getvalue()


@dataclass(frozen=True)
class Headline:
    """A run's main score in one task, for the summary.

    interval: 95 %, in the score's unit; None without samples.
    coverage: share of the official questions that the score is over, 0 to 1; None where the harness does not tell.
    truncated: share of answers that the limit on new tokens ended; None where unknown.
    is_generated: whether there are answers to be truncated; not where choices are ranked.
    beside: other readings of the same answers, by name, in the score's unit; None where there is none.
    no_interval: why there is no interval, to stand behind "no interval"; "" where there is one.
    apart: why the score compares with no other; empty where it does.
    rank: the best and the worst place that the run may have among those that it compares with; None without intervals.
    ranked: among how many.
    is_demo: whether the score tells nothing of a model.
    protocol: task, version, what was shown and who judged, in a few words.
    gallery: the name under which the gallery has the run's answers; "" for the run's own.
    """

    run: str
    benchmark: str
    task: str
    metric: str
    value: float | None
    decimals: int
    interval: tuple[float, float] | None = None
    questions: int | None = None
    coverage: float | None = None
    truncated: float | None = None
    is_generated: bool = True
    chance: float | None = None
    beside: tuple[tuple[str, float | None], ...] = ()
    no_interval: str = ""
    apart: tuple[str, ...] = ()
    rank: tuple[int, int] | None = None
    ranked: int = 0
    is_demo: bool = False
    protocol: str = ""
    gallery: str = ""


@dataclass(frozen=True)
class Difference:
    """How the main score of one run differs from another's, over the questions that both have it for.

    value: first minus second, in the score's unit; low, high: its 95 % interval, None with `no_interval`.
    won, lost: questions on which the first's score is higher, or lower.
    why: why the two do not compare; "" where they do.
    """

    first: str
    second: str
    task: str
    value: float
    low: float | None
    high: float | None
    questions: int
    won: int
    lost: int
    no_interval: str = ""
    why: str = ""

    @property
    def is_real(self) -> bool:
        """Whether there is an interval, and 0 lies outside of it."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Reference:
    """A published score that runs are measured by.

    name: as the paper's table has it, such as ``GPT-4V``.
    source: such as ``Table 1``.
    scores: all of the table's main column, among which a run would stand.
    caveat: what differs from the runs even where they compare; "" for nothing.
    """

    name: str
    value: float
    source: str
    scores: tuple[float, ...]
    caveat: str = ""


@dataclass(frozen=True)
class Group:
    """A run's main score over the questions of one group; `no_interval` as in `Headline`."""

    name: str
    run: str
    value: float | None
    interval: tuple[float, float] | None
    no_interval: str
    questions: int


@dataclass(frozen=True)
class Slice:
    """The main score by one attribute of the questions.

    attribute: as the gallery's facts name it.
    is_fact: whether the gallery can be filtered by it; not where it is of the answers, such as people's labels.
    groups: those of each run that has such questions, group by group.
    """

    attribute: str
    groups: tuple[Group, ...]
    is_fact: bool = True

    @property
    def names(self) -> list[str]:
        """Of the groups."""
        return list(dict.fromkeys(group.name for group in self.groups))


@dataclass(frozen=True)
class Change:
    """Two runs of one model in one task, the earlier one first.

    difference: later minus earlier.
    earlier, later: date and score of each.
    changed: what differs between their settings, a line each.
    gallery: the names under which the gallery has the answers of earlier and later run.
    """

    task: str
    difference: Difference
    earlier: tuple[str, float | None]
    later: tuple[str, float | None]
    changed: tuple[str, ...]
    gallery: tuple[str, str]


@dataclass(frozen=True)
class Section:
    """One benchmark's part of the report.

    key: the benchmark's name, which versions of a task may go on from.
    lead: one or two sentences: what is measured.
    remarks: what is wrong with or missing from the runs.
    finding: what came out, in sentences; never a difference without its interval.
    unit: of the main score, behind numbers: ``points``; "" for none.
    top: the highest main score that there can be.
    further: main scores in tasks that the summary leaves out, for model cards.
    """

    key: str
    title: str
    lead: str
    headlines: tuple[Headline, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()
    finding: tuple[str, ...] = ()
    unit: str = "points"
    top: float = 100
    reference: Reference | None = None
    differences: tuple[Difference, ...] = ()
    slices: tuple[Slice, ...] = ()
    changes: tuple[Change, ...] = ()
    further: tuple[Headline, ...] = ()


@dataclass(frozen=True)
class ShownAnswer:
    """What one run said about one question.

    text: the answer in the model's words; None where choices were ranked.
    logprobs: mean log-probability per token of each choice, nats; None where nothing was ranked.
    chosen: index of the choice that was taken.
    rating: with its scale in words, such as ``"0.5 of 1"``.
    judgement: the judge's words.
    reply: the model's whole reply, where `text` is what was read of it.
    prompt: as it was sent, without images; None where the harness does not log it.
    tokens: of the prompt and of the answer; None where the harness does not count them.
    """

    verdict: Verdict
    text: str | None = None
    logprobs: Sequence[float | None] | None = None
    chosen: int | None = None
    rating: str | None = None
    judgement: str | None = None
    reply: str | None = None
    prompt: str | None = None
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True)
class Item:
    """A question of the gallery with what the runs said.

    key: unique in the report: the benchmark's name and the question's id in it, ``NAME/existence/1``.
    facts: what it can be filtered by: source, dimension, scenario, setting, ...
    references: the right answers, named.
    images: None where they are not at hand.
    answers: by the name of the run and, where a run has several tasks over the question, the task: ``"name (task)"``.
    title: what tells the question from the others, for the list; "" for the question itself.
    """

    key: str
    benchmark: str
    question: str
    facts: dict[str, str]
    choices: tuple[str, ...] = ()
    gold: int | None = None
    references: dict[str, str] = field(default_factory=dict)
    images: Images | None = None
    answers: dict[str, ShownAnswer] = field(default_factory=dict)
    title: str = ""
