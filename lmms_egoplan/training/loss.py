"""The loss of tuning on answers and negatives (arXiv 2312.06722, eq. 1 to 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class BatchLoss:
    """The loss of some samples, which may be a part of a batch; sums over parts give the batch's.

    nll: mean negative log-likelihood of the right answers, nats (eq. 1, each a mean over tokens).
    contrastive: mean over violating samples of ``s_neg - s_pos``, nats (eq. 3); 0 without any.
    samples, pairs, violations: how many there are; how many have a negative; how many of these have a negative that is
        more likely than the answer.
    """

    nll: torch.Tensor
    contrastive: torch.Tensor
    samples: int
    pairs: int
    violations: int

    @property
    def loss(self) -> torch.Tensor:
        """Eq. 2: the sum of both."""
        return self.nll + self.contrastive


def batch_loss(
    scores: Sequence[Sequence[torch.Tensor]], samples: int | None = None, violations: int | None = None
) -> BatchLoss:
    """Compute the loss from the scores of answers and negatives.

    L = mean of ``-s_pos`` + mean over the samples that violate it of ``max(0, s_neg - s_pos)``. There is no margin, no
    weight and no reference model. A negative that is exactly as likely as the answer violates nothing.

    Args:
        scores: of each sample its answer's score and, if it has one, its negative's: mean log-probability of a token
            (eq. 4, `mean_logprob`), nats.
        samples, violations: of the whole batch, where `scores` are only a part of it.

    >>> s = torch.tensor
    >>> loss = batch_loss([[s(-1.0), s(-0.5)], [s(-2.0), s(-3.0)], [s(-3.0)]])
    >>> loss.loss.item(), loss.nll.item(), loss.contrastive.item(), loss.violations
    (2.5, 2.0, 0.5, 1)
    """
    gaps = [negative - answer for answer, *negatives in scores for negative in negatives]
    violating = [gap for gap in gaps if gap.detach() > 0]
    nll = -torch.stack([answer for answer, *_ in scores]).sum() / (samples or len(scores))
    contrastive = torch.stack(violating).sum() / (violations or len(violating)) if violating else torch.zeros_like(nll)
    return BatchLoss(nll, contrastive, len(scores), len(gaps), len(violating))


def mean_logprob(token_logprobs: torch.Tensor) -> torch.Tensor:
    """Eq. 4: the mean log-probability of an answer's tokens, nats."""
    return token_logprobs.mean()
