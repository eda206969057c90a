"""``lmms-egoplan demo``: the main job on a fresh machine, without a GPU, a hub or datasets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lmms_egoplan.cli.requirements import require


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for all files of the demo; those of an earlier demo are replaced.")
    ] = Path("lmms-egoplan-demo"),
) -> None:
    """Run an evaluation from images to scores, in lmms-eval itself, with a tiny model.

    The demo makes a LLaVA of toy size and renders small sets of first-person scenes in the formats of the four
    benchmarks. It prepares them, runs lmms-eval on them and writes the report. It takes about a minute and needs no
    network, no GPU and no judge model: a built-in judge compares words. The weights are random: the scores mean
    nothing.

    Example: `lmms-egoplan demo --out /tmp/demo`
    """
    require("lmms_eval", "lmms-eval", "lmms-egoplan")
    from lmms_egoplan.demo.run import run_demo
    from lmms_egoplan.errors import LmmsEgoplanError

    try:
        run_demo(out, Console())
    except (LmmsEgoplanError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
