"""``lmms-egoplan annotate actplan``, and what its construction asks of people."""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.annotation.options import Annotators, Db, Host, PerItem, Port

Instances = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder `annotation` of the release, for tasks and images. Without it, the prepared data.",
    ),
]


def annotate(
    items: Annotated[
        list[Path],
        typer.Option(
            metavar="PLANS",
            help="Plans, as `score actplan` takes them. A file whose lines have no model is named after its model.",
        ),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    instances: Instances = None,
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


def annotate_circumstances(
    items: Annotated[
        Path,
        typer.Option(metavar="FILE", help="`circumstances.jsonl`, as `data build actplan` writes it."),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: PerItem = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people choose circumstances of counterfactual activities: plausible, and sayable in BDDL.

    Example: `lmms-egoplan annotate actplan-circumstances --items built/circumstances.jsonl --db circumstances.sqlite`
    """
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.actplan.construction.circumstance_flow import FLOW, read_items

    store = open_store(FLOW, db, lambda _: read_items(items), str(items), annotators, per_item)
    serve(store, FLOW, host, port)


def annotate_plans(
    items: Annotated[
        Path,
        typer.Option(metavar="FILE", help="`instances.jsonl`, as `data build actplan` writes it."),
    ],
    db: Db,
    annotators: Annotators = None,
    per_item: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="How many people write a plan of each instance; 2 by default. It stays as it was at the first start.",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8350,
) -> None:
    """Open a page on which people write gold plans, at least two of each instance.

    Example: `lmms-egoplan annotate actplan-plans --items built/instances.jsonl --db plans.sqlite --annotators 3`
    """
    from lmms_egoplan.annotation.serve import open_store, serve
    from lmms_egoplan.benchmarks.actplan.construction.plan_flow import FLOW, read_items

    store = open_store(FLOW, db, lambda folder: read_items(items, folder), str(items), annotators, per_item)
    serve(store, FLOW, host, port)
