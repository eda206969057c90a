"""Read the papers' tables, and add rows of runs to them.

Each benchmark has a folder with one CSV file per table. ``tables.json`` describes the tables.
"""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.report.document import Reference
from lmms_egoplan.report.tables import WOULD_RANK, Column, Row, Table, Value, known

_FOLDER = Path(__file__).parent
_NUMBER = re.compile(r"-?\d+(\.\d+)?")

Cell = str | float | None

OwnRow = Mapping[str, Value | tuple[str, ...] | list[str]]
"""A run's values by column. The key ``apart`` has the reasons why the row is not comparable."""

# Parts of the data files' column names, with their headings. Longer names come first.
_MODELS = {
    "gpt_3_5_turbo": "GPT-3.5-Turbo",
    "gpt_3_5": "GPT-3.5",
    "gpt_4": "GPT-4",
    "claude_2": "Claude-2",
}
_WORDS = {
    "acc": "accuracy",
    "avg": "average",
    "id": "in-domain",
    "lcs": "LCS",
    "len": "length",
    "llm": "LLM",
    "mcc": "MCC",
    "norm": "norm.",
    "od": "out-of-domain",
    "vlm": "VLM",
}
_WOULD_RANK_NOTE = (
    "Would rank: best and worst rank among the published rows, by the ends of the 95 % "
    "interval. Empty without an interval."
)


@dataclass(frozen=True)
class PublishedTable:
    """A table as printed in a paper.

    stem: benchmark and table, such as ``NAME_table1``.
    source: paper and table, such as ``TITLE, Table 1``.
    what: meaning of the numbers, in a sentence or two.
    label: column with the rows' names, which may repeat.
    columns: columns in the paper's order, the label first.
    rows: cells by column, rows in the paper's order; None for empty cells.
    printed: the same cells as texts, with the printed digits.
    higher_is_better: whether higher is better, for each column with scores.
    main: main score: the average or total if the table has one, else the first score.
    decimals: number of decimals of each column of numbers, as printed in most of its cells.
    notes: remarks, for example on errors in the paper.
    exceptions: printed numbers that differ from the computed ones, with ``row``, ``column``,
    ``printed``, ``computed``.
    unprinted: facts about rows that the paper does not print, by additional column and by label.
    """

    stem: str
    source: str
    what: str
    label: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Cell], ...]
    printed: tuple[dict[str, str], ...]
    higher_is_better: Mapping[str, bool]
    main: str
    decimals: Mapping[str, int]
    notes: tuple[str, ...]
    exceptions: tuple[Mapping[str, Any], ...]
    unprinted: Mapping[str, Mapping[str, str]]

    def facts(self, row: Mapping[str, Cell]) -> dict[str, str]:
        """Return the facts about a row that the paper does not print, by column."""
        label = str(row[self.label])
        return {column: texts[label] for column, texts in self.unprinted.items() if label in texts}

    def scores(self, column: str) -> list[tuple[str, float]]:
        """Return label and score of each row that has a number in the column."""
        scores = []
        for row in self.rows:
            score = row[column]
            if isinstance(score, float):
                scores.append((str(row[self.label]), score))
        return scores


def load_table(benchmark: str, name: str) -> PublishedTable:
    """Read a table from the folder ``published`` of a benchmark.

    Args:
        benchmark: Name of its folder.
        name: Name of the table, such as ``table3``.

    Raises:
        ValueError: The table does not exist.
    """
    folder = _FOLDER / benchmark / "published"
    described = json.loads((folder / "tables.json").read_text(encoding="utf-8"))
    if name not in described:
        raise ValueError(
            f"{folder}: no published table {name!r}; choose from {', '.join(described)}"
        )
    entry = described[name]
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        printed = tuple(reader)
    columns = tuple(reader.fieldnames or ())
    decimals = {}
    for column in columns:
        decimals[column] = _decimals([row[column] for row in printed])
    rows = []
    for texts in printed:
        rows.append({column: _cell(text, decimals[column]) for column, text in texts.items()})
    return PublishedTable(
        stem=f"{benchmark}_{name}",
        source=f"{entry['paper'].partition(':')[0]}, {entry['table']}",
        what=entry["what"],
        label=entry["label"],
        columns=columns,
        rows=tuple(rows),
        printed=printed,
        higher_is_better=entry["higher_is_better"],
        main=entry["derived"][0]["column"] if entry["derived"] else entry["scores"][0],
        decimals={column: digits for column, digits in decimals.items() if digits is not None},
        notes=tuple(entry["notes"]),
        exceptions=tuple(entry["exceptions"]),
        unprinted=entry.get("unprinted", {}),
    )


def reference_of(table: PublishedTable, column: str | None = None, caveat: str = "") -> Reference:
    """Return the best score of a table in a column, by default its main one.

    Args:
        caveat: see `Reference`.
    """
    column = column or table.main
    best = max if table.higher_is_better.get(column, True) else min
    rows = table.scores(column)
    name, score = best(rows, key=itemgetter(1))
    return Reference(
        name, score, table.source.rpartition(", ")[2], tuple(score for _, score in rows), caveat
    )


