"""``lmms-egoplan show``: the main scores of runs in the terminal."""

from pathlib import Path
from typing import Annotated

import typer


def show(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="The `--output_path` of runs of lmms-eval or lm-eval, folders with several of these at any depth, or "
            "results files.",
            show_default=False,
        ),
    ],
) -> None:
    """Print the main scores of runs, side by side.

    The scores are those in the harness's results files; no samples are needed. Runs of different versions of a task
    get tables of their own. The exit code is 1 where a path has no results, for example after a run that failed:
    lmms-eval itself ends with 0 then.

    Example: `lmms-egoplan show runs/qwen runs/llava`
    """
    from rich.console import Console

    from lmms_egoplan.benchmarks.registry import BENCHMARKS
    from lmms_egoplan.errors import LmmsEgoplanError
    from lmms_egoplan.report.runs import read_scores
    from lmms_egoplan.report.terminal import print_runs

    read = read_scores(runs)
    print_runs(read.runs, Console(), BENCHMARKS)
    for line in read.skipped:
        typer.echo(f"Not read: {line}", err=True)
    if read.without:
        raise LmmsEgoplanError(f"no results in {', '.join(map(str, read.without))}")
