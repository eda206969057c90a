"""Read two runs, and print how their scores compare."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import typer
from rich.console import Console

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_run
from lmms_egoplan.report.tables import clean
from lmms_egoplan.report.terminal import print_table
from lmms_egoplan.report.two_runs import compare_settings, compare_tasks
from lmms_egoplan.text import join_list


def compare_runs(
    run_a: str, run_b: str, margin: float, names: Mapping[Path, str] = MappingProxyType({})
) -> None:
    """Print the verdict on each task that both runs have, and the settings that differ.

    Args:
        run_a, run_b: Folder or results file of each run, or a name among `names`.
        margin: Margin in per cent of the highest possible score.
        names: Names of the runs at or below these paths.

    Raises:
        LmmsEgoplanError: A run cannot be read, the runs have no task in common, or a task is not
            comparable.
    """
    runs = []
    errors = []
    for name, text in (("A", run_a), ("B", run_b)):
        paths = [path for path, chosen in names.items() if chosen == text] or [Path(text)]
        try:
            runs.append(read_run(paths, name, BENCHMARKS, _names_at(paths, names)))
        except LmmsEgoplanError as error:
            errors.append(str(error))
    if errors:
        raise LmmsEgoplanError("\n".join(errors))
    (first, skipped), (second, also_skipped) = runs
    for line in (*skipped, *also_skipped):
        typer.echo(f"Skipped: {line}", err=True)
    table, incomparable = compare_tasks(first, second, BENCHMARKS, margin)
    for run in (first, second):
        typer.echo(clean(f"{run.name}: {run.model}, {run.harness}, {run.time}, {_folders(run)}"))
    print_table(table, Console())
    settings = compare_settings(first, second) or ["nothing that is known"]
    lines = [*table.notes, "", "What else differs:", *settings]
    typer.echo(clean("\n".join(lines)))
    if incomparable:
        raise LmmsEgoplanError(
            f"not comparable: {join_list(incomparable)}; what differs is below the table"
        )


def _names_at(paths: Sequence[Path], names: Mapping[Path, str]) -> dict[Path, str]:
    """Return the names of some paths and of paths below them."""
    resolved = {path.resolve() for path in paths}
    return {
        path: name
        for path, name in names.items()
        if not resolved.isdisjoint((path.resolve(), *path.resolve().parents))
    }


def _folders(run: Run) -> str:
    return ", ".join(map(str, run.folders))
