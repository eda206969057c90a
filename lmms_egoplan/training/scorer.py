"""Score the answers of a batch of questions with the trained module."""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from transformers import PreTrainedModel

from lmms_egoplan.ranking import CandidateRanker, decoder
from lmms_egoplan.ranking.question import EncodedQuestion, on_device
from lmms_egoplan.ranking.scores import float32_logits
from lmms_egoplan.training.passes import AnswerPasses, kind

logger = logging.getLogger(__name__)

Way = Literal["auto", "shared", "separate"]


class AnswerScorer(nn.Module):
    """A vision-language model as a module that maps questions to scores.

    A launcher thus sees one call per pass. All questions of a call whose inputs are of one kind
    (`passes.kind`) are rows of one padded batch.

    Args:
        model: The vision-language model; it may contain adapters.
        frozen: Names of modules that stay in evaluation mode, such as a frozen encoder.
        way: ``shared`` has one row per question, with all of its candidates; ``separate`` one row
            per candidate. ``auto`` is shared until `check` finds it inexact.
        is_padded: Whether questions share padded batches. Otherwise each row has its own pass.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        frozen: Iterable[str] = (),
        way: Way = "auto",
        *,
        is_padded: bool = True,
    ) -> None:
        super().__init__()
        decoder.keep_fractions(model)
        self.model = model
        self.way: Literal["shared", "separate"] = "separate" if way == "separate" else "shared"
        self.is_padded = is_padded
        self._is_forced = way != "auto"
        self._frozen = tuple(frozen)
        self._passes = AnswerPasses(model)

    def forward(self, questions: Sequence[EncodedQuestion]) -> list[list[torch.Tensor]]:
        """Return each candidate's mean log-probability per token (eq. 4) in nats, by question."""
        by_kind: dict[Any, list[int]] = {}
        for index, question in enumerate(questions):
            by_kind.setdefault(kind(question), []).append(index)
        scores: dict[int, list[torch.Tensor]] = {}
        for indices in by_kind.values():
            batch = [self._on_device(questions[index]) for index in indices]
            for index, logprobs in zip(indices, self._logprobs(batch), strict=True):
                scores[index] = [tokens.mean() for tokens in logprobs]
        return [scores[index] for index in range(len(questions))]

    def train(self, mode: bool = True) -> "AnswerScorer":  # noqa: FBT001, FBT002 - torch's
        """Set the mode. Frozen modules stay in evaluation mode."""
        super().train(mode)
        for name in self._frozen:
            self.model.get_submodule(name).eval()
        return self

    def check(self, processor: Any, *batches: Sequence[EncodedQuestion]) -> None:
        """Compare shared rows and padded batches with `CandidateRanker` on questions.

        Switch to separate rows, or to a pass for every row, if they differ.

        Args:
            processor: The model's processor.
            batches: Questions of the same `passes.kind`, each with at least two candidates.

        Raises:
            RankingError: The model cannot score a question at all.
        """
        was_training = self.training
        self.eval()
        ranker = CandidateRanker(self.model, processor)
        for questions in batches:
            self._check(ranker, [self._on_device(question) for question in questions])
        self.train(was_training)

    def _check(self, ranker: CandidateRanker, questions: Sequence[EncodedQuestion]) -> None:
        expected = []
        tolerance = 0.0
        for question in questions:
            ranked = ranker.score_encoded(question)
            use = ranked[0].use
            assert use is not None
            assert use.tolerance is not None
            tolerance = max(tolerance, use.tolerance)
            expected += [-score.nll for score in ranked]
        if self.way == "shared":
            rows = [[question] for question in questions]
            problem = self._difference(rows, expected, tolerance)
            if problem and not self._is_forced:
                logger.warning("Using a separate row for every answer: %s", problem)
                self.way = "separate"
            elif problem:
                logger.warning("answer_passes: shared is not exact for this model: %s", problem)
        if self.is_padded:
            batch = questions if self.way == "shared" else _separated(questions)
            problem = self._difference([batch], expected, tolerance)
            if problem:
                logger.warning(
                    "Using a separate pass for every question, because padded batches are not "
                    "exact for this model: %s",
                    problem,
                )
                self.is_padded = False

    @torch.no_grad()
    def _difference(
        self,
        batches: Sequence[Sequence[EncodedQuestion]],
        expected: Sequence[float],
        tolerance: float,
    ) -> str | None:
        """Return how the scores of these batches differ from the expected ones; None if not."""
        scores = []
        try:
            with float32_logits(self.model):
                for batch in batches:
                    for logprobs in self._passes.logprobs(batch):
                        scores += [tokens.mean().item() for tokens in logprobs]
        except decoder.UnsupportedPathError as error:
            return str(error)
        except (RuntimeError, ValueError, IndexError) as error:  # raised by models
            return str(error).partition("\n")[0]
        largest = max(abs(a - b) for a, b in zip(scores, expected, strict=True))
        if largest <= tolerance:  # false for NaN
            return None
        return f"scores differ by {largest:.2g} nats"

    def _logprobs(self, questions: Sequence[EncodedQuestion]) -> list[list[torch.Tensor]]:
        """Score questions of one kind."""
        if self.way == "shared":
            try:
                return self._row_logprobs(questions)
            except decoder.UnsupportedPathError:
                if self._is_forced:
                    raise
        answers = iter(self._row_logprobs(_separated(questions)))
        return [[next(answers)[0] for _ in question.candidates] for question in questions]

    def _row_logprobs(self, rows: Sequence[EncodedQuestion]) -> list[list[torch.Tensor]]:
        """Score rows in one pass if possible, otherwise each in its own pass."""
        if self.is_padded and len(rows) > 1:
            with suppress(decoder.UnsupportedPathError):
                return self._passes.logprobs(rows)
        return [self._passes.logprobs([row])[0] for row in rows]

    def _on_device(self, question: EncodedQuestion) -> EncodedQuestion:
        return replace(question, inputs=on_device(question.inputs, self.model))


def _separated(questions: Sequence[EncodedQuestion]) -> list[EncodedQuestion]:
    """Return one question per candidate."""
    return [
        replace(question, candidates=[candidate])
        for question in questions
        for candidate in question.candidates
    ]
