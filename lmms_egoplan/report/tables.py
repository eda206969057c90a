"""Tables and their columns, and formatting as text, CSV, Markdown and LaTeX."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Literal, final

from lmms_egoplan.text import csv_text, percent

Value = float | int | str | None
WOULD_RANK = "would_stand"
"""The key of the column with the rank of an own row among the published rows."""

NOT_AVAILABLE = "n/a"
_WHY = "why"
"""The key of the column with the reasons why a row is not comparable, separated by "; "."""

SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
"""The digits of footnotes' numbers."""

_P_VALUES = ("p_value", "p_holm")
_COVERAGE = "coverage"
_PATH = re.compile(r"\.{0,2}/|~|[A-Za-z]:[\\/]|\\\\")
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_OWN = "▸ "
_MARKS = {"best": "**{}**", "second": "<u>{}</u>", None: "{}"}
_LATEX_OWN = r"$\triangleright$ "
_LATEX_MARKS = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}", None: "{}"}
# Without braces, a row that begins with "[" or "*" would be an argument of the previous line's end.
# A zero character separates hyphens, which LaTeX would join.
_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "`": r"\textasciigrave{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': "''",
        "[": "{[}",
        "]": "{]}",
        "*": "{*}",
        "\u2212": "$-$",
        "\u2248": r"$\approx$",
        **{
            sign: rf"\textsuperscript{{{text}}}"
            for sign, text in zip(SUPERSCRIPTS, "0123456789", strict=True)
        },
        "\u00b1": r"$\pm$",
        "\u00d7": r"$\times$",
        "\u2264": r"$\leq$",
        "\u2265": r"$\geq$",
        "\u2192": r"$\rightarrow$",
        "\u00b7": r"$\cdot$",
        "\u00b0": r"$^\circ$",
        "\u2026": r"\ldots{}",
        "\0": "{}",
        "\u2013": "--",
        "\u2014": "---",
        "\u00a0": "~",
        "\u202f": r"\,",
        "\u2009": r"\,",
    }
)


def known(value: Value) -> Value:
    """Return a value; None for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        key: name in the CSV file.
        title: heading.
        decimals: number of decimals; None for texts and counts.
        higher_is_better: true or false to mark the best and second best value; None if no value is
            better than another.
        end_of: for an end of a 95 % interval, the key of the column with the value; "" for other
            columns. The low end comes first. A page prints both ends below the value.
        note: explanation below the table, if the column has a value (`filled`).
        is_condition: true for what a row's numbers depend on, such as the judge or the coverage.
            Readers see it once if it is equal in all rows (`condensed`).
    """

    key: str
    title: str
    decimals: int | None = None
    higher_is_better: bool | None = None
    end_of: str = ""
    note: str = ""
    is_condition: bool = False


