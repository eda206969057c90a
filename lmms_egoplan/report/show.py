"""Print the scores of runs side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import typer
from rich.console import Console

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.result_table import result_table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_scores, with_samples
from lmms_egoplan.report.sections import panel_tables
from lmms_egoplan.report.terminal import (
    Form,
    Reports,
    print_details,
    print_formatted,
    print_results,
    print_scores,
    print_table,
    sections_of,
)
from lmms_egoplan.text import join_list

_MOST_NAMES = 8


def show_scores(
    runs: Sequence[Path],
    form: Form,
    names: Mapping[Path, str] = MappingProxyType({}),
    *,
    has_details: bool = False,
) -> None:
    """Print the table of results, with intervals if there are samples.

    Args:
        runs: Folders or results files of runs, or judged answers.
        form: ``text`` for the terminal, otherwise the form of the table.
        names: Names of the runs at or below these paths, which are read, too.
        has_details: Whether all scores are printed in place of the table.

    Raises:
        LmmsEgoplanError: A path has no results, or samples contradict the harness's own scores and
            the form is not ``text``.
    """
    read = read_scores(runs, BENCHMARKS, names)
    try:
        reports, has_samples = _checked_reports(read.runs)
    except LmmsEgoplanError as error:
        if form != "text":
            raise
        typer.echo(f"No intervals: {error}", err=True)
        reports = list(read_reports(read.runs, BENCHMARKS))
        has_samples = False
    if form != "text":
        print_formatted(sections_of(reports), form)
    elif has_details:
        print_scores(read.runs, reports, Console(), with_main=not has_samples)
        if has_samples:
            typer.echo()
            _print_details(reports)
    else:
        _print_results(read.runs, reports)
    for line in read.skipped:
        typer.echo(f"Skipped: {line}", err=True)
    if read.without:
        raise LmmsEgoplanError(
            f"no results in {', '.join(map(str, read.without))}; pass the --output_path "
            "of a finished run"
        )


def _print_results(runs: Sequence[Run], reports: Reports) -> None:
    """Print the table of results. Without any, print the scores of all other tasks."""
    result = result_table(sections_of(reports))
    if result is None:
        print_scores(runs, reports, Console())
        return
    print_results(result, Console())
    others = list(dict.fromkeys(task for run in runs for task in run.other_tasks))
    if others:
        typer.echo(f"Other tasks, shown by --details: {join_list(others, _MOST_NAMES)}")


def _print_details(reports: Reports) -> None:
    """Print the report's finding and scores of each benchmark, and the tables of panels."""
    print_details(sections_of(reports), Console())
    wide = Console(width=max(Console().width, 150))
    for _, part_report in reports:
        for table in panel_tables(part_report):
            print_table(table, wide)


def _checked_reports(runs: Sequence[Run]) -> tuple[Reports, bool]:
    """Return the reports of runs with their samples, and whether there are any samples.

    Raises:
        LmmsEgoplanError: a run's samples contradict the harness's own scores.
    """
    sampled_runs = [with_samples(run)[0] for run in runs]
    for run in sampled_runs:
        for task_run in run.tasks.values():
            check(run, task_run)
    has_samples = any(
        task_run.samples is not None for run in sampled_runs for task_run in run.tasks.values()
    )
    return list(read_reports(sampled_runs, BENCHMARKS)), has_samples
