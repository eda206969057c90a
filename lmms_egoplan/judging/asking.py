"""Define options and exit messages of commands that ask a judge or another language model."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.limits import MAX_COST, MAX_REQUESTS, PRICES, Limits
from lmms_egoplan.judging.prices import ModelPrice, PriceList
from lmms_egoplan.judging.usage import Step, Verdicts, cost_lines, expectation, prompt_tokens

# A command exits with 1 if a larger fraction of its prompts has no usable reply.
MOST_LOST = 0.1

Llm = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Language model, as the endpoint names it. Default: LMMS_EGOPLAN_JUDGE_MODEL if set, "
        "else gpt-4o-2024-11-20.",
    ),
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
RETRY_FILE = "Rerun the command with --overwrite"
"""How to request answers again if the output is a file, see `end`."""
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="Maximum number of concurrent requests (default 32)."),
]


@dataclass
class LlmUsage:
    """Options and counts of one command that asks a language model.

    Attributes:
        retry_rejected: If True, ask again where the cached reply was rejected.
        is_estimate: If True, send nothing.
        prices: JSON file with prices by model.
        batch: If True, use the batches of the endpoint, for half the price.
        probes: If True, test the model with one request, in the form of the first prompts. False
            after that.
        max_requests: Maximum number of requests; None for no limit.
        max_cost: Maximum cost, in the currency of the prices; None for no limit.
        asked: Number of prompts that need a JSON reply.
        lost: Number of these prompts without a usable reply.
        models: Prompt name -> model that replied.
        steps: Steps with the requests of this run, or of the estimate.
        limits: The requests and the cost so far, and their limits.
        verdicts: The replies so far by model and way of reading them.

    Raises:
        LmmsEgoplanError: the price file is unreadable or malformed, and the message names file and
            field; or it is missing, although the cost has a limit; or the limit on requests allows
            only the test request.
    """

    retry_rejected: bool = False
    is_estimate: bool = False
    prices: Path | None = None
    batch: bool = False
    probes: bool = False
    max_requests: int | None = None
    max_cost: float | None = None
    asked: int = 0
    lost: int = 0
    models: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    limits: Limits = field(init=False)
    verdicts: dict[Any, Verdicts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._price_list: PriceList | None = None
        self.limits = Limits(self.max_requests, self.max_cost)
        if self.probes and self.max_requests == 1:
            raise LmmsEgoplanError(
                f"--max-requests ({MAX_REQUESTS}) is 1; set at least 2: one is the test request"
            )
        if self.max_cost is not None and not self.prices:
            raise LmmsEgoplanError(
                f"--max-cost ({MAX_COST}) needs a file of prices; set --prices ({PRICES})"
            )
        if self.prices:
            self._price_list = PriceList.read(self.prices, batch=self.batch)

    def price(self, model: str) -> ModelPrice:
        """Return the price of a model; raise `LmmsEgoplanError` if there is none."""
        if self._price_list is None:
            raise LmmsEgoplanError(f"No price for {model}; set --prices ({PRICES})")
        return self._price_list.price(model)

    def cost(self, model: str, prompt_tokens: int | None, reply_tokens: int | None) -> float | None:
        """Return the cost of a request.

        Returns None without a file of prices, or if a number of tokens is unknown.
        """
        if self._price_list is None or prompt_tokens is None or reply_tokens is None:
            return None
        return self._price_list.cost(model, prompt_tokens, reply_tokens)

    def highest_cost(self, model: str, prompt: Prompt, max_tokens: int) -> float:
        """Return the cost of a request whose reply reaches its token limit.

        Returns 0 without a limit on the cost.
        """
        if self.max_cost is None:
            return 0.0
        return self.cost(model, prompt_tokens(prompt), max_tokens) or 0.0

    def finish_estimate(self) -> None:
        """Print the estimate and exit. Do nothing without `--estimate`.

        Raises:
            LmmsEgoplanError: the price file lacks a model.
            typer.Exit: the estimate is printed.
        """
        if self.is_estimate:
            self.print_cost()
            typer.echo("Nothing was sent.")
            raise typer.Exit

    def print_cost(self) -> None:
        """Print the requests and tokens of the steps, and their price if there is a file of prices.

        Raises:
            LmmsEgoplanError: the price file lacks a model.
        """
        if not self.steps:
            return
        lines = cost_lines(
            self.steps, self._price_list, is_estimate=self.is_estimate, batch=self.batch
        )
        for line in lines:
            typer.echo(line)

    def expectation(self, first: Step, requests: int, max_tokens: int) -> str:
        """Describe the expected cost of a run by its first replies; see `usage.expectation`."""
        return expectation(first, self._price_list, requests, max_tokens)

    def finish(self) -> None:
        """Print the cost.

        Raise `LmmsEgoplanError` if more than `MOST_LOST` of the prompts have no usable reply.
        """
        self.print_cost()
        if self.lost > MOST_LOST * self.asked:
            raise LmmsEgoplanError(
                f"{self.lost} of {self.asked} prompts have no usable reply, more than "
                f"{MOST_LOST:.0%}. The output is written without them; its rejections give the "
                "reasons. To request them again, use --retry-rejected"
            )


def partial_path(out: Path) -> Path:
    """Return the output path of incomplete judged answers, if complete ones exist."""
    return out.with_name(f"{out.name}.partial")


def written_path(out: Path, unjudged: int) -> Path:
    """Return the output path of judged answers.

    An incomplete result does not replace an existing file.
    """
    if unjudged and out.exists():
        return partial_path(out)
    return out


def end(
    written: Path, unjudged: int, total: int, scope: str = "", retry: str = "Rerun the command"
) -> None:
    """Print the name of the output file.

    Args:
        written: the output file.
        unjudged: number of answers without a rating.
        total: number of answers.
        scope: text after "are not judged", such as " in each repeat".
        retry: how to request these answers again.

    Raises:
        LmmsEgoplanError: some answers are not judged.
    """
    typer.echo(f"Written to {written}")
    if unjudged:
        raise LmmsEgoplanError(
            f"{unjudged} of {total} answers are not judged{scope} ({written} lists the reasons). "
            f"{retry} to request them again, unless a reason says otherwise"
        )
