"""Likelihoods of candidate answers behind images, with one pass over what the candidates share.

The context (images, question) runs once. The tokens of all candidates then run behind its keys and values in one row:
a 4D mask lets each token see the context and its own candidate only, at the position that it would have alone. A pass
of its own for every candidate gives the same numbers; the ranker checks that on the first question with and without
images, again and again later on, and where a context is more than twice as long as any that was checked. Where it does
not hold at first, every candidate takes a pass of its own.
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
"""Largest accepted difference of a mean loss, nats, between the shared pass and a pass of its own."""

CHECKED_EVERY = 512
"""Questions between two checks; until then the 1st, 2nd, 4th, 8th, ... is checked."""


class UnsupportedPathError(Exception):
    """The model's configuration rules the shared pass out."""


Score = tuple[float, bool]
"""A candidate's mean negative log-likelihood per token, nats (lower is better), and whether it is the greedy answer."""


@dataclass(frozen=True)
class Question:
    """A context and its candidates as tokens.

    inputs: model inputs of the context, batch size 1.
    rows: the tokens of each candidate behind the context; tokens of the context first, where candidates disagree on how
        the boundary is tokenized.
    first: index of the first token of each row that is scored.
    length: tokens of the context.
    """

    inputs: dict[str, Any]
    rows: list[list[int]]
    first: list[int]
    length: int


