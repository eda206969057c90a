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


def expectation(
    replies: StepUsage,
    prices: PriceList | None,
    *,
    prompts: int,
    requests: float,
    max_tokens: int,
) -> str:
    """Describe the expected cost of a step by the mean of its replies, next to the bound.

    Args:
        replies: The replies so far, with known tokens.
        prices: The prices; None if they are unknown.
        prompts: Number of prompts of the step. The bound counts each of them once.
        requests: Expected number of requests, with repeats.
        max_tokens: Token limit of a reply.
    """
    num_replies = replies.requests or 1
    mean_sent = replies.prompt_tokens / num_replies
    mean_received = replies.reply_tokens / num_replies
    sent = requests * mean_sent
    received = requests * mean_received
    most_received = prompts * max_tokens
    text = (
        f"{replies.title}: expected by the mean of {num_replies:,} replies, for all {prompts:,} "
        f"prompts: ~{sent:,.0f} prompt tokens and ~{received:,.0f} reply tokens, at most "
        f"{most_received:,}"
    )
    if prices is not None:
        cost = prices.cost(replies.model, sent, received)
        most = prices.cost(replies.model, prompts * mean_sent, most_received)
        text += f"; expected price ~{cost:,.2f}, at most {most:,.2f}, by {prices.file}"
    return text
