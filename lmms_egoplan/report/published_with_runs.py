"""A paper's table with the rows of one's own runs among its own."""

import math
from collections.abc import Mapping, Sequence

from lmms_egoplan.report.document import Column, Row, Table, Value, known
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
_APART_NOTE = "Own rows that are not over all official questions, or that the demo judge rated, are not marked best."


def published_with_runs(
    title: str,
    published: PublishedTable,
    own: Sequence[Mapping[str, Value]],
    extra: Sequence[Column] = (),
    notes: Sequence[str] = (),
    main: str | None = None,
) -> Table:
    """The published rows and one's own in one table, best first; in the paper's order where there are no own rows.

    Numbers have the paper's decimals. Equals stand in the order of the paper, own rows behind them; rows without the
    main score come last.

    Args:
        title: the table's, whose key is `published.stem`.
        own: by name of the column; those that a run has nothing for may be absent, NaN is nothing. ``compares`` is no
            column: where it is False, the row is never marked best (see `Row`), which a note tells.
        extra: columns behind the published ones, which own rows alone fill; without own rows they are left out.
        notes: they come before those of the data file.
        main: the score that rows are sorted by; the published table's own `main`, if None.

    Raises:
        ValueError: an own row lacks the label, or has a value for no column.
    """
    extra = tuple(extra) if own else ()
    columns = (*(_column(published, name) for name in published.columns), *extra)
    names = [column.key for column in columns]
    rows = [Row(_values(names, row)) for row in published.rows]
    for given in own:
        row = {name: value for name, value in given.items() if name != "compares"}
        if not row.get(published.label) or not row.keys() <= set(names):
            raise ValueError(f"{published.stem}: expected {published.label} and any of {', '.join(names)}, got {row}")
        rows.append(Row(_values(names, row), is_own=True, compares=bool(given.get("compares", True))))
    if own:
        rows = _sorted(rows, columns[names.index(main or published.main)], names)
    source = f"{published.source}, and the runs" if own else published.source
    apart = () if all(row.compares for row in rows) else (_APART_NOTE,)
    return Table(
        published.stem, title, columns, tuple(rows), source, (published.what, *notes, *apart, *published.notes)
    )


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
