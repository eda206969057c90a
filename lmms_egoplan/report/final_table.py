"""Print the table at the end of a run: one row per benchmark."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lmms_egoplan.report.document import Headline, Section
from lmms_egoplan.report.tables import NOT_AVAILABLE, clean, number


def print_final_table(
    sections: Sequence[Section], asked: Mapping[str, int], console: Console
) -> None:
    """Print the scores of one run with their intervals, numbers of questions and remarks.

    A row has the main score of a benchmark. Its other scores are remarks.

    Args:
        sections: The sections of a report of one run.
        asked: Number of questions of each task and group that was chosen. Other scores, such as
            those of parts of a group, are left to the report.
        console: The console to print to.
    """
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("Benchmark", no_wrap=True)
    table.add_column("Score", no_wrap=True, justify="right")
    table.add_column("95 % interval", no_wrap=True, justify="right")
    table.add_column("Questions", no_wrap=True, justify="right")
    table.add_column("Remark")
    for section in sections:
        lines = [line for line in section.headlines if line.task in asked] or section.headlines
        lines = sorted(lines, key=lambda line: not line.is_main)
        if lines:
            cells = (section.title, *_cells(lines, asked))
            table.add_row(*(Text(clean(cell)) for cell in cells))
    console.print(table)


def _cells(lines: Sequence[Headline], asked: Mapping[str, int]) -> tuple[str, str, str, str]:
    """Return score, interval and number of questions of the first score, and the remarks on all."""
    first = lines[0]
    interval = "none"
    if first.interval is not None:
        low, high = first.interval
        interval = f"{number(low, first.decimals)} to {number(high, first.decimals)}"
    questions = "" if first.questions is None else f"{first.questions:,}"
    remarks = [*first.apart, *_remarks(first, asked)]
    for line in lines[1:]:
        details = [remark for remark in line.apart if remark not in first.apart]
        details += _remarks(line, asked)
        remark = f"{line.task}: {_score(line)}"
        if details:
            remark += f" ({', '.join(details)})"
        remarks.append(remark)
    return _score(first), interval, questions, "; ".join(remarks)


def _score(line: Headline) -> str:
    return NOT_AVAILABLE if line.value is None else number(line.value, line.decimals)


def _remarks(line: Headline, asked: Mapping[str, int]) -> list[str]:
    """Return what makes a score doubtful, besides the conditions of its run."""
    remarks = []
    if line.no_interval:
        remarks.append(f"no interval: {line.no_interval}")
    num_asked = asked.get(line.task, 0)
    missing = num_asked - (line.questions or 0)
    if missing > 0:
        remarks.append(f"{missing:,} without a score")
    if line.truncated:
        remarks.append(f"{line.truncated * (line.truncated_of or num_asked):,.0f} truncated")
    return remarks
