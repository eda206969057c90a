"""Model inputs of one question: the shared context, and the tokens of each candidate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.sharing import cached_for_question


class RankingError(LmmsEgoplanError):
    """A question cannot be ranked. The message names the question and the reason."""


class ContextTooLongError(RankingError):
    """The context and its longest candidate exceed the model's positions.

    Nothing is ever truncated.
    """


class PathError(RankingError):
    """A computation path that was exact for a kind of questions is inexact for one of them.

    Attributes:
        paths: The paths that are inexact for that question, starting with the one that was used.
    """

    REMEDY = (
        "Repeat the run with --model_args ...,ranking_path=full (in code: path='full'), which runs "
        "a full pass per candidate"
    )

    def __init__(
        self,
        paths: Sequence[str],
        kind: str,
        objection: str,
        question_id: str,
        remedy: str = REMEDY,
    ) -> None:
        super().__init__(
            f"question {question_id}: the path {paths[0]} was exact for earlier questions of this "
            f"kind ({kind}), but is not for this one: {objection}. Do not use scores from this "
            f"path. {remedy}"
        )
        self.paths = tuple(paths)


@dataclass(frozen=True)
class CandidateTokens:
    """The tokens of one candidate after the shared prefix.

    Attributes:
        tokens: All token IDs from the end of the prefix to the last scored token. For decoder-only
            models, context tokens may come first, if the boundary is tokenised differently for
            different candidates.
        first: Index in `tokens` of the first scored token. All tokens after it are scored, too.
    """

    tokens: list[int]
    first: int

    @property
    def scored_tokens(self) -> list[int]:
        """IDs of the scored tokens."""
        return self.tokens[self.first :]


@dataclass(frozen=True)
class EncodedQuestion:
    """One question, ready for the model.

    Attributes:
        inputs: Model inputs of the shared prefix (decoder-only) or of the encoder, with batch size
            1. Per-token inputs have shape (1, prefix_length).
        candidates: The candidates, in the caller's order.
        question_id: ID for error messages.
        num_visuals: Number of images and video frames in the context.
    """

    inputs: dict[str, torch.Tensor]
    candidates: list[CandidateTokens]
    question_id: str
    num_visuals: int = 0

    @property
    def prefix_length(self) -> int:
        """Length of the context, in tokens."""
        return self.inputs["input_ids"].shape[1]

    @property
    def longest_candidate(self) -> int:
        """Length of the longest candidate, in tokens."""
        return max(len(candidate.tokens) for candidate in self.candidates)

    @property
    def has_visuals(self) -> bool:
        """True if the inputs include images or videos."""
        return any(name.startswith("pixel_values") for name in self.inputs)

    @property
    def model_inputs(self) -> dict[str, torch.Tensor]:
        """Inputs for the model. Without images, those of InstructBLIP's Q-Former are omitted."""
        return {
            name: value
            for name, value in self.inputs.items()
            if self.has_visuals or not name.startswith("qformer_")
        }


def is_per_token(name: str, value: Any, inputs: Mapping[str, Any]) -> bool:
    """Return whether a model input has one entry per token and is sliced with the tokens.

    Its shape is (1, tokens, ...). The tokens of InstructBLIP's Q-Former are others, even if there
    are equally many.
    """
    if not isinstance(value, torch.Tensor) or name.startswith(("pixel_values", "qformer_")):
        return False
    return value.shape[:2] == inputs["input_ids"].shape


def ready(inputs: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Return model inputs that `on_device` only has to copy.

    They are in the model's precision, and pinned for CUDA devices.
    """

    def converted(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        value = value.to(_dtype(name, value, model))
        return (
            value.pin_memory()
            if model.device.type == "cuda" and value.device.type == "cpu"
            else value
        )

    return {
        name: cached_for_question(id(value), partial(converted, name, value), value)
        for name, value in inputs.items()
    }


def on_device(inputs: Mapping[str, Any], model: PreTrainedModel) -> dict[str, Any]:
    """Move model inputs to the model's device, and convert numbers such as pixels to its precision.

    Pinned inputs are copied to CUDA asynchronously.
    Seconds (``second_per_grid_ts``) keep their precision: half precision would shift the positions
    computed from them.
    """
    device = model.device
    overlaps = model.device.type == "cuda"
    return {
        name: value.to(
            device, _dtype(name, value, model), non_blocking=overlaps and value.is_pinned()
        )
        if isinstance(value, torch.Tensor)
        else value
        for name, value in inputs.items()
    }


def _dtype(name: str, value: torch.Tensor, model: PreTrainedModel) -> torch.dtype:
    return model.dtype if value.is_floating_point() and "second" not in name else value.dtype


def check_length(model: PreTrainedModel, context: int, answer: int, question_id: str) -> None:
    """Raise `ContextTooLongError` if context and answer exceed the model's positions.

    The answer is the longest one. Lengths are in tokens.
    """
    positions = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if positions is not None and context + answer > positions:
        raise too_long(
            question_id, context, answer, f"{model.config.model_type} has {positions} positions"
        )


def too_long(question_id: str, context: int, answer: int, limit: str) -> ContextTooLongError:
    """Return the error for a context and its longest answer, in tokens, that exceed a limit."""
    return ContextTooLongError(
        f"question {question_id}: context and longest answer are {context + answer} tokens "
        f"({context} + {answer}), but {limit}. Show fewer or smaller images: set the frame count "
        "in the task's YAML (see its README), or max_frames_num for video files"
    )
