"""What is asked of a judge, and what it says."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class JudgeRequest:
    """One answer to be judged.

    id: names the answer where the judge refuses it.
    prompt: everything that the judge model is told, one user message.
    reference, answer: what the prompt compares, for a judge that reads no prompts.
    images: data URLs of what the judge is shown before the text, in their order.
    """

    id: str
    prompt: str
    reference: str
    answer: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """One user message: images, as data URLs, before a text."""

    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class RatingScale:
    """How ratings are read, and their range.

    read: the rating in a verdict, or None if there is none; gets text without a model's thinking.
    best: the highest rating; the lowest is 0.
    """

    read: Callable[[str], float | None]
    best: float


@dataclass(frozen=True)
class Judgement:
    """What became of one request.

    rating: on the scale; None if the judge gave none.
    reply: raw text of the judge's last reply; None if none came.
    judge: the model, as the endpoint names it in its reply; as it was asked for where none came.
    error: why there is no rating; None if there is one.
    cached: whether the reply comes from the cache.
    prompt_tokens, completion_tokens: as the endpoint counts them for this reply; None where it does not tell.
    seconds: from the request to the reply; None where none came.
    """

    rating: float | None
    reply: str | None
    judge: str
    error: str | None = None
    cached: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
