"""Encode a candidate's likelihood as text, to pass it through an evaluation harness.

lmms-eval converts every model response to text before scoring, and its response cache stores only
text. A candidate's score is therefore a JSON string. Stock ``multiple_choice`` scoring, which
unpacks each response into ``(loss, is_greedy)``, can unpack this string if it comes directly from
the model. From the response cache it returns as a plain string, which only `parse_loglikelihood`
can read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, PositiveInt, TypeAdapter

# Ends a candidate whose score includes the token that ends the assistant's turn: U+0003, END OF
# TEXT. Only this package's rankers read it. They never pass it to a tokenizer or a chat template.
END_OF_ANSWER = "\x03"

# A pair as Python prints it, or a list if it comes from the response cache. ``nan`` and ``inf`` are
# not literals.
_PAIR = re.compile(r"[(\[](?P<loss>[^,()\[\]]+), (?P<is_greedy>True|False)[)\]]")


@dataclass(frozen=True)
class PathUse:
    """How `lmms_egoplan.ranking.CandidateRanker` computed a question.

    Attributes:
        path: ``packed``, ``cached``, ``shared`` or ``full``.
        kind: Questions for which the path was chosen: their media, and the model's limits that they
            exceed.
        audit: Largest difference of a mean loss from full passes, nats; None if these were not
            computed.
        rejected: Paths that this question showed to be inexact for its kind.
        tolerance: Largest accepted difference from a full pass, nats; None in runs of earlier
            versions.
        near_tie: Whether rounding may change the best candidate. It leads by less than the noise,
            or, on vLLM, by less than twice the tolerance.
        note: Note about the backend for readers of the results.
        noise: Largest change of a mean loss by rounding that was measured so far, nats; None if it
            was not measured.
    """

    path: str
    kind: str
    audit: float | None = None
    rejected: tuple[str, ...] = ()
    tolerance: float | None = None
    near_tie: bool = False
    note: str | None = None
    noise: float | None = None


@dataclass(frozen=True)
class Loglikelihood:
    """A backend's score of one candidate.

    If the number of tokens is known, the mean and the sum are computed from each other.

    Attributes:
        loss: Mean negative log-likelihood per candidate token, nats; lower is better, as in
            lmms-eval. NaN if the backend could not score the candidate; None if only the sum is
            known.
        num_tokens: Number of tokens, at least 1; None if the backend does not report it (stock
            backends).
        is_greedy: Whether greedy decoding would produce the candidate; None if unknown.
        logprob: Sum of the token log-probabilities, nats; higher is better, as in lm-eval. None if
            only the mean is known.
        use: How the score was computed; None if the backend does not report it.

    >>> Loglikelihood(loss=0.5, num_tokens=3).logprob
    -1.5
    >>> Loglikelihood(None, num_tokens=3, logprob=-1.5).loss
    0.5
    """

    loss: float | None
    num_tokens: int | None = None
    is_greedy: bool | None = None
    logprob: float | None = None
    use: PathUse | None = None

    def __post_init__(self) -> None:
        if self.num_tokens is None:
            return
        if self.loss is None and self.logprob is not None:
            object.__setattr__(self, "loss", -self.logprob / self.num_tokens)
        if self.loss is not None:
            object.__setattr__(self, "logprob", -self.loss * self.num_tokens)


class LoglikelihoodPair(tuple[float, bool]):
    """lm-eval's ``(logprob, is_greedy)`` pair with what a run reports about it.

    ``--use_cache`` stores all of it.

    Attributes:
        num_tokens: Number of tokens of the candidate.
        use: How the score was computed.
        counts: Known counts of its question, such as the ``tokens`` of its context.
    """

    num_tokens: int
    use: PathUse | None
    counts: Mapping[str, int]

    def __new__(
        cls,
        logprob: float,
        is_greedy: bool,  # noqa: FBT001 - cached pickles pass it by position
        num_tokens: int,
        use: PathUse | None = None,
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> "LoglikelihoodPair":
        """Create a pair."""
        self = super().__new__(cls, (logprob, is_greedy))
        self.num_tokens = num_tokens
        self.use = use
        self.counts = dict(counts)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return LoglikelihoodPair, (*self, self.num_tokens, self.use, self.counts)


class LoglikelihoodText(str):
    """A candidate's score as JSON text that also unpacks into ``(loss, is_greedy)``.

    ``LoglikelihoodText.from_score(Loglikelihood(0.5, 3, False))`` unpacks into ``0.5, False``.
    """

    __slots__ = ()

    def strip(self, _chars: str | None = None) -> "LoglikelihoodText":
        """Return the object itself.

        lmms-eval strips every response, which would turn it into a plain string.
        """
        return self

    @classmethod
    def from_score(cls, score: Loglikelihood) -> "LoglikelihoodText":
        """Write a score."""
        fields: dict[str, Any] = {
            "loss": score.loss,
            "num_tokens": score.num_tokens,
            "is_greedy": score.is_greedy,
        }
        if score.loss is None:
            fields["logprob"] = score.logprob
        if score.use is not None:
            fields["use"] = asdict(score.use)
        return cls(json.dumps(fields))

    def __iter__(self) -> Iterator[Any]:
        score = parse_loglikelihood(str(self))
        return iter((score.loss, score.is_greedy))


def parse_loglikelihood(response: Any) -> Loglikelihood:
    """Parse a response to a ``loglikelihood`` request from any backend.

    Accepts `LoglikelihoodText` (from the model or the response cache), a ``(loss, is_greedy)``
    pair, and the text of such a pair, as scoring receives it from stock backends.

    Raises:
        ValueError: The response is none of these.

    >>> parse_loglikelihood((0.5, False)).loss, parse_loglikelihood("(0.5, False)").loss
    (0.5, 0.5)
    >>> parse_loglikelihood('{"loss": 0.5, "num_tokens": 3, "is_greedy": false}').logprob
    -1.5
    """
    try:
        pair = _PAIR.fullmatch(response) if isinstance(response, str) else None
        value = (float(pair["loss"]), pair["is_greedy"] == "True") if pair else response
        score = _RESPONSE.validate_json(value if isinstance(value, str) else json.dumps(value))
        match score:
            case _Mean():
                return Loglikelihood(score.loss, score.num_tokens, score.is_greedy, use=score.use)
            case _Sum():
                return Loglikelihood(None, None, score.is_greedy, score.logprob, score.use)
        loss, is_greedy = score
        return Loglikelihood(loss, None, is_greedy)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"a loglikelihood response must be (loss, is_greedy), got {response!r:.200}; the "
            "backend does not answer loglikelihood requests: use --model hf_vlm, or a task whose "
            "name ends in _generate"
        ) from error


# Reject integers too large for a float, which pydantic would turn into infinity.
_Number = Annotated[
    float, BeforeValidator(lambda value: float(value) if type(value) is int else value)
]


class _Mean(BaseModel, strict=True):
    """`LoglikelihoodText` with a known mean."""

    loss: _Number
    num_tokens: PositiveInt | None = None
    is_greedy: bool | None = None
    use: PathUse | None = None


class _Sum(BaseModel, strict=True):
    """`LoglikelihoodText` with only the sum known."""

    loss: None
    logprob: _Number
    num_tokens: None
    is_greedy: bool | None
    use: PathUse | None = None


_Response = _Mean | _Sum | tuple[_Number, bool]
_RESPONSE: TypeAdapter[_Response] = TypeAdapter(_Response, config={"strict": True})
