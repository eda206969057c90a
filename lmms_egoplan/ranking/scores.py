"""Compute a candidate's score from logits, which are in float32."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.methods import FULL
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion

# Number of vocabulary rows converted to float32 at a time.
_ROWS = 8192
# Maximum number of tokens whose logits are recomputed. Models without `logits_to_keep` return the
# whole context's.
_MOST_TOKENS = 1024


@dataclass(frozen=True)
class CandidateScore:
    """Likelihood of one candidate given the context.

    Attributes:
        token_logprobs: Log-probability of each of the candidate's tokens, nats, at most 0; at least
            one token.
        is_greedy: Whether each token is the most probable one at its position.
        use: The computation path and the result of an audit of this question; None outside
            `CandidateRanker`.

    >>> score = CandidateScore(token_logprobs=(-0.5, -1.0), is_greedy=False)
    >>> score.num_tokens, score.logprob, score.nll
    (2, -1.5, 0.75)
    """

    token_logprobs: tuple[float, ...]
    is_greedy: bool
    use: PathUse | None = None

    @property
    def num_tokens(self) -> int:
        """Number of tokens in the candidate, at least 1."""
        return len(self.token_logprobs)

    @property
    def logprob(self) -> float:
        """Sum of the log-probabilities of the candidate's tokens, nats, at most 0."""
        return sum(self.token_logprobs)

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood per token, nats; lower is better."""
        return -self.logprob / self.num_tokens


ScoringFunction = Callable[[EncodedQuestion], list[CandidateScore]]
"""Scores the candidates of a question."""


class Passes(ABC):
    """Ways to score a question with one model.

    The reference is *full*: one independent pass per candidate.
    """

    @property
    @abstractmethod
    def fast_paths(self) -> Mapping[str, ScoringFunction]:
        """The other paths by name, the fastest first."""

    def score(self, path: str, question: EncodedQuestion) -> list[CandidateScore]:
        """Score a question on a path.

        Args:
            path: `FULL`, or one of `fast_paths`.
            question: The question.
        """
        if path == FULL:
            return self.full(question)
        return self.fast_paths[path](question)

    def full(self, question: EncodedQuestion, padding: Sequence[int] = ()) -> list[CandidateScore]:
        """Score each candidate in an independent pass.

        `padding` adds masked tokens next to the context; see `full_logits`.
        """
        return [
            score_from_logits(candidate, self.full_logits(question, candidate, padding))
            for candidate in question.candidates
        ]

    @abstractmethod
    def full_logits(
        self, question: EncodedQuestion, candidate: CandidateTokens, padding: Sequence[int] = ()
    ) -> torch.Tensor:
        """Return the logits of a candidate's scored tokens, shape (tokens, vocabulary).

        They come from an independent pass.

        Args:
            question: The question.
            candidate: One of its candidates.
            padding: IDs of text tokens that the attention mask hides. They change the shapes of the
                computation, and so its rounding, but not its meaning.
        """


def lead(scores: Iterable[CandidateScore]) -> float:
    """Return the difference between the two best mean losses, nats; infinite for one candidate."""
    best, second = sorted([score.nll for score in scores] + [math.inf])[:2]
    return second - best


def is_near_tie(scores: Collection[CandidateScore], margin: float) -> bool:
    """Return whether the best mean loss leads by less than `margin`, nats.

    Also true if a score is NaN.
    """
    return any(math.isnan(score.nll) for score in scores) or not lead(scores) >= margin


def differences(
    scores: Iterable[CandidateScore], reference: Iterable[CandidateScore]
) -> list[float]:
    """Return the absolute difference of each candidate's mean losses, nats."""
    return [abs(a.nll - b.nll) for a, b in zip(scores, reference, strict=True)]


def score_from_logits(candidate: CandidateTokens, logits: torch.Tensor) -> CandidateScore:
    """Score a candidate from the logits that predict its tokens.

    Args:
        candidate: The candidate's tokens.
        logits: Logits of shape (len(candidate.scored_tokens), vocabulary). Row k predicts scored
            token k.

    >>> candidate = CandidateTokens(tokens=[7, 1], first=1)
    >>> score_from_logits(candidate, torch.tensor([[0.0, 9.0]])).is_greedy
    True
    """
    targets = torch.tensor(candidate.scored_tokens, device=logits.device)
    return CandidateScore(
        token_logprobs=tuple(token_logprobs(candidate, logits).double().tolist()),
        is_greedy=bool((logits.argmax(dim=-1) == targets).all()),
    )


def token_logprobs(candidate: CandidateTokens, logits: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each scored token, nats, shape (tokens,).

    The result is float32, and has gradients.

    Args:
        candidate: As for `score_from_logits`.
        logits: As for `score_from_logits`.
    """
    targets = torch.tensor(candidate.scored_tokens, device=logits.device)
    return torch.log_softmax(logits.float(), dim=-1).gather(-1, targets[:, None])[:, 0]


@contextmanager
def float32_logits(model: PreTrainedModel) -> Iterator[None]:
    """Compute the output layers in float32 from half-precision inputs.

    In bfloat16, logits near 20 have steps of 0.125. Rounding alone then changes a mean loss over a
    few tokens by more than 0.02 nats between passes. float32 is used only for the candidates' few
    tokens.
    """
    layers = {}
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            layer = module.get_output_embeddings()
            if layer is not None:
                layers[id(layer)] = layer
    with ExitStack() as hooks:
        for layer in layers.values():
            if type(layer) is torch.nn.Linear:
                hooks.enter_context(layer.register_forward_hook(_in_float32))
        yield


def _in_float32(
    layer: torch.nn.Linear, inputs: tuple[Any, ...], output: torch.Tensor
) -> torch.Tensor:
    is_small = len(inputs) == 1 and inputs[0].shape[:-1].numel() <= _MOST_TOKENS
    if output.dtype.itemsize >= 4 or layer.weight.is_meta or not is_small:
        return output
    # split models move them between devices
    states = inputs[0].to(layer.weight.device, torch.float32)
    logits = torch.cat([states @ rows.float().T for rows in layer.weight.split(_ROWS)], dim=-1)
    return (logits if layer.bias is None else logits + layer.bias.float()).to(output.device)
