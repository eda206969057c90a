"""``lmms-egoplan annotate actplan``: plans labelled by people."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.annotation.options import Annotators, Db, Host, PerItem, Port


def annotate(
    items: Annotated[
        list[Path],
        typer.Option(
            metavar="PLANS",
            help="Plans, as `score actplan` takes them. A file whose lines have no model is named after its model.",
            show_default=False,
        ),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    instances: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder `annotation` of the release, for tasks and images. Without it, the prepared data.",
            show_default=False,
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people label plans: correctness, commonsense and six types of errors.

    Example: `lmms-egoplan annotate actplan --items plans.jsonl --db labels.sqlite --annotators 3 --per-item 2`
    """
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.actplan.annotation import FLOW, read_items

    where = ", ".join(map(str, items))
    store = open_store(FLOW, db, lambda folder: read_items(items, folder, instances), where, annotators, per_item)
    serve(store, FLOW, host, port)
