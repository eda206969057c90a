"""What the model gets for one question: the shared context once, and each candidate's tokens behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError


class RankingError(LmmsEgoplanError):
    """A question cannot be ranked; the message says which and why."""


class ContextTooLongError(RankingError):
    """The context and its longest candidate do not fit the model's positions; nothing is ever cut."""


class PathError(RankingError):
    """A computation path that was exact for a kind of questions gives other numbers for one of them.

    paths: those that are inexact for that question, the one that was taken first.
    """

    REMEDY = (
        "Run again with --model_args ...,ranking_path=full (in code: path='full'), where each candidate takes a full "
        "pass"
    )

    def __init__(self, paths: Sequence[str], kind: str, objection: str, question_id: str, remedy: str = REMEDY) -> None:
        super().__init__(
            f"question {question_id}: the path {paths[0]}, exact for earlier questions of this kind ({kind}), is not "
            f"for this one: {objection}. Do not use the scores that came on this path. {remedy}"
        )
        self.paths = tuple(paths)


@dataclass(frozen=True)
class CandidateTokens:
    """The tokens of one candidate behind the shared prefix.

    tokens: all token ids from the end of the prefix to the last scored one. Decoder-only models may have context
        tokens first, where candidates disagree on how the boundary is tokenised.
    first: index in ``tokens`` of the first token that is scored; all from there on are.
    """

    tokens: list[int]
    first: int

    @property
    def scored_tokens(self) -> list[int]:
        """Token ids from the first scored one on."""
        return self.tokens[self.first :]


@dataclass(frozen=True)
class EncodedQuestion:
    """One question, ready for the model.

    inputs: model inputs of the shared prefix (decoder-only) or of the encoder, batch size 1; sequence-shaped ones
        have shape (1, prefix_length).
    candidates: in the caller's order.
    question_id: for error messages.
    num_visuals: images, and frames of videos, in the context.
    """

    inputs: dict[str, torch.Tensor]
    candidates: list[CandidateTokens]
    question_id: str
    num_visuals: int = 0

    @property
    def prefix_length(self) -> int:
        """Tokens of the context."""
        return self.inputs["input_ids"].shape[1]

    @property
    def longest_candidate(self) -> int:
        """Tokens of the longest candidate."""
        return max(len(candidate.tokens) for candidate in self.candidates)

    @property
    def has_visuals(self) -> bool:
        """Images or videos are among the inputs."""
        return any(name.startswith("pixel_values") for name in self.inputs)

    @property
    def model_inputs(self) -> dict[str, torch.Tensor]:
        """The inputs, without images also without those of InstructBLIP's Q-Former."""
        return {
            name: value for name, value in self.inputs.items() if self.has_visuals or not name.startswith("qformer_")
        }


def is_per_token(name: str, value: Any, inputs: Mapping[str, Any]) -> bool:
    """Return whether a model input has one entry per token, shape (1, tokens, ...), and is cut with the tokens."""
    if not isinstance(value, torch.Tensor) or name.startswith("pixel_values"):
        return False
    return value.shape[:2] == inputs["input_ids"].shape


def ready(inputs: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Return model inputs that `on_device` only copies: in the model's precision, pinned if it is on a CUDA device."""

    def converted(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.to(_dtype(name, value, model))
        return value.pin_memory() if model.device.type == "cuda" and value.device.type == "cpu" else value

    return {name: converted(name, value) for name, value in inputs.items()}


def on_device(inputs: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Move model inputs to the model's device, pixels in its precision; a CUDA device copies pinned ones meanwhile.

    Seconds (``second_per_grid_ts``) keep theirs: half precision would shift the positions that depend on them.
    """
    device, overlaps = model.device, model.device.type == "cuda"
    return {
        name: value.to(device, _dtype(name, value, model), non_blocking=overlaps and value.is_pinned())
        if isinstance(value, torch.Tensor)
        else value
        for name, value in inputs.items()
    }


def _dtype(name: str, value: torch.Tensor, model: PreTrainedModel) -> torch.dtype:
    return model.dtype if value.is_floating_point() and "second" not in name else value.dtype


def check_length(model: PreTrainedModel, context: int, answer: int, question_id: str) -> None:
    """Raise `ContextTooLongError` if a context and its (longest) answer, in tokens, exceed the model's positions."""
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if positions is not None and context + answer > positions:
        raise too_long(question_id, context, answer, f"{model.config.model_type} has {positions} positions")


def too_long(question_id: str, context: int, answer: int, limit: str) -> ContextTooLongError:
    """Return the error for a context and its longest answer, in tokens, that exceed a limit."""
    return ContextTooLongError(
        f"question {question_id}: context and longest answer are {context + answer} tokens ({context} + {answer}), "
        f"{limit}; show it fewer or smaller images (frame counts are settings in the task's YAML, see its README; for "
        "video files the backend's max_frames_num)"
    )
