"""``lmms-egoplan annotate egothink``: answers rated by people."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.annotation.options import Annotators, Db, Host, PerItem, Port


def annotate(
    items: Annotated[
        list[Path],
        typer.Option(
            metavar="SAMPLES",
            help="Answers, as `judge egothink` takes them; one for each model, named after the file or folder.",
        ),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="The same answers as `judge egothink` wrote them. The lead sees how far people and the judge agree; "
            "annotators see nothing of a judge. Any start may bring it.",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people rate EgoThink's answers 0, 0.5 or 1, with the models hidden.

    Example: `lmms-egoplan annotate egothink --items gpt-4v.jsonl --db labels.sqlite --annotators 3 --per-item 3`
    """
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.egothink.annotation import FLOW, num_judged, read_items

    where = ", ".join(map(str, items))
    store = open_store(FLOW, db, lambda folder: read_items(items, folder, judge or ()), where, annotators, per_item)
    if judge:
        typer.echo(f"The judge has rated {num_judged(store.items())} of {store.num_items()} answers.")
    serve(store, FLOW, host, port)
