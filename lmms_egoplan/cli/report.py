"""``lmms-egoplan report`` and ``show``: runs of both harnesses as a page with figures, or in the terminal."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from tqdm import tqdm

from lmms_egoplan.benchmarks.registry import BENCHMARKS, published_together
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.report.benchmark import read_reports
from lmms_egoplan.report.page import build_report
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_scores, with_samples
from lmms_egoplan.report.scores import check
from lmms_egoplan.report.summary import (
    Reports,
    model_card,
    print_scores,
    print_summary,
    sections_of,
    short_table,
    with_further,
)
from lmms_egoplan.report.tables import markdown_of


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="Folders with runs of lmms-eval or lm-eval (`--output_path DIR --log_samples`), at any depth. "
            "Files of judged answers that `lmms-egoplan judge` wrote. "
            "Folders that `lmms-egoplan annotate export` wrote add people's labels. "
            "Files of `lmms-egoplan judge egothink --repeats N` add a table of judge noise.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder for the report. An earlier report there is replaced; its pictures are used again.",
        ),
    ],
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR=NAME", help="Name for the run at or below DIR. May be given several times."),
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="BERT-like model (a name or a folder). Its BERTScore measures how similar EgoPlan's goals and answers "
            "are, as in the paper's Fig. 7. Without it, a sentence encoder does.",
        ),
    ] = None,
    form: Annotated[
        Literal["text", "md"],
        typer.Option("--format", help="What is printed beside the page: the summary, or Markdown for a model card."),
    ] = "text",
) -> None:
    """Write a page that puts runs beside the scores in the papers' tables.

    These are EgoPlan's Tables 1, 3 and 4, EgoThink's 3 and 9 to 11, EgoIntent's 3 and ActPlan-1K's 3 to 7. EgoPlan's
    Fig. 7 and 8, EgoIntent's Fig. 7 and ActPlan-1K's Fig. 5 and 6 are drawn for the runs alone: the papers print no
    numbers.

    `index.html` opens from disk: what came out in sentences, scores with intervals and by any attribute of the
    questions, figures, comparisons, the papers' tables with the runs above them, and a gallery of the questions.
    `report.json` has all numbers. Every table is also a CSV and a Markdown file, every figure an SVG and a PNG file.
    The summary is printed, too. Scores are recomputed from the samples; a difference from the harness's own is an
    error.

    Example: `lmms-egoplan report runs/qwen runs/llava --name runs/qwen=Qwen2.5-VL-7B --out report`
    """
    started = time.monotonic()
    with ExitStack() as stack:
        bars: dict[str, tqdm] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = stack.enter_context(progress_bar(total, what))
            bars[what].update(done - bars[what].n)
            if done == total:
                bars[what].close()

        built = build_report(runs, out, _names(name or []), BENCHMARKS, progress, similarity)
    for line in built.skipped:
        typer.echo(f"Not read: {line}", err=True)
    counts = ", ".join(f"{count} {name[:-1] if count == 1 else name}" for name, count in built.counts.items())
    typer.echo(f"{counts} in {time.monotonic() - started:.0f} s")
    typer.echo(f"Written to {built.page}\n")
    if form == "text":
        print_summary(built.sections, Console())
        return
    tables = (short_table(with_further(built.sections)), model_card(built.sections, published_together()))
    typer.echo("\n".join(markdown_of(table) for table in tables if table is not None))


def _names(texts: list[str]) -> dict[Path, str]:
    """Split ``DIR=NAME``; of several ``=``, that after an existing path, else the first."""
    names = {}
    for text in texts:
        parts = text.split("=")
        splits = [("=".join(parts[:index]), "=".join(parts[index:])) for index in range(1, len(parts))]
        existing = [split for split in splits if Path(split[0]).exists()]
        folder, name = (existing or splits or [("", "")])[0]
        if not (folder.strip() and name.strip()):
            raise typer.BadParameter(f"{text!r} is not of the form DIR=NAME", param_hint="--name")
        names[Path(folder)] = name.strip()
    return names


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
