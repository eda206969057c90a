"""``lmms-egoplan heatmap``: results of several models in one picture."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.cli.former_options import accepting

app = typer.Typer(no_args_is_help=True)


@app.callback()
def heatmap() -> None:
    """Draw results of several models in one picture.

    Example: `lmms-egoplan heatmap egointent runs/qwen runs/internvl --out heatmap.png`
    """


@app.command("egointent", cls=accepting("--results"))
def egointent(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="Folders with runs of lmms-eval or lm-eval (`--output_path DIR --log_samples`), at any depth. "
            "Every run of egointent is a row.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="The picture to write: .png, .svg, or .html for a page.", show_default=False)
    ],
) -> None:
    """Draw EgoIntent's overall score by model and scenario.

    The best model is on top, the hardest scenario on the left. Runs over Goal-Step steps (`data build egointent`) are
    drawn by the categories of their goals, in a picture of their own.

    Example: `lmms-egoplan heatmap egointent runs/qwen runs/internvl --out heatmap.png`
    """
    from lmms_egoplan.benchmarks.egointent.answer_files import read_runs
    from lmms_egoplan.benchmarks.egointent.heatmap import make_heatmap
    from lmms_egoplan.benchmarks.egointent.heatmap_drawing import SUFFIXES, write_heatmap
    from lmms_egoplan.errors import LmmsEgoplanError

    if out.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"{out}: the suffix must be one of {', '.join(SUFFIXES)}", param_hint="--out")
    try:
        drawn = make_heatmap(read_runs(runs))
        write_heatmap(drawn, out)
    except (LmmsEgoplanError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
    for warning in drawn.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    columns = "categories of Goal-Step steps" if drawn.is_goalstep else "scenarios"
    typer.echo(f"{len(drawn.models)} x {len(drawn.scenarios)} (models x {columns}). {', '.join(drawn.notes)}")
    typer.echo(f"Written to {out}")
