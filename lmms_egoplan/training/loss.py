"""Compute the loss of tuning on answers and negatives (arXiv 2312.06722, eq. 1 to 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

Scores = Sequence[Sequence[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """The loss of a batch, or the share that a part of the batch contributes.

    The shares of all parts sum to the batch's loss.

    Attributes:
        nll: Mean negative log-likelihood of the right answers, nats (eq. 1, each a mean over
            tokens).
        contrastive: Eq. 3, nats: the mean over groups of the mean ``s_neg - s_pos`` over a group's
            violating samples; 0 for a group without any.
        pairs: Number of samples with a negative.
        violations: Number of samples whose negative is more likely than the answer.
    """

    nll: torch.Tensor
    contrastive: torch.Tensor
    pairs: int
    violations: int

    @property
    def loss(self) -> torch.Tensor:
        """Eq. 2: the sum of both parts."""
        return self.nll + self.contrastive


def batch_loss(scores: Scores, group: int | None = None, samples: int | None = None) -> BatchLoss:
    """Compute the loss from the scores of answers and negatives.

    L = mean of ``-s_pos`` + mean over groups of the mean over a group's violating samples of
    ``s_neg - s_pos``. Groups are consecutive samples. There is no margin, no weight and no
    reference model. A negative exactly as likely as the answer is not a violation.

    A batch may be computed in parts, by several passes or processes. Every part has whole groups,
    and divides by the size of the batch. Therefore the shares sum to the same loss, and their
    gradients to the same gradient, for any division.

    Args:
        scores: For each sample, its answer's score and, if it has one, its negative's: mean
            log-probability per token (eq. 4), nats.
        group: Number of samples in a group, a divisor of the number of `scores`; None for one
            group.
        samples: Number of samples in the batch, if `scores` is only a part of it.

    Raises:
        ValueError: A group is incomplete.

    >>> s = torch.tensor
    >>> batch = [[s(-1.0), s(-0.5)], [s(-2.0), s(-3.0)], [s(-3.0)], [s(-2.0), s(-0.5)]]
    >>> loss = batch_loss(batch)
    >>> loss.loss.item(), loss.nll.item(), loss.contrastive.item(), loss.violations
    (3.0, 2.0, 1.0, 2)
    >>> # 0.5 in the first group, 1.5 in the second
    >>> batch_loss(batch, group=2).contrastive.item()
    1.0
    >>> # the first group's share of the same batch
    >>> batch_loss(batch[:2], group=2, samples=4).contrastive.item()
    0.25
    """
    group = group or len(scores)
    samples = samples or len(scores)
    if len(scores) % group:
        raise ValueError(f"{len(scores)} samples are not divisible into groups of {group}")
    answers = torch.stack([answer for answer, *_ in scores])
    contrastive = answers.new_zeros(())
    violations = 0
    for start in range(0, len(scores), group):
        gaps = _violations(scores[start : start + group])
        violations += len(gaps)
        if gaps:
            contrastive = contrastive + torch.stack(gaps).mean()
    return BatchLoss(
        nll=-answers.sum() / samples,
        contrastive=contrastive * group / samples,
        pairs=sum(len(sample) > 1 for sample in scores),
        violations=violations,
    )


def _violations(scores: Scores) -> list[torch.Tensor]:
    """Return ``s_neg - s_pos`` of the samples whose negative is more likely than the answer."""
    gaps = []
    for answer, *negatives in scores:
        gaps += [negative - answer for negative in negatives if negative > answer]
    return gaps
