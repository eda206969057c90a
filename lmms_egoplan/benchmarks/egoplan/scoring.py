"""Ranking the choices of a question by the likelihoods that a model gives them (sec. 3.5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lmms_egoplan.ranking.loglikelihood import Loglikelihood


@dataclass(frozen=True)
class Ranking:
    """Index of the choice that each score prefers, the first of equals.

    by_mean: highest mean log-probability per token; None if one is unknown. Sec. 3.5 says only "likelihood p(a|v, l)";
        the mean is inferred from eq. 4, the score of a candidate in the training loss.
    by_sum, by_bytes: highest sum of log-probabilities, the sum divided by the choice's UTF-8 bytes; None if one is
        unknown (lmms-eval's stock backends give means, lm-eval's model classes sums; both with a token count).
    tied: whether several choices share the best mean.

    All are None if a score is not finite.
    """

    by_mean: int | None
    by_sum: int | None
    by_bytes: int | None
    tied: bool


def rank(scores: Sequence[Loglikelihood], choices: Sequence[str]) -> Ranking:
    """Rank the choices of a question by their likelihoods (sec. 3.5).

    Args:
        scores: one per choice.
        choices: their texts, at least one, none empty.

    Raises:
        ValueError: not one score per choice.

    >>> scores = [Loglikelihood(loss=1.0, num_tokens=2), Loglikelihood(loss=0.75, num_tokens=4)]
    >>> rank(scores, ["open the tap", "dry the hands with a towel"])
    Ranking(by_mean=1, by_sum=0, by_bytes=1, tied=False)
    """
    if len(scores) != len(choices):
        raise ValueError(f"expected a score for each of {len(choices)} choices, got {len(scores)}")
    losses = [score.loss for score in scores if score.loss is not None]
    sums = [score.logprob for score in scores if score.logprob is not None]
    if not all(map(math.isfinite, losses + sums)):
        return Ranking(None, None, None, tied=False)
    by_mean, by_sum, by_bytes, tied = None, None, None, False
    if len(losses) == len(choices):
        by_mean, tied = losses.index(min(losses)), losses.count(min(losses)) > 1
    if len(sums) == len(choices):
        per_byte = [total / len(choice.encode()) for total, choice in zip(sums, choices, strict=True)]
        by_sum, by_bytes = sums.index(max(sums)), per_byte.index(max(per_byte))
    return Ranking(by_mean, by_sum, by_bytes, tied)