class CandidateRanker:
    """Scores candidates with a decoder-only vision-language model that has a chat template.

    Args:
        model: in evaluation mode.
        processor: with a fast tokenizer.
        shared_context: whether one pass over the context may serve all candidates.
    """

    def __init__(self, model: PreTrainedModel, processor: Any, shared_context: bool = True) -> None:
        if model.config.is_encoder_decoder or not getattr(processor, "chat_template", None) or not processor.tokenizer.is_fast:
            raise ValueError(f"{model.config.model_type}: likelihoods need a decoder-only model, a chat template and a fast tokenizer")
        self._model, self._processor, self._tokenizer = model, processor, processor.tokenizer
        self._text_config = model.config.get_text_config(decoder=True)
        self._rope = RotaryLimits(self._text_config)
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(model.forward).parameters
        self._shared_context = shared_context
        self._seen: Counter = Counter()
        self._proven: dict[str, int] = {}  # the longest context that was checked

    def score(self, messages: Sequence[dict], candidates: Sequence[str], name: str) -> list[Score]:
        """Score each candidate as the assistant's answer to the messages.

        Args:
            messages: chat messages with ``{"type": "image", "image": PIL.Image}`` and ``{"type": "text", "text": str}``.
            candidates: not empty; white space around them is dropped.
            name: of the question, for errors.

        Raises:
            ValueError: the question cannot be ranked.
            RuntimeError: the shared pass, right for earlier questions, is wrong for this one.
        """
        question = self._encode(messages, [candidate.strip() for candidate in candidates], name)
        with float32_logits(self._model):
            return self._score(question, name)

    def _score(self, question: Question, name: str) -> list[Score]:
        kind = "with images" if any(key.startswith("pixel_values") for key in question.inputs) else "without images"
        # Candidates of one token are scored by the context's own pass, so they prove nothing of the shared one.
        if not self._shared_context or (kind not in self._proven and max(map(len, question.rows)) < 2):
            return self._own_passes(question)
        self._seen[kind] += 1
        count = self._seen[kind]
        if question.length <= 2 * self._proven.get(kind, 0) and count % CHECKED_EVERY and count & (count - 1):
            return self._shared_pass(question)
        scores = self._own_passes(question)
        problem = self._problem(question, scores)
        if problem is None:
            self._proven[kind] = max(question.length, self._proven.get(kind, 0))
        elif kind in self._proven:
            raise RuntimeError(f"question {name}: {problem}. Do not use the likelihoods of this run; run again with shared_context=False")
        else:
            self._shared_context = False
            eval_logger.warning(f"{self._model.config.model_type}: every candidate takes a pass of its own ({kind}: {problem})")
        return scores

    def _problem(self, question: Question, reference: Sequence[Score]) -> str | None:
        """Why the shared pass does not give what own passes give; None if it does."""
        try:
            scores = self._shared_pass(question)
        except torch.OutOfMemoryError:
            raise
        except (UnsupportedPathError, AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        tolerance = FLOAT32_TOLERANCE if self._model.dtype.itemsize >= 4 else HALF_PRECISION_TOLERANCE
        difference = max(abs(score[0] - other[0]) for score, other in zip(scores, reference))
        return None if difference <= tolerance else f"a mean loss differs by {difference:.2g} nats, more than {tolerance}"

    @torch.inference_mode()
    def _shared_pass(self, question: Question) -> list[Score]:
        """One pass over the context, one over the tokens of all candidates but their last ones."""
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
            return self._own_passes(question)
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
        logits = [torch.cat([first_logits, own]) for own in row_logits]
        return [_score(row[first:], own[first:]) for row, first, own in zip(question.rows, question.first, logits)]

    @torch.inference_mode()
    def _own_passes(self, question: Question) -> list[Score]:
        """A pass over the context and all tokens of a candidate, for each."""
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
            # As the processor does: a template that has written the first special token gets no other.
            bos = self._tokenizer.bos_token
            encoded = self._tokenizer(text, add_special_tokens=not (bos and text.startswith(bos)), return_offsets_mapping=True)
            start = len(text) - len(candidate)
            own = [index for index, (begin, end) in enumerate(encoded["offset_mapping"]) if end > max(begin, start)]
            if not text.endswith(candidate) or not own:
                raise ValueError(f"question {name}: the chat template or the tokenizer changes the candidate {candidate!r}")
            rows.append(encoded["input_ids"][: own[-1] + 1])
            starts.append(own[0])
        same = min(starts)
        while any(row[:same] != rows[0][:same] for row in rows):
            same -= 1
        inputs = self._processor.apply_chat_template([[*messages, _answer(candidates[0])]], tokenize=True, return_dict=True, return_tensors="pt", continue_final_message=True)
        length = inputs["input_ids"].shape[1] - len(rows[0]) + same
        if inputs["input_ids"][0, length:].tolist() != rows[0][same:]:
            raise ValueError(f"question {name}: the processor tokenizes the text with its images unlike the tokenizer does without them")
        limit = getattr(self._text_config, "max_position_embeddings", None)
        longest = max(len(row) for row in rows) - same
        if limit is not None and length + longest > limit:
            raise ValueError(f"question {name}: {length + longest} tokens, {self._model.config.model_type} has {limit} positions; show it fewer or smaller images")
        shared = {key: value[:, :length] if is_per_token(key, value, inputs) else value for key, value in inputs.items()}
        return Question(on_device(shared, self._model), [row[same:] for row in rows], [start - same for start in starts], length)


def _answer(text: str) -> dict:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _score(tokens: Sequence[int], logits: torch.Tensor) -> Score:
    """Score tokens; row k of the logits, shape (tokens, vocabulary), predicts token k."""
    targets = torch.tensor(tokens, device=logits.device)
    losses = -torch.log_softmax(logits.float(), dim=-1).gather(-1, targets[:, None])[:, 0]
    return float(losses.double().mean()), bool((logits.argmax(dim=-1) == targets).all())


def is_per_token(name: str, value: Any, inputs: Mapping[str, Any]) -> bool:
    """Return whether a model input has one entry per token, shape (1, tokens, ...), and is cut with the tokens."""
    if not isinstance(value, torch.Tensor) or name.startswith("pixel_values"):
        return False
    return value.shape[:2] == inputs["input_ids"].shape


def on_device(inputs: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Model inputs on the model's device, pixels in its precision.

    Not seconds (``second_per_grid_ts``), of which positions are computed: half precision would shift these.
    """
    return {name: value.to(model.device, model.dtype if value.is_floating_point() and "second" not in name else None) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


class RotaryLimits:
    """Lengths at which a text model's rotary frequencies change with the length of the whole sequence."""

    def __init__(self, text_config: Any) -> None:
        self._switches: set[int] = set()
        self._growth: set[int] = set()
        # transformers 5 has `rope_parameters`, by type of layer where these differ; before, `rope_scaling`.
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
        """Return whether a candidate of up to `longest` tokens from `position` on changes its context's frequencies.

        longrope takes its long factors beyond one length; dynamic NTK grows with each token beyond it.
        """
        end = position + longest
        return any(position <= limit < end for limit in self._switches) or any(end > limit for limit in self._growth)


class MaskKinds:
    """Which attention masks the layers of a text model need, and packed ones of each kind."""

    def __init__(self, text_config: Any) -> None:
        self._window = getattr(text_config, "sliding_window", None)
        if getattr(text_config, "use_sliding_window", True) is False:
            self._window = None
        self._layer_types = set(getattr(text_config, "layer_types", None) or ())
        implementation = text_config._attn_implementation
        if implementation not in ("sdpa", "eager"):
            raise UnsupportedPathError(f"attention implementation {implementation} takes no arbitrary mask")
        if unknown := self._layer_types - {"full_attention", "sliding_attention"}:
            raise UnsupportedPathError(f"layers of type {', '.join(sorted(unknown))} cannot hold several candidates")

    def packed(self, row_lengths: list[int], prefix_length: int, model: PreTrainedModel) -> torch.Tensor | dict[str, torch.Tensor]:
        """Additive masks of shape (1, 1, tokens, prefix + tokens): each token sees the prefix and its own row."""
        device, dtype = model.device, model.dtype
        lengths = torch.tensor(row_lengths, device=device)
        row = torch.arange(len(row_lengths), device=device).repeat_interleave(lengths)
        place = torch.cat([torch.arange(length, device=device) for length in row_lengths]) + prefix_length
        key_place = torch.cat([torch.arange(prefix_length, device=device), place])
        key_row = torch.cat([torch.full((prefix_length,), -1, device=device), row])
        distance = place[:, None] - key_place
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
    if value.ndim > 2:  # which images a token sees (Mllama): those that the last token of the context sees
        return value[:, -1:].expand(-1, len(tokens), *value.shape[2:])
    entries = {"input_ids": tokens, "attention_mask": [1] * len(tokens)}.get(name, [0] * len(tokens))
    return value.new_tensor([entries])


def forget_earlier_questions(model: torch.nn.Module) -> None:
    """Undo what a model keeps of earlier questions: position offsets, and rotary frequencies grown for longer ones."""
    module: Any
    for module in model.modules():
        if getattr(module, "rope_deltas", None) is not None:
            module.rope_deltas = None
        original = getattr(module, "original_max_seq_len", None)
        for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")] if original else ():
            if getattr(module, name) > original:
                # transformers 5.12 calls it None_max_seq_len_cached where there are no kinds of layers.
                prefix = name.removesuffix("max_seq_len_cached").removeprefix("None_")
                frequencies = getattr(module, f"{prefix}inv_freq")
                setattr(module, f"{prefix}inv_freq", getattr(module, f"{prefix}original_inv_freq").to(frequencies))
                setattr(module, name, original)


@contextmanager
def _watched_positions(model: torch.nn.Module) -> Iterator[list[int]]:
    """Collect the position of the last token of each pass, for models with multimodal rotary positions.

    The model's offset counts from the largest position: in a long video (Qwen2.5-VL) the last frame's, not the text's.
    """
    seen: list[int] = []

    def note(_: torch.nn.Module, __: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        if (positions := keywords.get("position_ids")) is not None:
            seen.append(int(positions[..., -1].max()))

    with ExitStack() as hooks:
        for module in model.modules():
            inner = getattr(module, "language_model", None)
            if hasattr(module, "rope_deltas") and isinstance(inner, torch.nn.Module):
                hooks.enter_context(inner.register_forward_pre_hook(note, with_kwargs=True))
        yield seen


def _rope_delta(model: torch.nn.Module) -> int:
    """Return the distance of the next position from the number of tokens (multimodal rotary positions), 0 elsewhere."""
    deltas = (getattr(module, "rope_deltas", None) for module in model.modules())
    return next((int(delta.flatten()[0]) for delta in deltas if delta is not None), 0)


# Rows of the vocabulary whose weights are in float32 at a time.
_ROWS = 8192


# Logits of more tokens, which a model without `logits_to_keep` gives for the whole context, stay as they are.
_MOST_TOKENS = 1024


@contextmanager
def float32_logits(model: PreTrainedModel) -> Iterator[None]:
    """Let the output layers compute in float32 what they get in half precision.

    A logit of 20 has steps of 0.125 in bfloat16, so that a mean loss over a few tokens differs by more than 0.02 nats
    between passes that are equal but for rounding. In float32 these are the candidates' few tokens.
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
    states = inputs[0].to(layer.weight.device, torch.float32)  # a model spread over devices moves them in between
    logits = torch.cat([states @ rows.float().T for rows in layer.weight.split(_ROWS)], dim=-1)
    return (logits if layer.bias is None else logits + layer.bias.float()).to(output.device)
