"""EgoThink's mean over dimensions, of scores and of differences."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.metrics import average
from lmms_egoplan.report.egothink.answers import EgoThinkTask
from lmms_egoplan.report.scores import Answer
from lmms_egoplan.stats.intervals import Interval, stratified_interval, stratified_score_interval
from lmms_egoplan.stats.means import Mean


def mean_of_scores(answers: Sequence[Answer]) -> Mean:
    """Return the plain mean over the answers' dimensions."""
    return _mean_of_dimensions(
        answers, partial(stratified_score_interval, top=EgoThinkTask.largest)
    )


def mean_of_differences(answers: Sequence[Answer]) -> Mean:
    """Return the plain mean over the answers' dimensions, for differences."""
    return _mean_of_dimensions(answers, stratified_interval)


def _mean_of_dimensions(
    answers: Sequence[Answer], interval_of: Callable[[Sequence[Sequence[float]]], Interval]
) -> Mean:
    """Return the `average` of the dimensions of the answers with a score.

    Args:
        answers: The answers.
        interval_of: Returns the interval of scores by dimension.
    """
    scores: dict[str, list[float]] = {}
    for answer in answers:
        score = answer.scores["score"]
        if score is not None:
            scores.setdefault(dimension_of(answer.id), []).append(score)
    strata = [*scores.values()]
    count = sum(map(len, strata))
    if not count:
        return Mean(questions=0, clusters=0)
    scores_of_dimensions = [fmean(stratum) for stratum in strata]
    return Mean(average(scores_of_dimensions), interval_of(strata), count, count)
