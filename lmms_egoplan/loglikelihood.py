"""The text form in which a candidate's likelihood travels through an evaluation harness.

lmms-eval turns everything a model answers into text on its way to the scoring, and its response cache keeps
text only. So a candidate's score is a string here, JSON that says what it holds. Stock ``multiple_choice``
scoring, which unpacks each response into ``(loss, is_greedy)``, can unpack this string too, fresh from the
model; from the response cache it comes back as a plain string, which `parse_loglikelihood` alone reads.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Python's text of a pair, a list where it comes from the response cache; ``nan`` and ``inf`` are no literals.
_PAIR = re.compile(r"[(\[](?P<loss>[^,()\[\]]+), (?P<is_greedy>True|False)[)\]]")


@dataclass(frozen=True)
class Loglikelihood:
    """What a backend says of one candidate.

    loss: mean negative log-likelihood per candidate token, nats, lmms-eval's convention (lower is better);
        NaN where the backend could not score the candidate.
    num_tokens: tokens of the candidate, at least 1; None where the backend does not tell (stock backends).
    is_greedy: whether greedy decoding would produce the candidate; None where unknown.
    """

    loss: float
    num_tokens: int | None = None
    is_greedy: bool | None = None

    @property
    def logprob(self) -> float | None:
        """Sum of the candidate's token log-probabilities, nats; None without a token count."""
        return None if self.num_tokens is None else -self.loss * self.num_tokens


class LoglikelihoodText(str):
    """A candidate's score as JSON text that also unpacks into ``(loss, is_greedy)``.

    ``loss, is_greedy = LoglikelihoodText.encode(Loglikelihood(0.5, 3, False))`` gives ``0.5, False``.
    """

    __slots__ = ()

    def strip(self, chars: str | None = None) -> "LoglikelihoodText":
        """Itself: lmms-eval strips every response before it is scored, which would leave a plain string."""
        return self

    @classmethod
    def encode(cls, score: Loglikelihood) -> "LoglikelihoodText":
        fields = {"loss": score.loss, "num_tokens": score.num_tokens, "is_greedy": score.is_greedy}
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
    """
    parsed = _parse_text(response) if isinstance(response, str) else response
    match parsed:
        case {"loss": float() | int() as loss, **fields}:
            num_tokens, is_greedy = fields.get("num_tokens"), fields.get("is_greedy")
        case (float() | int() as loss, bool() as is_greedy):
            num_tokens = None
        case _:
            raise _unreadable(response)
    if isinstance(loss, bool) or not _is_count(num_tokens) or not isinstance(is_greedy, bool | None):
        raise _unreadable(response)
    try:
        return Loglikelihood(float(loss), num_tokens, is_greedy)
    except OverflowError as error:
        raise _unreadable(response) from error


def _parse_text(text: str) -> Any:
    if pair := _PAIR.fullmatch(text):
        try:
            return float(pair["loss"]), pair["is_greedy"] == "True"
        except ValueError:
            return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def _unreadable(response: Any) -> ValueError:
    return ValueError(
        f"a loglikelihood response must be (loss, is_greedy), got {response!r:.200}; the backend does not "
        "answer loglikelihood requests: use --model hf_vlm, or the egoplan_val_generate task"
    )
