"""Scores printed in papers: a folder with one CSV per table, described in ``tables.json``."""

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from lmms_egoplan.report.document import Reference

_BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
_NUMBER = re.compile(r"-?\d+(\.\d+)?")

Cell = str | float | None


@dataclass(frozen=True)
class PublishedTable:
    """A table as a paper prints it.

    stem: benchmark and table, ``NAME_table1``.
    source: paper and table, ``TITLE, Table 1``.
    what: the meaning of its numbers, in a sentence or two.
    label: the column with the rows' names, which may repeat.
    columns: in the paper's order, the label first.
    rows: in the paper's order, by column; None for empty cells.
    printed: the same cells as texts, with the printed digits.
    higher_is_better: of the columns with scores.
    main: the main score: the average or total if the table has one, else the first score.
    decimals: of each column of numbers, as most of its cells are printed.
    notes: remarks, such as oddities of the print.
    exceptions: numbers that differ from their computation: ``row``, ``column``, ``printed``, ``computed``.
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

    def scores(self, column: str) -> list[tuple[str, float]]:
        """Return label and score of each row with a number in a column."""
        return [(str(row[self.label]), score) for row in self.rows if isinstance(score := row[column], float)]


def load_table(benchmark: str, name: str) -> PublishedTable:
    """Read a table from the folder ``published`` of a benchmark.

    Args:
        benchmark: Name of its folder.
        name: Name of the table, such as ``table3``.

    Raises:
        ValueError: The table does not exist.
    """
    folder = _BENCHMARKS / benchmark / "published"
    described = json.loads((folder / "tables.json").read_text(encoding="utf-8"))
    if name not in described:
        raise ValueError(f"no published table {name!r} in {folder}; there are {', '.join(described)}")
    entry = described[name]
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        printed = tuple(reader)
    columns = tuple(reader.fieldnames or ())
    decimals = {column: _decimals([row[column] for row in printed]) for column in columns}
    return PublishedTable(
        stem=f"{benchmark}_{name}",
        source=f"{entry['paper'].partition(':')[0]}, {entry['table']}",
        what=entry["what"],
        label=entry["label"],
        columns=columns,
        rows=tuple({name: _cell(text, decimals[name]) for name, text in row.items()} for row in printed),
        printed=printed,
        higher_is_better=entry["higher_is_better"],
        main=entry["derived"][0]["column"] if entry["derived"] else entry["scores"][0],
        decimals={column: places for column, places in decimals.items() if places is not None},
        notes=tuple(entry["notes"]),
        exceptions=tuple(entry["exceptions"]),
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
    return Reference(name, score, table.source.rpartition(", ")[2], tuple(score for _, score in rows), caveat)


def _decimals(texts: list[str]) -> int | None:
    """Return the most frequent number of decimals; None if these are not numbers."""
    filled = [text for text in texts if text]
    if not filled or not all(map(_NUMBER.fullmatch, filled)):
        return None
    return Counter(len(text.partition(".")[2]) for text in filled).most_common(1)[0][0]


def _cell(text: str, places: int | None) -> Cell:
    if not text:
        return None
    return text if places is None else float(text)
