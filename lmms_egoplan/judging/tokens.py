"""Count the tokens of requests, and sum them by step of a command."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.prices import PriceList

# Estimated tokens of an image: gpt-4o uses 765 for 513 to 1024 pixels (85, plus 170 for each of 4
# tiles).
IMAGE_TOKENS = 765
# Pieces similar to those of GPT-4's tokenizer. A long word counts as several tokens.
_PIECE = re.compile(
    r"""
    ([^\W\d_]+)         # a word
    | \d{1,3}           # up to three digits
    | [^\w\s]{1,4}      # up to four signs
    | _+
    | \s*\n\s*          # a line break with the whitespace around it
    | [^\S\n]{2,}       # several blanks
    """,
    re.VERBOSE,
)
_WORD_BYTES = 8


def prompt_tokens(prompt: Prompt) -> int:
    """Estimate the tokens of a prompt, with pieces similar to those of GPT-4's tokenizer.

    >>> prompt_tokens(Prompt("00:00:01.50 | open the refrigerator"))
    12
    """
    tokens = IMAGE_TOKENS * len(prompt.images)
    for piece in _PIECE.finditer(prompt.system + prompt.text):
        word = piece[1] or ""
        tokens += math.ceil(len(word.encode()) / _WORD_BYTES) or 1
    return tokens


@dataclass(frozen=True)
class ReplyTokens:
    """The prompt and reply tokens of a request; None where the endpoint reports none."""

    prompt: int | None
    reply: int | None

    @property
    def is_known(self) -> bool:
        """True if both numbers are known."""
        return self.prompt is not None and self.reply is not None

    @classmethod
    def total(cls, requests: Sequence["ReplyTokens"]) -> "ReplyTokens":
        """Return the sums over several requests; None if a number is unknown."""
        return cls(
            _sum_of_known([tokens.prompt for tokens in requests]),
            _sum_of_known([tokens.reply for tokens in requests]),
        )


def _sum_of_known(numbers: Sequence[int | None]) -> int | None:
    """Return a sum; None if a number is unknown."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total


@dataclass(frozen=True)
class StepUsage:
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
    def of_replies(cls, title: str, tokens: Sequence[ReplyTokens], model: str) -> "StepUsage":
        """Return a step of replies with these tokens."""
        num_unknown = sum(not reply.is_known for reply in tokens)
        return cls(
            title,
            requests=len(tokens),
            prompt_tokens=sum(reply.prompt or 0 for reply in tokens),
            reply_tokens=sum(reply.reply or 0 for reply in tokens),
            model=model,
            unknown=f"{num_unknown} replies without counts" if num_unknown else "",
        )

    def describe(self, *, is_estimate: bool = False) -> str:
        """Return the numbers in words."""
        requests = "" if self.requests is None else f"{self.requests:,} requests, "
        prompt_tokens = f"{self.prompt_tokens:,} prompt tokens"
        reply_tokens = f"{self.reply_tokens:,} reply tokens"
        if is_estimate:
            prompt_tokens = f"~{prompt_tokens}"
            reply_tokens = f"at most {reply_tokens}"
        text = f"{requests}{prompt_tokens}, {reply_tokens}"
        if self.expected is not None:
            text += f" (expected: ~{self.expected:,}, from {self.stored:,} stored replies)"
        text += f" of {self.model}"
        if self.unknown:
            text += f" and {self.unknown}"
        return text


def _unique(names: Iterable[str]) -> str:
    """Join names in their order, each once, without empty ones."""
    return ", ".join(dict.fromkeys(name for name in names if name))


def total_usage(steps: Sequence[StepUsage]) -> StepUsage:
    """Return the sum of several steps.

    Reply tokens are expected if they are expected for every step that has requests.
    """
    asked = [step for step in steps if step.requests]
    expected = None
    if asked and all(step.expected is not None for step in asked):
        expected = sum(step.expected or 0 for step in asked)
    return StepUsage(
        "Total",
        requests=sum(step.requests or 0 for step in steps) or None,
        prompt_tokens=sum(step.prompt_tokens for step in steps),
        reply_tokens=sum(step.reply_tokens for step in steps),
        model=_unique(step.model for step in steps),
        unknown=_unique(step.unknown for step in steps),
        expected=expected,
        stored=sum(step.stored for step in steps),
    )


def expectation(first: StepUsage, prices: PriceList | None, requests: int, max_tokens: int) -> str:
    """Describe the expected cost of a run by the mean of its first replies, next to the bound.

    Args:
        first: The first replies, with known tokens.
        prices: The prices; None if they are unknown.
        requests: Number of requests of the run.
        max_tokens: Token limit of a reply.
    """
    sent = requests * first.prompt_tokens / (first.requests or 1)
    received = requests * first.reply_tokens / (first.requests or 1)
    most_received = requests * max_tokens
    text = (
        f"{first.title}: by the first {first.requests} replies, {requests:,} requests take "
        f"~{sent:,.0f} prompt tokens and ~{received:,.0f} reply tokens, at most {most_received:,}"
    )
    if prices is not None:
        price = prices.price(first.model)
        cost = (sent * price.input + received * price.output) / prices.tokens
        most = (sent * price.input + requests * max_tokens * price.output) / prices.tokens
        text += f"; price ~{cost:,.2f}, at most {most:,.2f}, by {prices.file}"
    return text
