"""The text form in which a candidate's likelihood travels through an evaluation harness.

lmms-eval turns everything a model answers into text on its way to the scoring, and its response cache keeps
text only. So a candidate's score is a string here, JSON that says what it holds. Stock ``multiple_choice``
scoring, which unpacks each response into ``(loss, is_greedy)``, can unpack this string too, fresh from the
model; from the response cache it comes back as a plain string, which `parse_loglikelihood` alone reads.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, PositiveInt, TypeAdapter

# Python's text of a pair, a list where it comes from the response cache; ``nan`` and ``inf`` are no literals.
_PAIR = re.compile(r"[(\[](?P<loss>[^,()\[\]]+), (?P<is_greedy>True|False)[)\]]")


@dataclass(frozen=True)
class PathUse:
    """How `lmms_egoplan.ranking.CandidateRanker` computed a question.

    path: ``packed``, ``cached``, ``shared`` or ``full``.
    kind: the questions that the path was chosen for: kinds of media, and limits of the model that they pass.
    audit: where full passes were computed, too, the largest difference of a mean loss from them, nats; else None.
    rejected: the paths that this question showed to be inexact for its kind.
    tolerance: the largest difference from a full pass that was accepted, nats; None in runs of earlier versions.
    near_tie: whether the best candidate leads by less than twice the tolerance, and no exact pass decided.
    note: what readers of the results must know of the backend.
    """

    path: str
    kind: str
    audit: float | None = None
    rejected: tuple[str, ...] = ()
    tolerance: float | None = None
    near_tie: bool = False
    note: str | None = None


@dataclass(frozen=True)
class Loglikelihood:
    """What a backend says of one candidate.

    loss: mean negative log-likelihood per candidate token, nats, lmms-eval's convention (lower is better);
        NaN where the backend could not score the candidate; None where only the sum is known.
    num_tokens: tokens of the candidate, at least 1; None where the backend does not tell (stock backends).
    is_greedy: whether greedy decoding would produce the candidate; None where unknown.
    logprob: sum of the candidate's token log-probabilities, nats, lm-eval's convention (higher is better); None where
        only the mean is known.
    use: how it was computed; None where the backend does not tell.

    Mean and sum follow from each other where the tokens are counted.

    >>> Loglikelihood(loss=0.5, num_tokens=3).logprob, Loglikelihood(None, num_tokens=3, logprob=-1.5).loss
    (-1.5, 0.5)
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
    """lm-eval's ``(logprob, is_greedy)`` with the candidate's ``num_tokens`` and the `PathUse`."""

    num_tokens: int
    use: PathUse | None

    def __new__(
        cls,
        logprob: float,
        is_greedy: bool,  # noqa: FBT001 - as lm-eval's cache has pickled it
        num_tokens: int,
        use: PathUse | None = None,
    ) -> "LoglikelihoodPair":
        """Make a pair."""
        self = super().__new__(cls, (logprob, is_greedy))
        self.num_tokens, self.use = num_tokens, use
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return LoglikelihoodPair, (*self, self.num_tokens, self.use)


class LoglikelihoodText(str):
    """A candidate's score as JSON text that also unpacks into ``(loss, is_greedy)``.

    ``loss, is_greedy = LoglikelihoodText.of(Loglikelihood(0.5, 3, False))`` gives ``0.5, False``.
    """

    __slots__ = ()

    def strip(self, _chars: str | None = None) -> "LoglikelihoodText":
        """Return the text itself: lmms-eval strips every response before scoring, which would make it plain."""
        return self

    @classmethod
    def of(cls, score: Loglikelihood) -> "LoglikelihoodText":
        """Write a score."""
        fields: dict[str, Any] = {"loss": score.loss, "num_tokens": score.num_tokens, "is_greedy": score.is_greedy}
        if score.loss is None:
            fields["logprob"] = score.logprob
        if score.use is not None:
            fields["use"] = asdict(score.use)
        return cls(json.dumps(fields))

    def __iter__(self) -> Iterator[Any]:
        score = parse_loglikelihood(str(self))
        return iter((score.loss, score.is_greedy))


def parse_loglikelihood(response: Any) -> Loglikelihood:
    """Read a response to a ``loglikelihood`` request, whichever backend gave it.

    Reads `LoglikelihoodText` (fresh or from the response cache), a ``(loss, is_greedy)`` pair and the text of
    such a pair, which is what a stock backend's answer has become when the scoring sees it.

    Raises:
        ValueError: the response is none of these.

    >>> parse_loglikelihood((0.5, False)).loss, parse_loglikelihood("(0.5, False)").loss
    (0.5, 0.5)
    >>> parse_loglikelihood('{"loss": 0.5, "num_tokens": 3, "is_greedy": false}').logprob
    -1.5
    """
    try:
        pair = _PAIR.fullmatch(response) if isinstance(response, str) else None
        value = (float(pair["loss"]), pair["is_greedy"] == "True") if pair else response
        found = _RESPONSE.validate_json(value if isinstance(value, str) else json.dumps(value))
        match found:
            case _Mean():
                return Loglikelihood(found.loss, found.num_tokens, found.is_greedy, use=found.use)
            case _Sum():
                return Loglikelihood(None, None, found.is_greedy, found.logprob, found.use)
        loss, is_greedy = found
        return Loglikelihood(loss, None, is_greedy)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(
            f"a loglikelihood response must be (loss, is_greedy), got {response!r:.200}; the backend does not "
            "answer loglikelihood requests: use --model hf_vlm, or a task whose name ends in _generate"
        ) from error


# A whole number beyond all floats is refused, where pydantic makes it infinite.
_Number = Annotated[float, BeforeValidator(lambda value: float(value) if type(value) is int else value)]


class _Mean(BaseModel, strict=True):
    """`LoglikelihoodText` where the mean is known."""

    loss: _Number
    num_tokens: PositiveInt | None = None
    is_greedy: bool | None = None
    use: PathUse | None = None


class _Sum(BaseModel, strict=True):
    """`LoglikelihoodText` where only the sum is known."""

    loss: None
    logprob: _Number
    num_tokens: None
    is_greedy: bool | None
    use: PathUse | None = None


_Response = _Mean | _Sum | tuple[_Number, bool]
_RESPONSE: TypeAdapter[_Response] = TypeAdapter(_Response, config={"strict": True})
