"""Score candidate answers after images by likelihood, with one pass over their shared context.

The context (images, question) runs once. Then the tokens of all candidates run in one row on its keys and values. A 4D mask lets each token see only
the context and its own candidate, at the position that it would have alone. The scores equal those of a full pass per candidate. The ranker checks this
on the first question with and without images, then on more and more widely spaced questions, and on contexts more than twice as long as any checked
before. If a first check fails, every candidate gets a full pass.
"""

import inspect
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

import torch
from loguru import logger as eval_logger
from transformers import DynamicCache, PreTrainedModel

FLOAT32_TOLERANCE = 1e-4
HALF_PRECISION_TOLERANCE = 2e-2
"""Largest accepted difference of a mean loss, in nats, between the shared pass and a full pass."""

CHECKED_EVERY = 512
"""Number of questions between two checks. Up to this number, the 1st, 2nd, 4th, 8th, ... question is checked."""


class UnsupportedPathError(Exception):
    """The model's configuration excludes the shared pass."""


Score = tuple[float, bool]
"""A candidate's mean negative log-likelihood per token in nats (lower is better), and whether it is the greedy answer."""


@dataclass(frozen=True)
class Question:
    """A context and its candidates as tokens.

    inputs: model inputs of the context, batch size 1.
    rows: each candidate's tokens after the shared context; context tokens come first if the boundary's tokens differ.
    first: index of the first scored token of each row.
    length: number of tokens of the shared context.
    """

    inputs: dict[str, Any]
    rows: list[list[int]]
    first: list[int]
    length: int


