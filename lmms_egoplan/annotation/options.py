"""Options that all benchmarks' commands of ``lmms-egoplan annotate`` share. Light to import."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_ANNOTATORS, DEFAULT_PER_ITEM = 3, 2

Db = Annotated[
    Path,
    typer.Option(
        metavar="FILE", help="The database of labels. It is made at the first start; later starts go on with it."
    ),
]
Annotators = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=500,
        help=f"How many people label; {DEFAULT_ANNOTATORS} at first by default. A later start may give more.",
    ),
]
PerItem = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"How many of them label each item; {DEFAULT_PER_ITEM} by default. It stays as it was at the first start.",
    ),
]
CutFirst = Annotated[
    bool, typer.Option("--cut", help="Make all clips before the page opens, on all cores. Clips that exist stay.")
]
Height = Annotated[int, typer.Option(min=16, help="Height of clips at most, in pixels.")]
Host = Annotated[str, typer.Option(help="Address to listen on. Others than this let other machines in.")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")]
