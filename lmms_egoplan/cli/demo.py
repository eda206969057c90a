"""``lmms-egoplan demo``: an evaluation on a fresh machine, without a GPU, a hub or datasets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.demo.run import run_demo
from lmms_egoplan.harnesses.requirements import require
from lmms_egoplan.report.runs import read_scores
from lmms_egoplan.report.writing import print_runs


def demo(
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for all files of the demo; those of an earlier demo are replaced."),
    ] = Path("lmms-egoplan-demo"),
) -> None:
    """Run an evaluation from images to scores, in lmms-eval itself, with a tiny model.

    The demo makes a LLaVA of toy size and renders small sets of first-person scenes in the formats of all
    benchmarks. It prepares them, runs lmms-eval on them and writes the report. It takes about a minute and needs no
    network, no GPU and no judge model: a built-in judge compares words. The weights are random: the scores mean
    nothing.

    Example: `lmms-egoplan demo --out /tmp/demo`
    """
    require("lmms_eval", "lmms-eval", "lmms-egoplan")
    console = Console()

    def show_scores(results: Path) -> None:
        print_runs(read_scores([results]).runs, console, BENCHMARKS)

    run_demo(out, console, [benchmark.load_demo() for benchmark in BENCHMARKS], show_scores)
