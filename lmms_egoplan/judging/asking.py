"""Define options, cost estimates and exit messages of commands that ask a judge or another language
model.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from pydantic import Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_text
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.limits import MAX_COST, MAX_REQUESTS, PRICES, Limits
from lmms_egoplan.validation import Checked, Expected, read_as

# A command exits with 1 if a larger fraction of its prompts has no usable reply.
MOST_LOST = 0.1
# A run logs its expected cost after this many replies.
FIRST_REPLIES = 20
# Estimated tokens of an image: gpt-4o uses 765 for 513 to 1024 pixels (85, plus 170 for each of 4
# tiles).
IMAGE_TOKENS = 765
# Pieces similar to those of GPT-4's tokenizer. A long word counts as several tokens.
_PIECE = re.compile(r"([^\W\d_]+)|\d{1,3}|[^\w\s]{1,4}|_+|\s*\n\s*|[^\S\n]{2,}")
_WORD_BYTES = 8

_Amount = Annotated[
    float, Field(ge=0, allow_inf_nan=False), Expected("a price for a million tokens, from 0")
]


class _Price(Checked):
    input: _Amount
    output: _Amount


Llm = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Language model, as the endpoint names it. Default: "
        "LMMS_EGOPLAN_JUDGE_MODEL if set, else "
        "gpt-4o-2024-11-20.",
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
        help=(
            'Print the price, with this JSON file per million tokens: `{"MODEL": {"input": '
            '2.5, "output": 10}}`.'
        ),
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
        "flight can exceed it. "
        "Requires --prices.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        help="Output file for the judged answers, as JSON lines. If FILE exists "
        "and some answers could "
        "not be "
        "judged, FILE.partial is written instead.",
        metavar="FILE",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, max=1000, help="Maximum number of concurrent requests (default 32)."),
]


class Step(NamedTuple):
    """The requests of one step of a command.

    Attributes:
        title: Name of the step.
        requests: Number of requests; None if unknown.
        prompt_tokens: Tokens of all prompts.
        reply_tokens: Tokens of all replies; for an estimate, the maximum.
        model: The model, as it is requested.
        unknown: The part of the tokens that is unknown and not counted; "" for none.
        expected: For an estimate, the expected number of reply tokens; None without a stored reply.
        stored: Number of the stored replies whose mean is expected.
    """

    title: str
    requests: int | None
    prompt_tokens: int
    reply_tokens: int
    model: str
    unknown: str = ""
    expected: int | None = None
    stored: int = 0

    @classmethod
    def of_replies(
        cls, title: str, tokens: Sequence[tuple[int | None, int | None]], model: str
    ) -> "Step":
        """Return a step of replies with these prompt and reply tokens; None where the endpoint
        reports none.
        """
        sent, received = (sum(pair[column] or 0 for pair in tokens) for column in (0, 1))
        missing = sum(None in pair for pair in tokens)
        return cls(
            title,
            len(tokens),
            sent,
            received,
            model,
            f"{missing} replies without counts" if missing else "",
        )

    def describe(self, about: str = "", most: str = "") -> str:
        """Return the numbers in words, with a word before those of prompts and replies."""
        requests = "" if self.requests is None else f"{self.requests:,} requests, "
        tokens = (
            f"{about}{self.prompt_tokens:,} prompt tokens, {most}{self.reply_tokens:,} reply tokens"
        )
        if self.expected is not None:
            tokens += f" (expected: ~{self.expected:,}, from {self.stored:,} stored replies)"
        return f"{requests}{tokens} of {self.model}{self.unknown and f' and {self.unknown}'}"


@dataclass
class Verdicts:
    """Numbers of a model's replies that can be read, that cannot, and of the latter those cut off
    at the limit.
    """

    readable: int = 0
    unreadable: int = 0
    cut: int = 0


@dataclass
class Asking:
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
        self._prices: dict[str, _Price] = {}
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
            content = parse_record(str(self.prices), read_text(self.prices, "prices"))
            self._prices = read_as(dict[str, _Price], str(self.prices), content)

    def price(self, model: str) -> _Price:
        """Return the price of a model; raise `LmmsEgoplanError` if the price file lacks it."""
        if model not in self._prices:
            raise LmmsEgoplanError(
                f"{self.prices}: no price for {model}; it lists {', '.join(self._prices)}"
            )
        return self._prices[model]

    def cost(self, model: str, prompt_tokens: int | None, reply_tokens: int | None) -> float | None:
        """Return the cost of a request; None without a file of prices, or if a number of tokens is
        unknown.
        """
        if not self.prices or prompt_tokens is None or reply_tokens is None:
            return None
        price = self.price(model)
        return (prompt_tokens * price.input + reply_tokens * price.output) / (
            2e6 if self.batch else 1e6
        )

    def highest_cost(self, model: str, prompt: Prompt, max_tokens: int) -> float:
        """Return the cost of a request whose reply reaches its token limit; 0 without a limit on
        the cost.
        """
        return (
            (self.cost(model, prompt_tokens(prompt), max_tokens) or 0.0)
            if self.max_cost is not None
            else 0.0
        )

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
        about, most = ("~", "at most ") if self.is_estimate else ("", "")
        requests, sent, received = (
            sum(int(step[column] or 0) for step in self.steps) for column in (1, 2, 3)
        )
        models, unknown = (
            ", ".join({str(step[i]): 0 for step in self.steps if step[i]}) for i in (4, 5)
        )
        asked = [step for step in self.steps if step.requests]
        is_expected = bool(asked) and all(step.expected is not None for step in asked)
        expected = sum(step.expected or 0 for step in asked) if is_expected else None
        total = Step(
            "Total",
            requests or None,
            sent,
            received,
            models,
            unknown,
            expected=expected,
            stored=sum(step.stored for step in self.steps),
        )
        for step in (*self.steps, total):
            typer.echo(f"{step.title}: {step.describe(about, most)}")
        if self.is_estimate:
            typer.echo(
                "Cached replies are not counted, nor second requests after an unusable reply. "
                "Prompt tokens are "
                f"approximate; an image counts as {IMAGE_TOKENS}. Expected reply tokens: the mean "
                "of stored replies of "
                "the same endpoint and model to prompts that begin alike, if there are any."
            )
        if self.prices:
            million, half = (2e6, " (half as much as live)") if self.batch else (1e6, "")
            for_prompts = (
                sum(step.prompt_tokens * self.price(step.model).input for step in self.steps)
                / million
            )
            for_replies = (
                sum(step.reply_tokens * self.price(step.model).output for step in self.steps)
                / million
            )
            price = f"{about}{for_prompts:,.2f} for prompts, {most}{for_replies:,.2f} for replies"
            if is_expected:
                likely = (
                    sum((step.expected or 0) * self.price(step.model).output for step in asked)
                    / million
                )
                price += f" (expected: ~{likely:,.2f}, so ~{for_prompts + likely:,.2f} in all)"
            typer.echo(
                f"Price: {price}, by {self.prices}{half}{unknown and f', without {unknown}'}"
            )

    def expectation(self, first: Step, requests: int, max_tokens: int) -> str:
        """Describe the expected cost of a run by the mean of its first replies, next to the bound.

        Args:
            first: The first replies, with known tokens.
            requests: Number of requests of the run.
            max_tokens: Token limit of a reply.
        """
        sent, received = (requests * tokens / (first.requests or 1) for tokens in first[2:4])
        text = (
            f"{first.title}: by the first {first.requests} replies, {requests:,} requests take "
            f"~{sent:,.0f} prompt "
            f"tokens and ~{received:,.0f} reply tokens, at most {requests * max_tokens:,}"
        )
        if self.prices:
            price, million = self.price(first.model), 2e6 if self.batch else 1e6
            cost = (sent * price.input + received * price.output) / million
            most = (sent * price.input + requests * max_tokens * price.output) / million
            text += f"; price ~{cost:,.2f}, at most {most:,.2f}, by {self.prices}"
        return text

    def finish(self) -> None:
        """Print the cost.

        Raise `LmmsEgoplanError` if more than `MOST_LOST` of the prompts have no usable reply.
        """
        self.print_cost()
        if self.lost > MOST_LOST * self.asked:
            raise LmmsEgoplanError(
                f"{self.lost} of {self.asked} prompts have no usable reply, more than "
                f"{MOST_LOST:.0%}. The output is "
                "written without them; its rejections give the reasons. To request them again, "
                "use --retry-rejected"
            )


def prompt_tokens(prompt: Prompt) -> int:
    """Estimate the tokens of a prompt, with pieces similar to those of GPT-4's tokenizer.

    >>> prompt_tokens(Prompt("00:00:01.50 | open the refrigerator"))
    12
    """
    words = (piece[1] or "" for piece in _PIECE.finditer(prompt.system + prompt.text))
    tokens = sum(math.ceil(len(word.encode()) / _WORD_BYTES) or 1 for word in words)
    return tokens + IMAGE_TOKENS * len(prompt.images)


def written_path(out: Path, unjudged: int) -> Path:
    """Return the output path of judged answers.

    An incomplete result does not replace an existing file.
    """
    return out.with_name(f"{out.name}.partial") if unjudged and out.exists() else out


def end(written: Path, unjudged: int, total: int, scope: str = "") -> None:
    """Print the name of the output file.

    Args:
        written: the output file.
        unjudged: number of answers without a rating.
        total: number of answers.
        scope: text after "are not judged", such as " in each repeat".

    Raises:
        LmmsEgoplanError: some answers are not judged.
    """
    typer.echo(f"Written to {written}")
    if unjudged:
        raise LmmsEgoplanError(
            f"{unjudged} of {total} answers are not judged{scope} ({written} lists the reasons). "
            "Rerun the command to "
            "request them again, unless a reason says otherwise"
        )
