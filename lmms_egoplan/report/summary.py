"""Make tables of all main scores, for files and terminals."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lmms_egoplan.report import tables
from lmms_egoplan.report.document import Headline, Section
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.tables import Column

KEY = "summary"


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
    lines = [line for section in sections for line in section.headlines]
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
        Column("why", "Not comparable with published scores"),
    )
    notes = [
        (
            "Low, high: 95 % interval. Rank: best and worst rank under the same protocol, by "
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


def section_table(section: Section) -> tables.Table:
    """Make the table of all scores of a section for a terminal."""
    lines = _in_order(section.headlines)
    rows = []
    for line in lines:
        score = tables.show(line.value, line.decimals)
        interval = ""
        if line.interval is not None:
            low, high = (tables.show(end, line.decimals) for end in line.interval)
            interval = f"{low}\u2013{high}"
        coverage = "unknown" if line.coverage is None else tables.percent(line.coverage)
        rows.append(
            _numbers(line)
            | {
                "name": _name(line, lines),
                "score": score,
                "interval": interval,
                "covered": coverage,
            }
        )
    columns = (
        Column("run", "Run"),
        Column("name", "Task"),
        Column("score", "Score"),
        Column("interval", "95\u202f% interval"),
        Column("rank", "Rank"),
        Column("questions", "Questions", decimals=0),
        Column("covered", "Coverage", decimals=1),
    )
    title = f"{section.title}: {section.headlines[0].metric}"
    return tables.table_of_runs("terminal", title, columns, rows, tuple(_remarks(lines)))


def _in_order(lines: Sequence[Headline]) -> list[Headline]:
    """Sort scores by task and protocol, in the order of their first use, then best first."""
    groups: dict[tuple[str, str], list[Headline]] = {}
    for line in lines:
        groups.setdefault((line.task, line.protocol), []).append(line)
    in_order = []
    for group in groups.values():
        in_order += sorted(group, key=lambda line: (line.value is None, -(line.value or 0)))
    return in_order


def _name(line: Headline, lines: Sequence[Headline]) -> str:
    """Return the name of the task, or its protocol if it has several."""
    protocols = {other.protocol for other in lines if other.task == line.task}
    return line.task if len(protocols) == 1 else line.protocol


def _remarks(lines: Sequence[Headline]) -> Iterator[str]:
    """Say which scores are not comparable with published ones or have no interval, and why."""
    runs: dict[str, dict[str, None]] = {}
    for line in lines:
        if line.value is None:
            continue
        problems = [f"Not comparable with published scores ({reason})" for reason in line.apart]
        if line.no_interval:
            problems.append(f"No interval ({line.no_interval})")
        for problem in problems:
            runs.setdefault(problem, {})[line.run] = None
    everyone = {line.run for line in lines if line.value is not None}
    for problem, names in runs.items():
        who = "all runs" if names.keys() == everyone else ", ".join(names)
        yield f"{problem}: {who}."


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


def rank_text(line: Headline) -> str:
    """Format a rank as ``1 to 2 of 4``; "" without one."""
    if line.rank is None:
        return ""
    first, last = line.rank
    return f"{first if first == last else f'{first} to {last}'} of {line.ranked}"
