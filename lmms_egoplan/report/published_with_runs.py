"""A paper's table with the rows of one's own runs among its own."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.report.document import STANDS, Column, Row, Table, Value, known
from lmms_egoplan.report.published import PublishedTable

# Parts of the data files' column names, as heads say them; longer ones first.
_SAID = {
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
_STANDS_NOTE = (
    "Would stand: the best and the worst place that the 95 % interval leaves among the published rows. Without an "
    "interval there is none."
)


def published_with_runs(
    title: str,
    published: PublishedTable,
    own: Sequence[Mapping[str, Value]],
    extra: Sequence[Column] = (),
    notes: Sequence[str] = (),
    main: str | None = None,
) -> Table:
    """One's own rows above the published ones, each best first; in the paper's order where there are no own rows.

    Numbers have the paper's decimals. Equals stand in the order of the paper; rows without the main score come last. A
    column tells where own rows with an interval of the main score, ``low`` and ``high``, would stand among the others.

    Args:
        title: the table's, whose key is `published.stem`.
        own: by name of the column; those that a run has nothing for may be absent, NaN is nothing. ``apart`` is no
            column: why the row does not compare, one reason or several; empty where it does (see `Row.why`).
        extra: columns behind the published ones, which own rows alone fill; without own rows they are left out.
        notes: they come before those of the data file.
        main: the score that rows are sorted by; the published table's own `main`, if None.

    Raises:
        ValueError: an own row lacks the label, or has a value for no column.
    """
    extra = tuple(extra) if own else ()
    columns = (*(_column(published, name) for name in published.columns), *extra)
    names = [column.key for column in columns]
    main = main or published.main
    rows = [Row(_values(names, row)) for row in published.rows]
    own_rows, stands = [], {}
    for given in own:
        row = {name: value for name, value in given.items() if name != "apart"}
        if not row.get(published.label) or not row.keys() <= set(names):
            raise ValueError(f"{published.stem}: expected {published.label} and any of {', '.join(names)}, got {row}")
        apart = given.get("apart") or ()
        why = apart if isinstance(apart, str) else "; ".join(apart)
        own_rows.append(Row(_values(names, row), is_own=True, why=why))
        if not why and (place := _place(published, main, row)):
            stands[own_rows[-1]] = place
    if own:
        by = columns[names.index(main)]
        rows = [*_sorted(own_rows, by, names), *_sorted(rows, by, names)]
    if stands:
        place = names.index(main) + 1
        columns = (*columns[:place], Column(STANDS, "Would stand"), *columns[place:])
        rows = [replace(row, values=(*row.values[:place], stands.get(row), *row.values[place:])) for row in rows]
    source = f"{published.source}, and the runs" if own else published.source
    told = (published.what, *notes, *((_STANDS_NOTE,) if stands else ()), *published.notes)
    return Table(published.stem, title, columns, tuple(rows), source, told, "published")


def _place(published: PublishedTable, main: str, row: Mapping[str, Value]) -> str | None:
    """Where a row would stand among the published ones; None without an interval of the main score."""
    low, high = known(row.get("low")), known(row.get("high"))
    scores = [float(other[main]) for other in published.rows if isinstance(other[main], (int, float))]
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or known(row.get(main)) is None:
        return None
    return place_among((float(low), float(high)), scores, published.higher_is_better.get(main, True))


def place_among(interval: tuple[float, float], scores: Sequence[float], higher_is_better: bool = True) -> str:
    """The best and the worst place that an interval leaves among scores, in words.

    >>> place_among((30.0, 38.0), [40, 37.98, 31, 20]), place_among((50.0, 60.0), [40, 20])
    ('2 to 4 of 5', '1 of 3')
    """
    worst, best = interval if higher_is_better else interval[::-1]
    sign = 1 if higher_is_better else -1
    first = 1 + sum(sign * score > sign * best for score in scores)
    last = 1 + sum(sign * score > sign * worst for score in scores)
    places = str(first) if first == last else f"{first} to {last}"
    return f"{places} of {len(scores) + 1}"


def _column(published: PublishedTable, name: str) -> Column:
    return Column(name, _title(name), published.decimals.get(name), published.higher_is_better.get(name))


def _title(name: str) -> str:
    for part, said in _SAID.items():
        name = name.replace(part, said)
    text = " ".join(_WORDS.get(word, word) for word in name.split("_"))
    return text[0].upper() + text[1:]


def _values(names: Sequence[str], row: Mapping[str, Value]) -> tuple[Value, ...]:
    return tuple(known(row.get(name)) for name in names)


def _sorted(rows: Sequence[Row], column: Column, names: Sequence[str]) -> list[Row]:
    """Best first, as numbers are shown."""
    place, sign = names.index(column.key), -1 if column.higher_is_better else 1

    def rank(row: Row) -> float:
        value = row.values[place]
        return math.inf if not isinstance(value, (int, float)) else sign * round(float(value), column.decimals or 0)

    return sorted(rows, key=rank)