def interval_columns(
    of: str, decimals: int | None = None, *, label: str = "", prefix: str = ""
) -> tuple[Column, Column]:
    """Make the columns for the ends of the 95 % intervals of another column's values.

    Args:
        of: key of the column with the values.
        decimals: number of decimals.
        label: text after "Low" and "High" in the headings; "" for none.
        prefix: start of the columns' keys, before ``low`` and ``high``.
    """
    end = f" {label}" if label else ""
    return (
        Column(f"{prefix}low", f"Low{end}", decimals, end_of=of),
        Column(f"{prefix}high", f"High{end}", decimals, end_of=of),
    )


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        values: one value per column; None for missing values, which are never printed as numbers.
        is_ours: true for reported runs, false for a paper's rows.
        why: reason why the row is not comparable with other rows; "" if it is. Rows that are not
            comparable are never marked best or second best, and are in a separate table
            (`Table.parted`).
    """

    values: tuple[Value, ...]
    is_ours: bool = False
    why: str = ""


@final
@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        key: stem of its files, unique in the report.
        title: title above the table.
        columns: the columns.
        rows: the rows, with one value per column.
        source: paper and table of the numbers; "" if they are only of runs.
        notes: remarks for comparing the rows.
        role: position in the section. ``published`` has a paper's rows, or the runs that are not
            comparable with them. ``pairs`` compares runs. ``scores`` has other scores of runs.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    source: str = ""
    notes: tuple[str, ...] = ()
    role: Literal["scores", "published", "pairs"] = "scores"

    @property
    def has_own(self) -> bool:
        """True if a row is of a run."""
        return any(row.is_ours for row in self.rows)

    @property
    def is_mixed(self) -> bool:
        """True if some rows are of runs and others are not."""
        return len({row.is_ours for row in self.rows}) > 1

    def parted(self) -> "list[Table]":
        """Split off the rows that are not comparable with the published ones into a second table.

        Its last column has the reasons.
        """
        incomparable = [row for row in self.rows if row.why]
        if not incomparable:
            return [self]
        comparable = [row for row in self.rows if not row.why]
        return [replace(self, rows=tuple(comparable)), self._not_comparable(incomparable)]

    def _not_comparable(self, rows: Sequence[Row]) -> "Table":
        """Make a table of rows that are not comparable, without their rank."""
        kept = []
        for index, column in enumerate(self.columns):
            if column.key != WOULD_RANK:
                kept.append(index)
        columns = [replace(self.columns[index], higher_is_better=None) for index in kept]
        rows_with_reasons = []
        for row in rows:
            values = [row.values[index] for index in kept]
            rows_with_reasons.append(Row((*values, row.why), is_ours=row.is_ours))
        is_acronym = self.title[:2].isupper()
        title = self.title if is_acronym else self.title[0].lower() + self.title[1:]
        return Table(
            f"{self.key}_apart",
            f"Not comparable: {title}",
            (*columns, Column(_WHY, "Not comparable with the published rows")),
            tuple(rows_with_reasons),
            role="published",
        )

    def intervals(self) -> dict[int, tuple[int, int]]:
        """Return the indices of the ends of each interval, by the index of the value's column."""
        keys = [column.key for column in self.columns]
        ends: dict[str, list[int]] = {}
        for index, column in enumerate(self.columns):
            if column.end_of in keys:
                ends.setdefault(column.end_of, []).append(index)
        intervals = {}
        for key, indices in ends.items():
            if len(indices) == 2:
                low, high = indices
                intervals[keys.index(key)] = (low, high)
        return intervals

    def numbers(self) -> list[bool]:
        """Return true for each column with numbers."""
        numbers = []
        for index, column in enumerate(self.columns):
            has_number = any(isinstance(row.values[index], (int, float)) for row in self.rows)
            numbers.append(has_number or column.decimals is not None)
        return numbers

    def marks(self) -> dict[tuple[int, int], Literal["best", "second"]]:
        """Mark the best and second best value of each column, by (row, column).

        Equal values share a mark. Values are rounded to the column's decimals. Only comparable rows
        count. A column with a single value has no marks.
        """
        marks: dict[tuple[int, int], Literal["best", "second"]] = {}
        for position, column in enumerate(self.columns):
            if column.higher_is_better is None:
                continue
            printed: dict[int, float] = {}
            for index, row in enumerate(self.rows):
                value = row.values[position]
                if not row.why and isinstance(value, (int, float)):
                    printed[index] = round(float(value), column.decimals or 0)
            if len(printed) < 2:
                continue
            best, *worse = sorted(set(printed.values()), reverse=column.higher_is_better)
            for index, score in printed.items():
                if score == best:
                    marks[index, position] = "best"
                elif score in worse[:1]:
                    marks[index, position] = "second"
        return marks


def filled(table: Table) -> Table:
    """Drop rows and columns without a value, and explain the other columns.

    A row has a value if one of its cells after its name is filled. The name is the first column; in
    tables without published rows, all texts before the first column with numbers. Reasons why there
    is no number are values. A note names the runs' rows that are dropped. The notes of the kept
    columns (`Column.note`) follow those of the table.
    """
    num_names = _num_names(table)
    rows = []
    dropped = []
    for row in table.rows:
        if any(_is_filled(value) for value in row.values[num_names:]):
            rows.append(row)
        elif row.is_ours:
            dropped.append(", ".join(str(value) for value in row.values[:num_names] if value))
    kept = []
    for index in range(len(table.columns)):
        if any(_is_filled(row.values[index]) for row in rows):
            kept.append(index)
    notes = list(table.notes)
    for index in kept:
        notes.append(table.columns[index].note)
    if dropped:
        notes.append(f"No values: {'; '.join(dropped)}.")
    notes = [note for note in dict.fromkeys(notes) if note]
    return replace(_with_columns(table, rows, kept), notes=tuple(notes))


