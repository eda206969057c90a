"""Log-probabilities of several answers to one context, with gradients."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from lmms_egoplan.ranking.decoder import (
    DecoderPasses,
    MaskKinds,
    RotaryLimits,
    UnsupportedPathError,
    entries_of,
    forget_earlier_questions,
)
from lmms_egoplan.ranking.encoder_decoder import EncoderDecoderPasses, encoder_decoder_of
from lmms_egoplan.ranking.question import EncodedQuestion, is_per_token
from lmms_egoplan.ranking.scores import token_logprobs


class AnswerPasses:
    """Two ways to the log-probabilities of a question's candidates. Both give the same numbers and gradients.

    shared: one pass of vision encoder and context for all candidates. Decoder-only: context and candidates stand in one
        row, in which each candidate sees the context and itself only (4D mask) at the positions that it would have
        alone. No cache is used, so gradient checkpointing works. Encoder-decoder: the candidates are rows of the
        decoder over one encoder output.
    separate: a pass for each candidate.

    Args:
        model: a transformers vision-language model on its device; adapters may stand in it.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        seq2seq = encoder_decoder_of(model)
        self._passes = DecoderPasses(model) if seq2seq is None else EncoderDecoderPasses(model, seq2seq)
        self._text_config = model.config.get_text_config(decoder=True)
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(model.forward).parameters

    def separate(self, question: EncodedQuestion) -> list[torch.Tensor]:
        """Return log-probabilities of each candidate's scored tokens, nats: tensors of shape (tokens,), float32."""
        return [
            token_logprobs(candidate, self._passes.full_logits(question, candidate))
            for candidate in question.candidates
        ]

    def shared(self, question: EncodedQuestion) -> list[torch.Tensor]:
        """Return the same as `separate`, from one pass.

        Raises:
            UnsupportedPathError: the model cannot hold several candidates in one row.
        """
        if isinstance(self._passes, EncoderDecoderPasses):
            logits = self._passes.shared_logits(question)
        else:
            logits = self._row_logits(question, self._passes)
        return [token_logprobs(*pair) for pair in zip(question.candidates, logits, strict=True)]

    def _row_logits(self, question: EncodedQuestion, passes: DecoderPasses) -> list[torch.Tensor]:
        rows = [candidate.tokens[:-1] for candidate in question.candidates]
        tokens = [token for row in rows for token in row]
        inputs = question.model_inputs
        for name, value in inputs.items():
            if is_per_token(name, value, question.inputs):
                inputs[name] = torch.cat([value, entries_of(name, value, tokens)], dim=1)
        forget_earlier_questions(self._model)
        keep = {"logits_to_keep": len(tokens) + 1} if self._takes_logits_to_keep else {}
        model = passes.model_for(question)
        with self._apart([len(row) for row in rows], question):
            logits = model(**inputs, use_cache=False, **keep).logits[0, -1 - len(tokens) :]
        first, *behind = logits.split([1, *map(len, rows)])
        return [
            torch.cat([first, own])[candidate.first :]
            for candidate, own in zip(question.candidates, behind, strict=True)
        ]

    @contextmanager
    def _apart(self, row_lengths: list[int], question: EncodedQuestion) -> Iterator[None]:
        """Let the language model keep the rows after the context apart.

        What the model computes by itself for the context stays: its positions, and a mask in which images see more.
        """
        masks = MaskKinds(self._text_config)
        limits = RotaryLimits(self._text_config)
        context, total = question.prefix_length, question.prefix_length + sum(row_lengths)

        def keep_apart(module: torch.nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
            states = keywords.get("inputs_embeds")
            states = keywords.get("input_ids") if states is None else states
            if states is None or states.shape[1] != total:
                raise UnsupportedPathError(f"{type(module).__name__} is not given all tokens at once")
            positions = keywords.get("position_ids")
            if positions is None:
                positions = torch.arange(total, device=states.device)[None]
            start = positions[..., context : context + 1]
            if limits.change_within(int(start.max()), question.longest_candidate):
                raise UnsupportedPathError("rotary frequencies change within the candidates")
            offsets = torch.cat([torch.arange(length, device=positions.device) for length in row_lengths])
            positions = torch.cat([positions[..., :context], start + offsets], dim=-1)
            packed = masks.packed(row_lengths, context, self._model)
            causal = masks.packed([context], 0, self._model)
            mask = keywords.get("attention_mask")
            if isinstance(packed, dict) and isinstance(causal, dict):
                by_kind = mask if isinstance(mask, dict) else dict.fromkeys(packed, mask)
                mask = {kind: _stacked(by_kind.get(kind), causal[kind], rows) for kind, rows in packed.items()}
            elif isinstance(packed, torch.Tensor) and isinstance(causal, torch.Tensor):
                mask = _stacked(mask, causal, packed)
            return inputs, {**keywords, "attention_mask": mask, "position_ids": positions}

        if not sum(row_lengths):
            yield
            return
        with self._model.get_decoder().register_forward_pre_hook(keep_apart, with_kwargs=True):
            yield


def _stacked(made: Any, causal: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    """Return an additive mask of all tokens, shape (1, 1, tokens, tokens): context rows, then candidates.

    The context's are those of the model's own mask `made`, if that has this shape, else the causal ones.
    """
    context, lowest = causal.shape[-1], torch.finfo(packed.dtype).min
    if isinstance(made, torch.Tensor) and made.ndim == 4:
        own = made[:, :1, :context, :context]
        causal = torch.zeros_like(causal).masked_fill_(~own, lowest) if own.dtype == torch.bool else own.to(packed)
    return torch.cat([pad(causal, (0, packed.shape[-1] - context), value=lowest), packed], dim=-2)
