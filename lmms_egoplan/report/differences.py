"""Differences of two tasks' main scores."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from lmms_egoplan.report import document
from lmms_egoplan.report.comparability import unequal
from lmms_egoplan.report.headlines import why_no_interval_of
from lmms_egoplan.report.scores import Answer, ScoredTask, is_score
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.stats.intervals import difference_test
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.text import join_list


def difference_of(
    first: ScoredTask,
    second: ScoredTask,
    spec: Spec,
    mean_of_differences: Callable[[Sequence[Answer]], Mean],
) -> document.Difference | None:
    """Compare two tasks' main scores over the questions with scores in both.

    Return None without such questions.

    Args:
        first: The first task.
        second: The second task.
        spec: The benchmark's facts.
        mean_of_differences: See `BenchmarkReport.mean_of_differences`.
    """
    measure = spec.measure
    second_answers = second.answers or {}
    shared: list[Answer] = []
    pairs: list[tuple[float, float]] = []
    clusters: list[str] = []
    for key, answer in (first.answers or {}).items():
        if key not in second_answers:
            continue
        first_score = answer.scores.get(measure)
        second_score = second_answers[key].scores.get(measure)
        if is_score(first_score) and is_score(second_score):
            pairs.append((first_score, second_score))
            clusters.append(str(answer.cluster))
            shared.append(replace(answer, scores={measure: first_score - second_score}))
    if not shared:
        return None
    why = _why_not_comparable(first, second)
    mean = mean_of_differences(shared)
    low, high = mean.ends
    return document.Difference(
        first=first.run.name,
        second=second.run.name,
        task=first.task,
        value=mean.value or 0.0,
        low=low,
        high=high,
        questions=len(shared),
        won=sum(one > other for one, other in pairs),
        lost=sum(one < other for one, other in pairs),
        no_interval=why_no_interval_of(mean, spec.clusters),
        why=why,
        p_value=None if why else difference_test(np.array(pairs), clusters)[1],
    )


def _why_not_comparable(first: ScoredTask, second: ScoredTask) -> str:
    """Return why two tasks are not comparable with each other; "" if they are.

    Reasons why both are not comparable with published scores do not matter.
    """
    names = dict.fromkeys(part.name for part in unequal(first, second))
    if names:
        return f"different {join_list([*names])}"
    flaws = dict.fromkeys(task.ranking_flaw for task in (first, second) if task.ranking_flaw)
    if flaws:
        return join_list([*flaws])
    has_same_questions = {*(first.answers or ())} == {*(second.answers or ())}
    if (first.task_run.subset or second.task_run.subset) and not has_same_questions:
        return "estimates from different questions"
    return ""
