"""Measure what the video adds to ranked choices: a run's own task ("seen"), and its questions
without it ("unseen").

The measures, which ``gain.yaml`` lists, are this project's.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.report.answers import Series
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report.scores import Answer, mean_of
from lmms_egoplan.report.tables import Value

MEASURES: dict[str, tuple[str, str, float]] = module_yaml(__file__)
"""Label, unit, and factor for the unit of each measure."""


Logprobs = Sequence[float | None] | None


def information_gain(
    seen: Logprobs, unseen: Logprobs, gold: int
) -> tuple[float, float] | tuple[None, None]:
    """Return what seeing adds to the right choice, and to its margin over the best wrong one.

    Args:
        seen, unseen: Log-probabilities of the choices, at least two, in nats or nats per token;
        None if unknown. gold: Index of the right choice.

    Returns:
        Both in the unit of the log-probabilities; None if one of these is unknown or not finite.

    >>> information_gain([-1.0, -3.0, -5.0], [-2.0, -2.5, -2.25], gold=0)  # the margin grows from 0.25 to 2
    (1.0, 1.75)
    >>> information_gain([-1.0, None], [-2.0, -2.5], gold=0)
    (None, None)
    """
    if (
        seen is None
        or unseen is None
        or not np.isfinite(values := np.array([seen, unseen], dtype=float)).all()
    ):
        return None, None
    margins = values[:, gold] - np.delete(values, gold, axis=1).max(axis=1)
    return float(values[0, gold] - values[1, gold]), float(margins[0] - margins[1])


def with_gains(series: Sequence[Series]) -> list[Series]:
    """Add the scores of `MEASURES` to the answers whose question the same run also answered without
    the video.

    Inexact tasks have none.
    """
    exact = [task for task in series if task.is_ranked and not task.inexact]
    blind = {(task.run.name, task.task): task.answers or {} for task in exact if task.unseen}
    results = []
    for task in series:
        unseen = (
            blind.get((task.run.name, f"{task.task}_blind"), {})
            if task.is_main and task in exact
            else {}
        )
        new = {
            key: _with_gain(x, unseen[key])
            for key, x in (task.answers or {}).items()
            if key in unseen
        }
        results.append(replace(task, answers={**task.answers, **new}) if task.answers else task)
    return results


def _with_gain(seen: Answer, unseen: Answer) -> Answer:
    scores: dict[str, float | None] = dict.fromkeys(MEASURES)
    for end, kind in (("", "sums"), ("_token", "logprobs")):
        pair = getattr(seen.record, kind), getattr(unseen.record, kind)
        scores[f"gain{end}"], scores[f"gain_margin{end}"] = information_gain(
            *pair, LETTERS.index(str(seen.key[2]))
        )
    first, second = seen.scores["acc"], unseen.scores["acc"]
    if first is not None and second is not None:
        shares = second, first * (1 - second), (1 - first) * second, (1 - first) * (1 - second)
        scores |= dict(zip(("without", "only_with", "only_without", "never"), shares, strict=True))
    return replace(seen, scores={**seen.scores, **scores})


def gain_rows(series: Iterable[Series]) -> Iterator[dict[str, Value]]:
    """Yield a row for each measure of each run that has both tasks, also for measures without a
    value.
    """
    for task in series:
        paired = [answer for answer in (task.answers or {}).values() if "gain" in answer.scores]
        for measure, (label, unit, scale) in MEASURES.items() if paired else ():
            # Shares have the factor for per cent; gains have no bounds.
            mean = mean_of(paired, measure, scale, top=100 if scale == 100 else None)
            row = {"run": task.run.name, "task": task.task, "measure": label, "unit": unit}
            yield row | mean.cells("value") | {"questions": mean.questions, "asked": len(paired)}
