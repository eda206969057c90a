"""Compute the log-probabilities of answers in one padded pass over several questions."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad
from transformers import PreTrainedModel

from lmms_egoplan.ranking import decoder
from lmms_egoplan.ranking.encoder_decoder import EncoderDecoderPasses, encoder_decoder_of
from lmms_egoplan.ranking.question import EncodedQuestion, is_per_token
from lmms_egoplan.ranking.scores import token_logprobs

_ALL_LAYERS = "all"


class AnswerPasses:
    """Score the candidates of several questions in one forward pass, with gradients.

    The questions are rows of a padded batch. Vision encoder and context run once per question, for
    all of its candidates.

    - Decoder-only models: context and candidates share a row, padded on the left. Each candidate
      sees only the context and itself (4D mask), at the positions it would have alone. No cache is
      used, so gradient checkpointing works.
    - Encoder-decoder models: the contexts are rows of the encoder, padded on the right. All
      candidates are rows of the decoder.

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
        self._limits = decoder.RotaryLimits(self._text_config)

    def logprobs(self, questions: Sequence[EncodedQuestion]) -> list[list[torch.Tensor]]:
        """Return the log-probabilities of each candidate's scored tokens, in nats, by question.

        They are float32 tensors, shape (tokens,).

        Args:
            questions: Questions of the same `kind`, on the model's device.

        Raises:
            UnsupportedPathError: The model cannot process these rows in one pass.
        """
        if isinstance(self._passes, EncoderDecoderPasses):
            logits = self._encoder_decoder_logits(questions, self._passes)
        else:
            logits = self._decoder_logits(questions, self._passes)
        return [
            [
                token_logprobs(candidate, rows)
                for candidate, rows in zip(question.candidates, candidate_logits, strict=True)
            ]
            for question, candidate_logits in zip(questions, logits, strict=True)
        ]

    def _encoder_decoder_logits(
        self, questions: Sequence[EncodedQuestion], passes: EncoderDecoderPasses
    ) -> list[list[torch.Tensor]]:
        first = questions[0]
        if len(questions) == 1 and len(first.candidates) == 1:
            return [[passes.full_logits(first, first.candidates[0])]]
        inputs = join([question.inputs for question in questions])
        return passes.batch_logits(inputs, [question.candidates for question in questions])

    def _decoder_logits(
        self, questions: Sequence[EncodedQuestion], passes: decoder.DecoderPasses
    ) -> list[list[torch.Tensor]]:
        rows = [_Row(question) for question in questions]
        longest = max(row.length for row in rows)
        shortest = min(row.length for row in rows)
        if self._limits.change_within(shortest, longest - shortest):
            raise decoder.UnsupportedPathError("rotary frequencies depend on the longest question")
        inputs = []
        for row in rows:
            padding = None
            if shortest < longest:
                padding = row.padding(longest)
            inputs.append(passes.extended_inputs(row.question, row.tokens, padding))
        keep = max(len(row.tokens) for row in rows) + 1
        with self._isolated(rows, longest):
            logits = passes.run(questions[0], join(inputs), keep)
        return [row.split(row_logits) for row, row_logits in zip(rows, logits, strict=True)]

    @contextmanager
    def _isolated(self, rows: Sequence["_Row"], total: int) -> Iterator[None]:
        """Prevent the candidates of a row from attending to each other in the language model.

        The context keeps the model's own positions, and the model's own mask, in which images may
        see more tokens.

        Args:
            rows: The rows of the batch.
            total: Number of tokens in each row, with its padding.
        """
        if not any(row.is_shared for row in rows):
            yield
            return
        masks = decoder.MaskKinds(self._text_config)

        def isolate(module: torch.nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
            states = keywords.get("inputs_embeds")
            states = keywords.get("input_ids") if states is None else states
            if states is None or states.shape[1] != total:
                raise decoder.UnsupportedPathError(
                    f"{type(module).__name__} does not get all tokens in one call"
                )
            positions = self._positions(rows, total, keywords.get("position_ids"), states.device)
            mask = self._masks(rows, total, keywords.get("attention_mask"), masks)
            return inputs, {**keywords, "attention_mask": mask, "position_ids": positions}

        with self._model.get_decoder().register_forward_pre_hook(isolate, with_kwargs=True):
            yield

    def _positions(
        self,
        rows: Sequence["_Row"],
        total: int,
        model_positions: torch.Tensor | None,
        device: torch.device,
    ) -> torch.Tensor:
        """Return the positions of all tokens, shape (..., rows, total).

        All candidates of a row start where its context ends. The context has the positions that the
        model computed (`model_positions`), or counts from 0.
        """
        if model_positions is None:
            starts = torch.tensor([total - row.length for row in rows], device=device)
            model_positions = (torch.arange(total, device=device) - starts[:, None]).clamp(min=0)
        positions = model_positions.expand(*model_positions.shape[:-2], len(rows), total).clone()
        lowest = total
        highest = 0
        for index, row in enumerate(rows):
            context_end = total - len(row.tokens)
            if row.tokens:
                start = positions[..., index, context_end : context_end + 1].clone()
                offsets = torch.cat([torch.arange(length, device=device) for length in row.lengths])
                positions[..., index, context_end:] = start + offsets
                lowest = min(lowest, int(start.max()))
                highest = max(highest, int(start.max()) + row.question.longest_candidate)
        if self._limits.change_within(lowest, highest - lowest):
            raise decoder.UnsupportedPathError("rotary frequencies change within the candidates")
        return positions

    def _masks(
        self, rows: Sequence["_Row"], total: int, model_masks: Any, masks: decoder.MaskKinds
    ) -> Any:
        """Return additive masks for all tokens, shape (rows, 1, total, total).

        If the layers of the model have several kinds of masks, they are a dictionary by kind.

        Args:
            rows: The rows of the batch.
            total: Number of tokens in each row, with its padding.
            model_masks: The model's own masks.
            masks: Builds the masks of a row.
        """
        batch: dict[str, list[torch.Tensor]] = {}
        for index, row in enumerate(rows):
            causal = _by_kind(masks.packed([row.context], 0, self._model))
            packed = _by_kind(masks.packed(row.lengths, row.context, self._model))
            for kind_of_layer, mask in packed.items():
                model_mask = (
                    model_masks.get(kind_of_layer) if isinstance(model_masks, dict) else model_masks
                )
                stacked = _stacked(model_mask, causal[kind_of_layer], mask, index, total)
                batch.setdefault(kind_of_layer, []).append(stacked)
        joined = {kind_of_layer: torch.cat(by_row) for kind_of_layer, by_row in batch.items()}
        return joined.get(_ALL_LAYERS, joined)


@dataclass(frozen=True)
class _Row:
    """One question in a row of a decoder-only model: its context, then all of its candidates.

    The last token of a candidate is not needed, because it predicts nothing that is scored.
    """

    question: EncodedQuestion

    @property
    def context(self) -> int:
        """Number of tokens in the context."""
        return self.question.prefix_length

    @property
    def lengths(self) -> list[int]:
        """Number of tokens of each candidate in the row."""
        return [len(candidate.tokens) - 1 for candidate in self.question.candidates]

    @property
    def tokens(self) -> list[int]:
        """IDs of the tokens after the context."""
        return [token for choice in self.question.candidates for token in choice.tokens[:-1]]

    @property
    def length(self) -> int:
        """Number of tokens in the row."""
        return self.context + sum(self.lengths)

    @property
    def is_shared(self) -> bool:
        """True if candidates have to be isolated from each other."""
        return len(self.question.candidates) > 1 and sum(self.lengths) > 0

    def padding(self, total: int) -> list[int]:
        """Return text tokens that fill the row to this length."""
        return [self.question.candidates[0].tokens[0]] * (total - self.length)

    def split(self, logits: torch.Tensor) -> list[torch.Tensor]:
        """Split the last logits of the row into those of each candidate's scored tokens."""
        count = len(self.tokens) + 1
        first, *rows = logits[-count:].split([1, *self.lengths])
        return [
            torch.cat([first, rows_of_candidate])[candidate.first :]
            for candidate, rows_of_candidate in zip(self.question.candidates, rows, strict=True)
        ]


def kind(question: EncodedQuestion) -> Hashable:
    """Return what the inputs of questions in one pass must have in common.

    These are the names of the inputs and the shapes of their media, except the first dimension. In
    most models it counts images or patches, which may differ. Media are never padded: some models
    see padded images (Mllama).
    """
    shapes = []
    for name, value in sorted(question.inputs.items()):
        shape = None
        if isinstance(value, torch.Tensor) and value.ndim > 2:
            is_token = is_per_token(name, value, question.inputs)
            shape = value.shape[2:] if is_token else value.shape[1:]
        shapes.append((name, shape))
    return tuple(shapes)


def join(inputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the model inputs of several questions.

    Tensors are concatenated in their first dimension, which counts questions, images or patches.
    Texts of different lengths are padded with zeros at the end.
    """
    if len(inputs) == 1:
        return dict(inputs[0])
    joined: dict[str, Any] = {}
    for name, first in inputs[0].items():
        values = [row[name] for row in inputs]
        if not isinstance(first, torch.Tensor):
            joined[name] = [item for value in values for item in value]
            continue
        if first.ndim > 1:
            longest = max(value.shape[1] for value in values)
            values = [_filled(value, longest) for value in values]
        joined[name] = torch.cat(values)
    return joined


def _filled(value: torch.Tensor, length: int) -> torch.Tensor:
    """Append zeros in the second dimension, up to this length."""
    amounts = [0, 0] * (value.ndim - 2) + [0, length - value.shape[1]]
    return pad(value, amounts)


def _by_kind(masks: torch.Tensor | dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return masks by the kind of layer."""
    if isinstance(masks, dict):
        return masks
    return {_ALL_LAYERS: masks}


def _stacked(
    model_mask: Any, causal: torch.Tensor, packed: torch.Tensor, row: int, total: int
) -> torch.Tensor:
    """Return the additive mask of a row, shape (1, 1, total, total).

    Padding comes first, then the context, then the candidates. The context's mask is that of the
    model if it has four dimensions, otherwise `causal`.
    """
    context = causal.shape[-1]
    padding = total - packed.shape[-1]
    lowest = torch.finfo(packed.dtype).min
    if isinstance(model_mask, torch.Tensor) and model_mask.ndim == 4:
        seen = slice(padding, padding + context)
        mask = model_mask[row % len(model_mask), None, :1, seen, seen]
        if mask.dtype == torch.bool:
            causal = torch.zeros_like(causal).masked_fill_(~mask, lowest)
        else:
            causal = mask.to(packed)
    causal = pad(causal, (0, packed.shape[-1] - context), value=lowest)
    mask = torch.cat([causal, packed], dim=-2)
    return pad(mask, (padding, 0, padding, 0), value=lowest)