def _num_names(table: Table) -> int:
    """Return the number of columns with the names of the rows."""
    numbers = table.numbers()
    if table.role == "published" or True not in numbers:
        return 1
    return max(1, numbers.index(True))


def _is_filled(value: Value) -> bool:
    return known(value) not in (None, "")


def _with_columns(table: Table, rows: Iterable[Row], kept: Sequence[int]) -> Table:
    """Return a table with other rows, and only the columns at these positions."""
    columns = tuple(table.columns[index] for index in kept)
    new_rows = []
    for row in rows:
        new_rows.append(replace(row, values=tuple(row.values[index] for index in kept)))
    return replace(table, columns=columns, rows=tuple(new_rows))


def condensed(table: Table) -> Table:
    """Return a table for readers: conditions and reasons that rows share are in notes, stated once.

    Conditions (`Column.is_condition`) are moved to notes if all rows share them, or if they depend
    only on the run. Published rows may lack them.
    """
    notes = []
    in_all_rows = []
    in_all_runs = []
    kept = []
    for index, column in enumerate(table.columns):
        if column.key == _WHY:
            notes.append(f"{column.title}: {_with_names(_reasons(table, index), table)}.")
            continue
        names_by_value = _names_by_condition(table, index)
        if not names_by_value:
            kept.append(index)
        elif len(names_by_value) > 1:
            notes.append(f"{column.title}: {_with_names(names_by_value, table)}.")
        elif all(_is_filled(row.values[index]) for row in table.rows):
            in_all_rows.append(f"{column.title} = {next(iter(names_by_value))}")
        else:
            in_all_runs.append(f"{column.title} = {next(iter(names_by_value))}")
    if in_all_rows:
        notes.append(f"In all rows: {'; '.join(in_all_rows)}.")
    if in_all_runs:
        notes.append(f"In all rows of runs: {'; '.join(in_all_runs)}.")
    return replace(_with_columns(table, table.rows, kept), notes=(*notes, *table.notes))


def _names_by_condition(table: Table, index: int) -> dict[str, list[str]]:
    """Return the names of the runs with each value of a condition.

    Empty if the rows do not share the condition, and if it saves nothing: a single row, or a
    different run in each row.
    """
    column = table.columns[index]
    if not column.is_condition or index == 0 or len(table.rows) == 1:
        return {}
    name_index = _name_index(table)
    values_by_name: dict[str, set[str]] = {}
    names_by_value: dict[str, list[str]] = {}
    num_values = 0
    for row in table.rows:
        value = row.values[index]
        if _is_filled(value):
            text = show(value, column.decimals, column.key)
            name = str(row.values[name_index])
            values_by_name.setdefault(name, set()).add(text)
            names_by_value.setdefault(text, []).append(name)
            num_values += 1
        elif row.is_ours:
            return {}
    is_of_run = all(len(values) == 1 for values in values_by_name.values())
    saves = num_values > len(values_by_name) and num_values == len(table.rows)
    if len(names_by_value) == 1 or (is_of_run and saves):
        return names_by_value
    return {}


def _name_index(table: Table) -> int:
    """Return the position of the column with the names of the runs, else that of the first one."""
    for index, column in enumerate(table.columns):
        if column.key in ("run", "model"):
            return index
    return 0


def _reasons(table: Table, index: int) -> dict[str, list[str]]:
    """Return the names of the rows with each reason."""
    names_by_reason: dict[str, list[str]] = {}
    for row in table.rows:
        for reason in filter(None, str(row.values[index] or "").split("; ")):
            names_by_reason.setdefault(reason, []).append(str(row.values[_name_index(table)]))
    return names_by_reason


def _with_names(names_by_text: Mapping[str, Sequence[str]], table: Table) -> str:
    """Join texts, each with the names of its rows."""
    texts = []
    for text, names in names_by_text.items():
        is_everywhere = len(names) == len(table.rows)
        who = "all rows" if is_everywhere else ", ".join(dict.fromkeys(names))
        texts.append(f"{text} ({who})")
    return "; ".join(texts)


