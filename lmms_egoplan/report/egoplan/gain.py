"""Measure what the video adds to ranked choices.

Compare a run's own task ("seen") with the same questions without the video ("unseen"). The
measures are this project's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.report.egoplan.answers import BLIND, Choice, Series
from lmms_egoplan.report.scores import Answer, Key, mean_of
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs


@dataclass(frozen=True)
class Measure:
    """A measure of what the video adds.

    Attributes:
        label: Its name in the table.
        unit: Unit in the table.
        scale: Factor from a score to the unit. Shares have the factor for per cent.
    """

    label: str
    unit: str
    scale: float = 1


MEASURES = {
    "gain": Measure("added to the right choice", "nats"),
    "gain_margin": Measure("added to its margin", "nats"),
    "gain_token": Measure("added to the right choice", "nats per token"),
    "gain_margin_token": Measure("added to its margin", "nats per token"),
    "without": Measure("right without seeing", "%", 100),
    "only_with": Measure("right only with seeing", "%", 100),
    "only_without": Measure("right only without seeing", "%", 100),
    "never": Measure("never right", "%", 100),
}
"""The measures by the name of their scores, in the table's order."""


Logprobs = Sequence[float | None] | None


def information_gain(
    seen: Logprobs, unseen: Logprobs, gold: int
) -> tuple[float, float] | tuple[None, None]:
    """Return what seeing adds to the right choice, and to its margin over the best wrong one.

    Args:
        seen, unseen: Log-probabilities of the choices, at least two, in nats or nats per token;
            None if unknown.
        gold: Index of the right choice.

    Returns:
        Both in the unit of the log-probabilities; None if one of these is unknown or not finite.

    >>> seen, unseen = [-1.0, -3.0, -5.0], [-2.0, -2.5, -2.25]
    >>> information_gain(seen, unseen, gold=0)  # the margin grows from 0.25 to 2
    (1.0, 1.75)
    >>> information_gain([-1.0, None], [-2.0, -2.5], gold=0)
    (None, None)
    """
    if seen is None or unseen is None:
        return None, None
    logprobs = np.array([seen, unseen], dtype=float)
    if not np.isfinite(logprobs).all():
        return None, None
    right = logprobs[:, gold]
    best_wrong = np.delete(logprobs, gold, axis=1).max(axis=1)
    margins = right - best_wrong
    return float(right[0] - right[1]), float(margins[0] - margins[1])


def with_gains(series: Sequence[Series]) -> list[Series]:
    """Add the scores of `MEASURES` to the answers of tasks with the video.

    The same run must also have answered the question without the video. Inexact tasks have none.
    """
    unseen_answers = {
        (task.run.name, task.condition_of): task.answers or {}
        for task in series
        if _is_exact(task) and task.shortcut == BLIND
    }
    results = []
    for task in series:
        if task.answers and task.is_main and _is_exact(task):
            unseen = unseen_answers.get((task.run.name, task.task), {})
            task = replace(task, answers=_with_gains(task.answers, unseen))
        results.append(task)
    return results


def _is_exact(task: Series) -> bool:
    return task.is_ranked and not task.ranking_flaw


def _with_gains(seen: Mapping[Key, Answer], unseen: Mapping[Key, Answer]) -> dict[Key, Answer]:
    answers = dict(seen)
    for key, answer in seen.items():
        if key in unseen:
            answers[key] = _with_gain(answer, unseen[key])
    return answers


def _with_gain(seen: Answer, unseen: Answer) -> Answer:
    """Add the scores of `MEASURES` to an answer."""
    seen_choice: Choice = seen.record
    unseen_choice: Choice = unseen.record
    gold = LETTERS.index(str(seen.key[2]))
    scores: dict[str, float | None] = dict.fromkeys(MEASURES)
    scores["gain"], scores["gain_margin"] = information_gain(
        seen_choice.sums, unseen_choice.sums, gold
    )
    scores["gain_token"], scores["gain_margin_token"] = information_gain(
        seen_choice.logprobs, unseen_choice.logprobs, gold
    )
    right_seen = seen.scores["acc"]
    right_unseen = unseen.scores["acc"]
    if right_seen is not None and right_unseen is not None:
        scores["without"] = right_unseen
        scores["only_with"] = right_seen * (1 - right_unseen)
        scores["only_without"] = (1 - right_seen) * right_unseen
        scores["never"] = (1 - right_seen) * (1 - right_unseen)
    return replace(seen, scores={**seen.scores, **scores})


def gain_rows(series: Iterable[Series]) -> Iterator[dict[str, Value]]:
    """Yield a row for each measure of each run that has both tasks.

    Rows of measures without a value have only names.
    """
    for task in series:
        paired = [answer for answer in (task.answers or {}).values() if "gain" in answer.scores]
        if not paired:
            continue
        for name, measure in MEASURES.items():
            is_share = measure.scale == 100
            # Gains have no bounds.
            mean = mean_of(paired, name, measure.scale, top=100 if is_share else None)
            row: dict[str, Value] = {
                "run": task.run.name,
                "task": task.task,
                "measure": measure.label,
                "unit": measure.unit,
            }
            if mean.value is not None:
                row |= {"questions": mean.questions, "asked": len(paired)}
            yield {**row, **mean.cells("value")}


def gain_table(benchmark: str, tasks: Sequence[Series]) -> Table | None:
    """Build the table of what the video adds; None without a run of both tasks."""
    rows = list(gain_rows(tasks))
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task", is_condition=True),
        Column("measure", "Measure"),
        Column("unit", "Unit"),
        Column("value", "Value", decimals=2),
        *interval_columns("value", decimals=2),
        Column("questions", "Questions", note="Questions: those with a value.", is_condition=True),
        Column("asked", "Asked", note="Asked: questions in both tasks.", is_condition=True),
    )
    notes = [
        (
            "Seen: the run's own task. Unseen: the same run's task with the suffix "
            "_blind, which asks the same questions without the video. A gain's "
            "interval is from a bootstrap of the videos, with both tasks together."
        ),
        (
            "Added to the right choice: its log-probability when the video is seen, minus that "
            "when it is not. Margin: the right choice's log-probability minus that of the best "
            "wrong one. In nats, log-probabilities are sums over the tokens; per token, means, "
            "which rank the choices. A backend that reports only means has no values in nats, "
            "one that reports only sums none per token."
        ),
        (
            "Right without seeing: the accuracy of the unseen task. It includes the "
            "questions that are right only without seeing. A model that ignores the "
            "video adds 0 nats, and is never right only with seeing."
        ),
    ]
    title = "What the video adds to the ranked choices"
    return table_of_runs(f"{benchmark}_gain", title, columns, rows, notes)
