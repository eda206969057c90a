"""Define the options of a command that asks a language model, and what it counts."""

from dataclasses import dataclass, field
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.endpoint import LearntForms
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.limits import Limits
from lmms_egoplan.judging.prices import ModelPrice, PriceList
from lmms_egoplan.judging.tokens import StepUsage, prompt_tokens
from lmms_egoplan.judging.variables import MAX_COST, MAX_REQUESTS, PRICES


@dataclass(frozen=True)
class LlmOptions:
    """Options of one command that asks a language model.

    Attributes:
        retry_rejected: If True, ask again where the cached reply was rejected.
        is_estimate: If True, send nothing.
        prices: Prices by model; None if they are unknown.
        batch: If True, use the batches of the endpoint, for half the price.
        probes: If True, test the model with one request, in the form of the first prompts. Prompts
            with a schema need a test with one.
        max_requests: Maximum number of requests; None for no limit.
        max_cost: Maximum cost, in the currency of the prices; None for no limit.

    Raises:
        LmmsEgoplanError: the prices are missing, although the cost has a limit; or the limit on
            requests allows only the test request.
    """

    retry_rejected: bool = False
    is_estimate: bool = False
    prices: PriceList | None = None
    batch: bool = False
    probes: bool = False
    max_requests: int | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        if self.probes and self.max_requests == 1:
            raise LmmsEgoplanError(
                f"--max-requests ({MAX_REQUESTS}) is 1; set at least 2: one is the test request"
            )
        if self.max_cost is not None and self.prices is None:
            raise LmmsEgoplanError(
                f"--max-cost ({MAX_COST}) needs a file of prices; set --prices ({PRICES})"
            )

    def price(self, model: str) -> ModelPrice:
        """Return the price of a model; raise `LmmsEgoplanError` if there is none."""
        if self.prices is None:
            raise LmmsEgoplanError(f"No price for {model}; set --prices ({PRICES})")
        return self.prices.price(model)

    def cost(self, model: str, prompt_tokens: int | None, reply_tokens: int | None) -> float | None:
        """Return the cost of a request.

        Returns None without a file of prices, or if a number of tokens is unknown.
        """
        if self.prices is None or prompt_tokens is None or reply_tokens is None:
            return None
        return self.prices.cost(model, prompt_tokens, reply_tokens)

    def highest_cost(self, model: str, prompt: Prompt, max_tokens: int) -> float:
        """Return the cost of a request whose reply reaches its token limit.

        Returns 0 without a limit on the cost.
        """
        if self.max_cost is None:
            return 0.0
        return self.cost(model, prompt_tokens(prompt), max_tokens) or 0.0


@dataclass
class Verdicts:
    """Counts of a model's replies.

    Attributes:
        readable: Number of replies that can be read.
        unreadable: Number of replies that cannot.
        cut: Number of the replies that the token limit ended.
    """

    readable: int = 0
    unreadable: int = 0
    cut: int = 0


@dataclass
class LlmUsage:
    """Counts and findings of one command, or of the judged tasks of one run.

    Attributes:
        options: The options of the command.
        tested_forms: Whether the prompts had a schema, for each test request; see
            `LlmOptions.probes`.
        asked: Number of prompts that need a JSON reply.
        lost: Number of these prompts without a usable reply.
        steps: Steps with the requests of this run, or of the estimate.
        verdicts: The replies so far by model and way of reading them.
        learnt: Forms of requests that the models were found to need.
        limits: The requests and the cost so far, and their limits.
    """

    options: LlmOptions = LlmOptions()
    tested_forms: set[bool] = field(default_factory=set)
    asked: int = 0
    lost: int = 0
    steps: list[StepUsage] = field(default_factory=list)
    verdicts: dict[Any, Verdicts] = field(default_factory=dict)
    learnt: LearntForms = field(default_factory=LearntForms)
    limits: Limits = field(init=False)

    def __post_init__(self) -> None:
        self.limits = Limits(self.options.max_requests, self.options.max_cost)