def share_notes(tables: Iterable[Table]) -> tuple[list[Table], tuple[str, ...]]:
    """Move the notes that several tables have out of them.

    Returns:
        The tables, and the notes of several tables, each once.
    """
    tables = list(tables)
    counts = Counter(note for table in tables for note in table.notes)
    shared = tuple(note for note, count in counts.items() if count > 1)
    with_own_notes = []
    for table in tables:
        own = tuple(note for note in table.notes if note not in shared)
        with_own_notes.append(replace(table, notes=own))
    return with_own_notes, shared


def table_of_runs(
    key: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, Value]],
    notes: Sequence[str] = (),
) -> Table:
    """Make a table of runs. Each row maps column keys to values."""
    table_rows = []
    for row in rows:
        values = tuple(row.get(column.key) for column in columns)
        table_rows.append(Row(values, is_ours=True))
    return Table(key, title, tuple(columns), tuple(table_rows), notes=tuple(notes))


def side_by_side(
    key: str,
    title: str,
    names: Sequence[str],
    blocks: Mapping[str, Mapping[str, Mapping[str, str]]],
    notes: Sequence[str] = (),
) -> Table:
    """Make a table of measures with one column per run.

    Args:
        key: key of the table.
        title: title of the table.
        names: names of the runs.
        blocks: for each heading ("" for none), cells by measure and run. A measure whose cells are
            empty is omitted.
        notes: notes of the table.
    """
    columns = [Column("measure", "")]
    for number, name in enumerate(names, 1):
        columns.append(Column(f"run_{number}", name))
    rows = []
    for heading, lines in blocks.items():
        if heading:
            rows.append(Row((heading, *("" for _ in names)), is_ours=True))
        indent = "  " if heading else ""
        for label, cells in lines.items():
            if any(cells.values()) or not cells:
                texts = [cells.get(name, "") for name in names]
                rows.append(Row((indent + label, *texts), is_ours=True))
    return Table(key, title, tuple(columns), tuple(rows), notes=tuple(notes))


def show(value: Value, decimals: int | None, key: str = "") -> str:
    """Format a value of a table, in the column with this key. None and NaN become an en dash.

    p-values and coverages are never rounded to 0, coverages are never rounded to 100, and there is
    no negative 0.
    """
    if isinstance(value, str):
        return value
    if value is None or known(value) is None:
        return "\u2013"
    if isinstance(value, int) and not decimals:
        return f"{value:,}".replace("-", "\u2212")
    text = f"{value:g}" if decimals is None else f"{value:.{decimals}f}"
    if key == _COVERAGE and 0 < value < 100 and float(text) in (0, 100):
        text = _bound_of_coverage(value, decimals or 0)
    elif key in _P_VALUES and value > 0 and decimals is not None and not float(text):
        text = f"<{10**-decimals:.{decimals}f}"
    elif float(text):
        text = text.replace("-", "\u2212")
    else:
        text = text.removeprefix("-")
    return text


def _bound_of_coverage(value: float, decimals: int) -> str:
    """Format a coverage that would be rounded to 0 or 100 as lower or higher than the next number.

    >>> _bound_of_coverage(0.04, 1), _bound_of_coverage(99.97, 1)
    ('<0.1', '>99.9')
    """
    step = 10**-decimals
    return f"<{step:.{decimals}f}" if value < 50 else f">{100 - step:.{decimals}f}"


def with_interval(value: Value, interval: tuple[float, float] | None, decimals: int) -> str:
    """Format a score with its 95 % interval in one cell.

    >>> with_interval(41.517, (39.84, 43.2), 1), with_interval(41.517, None, 1)
    ('41.5 (39.8 to 43.2)', '41.5')
    """
    text = show(value, decimals)
    if interval is None:
        return text
    low, high = interval
    return f"{text} ({show(low, decimals)} to {show(high, decimals)})"


