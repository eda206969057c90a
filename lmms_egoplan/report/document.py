"""A report as a document: sections, tables, figures and the gallery's items; `writing` and `page` write them."""

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing
    from PIL import Image

Value = float | int | str | None
Verdict = Literal["right", "wrong", "partly", "unscored"]
Images = Callable[[], "list[Image.Image]"]
"""Reads the images that a model was shown."""


def known(value: Value) -> Value:
    """A value; None for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True)
class Column:
    """A column of a table.

    key: its name in the CSV file.
    title: its head.
    decimals: of its numbers as shown; None for texts and counts.
    higher_is_better: None where no value is better than another; best and second best are marked otherwise.
    """

    key: str
    title: str
    decimals: int | None = None
    higher_is_better: bool | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table.

    values: one per column; None where there is none, which is never shown as a number.
    is_own: of one of the runs that are reported, not of a paper.
    compares: whether its numbers compare with those of the other rows; where they do not it is never marked best or
        second best.
    """

    values: tuple[Value, ...]
    is_own: bool = False
    compares: bool = True


@dataclass(frozen=True)
class Table:
    """A table.

    key: stem of its files, unique in the report.
    source: where its numbers are from: paper and table, or the runs.
    notes: what a reader must know to compare its rows.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    source: str = ""
    notes: tuple[str, ...] = ()

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
    """

    key: str
    title: str
    caption: str
    draw: Callable[[], "Drawing"]
    description: str

    @cached_property
    def drawing(self) -> "Drawing":
        """The figure as drawn."""
        return self.draw()

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG file, with its text as text."""
        import matplotlib

        content = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.key}):
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


@dataclass(frozen=True)
class Section:
    """One benchmark's part of the report.

    key: the benchmark's name, which versions of a task may go on from.
    lead: one or two sentences: what is measured.
    remarks: what is wrong with or missing from the runs.
    """

    key: str
    title: str
    lead: str
    headlines: tuple[Headline, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownAnswer:
    """What one run said about one question.

    text: the answer in the model's words; None where choices were ranked.
    logprobs: mean log-probability per token of each choice, nats; None where nothing was ranked.
    chosen: index of the choice that was taken.
    rating: with its scale in words, such as ``"0.5 of 1"``.
    judgement: the judge's words.
    """

    verdict: Verdict
    text: str | None = None
    logprobs: Sequence[float | None] | None = None
    chosen: int | None = None
    rating: str | None = None
    judgement: str | None = None


@dataclass(frozen=True)
class Item:
    """A question of the gallery with what the runs said.

    key: unique in the report: the benchmark's name and the question's id in it, ``NAME/existence/1``.
    facts: what it can be filtered by: source, dimension, scenario, setting, ...
    references: the right answers, named.
    images: None where they are not at hand.
    answers: by the name of the run and, where a run has several tasks over the question, the task: ``"name (task)"``.
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
