"""How one command asks a language model: what it may ask again, what it would cost, and how much it may lose."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.validation import Checked, Expected, read_as

# A command exits with 1 if a larger share of its prompts has no usable reply.
MOST_LOST = 0.1
# An estimate for an image: gpt-4o takes 765 tokens for one of 513 to 1024 pixels (85, and 170 for each of 4 tiles).
IMAGE_TOKENS = 765
# Tokens that a model's prompt and reply may have together, where its maker publishes it.
_CONTEXTS: dict[str, int] = yaml_beside(__file__)
# Pieces like those of GPT-4's tokenizer; a long word has several tokens.
_PIECE = re.compile(r"([^\W\d_]+)|\d{1,3}|[^\w\s]{1,4}|_+|\s*\n\s*|[^\S\n]{2,}")
_WORD_BYTES = 8

_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("a price for a million tokens, from 0")]


class _Price(Checked):
    input: _Amount
    output: _Amount


RetryRejected = Annotated[
    bool,
    typer.Option("--retry-rejected", help="Ask again for replies in the cache that were rejected; keep all others."),
]
EstimateOnly = Annotated[
    bool, typer.Option("--estimate", help="Print the number of requests and tokens, send nothing, and exit.")
]
Prices = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --estimate: prices of a million tokens, as JSON or YAML: `MODEL: {input: 2.5, output: 10}`.",
        show_default=False,
    ),
]


@dataclass
class Asking:
    """The options of one command that asks a language model, and the counts of what it asks.

    Attributes:
        retry_rejected: Whether rejected replies in the cache are requested again.
        is_estimate: Whether nothing is sent.
        prices: File with prices by model.
        asked: Prompts that need a reply in JSON.
        lost: Those of them without a usable reply.
        model: The model of an estimate.
        steps: Of an estimate: title, requests, prompt tokens and most reply tokens of each step.
    """

    retry_rejected: bool = False
    is_estimate: bool = False
    prices: Path | None = None
    asked: int = 0
    lost: int = 0
    model: str | None = None
    steps: list[tuple[str, int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.prices and not self.is_estimate:
            raise LmmsEgoplanError("--prices needs --estimate")
        self._prices = read_prices(self.prices) if self.prices else {}

    def add(self, title: str, prompts: Sequence[Prompt], model: str, max_tokens: int) -> None:
        """Count the prompts that a step would send."""
        self.model = model
        self.steps.append((title, len(prompts), sum(map(prompt_tokens, prompts)), len(prompts) * max_tokens))

    def finish_estimate(self) -> None:
        """Print the estimate and exit; do nothing if none was asked for.

        Raises:
            LmmsEgoplanError: the file of prices lacks the model.
            typer.Exit: the estimate is printed.
        """
        if not self.is_estimate:
            return
        if self.prices and self.model and self.model not in self._prices:
            raise LmmsEgoplanError(
                f"{self.prices}: no price of the model {self.model}; it has {', '.join(self._prices)}"
            )
        requests, sent, received = (sum(step[index] for step in self.steps) for index in (1, 2, 3))
        for step in [*self.steps, ("Total", requests, sent, received)]:
            typer.echo("{}: {:,} requests, ~{:,} prompt tokens, at most {:,} reply tokens".format(*step))
        typer.echo(
            f"Model: {self.model}. Not counted: replies in the cache, and a second request for a reply that cannot be "
            f"used. Prompt tokens are an approximation; an image counts as {IMAGE_TOKENS}. Nothing was sent."
        )
        if price := self._prices.get(self.model or ""):
            costs = sent * price.input / 1e6, received * price.output / 1e6
            typer.echo("Price: ~{:,.2f} for prompts, at most {:,.2f} for replies, by {}".format(*costs, self.prices))
        raise typer.Exit

    def check_losses(self) -> None:
        """Raise `LmmsEgoplanError` if more than `MOST_LOST` of the prompts have no usable reply."""
        if self.lost > MOST_LOST * self.asked:
            raise LmmsEgoplanError(
                f"{self.lost} of {self.asked} prompts have no usable reply, more than {MOST_LOST:.0%}. The output is "
                "written without them; its rejections say why. --retry-rejected asks for them again"
            )


def read_prices(path: Path) -> dict[str, _Price]:
    """Read prices by model from a JSON or YAML file.

    Raises:
        LmmsEgoplanError: the file cannot be read or has another form; names the file and the field.
    """
    try:
        content = yaml.safe_load(read_text(path, "prices"))
    except yaml.YAMLError as error:
        raise LmmsEgoplanError(f"{path}: neither JSON nor YAML: {' '.join(str(error).split())}") from error
    return read_as(dict[str, _Price], str(path), content)


def prompt_tokens(prompt: Prompt) -> int:
    """Approximate the tokens of a prompt, by pieces like those of GPT-4's tokenizer.

    >>> prompt_tokens(Prompt("00:00:01.50 | open the refrigerator"))
    12
    """
    words = (piece[1] or "" for piece in _PIECE.finditer(prompt.text))
    tokens = sum(math.ceil(len(word.encode()) / _WORD_BYTES) or 1 for word in words)
    return tokens + IMAGE_TOKENS * len(prompt.images)


def too_long(model: str, prompts: Sequence[Prompt], max_tokens: int) -> tuple[int, int | None]:
    """Count prompts that probably exceed the model's context with their reply; also return the context, if known."""
    context = _CONTEXTS.get(model)
    return sum(prompt_tokens(prompt) + max_tokens > context for prompt in prompts) if context else 0, context
