"""``lmms-egoplan heatmap``: results of several models in one picture."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Draw results of several models in one picture.", no_args_is_help=True)


@app.callback()
def heatmap() -> None:
    """Draw results of several models in one picture."""


@app.command("egointent")
def egointent(
    results: Annotated[
        list[Path],
        typer.Option(
            help="Folder with runs of lmms-eval or lm-eval (`--output_path DIR --log_samples`); every run of egointent "
            "below it is a row. May be given several times."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The picture to write: .png, .svg, or .html for a page.")],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[DIR]...", help="More such folders.")] = None,
) -> None:
    """Draw EgoIntent's overall score of models by scenarios: the best model on top, the hardest scenario on the left.

    Runs over Goal-Step steps (`data build egointent`) are drawn by the categories of their goals, in a picture of their
    own.

    Example: `lmms-egoplan heatmap egointent --results runs/qwen runs/internvl --out heatmap.png`
    """
    from lmms_egoplan.benchmarks.egointent.heatmap import make_heatmap
    from lmms_egoplan.benchmarks.egointent.heatmap_drawing import SUFFIXES, write_heatmap
    from lmms_egoplan.benchmarks.egointent.logged_runs import LoggedRunError, read_runs

    if out.suffix.lower() not in SUFFIXES:
        raise typer.BadParameter(f"{out}: the suffix must be one of {', '.join(SUFFIXES)}", param_hint="--out")
    try:
        drawn = make_heatmap(read_runs([*results, *(more or [])]))
        write_heatmap(drawn, out)
    except (LoggedRunError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
    for warning in drawn.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    columns = "categories of Goal-Step steps" if drawn.is_goalstep else "scenarios"
    typer.echo(f"{len(drawn.models)} x {len(drawn.scenarios)} (models x {columns}). {', '.join(drawn.notes)}")
    typer.echo(f"Written to {out}")
