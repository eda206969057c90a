"""Print the table at the end of a run: one row per main score."""

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

    The first score of a benchmark has its title, and others the names of their tasks.

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
        chosen = [line for line in section.headlines if line.task in asked]
        for position, line in enumerate(chosen or section.headlines):
            name = section.title if position == 0 else f"  {line.task}"
            table.add_row(*(Text(clean(cell)) for cell in (name, *_cells(line, asked))))
    console.print(table)


def _cells(line: Headline, asked: Mapping[str, int]) -> tuple[str, str, str, str]:
    """Return score, interval, number of questions, and remark."""
    interval = "none"
    if line.interval is not None:
        low, high = line.interval
        interval = f"{number(low, line.decimals)} to {number(high, line.decimals)}"
    score = NOT_AVAILABLE if line.value is None else number(line.value, line.decimals)
    questions = "" if line.questions is None else f"{line.questions:,}"
    return score, interval, questions, "; ".join(_remarks(line, asked))


def _remarks(line: Headline, asked: Mapping[str, int]) -> list[str]:
    remarks = [*line.apart]
    if line.no_interval:
        remarks.append(f"no interval: {line.no_interval}")
    num_asked = asked.get(line.task, 0)
    missing = num_asked - (line.questions or 0)
    if missing > 0:
        remarks.append(f"{missing:,} without a score")
    if line.truncated:
        remarks.append(f"{line.truncated * (line.truncated_of or num_asked):,.0f} truncated")
    return remarks