def number(value: float | None, decimals: int | None = None) -> str:
    """Format a number; ``n/a`` for None, NaN and infinities."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    return show(value, decimals)


def share(value: float | None) -> str:
    """Format a fraction as per cent. Only exactly 0 and 1 become "0%" and "100%"."""
    if value is None or not math.isfinite(value):
        return NOT_AVAILABLE
    return percent(value).replace("\u202f", "")


def scored(value: float | None, decimals: int, coverage: float | None) -> str:
    """Format a score with its coverage in parentheses."""
    return f"{number(value, decimals)} ({share(coverage)})"


def name_of(value: Any) -> str:
    """Format a metric that is a text, such as a judge's name. For paths, use only the last part."""
    if not isinstance(value, str) or not value.strip():
        return NOT_AVAILABLE
    names = []
    for part in value.split(","):
        name = clean(part.strip())
        if _PATH.match(name):
            name = PurePath(name.replace("\\", "/")).name
        names.append(name)
    return ", ".join(names)


def clean(text: str) -> str:
    """Make a text printable.

    Control characters become their pictures, and halves of surrogate pairs U+FFFD.
    """
    return _UNSHOWN.sub(_picture, text.replace("\r\n", "\n"))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def csv_of(table: Table, *, with_own: bool = True) -> str:
    """Format a table as CSV, with all digits and empty fields for missing values.

    Args:
        table: the table.
        with_own: true for a last column, ``own``, that is true for rows of runs.
    """
    header: list[Value] = [column.key for column in table.columns]
    if with_own:
        header.append("own")
    rows = [header]
    for row in table.rows:
        cells = [clean(value) if isinstance(value, str) else known(value) for value in row.values]
        if with_own:
            cells.append(row.is_ours)
        rows.append(cells)
    return csv_text(rows)


def markdown_of(table: Table) -> str:
    """Format a table as Markdown, with title and notes, see `condensed`.

    Best values are bold, second best underlined.
    """
    table = condensed(table)
    lines = [f"**{_plain(table.title)}**", ""]
    lines.append(_line(_plain(column.title) for column in table.columns))
    lines.append(_line("---:" if is_number else "---" for is_number in table.numbers()))
    lines += map(_line, _cells(table, _plain, _MARKS, _OWN))
    remarks = [table.source, *table.notes]
    if table.is_mixed:
        remarks.append(f"{_OWN.strip()}: own run.")
    lines.append("")
    lines += (f"{_plain(text)}  " for text in remarks if text)
    lines.append("")
    return "\n".join(lines)


def latex_of(table: Table) -> str:
    """Format a table for LaTeX with the package booktabs, with title and notes.

    Best values are bold, second best underlined. LaTeX's special characters and common signs are
    escaped. Letters of other scripts stay, and need XeLaTeX or LuaLaTeX.
    """
    alignment = "".join("r" if is_number else "l" for is_number in table.numbers())
    header = " & ".join(_latex(column.title) for column in table.columns)
    lines = [
        "% Needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        f"\\caption{{{_latex(table.title)}}}",
        f"\\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        header + r" \\",
        r"\midrule",
    ]
    for cells in _cells(table, _latex, _LATEX_MARKS, _LATEX_OWN):
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", f"\\label{{tab:{table.key}}}"]
    remarks = [_latex(text) for text in (table.source, *table.notes) if text]
    if table.is_mixed:
        remarks.append(f"{_LATEX_OWN.strip()}: own run.")
    lines += (f"\\par\\footnotesize {text}" for text in remarks)
    lines += [r"\end{table}", ""]
    return "\n".join(lines)


def _cells(
    table: Table, escape: Callable[[str], str], forms: Mapping[str | None, str], prefix: str
) -> Iterator[Sequence[str]]:
    """Yield the formatted cells of each row.

    Args:
        table: the table.
        escape: function that escapes special characters.
        forms: a format for each mark.
        prefix: mark of rows of runs, if there are also others.
    """
    marks = table.marks()
    for index, row in enumerate(table.rows):
        cells = []
        for position, (value, column) in enumerate(zip(row.values, table.columns, strict=True)):
            text = escape(show(value, column.decimals, column.key))
            cells.append(forms[marks.get((index, position))].format(text))
        if row.is_ours and table.is_mixed:
            cells[0] = prefix + cells[0]
        yield cells


def _latex(text: str) -> str:
    """Format a text as one line for LaTeX."""
    return " ".join(clean(text).split()).replace("--", "-\0-").translate(_LATEX)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Format a text as one line for a Markdown table."""
    return (
        " ".join(clean(text).split())
        .replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("*", "\\*")
        .replace("<", "&lt;")
    )
