"""From logits to a candidate's score."""

from dataclasses import dataclass

import torch

from lmms_egoplan.ranking.question import CandidateTokens


@dataclass(frozen=True)
class CandidateScore:
    """Likelihood of one candidate given the context.

    logprob: sum of the log-probabilities of the candidate's tokens, nats, at most 0.
    num_tokens: tokens in that sum, at least 1.
    is_greedy: whether each of them is the most probable token at its place.
    """

    logprob: float
    num_tokens: int
    is_greedy: bool

    @property
    def nll(self) -> float:
        """Mean negative log-likelihood per token, nats (EgoPlan-Bench eq. 4 with the sign turned: lower is better)."""
        return -self.logprob / self.num_tokens


def score_from_logits(candidate: CandidateTokens, logits: torch.Tensor) -> CandidateScore:
    """Score a candidate from the logits that predict its tokens.

    Args:
        candidate: the tokens and which of them are scored.
        logits: shape (len(candidate.scored_tokens), vocabulary); row k predicts scored token k.
    """
    targets = torch.tensor(candidate.scored_tokens, device=logits.device)
    logprobs = torch.log_softmax(logits.float(), dim=-1).gather(-1, targets[:, None])
    return CandidateScore(
        logprob=logprobs.double().sum().item(),
        num_tokens=len(candidate.scored_tokens),
        is_greedy=bool((logits.argmax(dim=-1) == targets).all()),
    )
