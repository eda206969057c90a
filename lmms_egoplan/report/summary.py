"""Make tables of the main scores for files, pages, terminals and model cards.

Each has its own columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Column as RichColumn
from rich.table import Table as RichTable
from rich.text import Text

from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report import tables
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.compact import compact_table
from lmms_egoplan.report.comparable_runs import ComparableRuns
from lmms_egoplan.report.document import DEMO_NOTE, Headline, Section
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.sections import scores_section
from lmms_egoplan.report.tables import Column, Table, clean, show

KEY = "summary"

# Largest width of a run's column in a terminal. Longer names and cells are wrapped.
_WIDEST = 26
_LOOKS: dict[str, Any] = {
    "box": box.SIMPLE_HEAD,
    "show_edge": False,
    "pad_edge": False,
    "collapse_padding": True,
}
Reports = Sequence[tuple[ComparableRuns, BenchmarkReport[Any]]]


@dataclass(frozen=True)
class Card:
    """The headlines of one task and protocol of a section, best first.

    Headlines that are not comparable come last.

    task: name of the task, or its protocol if the section has several protocols of the task.
    chance: score of random answers in the task; None if unknown.
    """

    section: Section
    task: str
    metric: str
    chance: float | None
    lines: tuple[Headline, ...]

    @property
    def compares(self) -> bool:
        """True if the card compares runs with the published scores.

        It is then of the section's first task, and a run is comparable.
        """
        is_first = self.lines[0].task == self.section.headlines[0].task
        return is_first and any(not line.apart and line.value is not None for line in self.lines)

    def not_compared(self, line: Headline) -> str:
        """Return "not compared", with the reasons unless the finding states them.

        "" for comparable scores.
        """
        if not line.apart or line.value is None:
            return ""
        reasons = "; ".join(line.apart)
        is_stated = any(reasons in sentence for sentence in self.section.finding)
        return "not compared" if is_stated else f"not compared: {reasons}"


def cards(sections: Iterable[Section]) -> Iterator[Card]:
    """Group the sections' headlines by task, metric and protocol, in order."""
    for section in sections:
        kinds: dict[tuple[str, str], dict[str, list[Headline]]] = {}
        for line in section.headlines:
            kinds.setdefault((line.task, line.metric), {}).setdefault(line.protocol, []).append(
                line
            )
        for (task, metric), protocols in kinds.items():
            for protocol, lines in protocols.items():
                chances = {line.chance for line in lines}
                chance = chances.pop() if len(chances) == 1 else None
                name = task if len(protocols) == 1 else protocol
                ordered = sorted(
                    lines,
                    key=lambda line: (line.value is None, bool(line.apart), -(line.value or 0)),
                )
                yield Card(section, name, metric, chance, tuple(ordered))


def demo_runs(sections: Iterable[Section]) -> list[str]:
    """List the runs with meaningless scores. If a run also has real scores, name the benchmarks."""
    lines = [line for section in sections for line in section.headlines]
    benchmarks: dict[str, dict[str, None]] = {}
    for line in lines:
        if line.is_demo:
            benchmarks.setdefault(line.run, {})[line.benchmark] = None
    real = {line.run for line in lines if not line.is_demo}
    return [
        f"{run} ({', '.join(of_run)})" if run in real else run for run, of_run in benchmarks.items()
    ]


