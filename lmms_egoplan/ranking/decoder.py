"""Run decoder-only models.

There is one full pass per candidate, or one pass over the prefix and further passes on its cache.
"""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import repeat
from typing import Any

import torch
import transformers
from transformers import DynamicCache, PreTrainedModel

from lmms_egoplan.ranking.methods import CACHED, PACKED
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion, is_per_token
from lmms_egoplan.ranking.scores import CandidateScore, Passes, ScoringFunction, score_from_logits

_CUTS_SECONDS = tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 18)
# Units per second: a power of two, which converts float32 seconds to integers without rounding.
_UNITS = 2**30


class UnsupportedPathError(Exception):
    """The model's configuration does not support a computation path."""


class DecoderPasses(Passes):
    """Score a question with a decoder-only model in one of three ways.

    They give the same numbers where they are supported.

    packed: The prefix runs once. Then the tokens of all candidates run in one row. A 4D mask lets
        each token see only the prefix and its own candidate. Positions are those of a candidate by
        itself. The prefix's keys and values are not copied.
    cached: The prefix runs once. Then each candidate runs on a copy of the cache, one copy at a
        time. Used for attention implementations without arbitrary masks, and for recurrent layers.
    full: One independent pass per candidate.

    Some rotary frequencies depend on the length of the whole sequence (longrope, dynamic NTK). A
    context's keys are then valid only for candidates that do not change the frequencies. For other
    questions, packed and cached use full passes.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._text_config = model.config.get_text_config(decoder=True)
        self._rope = RotaryLimits(self._text_config)
        self._text_model = text_model(model)
        self._cache_name = cache_name(self._text_model)
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(model.forward).parameters

    @property
    def fast_paths(self) -> Mapping[str, ScoringFunction]:
        """The paths on which the prefix runs once."""
        return {PACKED: self.packed, CACHED: self.cached}

    def packed(self, question: EncodedQuestion) -> list[CandidateScore]:
        """Score all candidates in one row after the prefix."""
        masks = MaskKinds(self._text_config)
        rows = [candidate.tokens[:-1] for candidate in question.candidates]
        next_logits, cache, position = self._run_prefix(question, DynamicCache())
        if self._rope.change_within(position, question.longest_candidate):
            return self.full(question)
        row_logits = [next_logits.new_empty(0, next_logits.shape[-1]) for _ in rows]
        if any(rows):
            device = question.inputs["input_ids"].device
            tokens = [token for row in rows for token in row]
            positions = [position + offset for row in rows for offset in range(len(row))]
            output = self._text_model(
                input_ids=torch.tensor([tokens], device=device),
                attention_mask=masks.packed(
                    [len(row) for row in rows], question.prefix_length, self._model
                ),
                position_ids=torch.tensor([positions], device=device),
                use_cache=True,
                **{self._cache_name: cache},
                **_image_visibility(question, tokens),
            )
            row_logits = output.logits[0].split([len(row) for row in rows])
        return [
            _score_row(candidate, next_logits, logits)
            for candidate, logits in zip(question.candidates, row_logits, strict=True)
        ]

    def cached(self, question: EncodedQuestion) -> list[CandidateScore]:
        """Score each candidate on a copy of the prefix's cache."""
        next_logits, cache, position = self._run_prefix(question, cache=None)
        if self._rope.change_within(position, question.longest_candidate):
            return self.full(question)
        device = question.inputs["input_ids"].device
        scores = []
        for index, candidate in enumerate(question.candidates):
            row = candidate.tokens[:-1]  # nothing is scored after the last one
            logits = next_logits.new_empty(0, next_logits.shape[-1])
            # Some recurrent layers use a different step for one token, with different numbers. So
            # a single token runs together with the next one, whose logits are dropped below.
            if len(row) == 1:
                row = candidate.tokens
            if row:
                # The last candidate may change the cache itself.
                is_last = index == len(question.candidates) - 1
                output = self._text_model(
                    input_ids=torch.tensor([row], device=device),
                    position_ids=torch.arange(position, position + len(row), device=device)[None],
                    use_cache=True,
                    **{self._cache_name: cache if is_last else copy.deepcopy(cache)},
                    **_image_visibility(question, row),
                )
                logits = output.logits[0, : len(candidate.tokens) - 1]
            scores.append(_score_row(candidate, next_logits, logits))
        return scores

    def full_logits(
        self, question: EncodedQuestion, candidate: CandidateTokens, padding: Sequence[int] = ()
    ) -> torch.Tensor:
        """Return the logits of a candidate's scored tokens, shape (tokens, vocabulary).

        They come from an independent pass.

        Padding precedes the context.
        """
        return self.logits_after(question, candidate.tokens, padding)[candidate.first : -1]

    def logits_after(
        self, question: EncodedQuestion, tokens: list[int], padding: Sequence[int] = ()
    ) -> torch.Tensor:
        """Return the logits after the context and after each of these tokens.

        They come from one pass without a cache.
        """
        inputs = self.extended_inputs(question, tokens, padding or None)
        return self.run(question, inputs, len(tokens) + 1)[0, -1 - len(tokens) :]

    def extended_inputs(
        self, question: EncodedQuestion, tokens: list[int], padding: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """Return the model inputs of the context and these text tokens.

        Args:
            question: The question.
            tokens: IDs of the text tokens after the context.
            padding: IDs of text tokens before the context, which the inputs' mask hides; None for
                inputs without mask and positions of padding.
        """
        inputs = question.model_inputs
        for name, value in inputs.items():
            if is_per_token(name, value, question.inputs):
                before = [_padding_entries(name, value, padding)] if padding else []
                inputs[name] = torch.cat([*before, value, entries_of(name, value, tokens)], dim=1)
        if padding is not None:
            inputs |= self._without_padding(question, inputs["input_ids"], len(padding))
        return inputs

    def run(self, question: EncodedQuestion, inputs: Mapping[str, Any], count: int) -> torch.Tensor:
        """Return the logits of a pass without a cache, shape (rows, tokens, vocabulary).

        They are those of at least the last `count` tokens.

        Args:
            question: One of the questions in `inputs`; they all have images or videos, or none has.
            inputs: Inputs of one or several questions.
            count: Number of tokens.
        """
        forget_earlier_questions(self._model)
        keep = {"logits_to_keep": count} if self._takes_logits_to_keep else {}
        return self._model_for(question)(**inputs, use_cache=False, **keep).logits

    def _without_padding(
        self, question: EncodedQuestion, ids: torch.Tensor, count: int
    ) -> dict[str, torch.Tensor]:
        """Return the mask that hides the first tokens, and positions as if these were absent."""
        mask = torch.ones_like(ids)
        mask[:, :count] = 0
        # Multimodal rotary positions are computed from images, text and mask.
        computes_positions = question.has_visuals and any(
            hasattr(part, "rope_deltas") for part in self._model.modules()
        )
        takes_positions = (
            "position_ids" in inspect.signature(self._model_for(question).forward).parameters
        )
        if computes_positions or not takes_positions:
            return {"attention_mask": mask}
        return {"attention_mask": mask, "position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}

    def _run_prefix(self, question: EncodedQuestion, cache: Any) -> tuple[torch.Tensor, Any, int]:
        """Return the logits after the prefix, the cache, and the next token's position.

        The logits have the shape (1, vocabulary).
        """
        forget_earlier_questions(self._model)
        keep = {"logits_to_keep": 1} if self._takes_logits_to_keep else {}
        cache_argument = {} if cache is None else {self._cache_name: cache}
        with _watched_positions(self._model) as positions:
            output = self._model_for(question)(
                **question.model_inputs, use_cache=True, **cache_argument, **keep
            )
        # BLIP-2 and similar models wrap their language model's output.
        filled_cache = getattr(getattr(output, "language_model_outputs", output), self._cache_name)
        position = question.prefix_length + _rope_delta(self._model)
        kinds = question.inputs.get("mm_token_type_ids")
        if positions and kinds is not None and int(kinds[0, -1]) == 0:  # the prefix ends with text
            position = positions[-1] + 1
        return output.logits[0, -1:], filled_cache, position

    def _model_for(self, question: EncodedQuestion) -> torch.nn.Module:
        """Return the model for a question: the text model if the question has no pixels."""
        return self._model if question.has_visuals else self._text_model


class RotaryLimits:
    """Lengths of a whole sequence at which a text model's rotary frequencies change."""

    def __init__(self, text_config: Any) -> None:
        self._switches: set[int] = set()
        self._growth: set[int] = set()
        # transformers 5 has `rope_parameters`, per layer type if they differ. Earlier versions have
        # `rope_scaling`.
        settings = (
            getattr(text_config, "rope_parameters", None)
            or getattr(text_config, "rope_scaling", None)
            or {}
        )
        by_layer = [value for value in settings.values() if isinstance(value, dict)]
        for parameters in by_layer or [settings]:
            rope_type = str(parameters.get("rope_type", parameters.get("type", "default")))
            names = ("original_max_position_embeddings", "max_position_embeddings")
            lengths = [
                parameters.get(names[0]),
                *(getattr(text_config, name, None) for name in names),
            ]
            length = next((length for length in lengths if isinstance(length, int)), None)
            if length is not None and rope_type in ("longrope", "su"):
                self._switches.add(length)
            elif length is not None and "dynamic" in rope_type:
                self._growth.add(length)

    def change_within(self, position: int, longest: int) -> bool:
        """Return whether a candidate changes the frequencies.

        It starts at `position` and has up to `longest` tokens.

        longrope uses its long factors beyond one length; dynamic NTK grows with each token beyond
        it.
        """
        end = position + longest
        return any(position <= limit < end for limit in self._switches) or any(
            end > limit for limit in self._growth
        )


class MaskKinds:
    """Build the attention masks of packed candidates, one per type of layer in a text model."""

    def __init__(self, text_config: Any) -> None:
        self._window = getattr(text_config, "sliding_window", None)
        if getattr(text_config, "use_sliding_window", True) is False:
            self._window = None
        self._layer_types = set(getattr(text_config, "layer_types", None) or ())
        implementation = text_config._attn_implementation
        if implementation not in ("sdpa", "eager"):
            raise UnsupportedPathError(
                f"attention implementation {implementation} does not accept arbitrary masks"
            )
        unknown = self._layer_types - {"full_attention", "sliding_attention"}
        if unknown:
            raise UnsupportedPathError(
                f"layers of type {', '.join(sorted(unknown))} cannot pack several candidates"
            )

    def packed(
        self, row_lengths: list[int], prefix_length: int, model: PreTrainedModel
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        """Return additive masks, shape (1, 1, tokens, prefix + tokens).

        A token sees the prefix and its own row.
        """
        device = model.device
        dtype = model.dtype
        lengths = torch.tensor(row_lengths, device=device)
        row = torch.arange(len(row_lengths), device=device).repeat_interleave(lengths)
        position = (
            torch.cat([torch.arange(length, device=device) for length in row_lengths])
            + prefix_length
        )
        key_position = torch.cat([torch.arange(prefix_length, device=device), position])
        key_row = torch.cat([torch.full((prefix_length,), -1, device=device), row])
        distance = position[:, None] - key_position
        visible = ((key_row == -1) | (key_row == row[:, None])) & (distance >= 0)

        def additive(allowed: torch.Tensor) -> torch.Tensor:
            mask = torch.zeros(allowed.shape, dtype=dtype, device=device)
            return mask.masked_fill_(~allowed, torch.finfo(dtype).min)[None, None]

        if self._window is None or self._layer_types == {"full_attention"}:
            return additive(visible)
        sliding = additive(visible & (distance < self._window))
        return (
            {"full_attention": additive(visible), "sliding_attention": sliding}
            if self._layer_types
            else sliding
        )


def _score_row(
    candidate: CandidateTokens, next_logits: torch.Tensor, row_logits: torch.Tensor
) -> CandidateScore:
    """Score a candidate from the logits after the prefix and after its tokens.

    The last token's logits are not needed.
    """
    logits = torch.cat([next_logits.to(row_logits.device), row_logits])
    return score_from_logits(candidate, logits[candidate.first :])


def text_model(model: PreTrainedModel) -> PreTrainedModel:
    """Return the model that accepts tokens without pixels.

    For BLIP-2 and similar models, this is the inner language model.
    """
    wrapped = getattr(model, "language_model", None)
    if (
        model.main_input_name == "pixel_values"
        and wrapped is not None
        and wrapped.get_output_embeddings() is not None
    ):
        return wrapped
    return model


def cache_name(model: PreTrainedModel) -> str:
    """Return the name of a model's argument and output for the cache.

    It is ``cache`` from transformers 5.24 on.
    """
    methods = (vars(kind).get("forward") for kind in type(model).__mro__)
    names = (
        name
        for method in methods
        if method is not None
        for name in inspect.signature(method).parameters
    )
    return next((name for name in names if name in ("cache", "past_key_values")), "past_key_values")


def _image_visibility(question: EncodedQuestion, tokens: list[int]) -> dict[str, torch.Tensor]:
    """Return the inputs that define which images an answer's tokens see.

    Only Mllama has such inputs.
    """
    return {
        name: entries_of(name, value, tokens)
        for name, value in question.inputs.items()
        if is_per_token(name, value, question.inputs) and value.ndim > 2
    }


def entries_of(name: str, value: torch.Tensor, tokens: list[int]) -> torch.Tensor:
    """Return a per-token model input for an answer's text tokens, shape (1, tokens, ...)."""
    # Mllama: an answer's tokens see the same images as the last token of the context
    if value.ndim > 2:
        return value[:, -1:].expand(-1, len(tokens), *value.shape[2:])
    entries = {"input_ids": tokens, "attention_mask": [1] * len(tokens)}.get(
        name, [0] * len(tokens)
    )
    return value.new_tensor([entries])


def _padding_entries(name: str, value: torch.Tensor, padding: Sequence[int]) -> torch.Tensor:
    """Return a per-token model input for text tokens before the context, shape (1, tokens, ...)."""
    if value.ndim > 2:  # Mllama: they see the same images as the first token of the context
        return value[:, :1].expand(-1, len(padding), *value.shape[2:])
    return value.new_tensor([padding if name == "input_ids" else [0] * len(padding)])


def forget_earlier_questions(model: torch.nn.Module) -> None:
    """Reset a model's state from earlier questions.

    This state consists of position offsets, and of rotary frequencies for longer inputs.
    """
    module: Any
    for module in model.modules():
        if getattr(module, "rope_deltas", None) is not None:
            module.rope_deltas = None
        original = getattr(module, "original_max_seq_len", None)
        for name in (
            [name for name in vars(module) if name.endswith("max_seq_len_cached")]
            if original
            else ()
        ):
            if getattr(module, name) > original:
                # Without layer types, transformers 5.12 names it None_max_seq_len_cached.
                prefix = name.removesuffix("max_seq_len_cached").removeprefix("None_")
                frequencies = getattr(module, f"{prefix}inv_freq")
                setattr(
                    module,
                    f"{prefix}inv_freq",
                    getattr(module, f"{prefix}original_inv_freq").to(frequencies),
                )
                setattr(module, name, original)


@contextmanager
def _watched_positions(model: torch.nn.Module) -> Iterator[list[int]]:
    """Collect the position of the last token of each pass.

    For models with multimodal rotary positions.

    The model's offset counts from the largest position. In a long video (Qwen2.5-VL), this is the
    last frame's position, not the text's.
    """
    last_positions: list[int] = []

    def note(_: torch.nn.Module, __: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        positions = keywords.get("position_ids")
        if positions is not None:
            last_positions.append(int(positions[..., -1].max()))

    with ExitStack() as hooks:
        for module in model.modules():
            inner = getattr(module, "language_model", None)
            if hasattr(module, "rope_deltas") and isinstance(inner, torch.nn.Module):
                hooks.enter_context(inner.register_forward_pre_hook(note, with_kwargs=True))
        yield last_positions


def _rope_delta(model: torch.nn.Module) -> int:
    """Return the next multimodal rotary position minus the number of tokens, else 0."""
    deltas = (getattr(module, "rope_deltas", None) for module in model.modules())
    return next((int(delta.flatten()[0]) for delta in deltas if delta is not None), 0)


def keep_fractions(model: torch.nn.Module) -> None:
    """Make Qwen2.5-VL position frames as in transformers 5.18 and later.

    Earlier versions truncate the seconds between temporal patches to integers. In a clip with more
    than two frames per second, all frames then have the same time (huggingface/transformers, pull
    request 48669). Other models are not changed.
    """
    if not _CUTS_SECONDS:
        return
    for module in model.modules():
        if isinstance(module, transformers.Qwen2_5_VLModel) and "get_rope_index" not in vars(
            module
        ):
            module.get_rope_index = partial(_rope_index, module.get_rope_index)
            module.get_vision_position_ids = partial(_positions, module.get_vision_position_ids)


def _rope_index(original: Any, *args: Any, second_per_grid_ts: Any = None, **keywords: Any) -> Any:
    seconds = repeat(1) if second_per_grid_ts is None else second_per_grid_ts
    return original(*args, second_per_grid_ts=(value * _UNITS for value in seconds), **keywords)


def _positions(
    original: Any, start: Any, grid: Any, temporal: int, spatial: int, interval: int, device: Any
) -> torch.Tensor:
    """Return time, height and width, shape (3, tokens).

    The interval is in units for a video, and 1 for an image.
    """
    positions = original(start, grid, temporal, spatial, 1, device=device)
    if interval != 1:
        positions[0] = start + ((positions[0] - start) * (interval / _UNITS)).long()
    return positions
