"""``lmms-egoplan show``: the main scores of runs in the terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import read_reports
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_scores, with_samples
from lmms_egoplan.report.scores import check
from lmms_egoplan.report.summary import Reports, print_scores, print_summary, sections_of, short_table
from lmms_egoplan.report.tables import markdown_of


def show(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="The `--output_path` of runs of lmms-eval or lm-eval, folders with several of these at any depth, "
            "results files, or files that `lmms-egoplan judge` wrote.",
        ),
    ],
    form: Annotated[
        Literal["text", "md"],
        typer.Option("--format", help="`md` prints one Markdown table for a model card: score, interval, n."),
    ] = "text",
) -> None:
    """Print the main scores of runs, side by side.

    The scores are those in the harness's results files. Where samples lie beside these, what came out of each benchmark
    follows, with 95 % intervals, as in the report; no file is written. Runs of different versions of a task get tables
    of their own. The exit code is 1 where a path has no results, for example after a run that failed: lmms-eval itself
    ends with 0 then.

    Example: `lmms-egoplan show runs/qwen runs/llava`
    """
    read = read_scores(runs, BENCHMARKS)
    try:
        reports, has_samples = _checked_reports(read.runs)
    except LmmsEgoplanError as error:
        if form == "md":
            raise
        typer.echo(f"No intervals: {error}", err=True)
        reports, has_samples = list(read_reports(read.runs, BENCHMARKS)), False
    if form == "md":
        table = short_table(sections_of(reports))
        typer.echo(markdown_of(table) if table is not None else "No scores of the project's tasks.")
    else:
        print_scores(read.runs, reports, Console(), with_main=not has_samples)
    if form == "text" and has_samples:
        typer.echo()
        print_summary(sections_of(reports), Console())
    for line in read.skipped:
        typer.echo(f"Not read: {line}", err=True)
    if read.without:
        raise LmmsEgoplanError(f"no results in {', '.join(map(str, read.without))}")


def _checked_reports(runs: Sequence[Run]) -> tuple[Reports, bool]:
    """Return the reports of these runs with their samples, and true if there are any."""
    whole = [with_samples(run)[0] for run in runs]
    for run in whole:
        for task_run in run.tasks.values():
            check(run, task_run)
    has_samples = any(task_run.samples is not None for run in whole for task_run in run.tasks.values())
    return list(read_reports(whole, BENCHMARKS)), has_samples
