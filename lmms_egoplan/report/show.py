"""Print the scores of runs side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import typer
from rich.console import Console

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.result_table import result_table
from lmms_egoplan.report.run import Run, TaskRun
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
        LmmsEgoplanError: A path has no results, or samples contradict the harness's own scores.
            These scores are missing in the table, which is printed before.
    """
    read = read_scores(runs, BENCHMARKS, names)
    checked, problems = _checked(read.runs)
    reports = list(read_reports(checked, BENCHMARKS))
    has_samples = any(
        task_run.samples is not None for run in checked for task_run in run.tasks.values()
    )
    if form != "text":
        print_formatted(sections_of(reports), form)
    elif has_details:
        print_scores(checked, reports, Console(), with_main=not has_samples)
        if has_samples:
            typer.echo()
            _print_details(reports)
    else:
        _print_results(checked, reports)
    for line in read.skipped:
        typer.echo(f"Skipped: {line}", err=True)
    if read.without:
        problems.append(
            f"no results in {', '.join(map(str, read.without))}; pass the folder of a finished run"
        )
    if problems:
        raise LmmsEgoplanError("\n".join(problems))


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


def _checked(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Return runs with their samples, and the problems of tasks whose samples contradict them.

    The scores of these tasks are not a number.
    """
    checked = []
    problems = []
    for run in runs:
        sampled, _ = with_samples(run)
        tasks = {}
        for name, task_run in sampled.tasks.items():
            tasks[name] = task_run
            try:
                check(sampled, task_run)
            except LmmsEgoplanError as error:
                problems.append(str(error))
                tasks[name] = _without_scores(task_run)
        checked.append(replace(sampled, tasks=tasks))
    return checked, problems


def _without_scores(task_run: TaskRun) -> TaskRun:
    names = task_run.scoring.metrics if task_run.scoring else ()
    return replace(
        task_run, metrics=task_run.metrics | dict.fromkeys(names, math.nan), samples=None
    )
