"""``lmms-egoplan report``, ``show`` and ``compare``.

They compare runs of both harnesses on a page or in the terminal.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.options import OutFolder

Form = Literal["text", "md", "latex", "csv"]

Names = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FOLDER",
        help="Name for the runs in FOLDER, which is read, too. Repeat for more folders: those with "
        "one name are joined to one model, even if their weights are not recorded.",
    ),
]


def report(
    out: OutFolder,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUNS",
            help="Folders with runs of lmms-eval or lm-eval (`--output_path DIR --log_samples`), "
            "at any depth, or judged answers from `lmms-egoplan judge`. Folders from `annotate "
            "export` add people's labels, and from `audit` scores by training overlap. Files from "
            "`lmms-egoplan judge egothink --repeats N` add a table of judge noise.",
        ),
    ] = None,
    name: Names = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="BERT-like model (name or folder) for the BERTScore of EgoPlan's goals and "
            "answers, as in the paper's Fig. 7. Default: a sentence encoder.",
        ),
    ] = None,
    pictures: Annotated[
        Literal["all", "some", "none"],
        typer.Option(
            help="Questions whose pictures are drawn for the gallery. `some`: up to 100 per "
            "benchmark, first those on which runs disagree or that all runs get wrong. `none`: no "
            "new pictures. Pictures of an earlier report are always reused.",
        ),
    ] = "some",
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help=(
                "Output in the terminal: findings and the table of results, or the table alone as "
                "Markdown, LaTeX (booktabs) or CSV."
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

    Example: `lmms-egoplan report runs/qwen runs/llava --name Qwen2.5-VL-7B=runs/qwen --out report`
    """
    from lmms_egoplan.report.write import write_report

    names = _names(name or [])
    write_report(_paths(runs, names), out, names, similarity, pictures, form)


def _paths(runs: list[Path] | None, names: dict[Path, str]) -> list[Path]:
    """Return the paths of runs; at least one must be given, as an argument or with a name."""
    if not runs and not names:
        raise typer.BadParameter("pass folders with runs, or --name NAME=FOLDER")
    return runs or []


def _names(texts: list[str]) -> dict[Path, str]:
    """Return the names by folder, from texts ``NAME=FOLDER``.

    A text is split at the first ``=`` before an existing path, so both sides may contain others.
    """
    names: dict[Path, str] = {}
    for text in texts:
        name, folder = _name_and_path(text)
        if names.setdefault(folder, name) != name:
            raise typer.BadParameter(
                f"{folder} has two names, {names[folder]!r} and {name!r}", param_hint="--name"
            )
    return names


def _name_and_path(text: str) -> tuple[str, Path]:
    for position, character in enumerate(text):
        folder = text[position + 1 :]
        if character == "=" and text[:position].strip() and folder and Path(folder).exists():
            return text[:position].strip(), Path(folder)
    raise typer.BadParameter(
        f"expected NAME=FOLDER with an existing folder or file, got {text!r}", param_hint="--name"
    )


def show(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUNS",
            help="Folders with runs of lmms-eval or lm-eval (`--output_path DIR`), at any depth, "
            "results files, or judged answers from `lmms-egoplan judge`.",
        ),
    ] = None,
    name: Names = None,
    form: Annotated[
        Form,
        typer.Option(
            "--format",
            help="Form of the table: text for the terminal, Markdown for a model card, LaTeX "
            "(booktabs) for a paper, CSV for programs. The table alone goes to standard output.",
        ),
    ] = "text",
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Print all scores of each run in place of the table: every task, subset and "
            "count, the finding of each benchmark, and the tasks of other projects.",
        ),
    ] = False,
) -> None:
    """Print one table of the main scores: models by benchmarks.

    The scores come from the harness's results files. If there are samples next to them, each score
    has its 95 % interval, and a mark if it is not measurably below the best one of its column.
    Below the table are protocols and remarks. The command writes no files.

    Results files of one model are one run, whatever command or machine they come from.

    A folder of `lmms-egoplan run` also shows how far the run is, even while it works or after it
    was interrupted.

    The exit code is 1 if a path has no results, unless its run works or was interrupted. Use this
    to detect failed runs, since lmms-eval itself exits with 0.

    Example: `lmms-egoplan show runs/qwen runs/llava`
    """
    from lmms_egoplan.report.show import show_scores

    if details and form != "text":
        raise typer.BadParameter("the details have no other form than text", param_hint="--details")
    names = _names(name or [])
    paths = _paths(runs, names)
    if form == "text":
        unfinished = [path for path in (*paths, *names) if _is_unfinished(path)]
        paths = [path for path in paths if path not in unfinished]
        names = {path: name for path, name in names.items() if path not in unfinished}
        if unfinished and not paths and not names:
            return
    show_scores(paths, form, names, has_details=details)


def _is_unfinished(folder: Path) -> bool:
    """Show how far the runs of `lmms-egoplan run` in a folder are, also one level below it.

    Return whether a run in the folder itself works or was interrupted, and has no results, or
    whether this is true of all runs below it.
    """
    from lmms_egoplan.launch.state import STATE, read_state, show_progress

    folders = [folder]
    if folder.is_dir() and not (folder / STATE).exists():
        folders = sorted(path.parent for path in folder.glob(f"*/{STATE}"))
    unfinished = []
    for path in folders:
        state = read_state(path)
        unfinished.append(state is not None and show_progress(path, state))
    return bool(unfinished) and all(unfinished)


def compare(
    run_a: Annotated[
        str,
        typer.Argument(
            metavar="RUN_A",
            help="Folder with a run, results file, judged answers, or a NAME from --name.",
        ),
    ],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The other run.")],
    name: Names = None,
    margin: Annotated[
        float, typer.Option(metavar="POINTS", min=0.01, max=50, help="Margin of equality.")
    ] = 1.0,
) -> None:
    """Decide whether two runs have different scores, or equal ones within a margin.

    Use it to check a port, quantised weights, vLLM against transformers, or another chip. A
    difference that is not significant does not show that scores are equal.

    A folder may have several results files of one model, such as one per job of a cluster.

    The command prints a verdict on each task that both runs have: "different", "equal within 1
    point", both, or "undecided" with the number of questions that would be needed. All verdicts
    share an error rate of 5 %.

    A task has no verdict if its runs differ in version, prompts, order of options, prepared data,
    decoding, system instruction or judge. What differs is named. Model, precision and device may
    differ, and so may prompts that the benchmark's paper has for families of models.

    The exit code is 1 if a task is not comparable, if a run cannot be read, or if the runs have no
    task in common.

    Example: `lmms-egoplan compare runs/bf16 runs/awq --margin 1`
    """
    from lmms_egoplan.report.comparison import compare_runs

    compare_runs(run_a, run_b, margin, _names(name or []))
