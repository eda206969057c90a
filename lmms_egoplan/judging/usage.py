"""Count the requests and tokens of a command's steps, and describe their cost."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.prices import PriceList

# A run logs its expected cost after this many replies, and again as they double.
FIRST_REPLIES = 20
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
class Step:
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
    def of_replies(cls, title: str, tokens: Sequence[ReplyTokens], model: str) -> "Step":
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


def _unique(names: Iterable[str]) -> str:
    """Join names in their order, each once, without empty ones."""
    return ", ".join(dict.fromkeys(name for name in names if name))


def total_step(steps: Sequence[Step]) -> Step:
    """Return the sum of several steps.

    Reply tokens are expected if they are expected for every step that has requests.
    """
    asked = [step for step in steps if step.requests]
    expected = None
    if asked and all(step.expected is not None for step in asked):
        expected = sum(step.expected or 0 for step in asked)
    return Step(
        "Total",
        requests=sum(step.requests or 0 for step in steps) or None,
        prompt_tokens=sum(step.prompt_tokens for step in steps),
        reply_tokens=sum(step.reply_tokens for step in steps),
        model=_unique(step.model for step in steps),
        unknown=_unique(step.unknown for step in steps),
        expected=expected,
        stored=sum(step.stored for step in steps),
    )


def cost_lines(
    steps: Sequence[Step], prices: PriceList | None, *, is_estimate: bool, batch: bool
) -> Iterator[str]:
    """Yield lines about the requests and tokens of steps, and about their price.

    The price comes last, if there is a file of prices.

    Raises:
        LmmsEgoplanError: the price file lacks a model. All other lines are yielded before.
    """
    total = total_step(steps)
    for step in (*steps, total):
        yield f"{step.title}: {step.describe(is_estimate=is_estimate)}"
    if is_estimate:
        yield (
            "Cached replies are not counted, nor second requests after an unusable reply. Prompt "
            f"tokens are approximate; an image counts as {IMAGE_TOKENS}. Expected reply tokens: "
            "the mean of stored replies of the same endpoint and model to prompts that begin "
            "alike, if there are any."
        )
    if prices is not None:
        price = _price(steps, total, prices, is_estimate=is_estimate)
        line = f"Price: {price}, by {prices.file}"
        if batch:
            line += " (half as much as live)"
        if total.unknown:
            line += f", without {total.unknown}"
        yield line


def _price(steps: Sequence[Step], total: Step, prices: PriceList, *, is_estimate: bool) -> str:
    """Describe the price of steps: for prompts, for replies, and the expected price if known."""
    prompt_costs = [step.prompt_tokens * prices.price(step.model).input for step in steps]
    reply_costs = [step.reply_tokens * prices.price(step.model).output for step in steps]
    for_prompts = sum(prompt_costs) / prices.tokens
    for_replies = sum(reply_costs) / prices.tokens
    if is_estimate:
        text = f"~{for_prompts:,.2f} for prompts, at most {for_replies:,.2f} for replies"
    else:
        text = f"{for_prompts:,.2f} for prompts, {for_replies:,.2f} for replies"
    if total.expected is not None:
        asked = [step for step in steps if step.requests]
        expected_costs = [(step.expected or 0) * prices.price(step.model).output for step in asked]
        expected = sum(expected_costs) / prices.tokens
        text += f" (expected: ~{expected:,.2f}, so ~{for_prompts + expected:,.2f} in all)"
    return text


def expectation(first: Step, prices: PriceList | None, requests: int, max_tokens: int) -> str:
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
