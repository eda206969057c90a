"""Options of commands that ask a judge or another language model.

Commands import this module for their signatures, so it imports only typer.
"""

from pathlib import Path
from typing import Annotated

import typer

from lmms_egoplan.judging.variables import MAX_COST, MAX_REQUESTS, PRICES

Llm = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Language model, as the endpoint names it. Default: LMMS_EGOPLAN_JUDGE_MODEL if set, "
        "else gpt-4o-2024-11-20.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="Maximum number of concurrent requests (default 32)."),
]
Retry = Annotated[
    bool,
    typer.Option(
        "--retry-rejected",
        help="Ask again where the cached reply was rejected. Reuse all other replies.",
    ),
]
EstimateOnly = Annotated[
    bool,
    typer.Option(
        "--estimate", help="Print the number of requests and tokens, then exit without sending any."
    ),
]
Batch = Annotated[
    bool, typer.Option("--batch", help="Send batches, for half the price within 24 hours.")
]
Prices = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=PRICES,
        show_envvar=False,
        help="Print the price, with this JSON file per million tokens: "
        '`{"MODEL": {"input": 2.5, "output": 10}}`.',
    ),
]
MaxRequests = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        envvar=MAX_REQUESTS,
        show_envvar=False,
        help="Stop after this number of requests, repeats included.",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="AMOUNT",
        envvar=MAX_COST,
        show_envvar=False,
        help="Stop before the price is expected to exceed this amount. If replies grow, those in "
        "flight can exceed it. Requires --prices.",
    ),
]
