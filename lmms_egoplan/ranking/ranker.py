"""`CandidateRanker`: scores of candidate continuations, on the fastest path that is exact for the model."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.ranking.decoder import DecoderPasses, UnsupportedPathError
from lmms_egoplan.ranking.encoder_decoder import EncoderDecoderPasses, encoder_decoder_of
from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion, RankingError, check_length, on_device
from lmms_egoplan.ranking.scores import CandidateScore

logger = logging.getLogger(__name__)

FLOAT32_TOLERANCE = 1e-4
HALF_PRECISION_TOLERANCE = 2e-2
"""Largest difference of a mean loss, nats, between a fast path and a full pass: what rounding makes of equal sums."""

CLEAR_LEAD = 1e-2
"""Difference of the two best mean losses, nats, from which on a path must find the same best candidate."""

_MODEL_ERRORS = (
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


class CandidateRanker:
    """Ranks candidate continuations of a multimodal context by likelihood (EgoPlan-Bench, sec. 3.5 and eq. 4).

    Works with every model that ``AutoModelForImageTextToText`` loads. Vision encoder and context run once per question:

    - *packed* (decoder-only models with ``sdpa`` or ``eager`` attention: LLaVA, Qwen-VL, InternVL, SmolVLM, Gemma 3
      and most others): the candidates' tokens run in one further row on the context's cache, kept apart by a block
      attention mask; the context's keys and values exist once, however many candidates there are.
    - *cached* (flash attention, recurrent layers such as Qwen3.5's): each candidate runs on a copy of the cache, one
      copy at a time.
    - *shared* (encoder-decoder models: BLIP-2 and InstructBLIP with Flan-T5): the candidates are a batch of decoder
      rows over an expanded view of the encoder's output.
    - *full*: an independent pass per candidate; only where the faster paths are not exact.

    The first question of each kind (text, images, video) is computed both ways, with full passes too; the model gets
    the fastest path whose mean losses agree, and one warning if that is *full*. `paths` tells which.

    Args:
        model: a transformers vision-language model, in eval mode, on its device.
        processor: its processor.
        score_eos: add the token that ends the assistant's turn to every candidate.
        apply_chat_template: whether messages are rendered by the processor's chat template, where it has one.
    """

    def __init__(
        self, model: PreTrainedModel, processor: Any, score_eos: bool = False, apply_chat_template: bool = True
    ) -> None:
        self._model = model
        seq2seq = encoder_decoder_of(model)
        self._is_encoder_decoder = seq2seq is not None
        self._encoder = QuestionEncoder(processor, self._is_encoder_decoder, score_eos, apply_chat_template)
        self._passes = DecoderPasses(model) if seq2seq is None else EncoderDecoderPasses(model, seq2seq)
        self._fast_paths = ("packed", "cached") if seq2seq is None else ("shared",)
        self.paths: dict[tuple[str, ...], str] = {}

    def score(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str = "(unnamed)"
    ) -> list[CandidateScore]:
        """Score each candidate as the assistant's answer to the messages.

        Args:
            messages: chat messages with ``{"type": "image", "image": PIL.Image}``, ``{"type": "video", "video":
                [PIL.Image]}`` and ``{"type": "text", "text": str}`` items.
            candidates: at least one, none empty.
            question_id: names the question in errors.

        Returns:
            One score per candidate, in their order.

        Raises:
            ContextTooLongError: context and longest candidate exceed the model's positions.
            RankingError: no candidate, an empty candidate, or a model that cannot be ranked by likelihood.
        """
        return self.score_encoded(self.encode(messages, candidates, question_id))

    def encode(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str = "(unnamed)"
    ) -> EncodedQuestion:
        """Images to pixels and text to tokens, on the CPU; raises as `score` does."""
        question = self._encoder.encode(messages, candidates, question_id)
        if not self._is_encoder_decoder:
            check_length(self._model, question.prefix_length, question.longest_candidate, question_id)
        return question

    def score_encoded(self, question: EncodedQuestion) -> list[CandidateScore]:
        """Score a question that `encode` has prepared."""
        question = replace(question, inputs=on_device(question.inputs, self._model))
        path = self.paths.get(question.kind)
        if path is None:
            return self._choose_path(question)
        return getattr(self._passes, path)(question)

    def _choose_path(self, question: EncodedQuestion) -> list[CandidateScore]:
        """Settle the path for questions of this kind, and score this one."""
        reference = self._passes.full(question)
        if not all(math.isfinite(score.logprob) for score in reference):
            return reference  # tells nothing of the other paths
        self._check_causality(question, reference)
        reasons = []
        for path in self._fast_paths:
            outcome = self._try(getattr(self._passes, path), question, reference)
            if outcome is None:
                self.paths[question.kind] = path
                break
            reasons.append(f"{path}: {outcome}")
        else:
            self.paths[question.kind] = "full"
            logger.warning(
                "%s: no shared-context path is exact for this model, so every candidate takes a full pass (%s)",
                self._model.name_or_path or type(self._model).__name__,
                "; ".join(reasons),
            )
        return reference

    def _try(
        self,
        path: Callable[[EncodedQuestion], list[CandidateScore]],
        question: EncodedQuestion,
        reference: list[CandidateScore],
    ) -> str | None:
        """None if the path reproduces the reference's mean losses, else why not."""
        try:
            scores = path(question)
        except torch.OutOfMemoryError:
            raise
        except UnsupportedPathError as error:
            return str(error)
        except _MODEL_ERRORS as error:
            return f"{type(error).__name__}: {error}"
        differences = [abs(s.nll - r.nll) for s, r in zip(scores, reference, strict=True)]
        if not all(difference <= self._tolerance for difference in differences):
            return f"mean loss differs by {max(differences):.2g}"
        best, second = sorted([score.nll for score in reference] + [math.inf])[:2]
        if second - best > CLEAR_LEAD and _argmin(scores) != _argmin(reference):
            return "another candidate is the best"
        return None

    def _check_causality(self, question: EncodedQuestion, reference: list[CandidateScore]) -> None:
        """A model that lets an answer's tokens see those behind them gives no likelihood."""
        index = max(range(len(reference)), key=lambda i: reference[i].num_tokens)
        whole = question.candidates[index]
        if reference[index].num_tokens == 1:
            return
        half = whole.first + reference[index].num_tokens // 2
        without_rest = self._passes.full_pass(question, CandidateTokens(whole.tokens[:half], whole.first))
        rest = self._passes.full_pass(question, CandidateTokens(whole.tokens, half))
        difference = reference[index].logprob - rest.logprob - without_rest.logprob
        if not abs(difference) / without_rest.num_tokens <= 10 * self._tolerance:
            raise RankingError(
                f"{self._model.config.model_type}: an answer's tokens see the tokens behind them, so that a full pass "
                "gives no likelihood; this model cannot be ranked"
            )

    @property
    def _tolerance(self) -> float:
        """Largest accepted difference of a mean loss, nats."""
        return FLOAT32_TOLERANCE if self._model.dtype.itemsize >= 4 else HALF_PRECISION_TOLERANCE


def _argmin(scores: list[CandidateScore]) -> int:
    return min(range(len(scores)), key=lambda index: scores[index].nll)
