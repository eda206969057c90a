"""What EgoIntent's scores are over, and their intervals."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lmms_egoplan.benchmarks.egointent.prepare import PAPER
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS
from lmms_egoplan.benchmarks.egointent.report.answers import Graded, Step
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.report.statistics import bootstrap_interval

DECIMALS = 2
OFFICIAL = PAPER["steps"]
SCORES = ("overall", *FIELDS, *ENVIRONMENTS)

Intervals = Mapping[str, Mapping[str, tuple[float, float]]]
"""By run, then score."""


def annotated(run: Graded) -> int | None:
    """Steps of the annotation file that the run's are of; None where the harness does not tell."""
    asked, coverage = run.number("num_steps"), run.number("coverage")
    return round(asked / coverage) if asked and coverage else None


def official_coverage(run: Graded) -> float | None:
    """Share of the paper's steps that the score is over, of which fields that no judge rated are not; 1 at most."""
    asked = run.number("num_steps")
    unjudged = (run.number("parsed") or 0) * (1 - (run.number("judge_coverage") or 0))
    return None if asked is None else min(1.0, asked / OFFICIAL) * (1 - unjudged)


def is_by_demo(run: Graded) -> bool:
    """Whether ratings are by the demo judge, and mean nothing."""
    return DEMO in (run.judge or "").split(", ")


def compares(run: Graded) -> bool:
    """Whether the scores compare with the published ones: over the paper's steps, all of them, rated by a judge."""
    return not run.is_goalstep and annotated(run) == OFFICIAL and official_coverage(run) == 1 and not is_by_demo(run)


def intervals_of(run: Graded) -> dict[str, tuple[float, float]]:
    """Of the scores that have one."""
    found = {}
    for name in SCORES if run.steps else ():
        interval = _interval(_scored(run, name), (name,) if name in FIELDS else FIELDS)
        if interval is not None:
            found[name] = interval
    return found


def counts(run: Graded, name: str) -> tuple[int | None, int | None, int | None]:
    """Steps, videos and ratings of a score; None without samples."""
    if run.steps is None:
        return None, None, None
    steps = _scored(run, name)
    names = (name,) if name in FIELDS else FIELDS
    rated = sum(step.graded.ratings[field] is not None for step in steps for field in names)
    return len(steps), len({step.video_id for step in steps}), rated


def _scored(run: Graded, name: str) -> list[Step]:
    """The steps that a score is over."""
    return [step for step in (run.steps or {}).values() if name not in ENVIRONMENTS or step.environment == name]


def _interval(steps: Sequence[Step], names: Sequence[str]) -> tuple[float, float] | None:
    """95 % interval of the mean of the fields' scores, as `metrics` has them, by a bootstrap that draws videos."""
    sums: dict[str, np.ndarray] = {}
    for step in steps:
        rows = [_count(step.graded, field) for field in names]
        sums[step.video_id] = sums.get(step.video_id, 0) + np.array(rows)
    of_videos = np.array(list(sums.values()))

    def score(drawn: np.ndarray) -> float:
        asked, found, judged, total = of_videos[drawn.astype(int)].sum(axis=0).T
        if (judged[found > 0] == 0).any():
            return math.nan
        return float(np.mean(found / asked * total / np.maximum(judged, 1)))

    return bootstrap_interval(range(len(sums)), list(sums), score)


def _count(step: GradedStep, field: str) -> tuple[int, bool, bool, float]:
    """What a step adds to a field's steps, found and judged ones, and to the sum of the ratings of the latter."""
    rating = step.ratings[field] if field in step.fields else None
    return 1, field in step.fields, rating is not None, rating or 0.0
