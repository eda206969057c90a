"""``lmms-egoplan report``, ``show`` and ``compare``.

They compare runs of both harnesses on a page or in the terminal.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

import typer
from rich.console import Console
from tqdm import tqdm

from lmms_egoplan.benchmarks.base import BENCHMARKS, model_card_scores
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.launch.state import read_state, show_progress
from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.build import build_report
from lmms_egoplan.report.document import Section
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_run, read_scores, with_samples
from lmms_egoplan.report.sections import panel_tables
from lmms_egoplan.report.strips import SOME, Pictures
from lmms_egoplan.report.summary import model_card, number_table, short_table
from lmms_egoplan.report.tables import clean, csv_of, latex_of, markdown_of
from lmms_egoplan.report.terminal import (
    Reports,
    print_scores,
    print_summary,
    print_table,
    sections_of,
)
from lmms_egoplan.report.two_runs import compare_settings, compare_tasks
from lmms_egoplan.stats.equivalence import MARGIN
from lmms_egoplan.text import join_list

Form = Literal["text", "md", "latex", "csv"]


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="Folders with runs of lmms-eval or lm-eval (`--output_path DIR --log_samples`), "
            "at any depth, or judged answers from `lmms-egoplan judge`. Folders from `annotate "
            "export` add people's labels, and from `audit` scores by training overlap. Files from "
            "`lmms-egoplan judge egothink --repeats N` add a table of judge noise.",
        ),
    ],
    out: OutFolder,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR=NAME", help="Name for the run at or below DIR. Repeat for more runs."
        ),
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="BERT-like model (name or folder) for the BERTScore of EgoPlan's goals and "
            "answers, as in the paper's Fig. 7. Default: a sentence encoder.",
        ),
    ] = None,
    pictures: Annotated[
        Pictures,
        typer.Option(
            help=f"Questions whose pictures are drawn for the gallery. `some`: up to {SOME} per "
            "benchmark, first those on which runs disagree or that all runs get wrong. `none`: no "
            "new pictures. Pictures of an earlier report are always reused.",
        ),
    ] = "some",
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help=(
                "Output in the terminal: the summary, or the scores as Markdown, LaTeX "
                "(booktabs) or CSV."
            ),
        ),
    ] = "text",
) -> None:
    """Write a report page that compares runs with each other and with the papers' tables.

    Published tables, with the runs above the published rows: EgoPlan 1, 3 and 4; EgoThink 2, 3 and
    9 to 11; EgoIntent 3; ActPlan-1K 3 to 7. Published figures, with the runs only, since the papers
    print no numbers for them: EgoPlan 7 and 8; EgoThink 8 and 18; EgoIntent 7; ActPlan-1K 5 and 6.

    Open `index.html` in a browser; no server is needed. It also contains a summary in sentences,
    scores with intervals and by any attribute of the questions, comparisons, and a gallery of the
    questions. `report.json` contains all numbers. Every table is also a CSV and a Markdown file,
    and every figure an SVG and a PNG file.

    The command also prints the summary. It recomputes all scores from the samples, and fails if the
    harness's own scores differ.

    Example: `lmms-egoplan report runs/qwen runs/llava --name runs/qwen=Qwen2.5-VL-7B --out report`
    """
    write_report(runs, out, _names(name or []), similarity, pictures, form)


def write_report(
    runs: Sequence[Path],
    out: Path,
    names: Mapping[Path, str] = MappingProxyType({}),
    similarity: str | None = None,
    pictures: Pictures = "some",
    form: Form = "text",
) -> None:
    """Write a report and print its summary. The arguments are those of `report`.

    Args:
        names: Names of the runs at or below these paths.
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
        _print_table(built.sections, form, with_all=True)


def _names(texts: list[str]) -> dict[Path, str]:
    """Split ``DIR=NAME`` at the ``=`` after an existing path, else at the first one."""
    names = {}
    for text in texts:
        folder, _, name = text.partition("=")
        for position, character in enumerate(text):
            if character == "=" and Path(text[:position]).exists():
                folder = text[:position]
                name = text[position + 1 :]
                break
        if not (folder.strip() and name.strip()):
            raise typer.BadParameter(f"expected DIR=NAME, got {text!r}", param_hint="--name")
        names[Path(folder)] = name.strip()
    return names


