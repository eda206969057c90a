"""What is asked of a judge, and what it says; and a judge that compares words, to try the suite without an endpoint."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DEMO = "demo"

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class JudgeRequest:
    """One answer to be judged.

    id: names the answer where the judge refuses it.
    prompt: everything that the judge model is told, one user message.
    reference, answer: what the prompt compares, for a judge that reads no prompts.
    images: data URLs of what the judge is shown before the text, in their order.
    repeat: 0, or more where the same is asked again on purpose, to see how far ratings differ.
    """

    id: str
    prompt: str
    reference: str
    answer: str
    images: tuple[str, ...] = ()
    repeat: int = 0


@dataclass(frozen=True)
class Prompt:
    """One user message, images, as data URLs, before a text; and which time it is asked, from 0.

    schema: JSON schema of the reply, for endpoints that support one; part of no comparison and of no cache key.
    """

    text: str
    images: tuple[str, ...] = ()
    repeat: int = 0
    schema: Mapping[str, Any] | None = field(default=None, compare=False)


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

    rating: on the scale; None if the judge gave none, or none was asked for.
    reply: raw text of the judge's last reply; None if none came.
    judge: the model, as the endpoint names it in its reply; as it was asked for where none came.
    error: why there is no rating, or no whole reply where none was asked for; None if there is one.
    cached: whether the reply comes from the cache.
    prompt_tokens, completion_tokens: as the endpoint counts them for this reply; None where it does not tell.
    seconds: from the request to the reply; None where none came.
    finish: why the reply ends, as the endpoint says it, "" where it does not; ``"length"`` where the limit on tokens
        ended it. None where none came, or one came from a cache that does not tell.
    endpoint: the address that was asked.
    prompt: text of what was asked, for a reply; images are in the cache's key alone.
    max_tokens: limit of the requests; None for a reply from the cache.
    time: of storing, of a reply in ISO 8601, of a failure in seconds since the epoch; None before.
    """

    rating: float | None
    reply: str | None
    judge: str
    error: str | None = None
    cached: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    finish: str | None = None
    endpoint: str = ""
    prompt: str | None = None
    max_tokens: int | None = field(default=None, compare=False)
    time: str | float | None = field(default=None, compare=False)


def judge_by_words(request: JudgeRequest, best: float) -> Judgement:
    """Compare the words of answer and reference; case and punctuation do not count.

    Returns:
        A judgement by ``"demo"``: `best` where the words are the same in the same order, half of it where some are
        in common, else 0.
    """
    answer, reference = (_WORD.findall(text.casefold()) for text in (request.answer, request.reference))
    common = (Counter(answer) & Counter(reference)).total()
    if answer == reference:
        rating, verdict = best, "the words are those of the reference"
    else:
        rating = best / 2 if common else 0.0
        verdict = f"{common} of {len(answer)} words are among the reference's {len(reference)}"
    return Judgement(rating=rating, reply=f"Word comparison: {verdict}. Rating: [[{rating:g}]]", judge=DEMO)
