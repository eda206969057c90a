"""Define protocols, requests and judgements, and a demo judge that compares words."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DEMO = "demo"
# Name of a benchmark's default protocol.
DEFAULT_PROTOCOL = "paper"

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class JudgeRequest:
    """One answer to rate.

    Attributes:
        id: Names the answer in messages.
        prompt: Full text of the prompt, sent as one user message.
        reference: Reference answer, for the demo judge, which reads no prompts.
        answer: The model's answer, also for the demo judge.
        images: Data URLs of the images that precede the text, in order.
        repeat: Repetition number. Above 0 for deliberate repeats that measure how much ratings
            vary.
        system: See `Prompt`.
        protocol: See `Prompt`.
    """

    id: str
    prompt: str
    reference: str
    answer: str
    images: tuple[str, ...] = ()
    repeat: int = 0
    system: str = ""
    protocol: str = ""


@dataclass(frozen=True)
class Prompt:
    """A system message if there is one, and one user message: images, then text.

    Attributes:
        text: Text of the message.
        images: Data URLs of the images.
        repeat: Repetition number, from 0.
        schema: JSON schema of the reply, for endpoints that support one. Ignored in comparisons and
            cache keys.
        system: Text of the system message; "" for none.
        protocol: Name of the judge's protocol; "" if it follows from the text. Each protocol has
            its own cache entries.
    """

    text: str
    images: tuple[str, ...] = ()
    repeat: int = 0
    schema: Mapping[str, Any] | None = field(default=None, compare=False)
    system: str = ""
    protocol: str = ""


@dataclass(frozen=True)
class RatingScale:
    """A range of ratings and the function that reads them.

    Attributes:
        read: Return the rating in a verdict, or None if it has none. The text is without the
            model's thinking.
        best: The highest rating. The lowest is 0.
    """

    read: Callable[[str], float | None]
    best: float


@dataclass(frozen=True, kw_only=True)
class JudgeProtocol:
    """How a judge rates the answers of a benchmark: messages, parameters, reader and scale.

    Attributes:
        name: Name in options, records, results and reports.
        prompt: Template of the user's message. The benchmark names its fields.
        scale: Reads the ratings.
        system: Text of the system message; "" for none.
        parameters: Parameters of the request that the protocol fixes. The environment takes
            precedence.
        max_tokens: Token limit of a reply; None for the project's default. The environment takes
            precedence.
        sanitizes: Whether the judge sees answers altered by `sanitize`.
        failed: What a failed judgement counts as, on the scale; None if the mean excludes it.
        normalise: Converts a reference before it is put in the prompt.
    """

    name: str
    prompt: str
    scale: RatingScale
    system: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    sanitizes: bool = True
    failed: float | None = None
    normalise: Callable[[str], str] = str


def version_under(protocol: str | None, version: Any, preset: str = "") -> Any:
    """Return the version of a task whose answers are judged under a protocol.

    Args:
        protocol: Name of the protocol; None if unknown, which means the default. It does not change
            the version.
        version: Version of the task, with or without the names of another protocol and of a preset;
            a number, a text, or None if it is unknown and remains so.
        preset: Name of the preset of the prompts and the decoding; "" for the one in `version`, if
            it has one.

    >>> version_under("authors", 1.3), version_under("paper", 1.3)
    ('1.3-authors', 1.3)
    >>> version_under("paper", "1.3-lmms-eval-0.7.3")
    '1.3'
    >>> version_under("authors", 1.3, "official"), version_under("paper", "1.3-authors+official")
    ('1.3-authors+official', '1.3+official')
    """
    base = base_version(version)
    preset = preset or str(version).partition("+")[2]
    suffix = ""
    if protocol not in (None, DEFAULT_PROTOCOL):
        suffix += f"-{protocol}"
    if preset:
        suffix += f"+{preset}"
    if base is None or not suffix:
        return base
    return f"{base}{suffix}"


def base_version(version: Any) -> Any:
    """Return the version of a task without the names of a judge's protocol and of a preset.

    >>> base_version("1.4-authors+official"), base_version("1.4+official")
    ('1.4', '1.4')
    >>> base_version("1.4"), base_version(1.4)
    ('1.4', 1.4)
    """
    if isinstance(version, str):
        return re.split("[-+]", version, maxsplit=1)[0]
    return version


@dataclass(frozen=True)
class Judgement:
    """The outcome of one request.

    Attributes:
        rating: Rating on the scale; None if the judge gave none or none was requested.
        reply: Raw text of the judge's last reply; None without a reply.
        judge: The model that the endpoint names in its reply; the requested model without a reply.
        error: Why there is no rating, or no complete reply if no rating was requested; None on
            success.
        cached: True for a reply from the cache.
        prompt_tokens: Prompt tokens as the endpoint counts them; None if not reported.
        completion_tokens: Reply tokens, with those of reasoning that the endpoint counts
            separately; None if not reported.
        seconds: Time from request to reply; None without a reply.
        finish: The endpoint's finish reason; "" if it reports none. ``"length"`` if the token limit
            ended the reply, ``"content_filter"`` also if a filter refused the prompt. None if the
            endpoint sent no completion, or if the cache did not store the reason.
        endpoint: Address of the endpoint.
        prompt: Text of the prompt, for a reply. Images are only part of the cache key.
        max_tokens: Token limit of the request; None for a reply from the cache.
        time: Time of storing: ISO 8601 for a reply, seconds since the epoch for a failure; None
            before.
        stated_tokens: The endpoint's ``completion_tokens``, which may be without reasoning; None
            for a reply from the cache.
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
    stated_tokens: int | None = field(default=None, compare=False)


def judge_by_words(request: JudgeRequest, best: float) -> Judgement:
    """Rate an answer by its words in common with the reference, ignoring case and punctuation.

    Returns:
        A judgement by ``"demo"``: `best` for the same words in the same order, half of it for any
        common word, else 0.
    """
    answer = _WORD.findall(request.answer.casefold())
    reference = _WORD.findall(request.reference.casefold())
    common = (Counter(answer) & Counter(reference)).total()
    if answer == reference:
        rating = best
        verdict = "the words are those of the reference"
    else:
        rating = best / 2 if common else 0.0
        verdict = f"{common} of {len(answer)} words are among the reference's {len(reference)}"
    return Judgement(
        rating=rating, reply=f"Word comparison: {verdict}. Rating: [[{rating:g}]]", judge=DEMO
    )