def summary_table(sections: Sequence[Section]) -> tables.Table | None:
    """Make the table of all headlines with their coverage; None without headlines."""
    lines = [line for card in cards(sections) for line in card.lines]
    if not lines:
        return None
    columns = (
        Column("run", "Run"),
        Column("benchmark", "Benchmark"),
        Column("task", "Task"),
        Column("metric", "Score"),
        Column("value", "Value", decimals=3),
        Column("low", "Low", decimals=3),
        Column("high", "High", decimals=3),
        Column("no_interval", "No interval"),
        Column("rank", "Rank"),
        Column("questions", "Questions"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
        Column("why", "Not comparable"),
    )
    notes = [
        (
            "Low, high: 95 % interval. Rank: best and worst rank among comparable runs, by "
            "the intervals of their differences. Coverage: scored share of the official "
            "questions. If the questions are not the benchmark's, coverage is the scored "
            "share of the prepared questions."
        ),
    ]
    for line in lines:
        if line.truncated_of:
            notes.append(
                f"{line.run}, {line.task}: truncated is a share of {line.truncated_of:,} "
                "answers whose length is known."
            )
    return tables.table_of_runs(KEY, "Summary", columns, map(_numbers, lines), notes)


def short_table(sections: Sequence[Section]) -> tables.Table | None:
    """Make a table of scores for model cards.

    It has protocol, interval and number of questions. None without scores.
    """
    rows = [_texts(line) for card in cards(sections) for line in card.lines]
    demo = demo_runs(sections)
    notes = [f"{DEMO_NOTE} {', '.join(demo)}."] if demo else []
    notes += dict.fromkeys(
        f"{line.run}, {line.benchmark}: {'; '.join(line.apart)}."
        for section in sections
        for line in section.headlines
        if line.apart
    )
    if not rows:
        return None
    columns = (
        Column("run", "Model"),
        Column("benchmark", "Benchmark"),
        Column("protocol", "Protocol"),
        Column("score", "Score (95 % interval)"),
        Column("n", "n"),
        Column("coverage", "Coverage"),
    )
    table = tables.table_of_runs("card", "Scores with 95 % intervals", columns, rows, notes)
    return replace(table, rows=tuple(replace(row, is_ours=False) for row in table.rows), source="")


def number_table(sections: Sequence[Section]) -> tables.Table | None:
    """Make a table of scores for programs, with each number in its own column.

    None without scores.
    """
    rows = [
        _numbers(line)
        | {
            "score": line.value,
            "n": line.questions,
            "not_comparable": "; ".join(line.apart) or None,
        }
        for card in cards(sections)
        for line in card.lines
    ]
    if not rows:
        return None
    columns = (
        Column("run", "Model"),
        Column("benchmark", "Benchmark"),
        Column("task", "Task"),
        Column("protocol", "Protocol"),
        Column("metric", "Metric"),
        Column("score", "Score"),
        Column("low", "Low"),
        Column("high", "High"),
        Column("n", "n"),
        Column("coverage", "Coverage %"),
        Column("chance", "Chance"),
        Column("no_interval", "No interval"),
        Column("not_comparable", "Not comparable"),
    )
    return tables.table_of_runs("numbers", "Scores", columns, rows)


def card_table(card: Card) -> tables.Table:
    """Make a card's table for a terminal."""
    rows = [
        _texts(line)
        | {"score": "; ".join(filter(None, (score_text(line), card.not_compared(line))))}
        for line in card.lines
    ]
    title = f"{card.section.title}: {card.metric} ({card.task})"
    columns = (
        Column("run", "Run"),
        Column("score", "Score, 95 % interval"),
        Column("rank", "Rank"),
        Column("questions", "Questions", decimals=0),
        Column("covered", "Coverage", decimals=1),
    )
    return tables.table_of_runs("terminal", title, columns, rows)


def _numbers(line: Headline) -> dict[str, Any]:
    """Return a headline's values by column; None for empty texts."""
    low, high = line.interval or (None, None)
    return {
        **vars(line),
        **{"low": low, "high": high},
        "no_interval": line.no_interval or None,
        "rank": rank_text(line) or None,
        "coverage": in_percent(line.coverage),
        "truncated": in_percent(line.truncated),
        "why": "; ".join(line.apart) or None,
    }


def _texts(line: Headline) -> dict[str, Any]:
    """Return a headline's values by column, with scores and coverage as texts."""
    covered = None if line.coverage is None else tables.percent(line.coverage)
    texts = {"protocol": line.protocol or line.task, "score": score_text(line), "n": line.questions}
    return _numbers(line) | texts | {"coverage": covered, "covered": covered or "unknown"}


def other_tasks(runs: Sequence[Run]) -> tables.Table | None:
    """Make a table of other projects' tasks.

    Their metrics are numbers or short texts. None without such tasks.
    """
    with_other_tasks = [run for run in runs if run.other_tasks]
    if not with_other_tasks:
        return None
    blocks: dict[str, dict[str, dict[str, str]]] = {}
    for task in dict.fromkeys(task for run in with_other_tasks for task in run.other_tasks):
        metrics_of_runs = {}
        for run in with_other_tasks:
            if task in run.other_tasks:
                metrics_of_runs[run.name] = run.other_tasks[task].metrics
        blocks[tables.clean(task)] = _metric_lines(metrics_of_runs) or {"no metric": {}}
    return tables.side_by_side(
        "others", "Other tasks", [run.name for run in with_other_tasks], blocks
    )


def _metric_lines(metrics_of_runs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the texts of each metric that is a number or a text in a run, by run."""
    lines = {}
    for metric in dict.fromkeys(chain.from_iterable(metrics_of_runs.values())):
        values = {run: metrics.get(metric) for run, metrics in metrics_of_runs.items()}
        if not all(isinstance(value, dict | list | None) for value in values.values()):
            texts = {run: _text(value) for run, value in values.items()}
            lines[tables.clean(metric)] = texts
    return lines


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return tables.name_of(value) if isinstance(value, str) else tables.NOT_AVAILABLE
    return tables.number(value, 4 if isinstance(value, float) else None)


def model_card(
    sections: Sequence[Section], published: Sequence[Mapping[str, str]]
) -> tables.Table | None:
    """Make a table of the runs' scores in all tasks, above published rows.

    None for fewer than two benchmarks.

    Args:
        sections: the report's sections.
        published: rows with ``model``, scores by the key of the section, ``source`` and ``link``.
            Their scores are in the column of a section's first task with generated answers.
    """
    all_cards = [*cards(sections)]
    if len({card.section.key for card in all_cards}) < 2:
        return None
    columns = [tables.Column("model", "Model")]
    run_scores: dict[str, dict[str, str]] = {}
    # Key of a section -> column of its first task with generated answers.
    generated: dict[str, str] = {}
    for number, card in enumerate(all_cards):
        key = f"score_{number}"
        columns.append(tables.Column(key, f"{card.section.title}: {card.task}"))
        for line in card.lines:
            run_scores.setdefault(line.run, {})[key] = score_text(line)
        if all(line.is_generated for line in card.lines):
            generated.setdefault(card.section.key, key)
    keys = [column.key for column in columns[1:]]
    rows = []
    for run, scores_of_run in run_scores.items():
        cells = [scores_of_run.get(key) for key in keys]
        rows.append(tables.Row((run, *cells), is_ours=True))
    sources: dict[str, None] = {}
    for row in published:
        scores = {generated[key]: value for key, value in row.items() if key in generated and value}
        if len(scores) > 1:
            rows.append(tables.Row((row["model"], *(scores.get(key) for key in keys))))
            sources[f"{row['source']}: {row['link']}"] = None
    notes = []
    if sources:
        names = "; ".join(sources)
        notes.append(
            f"Published rows: {names}. They come from a public summary of the table, "
            "not from the paper itself. The summary does not state prompts, number of "
            "frames or judge, so use these rows only for orientation."
        )
    return tables.Table(
        "model_card", "All benchmarks", tuple(columns), tuple(rows), notes=tuple(notes)
    )


def score_text(line: Headline) -> str:
    """Format the score with its interval, or with the reason why there is none."""
    text = tables.with_interval(line.value, line.interval, line.decimals)
    has_reason = line.value is not None and line.interval is None
    return f"{text} (no interval: {line.no_interval})" if has_reason else text


def rank_text(line: Headline) -> str:
    """Format a rank as ``1 to 2 of 4``; "" without one."""
    if line.rank is None:
        return ""
    first, last = line.rank
    return f"{first if first == last else f'{first} to {last}'} of {line.ranked}"


def print_runs(runs: Sequence[Run], console: Console, benchmarks: Iterable[Benchmark]) -> None:
    """Print the scores of runs without their samples, see `print_scores`."""
    print_scores(runs, list(read_reports(runs, benchmarks)), console)


def print_scores(
    runs: Sequence[Run], reports: Reports, console: Console, *, with_main: bool = True
) -> None:
    """Print the times of the runs, and the scores of each benchmark and of all other tasks.

    A table has one column per run. If the columns do not fit the console, the rows are repeated for
    further runs. Versions of a task have separate tables.

    Args:
        runs: runs with or without samples.
        reports: reports of these runs.
        console: console to print to.
        with_main: see `BenchmarkReport.compact_table`.

    Raises:
        LmmsEgoplanError: a run's results do not have the form of the project's tasks.
    """
    tables = [
        table for report in reports for table in _compact_tables(*report, with_main=with_main)
    ]
    unsupported = other_tasks(runs)
    for run in runs:
        _print_line(f"{run.name}: {run.harness}, {run.time}", console)
    printed: set[str] = set()
    for table in [*tables, *([unsupported] if unsupported else [])]:
        _print_side_by_side(table, console)
        for note in table.notes:
            if note not in printed:
                _print_line(note, console)
        printed |= {*table.notes}


def sections_of(reports: Reports) -> list[Section]:
    """Return the reports' sections with only their scores."""
    return [part.section(scores_section(report)) for part, report in reports if report.tasks]


def print_summary(sections: Sequence[Section], console: Console) -> None:
    """Print each benchmark's finding and its scores with intervals."""
    for section in sections:
        for sentence in section.finding:
            _print_line(sentence, console)
    for card in cards(sections):
        print_table(card_table(card), console)
    demo = demo_runs(sections)
    if demo:
        _print_line(f"\n{DEMO_NOTE} {', '.join(demo)}.", console)


def print_table(table: Table, console: Console) -> None:
    """Print a table with its title."""
    _print_line(f"\n{table.title}", console)
    sides = zip(table.columns, table.numbers(), strict=True)
    heads = [
        RichColumn(
            column.title,
            overflow="fold",
            no_wrap=is_number,
            justify="right" if is_number else "left",
        )
        for column, is_number in sides
    ]
    printed = RichTable(*heads, **_LOOKS)
    for row in table.rows:
        cells = zip(row.values, table.columns, strict=True)
        printed.add_row(
            *(Text(clean(show(value, column.decimals, column.key))) for value, column in cells)
        )
    console.print(printed)


def _compact_tables(
    part: ComparableRuns, report: BenchmarkReport[Any], *, with_main: bool
) -> tuple[Table, ...]:
    if not report.tasks:
        return ()
    try:
        table = compact_table(report, with_main=with_main)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        folders = ", ".join(sorted({str(run.folder) for run in part.runs}))
        raise LmmsEgoplanError(
            f"{folders}: the results of {part.benchmark} cannot be read: {type(error).__name__}: "
            f"{error}. If they were edited, run the tasks again"
        ) from error
    return part.section(Section(part.benchmark, table.title, "", tables=(table,))).tables


def _print_side_by_side(table: Table, console: Console) -> None:
    labels, *names = (clean(column.title) for column in table.columns)
    rows = []
    for table_row in table.rows:
        rows.append([clean(str(value)) for value in table_row.values])
    first = max(len(row[0]) for row in rows)
    widths = []
    for index, name in enumerate(names, 1):
        cells = [name, *(row[index] for row in rows)]
        widths.append(min(_WIDEST, max(map(len, cells))))
    _print_line(f"\n{table.title}", console)
    for number, indices in enumerate(_column_groups(widths, console.width - first - 2)):
        part = RichTable(RichColumn(labels, width=first, overflow="fold"), **_LOOKS)
        for index in indices:
            part.add_column(
                Text(names[index]), width=widths[index], justify="right", overflow="fold"
            )
        rows_of_group = []
        for row in rows:
            rows_of_group.append((row[0], *(row[index + 1] for index in indices)))
        for filled in _filled(rows_of_group):
            part.add_row(*map(Text, filled))
        if number:
            console.print()
        console.print(part)


def _column_groups(widths: Sequence[int], available: int) -> Iterator[list[int]]:
    """Split the columns into groups that fit into the available width.

    Two blanks separate columns.
    """
    group: list[int] = []
    used = 0
    for index, width in enumerate(widths):
        if group and used + width + 2 > available:
            yield group
            group = []
            used = 0
        group.append(index)
        used += width + 2
    if group:
        yield group


def _filled(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows with a nonempty cell of a run, and the headings above them."""
    filled: list[tuple[str, ...]] = []
    for row in reversed(rows):
        is_heading = bool(filled) and filled[-1][0].startswith(" ") and not row[0].startswith(" ")
        if any(row[1:]) or is_heading:
            filled.append(row)
    return filled[::-1]


def _print_line(text: str, console: Console) -> None:
    console.print(Text(clean(text)), highlight=False)
