"""Scores printed in a paper's tables: a folder with one CSV per table, described in ``tables.json``."""

import csv
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
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
    what: what its numbers are, in a sentence or two.
    label: the column that names a row; names may repeat.
    columns: in the paper's order, the label first.
    rows: in the paper's order, by column; numbers where the column has such, None where the cell is empty.
    printed: the same cells as texts, with the digits of the print.
    higher_is_better: of the columns that are scores.
    main: the score that a reader looks at first: the average or total where the table has one, else the first.
    decimals: of each column of numbers, as most of its cells are printed.
    notes: what a reader must know, oddities of the print among it.
    exceptions: numbers that do not come out of those they derive from: ``row``, ``column``, ``printed``, ``computed``.
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
    told = described[name]
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        printed = tuple(reader)
    columns = tuple(reader.fieldnames or ())
    decimals = {column: _decimals([row[column] for row in printed]) for column in columns}
    numbers = {column: places for column, places in decimals.items() if places is not None}
    return PublishedTable(
        stem=f"{benchmark}_{name}",
        source=f"{told['paper'].partition(':')[0]}, {told['table']}",
        what=told["what"],
        label=told["label"],
        columns=columns,
        rows=tuple({name: _cell(text, name in numbers) for name, text in row.items()} for row in printed),
        printed=printed,
        higher_is_better=told["higher_is_better"],
        main=told["derived"][0]["column"] if told["derived"] else told["scores"][0],
        decimals=numbers,
        notes=tuple(told["notes"]),
        exceptions=tuple(told["exceptions"]),
    )


def reference_of(table: PublishedTable, column: str | None = None, caveat: str = "") -> Reference:
    """The best score of a table, by `column` or the table's main one.

    Args:
        caveat: see `Reference`.
    """
    column = column or table.main
    best = max if table.higher_is_better.get(column, True) else min
    rows = [row for row in table.rows if isinstance(row[column], float)]
    top = best(rows, key=lambda row: row[column])
    source = table.source.rpartition(", ")[2]
    return Reference(str(top[table.label]), top[column], source, tuple(row[column] for row in rows), caveat)


def _decimals(texts: list[str]) -> int | None:
    """Digits behind the point that most numbers have; None if these are not numbers."""
    filled = [text for text in texts if text]
    if not filled or not all(map(_NUMBER.fullmatch, filled)):
        return None
    return Counter(len(text.partition(".")[2]) for text in filled).most_common(1)[0][0]


def _cell(text: str, is_number: bool) -> Cell:
    if not text:
        return None
    return float(text) if is_number else text
