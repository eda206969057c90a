"""Check whether a computation path reproduces the scores of full passes.

The rules:

1. One full pass per candidate is the reference. What is compared are mean losses, in nats.
2. The unit is the noise: the largest change of a mean loss when full passes are rearranged without
   changing their meaning, by masked tokens next to the context. It grows with every measurement,
   and each kind of questions has its own.
3. Other tokens may also have effects that are not rounding: some models do not ignore masked
   tokens, and in some, tokens see later ones. The scale for such effects needs no other tokens: the
   output of every layer is rounded at random. If masked tokens have far more effect than that,
   random rounding measures the noise instead. If later tokens have more effect, there is no
   likelihood, and the model is refused.
4. A path is exact if no mean loss differs by more than the tolerance: twice the noise, but at least
   `EQUAL`. Before a path is rejected, the noise is measured again, more thoroughly, on the
   question's own candidates.
5. The first question of a kind decides its path. If the tolerance is above `EQUAL`, as in half
   precision, noise may be large and rare: rounding may choose other experts of a mixture. Four
   questions then decide together.
6. Two probes, which are candidates of ordinary words, are compared on these questions, too. Short
   candidates would not exercise masks and positions.

`lmms_egoplan.ranking.audits` says which questions are compared, and what follows.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.ranking.decoder import UnsupportedPathError
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion, RankingError
from lmms_egoplan.ranking.scores import CandidateScore, Passes, differences

# Mean losses that differ by at most this, nats, are equal in any precision. It allows for rounding
# in float32.
EQUAL = 1e-4

# A path may differ from full passes by at most this multiple of the noise.
NOISE_FACTOR = 2

# Masked tokens measure noise if they change a mean loss by at most this multiple of the effect of
# random rounding. Random rounding alone would be a poor unit. In bfloat16, on the models of the
# tests, its effect is 2 to 5 times that of masked tokens without experts, so that it would hide
# inexact paths. With 128 experts it is smaller, and correct paths differ by up to twice as much.
MASK_FACTOR = 10

# Number of questions that decide a path together, if the noise exceeds rounding in float32.
QUESTIONS = 4

# Numbers of masked tokens in the full passes that measure noise on each of these questions. 16
# often change no bit.
PADDINGS = ((5, 13), (8, 2), (3, 11), (1, 7))

# Numbers of masked tokens in the passes that decide whether an apparently inexact path is within
# the noise.
ALL_PADDINGS = tuple(range(1, 16))

# Lengths, in tokens, of the extra candidates that check a path: long enough to exercise it.
PROBE_LENGTHS = (12, 9)

_SHORTEST_PROBE = 3
_ROUNDINGS = 3
_PROBE_TEXTS = (
    "open the drawer, take the clean spoon and put it on the table next to the cup of coffee",
    "wash both hands with warm water, then dry them and switch off the light in the hall",
)

_MODEL_ERRORS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """Result of a path on one question.

    Attributes:
        difference: Largest difference of a mean loss from the full passes, nats; infinite if the
            path failed.
        problem: Why the path failed; None if it did not.
        scores: Scores of the path; None if it failed.
    """

    difference: float
    problem: str | None = None
    scores: Sequence[CandidateScore] | None = None


@dataclass
class PathTrials:
    """Results of the fast paths on the questions that decide a kind's path.

    Attributes:
        count: Number of these questions so far.
        outcomes: Results of each path, two per question: on its candidates alone, and together with
            the probes.
    """

    count: int = 0
    outcomes: dict[str, list[PathOutcome]] = field(default_factory=dict)


@dataclass
class _MaskedTokens:
    """The answer to whether a model ignores masked tokens, except for rounding; None if unknown."""

    are_ignored: bool | None = None


class PathChecker:
    """Compare the scores of a path with those of full passes, by the rules of this module.

    Each kind of questions has its own: noise of one kind may be a wrong path in another.

    Args:
        model: The model.
        passes: The model's ways to score a question.
        tokenise: Returns the IDs of a text's ordinary tokens.

    Attributes:
        noise: The noise measured so far, nats; None before the first measurement.
    """

    def __init__(
        self, model: PreTrainedModel, passes: Passes, tokenise: Callable[[str], list[int]]
    ) -> None:
        self._model = model
        self._passes = passes
        self._texts = [tokenise(text) for text in _PROBE_TEXTS]
        self._masked_tokens = _MaskedTokens()
        self.noise: float | None = None

    def for_kind(self) -> "PathChecker":
        """Return a checker for another kind of the model's questions, without noise so far."""
        checker = copy(self)
        checker.noise = None
        return checker

    @property
    def tolerance(self) -> float:
        """Largest accepted difference of a mean loss, nats, for the noise measured so far."""
        return max(EQUAL, NOISE_FACTOR * (self.noise or 0))

    @property
    def is_half_precision(self) -> bool:
        """True if rounding is coarse, so that full passes are no more exact than other paths."""
        return self._model.dtype.itemsize < 4

    def probes(self, room: int | None) -> list[CandidateTokens]:
        """Return candidates of ordinary words with at most `room` tokens.

        Empty if that is too short.
        """
        lengths = [length if room is None else min(length, room) for length in PROBE_LENGTHS]
        if min(lengths) < _SHORTEST_PROBE or not all(self._texts):
            return []
        return [
            CandidateTokens(self._words(index, length), first=0)
            for index, length in enumerate(lengths)
        ]

    def try_paths(
        self,
        paths: Sequence[str],
        question: EncodedQuestion,
        reference: Sequence[CandidateScore],
        probes: Sequence[CandidateTokens],
        trials: PathTrials,
    ) -> dict[str, str | None] | None:
        """Try paths on one more question of a kind.

        Args:
            paths: The paths.
            question: The question.
            reference: Its scores from full passes.
            probes: See `probes`.
            trials: The kind's earlier results, to which this adds.

        Returns:
            Why each path is not exact, or None for an exact path; None if more questions are
            needed.

        Raises:
            RankingError: The model's tokens see later ones.
        """
        only_probes = replace(question, candidates=[*probes])
        probed = self._passes.full(only_probes)
        trial = replace(question, candidates=[*question.candidates, *probes])
        trial_reference = [*reference, *probed]
        if trials.count == 0:
            self._check_causality(only_probes, probed)
        paddings = PADDINGS[trials.count]
        if self.is_half_precision:
            self.measure_noise(trial, trial_reference, paddings)
        else:
            self.measure_noise(only_probes, probed, paddings)
        for path in paths:
            outcomes = trials.outcomes.setdefault(path, [])
            outcomes.append(self.compare(path, question, reference))
            outcomes.append(self.compare(path, trial, trial_reference))
        trials.count += 1
        needed = QUESTIONS if self.tolerance > EQUAL else 1
        if paths and trials.count < needed:
            return None
        return {
            path: self.objection(trials.outcomes[path], trial, trial_reference) for path in paths
        }

    def measure_noise(
        self,
        question: EncodedQuestion,
        scores: Sequence[CandidateScore],
        paddings: Sequence[int] = PADDINGS[0],
    ) -> None:
        """Measure how much masked tokens change the mean losses of full passes.

        Measure nothing if a loss is infinite or NaN.

        Args:
            question: The question.
            scores: Its scores from full passes.
            paddings: Numbers of masked tokens.
        """
        if not all(math.isfinite(score.logprob) for score in scores):
            return
        if self._masked_tokens.are_ignored is None:
            last = replace(question, candidates=question.candidates[-1:])
            self._masked_tokens.are_ignored = self._ignores_masked_tokens(last, scores[-1:])
        changes = [self.noise or 0.0]
        if self._masked_tokens.are_ignored:
            for padding in paddings:
                changes += differences(scores, self._passes.full(question, self._words(0, padding)))
        else:
            changes.append(self._rounding(question, scores))
        self.noise = max(filter(math.isfinite, changes))

    def compare(
        self, path: str, question: EncodedQuestion, reference: Sequence[CandidateScore]
    ) -> PathOutcome:
        """Score a question on a path and compare the result with the scores of full passes."""
        try:
            scores = self._passes.score(path, question)
        except torch.OutOfMemoryError:
            raise
        except UnsupportedPathError as error:
            return PathOutcome(math.inf, str(error))
        except _MODEL_ERRORS as error:
            return PathOutcome(math.inf, f"{type(error).__name__}: {error}")
        loss_differences = differences(scores, reference)
        largest = math.inf if any(map(math.isnan, loss_differences)) else max(loss_differences)
        return PathOutcome(largest, None, scores)

    def objection(
        self,
        outcomes: Sequence[PathOutcome],
        question: EncodedQuestion,
        reference: Sequence[CandidateScore],
    ) -> str | None:
        """Return why a path with these outcomes is not exact; None if it is.

        If a difference exceeds the tolerance, noise is first measured again on the question's own
        candidates.

        Args:
            outcomes: Results of the path.
            question: The question.
            reference: The question's scores from full passes.
        """
        problem = next((outcome.problem for outcome in outcomes if outcome.problem), None)
        if problem:
            return problem
        largest = max(outcome.difference for outcome in outcomes)
        if self.tolerance < largest < math.inf:
            self.measure_noise(question, reference, ALL_PADDINGS)
        if largest <= self.tolerance:
            return None
        return (
            f"a mean loss differs from a full pass by {largest:.2g} nats, more than "
            f"{self.tolerance:.2g}"
        )

    def _check_causality(self, question: EncodedQuestion, scores: Sequence[CandidateScore]) -> None:
        """Replace the second half of each candidate.

        The scores of the first half may change only by rounding.

        Args:
            question: The question, with probes as candidates.
            scores: Scores from full passes.

        Raises:
            RankingError: They change by more, so a candidate's tokens see later tokens.
        """
        swapped = []
        for index, candidate in enumerate(question.candidates):
            half = len(candidate.tokens) // 2
            other_words = self._words(index + 1, len(candidate.tokens) - half)
            tokens = [*candidate.tokens[:half], *other_words]
            swapped.append(replace(candidate, tokens=tokens))
        others = self._passes.full(replace(question, candidates=swapped))
        changes = differences(map(_first_half, scores), map(_first_half, others))
        if not self._is_rounding(changes, question, scores):
            raise RankingError(
                f"question {question.question_id}: {self._model.config.model_type} cannot be "
                "ranked: a candidate's tokens see the tokens after them (later tokens change a "
                f"mean loss by {max(changes):.2g} nats), so a full pass gives no likelihood. Use "
                "another model"
            )

    def _ignores_masked_tokens(
        self, question: EncodedQuestion, scores: Sequence[CandidateScore]
    ) -> bool:
        """Return whether masked tokens, and their number, have no effect but rounding."""
        try:
            one, other = (
                self._passes.full(question, self._words(index, PADDINGS[0][0]))
                for index in range(2)
            )
        except torch.OutOfMemoryError:
            raise
        except _MODEL_ERRORS:
            return False
        changes = [*differences(one, other), *differences(scores, one)]
        return self._is_rounding(changes, question, scores, MASK_FACTOR)

    def _is_rounding(
        self,
        changes: Sequence[float],
        question: EncodedQuestion,
        scores: Sequence[CandidateScore],
        factor: float = NOISE_FACTOR,
    ) -> bool:
        """Return whether rounding explains changes of mean losses that other tokens caused.

        Args:
            changes: The changes, nats.
            question: The question.
            scores: Its scores from full passes.
            factor: Largest multiple of the effect of random rounding that they may have.
        """
        return max(changes) <= EQUAL or max(changes) <= factor * self._rounding(question, scores)

    def _rounding(self, question: EncodedQuestion, scores: Sequence[CandidateScore]) -> float:
        """Return the largest change of a mean loss, nats, by random rounding of layers' outputs."""
        changes = [0.0]
        # Paths share the images' encoding, so that its rounding does not matter.
        text_model = self._model.get_decoder()
        for seed in range(_ROUNDINGS):
            with _rounded_at_random(text_model, seed):
                changes += differences(scores, self._passes.full(question))
        return max(filter(math.isfinite, changes))

    def _words(self, index: int, length: int) -> list[int]:
        """Return ordinary tokens of one of the two texts, repeated if needed."""
        text = self._texts[index % len(self._texts)] or [0]
        return [text[position % len(text)] for position in range(length)]


def _first_half(score: CandidateScore) -> CandidateScore:
    return replace(score, token_logprobs=score.token_logprobs[: score.num_tokens // 2])


@contextmanager
def _rounded_at_random(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Change every entry of each layer's output by up to half a unit in the last place, at random.

    Repeating a pass then shows the model's rounding noise (Monte Carlo arithmetic). Layers are the
    entries of the model's ``ModuleList`` modules.
    """
    generators: dict[torch.device, torch.Generator] = {}

    def perturb(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        generator = generators.setdefault(
            value.device, torch.Generator(value.device).manual_seed(seed)
        )
        steps = torch.rand(value.shape, generator=generator, device=value.device) - 0.5
        return (value.float() * (1 + steps * torch.finfo(value.dtype).eps)).to(value.dtype)

    def move_output(_module: torch.nn.Module, _inputs: Any, output: Any) -> Any:
        if isinstance(output, tuple):
            return (perturb(output[0]), *output[1:])
        return perturb(output)

    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, torch.nn.ModuleList):
                for layer in module:
                    hooks.enter_context(layer.register_forward_hook(move_output))
        yield
