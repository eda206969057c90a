"""Equivalence of computation paths: whether one gives what full passes give, on a question at hand."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from lmms_egoplan.ranking.decoder import UnsupportedPathError
from lmms_egoplan.ranking.precision import rounded_at_random
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion, RankingError
from lmms_egoplan.ranking.scores import CandidateScore, Passes, differences, lead

# Largest difference of a mean loss, nats, between a path and a full pass: what rounding makes of equal sums.
FLOAT32_TOLERANCE = 1e-4

HALF_PRECISION_TOLERANCE = 2e-2
# In half precision a path may differ by so many times the model's own rounding noise, and never by more than 2e-2.
NOISE_FACTOR = 4

# The most that a path may differ by to be chosen in half precision; later audits, which are many, allow 2e-2.
SETTLING_TOLERANCE = 1e-2

# Difference of the two best mean losses, nats, from which on a path must find the same best candidate.
CLEAR_LEAD = 1e-2

# Tokens of the candidates that are added to a question to check a path: rows long enough to exercise it.
PROBE_LENGTHS = (12, 9)

_SHORTEST_PROBE = 3
_PROBE_TEXTS = (
    "open the drawer, take the clean spoon and put it on the table next to the cup of coffee",
    "wash both hands with warm water, then dry them and switch off the light in the hall",
)

_MODEL_ERRORS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Outcome:
    """What came of a path on one question.

    difference: the largest of a mean loss from the full passes, nats; infinite where the path gave no numbers.
    problem: why the path cannot be taken, whatever the difference; None if there is nothing.
    scores: those of the path; None if it gave no numbers.
    """

    difference: float
    problem: str | None = None
    scores: Sequence[CandidateScore] | None = None


class PathChecker:
    """Computes a question by full passes and by other paths, and says how far they lie apart.

    Args:
        model, passes: of one model.
        tokenise: the ids of a text's ordinary tokens.
    """

    def __init__(self, model: PreTrainedModel, passes: Passes, tokenise: Callable[[str], list[int]]) -> None:
        self._model, self._passes = model, passes
        self._texts = [tokenise(text) for text in _PROBE_TEXTS]
        self._noise = 0.0
        self._seed = 0

    @property
    def tolerance(self) -> float:
        """Largest accepted difference of a mean loss, nats, as far as the noise has been measured."""
        if self._model.dtype.itemsize >= 4:
            return FLOAT32_TOLERANCE
        return min(HALF_PRECISION_TOLERANCE, NOISE_FACTOR * self._noise)

    @property
    def measures_noise(self) -> bool:
        """The tolerance depends on the noise: in half precision."""
        return self._model.dtype.itemsize < 4

    def probes(self, room: int | None) -> list[CandidateTokens]:
        """Return candidates of ordinary words, of at most `room` tokens; none if that is too few."""
        lengths = [length if room is None else min(length, room) for length in PROBE_LENGTHS]
        if min(lengths) < _SHORTEST_PROBE or not all(self._texts):
            return []
        return [
            CandidateTokens([text[index % len(text)] for index in range(length)], first=0)
            for text, length in zip(self._texts, lengths, strict=True)
        ]

    def check_causality(self, question: EncodedQuestion, scores: Sequence[CandidateScore]) -> None:
        """Compare the first half of each candidate with a pass without the rest; what differs is rounding noise.

        Args:
            question: with the candidates to try.
            scores: of full passes.

        Raises:
            RankingError: it differs by more, so a candidate's tokens see the tokens behind them.
        """
        limit = FLOAT32_TOLERANCE
        if self.measures_noise:
            limit = max(HALF_PRECISION_TOLERANCE, 2 * self._noise)
        for candidate, score in zip(question.candidates, scores, strict=True):
            half = score.num_tokens // 2
            if not half:
                continue
            begin = CandidateTokens(candidate.tokens[: candidate.first + half], candidate.first)
            alone = self._passes.full_pass(question, begin)
            difference = abs(sum(alone.token_logprobs) - sum(score.token_logprobs[:half])) / half
            if not difference <= limit:
                raise RankingError(
                    f"{self._model.config.model_type}: a candidate's tokens see the tokens behind them (question "
                    f"{question.question_id}: a mean loss changes by {difference:.2g} nats with what follows), so that "
                    "a full pass gives no likelihood; this model cannot be ranked"
                )
            self._noise = max(self._noise, difference)

    def measure_noise(self, question: EncodedQuestion, scores: Sequence[CandidateScore]) -> None:
        """Compute full passes of a question's candidates again, rounded at random. `scores` are those without."""
        self._seed += 1
        with rounded_at_random(self._model, self._seed):
            again = self._passes.full(question)
        self._noise = max(self._noise, *filter(math.isfinite, differences(scores, again)), 0.0)

    def compare(self, path: str, question: EncodedQuestion, reference: Sequence[CandidateScore]) -> Outcome:
        """Compute a question on a path, and compare it with the full passes' scores."""
        try:
            scores = getattr(self._passes, path)(question)
        except torch.OutOfMemoryError:
            raise
        except UnsupportedPathError as error:
            return Outcome(math.inf, str(error))
        except _MODEL_ERRORS as error:
            return Outcome(math.inf, f"{type(error).__name__}: {error}")
        differing = differences(scores, reference)
        largest = math.inf if any(map(math.isnan, differing)) else max(differing)
        if lead(reference) > CLEAR_LEAD and _argmin(scores) != _argmin(reference):
            return Outcome(largest, "another candidate is the best", scores)
        return Outcome(largest, None, scores)

    def is_near_tie(self, scores: Sequence[CandidateScore]) -> bool:
        """Return whether the best mean loss leads by less than twice the tolerance, or a score is not a number.

        In half precision the tolerance is 2e-2 as long as no noise has been measured.
        """
        tolerance = self.tolerance or HALF_PRECISION_TOLERANCE
        return not lead(scores) >= 2 * tolerance or any(math.isnan(score.nll) for score in scores)

    def objection(
        self,
        outcomes: Sequence[Outcome],
        question: EncodedQuestion,
        reference: Sequence[CandidateScore],
        at_most: float = math.inf,
    ) -> str | None:
        """Return why a path with these outcomes is not exact; None if it is.

        Before the noise alone decides, it is measured on a question's own candidates, too.

        Args:
            reference: scores of the question by full passes.
            at_most: for choosing a path: the most that it may differ by, nats, whatever the noise; it must then find
                the same best candidate, too, where that leads by `CLEAR_LEAD`.
        """
        largest = max(outcome.difference for outcome in outcomes)
        problem = next((outcome.problem for outcome in outcomes if outcome.problem), None)
        if self.measures_noise and self.tolerance < largest <= HALF_PRECISION_TOLERANCE:
            self.measure_noise(question, reference)
        tolerance = min(self.tolerance, at_most)
        if largest == math.inf and problem:
            return problem
        if largest <= tolerance:
            return problem if at_most < math.inf else None
        return f"a mean loss differs from a full pass by {largest:.2g} nats, more than {tolerance:.2g}"


def _argmin(scores: Sequence[CandidateScore]) -> int:
    return min(range(len(scores)), key=lambda index: scores[index].nll)
