"""Score the answers of a batch of questions with the trained module.

The passes are shared or separate.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from lmms_egoplan.ranking import CandidateRanker, decoder
from lmms_egoplan.ranking.encoder_decoder import EncoderDecoderPasses, encoder_decoder_of
from lmms_egoplan.ranking.question import EncodedQuestion, on_device
from lmms_egoplan.ranking.scores import float32_logits, token_logprobs


class AnswerPasses:
    """Two ways to compute the log-probabilities of a question's candidates.

    Both give the same values and gradients.

    - shared: one pass of vision encoder and context for all candidates. In decoder-only models,
      context and candidates share one row. Each candidate sees only the context and itself (4D
      mask), at the positions it would have alone. No cache is used, so gradient checkpointing
      works. In encoder-decoder models, the candidates are rows of the decoder over one encoder
      output.
    - separate: one pass per candidate.

    Args:
        model: A transformers vision-language model on its device; it may contain adapters.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        seq2seq = encoder_decoder_of(model)
        self._passes = (
            decoder.DecoderPasses(model)
            if seq2seq is None
            else EncoderDecoderPasses(model, seq2seq)
        )
        self._text_config = model.config.get_text_config(decoder=True)

    def separate(self, question: EncodedQuestion) -> list[torch.Tensor]:
        """Return the log-probabilities of each candidate's scored tokens, in nats.

        They are float32 tensors, shape (tokens,).
        """
        return [
            token_logprobs(candidate, self._passes.full_logits(question, candidate))
            for candidate in question.candidates
        ]

    def shared(self, question: EncodedQuestion) -> list[torch.Tensor]:
        """Return the same as `separate`, computed in one pass.

        Raises:
            UnsupportedPathError: The model cannot process several candidates in one row.
        """
        if isinstance(self._passes, EncoderDecoderPasses):
            logits = self._passes.shared_logits(question)
        else:
            logits = self._row_logits(question, self._passes)
        return [token_logprobs(*pair) for pair in zip(question.candidates, logits, strict=True)]

    def _row_logits(
        self, question: EncodedQuestion, passes: decoder.DecoderPasses
    ) -> list[torch.Tensor]:
        rows = [candidate.tokens[:-1] for candidate in question.candidates]
        tokens = [token for row in rows for token in row]
        with self._isolated([len(row) for row in rows], question):
            logits = passes.logits_after(question, tokens)
        first, *row_logits = logits.split([1, *map(len, rows)])
        return [
            torch.cat([first, candidate_logits])[candidate.first :]
            for candidate, candidate_logits in zip(question.candidates, row_logits, strict=True)
        ]

    @contextmanager
    def _isolated(self, row_lengths: list[int], question: EncodedQuestion) -> Iterator[None]:
        """Prevent the rows after the context from attending to each other in the language model.

        The context keeps the model's own positions, and the model's own mask, in which images may
        see more tokens.
        """
        masks = decoder.MaskKinds(self._text_config)
        limits = decoder.RotaryLimits(self._text_config)
        context = question.prefix_length
        total = question.prefix_length + sum(row_lengths)

        def isolate(module: torch.nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
            states = keywords.get("inputs_embeds")
            states = keywords.get("input_ids") if states is None else states
            if states is None or states.shape[1] != total:
                raise decoder.UnsupportedPathError(
                    f"{type(module).__name__} does not get all tokens in one call"
                )
            positions = keywords.get("position_ids")
            if positions is None:
                positions = torch.arange(total, device=states.device)[None]
            start = positions[..., context : context + 1]
            if limits.change_within(int(start.max()), question.longest_candidate):
                raise decoder.UnsupportedPathError(
                    "rotary frequencies change within the candidates"
                )
            offsets = torch.cat(
                [torch.arange(length, device=positions.device) for length in row_lengths]
            )
            positions = torch.cat([positions[..., :context], start + offsets], dim=-1)
            packed = masks.packed(row_lengths, context, self._model)
            causal = masks.packed([context], 0, self._model)
            mask = keywords.get("attention_mask")
            if isinstance(packed, dict) and isinstance(causal, dict):
                by_kind = mask if isinstance(mask, dict) else dict.fromkeys(packed, mask)
                mask = {
                    kind: _stacked(by_kind.get(kind), causal[kind], rows)
                    for kind, rows in packed.items()
                }
            elif isinstance(packed, torch.Tensor) and isinstance(causal, torch.Tensor):
                mask = _stacked(mask, causal, packed)
            return inputs, {**keywords, "attention_mask": mask, "position_ids": positions}

        if not sum(row_lengths):
            yield
            return
        with self._model.get_decoder().register_forward_pre_hook(isolate, with_kwargs=True):
            yield


def _stacked(model_mask: Any, causal: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """Return an additive mask for all tokens, shape (1, 1, tokens, tokens).

    Context rows come first, then those of the candidates.

    The context rows come from the model's mask `model_mask` if it has this shape, otherwise from
    `causal`.
    """
    context = causal.shape[-1]
    lowest = torch.finfo(packed.dtype).min
    if isinstance(model_mask, torch.Tensor) and model_mask.ndim == 4:
        mask = model_mask[:, :1, :context, :context]
        causal = (
            torch.zeros_like(causal).masked_fill_(~mask, lowest)
            if mask.dtype == torch.bool
            else mask.to(packed)
        )
    return torch.cat([pad(causal, (0, packed.shape[-1] - context), value=lowest), packed], dim=-2)


logger = logging.getLogger(__name__)

Way = Literal["auto", "shared", "separate"]


class AnswerScorer(nn.Module):
    """A vision-language model as a module that maps questions to scores.

    A launcher thus sees one call per pass.

    Args:
        model: The vision-language model; it may contain adapters.
        frozen: Names of modules that stay in evaluation mode, such as a frozen encoder.
        way: ``shared`` or ``separate``, as in `AnswerPasses`. ``auto`` is shared until `check`
            finds it inexact.
    """

    def __init__(
        self, model: PreTrainedModel, frozen: Iterable[str] = (), way: Way = "auto"
    ) -> None:
        super().__init__()
        decoder.keep_fractions(model)
        self.model = model
        self.way: Literal["shared", "separate"] = "separate" if way == "separate" else "shared"
        self._is_forced = way != "auto"
        self._frozen = tuple(frozen)
        self._passes = AnswerPasses(model)

    def forward(self, questions: Sequence[EncodedQuestion]) -> list[list[torch.Tensor]]:
        """Return each candidate's mean log-probability per token (eq. 4) in nats, by question."""
        scores = []
        for question in questions:
            scores.append([logprobs.mean() for logprobs in self._logprobs(question)])
        return scores

    def train(self, mode: bool = True) -> "AnswerScorer":  # noqa: FBT001, FBT002 - torch's
        """Set the mode. Frozen modules stay in evaluation mode."""
        super().train(mode)
        for name in self._frozen:
            self.model.get_submodule(name).eval()
        return self

    def check(self, processor: Any, *questions: EncodedQuestion) -> None:
        """Compare shared passes with `CandidateRanker` on questions.

        Switch to separate passes if they differ.

        Args:
            processor: The model's processor.
            questions: One question per kind of media, each with at least two candidates, so that
                passes are shared.

        Raises:
            RankingError: The model cannot score a question at all, or not in shared passes although
                these are forced.
        """
        was_training = self.training
        self.eval()
        ranker = CandidateRanker(self.model, processor)
        for question in questions:
            self._check(ranker, question)
        self.train(was_training)

    def _check(self, ranker: CandidateRanker, question: EncodedQuestion) -> None:
        question = replace(question, inputs=on_device(question.inputs, self.model))
        ranked = ranker.score_encoded(question)
        expected = [-score.nll for score in ranked]
        use = ranked[0].use
        assert use is not None
        assert use.tolerance is not None
        if self.way == "shared":
            try:
                with torch.no_grad(), float32_logits(self.model):
                    scores = [logprobs.mean().item() for logprobs in self._passes.shared(question)]
                difference = max(abs(a - b) for a, b in zip(scores, expected, strict=True))
                problem = (
                    None
                    if difference <= use.tolerance
                    else f"scores differ by {difference:.2g} nats"
                )
            except decoder.UnsupportedPathError as error:
                problem = str(error)
            if problem and not self._is_forced:
                logger.warning("Using a separate pass for every answer: %s", problem)
                self.way = "separate"
            elif problem:
                logger.warning("answer_passes: shared is not exact for this model: %s", problem)

    def _logprobs(self, question: EncodedQuestion) -> list[torch.Tensor]:
        question = replace(question, inputs=on_device(question.inputs, self.model))
        if self.way == "shared":
            try:
                return self._passes.shared(question)
            except decoder.UnsupportedPathError:
                if self._is_forced:
                    raise
        return self._passes.separate(question)