def show(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="Folders with runs of lmms-eval or lm-eval (`--output_path DIR`), at any depth, "
            "results files, or judged answers from `lmms-egoplan judge`.",
        ),
    ],
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="Output: tables for the terminal, or one table of score, interval and n: "
            "Markdown for a model card, LaTeX (booktabs) for a paper, CSV for programs. The table "
            "alone goes to standard output.",
        ),
    ] = "text",
) -> None:
    """Print the main scores of runs, side by side.

    The scores come from the harness's results files. If there are samples next to them, the
    report's summary of each benchmark follows, with 95 % intervals. Each version of a task has
    separate tables. The command writes no files.

    A folder of `lmms-egoplan run` also shows how far the run is, even while it works or after it
    was killed.

    The exit code is 1 if a path has no results. Use this to detect failed runs, since lmms-eval
    itself exits with 0.

    Example: `lmms-egoplan show runs/qwen runs/llava`
    """
    if form == "text":
        working = [path for path in runs if _is_working(path)]
        runs = [path for path in runs if path not in working]
        if working and not runs:
            return
    read = read_scores(runs, BENCHMARKS)
    try:
        reports, has_samples = _checked_reports(read.runs)
    except LmmsEgoplanError as error:
        if form != "text":
            raise
        typer.echo(f"No intervals: {error}", err=True)
        reports = list(read_reports(read.runs, BENCHMARKS))
        has_samples = False
    if form == "text":
        print_scores(read.runs, reports, Console(), with_main=not has_samples)
        if has_samples:
            typer.echo()
            _print_summaries(reports)
    else:
        _print_table(sections_of(reports), form)
    for line in read.skipped:
        typer.echo(f"Skipped: {line}", err=True)
    if read.without:
        raise LmmsEgoplanError(
            f"no results in {', '.join(map(str, read.without))}; pass the --output_path "
            "of a finished run"
        )


def _print_summaries(reports: Reports) -> None:
    """Print the report's summary of each benchmark, and the tables of panels of judges."""
    print_summary(sections_of(reports), Console())
    wide = Console(width=max(Console().width, 150))
    for _, part_report in reports:
        for table in panel_tables(part_report):
            print_table(table, wide)


def _is_working(folder: Path) -> bool:
    """Show how far a run of `lmms-egoplan run` is, and return whether it works without results."""
    state = read_state(folder)
    return state is not None and show_progress(folder, state)


def compare(
    run_a: Annotated[
        Path,
        typer.Argument(metavar="RUN_A", help="Folder or results file of a run, or judged answers."),
    ],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The other run.")],
    margin: Annotated[
        float, typer.Option(metavar="POINTS", min=0.01, max=50, help="Margin of equality.")
    ] = MARGIN,
) -> None:
    """Decide whether two runs have different scores, or equal ones within a margin.

    Use it to check a port, quantised weights, vLLM against transformers, or another chip. A
    difference that is not significant does not show that scores are equal.

    The command prints a verdict on each task that both runs have: "different", "equal within 1
    point", both, or "undecided" with the number of questions that would be needed. All verdicts
    share an error rate of 5 %.

    A task has no verdict if its runs differ in version, prompts, order of options, prepared data,
    decoding, system instruction or judge. What differs is named. Model, precision and device may
    differ.

    The exit code is 1 if a task is not comparable, if a run cannot be read, or if the runs have no
    task in common.

    Example: `lmms-egoplan compare runs/bf16 runs/awq --margin 1`
    """
    runs = []
    errors = []
    for name, path in (("A", run_a), ("B", run_b)):
        try:
            runs.append(read_run(path, name, BENCHMARKS))
        except LmmsEgoplanError as error:
            errors.append(str(error))
    if errors:
        raise LmmsEgoplanError("\n".join(errors))
    (first, skipped), (second, also_skipped) = runs
    for line in (*skipped, *also_skipped):
        typer.echo(f"Skipped: {line}", err=True)
    table, incomparable = compare_tasks(first, second, BENCHMARKS, margin)
    for run in (first, second):
        typer.echo(clean(f"{run.name}: {run.model}, {run.harness}, {run.time}, {run.folder}"))
    print_table(table, Console())
    settings = compare_settings(first, second) or ["nothing that is known"]
    lines = [*table.notes, "", "What else differs:", *settings]
    typer.echo(clean("\n".join(lines)))
    if incomparable:
        raise LmmsEgoplanError(
            f"not comparable: {join_list(incomparable)}; what differs is below the table"
        )


def _print_table(sections: Sequence[Section], form: Form, *, with_all: bool = False) -> None:
    """Print the scores as Markdown, LaTeX or CSV.

    With `with_all`, Markdown and LaTeX also have the table of all benchmarks.
    """
    table = number_table(sections) if form == "csv" else short_table(sections)
    if table is None:
        typer.echo("No scores of the project's tasks.", err=True)
    elif form == "csv":
        typer.echo(csv_of(table, with_own=False), nl=False)
    else:
        tables = [table]
        card = model_card(sections, model_card_scores()) if with_all else None
        if card is not None:
            tables.append(card)
        form_of = latex_of if form == "latex" else markdown_of
        typer.echo("\n".join(form_of(part) for part in tables))


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