class CandidateRanker:
    """Scores candidates with a decoder-only vision-language model that has a chat template.

    Args:
        model: model in evaluation mode.
        processor: processor with a fast tokenizer.
        shared_context: allow one shared pass over the context for all candidates.
    """

    def __init__(self, model: PreTrainedModel, processor: Any, shared_context: bool = True) -> None:
        if model.config.is_encoder_decoder or not getattr(processor, "chat_template", None) or not processor.tokenizer.is_fast:
            raise ValueError(f"{model.config.model_type}: likelihoods require a decoder-only model, a chat template and a fast tokenizer")
        self._model, self._processor, self._tokenizer = model, processor, processor.tokenizer
        self._text_config = model.config.get_text_config(decoder=True)
        self._rope = RotaryLimits(self._text_config)
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._shared_context = shared_context
        self._num_questions: Counter = Counter()
        self._checked_lengths: dict[str, int] = {}  # length of the longest checked context

    def score(self, messages: Sequence[dict], candidates: Sequence[str], name: str) -> list[Score]:
        """Score each candidate as the assistant's answer to the messages.

        Args:
            messages: chat messages with ``{"type": "image", "image": PIL.Image}`` and ``{"type": "text", "text": str}``.
            candidates: non-empty texts; surrounding white space is removed.
            name: name of the question, for errors.

        Raises:
            ValueError: the question cannot be ranked.
            RuntimeError: the shared pass is wrong for this question, but was right for earlier ones.
        """
        question = self._encode(messages, [candidate.strip() for candidate in candidates], name)
        with float32_logits(self._model):
            return self._score(question, name)

    def _score(self, question: Question, name: str) -> list[Score]:
        kind = "with images" if any(key.startswith("pixel_values") for key in question.inputs) else "without images"
        # Candidates of one token are scored by the pass over the context, and cannot check the shared pass.
        if not self._shared_context or (kind not in self._checked_lengths and max(map(len, question.rows)) < 2):
            return self._full_passes(question)
        self._num_questions[kind] += 1
        count = self._num_questions[kind]
        if question.length <= 2 * self._checked_lengths.get(kind, 0) and count % CHECKED_EVERY and count & (count - 1):
            return self._shared_pass(question)
        scores = self._full_passes(question)
        problem = self._problem(question, scores)
        if problem is None:
            self._checked_lengths[kind] = max(question.length, self._checked_lengths.get(kind, 0))
        elif kind in self._checked_lengths:
            raise RuntimeError(f"question {name}: {problem}. Do not use the likelihoods of this run; run again with shared_context=False")
        else:
            self._shared_context = False
            eval_logger.warning(f"{self._model.config.model_type}: every candidate gets a full pass ({kind}: {problem})")
        return scores

    def _problem(self, question: Question, reference: Sequence[Score]) -> str | None:
        """Return why the shared pass differs from full passes, or None if it agrees."""
        try:
            scores = self._shared_pass(question)
        except torch.OutOfMemoryError:
            raise
        except (UnsupportedPathError, AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        tolerance = FLOAT32_TOLERANCE if self._model.dtype.itemsize >= 4 else HALF_PRECISION_TOLERANCE
        difference = max(abs(loss - expected) for (loss, _), (expected, _) in zip(scores, reference))
        return None if difference <= tolerance else f"a mean loss differs by {difference:.2g} nats, more than {tolerance}"

    @torch.inference_mode()
    def _shared_pass(self, question: Question) -> list[Score]:
        """Run one pass over the context, and one over all candidates' tokens except their last ones."""
        masks = MaskKinds(self._text_config)
        rows = [row[:-1] for row in question.rows]
        forget_earlier_questions(self._model)
        keep = {"logits_to_keep": 1} if self._takes_logits_to_keep else {}
        with _watched_positions(self._model) as positions:
            output = self._model(**question.inputs, past_key_values=DynamicCache(), use_cache=True, **keep)
        position = question.length + _rope_delta(self._model)
        kinds = question.inputs.get("mm_token_type_ids")
        if positions and kinds is not None and int(kinds[0, -1]) == 0:
            position = positions[-1] + 1
        if self._rope.change_within(position, max(map(len, question.rows))):
            return self._full_passes(question)
        first_logits = output.logits[0, -1:]
        row_logits = [first_logits[:0] for _ in rows]
        if any(rows):
            tokens = [token for row in rows for token in row]
            per_token = {name: value for name, value in question.inputs.items() if is_per_token(name, value, question.inputs) and value.ndim > 2}
            output = self._model(
                input_ids=torch.tensor([tokens], device=self._model.device),
                attention_mask=masks.packed([len(row) for row in rows], question.length, self._model),
                position_ids=torch.tensor([[position + offset for row in rows for offset in range(len(row))]], device=self._model.device),
                past_key_values=output.past_key_values,
                use_cache=True,
                **{name: entries_of(name, value, tokens) for name, value in per_token.items()},
            )
            row_logits = output.logits[0].split([len(row) for row in rows])
        candidate_logits = [torch.cat([first_logits, logits]) for logits in row_logits]
        return [_score(row[first:], logits[first:]) for row, first, logits in zip(question.rows, question.first, candidate_logits)]

    @torch.inference_mode()
    def _full_passes(self, question: Question) -> list[Score]:
        """Run a full pass over the context and all tokens of the candidate, for each candidate."""
        scores = []
        for row, first in zip(question.rows, question.first):
            inputs = dict(question.inputs)
            for name, value in question.inputs.items():
                if is_per_token(name, value, question.inputs):
                    inputs[name] = torch.cat([value, entries_of(name, value, row)], dim=1)
            forget_earlier_questions(self._model)
            keep = {"logits_to_keep": len(row) + 1} if self._takes_logits_to_keep else {}
            logits = self._model(**inputs, use_cache=False, **keep).logits[0]
            scores.append(_score(row[first:], logits[-1 - len(row) + first : -1]))
        return scores

    def _encode(self, messages: Sequence[dict], candidates: Sequence[str], name: str) -> Question:
        texts = [self._processor.apply_chat_template([*messages, _answer(candidate)], tokenize=False, continue_final_message=True) for candidate in candidates]
        rows, starts = [], []
        for text, candidate in zip(texts, candidates):
            # Like the processor: if the template has written the first special token, add no other.
            bos = self._tokenizer.bos_token
            encoded = self._tokenizer(text, add_special_tokens=not (bos and text.startswith(bos)), return_offsets_mapping=True)
            start = len(text) - len(candidate)
            indexes = [index for index, (begin, end) in enumerate(encoded["offset_mapping"]) if end > max(begin, start)]
            if not text.endswith(candidate) or not indexes:
                raise ValueError(f"question {name}: the chat template or the tokenizer changes the candidate {candidate!r}")
            rows.append(encoded["input_ids"][: indexes[-1] + 1])
            starts.append(indexes[0])
        shared_length = min(starts)
        while any(row[:shared_length] != rows[0][:shared_length] for row in rows):
            shared_length -= 1
        inputs = self._processor.apply_chat_template([[*messages, _answer(candidates[0])]], tokenize=True, return_dict=True, return_tensors="pt", continue_final_message=True)
        length = inputs["input_ids"].shape[1] - len(rows[0]) + shared_length
        if inputs["input_ids"][0, length:].tolist() != rows[0][shared_length:]:
            raise ValueError(f"question {name}: the processor and the tokenizer disagree on the text's tokens")
        limit = getattr(self._text_config, "max_position_embeddings", None)
        longest = max(len(row) for row in rows) - shared_length
        if limit is not None and length + longest > limit:
            raise ValueError(f"question {name}: {length + longest} tokens, but {self._model.config.model_type} has {limit} positions; use fewer or smaller images")
        shared = {key: value[:, :length] if is_per_token(key, value, inputs) else value for key, value in inputs.items()}
        return Question(on_device(shared, self._model), [row[shared_length:] for row in rows], [start - shared_length for start in starts], length)


def _answer(text: str) -> dict:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _score(tokens: Sequence[int], logits: torch.Tensor) -> Score:
    """Score tokens; row k of the logits, shape (tokens, vocabulary), predicts token k."""
    targets = torch.tensor(tokens, device=logits.device)
    losses = -torch.log_softmax(logits.float(), dim=-1).gather(-1, targets[:, None])[:, 0]
    return float(losses.double().mean()), bool((logits.argmax(dim=-1) == targets).all())


def is_per_token(name: str, value: Any, inputs: Mapping[str, Any]) -> bool:
    """Return whether a model input has one entry per token, shape (1, tokens, ...), and is sliced with the tokens."""
    if not isinstance(value, torch.Tensor) or name.startswith("pixel_values"):
        return False
    return value.shape[:2] == inputs["input_ids"].shape


def on_device(inputs: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Return inputs on the model's device, pixels in its precision; ``second_per_grid_ts`` stays exact, since positions depend on it."""
    return {name: value.to(model.device, model.dtype if value.is_floating_point() and "second" not in name else None) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


class RotaryLimits:
    """Lengths at which a text model's rotary frequencies change with the length of the whole sequence."""

    def __init__(self, text_config: Any) -> None:
        self._switches: set[int] = set()
        self._growth: set[int] = set()
        # transformers 5 has `rope_parameters`, per layer type if they differ. Earlier versions have `rope_scaling`.
        settings = getattr(text_config, "rope_parameters", None) or getattr(text_config, "rope_scaling", None) or {}
        by_layer = [value for value in settings.values() if isinstance(value, dict)]
        for parameters in by_layer or [settings]:
            rope_type = str(parameters.get("rope_type", parameters.get("type", "default")))
            names = ("original_max_position_embeddings", "max_position_embeddings")
            lengths = [parameters.get(names[0]), *(getattr(text_config, name, None) for name in names)]
            length = next((length for length in lengths if isinstance(length, int)), None)
            if length is not None and rope_type in ("longrope", "su"):
                self._switches.add(length)
            elif length is not None and "dynamic" in rope_type:
                self._growth.add(length)

    def change_within(self, position: int, longest: int) -> bool:
        """Return whether a candidate of up to `longest` tokens, starting at `position`, changes the frequencies.

        longrope uses its long factors beyond one length; dynamic NTK grows with each token beyond it.
        """
        end = position + longest
        return any(position <= limit < end for limit in self._switches) or any(end > limit for limit in self._growth)


class MaskKinds:
    """Build the attention masks for packed candidates, one for each type of layer in a text model."""

    def __init__(self, text_config: Any) -> None:
        self._window = getattr(text_config, "sliding_window", None)
        if getattr(text_config, "use_sliding_window", True) is False:
            self._window = None
        self._layer_types = set(getattr(text_config, "layer_types", None) or ())
        implementation = text_config._attn_implementation
        if implementation not in ("sdpa", "eager"):
            raise UnsupportedPathError(f"attention implementation {implementation} does not accept arbitrary masks")
        if unknown := self._layer_types - {"full_attention", "sliding_attention"}:
            raise UnsupportedPathError(f"layers of type {', '.join(sorted(unknown))} cannot pack several candidates")

    def packed(self, row_lengths: list[int], prefix_length: int, model: PreTrainedModel) -> torch.Tensor | dict[str, torch.Tensor]:
        """Return additive masks, shape (1, 1, tokens, prefix + tokens): a token sees the prefix and its own row."""
        device, dtype = model.device, model.dtype
        lengths = torch.tensor(row_lengths, device=device)
        row = torch.arange(len(row_lengths), device=device).repeat_interleave(lengths)
        position = torch.cat([torch.arange(length, device=device) for length in row_lengths]) + prefix_length
        key_position = torch.cat([torch.arange(prefix_length, device=device), position])
        key_row = torch.cat([torch.full((prefix_length,), -1, device=device), row])
        distance = position[:, None] - key_position
        visible = ((key_row == -1) | (key_row == row[:, None])) & (distance >= 0)

        def additive(allowed: torch.Tensor) -> torch.Tensor:
            mask = torch.zeros(allowed.shape, dtype=dtype, device=device)
            return mask.masked_fill_(~allowed, torch.finfo(dtype).min)[None, None]

        if self._window is None:
            return additive(visible)
        sliding = additive(visible & (distance < self._window))
        if not self._layer_types:
            return sliding
        if "sliding_attention" not in self._layer_types:
            return additive(visible)
        return {"full_attention": additive(visible), "sliding_attention": sliding}


def entries_of(name: str, value: torch.Tensor, tokens: list[int]) -> torch.Tensor:
    """Return a per-token model input for an answer's text tokens, shape (1, tokens, ...)."""
    if value.ndim > 2:  # Mllama: an answer's tokens see the same images as the last token of the context
        return value[:, -1:].expand(-1, len(tokens), *value.shape[2:])
    entries = {"input_ids": tokens, "attention_mask": [1] * len(tokens)}.get(name, [0] * len(tokens))
    return value.new_tensor([entries])


def forget_earlier_questions(model: torch.nn.Module) -> None:
    """Reset a model's state from earlier questions: position offsets, and rotary frequencies for longer inputs."""
    module: Any
    for module in model.modules():
        if getattr(module, "rope_deltas", None) is not None:
            module.rope_deltas = None
        original = getattr(module, "original_max_seq_len", None)
        for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")] if original else ():
            if getattr(module, name) > original:
                # Without layer types, transformers 5.12 names it None_max_seq_len_cached.
                prefix = name.removesuffix("max_seq_len_cached").removeprefix("None_")
                frequencies = getattr(module, f"{prefix}inv_freq")
                setattr(module, f"{prefix}inv_freq", getattr(module, f"{prefix}original_inv_freq").to(frequencies))
                setattr(module, name, original)


@contextmanager
def _watched_positions(model: torch.nn.Module) -> Iterator[list[int]]:
    """Collect the position of the last token of each pass, for models with multimodal rotary positions.

    The model's offset counts from the largest position. In a long video (Qwen2.5-VL), this is the last frame's
    position, not the text's.
    """
    last_positions: list[int] = []

    def note(_: torch.nn.Module, __: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if (positions := keywords.get("position_ids")) is not None:
            last_positions.append(int(positions[..., -1].max()))

    with ExitStack() as hooks:
        for module in model.modules():
            inner = getattr(module, "language_model", None)
            if hasattr(module, "rope_deltas") and isinstance(inner, torch.nn.Module):
                hooks.enter_context(inner.register_forward_pre_hook(note, with_kwargs=True))
        yield last_positions


def _rope_delta(model: torch.nn.Module) -> int:
    """Return the next position minus the number of tokens, for multimodal rotary positions; otherwise 0."""
    deltas = (getattr(module, "rope_deltas", None) for module in model.modules())
    return next((int(delta.flatten()[0]) for delta in deltas if delta is not None), 0)


# Number of vocabulary rows converted to float32 at a time.
_ROWS = 8192


# Maximum number of tokens whose logits are recomputed. Models without `logits_to_keep` return the whole context's.
_MOST_TOKENS = 1024


@contextmanager
def float32_logits(model: PreTrainedModel) -> Iterator[None]:
    """Compute the output layers in float32 from half-precision inputs.

    In bfloat16, logits near 20 have steps of 0.125. Rounding alone then changes a mean loss over a few tokens by more
    than 0.02 nats between passes. float32 is used only for the candidates' few tokens.
    """
    owners = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    layers = {id(layer): layer for owner in owners if (layer := owner.get_output_embeddings()) is not None}
    with ExitStack() as hooks:
        for layer in layers.values():
            if type(layer) is torch.nn.Linear:
                hooks.enter_context(layer.register_forward_hook(_in_float32))
        yield


def _in_float32(layer: torch.nn.Linear, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    is_small = len(inputs) == 1 and inputs[0].shape[:-1].numel() <= _MOST_TOKENS
    if output.dtype.itemsize >= 4 or layer.weight.is_meta or not is_small:
        return output
    states = inputs[0].to(layer.weight.device, torch.float32)  # split models move them between devices
    logits = torch.cat([states @ rows.float().T for rows in layer.weight.split(_ROWS)], dim=-1)
    return (logits if layer.bias is None else logits + layer.bias.float()).to(output.device)
