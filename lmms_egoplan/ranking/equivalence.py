"""Check whether a computation path reproduces the scores of full passes on a question."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from lmms_egoplan.ranking.decoder import UnsupportedPathError
from lmms_egoplan.ranking.precision import rounded_at_random
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion, RankingError
from lmms_egoplan.ranking.scores import CandidateScore, Passes, differences, lead

# Largest difference of mean losses, nats, between a path and a full pass that rounding can explain.
FLOAT32_TOLERANCE = 1e-4

# In half precision, a path may differ by NOISE_FACTOR times the model's rounding noise, but never by more than 2e-2.
HALF_PRECISION_TOLERANCE = 2e-2
NOISE_FACTOR = 4

# Largest difference, in nats, with which a path is chosen in half precision. There are many audits, so they allow more.
SETTLING_TOLERANCE = 1e-2

# If the two best mean losses differ by more than this, in nats, a path must find the same best candidate.
CLEAR_LEAD = 1e-2

# Lengths, in tokens, of the extra candidates that check a path: long enough to exercise it.
PROBE_LENGTHS = (12, 9)

_SHORTEST_PROBE = 3
_PROBE_TEXTS = (
    "open the drawer, take the clean spoon and put it on the table next to the cup of coffee",
    "wash both hands with warm water, then dry them and switch off the light in the hall",
)

_MODEL_ERRORS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Outcome(NamedTuple):
    """Result of a path on one question.

    Attributes:
        difference: Largest difference of a mean loss from the full passes, nats; infinite if the path failed.
        problem: Why the path is not usable regardless of the difference; None if it is.
        scores: Scores of the path; None if it failed.
    """

    difference: float
    problem: str | None = None
    scores: Sequence[CandidateScore] | None = None


class PathChecker:
    """Compare the scores of a path with those of full passes.

    Args:
        model: The model.
        passes: The model's ways to score a question.
        tokenise: Returns the IDs of a text's ordinary tokens.
    """

    def __init__(self, model: PreTrainedModel, passes: Passes, tokenise: Callable[[str], list[int]]) -> None:
        self._model, self._passes = model, passes
        self._texts = [tokenise(text) for text in _PROBE_TEXTS]
        self._noise = 0.0
        self._seed = 0

    @property
    def tolerance(self) -> float:
        """Largest accepted difference of a mean loss, nats, for the noise measured so far."""
        if self._model.dtype.itemsize >= 4:
            return FLOAT32_TOLERANCE
        return min(HALF_PRECISION_TOLERANCE, NOISE_FACTOR * self._noise)

    @property
    def measures_noise(self) -> bool:
        """True if the tolerance depends on the noise, as in half precision."""
        return self._model.dtype.itemsize < 4

    def probes(self, room: int | None) -> list[CandidateTokens]:
        """Return candidates of ordinary words with at most `room` tokens; empty if that is too short."""
        lengths = [length if room is None else min(length, room) for length in PROBE_LENGTHS]
        if min(lengths) < _SHORTEST_PROBE or not all(self._texts):
            return []
        return [
            CandidateTokens([text[index % len(text)] for index in range(length)], first=0)
            for text, length in zip(self._texts, lengths, strict=True)
        ]

    def check_causality(self, question: EncodedQuestion, scores: Sequence[CandidateScore]) -> None:
        """Compare the first half of each candidate with a pass over this half only; measure the noise.

        Args:
            question: The question, with the candidates to check.
            scores: Scores from full passes.

        Raises:
            RankingError: The difference exceeds rounding noise, so a candidate's tokens see later tokens.
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
                    f"question {question.question_id}: {self._model.config.model_type} cannot be ranked: a candidate's "
                    f"tokens see the tokens after them (later tokens change a mean loss by {difference:.2g} nats), so "
                    "a full pass gives no likelihood. Use another model"
                )
            self._noise = max(self._noise, difference)

    def measure_noise(self, question: EncodedQuestion, scores: Sequence[CandidateScore]) -> None:
        """Measure rounding noise: repeat full passes with random rounding and compare them with `scores`."""
        self._seed += 1
        with rounded_at_random(self._model, self._seed):
            noisy_scores = self._passes.full(question)
        self._noise = max(self._noise, *filter(math.isfinite, differences(scores, noisy_scores)), 0.0)

    def compare(self, path: str, question: EncodedQuestion, reference: Sequence[CandidateScore]) -> Outcome:
        """Score a question on a path and compare the result with the scores of full passes."""
        try:
            scores = getattr(self._passes, path)(question)
        except torch.OutOfMemoryError:
            raise
        except UnsupportedPathError as error:
            return Outcome(math.inf, str(error))
        except _MODEL_ERRORS as error:
            return Outcome(math.inf, f"{type(error).__name__}: {error}")
        loss_differences = differences(scores, reference)
        largest = math.inf if any(map(math.isnan, loss_differences)) else max(loss_differences)
        if lead(reference) > CLEAR_LEAD and _argmin(scores) != _argmin(reference):
            return Outcome(largest, "a different candidate is best", scores)
        return Outcome(largest, None, scores)

    def is_near_tie(self, scores: Sequence[CandidateScore]) -> bool:
        """Return whether the best mean loss leads by less than twice the tolerance, or a score is NaN.

        In half precision, the tolerance is 2e-2 until noise has been measured.
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

        If the difference exceeds the tolerance but not 2e-2, noise is first measured again on the question's own
        candidates.

        Args:
            outcomes: Results of the path.
            question: The question for measuring noise.
            reference: The question's scores from full passes.
            at_most: For choosing a path: largest allowed difference, nats, regardless of the noise. The path must then
                also find the same best candidate if that leads by `CLEAR_LEAD`.
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