def _decimals(texts: list[str]) -> int | None:
    """Return the most frequent number of decimals; None if the texts are not numbers."""
    filled = [text for text in texts if text]
    if not filled or not all(map(_NUMBER.fullmatch, filled)):
        return None
    return Counter(len(text.partition(".")[2]) for text in filled).most_common(1)[0][0]


def _cell(text: str, decimals: int | None) -> Cell:
    if not text:
        return None
    return text if decimals is None else float(text)


def published_with_runs(
    title: str,
    published: PublishedTable,
    run_rows: Sequence[OwnRow],
    extra: Sequence[Column] = (),
    notes: Sequence[str] = (),
    main: str | None = None,
) -> Table:
    """Put the rows of runs above the published rows, best first.

    Without runs, keep the paper's order.

    Numbers have the paper's decimals. Equal rows keep the paper's order. Rows without the main
    score come last. Own rows with an interval (``low``, ``high``) also get their rank among the
    published rows, in a separate column.

    Args:
        title: title of the table. Its key is `published.stem`.
        published: the paper's table.
        run_rows: rows of runs. Missing values may be absent or NaN. ``apart`` is one reason or
            several (see `Row.why`).
        extra: columns after the published ones, which own rows and `published.unprinted` fill.
            Empty ones are omitted without own rows.
        notes: notes to put before those of the data file.
        main: the score to sort by. Default: `published.main`.

    Raises:
        ValueError: an own row lacks the label, or has a value without a column.
    """
    extra = tuple(column for column in extra if run_rows or column.key in published.unprinted)
    columns = (*(_column(published, name) for name in published.columns), *extra)
    names = [column.key for column in columns]
    main = main or published.main
    rows = [Row(_values(names, {**row, **published.facts(row)})) for row in published.rows]
    own_rows: list[Row] = []
    ranks: dict[Row, str] = {}
    for values in run_rows:
        reasons = values.get("apart") or ()
        why = "; ".join(reasons) if isinstance(reasons, tuple | list) else str(reasons)
        row = {
            name: value
            for name, value in values.items()
            if name != "apart" and not isinstance(value, tuple | list)
        }
        if not row.get(published.label) or not row.keys() <= set(names):
            raise ValueError(
                f"{published.stem}: expected {published.label} and any of "
                f"{', '.join(names)}, got {row}"
            )
        own_rows.append(Row(_values(names, row), is_ours=True, why=why))
        rank = None if why else _rank(published, main, row)
        if rank:
            ranks[own_rows[-1]] = rank
    if run_rows:
        by = columns[names.index(main)]
        rows = [*_sorted(own_rows, by, names), *_sorted(rows, by, names)]
    if ranks:
        end = names.index(main) + 1
        columns = (*columns[:end], Column(WOULD_RANK, "Would rank"), *columns[end:])
        rows = [
            replace(row, values=(*row.values[:end], ranks.get(row), *row.values[end:]))
            for row in rows
        ]
    source = f"{published.source}, and the runs" if run_rows else published.source
    all_notes = (
        published.what,
        *notes,
        *((_WOULD_RANK_NOTE,) if ranks else ()),
        *published.notes,
    )
    return Table(published.stem, title, columns, tuple(rows), source, all_notes, "published")


def _rank(published: PublishedTable, main: str, row: Mapping[str, Value]) -> str | None:
    """Return a row's rank among the published rows; None without an interval of the main score."""
    low = known(row.get("low"))
    high = known(row.get("high"))
    if (
        not isinstance(low, (int, float))
        or not isinstance(high, (int, float))
        or known(row.get(main)) is None
    ):
        return None
    scores = [score for _, score in published.scores(main)]
    return rank_among(
        (low, high), scores, higher_is_better=published.higher_is_better.get(main, True)
    )


def rank_among(
    interval: tuple[float, float], scores: Sequence[float], *, higher_is_better: bool = True
) -> str:
    """Format the best and worst rank of an interval's ends among scores.

    >>> rank_among((30.0, 38.0), [40, 37.98, 31, 20]), rank_among((50.0, 60.0), [40, 20])
    ('2 to 4 of 5', '1 of 3')
    """
    worst, best = interval if higher_is_better else interval[::-1]
    sign = 1 if higher_is_better else -1
    first = 1 + sum(sign * score > sign * best for score in scores)
    last = 1 + sum(sign * score > sign * worst for score in scores)
    ranks = str(first) if first == last else f"{first} to {last}"
    return f"{ranks} of {len(scores) + 1}"


def _column(published: PublishedTable, name: str) -> Column:
    return Column(
        name, _title(name), published.decimals.get(name), published.higher_is_better.get(name)
    )


def _title(name: str) -> str:
    for part, heading in _MODELS.items():
        name = name.replace(part, heading)
    text = " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return text[0].upper() + text[1:]


def _values(names: Sequence[str], row: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(known(row.get(name)) for name in names)


def _sorted(rows: Sequence[Row], column: Column, names: Sequence[str]) -> list[Row]:
    """Sort rows by their printed numbers, best first."""
    index = names.index(column.key)
    sign = -1 if column.higher_is_better else 1

    def sort_key(row: Row) -> float:
        value = row.values[index]
        return (
            math.inf
            if not isinstance(value, (int, float))
            else sign * round(float(value), column.decimals or 0)
        )

    return sorted(rows, key=sort_key)
