"""Write a report with progress bars, and print its summary."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

import typer
from rich.console import Console
from tqdm import tqdm

from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.report.build import build_report
from lmms_egoplan.report.strips import Pictures
from lmms_egoplan.report.terminal import Form, print_formatted, print_summary


def write_report(
    runs: Sequence[Path],
    out: Path,
    names: Mapping[Path, str] = MappingProxyType({}),
    similarity: str | None = None,
    pictures: Pictures = "some",
    form: Form = "text",
) -> None:
    """Write a report to a folder, and print its findings with the table of results.

    Args:
        runs: Folders with runs, judged answers, labels or audits.
        out: Folder of the report.
        names: Names of the runs at or below these paths.
        similarity: See `Inputs`.
        pictures: See `write_gallery`.
        form: ``text`` for findings and table, otherwise the form of the table alone.
    """
    started = time.monotonic()
    with output_folder(out, "report", ["index.html", "report.json"]), ExitStack() as stack:
        bars: dict[str, tqdm] = {}

        def progress(step: str, done: int, total: int) -> None:
            if step not in bars:
                bars[step] = stack.enter_context(progress_bar(total, step))
            bars[step].update(done - bars[step].n)
            if done == total:
                bars[step].close()

        built = build_report(runs, out, names, BENCHMARKS, progress, similarity, pictures)
    for line in built.skipped:
        typer.echo(f"Skipped: {line}", err=True)
    counts = []
    for plural, count in built.counts.items():
        noun = plural[:-1] if count == 1 else plural
        counts.append(f"{count} {noun}")
    seconds = time.monotonic() - started
    is_redirected = form != "text"
    typer.echo(f"{', '.join(counts)} in {seconds:.0f} s", err=is_redirected)
    if built.pictures:
        typer.echo(f"Gallery: {built.pictures}", err=is_redirected)
    typer.echo(f"Written to {built.page}\n", err=is_redirected)
    if form == "text":
        print_summary(built.sections, Console())
    else:
        print_formatted(built.sections, form)
