"""How far a judge's ratings of the same answers differ when it is asked several times."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Noise:
    """Ratings of the same answers in several repeats.

    scores: of each repeat, over the answers with a rating in all of them; empty where there are none.
    answers: how many these are.
    left_out: how many lack a rating in some repeat.
    changed: share in [0, 1] of the answers whose ratings are not all the same; None without answers.
    rating_sd: mean over the answers of the standard deviation of their ratings; None without answers.
    """

    scores: tuple[float, ...]
    answers: int
    left_out: int
    changed: float | None
    rating_sd: float | None

    @property
    def score(self) -> float | None:
        """Mean score; None without answers."""
        return fmean(self.scores) if self.scores else None

    @property
    def score_sd(self) -> float | None:
        """Sample standard deviation of the scores; None without answers."""
        return stdev(self.scores) if self.scores else None


def noise(ratings: Sequence[Sequence[float | None]]) -> Noise:
    """Measure the noise of some answers; their score is the mean rating.

    Args:
        ratings: of each answer, as many as there are repeats, at least two; None where there is none.

    Raises:
        ValueError: fewer than two repeats, or not as many for each answer.

    >>> found = noise([(1.0, 1.0), (0.5, 0.0), (1.0, None)])
    >>> found.scores, found.answers, found.left_out, found.changed
    ((0.75, 0.5), 2, 1, 0.5)
    """
    if len({len(repeated) for repeated in ratings}) > 1 or any(len(repeated) < 2 for repeated in ratings):
        raise ValueError("expected as many ratings of each answer, at least two")
    rated = [[rating for rating in repeated if rating is not None] for repeated in ratings if None not in repeated]
    return Noise(
        scores=tuple(fmean(repeat) for repeat in zip(*rated, strict=True)),
        answers=len(rated),
        left_out=len(ratings) - len(rated),
        changed=fmean(len(set(repeated)) > 1 for repeated in rated) if rated else None,
        rating_sd=fmean(stdev(repeated) for repeated in rated) if rated else None,
    )


def noise_of_average(parts: Sequence[Noise]) -> Noise:
    """Measure the noise of the mean over the scores of several parts; other values are over all their answers.

    Parts without answers have no score, and then neither has the average.
    """
    answers = sum(part.answers for part in parts)
    is_whole = bool(parts) and all(part.answers for part in parts)
    return Noise(
        scores=tuple(fmean(repeat) for repeat in zip(*(part.scores for part in parts), strict=True))
        if is_whole
        else (),
        answers=answers,
        left_out=sum(part.left_out for part in parts),
        changed=sum((part.changed or 0) * part.answers for part in parts) / answers if answers else None,
        rating_sd=sum((part.rating_sd or 0) * part.answers for part in parts) / answers if answers else None,
    )
