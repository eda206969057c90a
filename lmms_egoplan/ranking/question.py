"""What the model gets for one question: the shared context once, and each candidate's tokens behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch


class RankingError(ValueError):
    """A question cannot be ranked; the message says which and why."""


class ContextTooLongError(RankingError):
    """The context and its longest candidate do not fit the model's positions; nothing is ever cut."""


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
        return self.tokens[self.first :]


@dataclass(frozen=True)
class EncodedQuestion:
    """One question, ready for the model.

    inputs: model inputs of the shared prefix (decoder-only) or of the encoder, batch size 1; sequence-shaped ones
        have shape (1, prefix_length).
    candidates: in the caller's order.
    question_id: for error messages.
    """

    inputs: dict[str, torch.Tensor]
    candidates: list[CandidateTokens]
    question_id: str

    @property
    def prefix_length(self) -> int:
        return self.inputs["input_ids"].shape[1]

    @property
    def longest_candidate(self) -> int:
        return max(len(candidate.tokens) for candidate in self.candidates)

    @property
    def has_visuals(self) -> bool:
        return any(name.startswith("pixel_values") for name in self.inputs)

    @property
    def kind(self) -> tuple[str, ...]:
        """What decides which computation paths are open: the kinds of input, and whether there are rows to pack."""
        media = sorted(name for name in self.inputs if name.startswith("pixel_values"))
        return (*media, "several" if len(self.candidates) > 1 else "one")


def is_per_token(name: str, value: Any, inputs: Mapping[str, Any]) -> bool:
    """Whether a model input has one entry per token, shape (1, tokens, ...), and so is cut where the tokens are."""
    if not isinstance(value, torch.Tensor) or name.startswith("pixel_values"):
        return False
    return value.shape[:2] == inputs["input_ids"].shape
