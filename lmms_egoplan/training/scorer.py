"""The module that is trained: it scores the answers of a batch of questions."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from transformers import PreTrainedModel

from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.decoder import UnsupportedPathError
from lmms_egoplan.ranking.equivalence import FLOAT32_TOLERANCE, HALF_PRECISION_TOLERANCE
from lmms_egoplan.ranking.precision import float32_logits
from lmms_egoplan.ranking.question import EncodedQuestion, on_device
from lmms_egoplan.ranking.video_seconds import keep_fractions
from lmms_egoplan.training.answers import AnswerPasses
from lmms_egoplan.training.loss import mean_logprob

logger = logging.getLogger(__name__)

Way = Literal["auto", "shared", "separate"]


class AnswerScorer(nn.Module):
    """A vision-language model as a module from questions to scores, so that one call is one pass for a launcher.

    Args:
        model: the vision-language model; adapters may stand in it.
        frozen: names of its modules that stay in evaluation mode, such as a frozen encoder.
        way: of `AnswerPasses`. ``auto`` stays shared until `check` finds that this is not exact.
    """

    def __init__(self, model: PreTrainedModel, frozen: Iterable[str] = (), way: Way = "auto") -> None:
        super().__init__()
        keep_fractions(model)
        self.model = model
        self.way: Literal["shared", "separate"] = "separate" if way == "separate" else "shared"
        self._is_forced = way != "auto"
        self._frozen = tuple(frozen)
        self._passes = AnswerPasses(model)

    def forward(self, questions: Sequence[EncodedQuestion]) -> list[list[torch.Tensor]]:
        """Score each candidate of each question: its mean log-probability of a token (eq. 4), nats."""
        return [[mean_logprob(logprobs) for logprobs in self._logprobs(question)] for question in questions]

    def train(self, mode: bool = True) -> "AnswerScorer":  # noqa: FBT001, FBT002 - torch's
        """Set the mode, except for what is frozen, which stays in evaluation mode."""
        super().train(mode)
        for name in self._frozen:
            self.model.get_submodule(name).eval()
        return self

    def check(self, processor: Any, *questions: EncodedQuestion) -> None:
        """Compare shared passes with `CandidateRanker` on questions; take separate ones where they differ.

        Args:
            questions: one of each kind of media, with two candidates at least, else shared passes share nothing.

        Raises:
            RankingError: the model cannot score a question at all, or only separately where shared passes are forced.
        """
        was_training = self.training
        self.eval()
        ranker = CandidateRanker(self.model, processor)
        for question in questions:
            self._check(ranker, question)
        self.train(was_training)

    def _check(self, ranker: CandidateRanker, question: EncodedQuestion) -> None:
        question = replace(question, inputs=on_device(question.inputs, self.model))
        expected = [-score.nll for score in ranker.score_encoded(question)]
        tolerance = FLOAT32_TOLERANCE if self.model.dtype == torch.float32 else HALF_PRECISION_TOLERANCE
        if self.way == "shared":
            try:
                with torch.no_grad(), float32_logits(self.model):
                    own = [mean_logprob(logprobs).item() for logprobs in self._passes.shared(question)]
                difference = max(abs(one - other) for one, other in zip(own, expected, strict=True))
                problem = None if difference <= tolerance else f"scores differ by {difference:.2g} nats"
            except UnsupportedPathError as error:
                problem = str(error)
            if problem and not self._is_forced:
                logger.warning("Every answer takes a pass of its own, since %s", problem)
                self.way = "separate"
            elif problem:
                logger.warning("answer_passes: shared is not exact for this model: %s", problem)

    def _logprobs(self, question: EncodedQuestion) -> list[torch.Tensor]:
        question = replace(question, inputs=on_device(question.inputs, self.model))
        if self.way == "shared":
            try:
                return self._passes.shared(question)
            except UnsupportedPathError:
                if self._is_forced:
                    raise
        return self._passes.separate(question)
