"""``lmms-egoplan demo``: the main job on a fresh machine, without a GPU, a hub or datasets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lmms_egoplan.cli.requirements import require


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for everything that the demo makes; an earlier demo's is replaced.")
    ] = Path("lmms-egoplan-demo"),
) -> None:
    """Answer rendered questions with a tiny random model, from images to scores, in lmms-eval itself.

    Makes a LLaVA of toy size and small sets of first-person scenes in EgoPlan's, EgoThink's and EgoIntent's
    formats, prepares them, runs lmms-eval on them, with a judge in the process that compares words, and writes the
    report. Takes a minute or two, no network and no judge model. The weights are random: the numbers mean nothing.

    Example: `lmms-egoplan demo --out /tmp/demo`
    """
    require("lmms_eval", "lmms-eval", "lmms-egoplan")
    from lmms_egoplan.demo.run import DemoError, run_demo

    try:
        run_demo(out, Console())
    except (DemoError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None
