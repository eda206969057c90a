"""Compute the loss of tuning on answers and negatives (arXiv 2312.06722, eq. 1 to 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

Scores = Sequence[Sequence[torch.Tensor]]


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """The loss of some samples, possibly a part of a batch.

    Sums over the parts give the batch's loss.

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


def batch_loss(
    scores: Scores,
    group: int | None = None,
    samples: int | None = None,
    first: int = 0,
    violations: Sequence[float] | None = None,
) -> BatchLoss:
    """Compute the loss from the scores of answers and negatives.

    L = mean of ``-s_pos`` + mean over groups of the mean over a group's violating samples of
    ``s_neg - s_pos``. Groups are consecutive samples of the batch. The last group may be smaller,
    and counts as much as the others. There is no margin, no weight and no reference model. A
    negative exactly as likely as the answer is not a violation.

    Args:
        scores: For each sample, its answer's score and, if it has one, its negative's: mean
            log-probability per token (eq. 4), nats.
        group: Number of samples in a group; None for one group, the whole batch.
        samples: Size of the whole batch, if `scores` is only a part of it.
        first: Position of the first of `scores` in the batch.
        violations: Number of violating samples in each group of the whole batch
            (`count_violations`). Required if a group has samples outside `scores`.

    >>> s = torch.tensor
    >>> batch = [[s(-1.0), s(-0.5)], [s(-2.0), s(-3.0)], [s(-3.0)], [s(-2.0), s(-0.5)]]
    >>> loss = batch_loss(batch)
    >>> loss.loss.item(), loss.nll.item(), loss.contrastive.item(), loss.violations
    (3.0, 2.0, 1.0, 2)
    >>> # 0.5 in the first group, nothing in the second
    >>> batch_loss(batch[:3], group=2).contrastive.item()
    0.25
    """
    samples = samples or len(scores)
    group = group or samples
    if violations is None:
        violations = count_violations(scores, group, samples, first)
    gaps = [
        (negative - answer, violations[position // group])
        for position, (answer, *negatives) in enumerate(scores, first)
        for negative in negatives
    ]
    violating = [gap / max(count, 1) for gap, count in gaps if gap.detach() > 0]
    nll = -torch.stack([answer for answer, *_ in scores]).sum() / samples
    contrastive = (
        torch.stack(violating).sum() / len(violations) if violating else torch.zeros_like(nll)
    )
    return BatchLoss(nll, contrastive, len(gaps), len(violating))


def count_violations(scores: Scores, group: int, samples: int, first: int = 0) -> list[int]:
    """Count the violating samples of `scores` in each group of the batch.

    Arguments as for `batch_loss`.
    """
    counts = [0] * math.ceil(samples / group)
    for position, (answer, *negatives) in enumerate(scores, first):
        counts[position // group] += sum(bool(negative > answer) for negative in negatives)
    return counts
